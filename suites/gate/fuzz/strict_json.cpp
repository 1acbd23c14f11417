#include "suites/gate/fuzz/strict_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>

#include "harness/contract/usage_error.h"

namespace fairdraw::suites::fuzz {
namespace {

/// A capsule is four levels deep; functions that walk a value recurse.
constexpr int kDeepest = 8;
constexpr std::size_t kShown = 60;

// Text from outside, for a message: printable ASCII.
std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    result += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return result + (text.size() > kShown ? "..." : "");
}

// A key inside a JSON pointer (RFC 6901).
std::string pointer_part(const std::string& key) {
  std::string part;
  for (const char c : printable(key)) {
    part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return part;
}

template <class Number>
bool parse_whole(std::string_view text, Number& number, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_decimal(const std::string& text, std::uint64_t& number) {
  return parse_whole(text, number, 10) && std::to_string(number) == text;
}

bool parse_bits(std::string_view text, std::size_t digits, std::uint64_t& bits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::all_of(text.begin(), text.end(), is_digit) &&
         parse_whole(text, bits, 16);
}

// Keys of the objects that are open, by depth: nlohmann::json keeps the last of two equal keys.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) bad_input("/", fmt::format("is nested deeper than {} levels", kDeepest));
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event != Json::parse_event_t::key) return true;
    if (!open_.back().insert(parsed.get<std::string>()).second) {
      bad_input("/", fmt::format("has the field '{}' twice in one object",
                                 printable(parsed.get<std::string>())));
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

void bad_input(const std::string& place, const std::string& what) {
  throw harness::UsageError(fmt::format("capsule: {} {}", place, what));
}

Json parse_strictly(std::string_view text) {
  Watch watch;
  try {
    return Json::parse(text, std::ref(watch));
  } catch (const Json::parse_error& error) {
    // Its message quotes the text: only the place is taken from it.
    if (error.byte > text.size()) {
      throw harness::UsageError(fmt::format(
          "capsule: truncated: it ends at byte {}, and its JSON does not", text.size()));
    }
    throw harness::UsageError(
        fmt::format("capsule: not JSON from byte {} of {} on", error.byte, text.size()));
  } catch (const Json::exception& error) {
    throw harness::UsageError("capsule: not JSON: " + printable(error.what()));
  }
}

std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

Fields::Fields(const Json& value, std::string place) : value_(value), place_(std::move(place)) {
  if (!value_.is_object()) {
    bad_input(place_.empty() ? "/" : place_, "is " + shown(value_) + "; expected an object");
  }
}

std::string Fields::place(const std::string& key) const { return place_ + "/" + pointer_part(key); }

bool Fields::has(const std::string& key) const { return value_.contains(key); }

const Json& Fields::at(const std::string& key) {
  asked_.insert(key);
  const auto found = value_.find(key);
  if (found == value_.end()) bad_input(place(key), "is missing");
  return *found;
}

Fields Fields::object(const std::string& key) { return {at(key), place(key)}; }

std::string Fields::text(const std::string& key, std::size_t longest) {
  const Json& value = at(key);
  if (!value.is_string()) bad_input(place(key), "is " + shown(value) + "; expected a string");
  std::string text = value.get<std::string>();
  if (text.size() > longest) {
    bad_input(place(key),
              fmt::format("has {} bytes; at most {} are allowed", text.size(), longest));
  }
  return text;
}

bool Fields::boolean(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_boolean()) bad_input(place(key), "is " + shown(value) + "; expected true or false");
  return value.get<bool>();
}

std::int64_t Fields::integer(const std::string& key, std::int64_t low, std::int64_t high) {
  const Json& value = at(key);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() &&
                      value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < low || number > high) {
    bad_input(place(key),
              fmt::format("is {}; expected an integer from {} to {}", shown(value), low, high));
  }
  return number;
}

std::size_t Fields::choice(const std::string& key, std::initializer_list<const char*> names) {
  const Json& value = at(key);
  std::size_t number = 0;
  for (const char* const name : names) {
    if (value == name) return number;
    ++number;
  }
  bad_input(place(key), fmt::format("is {}; allowed: {}", shown(value),
                                    fmt::join(names.begin(), names.end(), ", ")));
}

std::uint64_t Fields::decimal(const std::string& key) {
  const Json& value = at(key);
  std::uint64_t number = 0;
  if (!value.is_string() || !parse_decimal(value.get<std::string>(), number)) {
    bad_input(place(key), "is " + shown(value) + "; expected a string with a number below 2^64");
  }
  return number;
}

std::vector<std::uint64_t> Fields::decimals(const std::string& key, std::int64_t size) {
  const Json& list = at(key);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(size)) {
    bad_input(place(key),
              fmt::format("is {}; expected an array of {} numbers as strings", shown(list), size));
  }
  std::vector<std::uint64_t> numbers;
  for (const Json& value : list) {
    std::uint64_t number = 0;
    if (!value.is_string() || !parse_decimal(value.get<std::string>(), number)) {
      bad_input(fmt::format("{}/{}", place(key), numbers.size()),
                "is " + shown(value) + "; expected a string with a number below 2^64");
    }
    numbers.push_back(number);
  }
  return numbers;
}

