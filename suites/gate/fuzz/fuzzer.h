// The main loop of the fuzzer: it makes cases, judges them, and shrinks failures.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "suites/gate/fuzz/capsule.h"
#include "suites/gate/fuzz/generate.h"
#include "suites/gate/fuzz/properties.h"

namespace fairdraw::suites::fuzz {

struct FuzzOptions {
  std::uint64_t seed = 0;
  std::uint64_t first_case = 0;
  std::uint64_t cases = ~std::uint64_t{0};  ///< largest number of cases
  double seconds = 0;                       ///< 0: no limit
  std::string property_glob = "*";
  bool statistical = false;  ///< true if distribution cases are made instead of calls
  bool keep_going = false;   ///< true if the first failure of every property is reported, and not
                             ///< only the first failure of the run
  GenerateOptions generate;
  std::function<bool()> stop = [] {
    return false;
  };  ///< function that is called after each case; if it returns true, the search ends
};

struct Finding {
  std::string property, message;
  std::uint64_t case_number = 0;  ///< number of the case in the run; --first-case finds the case
                                  ///< again, before shrinking
  FuzzCase original, shrunk;
  std::uint64_t evaluations = 0;  ///< number of judgements that shrinking needed
};

struct FuzzStatistics {
  std::uint64_t cases = 0;
  std::uint64_t judged = 0;       ///< number of properties that held or failed
  std::uint64_t skipped = 0;      ///< number of properties that did not apply to a case
  std::uint64_t unconfirmed = 0;  ///< number of statistical failures that fresh draws did not
                                  ///< confirm
  bool stopped = false;           ///< true if FuzzOptions::stop ended the search
  double seconds = 0;
  std::map<std::string, std::uint64_t> judged_by_property;
};

struct FuzzResult {
  FuzzStatistics statistics;
  std::vector<Finding> findings;
};

/// A function that is called after each case.
using FuzzProgress = std::function<void(const FuzzStatistics&)>;

/// Fuzzes the sampler. Case i is a function of (seed, i), the sampler's description and `generate`.
/// So without a time limit, the result is the same on every machine. Throws harness::UsageError if
/// no property has the given name.
FuzzResult fuzz(harness::Sampler& sampler, const reference::Semantics& semantics,
                const FuzzOptions& options, const FuzzProgress& progress = {});

/// Returns the shrunk case as a capsule; for a distribution case, the capsule has the sampler's
/// draws.
Capsule capsule_of(const Finding& finding, harness::Sampler& sampler,
                   const reference::Semantics& semantics);

}  // namespace fairdraw::suites::fuzz
