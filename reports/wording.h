// Words that all pages for people share: the verdict in a sentence, numbers, and the mistakes that
// a run could have missed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/causes.h"
#include "harness/run/evidence/record.h"

namespace fairdraw::reports {

/// Returns the verdict in plain text, such as "2 of 14 cases failed." or "All 12 cases passed; 1
/// was skipped."
std::string verdict_sentence(const harness::RunRecord& record);

/// Returns the headline of a report: the cause that explains most failures, or the way in which the
/// run ended if no cause is known.
std::string headline(const harness::RunRecord& record);

/// Sentences about a sampler that passed: what the run shows, and what the run does not show.
struct Proof {
  std::vector<std::string> shown, not_shown;
};

/// Returns these sentences for a run; empty unless the run passed.
Proof proof_of(const harness::RunRecord& record);

/// Returns the verdict on the run as a whole, which its exit code expresses. If nothing failed, but
/// the run is incomplete or a requirement was not judged, the verdict is underpowered.
harness::Verdict run_verdict(const harness::RunRecord& record);

/// Returns the verdict of the run as a word, for titles. The word "incomplete" takes precedence
/// over all others.
std::string run_word(const harness::RunRecord& record);

/// Returns whether the case needs attention: its verdict is failed, error or underpowered.
bool is_red(const harness::CaseRecord& record);

/// Returns the cases that need attention: failed before error before underpowered. Within each
/// verdict the first case of every check comes before the others, and otherwise cases are in the
/// order of the record. So the first few cases show all kinds.
std::vector<const harness::CaseRecord*> red_cases(const harness::RunRecord& record);

/// Cases that need attention and share a cause.
struct FailureGroup {
  std::string name;  ///< the cause up to its colon, or a common property of the cases such as
                     ///< "could not be run"
  std::string bug;   ///< full name of the cause; empty if there is none
  std::string reason;
  bool is_doubtful = false;                       ///< as in harness::Cause
  harness::CauseText text;                        ///< explanation of the cause for the reader
  std::vector<const harness::CaseRecord*> cases;  ///< the cases of the group; those that name the
                                                  ///< cause come first
};

/// Groups all cases that need attention, each once, by harness::ranked_causes, the likeliest cause
/// first. After the groups with causes come the failed cases that no cause explains, the cases that
/// could not be run, and the cases with too few draws. No group in the result is empty.
std::vector<FailureGroup> failure_groups(const harness::RunRecord& record);

/// Returns the size of a group, such as "71 of 79 failed cases" or "2 of 5 cases that could not be
/// run".
std::string share_text(const FailureGroup& group, const harness::RunRecord& record);

/// Returns the findings of `identify` about a sampler: the profile that it follows, and its
/// deviations from the profile by which it is judged. The text is empty if `identify` was not run.
std::string seen_text(const harness::SamplerRecord& sampler);

/// Returns the cases to watch, in the order of the record.
std::vector<const harness::CaseRecord*> watched_cases(const harness::RunRecord& record);

/// Heading above the list of cases to watch.
inline constexpr std::string_view kWatchSentence =
    "These cases were suspicious in a first look, but more draws did not confirm the suspicion. "
    "Chance makes at most one case of a hundred suspicious, and hardly ever the same case twice.";

/// Returns 1234567 as "1,234,567".
std::string grouped(std::uint64_t value);

/// Returns 192.4 as "3 min 12 s".
std::string duration_text(double seconds);

/// Returns the time at which the run began, from its environment, such as "24 November 2026, 22:55
/// UTC"; empty if the time is not known.
std::string date_text(const harness::RunRecord& record);

/// Returns the time at which the run began as it is stored, in a form that sorts by time:
/// "2026-11-24T22:55:03Z".
std::string start_of(const harness::RunRecord& record);

/// Returns a number with four significant digits; "-" if there is no number.
std::string number_text(const std::optional<double>& value);

/// A line of the table of mistakes that could have gone unnoticed: the smallest deviation that the
/// passed statistical cases of one check on one sampler would have detected.
struct Unnoticed {
  std::string sampler, check;
  std::uint64_t cases = 0;
  double min_discrepancy = 0;  ///< largest value over these cases, as a total variation distance
};

/// Heading above the table of small mistakes.
inline constexpr std::string_view kSmallMistakesSentence =
    "The table has the numbers of draws that find small mistakes, each in the case that finds the "
    "mistake first. If the case makes fewer draws, a sampler with the mistake may have passed.";

/// Returns a number of draws such as "98,000,000", or a text saying that no number of draws
/// suffices.
std::string needed_text(const harness::SmallMistake& mistake);

/// Returns the lines in the order in which sampler and check first appear.
std::vector<Unnoticed> unnoticed(const harness::RunRecord& record);

}  // namespace fairdraw::reports
