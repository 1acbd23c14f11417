#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"
#include "reports/wording.h"

namespace fairdraw::reports::pictures {
namespace {

constexpr double kMissed = 0.05;  // a right run has a point outside with at most this probability

/// Relative entropy of Bernoulli distributions of mean a and x, in nats.
double relative_entropy(double a, double x) {
  const double head = a > 0 ? a * std::log(a / x) : 0;
  const double tail = a < 1 ? (1 - a) * std::log((1 - a) / (1 - x)) : 0;
  return head + tail;
}

/// The x on the given side of `a` at which the relative entropy is `bound`: by bisection, as it
/// grows with the distance from a.
double edge(double a, double bound, bool above) {
  double near = a, far = above ? 1 : 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (near + far) / 2;
    (relative_entropy(a, middle) < bound ? near : far) = middle;
  }
  return near;
}

}  // namespace

// The band. Of m independent uniform p values let U be the i-th smallest. U <= x means that at
// least i of m are at most x: probability at most exp(-m KL(i/m, x)) for x < i/m by Chernoff's
// bound, and U >= x, that at most i - 1 are below it: at most exp(-m KL((i-1)/m, x)) for
// x > (i-1)/m. With KL = log(2 m / 0.05) / m at both edges of all m points, the sum of these 2 m
// probabilities is 0.05. P values that are valid but not exact are larger than uniform ones, which
// puts points below the line, and may put them below the band.
std::string qq(const harness::RunRecord& record) {
  constexpr std::size_t kMaxDots = 300;
  struct Case {
    double p;
    const harness::CaseRecord* record;
  };
  std::vector<Case> cases;
  for (const harness::CaseRecord& one : record.cases) {
    if (one.p_value && *one.p_value >= 0 && *one.p_value <= 1)
      cases.push_back({*one.p_value, &one});
  }
  if (cases.empty()) return "";
  std::stable_sort(cases.begin(), cases.end(),
                   [](const Case& a, const Case& b) { return a.p < b.p; });
  const auto count = static_cast<double>(cases.size());
  const double bound = std::log(2 * count / kMissed) / count;
  // Beyond this a point says no more: the smallest number that a double divides exactly.
  const auto score = [](double p) { return -std::log10(std::max(p, 1e-308)); };

  std::vector<Point> points, low, high;
  std::vector<const harness::CaseRecord*> who;
  std::size_t outside = 0;
  std::vector<bool> is_outside;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    // All of the smallest, then ever fewer: the large ones lie on top of each other.
    const std::size_t skip = i / (kMaxDots / 4);
    if (skip > 0 && i % (skip * skip + 1) != 0 && i + 1 != cases.size()) continue;
    const double rank = static_cast<double>(i) + 1;
    const double x = score((rank - 0.5) / count);
    points.push_back({x, score(cases[i].p)});
    high.push_back({x, score(edge(rank / count, bound, false))});
    low.push_back({x, score(edge((rank - 1) / count, bound, true))});
    who.push_back(cases[i].record);
    is_outside.push_back(points.back().y > high.back().y);
    outside += is_outside.back();
  }
  std::vector<double> reach = {0};
  for (const Point point : points) reach.push_back(point.y);
  for (const Point point : high) reach.push_back(point.y);
  const std::string words = fmt::format(
      "{} p values; the smallest is {:.3g}. {} above the band that holds all points of a right run "
      "with a probability of 95 %.",
      grouped(cases.size()), cases.front().p,
      outside == 0   ? "No point lies"
      : outside == 1 ? "1 point lies"
                     : grouped(outside) + " points lie");
  Plot plot("p values of all cases", words, {"expected -log10 p", 0, points.front().x * 1.05 + 0.1},
            axis_over("observed -log10 p", reach, false, 1));
  plot.area(low, high, "band");
  plot.line({{0, 0}, {points.front().x, points.front().x}}, "expected");
  for (std::size_t i = points.size(); i-- > 0;) {
    const std::string tip =
        fmt::format("{} on {}: p {:.3g}", who[i]->id, who[i]->sampler, *who[i]->p_value);
    if (is_outside[i]) {
      plot.diamond(points[i], "outside", tip);
    } else {
      plot.dot(points[i], "observed", i < 20 ? tip : "");
    }
  }
  return plot.svg();
}

}  // namespace fairdraw::reports::pictures
