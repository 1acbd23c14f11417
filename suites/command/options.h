// Options of the verbs, which are made with CLI11. Only options.cpp and command_line.cpp include
// CLI11's header, because compiling the header takes longer than compiling the rest of a verb.
//
// fairdraw parses the values itself, not CLI11, so that the same rules hold for all options. An
// empty text is not accepted as a value, because a script's unset variable expands to it. NaN and
// the infinities are not accepted as numbers. A number that is out of range, or too close to 0 for
// its type, is rejected with a message that states the option, the value and the allowed range.
#pragma once

#include <limits>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace fairdraw::cli {

/// Rules for the values of an option, in addition to their type.
struct Rules {
  bool required = false;
  bool commas = false;    ///< true if values of a list may also be separated by commas
  bool repeated = false;  ///< true if a list takes one value for each occurrence of the option
  /// Numbers must lie between `min` and `max`; long double represents every 64-bit value. `range`
  /// describes the allowed range in words, if numbers do not suffice.
  long double min = -std::numeric_limits<long double>::infinity();
  long double max = std::numeric_limits<long double>::infinity();
  std::string range = {};
};

/// Adds an option; the help page calls its values `type`. The present content of `value` is the
/// default, unless it is empty or not allowed. The parser keeps a reference to `value`, which must
/// outlive it. T must be one of the types that options.cpp lists.
template <class T>
void add_option(CLI::App& app, const std::string& names, T& value, const std::string& type,
                const std::string& what, const Rules& rules = {});

/// Adds the option --json, which means the same for every verb: the result is written as JSON to
/// FILE in addition to the text, or to the standard output instead of the text. `path` must be
/// passed to the constructor of OutputFile.
void add_json(CLI::App& app, std::string& path, const std::string& what);

void add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& what);

}  // namespace fairdraw::cli
