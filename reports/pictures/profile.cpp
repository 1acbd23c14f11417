#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"
#include "reports/wording.h"

namespace fairdraw::reports::pictures {
namespace {

// Residuals beyond this many standard deviations are drawn as outside. It decides nothing: of some
// hundred bins of a right sampler, fewer than one in two pictures has one (a normal distribution is
// beyond 3 with probability 0.0027).
constexpr double kOutside = 3;

std::string name_of(const harness::Profile& profile) {
  if (profile.axis == "lane") return fmt::format("lane (id modulo {})", profile.modulus);
  return profile.axis == "id" ? "token id" : profile.axis;
}

double deviation_of(const harness::Profile& profile, const harness::ProfileBin& bin) {
  const double share = profile.draws > 0 ? bin.expected / static_cast<double>(profile.draws) : 0;
  return std::sqrt(std::max(0.0, bin.expected * (1 - share)));
}

/// In standard deviations. A bin that must be empty has none: one draw there is as far as the
/// others' largest, which `outside` says, not a number.
double residual_of(const harness::Profile& profile, const harness::ProfileBin& bin) {
  const double deviation = deviation_of(profile, bin), excess = bin.observed - bin.expected;
  if (deviation > 0) return excess / deviation;
  return excess == 0 ? 0 : std::copysign(INFINITY, excess);
}

std::string positions(const harness::ProfileBin& bin) {
  return bin.first == bin.last ? grouped(bin.first)
                               : grouped(bin.first) + " to " + grouped(bin.last);
}

std::string tip_of(const harness::Profile& profile, const harness::ProfileBin& bin) {
  return fmt::format("{} {}: observed {:.6g}, expected {:.6g}, {:+.3g} standard deviations",
                     name_of(profile), positions(bin), bin.observed, bin.expected,
                     residual_of(profile, bin));
}

/// The bin that is farthest off, in words.
std::string farthest(const harness::Profile& profile) {
  const harness::ProfileBin* worst = nullptr;
  for (const harness::ProfileBin& bin : profile.bins) {
    if (worst == nullptr ||
        std::abs(residual_of(profile, bin)) > std::abs(residual_of(profile, *worst))) {
      worst = &bin;
    }
  }
  return worst == nullptr ? "No bin." : "Farthest off: " + tip_of(profile, *worst) + ".";
}

/// Bins lie side by side at equal widths: a tail of a hundred thousand ranks is one bin.
Axis bin_axis(const harness::Profile& profile) {
  const double count = std::max<double>(1, static_cast<double>(profile.bins.size()));
  std::string label = name_of(profile);
  if (!profile.bins.empty()) {
    label += fmt::format(", {} to {} in {} bins", grouped(profile.bins.front().first),
                         grouped(profile.bins.back().last), profile.bins.size());
  }
  return {label, -0.5, count - 0.5, false, false};
}

/// The largest finite residual, without its sign.
double largest(const harness::Profile& profile) {
  double most = 0;
  for (const harness::ProfileBin& bin : profile.bins) {
    const double size = std::abs(residual_of(profile, bin));
    if (std::isfinite(size)) most = std::max(most, size);
  }
  return most;
}

std::string residual_plot(const harness::Profile& profile, double most) {
  Plot plot("Residuals by " + name_of(profile), farthest(profile), bin_axis(profile),
            {"standard deviations", -most, most});
  plot.level(0, "", "axis");
  plot.level(kOutside, "", "limit");
  plot.level(-kOutside, "", "limit");
  std::vector<Point> inside, beyond;
  for (std::size_t i = 0; i < profile.bins.size(); ++i) {
    double residual = residual_of(profile, profile.bins[i]);
    if (std::isnan(residual)) continue;
    const bool outside = std::abs(residual) > kOutside;
    residual = std::clamp(residual, -most, most);
    const Point at{static_cast<double>(i), residual};
    (outside ? beyond : inside).push_back(at);
    if (outside) plot.diamond(at, "outside", tip_of(profile, profile.bins[i]));
  }
  plot.stems(inside, "observed");
  plot.stems(beyond, "outside");
  return plot.svg();
}

}  // namespace

std::string profile(const harness::Profile& profile) {
  std::vector<double> values;
  for (const harness::ProfileBin& bin : profile.bins) {
    values.push_back(bin.expected);
    values.push_back(bin.observed);
  }
  // A bin without a draw lies on the axis: the logarithm has no place for it.
  Axis y = axis_over("draws in the bin", values, true, 10);
  y.low = std::min(y.low, 0.5);
  Plot plot("Observed and expected by " + name_of(profile), farthest(profile), bin_axis(profile),
            y);
  std::vector<Point> low, high, middle;
  for (std::size_t i = 0; i < profile.bins.size(); ++i) {
    const harness::ProfileBin& bin = profile.bins[i];
    const double reach = kOutside * deviation_of(profile, bin);
    for (const double edge : {-0.5, 0.5}) {
      const double x = static_cast<double>(i) + edge;
      low.push_back({x, std::max(bin.expected - reach, y.low)});
      high.push_back({x, bin.expected + reach});
      middle.push_back({x, bin.expected});
    }
  }
  plot.area(low, high, "band");
  plot.line(middle, "expected");
  std::vector<Point> inside;
  for (std::size_t i = 0; i < profile.bins.size(); ++i) {
    const harness::ProfileBin& bin = profile.bins[i];
    const Point at{static_cast<double>(i), bin.observed};
    if (std::abs(residual_of(profile, bin)) > kOutside) {
      plot.diamond(at, "outside", tip_of(profile, bin));
    } else {
      inside.push_back(at);
    }
  }
  plot.dots(inside, "observed");
  return plot.svg();
}

std::string residuals(const std::vector<harness::Profile>& profiles) {
  double most = 2 * kOutside;  // noise must not fill the picture
  for (const harness::Profile& one : profiles) most = std::max(most, 1.05 * largest(one));
  std::string html;
  for (const harness::Profile& one : profiles) html += residual_plot(one, most);
  return html;
}

std::string clearest_residuals(const std::vector<harness::Profile>& profiles) {
  const auto clearest = std::ranges::max_element(profiles, {}, largest);
  return residual_plot(*clearest, std::max(2 * kOutside, 1.05 * largest(*clearest)));
}

}  // namespace fairdraw::reports::pictures
