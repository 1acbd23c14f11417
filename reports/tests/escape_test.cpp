#include "reports/escape.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace fairdraw::reports {
namespace {

const std::string kReplacement = "\xef\xbf\xbd";  // U+FFFD

std::u32string decoded(std::string_view text) {
  std::u32string result;
  while (!text.empty()) result += take_code_point(text);
  return result;
}

/// Encodes `c` in UTF-8 by the table of RFC 3629, even if `c` is not a code point.
std::string encoded(std::uint32_t c) {
  const auto continuation = [c](int shift) {
    return static_cast<char>(0x80 | (c >> shift & 0x3f));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), continuation(0)};
  if (c < 0x10000) {
    return {static_cast<char>(0xe0 | c >> 12), continuation(6), continuation(0)};
  }
  return {static_cast<char>(0xf0 | c >> 18), continuation(12), continuation(6), continuation(0)};
}

TEST(Utf8, every_code_point_is_read_and_shown_or_spelled_out) {
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    const std::string bytes = encoded(c);
    if (c >= 0xd800 && c < 0xe000) {
      ASSERT_EQ(decoded(bytes), std::u32string(3, U'\ufffd')) << c;
    } else {
      ASSERT_EQ(decoded(bytes), std::u32string(1, c)) << c;
      const std::string shown = terminal_text(bytes);
      ASSERT_TRUE(shown == bytes || shown[0] == '\\') << c;
    }
  }
}

TEST(Utf8, what_is_not_utf8_becomes_the_replacement_character) {
  EXPECT_EQ(decoded("\xff"), U"\ufffd");
  EXPECT_EQ(decoded("\x80"
                    "a"),
            U"\ufffd"
            "a");                         // a continuation byte without a lead byte
  EXPECT_EQ(decoded("\xc3"), U"\ufffd");  // truncated
  EXPECT_EQ(decoded("\xe2\x82"), U"\ufffd\ufffd");
  // '/' in an overlong form of two bytes
  EXPECT_EQ(decoded("\xc0\xaf"), U"\ufffd\ufffd");
  EXPECT_EQ(decoded("\xe0\x80\xaf"), U"\ufffd\ufffd\ufffd");  // and in three
  EXPECT_EQ(decoded("\xf0\x80\x80\xaf"), std::u32string(4, U'\ufffd'));
  EXPECT_EQ(decoded("\xf4\x90\x80\x80"), std::u32string(4, U'\ufffd'));  // U+110000
  // the text after the invalid byte is kept
  EXPECT_EQ(decoded("\xc3\x28"), U"\ufffd(");
  EXPECT_EQ(code_points("a\xc3\xa9\xf0\x9f\x8e\xb2"), 3u);
}

TEST(HtmlText, markup_and_quotes_are_references) {
  EXPECT_EQ(html_text("</script><b a='1' b=\"2\">&amp;"),
            "&lt;/script&gt;&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;amp;");
  EXPECT_EQ(html_text("two\nlines\there"), "two\nlines\there");
}

TEST(ScriptString, is_json_that_cannot_end_its_block) {
  EXPECT_EQ(script_string("</script>"), R"("\u003c/script>")");
  EXPECT_EQ(script_string("<!-- \"a\\b\"\n"), R"("\u003c!-- \"a\\b\"\n")");
  // Characters that are spelled out stay spelled out when the string is read.
  EXPECT_EQ(script_string("\x1b[31m"), R"("\\x1b[31m")");
  EXPECT_EQ(script_string("\xff"), "\"" + kReplacement + "\"");
}

TEST(XmlText, markup_is_references_and_controls_are_replaced) {
  EXPECT_EQ(xml_text("]]><a b='1' c=\"2\">&"),
            "]]&gt;&lt;a b=&#39;1&#39; c=&quot;2&quot;&gt;&amp;");
  EXPECT_EQ(xml_text("a\nb\tc\rd"), "a&#10;b&#9;c&#13;d");
  EXPECT_EQ(xml_text(std::string("\0\x1b[31m\x7f", 7)),
            kReplacement + kReplacement + "[31m" + kReplacement);
  EXPECT_EQ(xml_text("\xef\xbf\xbe\xef\xbf\xbf\xff"), kReplacement + kReplacement + kReplacement);
}

TEST(TerminalText, escapes_and_controls_are_spelled_out) {
  EXPECT_EQ(terminal_text("\x1b[31mred\x1b[0m"), "\\x1b[31mred\\x1b[0m");
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "31m"),
            "\\x9b31m");  // the control character CSI of ISO 6429, in one byte
  EXPECT_EQ(terminal_text("a\nb\rc\td\x08\x07"), "a\\nb\\rc\\td\\x08\\x07");
  EXPECT_EQ(terminal_text(std::string("a\0b", 3)), "a\\x00b");
}

TEST(AllText, bidirectional_and_invisible_characters_are_spelled_out) {
  const std::string text =
      "a\xe2\x80\xae"
      "b\xe2\x81\xa6\xe2\x80\x8b\xef\xbb\xbf\xf3\xa0\x81\x81";
  const std::string spelled = "a\\u202eb\\u2066\\u200b\\ufeff\\U000e0041";
  EXPECT_EQ(terminal_text(text), spelled);
  EXPECT_EQ(html_text(text), spelled);
  EXPECT_EQ(xml_text(text), spelled);
  EXPECT_EQ(markdown_code(text), "`" + spelled + "`");
}

TEST(MarkdownText, what_markdown_reads_is_escaped) {
  EXPECT_EQ(markdown_text("a|b `c` *d* _e_ [f](g) <h> ~i~ #j !k $l$ m\\n"),
            "a\\|b \\`c\\` \\*d\\* \\_e\\_ \\[f\\](g) &lt;h&gt; \\~i\\~ \\#j \\!k \\$l\\$ m\\\\n");
  EXPECT_EQ(markdown_text("two\nlines"), "two lines");
  EXPECT_EQ(markdown_text("@all &amp;"), "&#64;all &amp;amp;");
}

TEST(MarkdownCode, the_fence_is_longer_than_any_run_of_backticks_inside) {
  EXPECT_EQ(markdown_code("top_k"), "`top_k`");
  EXPECT_EQ(markdown_code("a`b"), "``a`b``");
  EXPECT_EQ(markdown_code("`a``b"), "``` `a``b ```");
  EXPECT_EQ(markdown_code("a\nb"), "`a b`");
  EXPECT_EQ(markdown_code(" a "), "`  a  `");
  EXPECT_EQ(markdown_code(""), "");
}

TEST(MarkdownCellCode, a_pipe_does_not_end_the_cell) {
  EXPECT_EQ(markdown_cell_code("top_k"), "`top_k`");
  EXPECT_EQ(markdown_cell_code("a|b<`\\"), "<code>a&#124;b&#60;&#96;&#92;</code>");
}

}  // namespace
}  // namespace fairdraw::reports
