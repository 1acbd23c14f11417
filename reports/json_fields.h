// Reads and writes a struct as a JSON object. One function names each field of the struct once,
// with its key and its rules. Writing, reading and all error messages follow from this function.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fairdraw::reports {

using Json = nlohmann::ordered_json;

/// The format of a text: its limits, and the way in which errors name its fields.
struct Format {
  const char* name = "report";  ///< name of the text in error messages
  bool pointers = false;        ///< true if error messages name fields by JSON pointers (RFC 6901),
                                ///< otherwise as "cases[2].draws"
  /// Maximum depth. Largest depth of a text. Functions that walk through a value are recursive, so
  /// a text much deeper than any version of the format would overflow the stack. (A report is seven
  /// levels deep.)
  int deepest = 16;
  int major = 0;
  bool open =
      false;  ///< true if the format is a later minor version, so unknown fields are ignored
};

/// An error in a text: it is not JSON, or a field is missing, of the wrong type, out of range or
/// unknown.
struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parses a text. Reads a text. Throws JsonError if the text is not JSON, ends too early, is nested
/// too deep, or has a key twice in an object.
Json parse_json(std::string_view text, const Format& format);

/// Returns a JSON value as text, indented by `indent` spaces, or on one line if `indent` is -1.
/// Bytes of strings that are not UTF-8 become U+FFFD.
std::string dump(const Json& json, int indent);

/// Returns a JSON value as text for a message, shortened and safe to print.
std::string shown(const Json& value);

/// A part of a JSON text that is being read, with its path in the text.
class Value {
 public:
  Value(const Json& json, const Format& format) : json_(json), format_(format) {}
  Value(const Json& json, const Value& parent, const std::string& key)
      : json_(json), format_(parent.format_), parent_(&parent), key_(&key) {}
  Value(const Json& json, const Value& parent, std::size_t index)
      : json_(json), format_(parent.format_), parent_(&parent), index_(index) {}

  const Json& json() const { return json_; }
  const Format& format() const { return format_; }
  std::string path() const;  ///< returns the path; empty for the whole text
  std::string path_of(const std::string& key) const;

  [[noreturn]] void fail(const std::string& path, const std::string& what) const;
  /// Throws JsonError with the message "is VALUE; EXPECTED", where VALUE is this value.
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  const Json& json_;
  const Format& format_;
  const Value* parent_ = nullptr;
  const std::string* key_ = nullptr;
  std::size_t index_ = 0;
};

// --- Rules: what a value may be, after its type --------------------------------------------------

/// The allowed range of a number. Infinite ends are written as null, which is read as NaN. Every
/// range allows NaN unless the range is `finite`.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool finite = false;

  void operator()(const Value& value, double number) const;
};
inline constexpr Range kProbability{0, 1};
inline constexpr Range kNotNegative{.min = 0}, kFiniteNotNegative{.min = 0, .finite = true};

/// The allowed range of an integer.
struct Whole {
  std::int64_t min = 0, max = 0;

  void operator()(const Value& value, std::integral auto number) const {
    if (std::cmp_less(number, min) || std::cmp_greater(number, max)) refuse(value);
  }
  [[noreturn]] void refuse(const Value& value) const;
};

/// A rule: the text must be one of some names.
struct OneOf {
  std::span<const char* const> names;

  void operator()(const Value& value, const std::string& text) const;
};

/// A rule: the text must not be empty.
void named(const Value& value, const std::string& text);

/// The allowed range of the number of values in an array.
struct Length {
  std::int64_t min = 0, max = 0;

  static Length exactly(std::int64_t size) { return {size, size}; }
  void expect(const Value& array, const char* of) const;
};

// --- Types ---------------------------------------------------------------------------------------

/// A 64-bit number that is written as decimal text, because many programs read JSON's numbers as
/// doubles.
struct Decimal {
  std::uint64_t& number;
};

void read(const Value& value, Json& to);
void read(const Value& value, std::string& to);
void read(const Value& value, bool& to);
void read(const Value& value, double& to);  ///< null is NaN
void read(const Value& value, std::uint64_t& to);
void read(const Value& value, const Decimal& to);
std::int64_t read_integer(const Value& value, const Whole& range);
template <std::integral T>
void read(const Value& value, T& to) {
  constexpr std::int64_t kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  to = static_cast<T>(read_integer(value, {kMin, kMax}));
}

Json written(double value);  ///< Writes NaN and infinity as null, because JSON has no such numbers.
Json written(const Decimal& value);
template <class T>
Json written(const T& value) {
  return Json(value);
}
template <class T>
Json written(const std::optional<T>& value) {
  return value ? written(*value) : Json();
}
template <class T>
Json written(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(written(value));
  return list;
}
template <class T>
Json written(const std::map<std::string, T>& values) {
  Json object = Json::object();
  for (const auto& [key, value] : values) object[key] = written(value);
  return object;
}

void expect_object(const Value& value);
void expect_array(const Value& value);
/// A rule: the value must be an array of `width` numbers, in which null is NaN.
void expect_point(const Value& value, std::size_t width);
inline void read_coordinate(const Value& value, double& to) { read(value, to); }
void read_coordinate(const Value& value, std::uint64_t& to);

