// The result record contains all findings of a run. The code in reports/ sees nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/abilities.h"
#include "harness/run/evidence/evidence.h"

namespace fairdraw::harness {

/// The verdict about a case. passed: every check held. failed: a check did not hold. underpowered:
/// there were too few draws to find the declared discrepancy of the case. skipped: the sampler
/// lacks an ability. error: the case could not be run.
enum class Verdict { passed, failed, underpowered, skipped, error };

const char* to_string(Verdict verdict);

/// Returns whether a check looks at drawn tokens, which nearly every bug changes, and not at
/// results of calls.
bool looks_at_tokens(std::string_view check);

/// Returns the cause of a check's failure if the evidence names no other cause, or an empty text if
/// there is none.
std::string_view default_cause(std::string_view check);

/// The name of the check, and the id of the case, that combine all p-values of a run.
inline constexpr std::string_view kGlobalCheck = "global";

/// The counts of draws of one row, by token.
struct Counts {
  std::vector<std::uint64_t> of_token;  ///< [vocab]
  std::uint64_t draws = 0;
  std::uint64_t no_token = 0;  ///< number of draws outside of [0, vocab)
  std::string trouble;         ///< reason why drawing stopped; empty if it did not stop
};

/// One part of the draws that a check makes; `merge` adds up the counts of all parts.
struct CountedDraws {
  std::uint64_t seed = 0;   ///< the seed of this part of the draws
  std::uint64_t asked = 0;  ///< number of draws requested in all parts together
  Counts counts;            ///< the counts of this part of the draws
};

/// Counts over cells that depend on the distribution alone, so that the cells are the same in every
/// run. The command `merge --across-seeds` adds up the counts of the cells.
struct CellCounts {
  std::string axis;                 ///< "rank", "lane"
  std::vector<double> probability;  ///< [cells], a distribution without zeros
  std::vector<std::uint64_t> counts;
  /// The possible errors of a sampler that is right within its profile: the largest relative error
  /// e of a cell, and the sum of p e^2.
  double relative_error = 0, chi_squared_error = 0;
};

/// Findings of a check. Exact checks have no statistic and take nothing from the error budget.
struct CheckOutcome {
  Verdict verdict = Verdict::passed;
  std::string message;  ///< one sentence; for a failure, the observed and the expected result
  std::string watch;    ///< a suspicious result that was not confirmed; it is shown, but never
                        ///< fails the case
  /// Abilities that the sampler does not declare, by their names in abilities.inc, each once: the
  /// ability that a skipped case needs, or those that left-out parts of a case need.
  std::vector<std::string> lacks;
  std::uint64_t draws = 0;
  std::uint64_t rows = 0;  ///< number of different rows of logits
  std::optional<double> statistic;
  std::optional<double> dof;
  /// For chi_squared, Pearson's p-value, which is reported even if it does not decide. For other
  /// checks, a valid p-value of the whole case (for bets, 1 over the largest evidence).
  std::optional<double> p_value;
  std::optional<double> total_variation;   ///< observed total variation over the cells
  std::optional<double> min_discrepancy;   ///< smallest total variation that is found
  std::map<std::string, double> measures;  ///< further numbers by name (alpha, observed, ...)
  Evidence evidence;                       ///< data for cards and pictures, which decides nothing
  std::vector<CellCounts> cells;           ///< counts over cells at the first look
  std::vector<CountedDraws> counted;       ///< draws of one part of a case, which are never judged
                                           ///< alone

  CheckOutcome& fail(std::string what);     ///< keeps the message of the first failure
  void watch_out(const std::string& what);  ///< adds to `watch`
  void leave_out(const Lack& lack);         ///< adds the lacking ability, if any, to `lacks`
  bool failed() const { return verdict == Verdict::failed; }
  /// Records a level, with which a p-value was compared, as spent from the error budget. The sum of
  /// these levels is a measure.
  void spend(double level);
  double spent() const;
};

/// One case for one sampler. The verdict is an error until the check of the case returns.
struct CaseRecord : CheckOutcome {
  CaseRecord() { verdict = Verdict::error; }

