#include "suites/gate/mutants/kill_matrix.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "harness/run/parallel.h"
#include "harness/run/runner.h"
#include "suites/gate/identify/conditions_seen.h"
#include "suites/gate/identify/seen_definitions.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using Clock = std::chrono::steady_clock;
using harness::CaseRecord;
using harness::Verdict;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the rough cost of a case in nanoseconds: each call sorts a row (100 ns per token), and
// each draw is a search. Only the order of the cases depends on this cost.
double cost(const Case& entry) {
  const std::map<Check, double> calls_a_row = {
      {Check::status, 70},           {Check::replay, 60},   {Check::processing, 4},
      {Check::metamorphic, 30},      {Check::batches, 270}, {Check::boundaries, 150},
      {Check::float_environment, 10}};
  const auto calls = calls_a_row.find(entry.check);
  const double rows = static_cast<double>(std::max<std::int64_t>(entry.rows, 1));
  return 100 * rows * static_cast<double>(entry.input.vocab) *
             (calls == calls_a_row.end() ? 1 : calls->second) +
         200 * static_cast<double>(entry.draws);
}

// Limits of the additional cases that are judged to find causes; together these cases take some
// seconds per mutant.
constexpr int kCasesOfCheck = 4;
constexpr double kMaxCost = 1.2e7;  // nanoseconds

class Judge {
 public:
  explicit Judge(const KillOptions& options) : options_(options) {
    for (const Case& entry : case_table(Suite::gate, options.captured)) {
      cost_[entry.id] = cost(entry);
    }
  }

  MutantOutcome judge(const Mutant& mutant) const {
    const auto start = Clock::now();
    MutantOutcome outcome;
    outcome.mutant = &mutant;
    for (const harness::Job& job : ordered_jobs(mutant)) {
      if (outcome.checks[job.record.check].by.empty()) judge(job, outcome);
      const bool ends = !options_.full && (outcome.killed || outcome.draws > kMaxDraws);
      if (ends || !outcome.trouble.empty()) break;
    }
    outcome.record.samplers = plan_for(mutant.name, mutant.make).samplers;
    if (outcome.killed && options_.causes) {
      judge_further(mutant, outcome);
      note_seen_definitions([&mutant](const std::string&) { return mutant.make(); },
                            outcome.record);
      if (options_.conditions) {
        constexpr double kSeconds = 600;  // a loaded machine takes longer, and changes no result
        note_conditions(plan_for(mutant.name, mutant.make).jobs, kSeconds, outcome.record);
      }
    }
    outcome.record.suite = to_string(Suite::gate);
    outcome.record.seed = options_.seed;
    outcome.record.shard = "1/1";
    for (const CaseRecord& one : outcome.record.cases) outcome.record.draws += one.draws;
    harness::keep_evidence_within_bounds(outcome.record.cases);
    outcome.causes = harness::ranked_causes(outcome.record);
    std::erase_if(outcome.checks, [](const auto& entry) {
      return entry.second.by.empty() && entry.second.draws == 0;  // only skipped cases
    });
    outcome.seconds = seconds_since(start);
    return outcome;
  }

  // Judges a correct sampler by the cases with the ids `cases`; the sampler must pass all of them.
  TwinOutcome judge(const Twin& twin, const std::set<std::string>& cases) const {
    const auto start = Clock::now();
    TwinOutcome outcome;
    outcome.twin = &twin;
    const Plan plan = plan_for(twin.name, twin.make);
    outcome.semantics = plan.samplers.front().semantics;
    for (const harness::Job& job : plan.jobs) {
      if (cases.count(job.record.id) == 0) continue;
      const CaseRecord record = run(job);
      if (record.verdict == Verdict::skipped) continue;
      ++outcome.cases;
      const bool green =
          record.verdict == Verdict::passed || record.verdict == Verdict::underpowered;
      if (!green && outcome.red.empty()) outcome.red = record.id + ": " + record.message;
    }
    outcome.seconds = seconds_since(start);
    return outcome;
  }

 private:
  Plan plan_for(const std::string& name, const Maker& make) const {
    PlanOptions plan;
    plan.suite = Suite::gate;
    plan.samplers = {name};
    // `make` is copied, because jobs make their samplers after this call has returned.
    plan.make_sampler = [make](const std::string&) { return make(); };
    plan.captured = options_.captured;
    plan.seed = options_.seed;
    return make_plan(plan);
  }

  std::vector<harness::Job> ordered_jobs(const Mutant& mutant) const {
    std::vector<harness::Job> jobs = plan_for(mutant.name, mutant.make).jobs;
    const auto rank = [&mutant](const harness::Job& job) {
      std::size_t at = 0;
      while (at < mutant.expected.size() &&
             fnmatch(mutant.expected[at].c_str(), job.record.id.c_str(), 0) != 0) {
        ++at;
      }
      return at;
    };
    if (options_.smoke_alone || (!mutant.unreachable_reason.empty() && !options_.full)) {
      std::erase_if(jobs, [&](const harness::Job& job) {
        return rank(job) == mutant.expected.size() && job.record.suite != "smoke";
      });
    }
    std::stable_sort(jobs.begin(), jobs.end(), [&](const harness::Job& a, const harness::Job& b) {
      const std::size_t of_a = rank(a), of_b = rank(b);
      return of_a != of_b ? of_a < of_b : cost_.at(a.record.id) < cost_.at(b.record.id);
    });
    return jobs;
  }

