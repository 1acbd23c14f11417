// Turns the record of a run into reports for people and machines. No function of this header runs a
// sampler. Every function except write_report is pure, and gives the same bytes for the same
// record.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/run/evidence/record.h"
#include "reports/extras.h"

namespace fairdraw::reports {

/// Version of the format of report.json. schema/README.md says which version may change what.
inline constexpr int kSchemaMajor = 3, kSchemaMinor = 3;

/// Returns the text of report.json (schema/report.schema.json). Keys are in a fixed order, with one
/// case per line. Numbers are read back bit for bit, and values that are absent or not finite are
/// null. Equal records give equal bytes except for "seconds" and "environment".
std::string to_json(const harness::RunRecord& record);

/// Reads a report.json of this version, of an earlier version (from 2), or of a later minor
/// version, whose additions are ignored. Throws std::runtime_error for a truncated text or a newer
/// format. Also throws, with the field's name, for a field that is missing, of the wrong type, out
/// of range or unknown, or that contradicts the cases (summary). null in place of a number that is
/// not optional is read as NaN.
harness::RunRecord from_json(const std::string& text);

/// Returns junit.xml: one testsuite per sampler, and one more with an error if the run is
/// incomplete.
/// An underpowered case is a failure of type "underpowered", a case to watch has a flakyFailure,
/// and seed and evidence are properties.
std::string to_junit_xml(const harness::RunRecord& record);

/// Returns summary.md in GitHub-flavoured Markdown, failures first. The summary has at most 1 MiB,
/// which is as much as GitHub shows for a job.
std::string to_markdown(const harness::RunRecord& record);

/// Returns index.html, a page that loads nothing from elsewhere. The only script of the page draws
/// it from the record that it contains. Without the script, the page says how the run ended, and
/// names summary.md.
std::string to_html(const harness::RunRecord& record, const ReportExtras& extras = {});

/// Returns a line such as "failed cpu:avx2 sample/gaussian: expected 3, observed 4", followed by
/// anything to watch, without a newline.
std::string terminal_line(const harness::CaseRecord& record);

/// Returns a line such as "fairdraw: 12 passed, 0 failed, 0 underpowered, 1 skipped, 0 error",
/// without a newline. If the run is incomplete, the reason follows, and then the requirements that
/// were not judged.
std::string terminal_summary(const harness::RunRecord& record);

struct TerminalStyle {
  std::string command = "./fairdraw";  ///< command that the reader types, with which replay lines
                                       ///< begin
  std::size_t listed = 10;             ///< largest number of failed cases listed per group; 0: all
                                       ///< cases
  bool quiet = false;                  ///< true if only the groups and the summary line are printed
  bool colours = false;
};

/// Returns a text that says how a run ended. First come the causes that explain most failures:
/// "looks like temperature in 3 of 4 failed cases: ...". The failed cases follow, grouped by cause
/// (failure_groups in wording.h), with a line per group that replays one of its cases, and then the
/// cases to watch. Each note on a sampler follows: "note plugin:a.so Judged by its own definition,
/// which allows anything at: ...". The last lines state which part of the suite
/// applied to each sampler and what the sampler should declare next, and summarise the run.
std::string to_terminal(const harness::RunRecord& record, const TerminalStyle& style = {});

/// A group of failed cases as to_terminal shows it, with the indices of its cases in the record.
struct ToldGroup {
  std::string text;
  std::vector<std::size_t> cases;
};
std::vector<ToldGroup> groups_for_terminal(const harness::RunRecord& record,
                                           const TerminalStyle& style = {});

/// Returns workflow commands of GitHub Actions: one per check that failed or is to be watched (at
/// most ten of each kind), with the first case of the check. The first command says if the run is
/// incomplete, or if a requirement was not judged; a notice names each sampler with features that
/// were not judged. Returns no command if there is nothing to annotate.
std::string to_annotations(const harness::RunRecord& record);

/// Removes the report of an earlier run from `folder`, so that a run that ends early does not leave
/// a report that looks like its own. Creates the folder. The files `keep` have not been read yet,
/// and stay. Throws std::runtime_error with the path and the reason, also if the folder is not
/// writable.
void withdraw_report(const std::filesystem::path& folder,
                     const std::vector<std::filesystem::path>& keep = {});

/// Writes report.json, junit.xml, summary.md and index.html into `folder`, which is created if it
/// is missing. Each file appears complete or not at all, and report.json appears last. Throws
/// std::runtime_error with the path and the reason.
void write_report(const std::filesystem::path& folder, const harness::RunRecord& record,
                  const ReportExtras& extras = {});

/// Returns a JSON array with one object per row. Keys are in the order of the struct's fields, and
/// "machine" is left out if it is empty.
std::string to_json(const std::vector<harness::BenchmarkRecord>& rows);

/// Returns the rows as a table for a terminal, with aligned columns and a header line.
std::string to_text_table(const std::vector<harness::BenchmarkRecord>& rows);

}  // namespace fairdraw::reports
