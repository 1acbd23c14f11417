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

/// Makes a sampler by name; throws harness::UsageError for an unknown one.
using SamplerMaker = std::function<std::unique_ptr<harness::Sampler>(const std::string&)>;

struct PlanOptions {
  Suite suite = Suite::gate;
  std::vector<std::string> samplers;
  SamplerMaker make_sampler;
  std::optional<std::string> semantics;  ///< profile used instead of each sampler's own
  std::optional<std::string> against;    ///< sampler to compare each sampler with, instead of
                                         ///< judging
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
  std::uint64_t seed = 0;
  std::string seed_source;
  std::string commit;                   ///< commit of the repository of the run; empty: none
  std::uint32_t shard = 1, shards = 1;  ///< shards take equal time, according to `times`
  CaseTimes times;
  std::optional<std::string> case_glob;  ///< '*' and '?' match any characters, including '/'
  std::vector<std::string> exclude;      ///< globs of excluded cases
  /// Ids and samplers of the cases to run, if the globs choose them too; absent: all.
  std::optional<std::set<std::pair<std::string, std::string>>> failed_before;
  std::string failed_in;               ///< name of the report that names these cases
  std::optional<std::string> sampled;  ///< values of the single chosen case, instead of the seed's
                                       ///< (sampled_text.h)
  /// Returns why the run should end ("stopped by SIGINT"), or an empty string. The function is
  /// called before each case.
  std::function<std::string()> stop;
  std::optional<std::uint64_t> draws;  ///< draws of each statistical case, instead of its own
  std::optional<double> draws_scale;   ///< factor of each case's own draws, up to most_draws()
  /// The part of the draws to make of each case that can_be_split(), without giving a verdict. All
  /// other cases belong to part 1.
  std::optional<harness::CasePart> part;
  bool second_look = false;  ///< whether to make the draws of a second look
  /// Returns counts of a case on a sampler that were made in parts; null or absent: the sampler
  /// draws.
  std::function<std::shared_ptr<harness::CountSource>(const std::string& id,
                                                      const std::string& sampler)>
      joined;
  /// Number of this run in a sequence of runs. The run spends 1 / (night (night + 1)) of the error
  /// budget, so that all runs together spend the budget once.
  std::optional<std::uint64_t> night;
  harness::Begun begun;                 ///< called when a case is begun, from its thread
  std::uint64_t statistical_cases = 0;  ///< 0: number of cases in the run, at least
                                        ///< kStatisticalCases
  std::optional<double> case_seconds;   ///< time limit per case in seconds; absent:
                                        ///< default_case_seconds()
  double run_seconds = 0;               ///< time limit of the run in seconds; 0: none
  std::string replay_options;           ///< text added to each replay line, with a leading blank
};

/// Maximum number of draws, which samplers make within hours: 10^10, and the additional draws of
/// bets.
inline constexpr std::uint64_t kMostDraws = std::uint64_t{1} << 34;

/// Returns the maximum draws of a case with --draws and --draws-scale: kMostDraws if draws are only
/// counted; 2^32 in tables of pairs and against another sampler; 2^24, or the case's own draws if
/// larger, if all values are stored (100 bytes each), so that memory stays bounded.
std::uint64_t most_draws(const Case& entry, bool against);

/// Returns whether the counts of parts add up to those of the whole case: in chi_squared, bets and
/// binomial, whose draws are of one row and whose order does not matter. Counts do not add up if a
/// value is compared with the previous one (pit, streams) or a draw depends on earlier ones
/// (chains, trees).
bool can_be_split(harness::Check check);

/// Returns the share of the error budget for run number `night`: 1 / (night (night + 1)), which
/// adds up to 1 over all numbers, or 1 without a number.
double share_of_night(std::optional<std::uint64_t> night);

struct Plan {
  std::vector<harness::Job> jobs;     ///< jobs of this shard, in the order of the case table
  std::vector<std::uint64_t> places;  ///< place of each job in the order of the whole run
  std::vector<double> seconds;        ///< expected time of each job, by options.times
  std::uint64_t planned = 0;          ///< number of jobs of all shards
  std::vector<harness::SamplerRecord> samplers;
  std::uint64_t statistical_cases = 0;  ///< number of cases that share the error budget
};

/// Returns the default time limit of a case in seconds; 0 means no limit, for samplers of this
/// program. A plugin gets ten minutes, plus 4 * (1 ms + 0.25 us per token) for each draw and each
/// row: a separate call from an interpreter, three times the sorting of the row on a slow core, and
/// the fourfold draws that an undecided check may make.
double default_case_seconds(const Case& entry, const std::string& sampler);

/// Adds cases to the record of a planned run, with their places if it is a shard.
void add_cases(const Plan& plan, std::vector<harness::CaseRecord> cases,
               harness::RunRecord& record);

/// Makes the plan. Throws harness::UsageError for an unknown sampler or profile, a shard or part
/// out of range, a --case or --exclude that matches no case, a failed case that no longer exists,
/// and values for several cases or for a case that draws none.
Plan make_plan(const PlanOptions& options);

/// Returns the record of a planned run, without cases.
harness::RunRecord begin_record(const Plan& plan, const PlanOptions& options);

/// Returns the begun record with the cases that were run; `reason` is the reason why cases are
/// missing.
harness::RunRecord record_of(const Plan& plan, harness::RunRecord begun,
                             std::vector<harness::CaseRecord> cases, const std::string& reason);

/// Runs the plan on `threads` threads, and books the error budget. If options.stop ends the run,
/// the record is incomplete.
harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress);

}  // namespace fairdraw::suites
