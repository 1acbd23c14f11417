// A JSON object read field by field: each is read by its type, and an unread field is an
// error. For json_reader.cpp and evidence_reader.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fairdraw::reports {

using Json = nlohmann::ordered_json;

/// "report: field 'PATH' WHAT" as std::runtime_error.
[[noreturn]] void fail_at(const std::string& path, const std::string& what);

/// A value for a message: cut, and safe to print.
std::string shown(const Json& value);

/// What a text of the format may hold.
struct Format {
  int major = 0;
  bool open = false;  ///< of a later minor version: fields that are unknown here are passed over
};

/// The text as JSON. Throws std::runtime_error: not JSON, ends too early, or nested too deep.
Json parse_json(const std::string& text);

/// What a number may be; infinite ends are written as null (NaN), which every range allows.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};
inline constexpr Range kAnyNumber, kProbability{0, 1};
inline constexpr Range kNotNegative{0, std::numeric_limits<double>::infinity()};

/// An object whose fields are all asked for, each by its type, and which has no others.
class ObjectReader {
 public:
  ObjectReader(const Json& value, std::string path, Format format);

  const Format& format() const { return format_; }
  std::string path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  bool has(const std::string& key) const { return value_.contains(key); }
  const Json& at(const std::string& key);
  std::string text(const std::string& key);
  std::string name(const std::string& key);  ///< a text that is not empty
  /// One of the texts `allowed`.
  std::string choice(const std::string& key, const std::vector<std::string>& allowed);
  std::string optional_text(const std::string& key);  ///< empty where it is absent
  std::uint64_t count(const std::string& key);
  std::optional<double> optional_number(const std::string& key, Range range = kAnyNumber);
  double number(const std::string& key, Range range = kAnyNumber);  ///< null is NaN
  double finite_number(const std::string& key, Range range);        ///< null is refused
  bool boolean(const std::string& key);
  ObjectReader object(const std::string& key);
  const Json& array(const std::string& key);

  /// Each value of an array of `key`, as a reader of its own.
  std::vector<ObjectReader> objects(const std::string& key);
  std::vector<double> numbers(const std::string& key);
  std::vector<std::uint64_t> counts(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  std::vector<std::string> names(const std::string& key);  ///< texts, none of them empty
  /// An array of arrays of `width` numbers each; null is NaN.
  std::vector<std::vector<double>> tuples(const std::string& key, std::size_t width);

  /// The keys of an object that is a map.
  std::vector<std::string> keys() const;
  void expect_no_other_field() const;

 private:
  const Json& value_;
  std::string path_;
  Format format_;
  std::set<std::string> asked_;
};

}  // namespace fairdraw::reports
