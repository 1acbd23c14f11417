// A case before a sampler. What several properties ask for is worked out once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "suites/gate/fuzz/fuzz_case.h"

namespace fairdraw::suites::fuzz {

/// A relation would ask for what the sampler does not offer: it says nothing about this case.
class MissingAbility : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Subject {
 public:
  /// All three must outlive the subject.
  Subject(harness::Sampler& sampler, const reference::Semantics& semantics,
          const FuzzCase& fuzz_case);

  const FuzzCase& fuzz_case() const { return case_; }
  const harness::Request& request() const { return case_.request; }
  const harness::SamplerDescription& description() const { return sampler_.description(); }
  const reference::Semantics& semantics() const { return semantics_; }

  /// Tokens and masks are compared with the integer model.
  bool exact() const;
  /// A token is a function of its row, parameters, seed and offset alone: the sampler says so, and
  /// the case gives each output a seed, or words, of its own.
  bool outputs_stand_alone() const;

  /// The answer to the case's request, with everything that the sampler reports.
  const harness::Response& response();
  /// The same call for another request. Throws MissingAbility.
  harness::Response run(const harness::Request& request);
  harness::ChainResponse run_chain(const harness::ChainRequest& chain);
  harness::Sampler& sampler() { return sampler_; }

  /// What the integer model says of a row of the request.
  const reference::IntegerRow& model(std::int64_t row);

  /// The case as an input of the harness's checks: rows and parameters are those of the request,
  /// seeds come from the salt. Nothing where it has what inputs have not (masks of allowed ids).
  std::optional<harness::CheckInput> check_input();
  /// Semantics, sampler, tie rule and filter order alone: what distribution_of() asks for.
  harness::CheckInput bare_input() const;

 private:
  harness::Sampler& sampler_;
  const reference::Semantics& semantics_;
  const FuzzCase& case_;
  std::optional<harness::Response> response_;
  std::vector<std::optional<reference::IntegerRow>> models_;
  std::unique_ptr<harness::LogitsSource> rows_;
};

/// The rows of a request, which must outlive them, as the checks of the harness take them.
std::unique_ptr<harness::LogitsSource> rows_of(const harness::Request& request);

}  // namespace fairdraw::suites::fuzz
