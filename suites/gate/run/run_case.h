// From a case and a sampler to a job that the runner takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "harness/run/calls/draws.h"
#include "harness/run/runner.h"
#include "reference/semantics.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// `run_seed`: the case draws from its own, derived from it and the id. `false_fail_rate`: what
/// the case may spend. `counts`: where draws of one row come from; null: from the sampler. The job
/// keeps `entry` and `semantics`.
harness::Job make_job(const Case& entry, const std::string& sampler_name,
                      harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                      std::uint64_t run_seed, double false_fail_rate,
                      std::shared_ptr<harness::CountSource> counts = nullptr);

/// A part of the draws of a case that can_be_split(), of look 0 or 1: its outcome holds the counts,
/// and no verdict. What the case's design says without draws (skipped, underpowered) it says too.
harness::Job make_part(const Case& entry, const std::string& sampler_name,
                       harness::SamplerFactory make_sampler, const reference::Semantics& semantics,
                       std::uint64_t run_seed, double false_fail_rate, harness::CasePart part,
                       int look);

/// What `entry` becomes where a sampler is compared with another: draws of one row in
/// check_same_distribution, with twice its stated discrepancy (two samples, and both of them
/// stray), masks and tokens in check_same_results. False for all others, which are about one
/// sampler.
bool is_comparable(const Case& entry);

/// As make_job, for the sampler against the one that `make_other` makes; `entry` is comparable.
harness::Job make_comparison(const Case& entry, const std::string& sampler_name,
                             harness::SamplerFactory make_sampler,
                             harness::SamplerFactory make_other,
                             const reference::Semantics& semantics, std::uint64_t run_seed,
                             double false_fail_rate);

}  // namespace fairdraw::suites
