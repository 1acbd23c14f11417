// The loop of the fuzzer: makes cases, judges them, shrinks failures.
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
  std::uint64_t cases = ~std::uint64_t{0};  ///< whether to make distribution cases instead of calls
  double seconds = 0;                       ///< 0: no limit
  std::string property_glob = "*";
  bool statistical = false;  ///< whether to report the first failure of every property, instead of
                             ///< the first failure only
  bool keep_going = false;   ///< reports the first failure of every property, instead of the first
                             ///< failure only
  GenerateOptions generate;
  std::function<bool()> stop = [] {
    return false;
  };  ///< called after each case; true ends the search
};

struct Finding {
  std::string property, message;
  std::uint64_t case_number = 0;  ///< number of the case in the run; --first-case finds the
                                  ///< unshrunk case again
  FuzzCase original, shrunk;
  std::uint64_t evaluations = 0;  ///< number of judgements that shrinking took
};

struct FuzzStatistics {
  std::uint64_t cases = 0;
  std::uint64_t judged = 0;       ///< number of properties that held or failed
  std::uint64_t skipped = 0;      ///< number of properties that did not apply to a case
  std::uint64_t unconfirmed = 0;  ///< number of statistical failures that fresh draws did not
                                  ///< confirm
  bool stopped = false;           ///< whether FuzzOptions::stop ended the search
  double seconds = 0;
  std::map<std::string, std::uint64_t> judged_by_property;
};

struct FuzzResult {
  FuzzStatistics statistics;
  std::vector<Finding> findings;
};

/// Function that is called after each case.
using FuzzProgress = std::function<void(const FuzzStatistics&)>;

/// Fuzzes the sampler. Case i is a function of (seed, i), the sampler's description and `generate`,
/// so without a time limit the result is the same on every machine. Throws harness::UsageError if
/// no property has the given name.
FuzzResult fuzz(harness::Sampler& sampler, const reference::Semantics& semantics,
                const FuzzOptions& options, const FuzzProgress& progress = {});

/// Returns the shrunk case as a capsule, for a distribution case with the sampler's draws.
Capsule capsule_of(const Finding& finding, harness::Sampler& sampler,
                   const reference::Semantics& semantics);

}  // namespace fairdraw::suites::fuzz
