// From the record of a run to what people and machines read. Nothing here runs a sampler; every
// function is pure but write_report, and gives the same bytes for the same record.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::reports {

/// Version of the format of report.json; schema/README.md says what may change when.
inline constexpr int kSchemaMajor = 3, kSchemaMinor = 3;

/// report.json (schema/report.schema.json). Keys in a fixed order, a case a line, numbers so that
/// they come back bit for bit, null for what is absent or not finite. Equal records give equal
/// bytes except for "seconds" and "environment".
std::string to_json(const harness::RunRecord& record);

/// The record of a report.json of this version, of one before (from 2), or of a later minor one,
/// whose additions are passed over. Throws std::runtime_error: a text that is truncated, or of a
/// newer format; or naming the field that is missing, of the wrong type, out of range, unknown, or
/// contradicted by the cases (summary). Where null replaces a number that is not optional, it comes
/// back as NaN.
harness::RunRecord from_json(const std::string& text);

/// junit.xml: one testsuite a sampler, and one with an error where the run is incomplete.
/// Underpowered is a failure of type "underpowered"; what is to be watched is a flakyFailure, seed
/// and evidence are properties.
std::string to_junit_xml(const harness::RunRecord& record);

/// summary.md, GitHub-flavoured Markdown: what went wrong first, and at most 1 MiB, as much as
/// GitHub shows of a job.
std::string to_markdown(const harness::RunRecord& record);

/// index.html: one page that loads nothing. Its one script draws it from the record that it holds.
/// Without script it says how the run ended, and names summary.md.
std::string to_html(const harness::RunRecord& record, const ReportExtras& extras = {});

/// "failed   cpu:avx2  sample/gaussian: expected 3, observed 4", with what there is to watch at its
/// end, without a newline.
std::string terminal_line(const harness::CaseRecord& record);

/// "fairdraw: 12 passed, 0 failed, 0 underpowered, 1 skipped, 0 error", and why it is incomplete
/// and which of its requirements were not judged, where that is so; without a newline.
std::string terminal_summary(const harness::RunRecord& record);

struct TerminalStyle {
  std::string command = "./fairdraw";  ///< how the reader calls the program: replay lines begin so
  std::size_t listed = 10;             ///< cases of a group of red ones; 0: all
  bool quiet = false;                  ///< the groups and the summary line alone
  bool colours = false;
};

/// How a run ended: "looks like    temperature in 3 of 4 failed cases: ..." for the causes that
/// explain most failures; the red cases, grouped by cause (failure_groups in wording.h), each group
/// with one line that replays a case of it; the cases to watch; "note plugin:a.so Judged by its own
/// definition, which allows anything at: ..." for each note on a sampler; how much of the suite
/// applied to each, and what to declare next; and the summary line.
std::string to_terminal(const harness::RunRecord& record, const TerminalStyle& style = {});

/// A group of red cases as to_terminal tells it, and its cases: places in the record.
struct ToldGroup {
  std::string text;
  std::vector<std::size_t> cases;
};
std::vector<ToldGroup> groups_for_terminal(const harness::RunRecord& record,
                                           const TerminalStyle& style = {});

/// Workflow commands of GitHub Actions, one a check that is red or to be watched (ten of each at
/// most), with the first of its cases; before them one that says so where the run is incomplete, or
/// what it requires was not judged, and a notice for each sampler with features that were not
/// judged. Empty where there is none of these.
std::string to_annotations(const harness::RunRecord& record);

/// Removes the report that an earlier run left in `folder`, which is created, so that a run that
/// ends early leaves none that looks like its own. `keep` holds files that are still to be read.
/// Throws std::runtime_error with the path and the reason, also where nothing can be written there.
void withdraw_report(const std::filesystem::path& folder,
                     const std::vector<std::filesystem::path>& keep = {});

/// Writes report.json, junit.xml, summary.md and index.html into `folder`, which is created. Each
/// file appears whole or not at all, report.json last. Throws std::runtime_error with the path and
/// the reason.
void write_report(const std::filesystem::path& folder, const harness::RunRecord& record,
                  const ReportExtras& extras = {});

/// A JSON array with one object a row, keys in the order of the struct; without "machine" where it
/// is empty.
std::string to_json(const std::vector<harness::BenchmarkRecord>& rows);

/// The rows as a table for a terminal, columns aligned, a header line first.
std::string to_text_table(const std::vector<harness::BenchmarkRecord>& rows);

}  // namespace fairdraw::reports
