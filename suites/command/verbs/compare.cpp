// compare: shows the differences between two runs, or between two benchmarks.
#include "reports/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "harness/contract/usage_error.h"
#include "reports/extras.h"
#include "reports/report.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/record_files.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitRegression = 1;
constexpr int kExitNothingCompared = 3;

struct CompareOptions {
  std::string base, head, json, markdown, html;
  double tolerance = reports::kSpeedTolerance;
};

// Returns whether a text is a benchmark; its rows are a JSON array, but a record is a JSON object.
bool is_benchmark(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '[';
}

template <class Read>
auto read_or_name(const std::string& path, const std::string& text, const Read& read) {
  try {
    return read(text);
  } catch (const std::runtime_error& error) {
    throw harness::UsageError(fmt::format("{}: {}", path, error.what()));
  }
}

reports::Comparison compared(const CompareOptions& options) {
  const std::string base = read_text(options.base), head = read_text(options.head);
  if (is_benchmark(base) != is_benchmark(head)) {
    throw harness::UsageError(
        fmt::format("{} and {}: one is a report.json, the other holds rows of `fairdraw bench`",
                    options.base, options.head));
  }
  if (is_benchmark(base)) {
    return reports::compare(read_or_name(options.base, base, reports::benchmark_from_json),
                            read_or_name(options.head, head, reports::benchmark_from_json),
                            options.tolerance);
  }
  return reports::compare(read_or_name(options.base, base, reports::from_json),
                          read_or_name(options.head, head, reports::from_json));
}

int compare(const CompareOptions& options) {
  const std::vector<std::string> inputs = {options.base, options.head};
  const OutputFile json("--json", options.json, inputs);
  const OutputFile table("--markdown", options.markdown, inputs);
  const OutputFile page("--html", options.html, inputs);
  const reports::Comparison comparison = compared(options);
  const std::string markdown = reports::to_markdown(comparison);
  if (json.wanted()) json.write(reports::to_json(comparison));
  if (table.wanted()) table.write(markdown);
  if (page.wanted()) page.write(reports::to_html(comparison));
  if (!is_printing()) {
    // The standard output has only the result in another form, such as JSON.
  } else if (isatty(STDOUT_FILENO) != 0) {
    write_safe_out(reports::to_terminal(comparison, has_colours(STDOUT_FILENO)));
  } else {
    print("{}", markdown);
  }
  if (comparison.regressions() > 0) return kExitRegression;
  return comparison.says_something() ? 0 : kExitNothingCompared;
}

}  // namespace

Verb add_compare(CLI::App& app) {
  const auto options = std::make_shared<CompareOptions>();
  add_option(app, "base", options->base, "BASE.json",
             "A report.json, or rows of `fairdraw bench --json`", {.required = true});
  add_option(app, "head", options->head, "HEAD.json",
             "A file of the same kind, which is compared with BASE.json", {.required = true});
  add_option(app, "--speed-tolerance", options->tolerance, "PART",
             "Relative change of a benchmark's time that is still no change",
             {.min = 0.0, .max = 100.0});
  add_json(app, options->json, "Write the changes");
  add_option(app, "--markdown", options->markdown, "FILE",
             "Write the changes as a table of Markdown, for a comment");
  add_option(app, "--html", options->html, "FILE", "Write the changes as one page");
  return [options] { return compare(*options); };
}

}  // namespace fairdraw::cli
