// A run, planned: which cases, under which samplers, with which seeds and which error budget.
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
  std::optional<std::string> semantics;  ///< instead of each sampler's own
  std::optional<std::string> against;    ///< compare each sampler with this one, instead of judging
  std::vector<std::shared_ptr<const harness::CapturedLogits>> captured;
  std::uint64_t seed = 0;
  std::string seed_source;
  std::string commit;  ///< of the repository that the run is made in; empty: in none
  std::uint32_t shard = 1, shards = 1;  ///< the parts take equally long, by `times`
  CaseTimes times;
  std::optional<std::string> case_glob;  ///< '*' and '?' match any characters, '/' too
  std::vector<std::string> exclude;      ///< globs of cases that are left out
  /// Id and sampler of those to run, as far as the globs choose them too; absent: all.
  std::optional<std::set<std::pair<std::string, std::string>>> failed_before;
  std::string failed_in;               ///< the report that names them
  std::optional<std::string> sampled;  ///< of the one case that is chosen: values instead of the
                                       ///< seed's (sampled_text.h)
  /// Why the run should end ("stopped by SIGINT"); empty: it goes on. Asked before each case.
  std::function<std::string()> stop;
  std::optional<std::uint64_t> draws;  ///< of each statistical case, instead of its own; or
  std::optional<double> draws_scale;   ///< its own times this: most_draws() at most
  /// Of each case that can_be_split(), this part of the draws is made, and no verdict; all other
  /// cases belong to part 1.
  std::optional<harness::CasePart> part;
  bool second_look = false;  ///< the draws of the part are those of a second look
  /// Counts of a case on a sampler that were made in parts; null, or absent: the sampler's draws.
  std::function<std::shared_ptr<harness::CountSource>(const std::string& id,
                                                      const std::string& sampler)>
      joined;
  /// Number of this run in a sequence of runs: it spends 1 / (night (night + 1)) of the error
  /// budget, so that all of them together spend it once.
  std::optional<std::uint64_t> night;
  harness::Begun begun;                 ///< called when a case is begun, from its thread
  std::uint64_t statistical_cases = 0;  ///< 0: as many as the run has, at least kStatisticalCases
  std::optional<double> case_seconds;   ///< that a case may take; else default_case_seconds()
  double run_seconds = 0;               ///< that all of them may take; 0: no limit
  std::string replay_options;           ///< added to each replay line, with a leading blank
};

/// Of samplers that make them within hours: 10^10 and what bets may go on to.
inline constexpr std::uint64_t kMostDraws = std::uint64_t{1} << 34;

/// What --draws and --draws-scale may make of a case: kMostDraws where draws are counted as they
/// come; 2^32 in tables of pairs, and against another sampler; 2^24, or the case's own if these are
/// more, where values are kept until all are there (100 bytes each), so that memory stays bounded.
std::uint64_t most_draws(const Case& entry, bool against);

/// True where the counts of parts make the counts of the whole: chi_squared, bets and binomial,
/// whose draws are of one row and whose order says nothing. Not so where a value is compared with
/// the one before it (pit, streams), or a draw depends on what came (chains, trees).
bool can_be_split(harness::Check check);

/// 1 / (night (night + 1)), which adds up to 1 over all nights; 1 without a night.
double share_of_night(std::optional<std::uint64_t> night);

struct Plan {
  std::vector<harness::Job> jobs;     ///< of this shard, in the order of the table
  std::vector<std::uint64_t> places;  ///< of each job in the whole run
  std::vector<double> seconds;        ///< that each job is expected to take, by options.times
  std::uint64_t planned = 0;          ///< jobs of all shards
  std::vector<harness::SamplerRecord> samplers;
  std::uint64_t statistical_cases = 0;  ///< that the error budget is shared out to
};

/// Seconds that a case may take where nobody says: 0, no limit, for samplers of this program. For a
/// plugin ten minutes, and for each draw and each row 4 * (1 ms + 0.25 us a token): a call of its
/// own for each, from an interpreter; three times what sorting the row takes on a slow core; and
/// the fourfold draws that an undecided check may go on to.
double default_case_seconds(const Case& entry, const std::string& sampler);

/// Puts cases into the record of a planned run, with their places where it is a shard.
void add_cases(const Plan& plan, std::vector<harness::CaseRecord> cases,
               harness::RunRecord& record);

/// Throws harness::UsageError: an unknown sampler or profile, a shard or part out of range, a
/// --case or
/// --exclude that matches no case, a failed case that is no longer there, values for a case that
/// draws none or for several cases.
Plan make_plan(const PlanOptions& options);

/// The record of a run that is planned, without its cases.
harness::RunRecord begin_record(const Plan& plan, const PlanOptions& options);

/// A record that was begun, with the cases of its plan that were run; where these are not all,
/// `reason` says why.
harness::RunRecord record_of(const Plan& plan, harness::RunRecord begun,
                             std::vector<harness::CaseRecord> cases, const std::string& reason);

/// Runs the plan on `threads` threads, and books the error budget. Where options.stop ends it, the
/// record is incomplete.
harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress);

}  // namespace fairdraw::suites
