// What speculation emits has the target's law, whatever the draft: by enumeration of every interval
// of random words, in exact fractions.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "reference/verification_model.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kVocab = 4;

// A row that depends on the whole prefix, with filters on in half of them: different supports.
IntegerRow row_behind(std::span<const std::int32_t> prefix, std::uint64_t seed, float spread) {
  std::uint64_t state = seed;
  for (const std::int32_t token : prefix)
    state = state * 31 + static_cast<std::uint64_t>(token + 1);
  std::mt19937_64 random(state);
  std::vector<float> logits;
  for (std::size_t i = 0; i < kVocab; ++i) {
    logits.push_back(spread * static_cast<float>(random() % 1024) / 1024);
  }
  RowParameters parameters;
  if (random() % 2 == 0) parameters.top_k = 2;
  if (random() % 4 == 0) parameters.top_p = 0.6F;
  return integer_model(logits, {}, parameters);
}

RowBehind rows_of(std::uint64_t seed, float spread) {
  return [=](std::span<const std::int32_t> prefix) { return row_behind(prefix, seed, spread); };
}

// Largest total variation between the law of the integers and the target's own. A step of words
// has ceil(b) - ceil(a) of them where its share is b - a, so its probability is off by less than
// 2^-64. A position of a chain takes a draft (V steps), accepts (2) and recovers (V); the bonus
// takes V. Total variations of steps that follow one another add up; each is at most half of its
// sum of errors.
Probability bound_of(std::size_t positions) {
  return Probability(cpp_int(positions * (2 * kVocab + 2)), cpp_int(1) << 65);
}

TEST(VerificationLaw, ChainsHaveTheTargetsLawWhateverTheDraft) {
  constexpr std::size_t kDrafts = 2;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4);
    // Drafts: of another law, next to it, flat, and the target's own.
    for (const RowBehind& draft :
         {rows_of(seed + 1000, 4), rows_of(seed, 4.25F), rows_of(seed, 0), target}) {
      const SequenceLaw law =
          completed(chain_law(target, draft, draft, kDrafts), target, kDrafts + 1);
      const SequenceLaw expected = sequences_of(target, kDrafts + 1);
      EXPECT_LE(total_variation(law, expected), bound_of(kDrafts + 1)) << "seed " << seed;
      Probability sum = 0;
      for (const auto& [tokens, probability] : law) sum += probability;
      EXPECT_EQ(sum, 1);
    }
  }
}

TEST(VerificationLaw, DraftsOfTheTargetsOwnLawAlwaysStand) {
  const RowBehind target = rows_of(5, 4);
  for (const auto& [tokens, probability] : chain_law(target, target, target, 2)) {
    EXPECT_EQ(tokens.size(), 3U) << probability;
  }
}

RowBehind always(const std::vector<float>& probs, const RowParameters& parameters = {}) {
  return [=](std::span<const std::int32_t>) { return integer_model_from_probs(probs, parameters); };
}

// The proof can fail. The draft is the largest of q and judged as if drawn from q (transformers,
// issue 32867): token 0 is always drafted and stands with .3 / .5; else the residual max(p - q, 0)
// = {0, .1, .1} gives the others .2 each, which is .3 too much of token 0.
TEST(VerificationLaw, ADraftDrawnFromAnotherLawShows) {
  const RowBehind target = always({0.3F, 0.4F, 0.3F});
  const std::vector<float> q = {0.5F, 0.3F, 0.2F};
  RowParameters largest;
  largest.top_k = 1;
  const SequenceLaw law = completed(chain_law(target, always(q), always(q, largest), 1), target, 1);
  const double distance = total_variation(law, sequences_of(target, 1)).convert_to<double>();
  EXPECT_NEAR(distance, 0.3, 4 * 0x1p-25);  // each probability is a float32, rounded once
  // The right law of that draft, all its mass on one token, has the target's.
  const SequenceLaw right =
      completed(chain_law(target, always(q, largest), always(q, largest), 1), target, 1);
  EXPECT_LE(total_variation(right, sequences_of(target, 1)), bound_of(2));
}

TEST(VerificationLaw, GivenChainsAndTreesHaveTheTargetsLaw) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4);
    const SequenceLaw expected = sequences_of(target, 3);
    for (std::int32_t x = 0; x < 4; ++x) {
      for (std::int32_t y = 0; y < 4; ++y) {
        const SequenceLaw law = completed(given_chain_law(target, Tokens{x, y}), target, 3);
        EXPECT_LE(total_variation(law, expected), bound_of(3)) << x << " " << y;
      }
    }
    // Two children of the root, one of them with two of its own, one token twice.
    const SequenceLaw tree = tree_law(target, Tokens{1, 3, 0, 2, 2, 3}, Tokens{-1, -1, 0, 0, 0, 1});
    EXPECT_LE(total_variation(completed(tree, target, 3), expected), bound_of(3));
  }
}

