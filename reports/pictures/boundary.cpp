// The boundary of a mask, as a table and as bars.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "reports/escape.h"
#include "reports/pictures/pictures.h"
#include "reports/pictures/plot.h"

namespace fairdraw::reports::pictures {
namespace {

using harness::BoundaryToken;
using harness::Oracle;

/// The oracle is sure of the token, and the sampler did the other thing.
bool is_wrong(const BoundaryToken& token) {
  const bool drawn = token.drawn && *token.drawn > 0;
  if (token.oracle == Oracle::out) return (token.kept && *token.kept) || drawn;
  return token.oracle == Oracle::in && token.kept && !*token.kept;
}

/// What the sampler does with a token: its mask says so, or else that it was drawn.
bool is_kept(const BoundaryToken& token) {
  return token.kept.value_or(token.drawn.value_or(0) > 0);
}

double width_of(const BoundaryToken& token) {
  const double width = token.cumulative_high - token.cumulative_low;
  return std::isfinite(width) && width > 0 ? width : 0;
}

using Tokens = std::span<const BoundaryToken>;

double span_of(Tokens tokens) {
  return tokens.empty() ? 0 : tokens.back().cumulative_high - tokens.front().cumulative_low;
}

double wrong_width(Tokens tokens) {
  double width = 0;
  for (const BoundaryToken& token : tokens) width += is_wrong(token) ? width_of(token) : 0;
  return width;
}

/// The tokens that a picture shows: all that the evidence has, or, where the wrong ones would be
/// slivers beside likely ones, as few of their neighbours as make them visible.
Tokens shown_of(const harness::Boundary& boundary) {
  constexpr double kVisible = 0.04;
  constexpr std::size_t kFewest = 4;
  Tokens shown = boundary.tokens;
  const double wrong = wrong_width(shown);
  while (shown.size() > kFewest && wrong > 0 && wrong < kVisible * span_of(shown)) {
    const bool first = !is_wrong(shown.front()), last = !is_wrong(shown.back());
    if (!first && !last) break;
    const bool drop_first = first && (!last || width_of(shown.front()) >= width_of(shown.back()));
    shown = drop_first ? shown.subspan(1) : shown.first(shown.size() - 1);
  }
  const double span = span_of(shown);
  return std::isfinite(span) && span > 0 ? shown : Tokens();
}

/// The number behind `name` in the words that a row's parameters are described with: "top_p 0.9".
std::optional<double> parameter_of(std::string_view filters, std::string_view name) {
  const std::size_t at = filters.find(name);
  if (at == filters.npos) return std::nullopt;
  const std::string_view rest = filters.substr(at + name.size());
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return error == std::errc() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct Cut {
  double mass = 0;
  std::string label;
};

/// Where the filters cut. With top_p alone that is p on this scale; other filters in front of it
/// change what p is a share of, and then the line is where the oracle ends.
std::optional<Cut> cut_of(const harness::Boundary& boundary, Tokens shown) {
  const auto top_p = parameter_of(boundary.filters, "top_p ");
  const bool alone = parameter_of(boundary.filters, "top_k ").value_or(0) == 0 &&
                     parameter_of(boundary.filters, "min_p ").value_or(0) == 0;
  const double low = shown.front().cumulative_low, high = shown.back().cumulative_high;
  if (top_p && alone && *top_p > 0 && *top_p < 1) {
    if (*top_p < low || *top_p > high) return std::nullopt;
    return Cut{*top_p, fmt::format("top_p {:.9g}", *top_p)};
  }
  const auto last =
      std::ranges::find(shown.rbegin(), shown.rend(), Oracle::in, &BoundaryToken::oracle);
  if (last == shown.rend() || last == shown.rbegin()) return std::nullopt;
  return Cut{last->cumulative_high, "the filters cut here"};
}

std::string words_of(const harness::Boundary& boundary, Tokens shown) {
  std::size_t must = 0, kept = 0;
  std::string wrong;
  for (const BoundaryToken& token : shown) {
    must += token.oracle == Oracle::in;
    kept += is_kept(token);
    if (!is_wrong(token)) continue;
    wrong += fmt::format("{}token {}, of probability {:.3g}, is {}", wrong.empty() ? "" : "; ",
                         token.token, width_of(token), is_kept(token) ? "kept" : "dropped");
  }
  return fmt::format(
      "Row {}: {}. Of {} tokens around the boundary {} must be kept; the sampler {} {}. {}",
      boundary.row, boundary.filters, shown.size(), must, shown.front().kept ? "keeps" : "drew",
      kept, wrong.empty() ? "None is wrong." : "Wrong: " + wrong + ".");
}

// User units.
constexpr double kWidth = 470, kLeft = 8, kRight = 462, kFirst = 38, kSecond = 84, kLane = 24,
                 kAxis = 118, kHeight = 152;

}  // namespace

double clarity_of_mask(const harness::Boundary& boundary) {
  constexpr double kWide = 0.25;  // a wrong token of that share of the picture is as clear as any
  const Tokens shown = shown_of(boundary);
  const auto wrong = std::ranges::count_if(shown, is_wrong);
  if (shown.empty() || wrong == 0) return 0;
  const double share = std::min(1.0, wrong_width(shown) / span_of(shown) / kWide);
  const auto cut = cut_of(boundary, shown);
  const double at =
      cut ? (cut->mass - shown.front().cumulative_low) / span_of(shown) : 0;  // 0.5: the middle
  const double place = 4 * at * (1 - at);
  return (0.5 * share + 0.5 * place) / static_cast<double>(wrong);
}

std::string mask_bar(const harness::Boundary& boundary) {
  const Tokens shown = shown_of(boundary);
  if (shown.empty()) return "";
  const Axis axis{"mass of the tokens so far, by falling probability", shown.front().cumulative_low,
                  shown.back().cumulative_high};
  const auto x = [&axis](double mass) {
    return kLeft +
           (kRight - kLeft) * std::clamp((mass - axis.low) / (axis.high - axis.low), 0.0, 1.0);
  };
  std::string svg = svg_head("Mask", words_of(boundary, shown), kWidth, kHeight) +
                    fmt::format(
                        "<text class=\"tick\" x=\"{0}\" y=\"{1}\">must be kept</text>"
                        "<text class=\"tick\" x=\"{0}\" y=\"{2}\">{3}</text>\n",
                        kLeft, kFirst - 6, kSecond - 6,
                        shown.front().kept ? "kept by the sampler" : "drawn by the sampler");
  std::string marks;
  bool labelled = false;
  for (const BoundaryToken& token : shown) {
    const double from = x(token.cumulative_low), width = x(token.cumulative_high) - from;
    if (!(width > 0)) continue;
    const double gap = width > 4 ? 1 : 0;  // between tokens that are wide enough to be told apart
    const auto segment = [&](double y, std::string_view kind) {
      return fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\"/>", kind,
          from + gap / 2, y, width - gap, kLane);
    };
    svg += "<g>" +
           segment(kFirst, token.oracle == Oracle::in    ? "in"
                           : token.oracle == Oracle::out ? "out"
                                                         : "open") +
           segment(kSecond, is_kept(token) ? "in" : "out") +
           tip_element(fmt::format("token {}: mass {:.6g} to {:.6g}, {} by the oracle, {}",
                                   token.token, token.cumulative_low, token.cumulative_high,
                                   to_string(token.oracle), is_kept(token) ? "kept" : "not kept")) +
           "</g>\n";
    if (!is_wrong(token)) continue;
    marks += segment(kSecond, "wrong");
    if (labelled) continue;
    labelled = true;
    // Right of the lane's own label.
    marks +=
        fmt::format("<text class=\"wrong x\" x=\"{:.1f}\" y=\"{:.1f}\">\u2717 token {}</text>\n",
                    std::clamp(from + width / 2, 170.0, kRight - 40), kSecond - 6, token.token);
  }
  svg += marks;
  const std::vector<double> ticks = ticks_of(axis, 5);
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : axis.high - axis.low;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 12);
  for (const double tick : ticks) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1}v4\"/><text class=\"tick x\" x=\"{2:.1f}\" "
        "y=\"{3}\">{4:.{5}f}</text>\n",
        x(tick), kAxis, std::clamp(x(tick), 18.0, kWidth - 18), kAxis + 15, tick, decimals);
  }
  svg += fmt::format(
      "<path class=\"axis\" d=\"M{} {}H{}\"/><text class=\"label\" x=\"{}\" y=\"{}\">"
      "{}</text>\n",
      kLeft, kAxis, kRight, (kLeft + kRight) / 2, kHeight - 4, axis.label);
  if (const auto cut = cut_of(boundary, shown)) {
    svg += fmt::format(
        "<path class=\"cut\" d=\"M{0:.1f} {1}V{2}\"/><text class=\"cut x\" x=\"{3:.1f}\" "
        "y=\"{4}\">{5}</text>\n",
        x(cut->mass), kFirst - 20, kAxis, std::clamp(x(cut->mass), 60.0, kWidth - 60), kFirst - 25,
        html_text(cut->label));
  }
  return svg + "</svg>\n";
}

