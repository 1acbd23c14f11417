// A fuzz case, and the sampler that is judged on it. Results that several properties need are
// computed once.
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

/// An exception for a relation that needs an ability which the sampler lacks; the relation then
/// does not apply.
class MissingAbility : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Subject {
 public:
  /// All three arguments must outlive the object.
  Subject(harness::Sampler& sampler, const reference::Semantics& semantics,
          const FuzzCase& fuzz_case);

  const FuzzCase& fuzz_case() const { return case_; }
  const harness::Request& request() const { return case_.request; }
  const harness::SamplerDescription& description() const { return sampler_.description(); }
  const reference::Semantics& semantics() const { return semantics_; }

  /// Returns whether tokens and masks are compared with the integer model exactly.
  bool exact() const;
  /// Returns whether a token is a function of only its row, parameters, seed and offset. The result
  /// is true if the sampler declares this, and the case gives each output its own seed or words.
  bool outputs_stand_alone() const;

  /// Returns the answer to the case's request, with all results that the sampler reports.
  const harness::Response& response();
  /// Returns the answer to another request. Throws MissingAbility.
  harness::Response run(const harness::Request& request);
  harness::ChainResponse run_chain(const harness::ChainRequest& chain);
  harness::Sampler& sampler() { return sampler_; }

  /// Returns the integer model of a row of the request.
  const reference::IntegerRow& model(std::int64_t row);

  /// Returns the case as an input of the harness's checks, with the rows and parameters of the
  /// request, and with seeds from the salt. Returns nothing if the case has masks of allowed ids,
  /// which check inputs cannot express.
  std::optional<harness::CheckInput> check_input();
  /// Returns a check input with only semantics, sampler, tie rule and filter order, as
  /// distribution_of() needs.
  harness::CheckInput bare_input() const;

 private:
  harness::Sampler& sampler_;
  const reference::Semantics& semantics_;
  const FuzzCase& case_;
  std::optional<harness::Response> response_;
  std::vector<std::optional<reference::IntegerRow>> models_;
  std::unique_ptr<harness::LogitsSource> rows_;
};

/// Returns the rows of a request in the form in which the harness's checks read rows. The request
/// must outlive the returned object.
std::unique_ptr<harness::LogitsSource> rows_of(const harness::Request& request);

}  // namespace fairdraw::suites::fuzz
