// Printing of verbs. The verdict must reach its report even if the terminal fails, and a failed
// write must be noticed. So printing throws no exception, and end_of_output() says at the end
// whether all text was written.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace fairdraw::cli {

/// Returns `text` with the characters that hide or move text spelled out; examples are escape
/// sequences in a plugin's name or output. Newlines stay.
std::string safe_text(std::string_view text);

/// Writes safe_text(text) to stdout.
void write_out(std::string_view text);
/// Writes a text to stdout unchanged. Precondition: the text is already safe for a terminal; it may
/// contain colours.
void write_safe_out(std::string_view safe);
void flush_out();

/// Returns whether text for a file descriptor may have colours: the file must be a terminal that
/// supports colours, and NO_COLOR (no-color.org) must not be set.
bool has_colours(int file);

/// Writes a text to stderr unchanged, because a progress bar moves the cursor.
void write_error(std::string_view text);

/// Disables print(), because stdout is reserved for the verb's result in another form, such as
/// JSON. Returns false if print() was disabled before.
bool stop_printing();
/// Enables print() again, for a process that calls the command line several times.
void start_printing();

/// Returns the command by which the program was called, which command_line() has set.
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

/// Exit code if no case was judged, or if something that was required was not judged.
inline constexpr int kExitUndecided = 3;

/// Exit code that a shell shows for SIGPIPE: 128 plus the number of the signal.
inline constexpr int kExitReaderGone = 141;

/// Flushes stdout. Returns `code`. But if `code` is 0 and a write has failed, the function returns
/// 2 and prints a message, or returns kExitReaderGone if the reader has closed the pipe (`| head`).
int end_of_output(int code);

}  // namespace fairdraw::cli
