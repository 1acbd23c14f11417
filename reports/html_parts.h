// The parts that index.html is put together from; for html*.cpp alone. Each returns whole elements.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::reports::html {

/// "<dt>term</dt><dd>html</dd>"; the term is text, the rest is markup.
std::string entry(std::string_view term, const std::string& markup);

/// The same for a number; empty where there is none.
std::string entry(std::string_view term, const std::optional<double>& value);

/// The verdict as a word with its sign: never by colour alone.
std::string verdict_badge(harness::Verdict verdict);

/// A table's head: numeric columns are named with a leading '#'.
std::string table_head(std::string_view caption, const std::vector<std::string_view>& columns);
inline constexpr std::string_view kTableEnd = "</tbody></table></div>\n";

std::string number_cell(const std::string& text);

/// A command line with its button.
std::string replay_line(const std::string& replay);

/// A list of pictures side by side; empty for none.
std::string figures(const std::string& pictures);

/// What the failures of a run have in common: suspected bugs, and which checks they are of.
std::string common_section(const harness::RunRecord& record);

/// What went wrong, a card a case, and what is to be watched.
std::string red_section(const harness::RunRecord& record);
std::string watch_section(const harness::RunRecord& record);

/// Pictures over all cases, and of those that passed and kept their evidence.
std::string overview_section(const harness::RunRecord& record, const ReportExtras& extras);
std::string evidence_section(const harness::RunRecord& record);

/// A part for each sampler and filter.
std::string filters_section(const harness::RunRecord& record);

/// All cases: a table that the script fills, filters and sorts; without script, a plain one.
std::string cases_section(const harness::RunRecord& record);

}  // namespace fairdraw::reports::html
