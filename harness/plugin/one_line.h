// What a plugin says or prints, made fit for a line of a message: a newline in it would begin a
// line that looks like the judge's own.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::harness::plugin {

/// Newlines, tabs and carriage returns become blanks, those at the end go, and other ASCII control
/// characters are spelled out as \xNN. All other bytes stay: reports spell out what of them hides
/// text.
std::string on_one_line(std::string_view text);

}  // namespace fairdraw::harness::plugin
