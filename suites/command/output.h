// What verbs print. A verdict must reach its report whatever becomes of the terminal, and must not
// look printed where it was not: printing never throws, and end_of_output() says at the end whether
// all of it was taken.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace fairdraw::cli {

/// `text` with what would hide or move text (escape sequences in the name of a plugin, in what it
/// printed) spelled out; newlines stay.
std::string safe_text(std::string_view text);

/// safe_text to stdout.
void write_out(std::string_view text);
/// To stdout, as it is: made safe where it was made, and it may have colours.
void write_safe_out(std::string_view safe);
void flush_out();

/// Whether what goes to a file descriptor may have colours: it is a terminal that knows them, and
/// NO_COLOR (no-color.org) does not ask for none.
bool has_colours(int file);

/// To stderr, as it is: a progress bar moves the cursor.
void write_error(std::string_view text);

/// From now on print() prints nothing: stdout is for a verb's result in another form. False where
/// that was so already.
bool stop_printing();
/// A process that calls the command line again begins like this.
void start_printing();

/// How the program was called: command_line() says it here.
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

/// The exit code where nothing was judged, or not all that was asked.
inline constexpr int kExitUndecided = 3;

/// The exit code that the shell would show of SIGPIPE: 128 and its number.
inline constexpr int kExitReaderGone = 141;

/// Flushes stdout. Returns `code`, unless that is 0 and something was not written: then 2 with a
/// message, or, where the reader has gone (`| head`), what the shell would show of SIGPIPE.
int end_of_output(int code);

}  // namespace fairdraw::cli
