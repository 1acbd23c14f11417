#include "harness/run/runner.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "fairdraw/types.h"
#include "harness/contract/end_of_run.h"
#include "harness/contract/error_text.h"
#include "harness/run/calls/kept_answers.h"
#include "harness/run/calls/kept_float_environment.h"
#include "harness/run/evidence/coverage.h"
#include "harness/run/evidence/suspects.h"
#include "harness/run/parallel.h"
#include "harness/run/time_limit.h"

namespace fairdraw::harness {
namespace {

// Returns whether the draws of a case are marked.
bool has_marks(const CaseRecord& record) {
  return std::ranges::find(record.features, to_string(Feature::marks)) != record.features.end();
}

// Cuts the texts of a record, because a sampler's message may be megabytes long, and each case that
// the sampler breaks repeats the message.
void cut_texts(CaseRecord& record) {
  Evidence& evidence = record.evidence;
  for (std::string* const text : {&record.message, &record.watch, &evidence.observed,
                                  &evidence.expected, &evidence.smallest}) {
    *text = cut_text(std::move(*text));
  }
  for (Suspect& suspect : evidence.suspects) suspect.reason = cut_text(std::move(suspect.reason));
}

void run_job(const Job& job, const TimeLimit& run, CaseRecord& record) {
  const auto start = std::chrono::steady_clock::now();
  // Restores the runner's floating-point environment for the next case.
  const KeptFloatEnvironment scope;
  record = job.record;
  if (run.is_over()) {
    record.message = "not run: " + run_is_over(run);
    return;
  }
  try {
    const std::unique_ptr<Sampler> own = job.make_sampler();
    const std::unique_ptr<Sampler> second = job.make_other ? job.make_other() : nullptr;
    const TimeLimit limit(job.seconds);
    LimitedSampler sampler(*own, limit, run);
    std::optional<LimitedSampler> other;
    if (second) other.emplace(*second, limit, run);
    static_cast<CheckOutcome&>(record) = other ? job.compare(sampler, *other) : job.check(sampler);
    // A broken sampler fails the case, whatever the check concluded from its answers.
    if (const std::string why = sampler.broken(); !why.empty()) {
      record.fail(why);
      suspect_the_process(why, record);
    } else {
      add_suspects(record.check, record);
      if (record.failed() && looks_at_tokens(record.check) && has_marks(record)) {
        suspect_the_marks(record);
      }
    }
    if (sampler.run_was_over() || (other && other->run_was_over())) {
      record = job.record;
      record.message = run_is_over(run);
    }
  } catch (const EndOfRun&) {
    throw;
  } catch (const std::exception& exception) {
    record.verdict = Verdict::error;
    record.message = error_text(exception);
  }
  cut_texts(record);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  record.seconds = elapsed.count();
}

// The memory in bytes for the oracles' answers that are kept while the samplers of a case are
// judged, for all threads together.
constexpr std::size_t kBytesOfAnswers = std::size_t{1} << 30;

// Returns the index of each case's first job, followed by the number of jobs.
std::vector<std::size_t> begins_of_cases(const std::vector<Job>& jobs) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i == 0 || jobs[i].record.id != jobs[i - 1].record.id) begins.push_back(i);
  }
  begins.push_back(jobs.size());
  return begins;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

/// Returns the time as "2026-11-24T22:55:03Z", so that times sort as texts.
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[sizeof "0000-00-00T00:00:00Z"] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

std::vector<CaseRecord> run_jobs(const std::vector<Job>& jobs, unsigned threads,
                                 const Progress& progress, double seconds, const Stop& stop,
                                 const Begun& begun) {
  const TimeLimit run(seconds);
  std::vector<std::optional<CaseRecord>> records(jobs.size());
  std::mutex mutex;
  std::size_t done = 0;
  const unsigned of_job = std::max(1U, threads_of(0) / std::max(1U, threads));
  // The samplers of a case run one after the other on one thread.
  const std::vector<std::size_t> begins = begins_of_cases(jobs);
  in_parallel(begins.size() - 1, threads, [&](std::size_t at) {
    const std::size_t samplers = begins[at + 1] - begins[at];
    std::optional<KeptAnswers> kept;
    if (samplers > 1) kept.emplace(kBytesOfAnswers / std::max(1U, threads));
    for (std::size_t i = begins[at]; i < begins[at + 1]; ++i) {
      if (stop && stop()) return;
      if (begun) begun(jobs[i].record);
      omp_set_num_threads(static_cast<int>(of_job));
      run_job(jobs[i], run, records[i].emplace());
      const std::lock_guard lock(mutex);
      ++done;
      if (progress) progress(*records[i], done, jobs.size());
    }
  });
  std::vector<CaseRecord> made;
  for (std::optional<CaseRecord>& record : records) {
    if (record) made.push_back(std::move(*record));
  }
  return made;
}

std::map<std::string, std::string> host_environment() {
  std::map<std::string, std::string> environment;
  environment["started"] = utc_now();
  environment["cpu"] = cpu_name();
  environment["instruction_set"] = to_string(best_target());  // instruction set of `cpu`
  environment["hardware_threads"] = std::to_string(std::thread::hardware_concurrency());
#if defined(__clang__)
  environment["compiler"] = "clang " __clang_version__;
#elif defined(__GNUC__)
  environment["compiler"] = "gcc " __VERSION__;
#endif
#if defined(__SANITIZE_ADDRESS__)
  environment["sanitizer"] = "address";
#endif
  return environment;
}

}  // namespace fairdraw::harness
