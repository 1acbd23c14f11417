#include "harness/run/calls/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace fairdraw::harness {

const std::vector<Condition>& row_conditions() {
  using Row = const RowFacts&;
  static const std::vector<Condition> all = {
      {"top_k", "rows with a top_k of the vocabulary",
       [](Row row) { return row.parameters.top_k == row.vocab; }},
      {"top_k", "rows with a top_k above the vocabulary",
       [](Row row) { return row.parameters.top_k > row.vocab; }},
      {"top_k", "rows with top_k 1", [](Row row) { return row.parameters.top_k == 1; }},
      {"top_k", "rows with top_k", [](Row row) { return row.parameters.top_k > 0; }},
      {"temperature", "rows at temperature 0",
       [](Row row) { return row.parameters.temperature == 0; }},
      {"temperature", "rows at temperatures other than 1",
       [](Row row) { return row.parameters.temperature != 1; }},
      {"top_p", "rows with top_p",
       [](Row row) { return row.parameters.top_p > 0 && row.parameters.top_p < 1; }},
      {"min_p", "rows with min_p", [](Row row) { return row.parameters.min_p > 0; }},
      {"dtype", "rows of float16", [](Row row) { return row.dtype == 1; }},
      {"dtype", "rows of bfloat16", [](Row row) { return row.dtype == 2; }},
      {"dtype", "rows of 16 bits", [](Row row) { return row.dtype != 0; }},
      {"processing", "calls with logits processing", [](Row row) { return row.processed; }},
  };
  return all;
}

Condition every_nth_row(std::int64_t modulus, std::int64_t rest) {
  return {"row",
          fmt::format("rows {}, {}, {}, ... of a call", rest, rest + modulus, rest + 2 * modulus),
          [=](const RowFacts& row) { return row.row % modulus == rest; }};
}

Condition rows_above(std::int64_t rows) {
  return {"batch", fmt::format("calls of more than {} row{}", rows, rows == 1 ? "" : "s"),
          [=](const RowFacts& row) { return row.rows > rows; }};
}

Condition vocab_above(std::int64_t vocab) {
  return {"vocabulary", fmt::format("vocabularies of more than {} tokens", vocab),
          [=](const RowFacts& row) { return row.vocab > vocab; }};
}

RowFacts facts_of(const Request& request, std::int64_t row) {
  if (row < 0 || row >= request.rows) return {{}, request.vocab};
  return {request.parameters[static_cast<std::size_t>(row)],
          request.vocab,
          static_cast<std::uint32_t>(request.dtype),
          row,
          request.rows,
          !request.processing.empty()};
}

bool some_condition_tells(const std::vector<RowFacts>& rows, const std::vector<RowFacts>& others) {
  const auto tells = [&](const Condition& condition) {
    return std::ranges::all_of(rows, condition.holds) &&
           std::ranges::none_of(others, condition.holds);
  };
  if (std::ranges::any_of(row_conditions(), tells)) return true;
  // Minimum number of rows, because fewer rows may have the same remainder by chance.
  constexpr std::size_t kRows = 3;
  if (rows.size() < kRows || others.size() < kRows) return false;
  return std::ranges::any_of(std::initializer_list<std::int64_t>{2, 3, 4, 8},
                             [&](std::int64_t modulus) {
                               return tells(every_nth_row(modulus, rows.front().row % modulus));
                             });
}

}  // namespace fairdraw::harness
