// Runs jobs in parallel and makes the record. It knows nothing of case tables: a job brings its
// identity and what to call.
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

/// A fresh instance of a sampler; each job has its own, so that samplers need not be thread-safe.
using SamplerFactory = std::function<std::unique_ptr<Sampler>()>;

/// One case under one sampler.
struct Job {
  CaseRecord record;  ///< identity filled in: id, suite, check, sampler, semantics, vocab, replay
  SamplerFactory make_sampler;
  std::function<CheckOutcome(Sampler&)> check;
  /// Where there is another sampler to compare with: it, under the limits of the judged one, and
  /// the check of both, in place of `check`.
  SamplerFactory make_other = {};
  std::function<CheckOutcome(Sampler&, Sampler& other)> compare = {};
  double seconds = 0;  ///< that the case may take; 0: as many as it likes
};

/// Called after each job, one call at a time, in the order in which jobs end.
using Progress = std::function<void(const CaseRecord&, std::size_t done, std::size_t all)>;

/// Called when a job is begun, from its thread: several calls at a time.
using Begun = std::function<void(const CaseRecord&)>;

/// Asked before each job; true: no further one is begun.
using Stop = std::function<bool()>;

/// Records in the order of the jobs, whatever `threads` is; of those that were begun, where `stop`
/// said so. An exception out of a job is a case
/// with verdict error, but for an EndOfRun, which is thrown again. A sampler's own OpenMP threads
/// share the machine: each job may use hardware threads / `threads` of them. After `seconds` (0: no
/// limit) no call is begun: the cases that are not over, or not begun, then are errors, which say
/// so.
std::vector<CaseRecord> run_jobs(const std::vector<Job>& jobs, unsigned threads,
                                 const Progress& progress, double seconds = 0,
                                 const Stop& stop = {}, const Begun& begun = {});

/// Facts about the host: cpu, compiler, threads, sanitizers; and when it was asked.
std::map<std::string, std::string> host_environment();

}  // namespace fairdraw::harness
