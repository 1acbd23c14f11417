// The result record: what a run found. The only thing that reports/ sees.
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

/// passed: every check held. failed: one did not. underpowered: too few draws to find the
/// discrepancy that the case states. skipped: the sampler lacks an ability. error: the case
/// could not be run.
enum class Verdict { passed, failed, underpowered, skipped, error };

const char* to_string(Verdict verdict);

/// True where a check looks at tokens that were drawn, which nearly every bug changes; false where
/// it compares what calls return.
bool looks_at_tokens(std::string_view check);

/// The cause that a failure of a check means where its evidence names no other; empty: it has none.
std::string_view default_cause(std::string_view check);

/// The check, and the id, of the case that all p-values of a run make together.
inline constexpr std::string_view kGlobalCheck = "global";

/// Draws of one row, by token.
struct Counts {
  std::vector<std::uint64_t> of_token;  ///< [vocab]
  std::uint64_t draws = 0;
  std::uint64_t no_token = 0;  ///< draws that gave something outside [0, vocab)
  std::string trouble;         ///< why drawing stopped; empty: it did not
};

/// A part of the draws that a check asks for at once: what `merge` adds up.
struct CountedDraws {
  std::uint64_t seed = 0;   ///< that they were asked for with
  std::uint64_t asked = 0;  ///< how many, of all parts together
  Counts counts;            ///< those of this part
};

/// Draws over cells that depend on the distribution alone, and so are the same in every run: what
/// `merge --across-seeds` adds up.
struct CellCounts {
  std::string axis;                 ///< "rank", "lane"
  std::vector<double> probability;  ///< [cells], a distribution without zeros
  std::vector<std::uint64_t> counts;
  /// What a sampler that is right within its profile may be off by: the largest relative error e of
  /// a cell, and the sum of p e^2.
  double relative_error = 0, chi_squared_error = 0;
};

/// What a check found. Exact checks have no statistic and spend no error budget.
struct CheckOutcome {
  Verdict verdict = Verdict::passed;
  std::string message;  ///< one sentence; what was observed and what was expected on failure
  std::string watch;    ///< what looked suspicious and was not confirmed: shown, and never red
  /// Abilities that the sampler does not declare: of a skipped case the one that it needs, of
  /// others those that parts of it need, which were left out. Names of abilities.inc, each once.
  std::vector<std::string> lacks;
  std::uint64_t draws = 0;
  std::uint64_t rows = 0;  ///< different rows of logits
  std::optional<double> statistic;
  std::optional<double> dof;
  /// chi_squared: Pearson's, reported even where it does not decide. Others: a valid one of the
  /// case as a whole (bets: 1 over its largest evidence).
  std::optional<double> p_value;
  std::optional<double> total_variation;   ///< observed, over the pooled cells
  std::optional<double> min_discrepancy;   ///< smallest total variation that the draws find
  std::map<std::string, double> measures;  ///< further numbers by name (alpha, observed, ...)
  Evidence evidence;                       ///< for cards and pictures; decides nothing
  std::vector<CellCounts> cells;           ///< of its first look
  std::vector<CountedDraws> counted;       ///< of a part of a case, which is not judged by itself

  CheckOutcome& fail(std::string what);     ///< keeps the first failure's message
  void watch_out(const std::string& what);  ///< adds to `watch`
  void leave_out(const Lack& lack);         ///< adds its ability, if any, to `lacks`
  bool failed() const { return verdict == Verdict::failed; }
  /// Of the error budget: a level that a p-value was compared with. Their sum is a measure.
  void spend(double level);
  double spent() const;
};

/// One case under one sampler: an error until its check returns.
struct CaseRecord : CheckOutcome {
  CaseRecord() { verdict = Verdict::error; }

  std::string id;     ///< unique in a run together with `sampler`
  std::string suite;  ///< smoke, gate or nightly
  std::string check;  ///< name of the check
  std::string sampler;
  std::string semantics;
  std::string filter;  ///< what rows are asked for: "none", "top_k+top_p", ..., "mixed"
  std::vector<std::string> features;  ///< that it exercises, in the order of features.inc
  std::uint64_t vocab = 0;
  double seconds = 0;
  std::string replay;  ///< the command line that repeats this case
};

/// How the run's false alarm rate was shared out.
struct ErrorBudget {
  double false_alarm_rate = 0;          ///< upper bound for the whole run
  double spent = 0;                     ///< sum over the checks that were really made
  std::uint64_t statistical_cases = 0;  ///< of all shards: what the rate was shared out to
};

