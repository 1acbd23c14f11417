// The parser as the verbs see it: CLI11's App and Option, with what the verbs use of them. CLI11's
// header takes longer to compile than all else of a verb: only app.cpp and command_line.cpp include
// it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fairdraw::cli {

/// Every call returns the option itself, so that calls can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* type_name(const std::string& name);
  Option* required();
  Option* capture_default_str();
  Option* expected(int values);
  Option* delimiter(char between);
  /// The option may be given several times, and every value counts.
  Option* take_all();
  /// Values from `least` to `most` are allowed. T: int, std::int64_t, std::uint64_t, double.
  template <class T>
  Option* range(T least, T most);

 private:
  CLI::Option* option_;
};

class App {
 public:
  explicit App(CLI::App* app) : app_(app) {}
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  /// T: those that app.cpp lists. `value` is kept by reference.
  template <class T>
  Option* add_option(const std::string& names, T& value, const std::string& what);
  void add_flag(const std::string& names, bool& value, const std::string& what);

 private:
  CLI::App* app_;
  std::deque<Option> options_;  // which pointers are handed out to
};

}  // namespace fairdraw::cli
