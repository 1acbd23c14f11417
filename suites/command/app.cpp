#include "suites/command/app.h"

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

namespace fairdraw::cli {

Option* Option::type_name(const std::string& name) {
  option_->type_name(name);
  return this;
}

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::capture_default_str() {
  option_->capture_default_str();
  return this;
}

Option* Option::expected(int values) {
  option_->expected(values);
  return this;
}

Option* Option::delimiter(char between) {
  option_->delimiter(between);
  return this;
}

Option* Option::take_all() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return this;
}

template <class T>
Option* Option::range(T least, T most) {
  option_->check(CLI::Range(least, most));
  return this;
}

template <class T>
Option* App::add_option(const std::string& names, T& value, const std::string& what) {
  return &options_.emplace_back(app_->add_option(names, value, what));
}

void App::add_flag(const std::string& names, bool& value, const std::string& what) {
  app_->add_flag(names, value, what);
}

template Option* Option::range(int, int);
template Option* Option::range(std::int64_t, std::int64_t);
template Option* Option::range(std::uint64_t, std::uint64_t);
template Option* Option::range(double, double);

using Text = const std::string&;

template Option* App::add_option(Text, std::string&, Text);
template Option* App::add_option(Text, int&, Text);
template Option* App::add_option(Text, double&, Text);
template Option* App::add_option(Text, std::int64_t&, Text);
template Option* App::add_option(Text, std::uint64_t&, Text);
template Option* App::add_option(Text, std::optional<std::string>&, Text);
template Option* App::add_option(Text, std::optional<double>&, Text);
template Option* App::add_option(Text, std::optional<std::int64_t>&, Text);
template Option* App::add_option(Text, std::optional<std::uint64_t>&, Text);
template Option* App::add_option(Text, std::vector<std::string>&, Text);
template Option* App::add_option(Text, std::vector<int>&, Text);
template Option* App::add_option(Text, std::vector<std::int64_t>&, Text);

}  // namespace fairdraw::cli
