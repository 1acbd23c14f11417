// Tests the distribution of chain speculative sampling by enumeration. With dyadic probabilities
// and random words on a grid every count is exact, so the output must have exactly the target's
// distribution.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::reference {
namespace {

using Words = std::vector<std::uint64_t>;
using Tokens = std::vector<std::int32_t>;
using Probs = std::vector<float>;

std::uint64_t grid_word(std::uint64_t i, std::uint64_t cells) {
  return i * (std::numeric_limits<std::uint64_t>::max() / cells + 1);
}

TEST(ChainSpeculativeModel, ReturnsTheTargetsDistribution) {
  const Probs draft = {4.0F / 8, 2.0F / 8, 1.0F / 8, 1.0F / 8, 0};
  const Probs target = {1.0F / 8, 2.0F / 8, 2.0F / 8, 1.0F / 8, 2.0F / 8};
  Probs both = target;
  both.insert(both.end(), target.begin(), target.end());
  // The acceptance test needs a grid of quarters of 2^64 (p / q is 1/4 at token 0), and the
  // residual {0, 0, 1, 0, 2} / 8 needs thirds, so the test uses words that are 2^64 / 4 apart, and
  // the first word of each third. The test makes 8 q(x) draws with the drafted token x, so that the
  // draft's distribution is exact.
  const std::uint64_t third = std::numeric_limits<std::uint64_t>::max() / 3 + 1;
  const Words recover = {0, third, 2 * third};
  std::vector<int> counts(5, 0);
  for (std::int32_t x = 0; x < 5; ++x) {
    const int copies = static_cast<int>(8 * draft[static_cast<std::size_t>(x)]);
    for (std::uint64_t a = 0; a < 4; ++a) {
      for (const std::uint64_t r : recover) {
        const ChainOutcome outcome =
            chain_speculative_model(draft, Tokens{x}, both, 5, Words{grid_word(a, 4)}, Words{r}, 0);
        ASSERT_EQ(outcome.status, RowStatus::ok);
        counts[static_cast<std::size_t>(outcome.tokens[0])] += copies;
      }
    }
  }
  // 8 * 4 * 3 combinations.
  for (std::size_t j = 0; j < 5; ++j) {
    EXPECT_EQ(counts[j], static_cast<int>(96 * target[j])) << "token " << j;
  }
}

TEST(ChainSpeculativeModel, NeverEmitsWhatTheTargetExcludes) {
  const Probs draft = {0.5F, 0.5F};
  const Probs target = {0, 1, 0, 1};
  for (const std::uint64_t word : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    const ChainOutcome outcome =
        chain_speculative_model(draft, Tokens{0}, target, 2, Words{word}, Words{word}, word);
    EXPECT_EQ(outcome.tokens, (Tokens{1, -1}));
    EXPECT_EQ(outcome.accepted, 0);
    EXPECT_EQ(outcome.emitted, 0);
  }
}

RowStatus status_of(const Probs& draft, const Tokens& tokens, const Probs& target) {
  const Words words(tokens.size(), 0);
  const ChainOutcome outcome = chain_speculative_model(draft, tokens, target, 2, words, words, 0);
  if (outcome.status != RowStatus::ok) {
    EXPECT_EQ(outcome.tokens, Tokens(tokens.size() + 1, -1));
    EXPECT_EQ(outcome.accepted, 0);
    EXPECT_EQ(outcome.emitted, 0);
  }
  return outcome.status;
}

TEST(ChainSpeculativeModel, ReportsTheFirstFailure) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(status_of({1, 1}, {0}, {1, 1, 1, 1}), RowStatus::ok);
  EXPECT_EQ(status_of({nan, 1}, {2}, {1, 1, 1, 1}), RowStatus::index_out_of_range);
  EXPECT_EQ(status_of({nan, 1}, {-1}, {1, 1, 1, 1}), RowStatus::index_out_of_range);
  EXPECT_EQ(status_of({-1, 1}, {0}, {nan, 1, 1, 1}), RowStatus::negative_probability);
  EXPECT_EQ(status_of({0, 0}, {0}, {nan, 1, 1, 1}), RowStatus::no_allowed_token);
  EXPECT_EQ(status_of({1, 1}, {0}, {infinity, 1, nan, 1}), RowStatus::infinite_input);
  // The row of the bonus token is checked too, although this chain does not reach it.
  EXPECT_EQ(status_of({1, 1}, {0}, {0, 1, nan, 1}), RowStatus::nan_input);
  // Faults are ordered by position, and at each position the draft's row comes first.
  EXPECT_EQ(status_of({1, 1, -1, 1}, {0, 0}, {nan, 1, 1, 1, 1, 1}), RowStatus::nan_input);
  EXPECT_EQ(status_of({1, 1, -1, 1}, {0, 0}, {1, 1, nan, 1, 1, 1}),
            RowStatus::negative_probability);
}

TEST(ChainSpeculativeModel, RefusesArraysOfTheWrongLength) {
  EXPECT_THROW(
      chain_speculative_model(Probs{1, 1}, Tokens{0}, Probs{1, 1}, 2, Words{0}, Words{0}, 0),
      std::invalid_argument);
  EXPECT_THROW(
      chain_speculative_model(Probs{1}, Tokens{0}, Probs{1, 1, 1, 1}, 2, Words{0}, Words{0}, 0),
      std::invalid_argument);
  EXPECT_THROW(chain_speculative_model({}, {}, Probs{1, 1}, 2, Words{0}, {}, 0),
               std::invalid_argument);
}

}  // namespace
}  // namespace fairdraw::reference