// A drafted token stands with probability P(x): what the rule for a point mass gives.
TEST(VerificationLaw, AGivenDraftStandsWithItsProbability) {
  const RowBehind target = rows_of(7, 2);
  const IntegerRow row = target({});
  for (std::int32_t x = 0; x < 4; ++x) {
    Probability stands = 0;
    for (const auto& [tokens, probability] : given_chain_law(target, Tokens{x})) {
      if (tokens.size() == 2) stands += probability;
    }
    const auto id = static_cast<std::size_t>(x);
    const Probability share(cpp_int(row.mask[id] != 0 ? row.weight[id] : 0), cpp_int(row.total));
    EXPECT_LE(abs(Probability(stands - share)), bound_of(2)) << "token " << x;
  }
}

std::vector<IntegerRow> rows_from(const std::vector<std::vector<float>>& logits,
                                  const RowParameters& parameters = {}) {
  std::vector<IntegerRow> rows;
  rows.reserve(logits.size());
  for (const auto& row : logits) rows.push_back(integer_model(row, {}, parameters));
  return rows;
}

TEST(VerificationModel, StatusesInOrderAndNoFurtherThanTheChainGets) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> flat = {0, 0, 0, 0}, bad = {nan, 0, 0, 0},
                           sure = {0, -INFINITY, -INFINITY, -INFINITY};
  const std::vector<PositionWords> words(3);
  const auto run = [&](const std::vector<std::vector<float>>& target,
                       const std::vector<std::vector<float>>& draft, const Tokens& drafted) {
    return verify_chain_model(rows_from(target), rows_from(draft), drafted, words, 4, false);
  };
  EXPECT_EQ(run({bad, flat, flat}, {bad, flat}, {0, 4}).status, RowStatus::index_out_of_range);
  EXPECT_EQ(run({flat, flat, flat}, {bad, flat}, {0, 0}).status, RowStatus::nan_input);
  EXPECT_EQ(run({flat, flat, flat}, {sure, flat}, {1, 0}).status, RowStatus::impossible_draft);
  // Token 1 has no chance in the first row: what stands behind it is not looked at.
  const VerificationOutcome ended = run({sure, bad, bad}, {flat, bad}, {1, 0});
  EXPECT_EQ(ended.status, RowStatus::ok);
  EXPECT_EQ(ended.tokens, (Tokens{0}));
  EXPECT_EQ(run({flat, flat, bad}, {flat, flat}, {0, 0}).status, RowStatus::nan_input);
}

TEST(VerificationModel, GreedyRequestsTakeTheLargestLogitAndNoLaw) {
  RowParameters greedy;
  greedy.temperature = 0;
  const std::vector<IntegerRow> target =
      rows_from({{1, 3, 3, 0}, {5, 0, 0, 0}, {0, 0, 0, 9}}, greedy);
  const std::vector<IntegerRow> draft = rows_from({{0, 0, 0, 0}, {0, 0, 0, 0}});
  const std::vector<PositionWords> words = {{~0ULL, ~0ULL, ~0ULL, ~0ULL}, {}, {}};
  const auto run = [&](const Tokens& drafted) {
    return verify_chain_model(target, draft, drafted, words, 4, true).tokens;
  };
  EXPECT_EQ(run({1, 0}), (Tokens{1, 0, 3}));
  EXPECT_EQ(run({2, 0}), (Tokens{1}));  // a tie: the lowest id
  EXPECT_EQ(run({1, 1}), (Tokens{1, 0}));
}

TEST(VerificationModel, TreesNameWhatIsWrong) {
  const std::vector<IntegerRow> rows(3, integer_model(std::vector<float>{0, 0}, {}, {}));
  const std::vector<PositionWords> words(3);
  const auto run = [&](const Tokens& drafted, const Tokens& parents, std::size_t depth) {
    return verify_tree_model(rows, drafted, parents, words, 2, depth);
  };
  EXPECT_EQ(run({0, 2}, {-1, 0}, 2).status, RowStatus::index_out_of_range);
  EXPECT_EQ(run({0, 0}, {-1, 1}, 2).status, RowStatus::invalid_draft_tree);
  EXPECT_EQ(run({0, 0}, {-2, 0}, 2).status, RowStatus::invalid_draft_tree);
  EXPECT_EQ(run({0, 0}, {-1, 0}, 1).status, RowStatus::invalid_draft_length);
  const VerificationOutcome both = run({0, 0}, {-1, -1}, 1);  // words of 0 draw token 0
  EXPECT_EQ(both.tokens, (Tokens{0, 0}));
  EXPECT_EQ(both.nodes, (Tokens{0}));
  EXPECT_EQ(both.accepted, 1);
}

}  // namespace
}  // namespace fairdraw::reference
