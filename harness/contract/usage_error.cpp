#include "harness/contract/usage_error.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace fairdraw::harness {
namespace {

// Counts the letters that are inserted, missing, replaced, or swapped with a neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    before = std::move(last);
    last = std::move(row);
    row.assign(b.size() + 1, i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

// True for abbreviations such as "bf16" of "bfloat16", which have the first letter, the last
// letter, and some letters between them in order.
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

// Returns the names that `given` may mean: names that begin with `given`; otherwise names that it
// abbreviates; otherwise the closest names, if at most a third of the letters are wrong.
std::vector<std::string_view> meant(std::string_view given, std::span<const std::string> known) {
  std::vector<std::string_view> names;
  for (const auto& fits : {begins, is_abbreviation}) {
    std::ranges::copy_if(known, std::back_inserter(names),
                         [&](const std::string& name) { return fits(given, name); });
    if (!names.empty()) return names;
  }
  constexpr std::size_t kLettersAMistake = 3;
  std::size_t least = std::max<std::size_t>(1, given.size() / kLettersAMistake);
  for (const std::string& name : known) {
    const std::size_t distance = edit_distance(given, name);
    // A name that shares no letter with the given name is as far away as an empty text.
    if (distance > least || distance >= std::max(given.size(), name.size())) continue;
    if (distance < least) names.clear();
    least = distance;
    names.push_back(name);
  }
  return names;
}

}  // namespace

std::string unknown_name_message(std::string_view what, std::string_view given,
                                 std::span<const std::string> known) {
  constexpr std::size_t kMax = 4;  // maximum number of suggestions that people read
  std::string message = "unknown " + std::string(what) + " '" + std::string(given) + "'";
  if (known.empty()) return message + "; none is known";
  std::vector<std::string_view> names = meant(given, known);
  names.resize(std::min(names.size(), kMax));
  for (std::size_t i = 0; i < names.size(); ++i) {
    message += i == 0 ? "; did you mean " : i + 1 < names.size() ? ", " : " or ";
    message += "'" + std::string(names[i]) + "'";
  }
  message += names.empty() ? "; known:" : "? Known:";
  for (const std::string& name : known) message += " " + name;
  return message;
}

}  // namespace fairdraw::harness
