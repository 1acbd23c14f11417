#include "reports/page/parts.h"

#include <fmt/format.h>

#include "reports/escape.h"

namespace fairdraw::reports::html {
namespace {

/// FNV-1a: no secret is kept by it, it only tells names apart that look alike in an address.
std::uint32_t hash_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619U;
  return hash;
}

/// Letters and digits of a name, and a hyphen for all that is between them.
std::string slug_of(std::string_view name) {
  constexpr std::size_t kMost = 48;
  std::string slug;
  for (const char letter : name) {
    if (slug.size() == kMost) break;
    const bool is_digit = letter >= '0' && letter <= '9';
    const bool is_upper = letter >= 'A' && letter <= 'Z', is_lower = letter >= 'a' && letter <= 'z';
    if (is_digit || is_upper || is_lower || letter == '_') {
      slug += letter;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  return slug;
}

}  // namespace

std::string entry(std::string_view term, const std::string& markup) {
  return fmt::format("<dt>{}</dt><dd>{}</dd>\n", html_text(term), markup);
}

std::string entry(std::string_view term, const std::optional<double>& value) {
  return value ? entry(term, number_text(value)) : "";
}

std::string verdict_badge(harness::Verdict verdict) {
  return fmt::format("<span class=\"verdict {0}\">{0}</span>", to_string(verdict));
}

std::string commit_label(const harness::RunRecord& record) {
  constexpr std::size_t kDigits = 12;
  return html_text(std::string_view(record.commit).substr(0, kDigits));
}

std::string table_head(std::string_view caption, const std::vector<std::string_view>& columns) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>\n";
  if (!caption.empty()) html += fmt::format("<caption>{}</caption>\n", html_text(caption));
  html += "<thead><tr>";
  for (std::string_view column : columns) {
    const bool numeric = column.starts_with('#');
    if (numeric) column.remove_prefix(1);
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric ? " class=\"number\"" : "",
                        html_text(column));
  }
  return html + "</tr></thead>\n<tbody>\n";
}

std::string number_cell(const std::string& text) {
  return "<td class=\"number\">" + text + "</td>";
}

std::string replay_line(const std::string& replay) {
  return fmt::format(
      "<div class=\"replay\"><pre tabindex=\"0\"><code>{}</code></pre>"
      "<button type=\"button\" class=\"copy\" hidden>Copy</button></div>\n",
      html_text(replay));
}

std::string figures(const std::string& pictures) {
  return pictures.empty() ? "" : "<div class=\"figures\">\n" + pictures + "</div>\n";
}

std::string show_link(const std::vector<Wanted>& wanted, const std::string& markup,
                      std::string_view kind) {
  std::string data;
  for (const Wanted& one : wanted) {
    data += fmt::format(" data-{}=\"{}\"", one.what, html_text(one.value));
  }
  return fmt::format("<a class=\"show{}{}\" href=\"#cases\"{}>{}</a>", kind.empty() ? "" : " ",
                     kind, data, markup);
}

std::string anchor_of(std::string_view id, std::string_view sampler) {
  return fmt::format("case-{}-{:08x}", slug_of(id), hash_of(fmt::format("{}\n{}", id, sampler)));
}

std::string sampler_label(const harness::CaseRecord& one, const harness::RunRecord& record) {
  return record.samplers.size() > 1 ? " <code>" + html_text(one.sampler) + "</code>" : "";
}

std::string cause_anchor(std::string_view cause) {
  return fmt::format("cause-{}-{:08x}", slug_of(cause), hash_of(cause));
}

}  // namespace fairdraw::reports::html
