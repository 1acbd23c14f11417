// Draws tokens from random rows with kept sets, on any backend. Each set must hold the survivors of
// the integer model, and each token must be in its set.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/integer_model.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {

inline constexpr std::int32_t kDrawsOfARow = 4000;

/// The results of a call on one row.
struct KeptDraws {
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kDrawsOfARow, -77);
  std::vector<RowStatus> statuses = {RowStatus::index_out_of_range};
  KeptArrays kept;

  explicit KeptDraws(std::int64_t room) : kept(1, room) {}
};

/// Draws from one row after the other, until valid rows have given `draws` tokens. draw(row, draws)
/// makes a call of kDrawsOfARow samples. Returns the number of tokens that were drawn.
template <class Draw>
std::int64_t compare_kept_draws(std::int64_t draws, const Draw& draw) {
  std::int64_t drawn = 0;
  for (std::uint64_t number = 0; drawn < draws && !::testing::Test::HasFailure(); ++number) {
    const RandomRow row = random_row(number);
    KeptDraws got(static_cast<std::int64_t>(row.logits.size()));
    draw(row, got);
    const reference::IntegerRow expected = reference::integer_model(
        row.logits, row.allowed, row.parameters, row.tie_rule, row.filter_order);
    EXPECT_EQ(got.statuses.front(), expected.status) << "row " << number;
    EXPECT_EQ(got.kept.overflow.front(), 0) << "row " << number;
    std::vector<std::uint8_t> in_set(row.logits.size(), 0);
    for (const std::int32_t id : got.kept.set(0)) in_set[static_cast<std::size_t>(id)] = 1;
    if (expected.status != RowStatus::ok) {
      EXPECT_TRUE(got.kept.set(0).empty()) << "row " << number;
      continue;
    }
    EXPECT_EQ(in_set, expected.mask) << "row " << number;
    std::int64_t outside = 0;
    for (const std::int32_t token : got.tokens) {
      const auto id = static_cast<std::size_t>(token);
      outside += token >= 0 && id < in_set.size() && in_set[id] != 0 ? 0 : 1;
    }
    EXPECT_EQ(outside, 0) << "tokens of row " << number << " are not in its set";
    drawn += kDrawsOfARow;
  }
  return drawn;
}

}  // namespace fairdraw::suites