std::string boundary(const harness::Boundary& boundary) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\"><table class=\"boundary\">\n<caption>Boundary of the "
      "mask, row {}: {}. "
      "By falling logit; the mass of the tokens before a token, and with it.</caption>\n"
      "<thead><tr><th scope=\"col\">Token</th><th scope=\"col\">Logit</th>"
      "<th scope=\"col\">Mass before</th><th scope=\"col\">Mass with it</th>"
      "<th scope=\"col\">Oracle</th><th scope=\"col\">Sampler</th></tr></thead>\n<tbody>\n",
      boundary.row, html_text(boundary.filters));
  for (const harness::BoundaryToken& token : boundary.tokens) {
    std::string sampler;
    if (token.kept) sampler = *token.kept ? "kept" : "dropped";
    if (token.drawn) {
      sampler += fmt::format("{}drawn {} times", sampler.empty() ? "" : ", ", *token.drawn);
    }
    html += fmt::format(
        "<tr{}><td>{}</td><td>{:.9g}</td><td>{:.9g}</td><td>{:.9g}</td><td>{}</td><td>{}{}</td>"
        "</tr>\n",
        is_wrong(token) ? " class=\"wrong\"" : "", token.token, token.logit, token.cumulative_low,
        token.cumulative_high, harness::to_string(token.oracle), sampler.empty() ? "-" : sampler,
        is_wrong(token) ? " \u2717 wrong" : "");
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace fairdraw::reports::pictures
