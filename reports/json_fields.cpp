#include "reports/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "reports/escape.h"

namespace fairdraw::reports {
namespace {

constexpr std::size_t kLongest = 60;  // largest number of bytes of a value or a key in a message
// Largest number of fields of an object, because fields are searched one after another. (A report
// has a few dozen fields.)
constexpr std::size_t kMaxFields = 1000;

[[noreturn]] void fail_in(const Format& format, const std::string& what) {
  throw JsonError(fmt::format("{}: {}", format.name, what));
}

/// The keys of the JSON objects that are still open, by depth. The keys are watched because
/// nlohmann::json keeps only the last of two equal keys.
class Watch {
 public:
  explicit Watch(const Format& format) : format_(format) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > format_.deepest) {
      fail_in(format_, fmt::format("nested deeper than {} levels", format_.deepest));
    }
    if (event == Json::parse_event_t::object_start) open_.emplace_back();
    if (event == Json::parse_event_t::object_end) open_.pop_back();
    if (event != Json::parse_event_t::key) return true;
    if (open_.back().size() == kMaxFields) {
      fail_in(format_, fmt::format("has more than {} fields in one object", kMaxFields));
    }
    if (!open_.back().insert(parsed).second) {
      fail_in(format_, fmt::format("has the field '{}' twice in one object",
                                   terminal_text(parsed.get<std::string>().substr(0, kLongest))));
    }
    return true;
  }

 private:
  const Format& format_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

Json parse_json(std::string_view text, const Format& format) {
  Watch watch(format);
  try {
    return Json::parse(text, std::ref(watch));
  } catch (const Json::parse_error& error) {
    // The library's message quotes the text, so only the position is taken from the message.
    if (error.byte > text.size()) {  // the text was cut off by an interrupted upload or a full disk
      fail_in(format, fmt::format("the file is truncated: it ends at byte {}, within its JSON",
                                  text.size()));
    }
    fail_in(format, fmt::format("not JSON: wrong from byte {} of {} on", error.byte, text.size()));
  } catch (const Json::out_of_range&) {  // its message is not shown, because it begins with the
                                         // library's name
    fail_in(format, "not JSON: a number is larger than 1.8e308, the maximum");
  }
}

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
}

std::string Value::path() const {
  if (parent_ == nullptr) return "";
  if (key_ != nullptr) return parent_->path_of(*key_);
  return parent_->path() + fmt::format(fmt::runtime(format_.pointers ? "/{}" : "[{}]"), index_);
}

std::string Value::path_of(const std::string& key) const {
  std::string part;
  for (const char c : key.substr(0, kLongest)) {
    const bool escaped = format_.pointers && (c == '~' || c == '/');
    part += !escaped ? std::string(1, c) : c == '~' ? "~0" : "~1";
  }
  const std::string above = path();
  return format_.pointers ? above + "/" + part : above.empty() ? part : above + "." + part;
}

void Value::fail(const std::string& path, const std::string& what) const {
  const std::string place = !path.empty() ? path : format_.pointers ? "/" : "(root)";
  fail_in(format_, fmt::format(fmt::runtime(format_.pointers ? "{} {}" : "field '{}' {}"),
                               terminal_text(place), what));
}

void Value::refuse(const std::string& expected) const {
  fail(path(), fmt::format("is {}; {}", shown(json_), expected));
}

void Range::operator()(const Value& value, double number) const {
  if (std::isnan(number)) {
    if (finite) value.refuse("expected a number");
    return;
  }
  if (number >= min && number <= max) return;
  value.fail(value.path(), std::isinf(max)
                               ? fmt::format("is {}; expected at least {}", number, min)
                               : fmt::format("is {}; expected {} to {}", number, min, max));
}

void Whole::refuse(const Value& value) const {
  value.refuse(fmt::format("expected an integer from {} to {}", min, max));
}

void OneOf::operator()(const Value& value, const std::string& text) const {
  if (std::ranges::find(names, text) != names.end()) return;
  value.refuse(fmt::format("allowed: {}", fmt::join(names, ", ")));
}

void named(const Value& value, const std::string& text) {
  if (text.empty()) value.fail(value.path(), "is empty; expected a name");
}

void Length::expect(const Value& array, const char* of) const {
  const auto size = static_cast<std::int64_t>(array.json().size());
  if (array.json().is_array() && size >= min && size <= max) return;
  array.refuse(min == max ? fmt::format("expected an array of {} {}", max, of)
                          : fmt::format("expected an array of {} to {} {}", min, max, of));
}

void read(const Value& value, Json& to) { to = value.json(); }

void read(const Value& value, std::string& to) {
  if (!value.json().is_string()) value.refuse("expected a string");
  to = value.json().get<std::string>();
}

void read(const Value& value, bool& to) {
  if (!value.json().is_boolean()) value.refuse("expected true or false");
  to = value.json().get<bool>();
}

void read(const Value& value, double& to) {
  const bool is_null = value.json().is_null();
  if (!is_null && !value.json().is_number()) value.refuse("expected a number or null");
  to = is_null ? std::numeric_limits<double>::quiet_NaN() : value.json().get<double>();
}

void read(const Value& value, std::uint64_t& to) {
  if (!value.json().is_number_unsigned()) {
    value.refuse("expected an integer from 0 to 2^64 - 1");
  }
  to = value.json().get<std::uint64_t>();
}

void read(const Value& value, const Decimal& to) {
  std::string text;
  read(value, text);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, to.number);
  // Compares the text with the number's canonical spelling: no sign, no leading zero, nothing after
  // the number.
  if (error != std::errc() || stop != end || std::to_string(to.number) != text) {
    value.refuse("expected an integer from 0 to 2^64 - 1");
  }
}

std::int64_t read_integer(const Value& value, const Whole& range) {
  if (!value.json().is_number_integer()) range.refuse(value);
  if (value.json().is_number_unsigned()) range(value, value.json().get<std::uint64_t>());
  const auto number = value.json().get<std::int64_t>();
  range(value, number);
  return number;
}

Json written(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json written(const Decimal& value) { return Json(std::to_string(value.number)); }

void expect_object(const Value& value) {
  if (!value.json().is_object()) value.refuse("expected an object");
}

void expect_array(const Value& value) {
  if (!value.json().is_array()) value.refuse("expected an array");
}

void expect_point(const Value& value, std::size_t width) {
  const auto is_number = [](const Json& one) { return one.is_number() || one.is_null(); };
  if (value.json().is_array() && value.json().size() == width &&
      std::ranges::all_of(value.json(), is_number)) {
    return;
  }
  value.refuse(fmt::format("expected an array of {} numbers", width));
}

void read_coordinate(const Value& value, std::uint64_t& to) {
  // doubles represent all integers up to this number
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 53;
  if (!value.json().is_number_unsigned() || value.json().get<std::uint64_t>() > kLargest) {
    value.refuse("expected an integer from 0 to 2^53");
  }
  to = value.json().get<std::uint64_t>();
}

Value JsonObject::at(const std::string& key) {
  asked_.insert(key);
  const auto found = from_->json().find(key);
  if (found == from_->json().end()) fail(key, "is missing");
  return {*found, *from_, key};
}

void JsonObject::expect_no_other_field() const {
  if (open()) return;
  for (const auto& item : from_->json().items()) {
    if (!asked_.contains(item.key())) fail(item.key(), "is unknown");
  }
}

}  // namespace fairdraw::reports
