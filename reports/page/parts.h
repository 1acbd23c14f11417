// The parts that index.html is put together from; for page/*.cpp alone. Each returns whole
// elements.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"
#include "reports/wording.h"

namespace fairdraw::reports::html {

/// "<dt>term</dt><dd>html</dd>"; the term is text, the rest is markup.
std::string entry(std::string_view term, const std::string& markup);

/// The same for a number; empty where there is none.
std::string entry(std::string_view term, const std::optional<double>& value);

/// The verdict as a word with its sign: never by colour alone.
std::string verdict_badge(harness::Verdict verdict);

/// As much of the commit as tells it from others.
std::string commit_label(const harness::RunRecord& record);

/// A table's head: numeric columns are named with a leading '#'.
std::string table_head(std::string_view caption, const std::vector<std::string_view>& columns);
inline constexpr std::string_view kTableEnd = "</tbody></table></div>\n";

std::string number_cell(const std::string& text);

/// A command line with its button.
std::string replay_line(const std::string& replay);

/// A list of pictures side by side; empty for none.
std::string figures(const std::string& pictures);

/// A link to the table of all cases. With script it shows those alone that are `wanted`: pairs of
/// what (verdict, sampler, check, filter) and its value.
struct Wanted {
  std::string_view what;
  std::string value;
};
std::string show_link(const std::vector<Wanted>& wanted, const std::string& markup,
                      std::string_view kind = "");

/// Where a case, or a cause, is on the page: its name as far as an address can hold it, and a
/// number made of the whole name. The same in every run.
std::string anchor_of(std::string_view id, std::string_view sampler);
std::string cause_anchor(std::string_view cause);

/// " <code>cpu</code>", where a run has several samplers.
std::string sampler_label(const harness::CaseRecord& one, const harness::RunRecord& record);

/// Red cases that the page shows in full, by cause; all are in the table.
inline constexpr std::size_t kMaxCards = 100;
inline constexpr std::size_t kMaxCardsOfCause = 80;
/// How many of each of the record's failure_groups.
std::vector<std::size_t> cards_of(const std::vector<FailureGroup>& groups);

/// Everything that is known of a case: message, evidence, replay line, pictures, numbers.
std::string case_body(const harness::CaseRecord& record);
/// What was observed, expected and measured: entries of a list, which may be empty.
std::string seen_entries(const harness::CaseRecord& record);

/// The verdict, its counts, what was run and when.
std::string verdict_header(const harness::RunRecord& record, const ReportExtras& extras);

// --- Sections, without their heading; empty where there is nothing to say ------------------------

/// What went wrong: a card a cause.
std::string causes_section(const harness::RunRecord& record);
std::string watch_section(const harness::RunRecord& record);
/// Which features were judged, and what to declare for the others.
std::string coverage_section(const harness::RunRecord& record);
/// Samplers against checks.
std::string heat_map_section(const harness::RunRecord& record);
/// Earlier runs, and what changed from one to the next.
std::string history_section(const harness::RunRecord& record, const ReportExtras& extras);
/// The same as a strip of bars.
std::string history_strip(const harness::RunRecord& record, const ReportExtras& extras);
/// What could have gone unnoticed, and the error ledger.
std::string limits_section(const harness::RunRecord& record);
/// Pictures over all cases, and of those that passed and kept their evidence.
std::string overview_section(const harness::RunRecord& record, const ReportExtras& extras);
std::string evidence_section(const harness::RunRecord& record);
/// A part for each sampler and filter.
std::string filters_section(const harness::RunRecord& record);
std::string environment_section(const harness::RunRecord& record);
/// All cases: a table that the script fills, filters and sorts; without script, a plain one.
std::string cases_section(const harness::RunRecord& record);

}  // namespace fairdraw::reports::html
