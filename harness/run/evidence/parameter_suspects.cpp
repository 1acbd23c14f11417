#include "harness/run/evidence/parameter_suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace fairdraw::harness {
namespace {

using reference::RowParameters;

struct Special {
  const char* name;
  std::function<bool(const RowParameters&)> has;
};

std::vector<Special> special_values(std::int64_t vocab) {
  return {
      {"temperature: rows at temperature 0",
       [](const RowParameters& p) { return p.temperature == 0; }},
      {"temperature: rows below temperature 0.01",
       [](const RowParameters& p) { return p.temperature > 0 && p.temperature < 0.01F; }},
      {"temperature: rows above temperature 100",
       [](const RowParameters& p) { return p.temperature > 100; }},
      {"temperature: rows at temperature 1",
       [](const RowParameters& p) { return p.temperature == 1; }},
      {"top_p: rows with top_p 0", [](const RowParameters& p) { return p.top_p == 0; }},
      {"top_p: rows with top_p 1", [](const RowParameters& p) { return p.top_p == 1; }},
      {"top_p: rows with top_p", [](const RowParameters& p) { return p.top_p > 0 && p.top_p < 1; }},
      {"top_k: rows with a top_k that is off", [](const RowParameters& p) { return p.top_k <= 0; }},
      {"top_k: rows with top_k 1", [](const RowParameters& p) { return p.top_k == 1; }},
      {"top_k: rows with a top_k of the vocabulary or more",
       [vocab](const RowParameters& p) { return p.top_k >= vocab; }},
      {"top_k: rows with top_k", [](const RowParameters& p) { return p.top_k > 0; }},
      {"min_p: rows with min_p 1", [](const RowParameters& p) { return p.min_p == 1; }},
      {"min_p: rows with min_p", [](const RowParameters& p) { return p.min_p > 0; }},
  };
}

struct Number {
  const char* name;
  std::function<double(const RowParameters&)> of;
};

std::vector<Number> numbers() {
  return {
      {"temperature", [](const RowParameters& p) { return static_cast<double>(p.temperature); }},
      {"top_k", [](const RowParameters& p) { return static_cast<double>(p.top_k); }},
      {"top_p", [](const RowParameters& p) { return static_cast<double>(p.top_p); }},
      {"min_p", [](const RowParameters& p) { return static_cast<double>(p.min_p); }}};
}

}  // namespace

void note_common_parameter(const SortedRows& rows, std::int64_t vocab, CheckOutcome& outcome) {
  if (rows.wrong.empty() || rows.right.empty()) return;
  const auto note = [&](const std::string& bug) {
    outcome.evidence.suspects.push_back(
        {bug, fmt::format("That is what {} wrong rows of the call have, and {} right ones have not",
                          rows.wrong.size(), rows.right.size())});
  };
  for (const Special& special : special_values(vocab)) {
    if (std::ranges::all_of(rows.wrong, special.has) &&
        std::ranges::none_of(rows.right, special.has)) {
      return note(special.name);
    }
  }
  constexpr std::size_t kRows = 3;
  if (rows.wrong.size() < kRows || rows.right.size() < kRows) return;
  for (const Number& number : numbers()) {
    const auto [wrong_low, wrong_high] = std::ranges::minmax(rows.wrong, {}, number.of);
    const auto [right_low, right_high] = std::ranges::minmax(rows.right, {}, number.of);
    if (number.of(wrong_low) > number.of(right_high)) {
      return note(
          fmt::format("{0}: rows with a {0} above {1:.6g}", number.name, number.of(right_high)));
    }
    if (number.of(wrong_high) < number.of(right_low)) {
      return note(
          fmt::format("{0}: rows with a {0} below {1:.6g}", number.name, number.of(right_low)));
    }
  }
}

}  // namespace fairdraw::harness
