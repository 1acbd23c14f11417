// Makes the output of a plugin fit for a line of a message. A newline in a plugin's output would
// begin a line that looks like the judge's own.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::harness::plugin {

/// Replaces newlines, tabs and carriage returns by spaces, removes them at the end, and writes
/// other ASCII control characters as \xNN. All other bytes stay, because reports escape bytes that
/// hide text.
std::string on_one_line(std::string_view text);

}  // namespace fairdraw::harness::plugin
