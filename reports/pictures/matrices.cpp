// Matrices: dependence as a heat map, wrong samplers against checks, samplers against checks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/escape.h"
#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"
#include "reports/wording.h"

namespace fairdraw::reports::pictures {
namespace {

constexpr std::size_t kMaxLetters = 34;

double width_of(const std::vector<std::string>& labels) {
  std::size_t most = 0;
  for (const std::string& label : labels) most = std::max(most, code_points(label));
  return kLetter * static_cast<double>(std::min(most, kMaxLetters)) + 12;
}

/// A matrix with its labels, columns' ones upright; cells come from the caller.
class Matrix {
 public:
  Matrix(std::string_view title, std::string_view description, const std::vector<std::string>& rows,
         const std::vector<std::string>& columns, double cell_width, double cell_height)
      : left_(width_of(rows)),
        top_(width_of(columns) + 22),
        cell_width_(cell_width),
        cell_height_(cell_height) {
    constexpr double kBold = 1.2;  // what a bold letter takes of one that is not
    const double width = std::max(left_ + cell_width * static_cast<double>(columns.size()) + 8,
                                  kBold * kLetter * static_cast<double>(code_points(title)) + 16);
    svg_ = svg_head(title, description, width,
                    top_ + cell_height * static_cast<double>(rows.size()) + 8) +
           fmt::format("<text class=\"title\" x=\"4\" y=\"14\">{}</text>\n", html_text(title));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      svg_ += fmt::format("<text class=\"tick y\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", left_ - 5,
                          y(i) + cell_height / 2 + 3.5, label_text(rows[i], kMaxLetters));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      svg_ += fmt::format(
          "<text class=\"tick up\" transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>\n",
          x(i) + cell_width / 2 + 3.5, top_ - 5, label_text(columns[i], kMaxLetters));
    }
  }

  void cell(std::size_t row, std::size_t column, std::string_view kind, std::string_view mark,
            std::string_view tip) {
    svg_ += fmt::format(
        "<g><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
        kind, x(column) + 0.5, y(row) + 0.5, cell_width_ - 1, cell_height_ - 1);
    if (!mark.empty()) {
      svg_ += fmt::format("<text class=\"mark {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", kind,
                          x(column) + cell_width_ / 2, y(row) + cell_height_ / 2 + 3.5,
                          html_text(mark));
    }
    svg_ += tip_element(tip) + "</g>\n";
  }

  std::string svg() const { return svg_ + "</svg>\n"; }

 private:
  double x(std::size_t column) const { return left_ + cell_width_ * static_cast<double>(column); }
  double y(std::size_t row) const { return top_ + cell_height_ * static_cast<double>(row); }

  double left_, top_, cell_width_, cell_height_;
  std::string svg_;
};

/// The shade of a score: "cool" below zero, "warm" above, in five steps up to the bound.
std::string shade_of(double z, double bound) {
  if (std::isnan(z)) return "absent";
  const double share = bound > 0 ? std::abs(z) / bound : (z == 0 ? 0 : 1);
  const int step = static_cast<int>(std::min(4.0, std::floor(share * 4)));
  return fmt::format("{}{}", z < 0 ? "cool" : "warm", step);
}

}  // namespace

std::string dependence(const harness::Dependence& dependence) {
  const std::size_t rows = dependence.rows.size(), columns = dependence.columns.size();
  const std::size_t count = std::min(rows * columns, dependence.z.size());
  std::size_t worst = count, outside = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double size = std::abs(dependence.z[i]);
    if (std::isnan(size)) continue;
    outside += size > dependence.bound;
    if (worst == count || size > std::abs(dependence.z[worst])) worst = i;
  }
  std::string words = fmt::format("{} of {} scores are beyond the bound of {:.3g}.",
                                  grouped(outside), grouped(count), dependence.bound);
  if (worst < count) {
    words += fmt::format(" Farthest: {} and {}, z {:+.3g}.", dependence.rows[worst / columns],
                         dependence.columns[worst % columns], dependence.z[worst]);
  }
  Matrix matrix("Dependence: " + dependence.name, words, dependence.rows, dependence.columns, 20,
                20);
  for (std::size_t i = 0; i < count; ++i) {
    const double z = dependence.z[i];
    const std::size_t row = i / columns, column = i % columns;
    const bool beyond = std::abs(z) > dependence.bound;
    const std::string tip = std::isnan(z)
                                ? ""
                                : fmt::format("{} and {}: z {:+.3g}", dependence.rows[row],
                                              dependence.columns[column], z);
    matrix.cell(row, column, shade_of(z, dependence.bound) + (beyond ? " beyond" : ""),
                beyond ? (z < 0 ? "\u2212" : "+") : "", tip);
  }
  return matrix.svg();
}

