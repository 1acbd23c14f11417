// Runs jobs in parallel, and makes the record of the run. The runner does not know the tables of
// cases: each job has its identity and the functions to call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/checks/check.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::harness {

/// A function that makes a new instance of a sampler. Each job makes its own instance, so samplers
/// need not be thread-safe.
using SamplerFactory = std::function<std::unique_ptr<Sampler>()>;

/// Values that replace those of a job's case.
struct Variation {
  std::int64_t vocab = 0;                ///< 0: the case's own
  std::int64_t first_row = 0, rows = 0;  ///< the rows of the case that are judged; 0 rows: all
  /// Maximum number of requests in a call of checks that choose this number; 0: their own.
  std::int64_t requests_of_call = 0;
  std::uint64_t seed = 0;  ///< other than 0: chooses other logits and random words
  /// The subject of conditions (calls/conditions.h) that the rows no longer have; they say the same
  /// without it, if they can. Empty: the rows stay as they are.
  std::string_view without = {};
};

/// One case to run for one sampler.
struct Job {
  CaseRecord record;  ///< filled in: id, suite, check, sampler, semantics, vocab, replay
  SamplerFactory make_sampler;
  std::function<CheckOutcome(Sampler&)> check;
  /// For a comparison with another sampler: makes the other sampler, which has the same limits as
  /// the judged one. If this function is set, `compare` replaces `check`.
  SamplerFactory make_other = {};
  std::function<CheckOutcome(Sampler&, Sampler& other)> compare = {};
  double seconds = 0;  ///< time limit of the case in seconds; 0: none
  /// Returns the job of a neighbouring case; absent if the case has none.
  std::function<Job(const Variation&)> neighbour = {};
};

/// A function that is called after each job, one call at a time, in the order in which jobs end.
using Progress = std::function<void(const CaseRecord&, std::size_t done, std::size_t all)>;

/// A function that is called at the start of a job, from the job's thread; several calls may run at
/// the same time.
using Begun = std::function<void(const CaseRecord&)>;

/// A function that is called before each job; if it returns true, no further job begins.
using Stop = std::function<bool()>;

/// Returns the records in the order of the jobs, for any number of `threads`; if `stop` ended the
/// run, only the records of jobs that began. An exception that a job throws gives its case the
/// verdict error, except an EndOfRun, which is thrown again. A sampler's own OpenMP threads share
/// the machine, so each job may use hardware threads / `threads` of them. After `seconds` (0: no
/// limit) no call begins, and cases that have not ended by then are errors, with this reason.
std::vector<CaseRecord> run_jobs(const std::vector<Job>& jobs, unsigned threads,
                                 const Progress& progress, double seconds = 0,
                                 const Stop& stop = {}, const Begun& begun = {});

/// Returns facts about the host (cpu, compiler, threads, sanitizers) and the time of the call.
std::map<std::string, std::string> host_environment();

}  // namespace fairdraw::harness
