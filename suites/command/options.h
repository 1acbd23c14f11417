// Options of the verbs, made with CLI11, whose header takes longer to compile than all else of a
// verb: only options.cpp and command_line.cpp include it.
//
// The values are read here and not by CLI11, so that one rule holds for all options: an empty text
// is no value (it is what a script makes of a variable that is not set), NaN and infinities are no
// numbers, and a number that is out of range, or too close to 0 for its type, is refused with the
// option, the value and the allowed range.
#pragma once

#include <limits>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace fairdraw::cli {

/// What an option takes besides what its type says.
struct Rules {
  bool required = false;
  bool commas = false;    ///< of a list: values are separated by commas, too
  bool repeated = false;  ///< of a list: one value each time that the option is given
  /// Numbers are allowed from `least` to `most`, which are wide enough for every value of 64 bits;
  /// `range` says so where numbers would not be enough.
  long double least = -std::numeric_limits<long double>::infinity();
  long double most = std::numeric_limits<long double>::infinity();
  std::string range = {};
};

/// Adds an option whose values the help page calls `type`, with the value that it has before as its
/// default: none where that is empty or not allowed. `value` is kept by reference. T: those that
/// options.cpp lists.
template <class T>
void add_option(CLI::App& app, const std::string& names, T& value, const std::string& type,
                const std::string& what, const Rules& rules = {});

/// Adds --json, which means the same for every verb that has it: the result as JSON to FILE besides
/// the text, or to the standard output in its place. `path` is for an OutputFile.
void add_json(CLI::App& app, std::string& path, const std::string& what);

void add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& what);

}  // namespace fairdraw::cli