std::string kill_matrix(const std::vector<MutantRow>& mutants) {
  std::vector<std::string> rows, columns;
  std::set<std::string> checks;
  std::size_t killed = 0;
  std::string survivors;
  for (const MutantRow& mutant : mutants) {
    rows.push_back(mutant.name);
    killed += mutant.killed;
    if (!mutant.killed) survivors += (survivors.empty() ? " Survivors: " : ", ") + mutant.name;
    for (const auto& [check, by] : mutant.checks) checks.insert(check);
  }
  columns.assign(checks.begin(), checks.end());
  const std::string words =
      fmt::format("{} of {} wrong samplers were found.{}", grouped(killed), grouped(mutants.size()),
                  survivors.empty() ? "" : survivors + ".");
  Matrix matrix("Kill matrix", words, rows, columns, 22, 16);
  for (std::size_t row = 0; row < mutants.size(); ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const auto check = mutants[row].checks.find(columns[column]);
      if (check == mutants[row].checks.end()) {
        // Not judged by this check. A row without any mark is a survivor, and looks like one.
        matrix.cell(row, column, mutants[row].killed ? "absent" : "bad", "", "");
        continue;
      }
      const bool found = !check->second.empty();
      matrix.cell(row, column, found ? "good" : "unsure", found ? "\u2713" : "\u00b7",
                  fmt::format("{}: {}", mutants[row].name,
                              found ? check->second : columns[column] + " found nothing"));
    }
  }
  return matrix.svg();
}

std::string_view outcome_kind(const harness::Summary& counts) {
  switch (verdict_of(counts)) {
    case harness::Verdict::failed:
    case harness::Verdict::error:
      return "bad";
    case harness::Verdict::underpowered:
      return "unsure";
    case harness::Verdict::passed:
      return "good";
    case harness::Verdict::skipped:
      break;
  }
  return "absent";
}

std::string outcome_mark(const harness::Summary& counts) {
  const std::uint64_t red = counts.failed + counts.error;
  if (red > 0) return "\u2717" + (red > 1 ? std::to_string(red) : "");
  if (counts.underpowered > 0) return "?";
  return counts.passed > 0 ? "\u2713" : "\u2013";
}

std::string conformance(const std::vector<const harness::RunRecord*>& records) {
  std::vector<std::string> rows, columns;
  std::map<std::string, std::size_t> row_of, column_of;
  std::map<std::pair<std::size_t, std::size_t>, harness::Summary> tallies;
  const auto place = [](std::map<std::string, std::size_t>& of, std::vector<std::string>& labels,
                        const std::string& label) {
    const auto [at, is_new] = of.emplace(label, labels.size());
    if (is_new) labels.push_back(label);
    return at->second;
  };
  for (const harness::RunRecord* record : records) {
    for (const harness::CaseRecord& one : record->cases) {
      const std::size_t row = place(row_of, rows, one.sampler + " as " + one.semantics);
      const std::size_t column = place(column_of, columns, one.check);
      count(one.verdict, tallies[{row, column}]);
    }
  }
  // A picture for eyes: of hundreds of samplers or checks, the table is the place to look.
  constexpr std::size_t kMax = 64;
  if (rows.empty()) return "";
  if (rows.size() > kMax) rows.resize(kMax);
  if (columns.size() > kMax) columns.resize(kMax);
  std::size_t conforming = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    bool good = true;
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const auto tally = tallies.find({row, column});
      good = good && (tally == tallies.end() || outcome_kind(tally->second) != "bad");
    }
    conforming += good;
  }
  Matrix matrix("Conformance",
                fmt::format("{} of {} samplers pass every check that judged them. A number "
                            "after a cross is how many cases are red.",
                            conforming, rows.size()),
                rows, columns, 30, 22);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      const auto found = tallies.find({row, column});
      const harness::Summary counts = found == tallies.end() ? harness::Summary() : found->second;
      matrix.cell(row, column, outcome_kind(counts), outcome_mark(counts),
                  fmt::format("{}, {}: {} passed, {} red, {} underpowered, {} skipped", rows[row],
                              columns[column], grouped(counts.passed),
                              grouped(counts.failed + counts.error), grouped(counts.underpowered),
                              grouped(counts.skipped)));
    }
  }
  return matrix.svg();
}

}  // namespace fairdraw::reports::pictures
