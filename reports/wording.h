// Shared by the pages for people: the verdict in a sentence, numbers, and what a run could have
// missed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/causes.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// Returns "2 of 14 cases failed.", "All 12 cases passed; 1 was skipped.", ..., in plain text.
std::string verdict_sentence(const harness::RunRecord& record);

/// Returns the headline of a report: the cause that explains most failures, or if none is known,
/// how the run ended.
std::string headline(const harness::RunRecord& record);

/// Sentences about a sampler that passed: what the run shows, and what it does not.
struct Proof {
  std::vector<std::string> shown, not_shown;
};

/// Returns the proof of a run; empty unless the run passed.
Proof proof_of(const harness::RunRecord& record);

/// Returns how the run as a whole ended: the verdict that its exit code means. The verdict is
/// underpowered if nothing failed but the run is incomplete, or a requirement was not judged.
harness::Verdict run_verdict(const harness::RunRecord& record);

/// Returns the verdict of the run as a word, for titles. The word "incomplete" takes precedence
/// over all others.
std::string run_word(const harness::RunRecord& record);

/// True if the case needs attention: failed, error or underpowered.
bool is_red(const harness::CaseRecord& record);

/// Returns the cases that need attention: failed before error before underpowered, within each the
/// first case of every check before the others, and otherwise in the order of the record, so that
/// the first few cases show all kinds.
std::vector<const harness::CaseRecord*> red_cases(const harness::RunRecord& record);

/// Cases that need attention and have the same cause.
struct FailureGroup {
  std::string name;  ///< the cause up to its colon, or a common property of the cases: "could not
                     ///< be run"
  std::string bug;   ///< whole name of the cause; empty if there is none
  std::string reason;
  harness::CauseText text;                        ///< text of the cause for the reader
  std::vector<const harness::CaseRecord*> cases;  ///< cases that name the cause come first
};

/// Groups all cases that need attention, each once, by harness::ranked_causes, the likeliest cause
/// first. After the groups with causes come failed cases that no cause explains, cases that could
/// not be run, and cases with too few draws. No group is empty.
std::vector<FailureGroup> failure_groups(const harness::RunRecord& record);

/// Returns the size of a group: "71 of 79 failed cases", "2 of 5 cases that could not be run".
std::string share_text(const FailureGroup& group, const harness::RunRecord& record);

/// Returns the findings of `identify` about a sampler: which profile it follows, and where it
/// deviates from the profile by which it is judged. Returns an empty text if `identify` was not
/// run.
std::string seen_text(const harness::SamplerRecord& sampler);

/// Returns the cases with something to watch, in the order of the record.
std::vector<const harness::CaseRecord*> watched_cases(const harness::RunRecord& record);

/// Heading of the list of cases to watch.
inline constexpr std::string_view kWatchSentence =
    "Suspicious in a first look, but not confirmed on more draws. Chance does this in at most one "
    "case of a hundred, and hardly ever twice in the same case.";

/// Returns 1234567 as "1,234,567".
std::string grouped(std::uint64_t value);

/// Returns 192.4 as "3 min 12 s".
std::string duration_text(double seconds);

/// Returns when the run began, from its environment: "24 November 2026, 22:55 UTC"; empty if not
/// known.
std::string date_text(const harness::RunRecord& record);

/// Returns the start of the run as stored, in a form that sorts by time: "2026-11-24T22:55:03Z".
std::string start_of(const harness::RunRecord& record);

/// Returns a number with four significant digits; "-" if absent.
std::string number_text(const std::optional<double>& value);

/// A line of "what could have gone unnoticed": how small a deviation the passed statistical cases
/// of one check on one sampler would have found.
struct Unnoticed {
  std::string sampler, check;
  std::uint64_t cases = 0;
  double min_discrepancy = 0;  ///< largest value over these cases, a total variation distance
};

/// Heading of the table of small mistakes.
inline constexpr std::string_view kSmallMistakesSentence =
    "Draws that find small mistakes, each in the case that finds the mistake first. If the case "
    "makes fewer draws, the mistake may have passed.";

/// Returns "98,000,000", or that no number of draws suffices.
std::string needed_text(const harness::SmallMistake& mistake);

/// Returns the lines in the order in which sampler and check first appear.
std::vector<Unnoticed> unnoticed(const harness::RunRecord& record);

}  // namespace fairdraw::reports
