// The parser as the verbs see it: CLI11's App and Option, with what the verbs use of them. CLI11's
// header takes longer to compile than all else of a verb: only app.cpp and command_line.cpp include
// it.
//
// The values are read here and not by CLI11, so that one rule holds for all options: an empty text
// is no value (it is what a script makes of a variable that is not set), NaN and infinities are no
// numbers, and a number that is out of range, or too close to 0 for its type, is refused with the
// option, the value and the allowed range.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fairdraw::cli {

/// Every call returns the option itself, so that calls can be chained.
class Option {
 public:
  Option() = default;

  Option* type_name(const std::string& name);
  Option* required();
  Option* capture_default_str();
  Option* expected(int values);
  Option* delimiter(char between);
  /// The option may be given several times, and every value counts.
  Option* take_all();
  /// Values from `least` to `most` are allowed; `words` say so where numbers would not be enough.
  /// T: int, std::int64_t, std::uint64_t, float, double.
  template <class T>
  Option* range(T least, T most, const std::string& words = "");

 private:
  friend class App;

  std::string name() const;
  /// The words of the command line, split at the delimiter. Throws harness::UsageError where one is
  /// empty.
  std::vector<std::string> values_of(const std::vector<std::string>& words) const;
  /// One of them as a T. Throws harness::UsageError.
  template <class T>
  T read(const std::string& text) const;
  void show_type();

  CLI::Option* option_ = nullptr;
  char delimiter_ = '\0';
  std::string type_, range_;
  /// Wide enough for every value of 64 bits.
  long double least_ = -std::numeric_limits<long double>::infinity();
  long double most_ = std::numeric_limits<long double>::infinity();
};

class App {
 public:
  /// `command`: how the program was called.
  App(CLI::App* app, std::string command) : app_(app), command_(std::move(command)) {}
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  /// T: those that app.cpp lists. `value` is kept by reference.
  template <class T>
  Option* add_option(const std::string& names, T& value, const std::string& what);
  /// --json, which means the same for every verb that has it: the result as JSON to FILE besides
  /// the text, or to the standard output in its place. `path` is for an OutputFile.
  void add_json(std::string& path, const std::string& what);
  void add_flag(const std::string& names, bool& value, const std::string& what);
  const std::string& command() const { return command_; }

 private:
  CLI::App* app_;
  std::string command_;
  std::deque<Option> options_;  // which pointers are handed out to
};

}  // namespace fairdraw::cli
