// The plan of a run: its cases, samplers, seeds and error budget.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/calls/draws.h"
#include "harness/run/runner.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/run/shards.h"

namespace fairdraw::suites {

/// A function that makes a sampler by its name; it throws harness::UsageError for an unknown name.
using SamplerMaker = std::function<std::unique_ptr<harness::Sampler>(const std::string&)>;

struct PlanOptions {
  Suite suite = Suite::gate;
  std::vector<std::string> samplers;
  SamplerMaker make_sampler;
  std::optional<std::string> semantics;  ///< profile that is used instead of each sampler's own
  std::optional<std::string> against;    ///< sampler with which each sampler is compared, instead
                                         ///< of being judged
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
  std::uint64_t seed = 0;
  std::string seed_source;
  std::string commit;                   ///< commit of the repository of the run; empty if there is
                                        ///< none
  std::uint32_t shard = 1, shards = 1;  ///< shards take equal time, according to `times`
  CaseTimes times;
  std::optional<std::string> case_glob;  ///< glob of the cases to run; '*' and '?' match any
                                         ///< characters, including '/'
  std::vector<std::string> exclude;      ///< globs of the cases to exclude
  /// Ids and samplers of the cases to run, if the globs choose them too; if absent, all cases run.
  std::optional<std::set<std::pair<std::string, std::string>>> failed_before;
  std::string failed_in;               ///< name of the report that names these cases
  std::optional<std::string> sampled;  ///< values of the single chosen case, which replace those of
                                       ///< the seed (sampled_text.h)
  /// Returns the reason why the run should end (such as "stopped by SIGINT"), or an empty string.
  /// The function is called before each case.
  std::function<std::string()> stop;
  std::optional<std::uint64_t> draws;  ///< number of draws of each statistical case, instead of its
                                       ///< own number
  std::optional<double> draws_scale;   ///< factor by which each case's own number of draws is
                                       ///< multiplied, up to max_draws()
  /// The part of the draws to make for each case that can_be_split(), without a verdict. All other
  /// cases belong to part 1.
  std::optional<harness::CasePart> part;
  bool second_look = false;  ///< true if the draws of a second look are made
  /// Returns the counts of a case on a sampler that were made in parts; null or absent: the sampler
  /// draws.
  std::function<std::shared_ptr<harness::CountSource>(const std::string& id,
                                                      const std::string& sampler)>
      joined;
  /// Number of this run in a sequence of runs. The run spends the fraction 1 / (night (night + 1))
  /// of the error budget, so that all runs together spend the budget once.
  std::optional<std::uint64_t> night;
  harness::Begun begun;                 ///< called from the thread of a case when the case begins
  std::uint64_t statistical_cases = 0;  ///< number of statistical cases; 0: the number of cases in
                                        ///< the run, but at least kStatisticalCases
  std::optional<double> case_seconds;   ///< time limit per case in seconds; if absent,
                                        ///< default_case_seconds()
  double run_seconds = 0;               ///< time limit of the run in seconds; 0: none
  std::string replay_options;           ///< text that is added to each replay line, with a leading
                                        ///< blank
};

/// Largest number of draws, which samplers make within hours: 10^10, and the additional draws of
/// bets.
inline constexpr std::uint64_t kMaxCaseDraws = std::uint64_t{1} << 34;

/// Returns the largest number of draws of a case with --draws and --draws-scale. The number is
/// kMaxCaseDraws if draws are only counted, and 2^32 in tables of pairs and against another
/// sampler. If all values are stored (100 bytes each), the number is 2^24, or the case's own
/// number of draws if this is larger, so that memory stays bounded.
std::uint64_t max_draws(const Case& entry, bool against);

/// Returns whether the counts of parts add up to those of the whole case. The counts add up in
/// chi_squared, bets and binomial, whose draws come from one row and may be in any order. Counts do
/// not add up if a value is compared with the previous one (pit, streams), or if a draw depends on
/// earlier draws (chains, trees).
bool can_be_split(harness::Check check);

/// Returns the fraction of the error budget for run number `night`: 1 / (night (night + 1)), whose
/// sum over all numbers is 1. Without a number, the result is 1.
double share_of_night(std::optional<std::uint64_t> night);

struct Plan {
  std::vector<harness::Job> jobs;     ///< jobs of this shard, in the order of the case table
  std::vector<std::uint64_t> places;  ///< place of each job in the order of the whole run
  std::vector<double> seconds;        ///< expected time of each job in seconds, by options.times
  std::uint64_t planned = 0;          ///< number of jobs of all shards
  std::vector<harness::SamplerRecord> samplers;
  std::uint64_t statistical_cases = 0;  ///< number of cases that share the error budget
};

/// Returns the default time limit of a case in seconds; 0 means that there is no limit, as for
/// samplers of this program. A plugin gets ten minutes, plus 4 * (1 ms + 0.25 us per token) for
/// each draw and each row. The time allows for a separate call from an interpreter, for three times
/// the sorting of the row on a slow core, and for the fourfold draws that an undecided check may
/// make.
double default_case_seconds(const Case& entry, const std::string& sampler);

/// Adds cases to the record of a planned run; if the run is a shard, their places are added, too.
void add_cases(const Plan& plan, std::vector<harness::CaseRecord> cases,
               harness::RunRecord& record);

/// Makes the plan. Makes the plan of a run. Throws harness::UsageError for an unknown sampler or
/// profile, for a shard or part out of range, for a --case or --exclude that matches no case, for a
/// failed case that no longer exists, and for sampled values if several cases are chosen, or if the
/// case samples none.
Plan make_plan(const PlanOptions& options);

/// Returns the record of a planned run, still without cases.
harness::RunRecord begin_record(const Plan& plan, const PlanOptions& options);

/// Returns the begun record with the cases that were run; `reason` is the reason why cases are
/// missing.
harness::RunRecord record_of(const Plan& plan, harness::RunRecord begun,
                             std::vector<harness::CaseRecord> cases, const std::string& reason);

/// Runs the plan on `threads` threads, and books the error budget. If options.stop ends the run,
/// the record is marked as incomplete.
harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress);

}  // namespace fairdraw::suites
