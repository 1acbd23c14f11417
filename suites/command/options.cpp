#include "suites/command/app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <vector>

#include "harness/contract/usage_error.h"
#include "suites/command/output_file.h"

namespace fairdraw::cli {
namespace {

using harness::UsageError;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
std::string default_text(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return {};
  } else if constexpr (IsVector<T>::value) {
    return fmt::format("{}", fmt::join(value, ","));
  } else {
    return fmt::format("{}", value);
  }
}

template <class T>
const char* type_of() {
  if constexpr (IsOptional<T>::value || IsVector<T>::value) {
    return type_of<typename T::value_type>();
  } else if constexpr (std::is_floating_point_v<T>) {
    return "NUMBER";
  } else if constexpr (std::is_integral_v<T>) {
    return "N";
  } else {
    return "TEXT";
  }
}

template <class T>
std::string range_text(T least, T most) {
  return fmt::format("{} to {}", least, most);
}

// Whether a number that no type holds is too close to 0 for it, and not too large: by the place of
// its first digit.
bool is_small(const std::string& text) {
  const std::size_t mark = text.find_first_of("eE");
  const std::string digits = text.substr(0, mark);
  const std::size_t first = digits.find_first_of("123456789");
  if (first == std::string::npos) return false;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  // A double, because an exponent may have any number of digits.
  const double exponent =
      mark == std::string::npos ? 0 : std::strtod(text.c_str() + mark + 1, nullptr);
  return exponent + static_cast<double>(point) - static_cast<double>(first) <= 0;
}

// Digits of base ten, all of `text`. What is wrong with it goes into `wrong`.
template <class T>
T parse_number(const std::string& text, std::string& wrong) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool negative = text.size() > 1 && text[0] == '-' &&
                        text.find_first_not_of("0123456789", 1) == std::string::npos;
  if (std::is_unsigned_v<T> && negative) {
    wrong = "is out of range";
  } else if (error == std::errc::invalid_argument || stop != end) {
    wrong = "is not a number";
  } else if (error == std::errc::result_out_of_range) {
    wrong = "is out of range";
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) wrong = "is not a number";
    // 1e-400 is no 0: what 0 means (greedy, off) was not asked for.
    if (value == 0 && stop == end && is_small(text)) {
      wrong = "is too close to 0 to be represented";
    }
  }
  return value;
}

}  // namespace

Option* Option::type_name(const std::string& name) {
  type_ = name;
  show_type();
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
  delimiter_ = between;
  return this;
}

Option* Option::take_all() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return this;
}

template <class T>
Option* Option::range(T least, T most, const std::string& words) {
  least_ = static_cast<long double>(least);
  most_ = static_cast<long double>(most);
  range_ = words.empty() ? range_text(least, most) : words;
  show_type();
  return this;
}

std::string Option::name() const { return option_->get_name(); }

void Option::show_type() {
  option_->type_name(range_.empty() ? type_ : fmt::format("{} ({})", type_, range_));
}

std::vector<std::string> Option::values_of(const std::vector<std::string>& words) const {
  std::vector<std::string> values;
  for (const std::string& word : words) {
    for (std::size_t begin = 0; begin <= word.size();) {
      const std::size_t found =
          delimiter_ == '\0' ? std::string::npos : word.find(delimiter_, begin);
      const std::size_t end = std::min(found, word.size());
      values.push_back(word.substr(begin, end - begin));
      if (values.back().empty()) {
        throw UsageError(fmt::format("{}: '{}' {}; {} is needed, or leave the option out", name(),
                                     word, word.empty() ? "is empty" : "has an empty part", type_));
      }
      begin = end + 1;
    }
  }
  return values;
}

template <class T>
T Option::read(const std::string& text) const {
  if constexpr (std::is_arithmetic_v<T>) {
    std::string wrong;
    const T value = parse_number<T>(text, wrong);
    const auto wide = static_cast<long double>(value);
    if (wrong.empty() && !(wide >= least_ && wide <= most_)) wrong = "is out of range";
    if (wrong.empty()) return value;
    using Limits = std::numeric_limits<T>;
    throw UsageError(
        fmt::format("{}: '{}' {}; {} is allowed", name(), text, wrong,
                    range_.empty() ? range_text(Limits::lowest(), Limits::max()) : range_));
  } else {
    return text;
  }
}

template <class T>
Option* App::add_option(const std::string& names, T& value, const std::string& what) {
  Option& option = options_.emplace_back();
  const auto assign = [&option, &value](const CLI::results_t& words) {
    const std::vector<std::string> texts = option.values_of(words);
    if constexpr (IsVector<T>::value) {
      value.clear();
      for (const std::string& text : texts) {
        value.push_back(option.read<typename T::value_type>(text));
      }
    } else if constexpr (IsOptional<T>::value) {
      value = option.read<typename T::value_type>(texts.front());
    } else {
      value = option.read<T>(texts.front());
    }
    return true;
  };
  option.option_ =
      app_->add_option(names, assign, what, false, [&value] { return default_text(value); });
  option.option_->type_size(1);
  if (IsVector<T>::value) option.option_->expected(CLI::detail::expected_max_vector_size);
  option.type_ = type_of<T>();
  option.show_type();
  return &option;
}

void App::add_json(std::string& path, const std::string& what) {
  Option* const option = add_option("--json", path,
                                    what +
                                        " to FILE, as JSON; without FILE, or with -, to the "
                                        "standard output in place of the text");
  option->type_name("[FILE]");
  option->option_->expected(0, 1);
  option->option_->default_str(std::string(kStandardOutput));  // what no FILE stands for
}

void App::add_flag(const std::string& names, bool& value, const std::string& what) {
  app_->add_flag(names, value, what);
}

using Text = const std::string&;

template Option* Option::range(int, int, Text);
template Option* Option::range(std::int64_t, std::int64_t, Text);
template Option* Option::range(std::uint64_t, std::uint64_t, Text);
template Option* Option::range(float, float, Text);
template Option* Option::range(double, double, Text);

template Option* App::add_option(Text, std::string&, Text);
template Option* App::add_option(Text, int&, Text);
template Option* App::add_option(Text, float&, Text);
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
