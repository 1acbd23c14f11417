// Text from outside (names, messages, paths of a sampler under test) made safe to show. Each
// function takes any bytes and returns valid UTF-8 that its medium reads as text and nothing else.
//
// Common to all: what is not UTF-8 becomes U+FFFD. Characters that move or hide text (controls,
// bidirectional marks, line separators, zero-width characters) are spelled out, \x1b or \u202e, so
// that a message cannot show something other than what it says. XML has U+FFFD for controls
// instead: a CI system's own display of it is not ours to choose.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::reports {

/// For HTML elements and quoted attributes. Newlines and tabs stay.
std::string html_text(std::string_view text);

/// A JSON string in quotes for a data block of a page: what follows "<" cannot end the block.
std::string script_string(std::string_view text);

/// For XML elements and quoted attributes; newlines and tabs as character references, which
/// attributes keep.
std::string xml_text(std::string_view text);

/// For a paragraph or a table cell of GitHub-flavoured Markdown; newlines become spaces.
std::string markdown_text(std::string_view text);

/// A code span outside of a table; newlines become spaces.
std::string markdown_code(std::string_view text);

/// Code in a table cell: a code span, or where that cannot hold a pipe in every reader, a <code>
/// element of character references.
std::string markdown_cell_code(std::string_view text);

/// For one line of a terminal: newlines, tabs and escape sequences are spelled out.
std::string terminal_text(std::string_view text);

/// Takes the next code point off `rest` (not empty); U+FFFD for each byte that is not UTF-8.
char32_t take_code_point(std::string_view& rest);

/// At most `most` code points of a text, and "..." for the others.
std::string shortened(std::string_view text, std::size_t most);

/// Number of code points.
std::size_t code_points(std::string_view text);

}  // namespace fairdraw::reports
