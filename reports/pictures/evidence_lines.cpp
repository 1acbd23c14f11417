// Lines over one axis: the PIT difference, evidence as it grew, power, an interval.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"
#include "reports/wording.h"

namespace fairdraw::reports::pictures {
namespace {

std::vector<Point> curve_of(const harness::Power& power) {
  std::vector<Point> points;
  for (const harness::PowerPoint& point : power.curve) {
    points.push_back({static_cast<double>(point.draws), point.min_discrepancy});
  }
  return points;
}

/// Axes of a power plot over `points`.
Plot power_plot(std::string_view title, std::string_view description,
                const std::vector<Point>& points) {
  std::vector<double> draws, discrepancies;
  for (const Point point : points) {
    draws.push_back(point.x);
    discrepancies.push_back(point.y);
  }
  return {title, description, axis_over("draws", draws, true, 100),
          axis_over("smallest discrepancy found", discrepancies, true, 10)};
}

}  // namespace

std::string pit(const harness::PitEcdf& ecdf) {
  const bool outside = ecdf.distance > ecdf.band;
  const std::string words = fmt::format(
      "Over {} draws the largest difference is {:.3g}; the band's half width is {:.3g}, so the "
      "curve {} it.",
      grouped(ecdf.draws), ecdf.distance, ecdf.band, outside ? "leaves" : "stays within");
  std::vector<Point> points;
  double most = 1.2 * ecdf.band;
  const double steps = std::max(1.0, static_cast<double>(ecdf.difference.size()) - 1);
  for (std::size_t i = 0; i < ecdf.difference.size(); ++i) {
    points.push_back({static_cast<double>(i) / steps, ecdf.difference[i]});
    if (std::isfinite(ecdf.difference[i])) most = std::max(most, 1.1 * std::abs(points[i].y));
  }
  if (!std::isfinite(most) || most <= 0) most = 1;
  Plot plot("PIT difference, " + ecdf.name, words, {"u", 0, 1}, {"ECDF minus uniform", -most, most},
            280, 190);
  plot.area({{0, -ecdf.band}, {1, -ecdf.band}}, {{0, ecdf.band}, {1, ecdf.band}}, "band");
  plot.level(0, "", "axis");
  plot.line(points, outside ? "outside line" : "observed line");
  return plot.svg();
}

std::string growth(const harness::Growth& growth) {
  std::vector<double> draws = {0}, evidence = {0, 1.1 * growth.decision};
  std::vector<Point> points;
  for (const harness::GrowthPoint& point : growth.points) {
    points.push_back({static_cast<double>(point.draws), point.log10_e});
    draws.push_back(points.back().x);
    evidence.push_back(point.log10_e);
  }
  double reached = -INFINITY;
  for (const Point point : points) reached = std::max(reached, point.y);
  const bool decided = reached >= growth.decision;
  const std::string words =
      fmt::format("The evidence {} 10 to the {:.3g}; the line of decision is 10 to the {:.3g}.",
                  decided ? "reaches" : "stays below the line, at most", reached, growth.decision);
  Plot plot("Evidence: " + growth.name, words, axis_over("draws", draws, false, 1),
            axis_over("log10 e", evidence, false, 1));
  plot.level(0, "", "axis");
  plot.level(growth.decision, "decision", "limit");
  plot.line(points, decided ? "outside line" : "observed line");
  if (!points.empty()) {
    if (decided) {
      plot.diamond(points.back(), "outside");
    } else {
      plot.dot(points.back(), "observed");
    }
  }
  return plot.svg();
}

std::string power(const harness::CaseRecord& record) {
  if (!record.evidence.power || !record.min_discrepancy) return "";
  const harness::Power& design = *record.evidence.power;
  const Point made{static_cast<double>(record.draws), *record.min_discrepancy};
  std::vector<Point> all = curve_of(design);
  all.push_back(made);
  all.push_back({made.x, design.declared});
  const std::string words =
      fmt::format("{} draws find a total variation of {:.3g}; the case must find {:.3g}.",
                  grouped(record.draws), *record.min_discrepancy, design.declared);
  Plot plot = power_plot("Power of " + design.statistic, words, all);
  plot.line(curve_of(design), "expected");
  if (design.declared > 0) plot.level(design.declared, "must find", "limit");
  if (made.y > design.declared) {
    plot.diamond(made, "outside", words);
  } else {
    plot.dot(made, "observed", words);
  }
  return plot.svg();
}

std::string power(const harness::RunRecord& record) {
  // Curves are thinned to some dozens: more of them would be one grey.
  constexpr std::size_t kMaxCurves = 40, kMaxDots = 1000;
  std::vector<const harness::CaseRecord*> statistical;
  std::vector<Point> all;
  for (const harness::CaseRecord& one : record.cases) {
    if (!one.min_discrepancy || *one.min_discrepancy <= 0 || one.draws == 0) continue;
    statistical.push_back(&one);
    all.push_back({static_cast<double>(one.draws), *one.min_discrepancy});
  }
  if (statistical.empty()) return "";
  const std::string words = fmt::format(
      "{} statistical cases by draws and by the smallest total variation that they "
      "find. Lower is sharper.",
      grouped(statistical.size()));
  Plot plot = power_plot("What the draws find", words, all);
  std::size_t curves = 0;
  for (const harness::CaseRecord* one : statistical) {
    if (!one->evidence.power || curves == kMaxCurves) continue;
    plot.line(curve_of(*one->evidence.power), "expected faint");
    ++curves;
  }
  const std::size_t step = (statistical.size() + kMaxDots - 1) / kMaxDots;
  for (std::size_t i = 0; i < statistical.size(); i += step) {
    const harness::CaseRecord& one = *statistical[i];
    const std::string tip = fmt::format("{} on {}: {} draws find {:.3g}", one.id, one.sampler,
                                        grouped(one.draws), all[i].y);
    if (one.verdict == harness::Verdict::underpowered) {
      plot.diamond(all[i], "outside", tip);
    } else {
      plot.dot(all[i], "observed", tip);
    }
  }
  return plot.svg();
}

std::string interval(const harness::Effect& effect) {
  std::vector<double> values = {effect.value, effect.low, effect.high};
  if (effect.expected) values.push_back(*effect.expected);
  Axis axis = axis_over("", values, false, 1e-12);
  const double air = 0.08 * (axis.high - axis.low);
  axis.low -= air;
  axis.high += air;
  const auto at = [&axis](double value) {
    return 6 + 188 * std::clamp((value - axis.low) / (axis.high - axis.low), 0.0, 1.0);
  };
  std::string svg = svg_head(
      effect.name,
      fmt::format("{:.4g}, interval {:.4g} to {:.4g}{}", effect.value, effect.low, effect.high,
                  effect.expected ? fmt::format(", expected {:.4g}", *effect.expected) : ""),
      200, 26);
  const bool drawn = std::isfinite(effect.low) && std::isfinite(effect.high);
  svg += "<path class=\"axis\" d=\"M6 18H194\"/>";
  if (drawn) {
    svg +=
        fmt::format("<path class=\"interval\" d=\"M{0:.1f} 10H{1:.1f}M{0:.1f} 6v8M{1:.1f} 6v8\"/>",
                    at(effect.low), at(effect.high));
  }
  if (std::isfinite(effect.value)) {
    svg += fmt::format("<circle class=\"observed\" cx=\"{:.1f}\" cy=\"10\" r=\"3\"/>",
                       at(effect.value));
  }
  if (effect.expected && std::isfinite(*effect.expected)) {
    svg += fmt::format("<path class=\"mark\" d=\"M{:.1f} 3V24\"/>", at(*effect.expected));
  }
  return svg + "</svg>\n";
}

}  // namespace fairdraw::reports::pictures
