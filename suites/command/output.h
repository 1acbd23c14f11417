// Printing of verbs. A verdict must reach its report even if the terminal fails, and a failed write
// must not go unnoticed. So printing never throws, and end_of_output() tells at the end whether all
// text was written.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace fairdraw::cli {

/// Returns `text` with characters that hide or move text spelled out, such as escape sequences in a
/// plugin's name or output. Newlines stay.
std::string safe_text(std::string_view text);

/// Writes safe_text(text) to stdout.
void write_out(std::string_view text);
/// Writes text to stdout unchanged. Precondition: the text is already safe for a terminal; it may
/// have colours.
void write_safe_out(std::string_view safe);
void flush_out();

/// Returns whether output to a file descriptor may have colours: the file is a terminal that
/// supports them, and NO_COLOR (no-color.org) is not set.
bool has_colours(int file);

/// Writes text to stderr unchanged, because a progress bar moves the cursor.
void write_error(std::string_view text);

/// Disables print(), because stdout is for a verb's result in another form, such as JSON. Returns
/// false if print() was already disabled.
bool stop_printing();
/// Enables print() again, for a process that calls the command line repeatedly.
void start_printing();

/// Returns the command by which the program was called; command_line() sets it.
std::string& program_command();
bool is_printing();

template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  if (is_printing()) write_out(fmt::format(format, std::forward<Values>(values)...));
}

template <class... Values>
void print_error(fmt::format_string<Values...> format, Values&&... values) {
  write_error(fmt::format(format, std::forward<Values>(values)...));
}

/// Exit code if no case was judged, or not everything that was requested.
inline constexpr int kExitUndecided = 3;

/// Exit code that a shell shows for SIGPIPE: 128 plus the signal's number.
inline constexpr int kExitReaderGone = 141;

/// Flushes stdout. Returns `code`, except if it is 0 and a write failed: then 2 with a message, or
/// kExitReaderGone if the reader has closed the pipe (`| head`).
int end_of_output(int code);

}  // namespace fairdraw::cli