  std::string id;     ///< id, which is unique in a run for each `sampler`
  std::string suite;  ///< name of the suite: smoke, gate or nightly
  std::string check;  ///< name of the check that judges the case
  std::string sampler;
  std::string semantics;
  std::string filter;                 ///< filters of the rows: "none", "top_k+top_p", ..., "mixed"
  std::vector<std::string> features;  ///< features of the case, in the order of features.inc
  std::uint64_t vocab = 0;
  double seconds = 0;
  std::string replay;  ///< the command line that repeats this case
};

/// The division of the run's false alarm rate.
struct ErrorBudget {
  double false_alarm_rate = 0;          ///< upper bound on the false alarm rate of the whole run
  double spent = 0;                     ///< sum of levels over the checks that were made
  std::uint64_t statistical_cases = 0;  ///< cases of all shards, among which the rate is divided
};

/// A choice in which a sampler differs from the profile by which it is judged.
struct SeenDefinition {
  std::string meaning;              ///< text such as "mass exactly at top_p"
                                    ///< (reference/semantic_choices.h)
  std::string declared;             ///< value that the sampler's profile has
  std::vector<std::string> values;  ///< values that explain all rows, likeliest first; empty: none
};

/// The answers of a sampler that failed a run to the questions of `identify`.
struct SeenDefinitions {
  std::string closest;                      ///< the profile with the least evidence against it
  std::vector<SeenDefinition> differences;  ///< differences from the profile of the sampler
};

/// A property that all rows in which a mistake shows have in common.
struct SharedCondition {
  std::string subject;  ///< parameter of the condition: "top_k"
  std::string text;     ///< "rows with top_k"
};

struct SamplerRecord {
  std::string name, version, semantics;
  /// Notes about semantics that allow anything, so that nothing is judged, or that allow more than
  /// usual.
  std::vector<std::string> notes = {};
  /// The declared bits of plugin_abi.h. Only records of parts of cases have these
  /// bits, for `merge`.
  std::uint64_t abilities = 0, promises = 0;
  /// This field is only present if the sampler failed a case and gave an answer.
  std::optional<SeenDefinitions> seen = {};
  /// This field is only present if the sampler failed a case: it has the conditions without which
  /// no repeated failed case fails.
  std::vector<SharedCondition> conditions = {};
};

/// One of the runs whose evidence is accumulated.
struct Night {
  std::uint64_t seed = 0;
  std::string seed_source, commit;
  double false_alarm_rate = 0;  ///< of this run
};

/// A mistake so small that the draws of a run may miss it, and the case that would find it.
struct SmallMistake {
  std::string mistake;       ///< "temperatures 0.1 % too high"
  std::string id;            ///< the case that needs the fewest draws to find the mistake
  double discrepancy = 0;    ///< difference of the counted probability (total variation)
  std::uint64_t draws = 0;   ///< number of draws of the case
  std::uint64_t needed = 0;  ///< draws to find it with a miss probability of 1e-6; 0: above 2^40
};

struct Summary {
  std::uint64_t passed = 0, failed = 0, underpowered = 0, skipped = 0, error = 0;
};

struct RunRecord {
  std::string tool_version;
  std::string suite;
  std::uint64_t seed = 0;
  std::string seed_source;  ///< "--seed 7", "commit 0123...", "version 0.1.0"
  std::string commit;       ///< commit of the run's repository; empty: none
  std::string shard;        ///< "1/1"
  /// The index of each case in the whole run, from 0. The list is empty unless this is a shard;
  /// `planned` is the number of cases in the whole run.
  std::vector<std::uint64_t> places = {};
  std::uint64_t planned = 0;
  std::string case_part;  ///< part of all divisible cases: "2/4", "2/4 again" (second look)
  std::string selection;  ///< arguments of --case and --exclude; empty: all cases
  std::string options;    ///< further options that repeat the run, such as "--semantics hf"
  /// The reason why the run ended early; `cases` then has only the cases that ran. The reason is
  /// empty for a whole run.
  std::string incomplete;
  /// The features of features.inc that must be judged for the run to pass (--require), and the
  /// maximum percentage of cases that each sampler may skip (--max-skipped).
  std::vector<std::string> required = {};
  std::optional<double> max_skipped = {};
  std::map<std::string, std::string> environment;  ///< facts about the host, which two equal runs
                                                   ///< need not share
  ErrorBudget error_budget;
  std::vector<Night> nights = {};  ///< runs of accumulated evidence, in order; otherwise empty
  std::vector<SamplerRecord> samplers;
  std::vector<CaseRecord> cases;             ///< all cases in the order of the case table
  std::vector<SmallMistake> small_mistakes;  ///< mistakes that statistical cases may miss
  std::uint64_t draws = 0;
  double seconds = 0;

  Summary summary() const;

  /// Returns 1 if a check failed or could not be run; 3 if nothing was tested, a case was
  /// underpowered, the run is incomplete, or a required feature was not judged; 0 if all cases
  /// passed. (Exit code 2, bad usage, ends a run before there is a record.) Parts of cases test
  /// nothing by themselves, so their exit code is 0 if their draws were made.
  int exit_code() const;
};

/// Returns whether some part of the evidence is not empty.
bool has_something(const Evidence& evidence);

/// The maximum number of points of pictures (bins, grid points, matrix cells, tokens) in a run.
inline constexpr std::uint64_t kMaxRunPoints = 60'000;

/// Removes the pictures (but not the words and numbers of the cards) of cases until at most
/// kMaxRunPoints points are left. Failed cases keep their pictures first, then the other cases,
/// each in the order of the record. 60,000 points are about 1 MB of JSON.
void keep_evidence_within_bounds(std::vector<CaseRecord>& cases);

/// One row of `bench --json`.
struct BenchmarkRecord {
  std::string backend, operation;
  std::int64_t batch = 0, vocab = 0;
  std::string dtype, logits;
  double microseconds = 0;
  std::string floor;
  double floor_microseconds = 0;
  double ratio = 0;
  std::string machine;  ///< GPU, driver, commit and date, if the backend gives them
};

}  // namespace fairdraw::harness
