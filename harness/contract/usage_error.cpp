#include "harness/contract/usage_error.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace fairdraw::harness {
namespace {

/// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string unknown_name_message(std::string_view what, std::string_view given,
                                 std::span<const std::string> known) {
  std::string message = "unknown " + std::string(what) + " '" + std::string(given) + "'";
  const auto closest = std::min_element(known.begin(), known.end(),
                                        [given](const std::string& a, const std::string& b) {
                                          return edit_distance(given, a) < edit_distance(given, b);
                                        });
  if (closest == known.end()) return message + "; none is known";
  message += "; did you mean '" + *closest + "'? Known:";
  for (const std::string& name : known) message += " " + name;
  return message;
}

}  // namespace fairdraw::harness
