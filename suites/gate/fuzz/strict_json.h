// JSON from outside, read strictly: every field asked for by name and type, no other allowed, each
// complaint with its place (RFC 6901 pointer, or byte).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fairdraw::suites::fuzz {

using Json = nlohmann::ordered_json;

/// Throws harness::UsageError "capsule: PLACE WHAT".
[[noreturn]] void bad_input(const std::string& place, const std::string& what);

/// Parses; refuses text that is no JSON (with the byte), nested deeper than eight levels, or with
/// a key twice in one object.
Json parse_strictly(std::string_view text);

/// A value for a message: cut, in ASCII without control characters.
std::string shown(const Json& value);

/// One object. Values are asked for by key; expect_no_other_field() at the end.
class Fields {
 public:
  Fields(const Json& value, std::string place);

  std::string place(const std::string& key) const;
  bool has(const std::string& key) const;
  const Json& at(const std::string& key);
  Fields object(const std::string& key);

  std::string text(const std::string& key, std::size_t longest);
  bool boolean(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t low, std::int64_t high);
  /// One of `names`: its number.
  std::size_t choice(const std::string& key, std::initializer_list<const char*> names);
  /// A 64-bit number as a decimal string, without sign or leading zeros.
  std::uint64_t decimal(const std::string& key);
  std::vector<std::uint64_t> decimals(const std::string& key, std::int64_t size);
  std::vector<std::int64_t> integers(const std::string& key, std::int64_t size, std::int64_t low,
                                     std::int64_t high);
  float float_bits(const std::string& key);
  /// Hexadecimal numbers of `digits` digits with their runs, `size` of them in all.
  std::vector<std::uint64_t> bit_runs(const std::string& key, std::size_t digits,
                                      std::int64_t size);
  std::vector<float> floats(const std::string& key, std::int64_t size);

  void expect_no_other_field() const;

 private:
  const Json& value_;
  std::string place_;
  std::set<std::string> asked_;
};

}  // namespace fairdraw::suites::fuzz
