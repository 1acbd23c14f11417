// The loop: makes cases, judges them, shrinks what fails.
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
  std::uint64_t cases = ~std::uint64_t{0};  ///< how many at most
  double seconds = 0;                       ///< 0: no limit
  std::string property_glob = "*";
  bool statistical = false;  ///< distribution cases, in place of calls
  bool keep_going = false;   ///< every property's first failure, instead of the first one alone
  GenerateOptions generate;
  std::function<bool()> stop = [] {
    return false;
  };  ///< asked after each case: true ends the search
};

struct Finding {
  std::string property, message;
  std::uint64_t case_number = 0;  ///< of the run: --first-case finds it again, unshrunk
  FuzzCase original, shrunk;
  std::uint64_t evaluations = 0;  ///< that shrinking took
};

struct FuzzStatistics {
  std::uint64_t cases = 0;
  std::uint64_t judged = 0;       ///< properties that held or failed
  std::uint64_t skipped = 0;      ///< properties that said nothing about a case
  std::uint64_t unconfirmed = 0;  ///< statistical failures that fresh draws did not show again
  bool stopped = false;           ///< by FuzzOptions::stop
  double seconds = 0;
  std::map<std::string, std::uint64_t> judged_by_property;
};

struct FuzzResult {
  FuzzStatistics statistics;
  std::vector<Finding> findings;
};

/// Called after each case.
using FuzzProgress = std::function<void(const FuzzStatistics&)>;

/// Case i is a function of (seed, i), of what the sampler declares and of `generate`; so without a
/// limit of time the result is the same on every machine. Throws harness::UsageError where no
/// property has such a name.
FuzzResult fuzz(harness::Sampler& sampler, const reference::Semantics& semantics,
                const FuzzOptions& options, const FuzzProgress& progress = {});

/// The shrunk case as a capsule; of a distribution with what the sampler draws.
Capsule capsule_of(const Finding& finding, harness::Sampler& sampler,
                   const reference::Semantics& semantics);

}  // namespace fairdraw::suites::fuzz