/// Reads a JSON value and checks its rules. The rules for an array or a map apply to each of its
/// values.
template <class T, class... Rules>
void read_by(const Value& value, T& to, const Rules&... rules) {
  read(value, to);
  (rules(value, to), ...);
}
template <class T, class... Rules>
void read_by(const Value& value, std::optional<T>& to, const Rules&... rules) {
  to.reset();
  if (!value.json().is_null()) read_by(value, to.emplace(), rules...);
}
template <class T, class... Rules>
void read_by(const Value& value, std::vector<T>& to, const Rules&... rules) {
  expect_array(value);
  to.assign(value.json().size(), T());
  for (std::size_t i = 0; i < to.size(); ++i) {
    read_by(Value(value.json()[i], value, i), to[i], rules...);
  }
}
template <class T, class... Rules>
void read_by(const Value& value, std::vector<T>& to, const Length& length, const Rules&... rules) {
  length.expect(value, "integers");
  read_by(value, to, rules...);
}
template <class T, class... Rules>
void read_by(const Value& value, std::map<std::string, T>& to, const Rules&... rules) {
  expect_object(value);
  for (const auto& item : value.json().items()) {
    read_by(Value(item.value(), value, item.key()), to[item.key()], rules...);
  }
}

/// A JSON object that is written or read. A function that reads an object must name all of its
/// fields.
class JsonObject {
 public:
  explicit JsonObject(Json& to) : to_(&to) {}
  explicit JsonObject(const Value& from) : from_(&from) { expect_object(from); }

  bool reading() const { return from_ != nullptr; }
  bool open() const { return reading() && from_->format().open; }
  /// Returns false if the object is read from a format before this major version.
  bool since(int major) const { return !reading() || from_->format().major >= major; }
  /// Returns true if the object has the field. If the object is being written, `written` decides
  /// whether it gets the field.
  bool has(const std::string& key, bool written) const {
    return reading() ? from_->json().contains(key) : written;
  }
  Value at(const std::string& key);
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    from_->fail(from_->path_of(key), what);
  }

  template <class T, class... Rules>
  void operator()(const std::string& key, T&& value, const Rules&... rules) {
    if (reading()) {
      read_by(at(key), value, rules...);
    } else {
      (*to_)[key] = written(value);
    }
  }

  /// Reads or writes a field that is absent if its value is empty.
  template <class T, class... Rules>
  void optional(const std::string& key, T& value, const Rules&... rules) {
    if (has(key, !is_empty(value))) (*this)(key, value, rules...);
  }

  /// Reads or writes a value by its name; value number n has the n-th name.
  template <class Enum>
  void choice(const std::string& key, Enum& value, std::initializer_list<const char*> names) {
    const std::span<const char* const> all(names.begin(), names.size());
    std::string name = reading() ? "" : all[static_cast<std::size_t>(value)];
    (*this)(key, name, OneOf{all});
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (name == all[i]) value = static_cast<Enum>(i);
    }
  }

  /// Reads or writes an object whose fields the function `fields(JsonObject&)` names.
  template <class Fields>
  void object(const std::string& key, const Fields& fields) {
    if (reading()) {
      read_object(at(key), fields);
    } else {
      Json& json = (*to_)[key] = Json::object();
      JsonObject to(json);
      fields(to);
    }
  }
  template <class T, class Fields>
  void object(const std::string& key, std::optional<T>& value, const Fields& fields) {
    if (!has(key, value.has_value())) return;
    if (reading()) value.emplace();
    object(key, [&](JsonObject& of) { fields(of, *value); });
  }

  /// Reads or writes an array of objects whose fields the function `fields(JsonObject&, T&)` names.
  template <class T, class Fields>
  void list(const std::string& key, std::vector<T>& values, const Fields& fields,
            std::optional<Length> length = {}) {
    if (reading()) {
      const Value array = at(key);
      expect_array(array);
      if (length) length->expect(array, "objects");
      for (std::size_t i = 0; i < array.json().size(); ++i) {
        read_object(Value(array.json()[i], array, i),
                    [&](JsonObject& of) { fields(of, values.emplace_back()); });
      }
      return;
    }
    Json& array = (*to_)[key] = Json::array();
    for (T& value : values) {
      Json one = Json::object();
      JsonObject to(one);
      fields(to, value);
      array.push_back(std::move(one));
    }
  }
  template <class T, class Fields>
  void optional_list(const std::string& key, std::vector<T>& values, const Fields& fields,
                     std::optional<Length> length = {}) {
    if (has(key, !values.empty())) list(key, values, fields, length);
  }

  /// Reads or writes an array of arrays. The function serves structs of numbers, of which there are
  /// many.
  template <class T, class... Members>
  void points(const std::string& key, std::vector<T>& values, Members T::*... members) {
    if (reading()) {
      const Value array = at(key);
      expect_array(array);
      for (std::size_t i = 0; i < array.json().size(); ++i) {
        const Value point(array.json()[i], array, i);
        expect_point(point, sizeof...(Members));
        T& one = values.emplace_back();
        std::size_t k = 0;
        ((read_coordinate(Value(point.json()[k], point, k), one.*members), ++k), ...);
      }
      return;
    }
    Json& array = (*to_)[key] = Json::array();
    for (const T& value : values) array.push_back(Json::array({written(value.*members)...}));
  }

  template <class Fields>
  static void read_object(const Value& from, const Fields& fields) {
    JsonObject object(from);
    fields(object);
    object.expect_no_other_field();
  }

 private:
  template <class T>
  static bool is_empty(const T& value) {
    if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else {
      return value == T();
    }
  }
  void expect_no_other_field() const;

  const Value* from_ = nullptr;
  Json* to_ = nullptr;
  std::set<std::string> asked_;
};

/// Returns a struct as a JSON object with the fields that the function `fields` names. The struct
/// is copied, because `fields` could also read into it.
template <class T, class Fields>
Json object_json(T value, const Fields& fields) {  // NOLINT(performance-unnecessary-value-param)
  Json json = Json::object();
  JsonObject to(json);
  fields(to, value);
  return json;
}

}  // namespace fairdraw::reports
