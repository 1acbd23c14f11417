// What the pages for people have in common: the verdict in a sentence, numbers, and what a run
// could have missed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// "2 of 14 cases failed.", "All 12 cases passed; 1 was skipped.", ...: plain text.
std::string verdict_sentence(const harness::RunRecord& record);

/// How the run as a whole ended: the verdict that its exit code means. Of an incomplete run in
/// which nothing failed: underpowered.
harness::Verdict run_verdict(const harness::RunRecord& record);

/// Counts a case by its verdict.
void count(harness::Verdict verdict, harness::Summary& counts);

/// How cases ended together: failed before error before underpowered before passed; skipped where
/// none was run.
harness::Verdict verdict_of(const harness::Summary& counts);

/// The same in a word, for titles: "incomplete" comes before all others.
std::string run_word(const harness::RunRecord& record);

/// The case needs attention: failed, error or underpowered.
bool is_red(const harness::CaseRecord& record);

/// Red cases: failed before error before underpowered, of these the first of each check before the
/// others, and else in the order of the record: the first few show all there is to see.
std::vector<const harness::CaseRecord*> red_cases(const harness::RunRecord& record);

/// What failed cases are suspected of: how many name it, and the reason of the first. Names that
/// differ after a colon ("temperature: ignored") are one cause; it has the name that most cases
/// give it.
struct SuspectedBug {
  std::string bug, reason;
  std::uint64_t cases = 0;
  bool exact = false;  ///< named by a case of a check that compares, and counts nothing
};

/// Those that explain most failures first; among equals those of exact checks, then in the order of
/// the record.
std::vector<SuspectedBug> suspected_bugs(const harness::RunRecord& record);

/// Red cases with one cause.
struct FailureGroup {
  std::string name;    ///< of the cause, or what they have in common: "could not be run"
  std::string bug;     ///< the name that most cases give the cause; empty where there is none
  std::string reason;  ///< of the first of them
  std::vector<const harness::CaseRecord*> cases;  ///< in the order of red_cases
};

/// Every red case once. A failed one is in the group of the cause that explains most failures among
/// those that it names. The largest groups come first, among equals in the order of suspected_bugs;
/// behind them failed cases that name no cause, those that could not be run, and those with too few
/// draws. None is empty.
std::vector<FailureGroup> failure_groups(const harness::RunRecord& record);

/// How the cases of one check ended.
struct CheckOutcomes {
  std::string check;
  std::uint64_t failed = 0, passed = 0;
};

/// In the order in which checks first appear.
std::vector<CheckOutcomes> outcomes_of_checks(const harness::RunRecord& record);

/// Cases that hold something to watch, in the order of the record.
std::vector<const harness::CaseRecord*> watched_cases(const harness::RunRecord& record);

/// Heads the list of them.
inline constexpr std::string_view kWatchSentence =
    "Suspicious in one look and not confirmed on more draws. Chance does that to one case in a "
    "hundred at most; hardly ever to the same case twice.";

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t value);

/// 192.4 as "3 min 12 s".
std::string duration_text(double seconds);

/// When the run began, as its environment says: "24 November 2026, 22:55 UTC"; empty: it does not.
std::string date_text(const harness::RunRecord& record);

/// The same as it stands there, which is in the order of time: "2026-11-24T22:55:03Z".
std::string start_of(const harness::RunRecord& record);

/// Four significant digits; "-" where absent.
std::string number_text(const std::optional<double>& value);

/// One line of "what could have gone unnoticed": how small a deviation the passed statistical cases
/// of one check on one sampler would have found.
struct Unnoticed {
  std::string sampler, check;
  std::uint64_t cases = 0;
  double min_discrepancy = 0;  ///< the largest over these cases, a total variation distance
};

/// Heads the table of small mistakes.
inline constexpr std::string_view kSmallMistakesSentence =
    "Draws that small mistakes take, each in the case that finds it first; where the case makes "
    "fewer, the mistake may have passed.";

/// "98,000,000", or that no number of draws suffices.
std::string needed_text(const harness::SmallMistake& mistake);

/// In the order in which sampler and check first appear.
std::vector<Unnoticed> unnoticed(const harness::RunRecord& record);

}  // namespace fairdraw::reports