std::vector<std::int64_t> Fields::integers(const std::string& key, std::int64_t size,
                                           std::int64_t low, std::int64_t high) {
  const Json& list = at(key);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(size)) {
    bad_input(place(key),
              fmt::format("is {}; expected an array of {} integers", shown(list), size));
  }
  std::vector<std::int64_t> numbers;
  for (const Json& value : list) {
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX));
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
      bad_input(fmt::format("{}/{}", place(key), numbers.size()),
                fmt::format("is {}; expected an integer from {} to {}", shown(value), low, high));
    }
    numbers.push_back(value.get<std::int64_t>());
  }
  return numbers;
}

float Fields::float_bits(const std::string& key) {
  const Json& value = at(key);
  std::uint64_t bits = 0;
  if (!value.is_string() || !parse_bits(value.get<std::string>(), 8, bits)) {
    bad_input(place(key), "is " + shown(value) +
                              "; expected a string with the 8 hexadecimal digits of a float32");
  }
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
}

std::vector<std::uint64_t> Fields::bit_runs(const std::string& key, std::size_t digits,
                                            std::int64_t size) {
  const Json& list = at(key);
  if (!list.is_array()) bad_input(place(key), "is " + shown(list) + "; expected an array");
  std::vector<std::uint64_t> all;
  const auto wanted = static_cast<std::size_t>(size);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string text = list[i].is_string() ? list[i].get<std::string>() : std::string();
    const std::size_t star = std::min(text.find('*'), text.size());
    std::uint64_t bits = 0, count = 1;
    const bool good = parse_bits(std::string_view(text).substr(0, star), digits, bits) &&
                      (star == text.size() || parse_decimal(text.substr(star + 1), count));
    const std::string here = fmt::format("{}/{}", place(key), i);
    if (!good || count == 0) {
      bad_input(here, fmt::format("is {}; expected {} hexadecimal digits, and *COUNT for a run",
                                  shown(list[i]), digits));
    }
    if (count > wanted - all.size()) {  // before anything is allocated by it
      bad_input(here, fmt::format("makes {} + {} values; expected {}", all.size(), count, size));
    }
    all.insert(all.end(), count, bits);
  }
  if (all.size() != wanted) {
    bad_input(place(key), fmt::format("has {} values; expected {}", all.size(), size));
  }
  return all;
}

std::vector<float> Fields::floats(const std::string& key, std::int64_t size) {
  std::vector<float> values;
  for (const std::uint64_t bits : bit_runs(key, 8, size)) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  return values;
}

void Fields::expect_no_other_field() const {
  for (const auto& item : value_.items()) {
    if (!asked_.contains(item.key())) bad_input(place(item.key()), "is unknown");
  }
}

}  // namespace fairdraw::suites::fuzz
