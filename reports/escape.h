// Makes text from outside (names, messages and paths of a sampler under test) safe to show. Each
// function takes any bytes and returns valid UTF-8 that its medium reads as plain text.
//
// In all functions, bytes that are not UTF-8 become U+FFFD. Characters that move or hide text
// (controls, bidirectional marks, line separators, zero-width characters) are spelled out, such as
// \x1b or \u202e, so that a message cannot look different from what it says. XML gets U+FFFD
// instead of control characters, because fairdraw cannot choose how a CI system displays XML.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::reports {

/// Escapes text for HTML elements and quoted attributes. Newlines and tabs stay unchanged.
std::string html_text(std::string_view text);

/// Returns a JSON string in quotes for a data block of a page, in which no text after "<" can end
/// the block.
std::string script_string(std::string_view text);

/// Escapes text for XML elements and quoted attributes. Newlines and tabs become character
/// references, because attributes preserve these.
std::string xml_text(std::string_view text);

/// Escapes text for a paragraph or a table cell of GitHub-flavoured Markdown; newlines become
/// spaces.
std::string markdown_text(std::string_view text);

/// Returns a code span for use outside tables; newlines become spaces.
std::string markdown_code(std::string_view text);

/// Returns code for a table cell: a code span, or a <code> element of character references if the
/// text has a pipe, which some readers do not allow in code spans.
std::string markdown_cell_code(std::string_view text);

/// Escapes text for one line of a terminal: newlines, tabs and escape sequences are spelled out.
std::string terminal_text(std::string_view text);

/// Removes the next code point from `rest` (which is not empty) and returns it; returns U+FFFD for
/// each byte that is not UTF-8.
char32_t take_code_point(std::string_view& rest);

/// Returns at most `most` code points of a text, followed by "..." if there are more.
std::string shortened(std::string_view text, std::size_t most);

/// Counts code points.
std::size_t code_points(std::string_view text);

}  // namespace fairdraw::reports
