#include "reports/object_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reports/escape.h"

namespace fairdraw::reports {
namespace {

/// A report is seven levels deep. Functions that walk a value recurse, so what is much deeper than
/// any version of the format would end the stack.
constexpr int kDeepest = 16;

}  // namespace

void fail_at(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("report: field '{}' {}", terminal_text(path), what));
}

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

Json parse_json(const std::string& text) {
  const Json::parser_callback_t refuse_depth = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kDeepest) {
      throw std::runtime_error(fmt::format("report: nested deeper than {} levels", kDeepest));
    }
    return true;
  };
  try {
    return Json::parse(text, refuse_depth);
  } catch (const Json::parse_error& error) {
    // An interrupted upload, or a full disk.
    if (error.byte > text.size()) {
      throw std::runtime_error(fmt::format(
          "report: ends in the middle, after {} bytes: the file is truncated", text.size()));
    }
    throw std::runtime_error("report: not JSON: " + terminal_text(error.what()));
  } catch (const Json::exception& error) {
    throw std::runtime_error("report: not JSON: " + terminal_text(error.what()));
  }
}

ObjectReader::ObjectReader(const Json& value, std::string path, Format format)
    : value_(value), path_(std::move(path)), format_(format) {
  if (!value_.is_object()) {
    fail_at(path_.empty() ? "(root)" : path_, "is " + shown(value_) + "; expected an object");
  }
}

const Json& ObjectReader::at(const std::string& key) {
  asked_.insert(key);
  const auto found = value_.find(key);
  if (found == value_.end()) fail_at(path(key), "is missing");
  return *found;
}

std::string ObjectReader::text(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_string()) fail_at(path(key), "is " + shown(value) + "; expected a string");
  return value.get<std::string>();
}

std::string ObjectReader::name(const std::string& key) {
  const std::string value = text(key);
  if (value.empty()) fail_at(path(key), "is empty; expected a name");
  return value;
}

std::string ObjectReader::choice(const std::string& key, const std::vector<std::string>& allowed) {
  const std::string value = text(key);
  if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
    fail_at(path(key),
            fmt::format("is {}; allowed: {}", shown(Json(value)), fmt::join(allowed, ", ")));
  }
  return value;
}

std::string ObjectReader::optional_text(const std::string& key) {
  return has(key) ? text(key) : std::string();
}

std::uint64_t ObjectReader::count(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_number_unsigned()) {
    fail_at(path(key), "is " + shown(value) + "; expected an integer from 0 to 2^64 - 1");
  }
  return value.get<std::uint64_t>();
}

std::optional<double> ObjectReader::optional_number(const std::string& key, Range range) {
  const Json& value = at(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number()) fail_at(path(key), "is " + shown(value) + "; expected a number or null");
  const auto number = value.get<double>();
  if (!(number >= range.least && number <= range.most)) {
    fail_at(path(key),
            std::isinf(range.most)
                ? fmt::format("is {}; expected at least {}", number, range.least)
                : fmt::format("is {}; expected {} to {}", number, range.least, range.most));
  }
  return number;
}

double ObjectReader::number(const std::string& key, Range range) {
  return optional_number(key, range).value_or(std::numeric_limits<double>::quiet_NaN());
}

double ObjectReader::finite_number(const std::string& key, Range range) {
  const std::optional<double> number = optional_number(key, range);
  if (!number) fail_at(path(key), "is null; expected a number");
  return *number;
}

bool ObjectReader::boolean(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_boolean()) fail_at(path(key), "is " + shown(value) + "; expected true or false");
  return value.get<bool>();
}

ObjectReader ObjectReader::object(const std::string& key) { return {at(key), path(key), format_}; }

const Json& ObjectReader::array(const std::string& key) {
  const Json& value = at(key);
  if (!value.is_array()) fail_at(path(key), "is " + shown(value) + "; expected an array");
  return value;
}

std::vector<ObjectReader> ObjectReader::objects(const std::string& key) {
  const Json& values = array(key);
  std::vector<ObjectReader> readers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    readers.emplace_back(values[i], fmt::format("{}[{}]", path(key), i), format_);
  }
  return readers;
}

std::vector<double> ObjectReader::numbers(const std::string& key) {
  const Json& values = array(key);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_number() && !values[i].is_null()) {
      fail_at(fmt::format("{}[{}]", path(key), i),
              "is " + shown(values[i]) + "; expected a number or null");
    }
    numbers.push_back(values[i].is_null() ? std::numeric_limits<double>::quiet_NaN()
                                          : values[i].get<double>());
  }
  return numbers;
}

std::vector<std::uint64_t> ObjectReader::counts(const std::string& key) {
  const Json& values = array(key);
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_number_unsigned()) {
      fail_at(fmt::format("{}[{}]", path(key), i),
              "is " + shown(values[i]) + "; expected an integer from 0");
    }
    counts.push_back(values[i].get<std::uint64_t>());
  }
  return counts;
}

std::vector<std::string> ObjectReader::texts(const std::string& key) {
  const Json& values = array(key);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_string()) {
      fail_at(fmt::format("{}[{}]", path(key), i),
              "is " + shown(values[i]) + "; expected a string");
    }
    texts.push_back(values[i].get<std::string>());
  }
  return texts;
}

std::vector<std::string> ObjectReader::names(const std::string& key) {
  std::vector<std::string> names = texts(key);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) fail_at(fmt::format("{}[{}]", path(key), i), "is empty; expected a text");
  }
  return names;
}

std::vector<std::vector<double>> ObjectReader::tuples(const std::string& key, std::size_t width) {
  const Json& values = array(key);
  std::vector<std::vector<double>> tuples;
  for (std::size_t i = 0; i < values.size(); ++i) {
    bool right = values[i].is_array() && values[i].size() == width;
    std::vector<double> tuple;
    for (std::size_t k = 0; right && k < width; ++k) {
      const Json& value = values[i][k];
      right = value.is_number() || value.is_null();
      if (!right) break;
      tuple.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                      : value.get<double>());
    }
    if (!right) {
      fail_at(fmt::format("{}[{}]", path(key), i),
              fmt::format("is {}; expected an array of {} numbers", shown(values[i]), width));
    }
    tuples.push_back(std::move(tuple));
  }
  return tuples;
}

std::vector<std::string> ObjectReader::keys() const {
  std::vector<std::string> keys;
  for (const auto& item : value_.items()) keys.push_back(item.key());
  return keys;
}

void ObjectReader::expect_no_other_field() const {
  if (format_.open) return;
  for (const std::string& key : keys()) {
    if (!asked_.contains(key)) fail_at(path(key), "is unknown");
  }
}

}  // namespace fairdraw::reports
