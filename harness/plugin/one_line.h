// Makes the output of a plugin suitable for one line of a message. A newline in a plugin's output
// would begin a line that looks like one of the judge.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::harness::plugin {

/// Replaces newlines, tabs and carriage returns by spaces, removes trailing ones, and writes other
/// ASCII control characters as \xNN. All other bytes are kept, because reports themselves escape
/// bytes that hide text.
std::string on_one_line(std::string_view text);

}  // namespace fairdraw::harness::plugin
