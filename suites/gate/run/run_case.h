// Makes jobs for the runner from a case and a sampler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/run/calls/draws.h"
#include "harness/run/runner.h"
#include "reference/semantics.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// Returns a job that judges the sampler by the case. `run_seed` is the seed of the run; the case's
/// own seed follows from it and from the id. `false_fail_rate` is the case's share of the error
/// budget. `counts` is the source of the draws from one row; if it is null, the sampler draws. The
/// job keeps copies of `entry` and `semantics`.
harness::Job make_job(const Case& entry, const std::string& sampler_name,
                      harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                      std::uint64_t run_seed, double false_fail_rate,
                      std::shared_ptr<harness::CountSource> counts = nullptr);

/// Returns a job that makes a part of the draws of look 0 or 1, for a case that can_be_split(). The
/// outcome of the job has the counts and no verdict, except for a verdict that needs no draws
/// (skipped, underpowered).
harness::Job make_part(const Case& entry, const std::string& sampler_name,
                       harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                       std::uint64_t run_seed, double false_fail_rate, harness::CasePart part,
                       int look);

/// Returns whether `entry` can compare two samplers. Draws from one row are compared by
/// check_same_distribution, with twice the declared discrepancy (because both samples vary). Masks
/// and tokens are compared by check_same_results. All other cases judge a single sampler.
bool is_comparable(const Case& entry);

/// Returns a job that compares the sampler with the sampler that `make_other` makes. Precondition:
/// is_comparable(entry).
harness::Job make_comparison(const Case& entry, const std::string& sampler_name,
                             harness::SamplerFactory make_sampler,
                             harness::SamplerFactory make_other,
                             const reference::Semantics& semantics, std::uint64_t run_seed,
                             double false_fail_rate);

}  // namespace fairdraw::suites
