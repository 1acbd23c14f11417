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

/// Returns a job that judges the case. `run_seed`: seed of the run; the case's own seed is derived
/// from it and the id. `false_fail_rate`: the share of the error budget for the case. `counts`: the
/// source of draws of one row; null: the sampler. The job keeps copies of `entry` and `semantics`.
harness::Job make_job(const Case& entry, const std::string& sampler_name,
                      harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                      std::uint64_t run_seed, double false_fail_rate,
                      std::shared_ptr<harness::CountSource> counts = nullptr);

/// Returns a job that makes a part of the draws of look 0 or 1 of a case that can_be_split(). The
/// outcome of the job holds the counts and no verdict, except a verdict that needs no draws
/// (skipped, underpowered).
harness::Job make_part(const Case& entry, const std::string& sampler_name,
                       harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                       std::uint64_t run_seed, double false_fail_rate, harness::CasePart part,
                       int look);

/// Returns whether `entry` can compare two samplers: draws of one row are compared by
/// check_same_distribution, with twice the declared discrepancy (because both samples vary), and
/// masks and tokens by check_same_results. All other cases judge a single sampler.
bool is_comparable(const Case& entry);

/// Returns a job that compares the sampler with that of `make_other`. Precondition:
/// is_comparable(entry).
harness::Job make_comparison(const Case& entry, const std::string& sampler_name,
                             harness::SamplerFactory make_sampler,
                             harness::SamplerFactory make_other,
                             const reference::Semantics& semantics, std::uint64_t run_seed,
                             double false_fail_rate);

}  // namespace fairdraw::suites
