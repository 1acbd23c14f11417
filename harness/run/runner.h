// Runs jobs in parallel and makes the record. The runner knows nothing of case tables: each job
// brings its identity and the functions to call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/checks/check.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// Makes a fresh instance of a sampler. Each job makes its own instance, so samplers need not be
/// thread-safe.
using SamplerFactory = std::function<std::unique_ptr<Sampler>()>;

/// One case to run under one sampler.
struct Job {
  CaseRecord record;  ///< identity filled in: id, suite, check, sampler, semantics, vocab, replay
  SamplerFactory make_sampler;
  std::function<CheckOutcome(Sampler&)> check;
  /// For a comparison with another sampler: makes the other sampler, which has the limits of the
  /// judged one. If set, `compare` replaces `check`.
  SamplerFactory make_other = {};
  std::function<CheckOutcome(Sampler&, Sampler& other)> compare = {};
  double seconds = 0;  ///< time limit of the case; 0: none
};

/// Function called after each job, one call at a time, in the order in which jobs end.
using Progress = std::function<void(const CaseRecord&, std::size_t done, std::size_t all)>;

/// Function called at the start of a job, from its thread; several calls may run at a time.
using Begun = std::function<void(const CaseRecord&)>;

/// Function called before each job; if it returns true, no further job begins.
using Stop = std::function<bool()>;

/// Returns records in the order of the jobs, for any number of `threads`; if `stop` ended the run,
/// only records of the jobs that began. An exception out of a job gives its case the verdict error,
/// except an EndOfRun, which is rethrown. A sampler's own OpenMP threads share the machine: each
/// job may use hardware threads / `threads` of them. After `seconds` (0: no limit) no call begins:
/// cases that have not ended by then are errors, with this reason.
std::vector<CaseRecord> run_jobs(const std::vector<Job>& jobs, unsigned threads,
                                 const Progress& progress, double seconds = 0,
                                 const Stop& stop = {}, const Begun& begun = {});

/// Returns facts about the host (cpu, compiler, threads, sanitizers) and the time of the call.
std::map<std::string, std::string> host_environment();

}  // namespace fairdraw::harness