/// What a sampler does at a choice that profiles differ in, where the profile that it is judged by
/// says otherwise.
struct SeenDefinition {
  std::string meaning;              ///< "mass exactly at top_p": reference/semantic_choices.h
  std::string declared;             ///< the value of the profile
  std::vector<std::string> values;  ///< that explain all rows, likeliest first; empty: none does
};

/// A red run asks the sampler what `identify` asks it.
struct SeenDefinitions {
  std::string closest;                      ///< the profile with least against it
  std::vector<SeenDefinition> differences;  ///< from the profile that it is judged by
};

/// A property that all rows have in common that a mistake shows in.
struct SharedCondition {
  std::string subject;  ///< the parameter that it is about: "top_k"
  std::string text;     ///< "rows with top_k"
};

struct SamplerRecord {
  std::string name, version, semantics;
  /// Where these semantics allow anything, so that nothing is judged, or more than is usual.
  std::vector<std::string> notes = {};
  /// What it declares, as bits of fairdraw_plugin.h. Only where parts of cases are left to `merge`.
  std::uint64_t abilities = 0, promises = 0;
  /// Of a run in which it failed a case; absent: it was not asked, or gave no answer.
  std::optional<SeenDefinitions> seen = {};
  /// Likewise: the conditions without which none of the failed cases that were asked again fails.
  std::vector<SharedCondition> conditions = {};
};

/// One of the runs whose evidence was accumulated.
struct Night {
  std::uint64_t seed = 0;
  std::string seed_source, commit;
  double false_alarm_rate = 0;  ///< of its own
};

/// A mistake so small that the draws of a run may miss it, and what finds it.
struct SmallMistake {
  std::string mistake;       ///< "temperatures 0.1 % too high"
  std::string id;            ///< the case of this run whose design needs fewest draws for it
  double discrepancy = 0;    ///< of the probability that it counts: a total variation
  std::uint64_t draws = 0;   ///< that the case makes
  std::uint64_t needed = 0;  ///< to find it with a miss probability of 1e-6; 0: above 2^40
};

struct Summary {
  std::uint64_t passed = 0, failed = 0, underpowered = 0, skipped = 0, error = 0;
};

struct RunRecord {
  std::string tool_version;
  std::string suite;
  std::uint64_t seed = 0;
  std::string seed_source;  ///< "--seed 7", "commit 0123...", "version 0.1.0"
  std::string commit;       ///< of the repository that the run was made in; empty: in none
  std::string shard;        ///< "1/1"
  /// Place of each case in the whole run, from 0, and how many that has. Of a shard; else empty.
  std::vector<std::uint64_t> places = {};
  std::uint64_t planned = 0;
  std::string case_part;  ///< "2/4", "2/4 again" (its second look): of every case that can be split
  std::string selection;  ///< of --case and --exclude; empty: all cases
  std::string options;    ///< further options that a repetition needs: "--semantics hf"
  /// Why the run ended before all of its cases were run: `cases` holds those that were. Empty: it
  /// is whole.
  std::string incomplete;
  /// What has to be judged for the run to pass (--require): features of features.inc; and the
  /// percentage of its cases that each sampler may skip (--max-skipped).
  std::vector<std::string> required = {};
  std::optional<double> max_skipped = {};
  std::map<std::string, std::string> environment;  ///< host facts; excluded from byte equality
  ErrorBudget error_budget;
  std::vector<Night> nights = {};  ///< of accumulated evidence, in their order; else empty
  std::vector<SamplerRecord> samplers;
  std::vector<CaseRecord> cases;  ///< in the order of the case table, whatever --jobs was
  std::vector<SmallMistake> small_mistakes;  ///< what its statistical cases may miss
  std::uint64_t draws = 0;
  double seconds = 0;

  Summary summary() const;

  /// 1 a check failed (or could not be run); 3 nothing was tested, a case was underpowered, the run
  /// is incomplete, or what it requires was not judged; 0 all passed. (2, bad usage, ends a run
  /// before there is a record.) Parts of cases test nothing by themselves: 0 where their draws were
  /// made.
  int exit_code() const;
};

/// False where every part of it is empty.
bool has_something(const Evidence& evidence);

/// Points of pictures (bins, places of a grid, cells of a matrix, tokens) that a run may hold.
inline constexpr std::uint64_t kMaxRunPoints = 60'000;

/// Drops the pictures (not the words and numbers of the cards) of cases until no more than
/// kMaxRunPoints are left: red cases keep theirs first, then the others, each in the order of the
/// record. 60,000 points are about 1 MB of JSON.
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
  std::string machine;  ///< GPU, driver, commit and date, where the backend says; may be empty
};

}  // namespace fairdraw::harness
