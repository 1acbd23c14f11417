// Options of the verbs, made with CLI11. Only options.cpp and command_line.cpp include CLI11's
// header, because it takes longer to compile than the rest of a verb.
//
// fairdraw parses the values itself instead of CLI11, so that one rule holds for all options. An
// empty text is not a value, because a script's unset variable expands to it. NaN and infinities
// are not accepted as numbers. A number that is out of range, or too close to 0 for its type, is
// refused with the option, the value and the allowed range.
#pragma once

#include <limits>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace fairdraw::cli {

/// Rules for an option's values beyond its type.
struct Rules {
  bool required = false;
  bool commas = false;    ///< whether list values may also be separated by commas
  bool repeated = false;  ///< whether a list has one value per occurrence of the option
  /// Numbers must be from `least` to `most`; long double holds every 64-bit value. `range`
  /// describes the range in words if numbers are not enough.
  long double least = -std::numeric_limits<long double>::infinity();
  long double most = std::numeric_limits<long double>::infinity();
  std::string range = {};
};

/// Adds an option whose values are called `type` on the help page. The present `value` is the
/// default, unless it is empty or not allowed. The parser keeps a reference to `value`. T is one of
/// the types listed in options.cpp.
template <class T>
void add_option(CLI::App& app, const std::string& names, T& value, const std::string& type,
                const std::string& what, const Rules& rules = {});

/// Adds --json, with the same meaning for every verb: writes the result as JSON to FILE in addition
/// to the text, or to the standard output instead of the text. `path` is the argument of an
/// OutputFile.
void add_json(CLI::App& app, std::string& path, const std::string& what);

void add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& what);

}  // namespace fairdraw::cli
