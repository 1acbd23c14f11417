#include <fmt/format.h>

#include "reports/escape.h"
#include "reports/pictures/pictures.h"

namespace fairdraw::reports::pictures {
namespace {

/// The oracle is sure of the token, and the sampler did the other thing.
bool is_wrong(const harness::BoundaryToken& token) {
  const bool drawn = token.drawn && *token.drawn > 0;
  if (token.oracle == harness::Oracle::out) return (token.kept && *token.kept) || drawn;
  return token.oracle == harness::Oracle::in && token.kept && !*token.kept;
}

}  // namespace

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
