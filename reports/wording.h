// What the pages for people have in common: the verdict in a sentence, numbers, and what a run
// could have missed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/causes.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// "2 of 14 cases failed.", "All 12 cases passed; 1 was skipped.", ...: plain text.
std::string verdict_sentence(const harness::RunRecord& record);

/// Returns what to say first: the cause that explains most failures; where none is known, how it
/// ended.
std::string headline(const harness::RunRecord& record);

/// Sentences about a sampler that passed: what the run shows, and what it does not.
struct Proof {
  std::vector<std::string> shown, not_shown;
};

/// Both empty unless the run passed.
Proof proof_of(const harness::RunRecord& record);

/// How the run as a whole ended: the verdict that its exit code means. Underpowered where nothing
/// failed and the run is incomplete, or what it requires was not judged.
harness::Verdict run_verdict(const harness::RunRecord& record);

/// The same in a word, for titles: "incomplete" comes before all others.
std::string run_word(const harness::RunRecord& record);

/// The case needs attention: failed, error or underpowered.
bool is_red(const harness::CaseRecord& record);

/// Red cases: failed before error before underpowered, of these the first of each check before the
/// others, and else in the order of the record: the first few show all there is to see.
std::vector<const harness::CaseRecord*> red_cases(const harness::RunRecord& record);

/// Red cases with one cause.
struct FailureGroup {
  std::string name;  ///< of the cause up to its colon, or what they have in common: "could not be
                     ///< run"
  std::string bug;   ///< the whole name of the cause; empty where there is none
  std::string reason;
  harness::CauseText text;                        ///< what to tell a reader
  std::vector<const harness::CaseRecord*> cases;  ///< those that name the cause come first
};

/// Every red case once, by harness::ranked_causes, the likeliest cause first; behind them failed
/// cases that no cause explains, those that could not be run, and those with too few draws. None is
/// empty.
std::vector<FailureGroup> failure_groups(const harness::RunRecord& record);

/// "71 of 79 failed cases", "2 of 5 cases that could not be run": how many a group has.
std::string share_text(const FailureGroup& group, const harness::RunRecord& record);

/// What `identify` saw of a sampler: which profile it follows, and where it does otherwise than the
/// one that it is judged by. Empty where it was not asked.
std::string seen_text(const harness::SamplerRecord& sampler);

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
