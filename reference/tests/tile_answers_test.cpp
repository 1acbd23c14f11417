// Compares the integer model with answers that a script computed in fractions
// (known_answers/tile_answers.json): tiles, weights, masks, totals, draws, probabilities. These
// answers cannot detect errors that need more than four tiles; tile_invariances_test and
// oracles_agree_test have larger rows, and tile_bound_test has rows of whole vocabularies.
#include "reference/tests/tile_answers.h"

#include <gtest/gtest.h>

#include <limits>

namespace fairdraw::reference {
namespace {

IntegerRow model_of(const TileAnswer& answer) {
  if (answer.from_probs) {
    return integer_model_from_probs(answer.values, answer.parameters, answer.filter_order,
                                    answer.top_k_1_keeps_ties);
  }
  return integer_model(answer.values, answer.allowed, answer.parameters, answer.tie_rule,
                       answer.filter_order);
}

void expect_tiles(const IntegerRow& row, const TileAnswer& answer) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ASSERT_EQ(row.tiles.size(), answer.sums.size());
  for (std::size_t t = 0; t < row.tiles.size(); ++t) {
    EXPECT_EQ(row.tiles[t].key, key_of(answer.maxima[t].value_or(-kInfinity))) << t;
    EXPECT_EQ(row.tiles[t].sum, answer.sums[t]) << t;
    EXPECT_EQ(row.tiles[t].octave,
              answer.octaves[t].value_or(-std::numeric_limits<double>::infinity()))
        << t;
  }
  EXPECT_EQ(row.octave, answer.octave);
}

void expect_weights(const IntegerRow& row, const TileAnswer& answer) {
  EXPECT_EQ(to_string(row.total_unfiltered), to_string(answer.total_unfiltered));
  EXPECT_EQ(to_string(row.total), to_string(answer.total));
  EXPECT_EQ(row.greedy_token, answer.greedy_token);
  EXPECT_EQ(row.support_size, answer.support_size);
  for (std::size_t id = 0; id < answer.weights.size(); ++id) {
    EXPECT_EQ(to_string(row.weight[id]), to_string(answer.weights[id])) << id;
  }
  if (answer.kept.empty()) return;
  std::vector<std::int32_t> kept;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] != 0) kept.push_back(static_cast<std::int32_t>(id));
  }
  EXPECT_EQ(kept, answer.kept);
}

void expect_draws(const IntegerRow& row, const TileAnswer& answer) {
  for (const auto& [word, token] : answer.draws) EXPECT_EQ(row.token_for(word), token) << word;
  EXPECT_EQ(row.proposes, !answer.draws_by_attempts.empty());
  for (const auto& [words, token] : answer.draws_by_attempts) {
    std::size_t asked = 0;
    const auto word = [&](std::uint32_t attempt) {
      EXPECT_EQ(attempt, asked++);
      return words.at(attempt);
    };
    EXPECT_EQ(row.token_by_attempts(word), token) << words.front();
    EXPECT_EQ(asked, words.size()) << words.front();
  }
}

TEST(TileAnswers, OfEveryRow) {
  int logit_rows = 0;
  int prob_rows = 0;
  // Numbers of draws that an attempt decides, and of draws among the survivors.
  int proposing = 0, by_survivors = 0;
  for (const TileAnswer& answer : tile_answers()) {
    SCOPED_TRACE(answer.name);
    ++(answer.from_probs ? prob_rows : logit_rows);
    const IntegerRow row = model_of(answer);
    ASSERT_EQ(row.status, RowStatus::ok);
    expect_tiles(row, answer);
    expect_weights(row, answer);
    expect_draws(row, answer);
    for (const auto& [words, token] : answer.draws_by_attempts) {
      ++proposing;
      by_survivors += words.size() == kAttemptsOfADraw + 1 ? 1 : 0;
    }
    for (const auto& [token, probability] : answer.probabilities) {
      EXPECT_EQ(row.probability(token), probability) << token;
    }
  }
  EXPECT_GE(logit_rows, 80);
  EXPECT_GE(prob_rows, 35);
  EXPECT_GE(proposing, 100);
  EXPECT_GE(by_survivors, 2);
}

}  // namespace
}  // namespace fairdraw::reference
