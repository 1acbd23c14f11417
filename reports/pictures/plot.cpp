#include "reports/pictures/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "reports/escape.h"

namespace fairdraw::reports::pictures {
namespace {

// User units; one is one CSS pixel where the picture has its own width.
constexpr double kMarginLeft = 54, kMarginRight = 10, kMarginTop = 26, kMarginBottom = 36;

bool finite(Point point) { return std::isfinite(point.x) && std::isfinite(point.y); }

/// 1, 2 or 5 times a power of ten, so that at most `most` steps make up `span`.
double step_of(double span, double most) {
  const double raw = span / most;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

/// An axis whose length is a positive number, whatever was computed for its ends.
Axis usable(Axis axis) {
  const double length = axis.high - axis.low;
  const bool positive = !axis.logarithmic || axis.low > 0;
  if (!std::isfinite(length) || length <= 0 || !positive) {
    axis.low = axis.logarithmic ? 1 : 0;
    axis.high = axis.logarithmic ? 10 : 1;
  }
  return axis;
}

/// Share of the axis' length at which `value` lies, in [0, 1].
double share_of(const Axis& axis, double value) {
  // Differences of logarithms: the ratio of the ends may be more than a double holds.
  const double share = axis.logarithmic
                           ? (std::log(std::max(value, axis.low)) - std::log(axis.low)) /
                                 (std::log(axis.high) - std::log(axis.low))
                           : (value - axis.low) / (axis.high - axis.low);
  return std::clamp(share, 0.0, 1.0);
}

/// A tenth of a unit is less than a pixel shows.
std::string coordinate(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::vector<double> ticks_of(const Axis& axis, double most) {
  std::vector<double> ticks;
  if (!axis.ticks) return ticks;
  if (axis.logarithmic) {
    const double first = std::ceil(std::log10(axis.low) - 1e-9);
    const double last = std::floor(std::log10(axis.high) + 1e-9);
    const double step = std::max(1.0, std::ceil((last - first) / most));
    for (double e = first; e <= last; e += step) ticks.push_back(std::pow(10, e));
    if (ticks.size() > 2) return ticks;
    ticks.clear();  // less than two decades: also 2 and 5 of each
    for (double e = first - 1; e <= last + 1; ++e) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double tick = factor * std::pow(10, e);
        if (tick >= axis.low && tick <= axis.high) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double step = step_of(axis.high - axis.low, most);
  const auto count = static_cast<int>(std::floor(axis.high / step) - std::ceil(axis.low / step));
  for (int i = 0; i <= count; ++i) ticks.push_back((std::ceil(axis.low / step) + i) * step);
  return ticks;
}

Axis axis_over(std::string label, const std::vector<double>& values, bool logarithmic,
               double least) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || (logarithmic && value <= 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) low = high = logarithmic ? 1 : 0;
  if (logarithmic) {
    const double more = std::sqrt(std::max(1.0, least * low / high));
    low = std::max(low / more / 1.2, 1e-300);  // a little air at both ends
    high = std::min(high * more * 1.2, 1e300);
  } else {
    low = std::max(low, -1e300);
    high = std::min(high, 1e300);
    // Where an axis is far from zero, `least` may be less than what a double can add to it.
    const double enough = std::max(least, 1e-9 * std::max(std::abs(low), std::abs(high)));
    const double more = std::max(0.0, enough - (high - low)) / 2;
    low -= more;
    high += more;
  }
  return {std::move(label), low, high, logarithmic, true};
}

std::string label_text(std::string_view label, std::size_t most) {
  std::string_view rest = label;
  for (std::size_t i = 0; i < most && !rest.empty(); ++i) take_code_point(rest);
  std::string shown = html_text(label.substr(0, label.size() - rest.size()));
  return rest.empty() ? shown : shown + "\u2026";
}

std::string tick_text(double value) {
  if (value == 0) return "0";  // and not -0
  const double size = std::abs(value);
  if (size >= 1e4 || size < 1e-3) {
    const double exponent = std::floor(std::log10(size) + 1e-9);
    const double mantissa = value / std::pow(10, exponent);
    return fmt::format("{:.3g}e{:.0f}", mantissa, exponent);
  }
  return fmt::format("{:.3g}", value);
}

std::string tip_element(std::string_view tip) {
  return tip.empty() ? "" : "<title>" + html_text(tip) + "</title>";
}

std::string svg_head(std::string_view title, std::string_view description, double width,
                     double height) {
  const std::string name = html_text(title), words = html_text(description);
  return fmt::format(
      "<svg role=\"img\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "aria-label=\"{}. {}\">\n<desc>{}</desc>\n",
      width, height, width, height, name, words, words);
}

Plot::Plot(std::string_view title, std::string_view description, Axis x, Axis y, double width,
           double height)
    : x_(usable(std::move(x))), y_(usable(std::move(y))), width_(width), height_(height) {
  head_ = svg_head(title, description, width, height) +
          fmt::format("<text class=\"title\" x=\"4\" y=\"14\">{}</text>\n", html_text(title));
}

double Plot::x_of(double value) const {
  return kMarginLeft + share_of(x_, value) * (width_ - kMarginLeft - kMarginRight);
}

double Plot::y_of(double value) const {
  return height_ - kMarginBottom - share_of(y_, value) * (height_ - kMarginTop - kMarginBottom);
}

std::string Plot::path_of(const std::vector<Point>& points, char first) const {
  std::string path, last_x, last_y;
  for (const Point point : points) {
    if (!finite(point)) continue;
    std::string x = coordinate(x_of(point.x)), y = coordinate(y_of(point.y));
    if (path.empty()) {
      path = first + x + " " + y;
    } else if (y == last_y) {
      path += "H" + x;
    } else if (x == last_x) {
      path += "V" + y;
    } else {
      path += "L" + x + " " + y;
    }
    last_x = std::move(x);
    last_y = std::move(y);
  }
  return path;
}

void Plot::area(const std::vector<Point>& low, const std::vector<Point>& high,
                std::string_view kind) {
  std::vector<Point> back(high.rbegin(), high.rend());
  const std::string there = path_of(low, 'M');
  if (there.empty()) return;
  shapes_ += fmt::format("<path class=\"{}\" d=\"{}{}Z\"/>\n", kind, there, path_of(back, 'L'));
}

void Plot::line(const std::vector<Point>& points, std::string_view kind) {
  std::vector<Point> within;
  std::copy_if(points.begin(), points.end(), std::back_inserter(within),
               [this](Point point) { return point.x >= x_.low && point.x <= x_.high; });
  const std::string path = path_of(within, 'M');
  if (!path.empty()) shapes_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", kind, path);
}

void Plot::level(double y, std::string_view label, std::string_view kind) {
  if (!std::isfinite(y)) return;
  line({{x_.low, y}, {x_.high, y}}, kind);
  if (label.empty()) return;
  // Beneath the line where there is no room above it.
  const double at = y_of(y) - kMarginTop < 14 ? y_of(y) + 12 : y_of(y) - 4;
  shapes_ += fmt::format("<text class=\"note\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                         width_ - kMarginRight - 2, at, html_text(label));
}

void Plot::stems(const std::vector<Point>& points, std::string_view kind) {
  std::string path;
  for (const Point point : points) path += path_of({{point.x, 0}, point}, 'M');
  if (!path.empty()) shapes_ += fmt::format("<path class=\"stem {}\" d=\"{}\"/>\n", kind, path);
}

void Plot::dots(const std::vector<Point>& points, std::string_view kind) {
  std::string path;
  for (const Point point : points) {
    const std::string at = path_of({point}, 'M');
    if (!at.empty()) path += at + "h0";  // a stroke without length has its round ends
  }
  if (!path.empty()) shapes_ += fmt::format("<path class=\"dots {}\" d=\"{}\"/>\n", kind, path);
}

void Plot::dot(Point at, std::string_view kind, std::string_view tip) {
  if (!finite(at)) return;
  shapes_ += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\">{}</circle>\n",
                         kind, x_of(at.x), y_of(at.y), tip_element(tip));
}

void Plot::diamond(Point at, std::string_view kind, std::string_view tip) {
  if (!finite(at)) return;
  shapes_ +=
      fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z\">{}</path>\n",
                  kind, x_of(at.x), y_of(at.y) - 4.5, tip_element(tip));
}

std::string Plot::grid() const {
  std::string text;
  for (const double tick : ticks_of(y_, 5)) {
    text += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>"
        "<text class=\"tick y\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        kMarginLeft, y_of(tick), width_ - kMarginRight, kMarginLeft - 5, y_of(tick) + 3.5,
        tick_text(tick));
  }
  for (const double tick : ticks_of(x_, 5)) {
    text += fmt::format(
        "<path class=\"grid\" d=\"M{:.1f} {:.1f}v4\"/>"
        "<text class=\"tick x\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
        x_of(tick), height_ - kMarginBottom, x_of(tick), height_ - kMarginBottom + 15,
        tick_text(tick));
  }
  text += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", kMarginLeft,
                      kMarginTop, height_ - kMarginBottom, width_ - kMarginRight);
  text += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                      (kMarginLeft + width_ - kMarginRight) / 2, height_ - 5, html_text(x_.label));
  text += fmt::format(
      "<text class=\"label\" transform=\"rotate(-90)\" x=\"{:.1f}\" y=\"10\">{}</text>\n",
      -(kMarginTop + height_ - kMarginBottom) / 2, html_text(y_.label));
  return text;
}

std::string Plot::svg() const { return head_ + grid() + shapes_ + "</svg>\n"; }

}  // namespace fairdraw::reports::pictures
