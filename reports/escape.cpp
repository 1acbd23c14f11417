#include "reports/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace fairdraw::reports {
namespace {

constexpr char32_t kReplacement = 0xfffd;

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

/// Returns whether a character has no shape of its own but changes how other characters are seen.
bool is_invisible(char32_t c) {
  return c == 0x00ad || c == 0x061c || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f) ||
         (c & 0xfffe) == 0xfffe;  // noncharacters
}

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&out](char32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | c >> 6);
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | c >> 12);
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | c >> 18);
    byte(0x80 | (c >> 12 & 0x3f));
    byte(0x80 | (c >> 6 & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

/// Returns the spelling that replaces a character that cannot be shown as itself.
std::string spelled_out(char32_t c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      break;
  }
  const auto value = static_cast<std::uint32_t>(c);
  if (value < 0x100) return fmt::format("\\x{:02x}", value);
  return value < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value);
}

/// Returns `text` with each code point replaced by `special(c)`. If that is null, the code point
/// stays or is spelled out.
template <class Special>
std::string escaped(std::string_view text, Special special) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const char32_t c = take_code_point(text);
    if (const char* replacement = special(c)) {
      out += replacement;
    } else if (is_control(c) || is_invisible(c)) {
      out += spelled_out(c);
    } else {
      append_utf8(out, c);
    }
  }
  return out;
}

const char* html_special(char32_t c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return nullptr;
  }
}

const char* markdown_special(char32_t c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '@':
      return "&#64;";  // so that an "@" in a comment made from the summary does not notify people
    case '\n':
    case '\r':
    case '\t':
      return " ";
    case '\\':
      return "\\\\";
    case '`':
      return "\\`";
    case '*':
      return "\\*";
    case '_':
      return "\\_";
    case '[':
      return "\\[";
    case ']':
      return "\\]";
    case '#':
      return "\\#";
    case '~':
      return "\\~";
    case '|':
      return "\\|";
    case '!':
      return "\\!";
    case '$':
      return "\\$";
    default:
      return nullptr;
  }
}

}  // namespace

char32_t take_code_point(std::string_view& rest) {
  const auto at = [&rest](std::size_t i) { return static_cast<unsigned char>(rest[i]); };
  const unsigned char lead = at(0);
  const std::size_t length = lead < 0x80             ? 1
                             : (lead & 0xe0) == 0xc0 ? 2
                             : (lead & 0xf0) == 0xe0 ? 3
                             : (lead & 0xf8) == 0xf0 ? 4
                                                     : 0;
  char32_t value = kReplacement;
  std::size_t taken = 1;
  if (length == 1) {
    value = lead;
  } else if (length > 1 && length <= rest.size()) {
    // rejects overlong forms, which are not UTF-8
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    char32_t decoded = lead & (0x7fu >> length);
    bool valid = true;
    for (std::size_t i = 1; i < length; ++i) {
      valid = valid && (at(i) & 0xc0) == 0x80;
      decoded = decoded << 6 | (at(i) & 0x3f);
    }
    const bool surrogate = decoded >= 0xd800 && decoded < 0xe000;
    if (valid && !surrogate && decoded >= kSmallest[length] && decoded <= 0x10ffff) {
      value = decoded;
      taken = length;
    }
  }
  rest.remove_prefix(taken);
  return value;
}

std::string shortened(std::string_view text, std::size_t most) {
  std::string_view rest = text;
  for (std::size_t count = 0; count < most && !rest.empty(); ++count) take_code_point(rest);
  return std::string(text.substr(0, text.size() - rest.size())) + (rest.empty() ? "" : "...");
}

std::size_t code_points(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) take_code_point(text);
  return count;
}

std::string html_text(std::string_view text) {
  return escaped(text, [](char32_t c) -> const char* {
    if (c == '\n') return "\n";
    if (c == '\t') return "\t";
    return html_special(c);
  });
}

std::string script_string(std::string_view text) {
  // escaped() spells characters out with a backslash, so backslashes and quotes must be escaped for
  // JSON afterwards.
  const std::string visible =
      escaped(text, [](char32_t c) -> const char* { return c == '\n' ? "\n" : nullptr; });
  std::string out = "\"";
  for (const char c : visible) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '<':
        out += "\\u003c";
        break;
      default:
        out += c;
    }
  }
  return out + "\"";
}

std::string xml_text(std::string_view text) {
  return escaped(text, [](char32_t c) -> const char* {
    if (c == '\n') return "&#10;";
    if (c == '\t') return "&#9;";
    if (c == '\r') return "&#13;";
    // XML 1.0 allows neither control characters nor these two code points.
    if (is_control(c) || c == 0xfffe || c == 0xffff) return "\xef\xbf\xbd";
    return html_special(c);
  });
}

std::string markdown_text(std::string_view text) { return escaped(text, markdown_special); }

std::string markdown_code(std::string_view text) {
  std::string body = escaped(text, [](char32_t c) -> const char* {
    return c == '\n' || c == '\r' || c == '\t' ? " " : nullptr;
  });
  if (body.empty()) return body;
  std::size_t longest = 0, run = 0;
  for (const char c : body) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  // The fence must be longer than any run of backticks in the text. One space on each side, which
  // readers strip, separates the fence from a backtick or a space at an end of the text.
  const std::string fence(longest + 1, '`');
  const bool pad =
      body.front() == '`' || body.back() == '`' || (body.front() == ' ' && body.back() == ' ');
  return fence + (pad ? " " : "") + body + (pad ? " " : "") + fence;
}

std::string markdown_cell_code(std::string_view text) {
  if (text.find('|') == std::string_view::npos) return markdown_code(text);
  constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::string out = "<code>";
  for (const char c : terminal_text(text)) {
    const bool punctuation = kPunctuation.find(c) != std::string_view::npos;
    out += punctuation ? fmt::format("&#{};", static_cast<int>(c)) : std::string(1, c);
  }
  return out + "</code>";
}

std::string terminal_text(std::string_view text) {
  return escaped(text, [](char32_t) -> const char* { return nullptr; });
}

}  // namespace fairdraw::reports
