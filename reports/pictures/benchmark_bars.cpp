#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/escape.h"
#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"

namespace fairdraw::reports::pictures {
namespace {

constexpr std::size_t kLettersOfLabel = 64;
constexpr double kLabels = kLetter * kLettersOfLabel, kBars = 260, kNumbers = 150, kRow = 18,
                 kTop = 34;

}  // namespace

// A logarithmic axis that begins at 1, the floor: between a sampler at twice the floor and a sort
// at four hundred times, equal steps to the right are equal factors of time lost.
std::string benchmark_bars(const std::vector<harness::BenchmarkRecord>& rows) {
  double most = 2;
  const harness::BenchmarkRecord* slowest = nullptr;
  for (const harness::BenchmarkRecord& row : rows) {
    if (!std::isfinite(row.ratio)) continue;
    if (slowest == nullptr || row.ratio > slowest->ratio) slowest = &row;
    most = std::max(most, row.ratio);
  }
  const auto width_of = [most](double ratio) {
    return kBars * std::clamp(std::log(std::max(ratio, 1.0)) / std::log(most), 0.0, 1.0);
  };
  const std::string words =
      slowest == nullptr
          ? "No row."
          : fmt::format(
                "Time as a multiple of the floor. Farthest from it: {} on {}, {:.3g} times.",
                slowest->operation, slowest->backend, slowest->ratio);
  std::string svg =
      svg_head("Speed", words, kLabels + kBars + kNumbers,
               kTop + kRow * static_cast<double>(rows.size()) + 8) +
      "<text class=\"title\" x=\"4\" y=\"14\">Time as a multiple of the floor</text>\n";
  for (double ratio = 1; ratio <= most; ratio *= most > 32 ? 4 : 2) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>"
        "<text class=\"tick x\" x=\"{0:.1f}\" y=\"{3:.1f}\">{4:.0f}\u00d7</text>\n",
        kLabels + width_of(ratio), kTop - 4, kTop + kRow * static_cast<double>(rows.size()),
        kTop - 8, ratio);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const harness::BenchmarkRecord& row = rows[i];
    const double y = kTop + kRow * static_cast<double>(i);
    const std::string what = fmt::format("{} {} {}, {} x {}", row.backend, row.operation,
                                         row.logits, row.batch, row.vocab);
    svg += fmt::format(
        "<text class=\"tick y\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>"
        "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\">{}</rect>"
        "<text class=\"tick after\" x=\"{:.1f}\" y=\"{:.1f}\">{:.2f}\u00d7, {:.1f} "
        "\u00b5s</text>\n",
        kLabels - 6, y + 12, label_text(what, kLettersOfLabel), kLabels, y + 2,
        std::max(1.0, width_of(row.ratio)), kRow - 4,
        tip_element(fmt::format("{}: {:.4g} microseconds; floor {} {:.4g}", what, row.microseconds,
                                row.floor, row.floor_microseconds)),
        kLabels + width_of(row.ratio) + 6, y + 12, row.ratio, row.microseconds);
  }
  return svg + "</svg>\n";
}

}  // namespace fairdraw::reports::pictures
