#include "suites/command/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <vector>

#include "harness/contract/usage_error.h"
#include "suites/command/output_file.h"

namespace fairdraw::cli {
namespace {

using harness::UsageError;

// The type of a single value of an option, also for options that are lists or optionals.
template <class T>
struct Held {
  using Type = T;
};
template <class T>
struct Held<std::optional<T>> {
  using Type = T;
};
template <class T>
struct Held<std::vector<T>> {
  using Type = T;
};

template <class T>
constexpr bool kIsList = std::is_same_v<T, std::vector<typename Held<T>::Type>>;

template <class T>
std::string range_text(const Rules& rules) {
  using Limits = std::numeric_limits<T>;
  if (!rules.range.empty()) return rules.range;
  if (std::isinf(rules.min)) return fmt::format("{} to {}", Limits::lowest(), Limits::max());
  return fmt::format("{} to {}", static_cast<T>(rules.min), static_cast<T>(rules.max));
}

template <class T>
bool is_allowed(T value, const Rules& rules) {
  const auto wide = static_cast<long double>(value);
  return wide >= rules.min && wide <= rules.max;
}

template <class T>
std::string default_text(const T& value, const Rules& rules) {
  if constexpr (kIsList<T>) {
    return fmt::format("{}", fmt::join(value, ","));
  } else if constexpr (!std::is_same_v<T, typename Held<T>::Type>) {
    return {};
  } else {
    if constexpr (std::is_arithmetic_v<T>) {
      if (!is_allowed(value, rules)) return {};
    }
    return fmt::format("{}", value);
  }
}

// Returns whether a number that cannot be represented is too close to 0 (otherwise it is too
// large), by the position of its first digit.
bool is_small(const std::string& text) {
  const std::size_t mark = text.find_first_of("eE");
  const std::string digits = text.substr(0, mark);
  const std::size_t first = digits.find_first_of("123456789");
  if (first == std::string::npos) return false;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  // The exponent is computed as a double, because it may have any number of digits.
  const double exponent =
      mark == std::string::npos ? 0 : std::strtod(text.c_str() + mark + 1, nullptr);
  return exponent + static_cast<double>(point) - static_cast<double>(first) <= 0;
}

// Returns the number that all of `text` spells in decimal; otherwise sets `wrong` to an error
// message.
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
    // 1e-400 must not become 0, because 0 has a meaning (greedy, off) that the user did not ask
    // for.
    if (value == 0 && stop == end && is_small(text)) {
      wrong = "is too close to 0 to be represented";
    }
  }
  return value;
}

template <class T>
T read_value(const std::string& option, const std::string& text, const Rules& rules) {
  if constexpr (std::is_arithmetic_v<T>) {
    std::string wrong;
    const T value = parse_number<T>(text, wrong);
    if (wrong.empty() && !is_allowed(value, rules)) wrong = "is out of range";
    if (wrong.empty()) return value;
    throw UsageError(
        fmt::format("{}: '{}' {}; {} is allowed", option, text, wrong, range_text<T>(rules)));
  } else {
    return text;
  }
}

// Returns the values on the command line; if `commas` is true, words are split at commas.
std::vector<std::string> texts_of(const std::vector<std::string>& words, const std::string& option,
                                  const std::string& type, bool commas) {
  std::vector<std::string> texts;
  for (const std::string& word : words) {
    for (std::size_t begin = 0; begin <= word.size();) {
      const std::size_t end = std::min(commas ? word.find(',', begin) : word.size(), word.size());
      texts.push_back(word.substr(begin, end - begin));
      if (texts.back().empty()) {
        throw UsageError(fmt::format("{}: '{}' {}; {} is needed, or leave the option out", option,
                                     word, word.empty() ? "is empty" : "has an empty part", type));
      }
      begin = end + 1;
    }
  }
  return texts;
}

template <class T>
CLI::Option* add(CLI::App& app, const std::string& names, T& value, const std::string& type,
                 const std::string& what, const Rules& rules) {
  using One = typename Held<T>::Type;
  const std::string name = names.substr(0, names.find(','));
  const auto assign = [=, &value](const CLI::results_t& words) {
    const std::vector<std::string> texts = texts_of(words, name, type, rules.commas);
    if constexpr (kIsList<T>) {
      value.clear();
      for (const std::string& text : texts) value.push_back(read_value<One>(name, text, rules));
    } else {
      value = read_value<One>(name, texts.front(), rules);
    }
    return true;
  };
  CLI::Option* const option = app.add_option(names, assign, what);
  option->required(rules.required)->default_str(default_text(value, rules))->type_size(1);
  option->type_name(type);
  if constexpr (std::is_arithmetic_v<One>) {
    if (!std::isinf(rules.min)) {
      option->type_name(fmt::format("{} ({})", type, range_text<One>(rules)));
    }
  }
  if (rules.repeated) {
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  } else if (kIsList<T>) {
    option->expected(CLI::detail::expected_max_vector_size);
  }
  return option;
}

}  // namespace

template <class T>
void add_option(CLI::App& app, const std::string& names, T& value, const std::string& type,
                const std::string& what, const Rules& rules) {
  add(app, names, value, type, what, rules);
}

void add_json(CLI::App& app, std::string& path, const std::string& what) {
  add(app, "--json", path, "[FILE]",
      what +
          " to FILE as JSON. Without FILE, or with -, write JSON to the standard output instead of "
          "the text",
      {})
      ->expected(0, 1)
      ->default_str(std::string(kStandardOutput));  // the value if --json is given without FILE
}

void add_flag(CLI::App& app, const std::string& names, bool& value, const std::string& what) {
  app.add_flag(names, value, what);
}

using Text = const std::string&;
using App = CLI::App;

template void add_option(App&, Text, std::string&, Text, Text, const Rules&);
template void add_option(App&, Text, int&, Text, Text, const Rules&);
template void add_option(App&, Text, float&, Text, Text, const Rules&);
template void add_option(App&, Text, double&, Text, Text, const Rules&);
template void add_option(App&, Text, std::int64_t&, Text, Text, const Rules&);
template void add_option(App&, Text, std::uint64_t&, Text, Text, const Rules&);
template void add_option(App&, Text, std::optional<std::string>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::optional<double>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::optional<std::int64_t>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::optional<std::uint64_t>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::vector<std::string>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::vector<int>&, Text, Text, const Rules&);
template void add_option(App&, Text, std::vector<std::int64_t>&, Text, Text, const Rules&);

}  // namespace fairdraw::cli
