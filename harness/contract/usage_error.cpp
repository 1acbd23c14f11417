#include "harness/contract/usage_error.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace fairdraw::harness {
namespace {

// "bf16" of "bfloat16": the first letter, the last one, and some between, in their order.
bool is_abbreviation(std::string_view given, std::string_view name) {
  constexpr std::size_t kShortest = 3;
  if (given.size() < kShortest || given.size() > name.size()) return false;
  if (given.front() != name.front() || given.back() != name.back()) return false;
  std::size_t found = 0;
  for (const char letter : name) found += found < given.size() && letter == given[found] ? 1U : 0U;
  return found == given.size();
}

bool begins(std::string_view given, std::string_view name) {
  constexpr std::size_t kShortest = 2;
  return given.size() >= kShortest && name.starts_with(given);
}

// Names that somebody may have meant: those that begin so, else those that are so abbreviated.
std::vector<std::string_view> meant(std::string_view given, std::span<const std::string> known) {
  std::vector<std::string_view> names;
  for (const auto& fits : {begins, is_abbreviation}) {
    std::ranges::copy_if(known, std::back_inserter(names),
                         [&](const std::string& name) { return fits(given, name); });
    if (!names.empty()) break;
  }
  return names;
}

}  // namespace

std::string unknown_name_message(std::string_view what, std::string_view given,
                                 std::span<const std::string> known) {
  constexpr std::size_t kMost = 4;  // that somebody reads before the list of all
  std::string message = "unknown " + std::string(what) + " '" + std::string(given) + "'";
  if (known.empty()) return message + "; none is known";
  std::vector<std::string_view> names = meant(given, known);
  names.resize(std::min(names.size(), kMost));
  for (std::size_t i = 0; i < names.size(); ++i) {
    message += i == 0 ? "; did you mean " : i + 1 < names.size() ? ", " : " or ";
    message += "'" + std::string(names[i]) + "'";
  }
  message += names.empty() ? "; known:" : "? Known:";
  for (const std::string& name : known) message += " " + name;
  return message;
}

}  // namespace fairdraw::harness