  // Judges a detected mutant by more cases of suite smoke, all of them or the cheapest cases of
  // each check. These further cases do not count as detections of the mutant.
  void judge_further(const Mutant& mutant, MutantOutcome& outcome) const {
    std::set<std::string> known(outcome.cases.begin(), outcome.cases.end());
    std::map<std::string, int> judged;  // by check
    for (const harness::Job& job : ordered_jobs(mutant)) {
      if (job.record.suite != "smoke") continue;
      int& of_check = judged[job.record.check];
      const bool is_enough = of_check == kCasesOfCheck || cost_.at(job.record.id) > kMaxCost;
      if ((is_enough && !options_.whole_smoke) || !known.insert(job.record.id).second) continue;
      CaseRecord record = run(job);
      of_check += record.verdict == Verdict::skipped ? 0 : 1;
      // On some rows, even a correct float32 sampler exceeds the slack of its profile.
      if (record.verdict == Verdict::failed && !twin_passes(mutant.twin, record.id)) continue;
      outcome.record.cases.push_back(std::move(record));
    }
  }

  bool twin_passes(const std::string& name, const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const auto known = passed_.find({name, id});
    if (known != passed_.end()) return known->second;
    const auto twin = std::ranges::find(twins(), name, &Twin::name);
    const Plan plan = plan_for(twin->name, twin->make);
    const auto job = std::ranges::find_if(
        plan.jobs, [&id](const harness::Job& one) { return one.record.id == id; });
    const bool passed = job != plan.jobs.end() && run(*job).verdict == Verdict::passed;
    return passed_[{name, id}] = passed;
  }

  static CaseRecord run(const harness::Job& job) { return harness::run_jobs({job}, 1, {}).front(); }

  static void judge(const harness::Job& job, MutantOutcome& outcome) {
    const CaseRecord record = run(job);
    outcome.record.cases.push_back(record);
    outcome.cases.push_back(record.id);
    CheckKill& check = outcome.checks[record.check];
    check.draws += record.draws;
    if (!outcome.killed) outcome.draws += record.draws;
    if (record.verdict == Verdict::error) {
      outcome.trouble = record.id + ": " + record.message;
    }
    if (record.verdict != Verdict::failed) return;
    check.by = record.id;
    if (outcome.killed) return;
    outcome.killed = true;
    outcome.by = record.id;
    outcome.message = record.message;
  }

  KillOptions options_;
  std::map<std::string, double> cost_;
  mutable std::mutex mutex_;
  // results of correct samplers, by name and case
  mutable std::map<std::pair<std::string, std::string>, bool> passed_;
};

std::vector<const Twin*> twins_of(const std::vector<const Mutant*>& mutants) {
  std::vector<const Twin*> found;
  for (const Twin& twin : twins()) {
    const auto is_its_mutant = [&twin](const Mutant* one) { return one->twin == twin.name; };
    if (std::ranges::any_of(mutants, is_its_mutant)) found.push_back(&twin);
  }
  return found;
}

}  // namespace

std::string MutantOutcome::complaint() const {
  if (!trouble.empty()) return "could not be run: " + trouble;
  const bool reachable = mutant->unreachable_reason.empty();
  if (reachable && !killed) return fmt::format("survives {} draws", draws);
  if (!reachable && killed) return fmt::format("listed as unreachable, but {} kills it", by);
  if (killed && draws > kMaxDraws) return fmt::format("took {} draws", draws);
  return {};
}

bool KillMatrix::complete() const {
  return std::all_of(mutants.begin(), mutants.end(),
                     [](const MutantOutcome& entry) { return entry.complaint().empty(); }) &&
         std::all_of(twins.begin(), twins.end(),
                     [](const TwinOutcome& entry) { return entry.red.empty(); });
}

std::size_t judged_count(const std::vector<const Mutant*>& mutants) {
  return mutants.size() + twins_of(mutants).size();
}

KillMatrix run_kill_matrix(const std::vector<const Mutant*>& mutants, const KillOptions& options,
                           const KillProgress& progress) {
  const auto start = Clock::now();
  const Judge judge(options);
  std::mutex mutex;
  const auto begin = [&](const std::string& name) {
    if (progress.begun) progress.begun(name);
  };
  const auto report = [&](const std::string& name, const std::string& how, bool wrong) {
    const std::lock_guard lock(mutex);
    if (progress.ended) progress.ended(name, fmt::format("{}: {}", name, how), wrong);
  };

  KillMatrix matrix;
  matrix.mutants.resize(mutants.size());
  harness::in_parallel(mutants.size(), options.threads, [&](std::size_t i) {
    begin(mutants[i]->name);
    matrix.mutants[i] = judge.judge(*mutants[i]);
    const MutantOutcome& outcome = matrix.mutants[i];
    report(outcome.mutant->name, outcome.killed ? "killed by " + outcome.by : "not killed",
           !outcome.complaint().empty());
  });

  std::map<std::string, std::set<std::string>> cases_of;  // by twin
  for (const MutantOutcome& outcome : matrix.mutants) {
    cases_of[outcome.mutant->twin].insert(outcome.cases.begin(), outcome.cases.end());
  }
  const std::vector<const Twin*> judged =
      options.smoke_alone ? std::vector<const Twin*>{} : twins_of(mutants);
  matrix.twins.resize(judged.size());
  harness::in_parallel(judged.size(), options.threads, [&](std::size_t i) {
    begin(judged[i]->name);
    matrix.twins[i] = judge.judge(*judged[i], cases_of.at(judged[i]->name));
    const std::string& red = matrix.twins[i].red;
    report(judged[i]->name, red.empty() ? "green" : red, !red.empty());
  });
  matrix.seconds = seconds_since(start);
  return matrix;
}

}  // namespace fairdraw::suites
