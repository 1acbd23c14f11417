// Tests that the emitted tokens have the target's distribution for any draft, by enumerating every
// interval of random words in exact fractions.
#include "reference/speculation/speculation_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "reference/speculation/speculation_model.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;
using Tokens = std::vector<std::int32_t>;

constexpr std::size_t kVocab = 4;

// Returns a row of the model that depends on the whole prefix of tokens. Half of the rows have
// active filters, so that supports differ.
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

RowBehind always(const std::vector<float>& probs, const RowParameters& parameters = {}) {
  return [=](std::span<const std::int32_t>) { return integer_model_from_probs(probs, parameters); };
}

// Bounds the total variation distance between the distribution that the integers give and the
// target's own. A step that covers the share from a to b of all words has ceil(b) - ceil(a) words,
// so its probability is off by less than 2^-64. At a position of a chain, drawing the draft has V
// steps, the acceptance test has 2, and the redraw has V; drawing the bonus token has V. Total
// variation distances of successive decisions add up, and each is at most half of the sum of its
// errors.
Probability bound_of(std::size_t positions) {
  return Probability(cpp_int(positions * (2 * kVocab + 2)), cpp_int(1) << 65);
}

TEST(SpeculationDistribution, ChainsHaveTheTargetsDistributionWhateverTheDraft) {
  constexpr std::size_t kDrafts = 2;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4);
    // The drafts come from four distributions: an unrelated one, one close to the target, a flat
    // one, and the target's own.
    for (const RowBehind& draft :
         {rows_of(seed + 1000, 4), rows_of(seed, 4.25F), rows_of(seed, 0), target}) {
      const SequenceDistribution distribution =
          completed(chain_distribution(target, draft, draft, kDrafts), target, kDrafts + 1);
      const SequenceDistribution expected = sequences_of(target, kDrafts + 1);
      EXPECT_LE(total_variation(distribution, expected), bound_of(kDrafts + 1)) << "seed " << seed;
      Probability sum = 0;
      for (const auto& [tokens, probability] : distribution) sum += probability;
      EXPECT_EQ(sum, 1);
    }
  }
}

// Bounds the distance of block verification for n drafted tokens: the bound of n + 1 positions
// covers the draws, and the proof in fairdraw/speculative.h gives n (n + 1) 2^-64 for the rest.
Probability bound_of_block(std::size_t n) {
  return bound_of(n + 1) + Probability(cpp_int(n * (n + 1)), cpp_int(1) << 64);
}

TEST(SpeculationDistribution, BlocksHaveTheTargetsDistributionWhateverTheDraft) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4);
    const std::size_t n = 1 + seed % 3;
    for (const RowBehind& draft :
         {rows_of(seed + 1000, 4), rows_of(seed, 4.25F), rows_of(seed, 0), target}) {
      const SequenceDistribution distribution =
          completed(block_distribution(target, draft, draft, n), target, n + 1);
      EXPECT_LE(total_variation(distribution, sequences_of(target, n + 1)), bound_of_block(n))
          << "seed " << seed;
      Probability sum = 0;
      for (const auto& [tokens, probability] : distribution) sum += probability;
      EXPECT_EQ(sum, 1);
    }
  }
}

Probability mean_length(const SequenceDistribution& distribution) {
  Probability mean = 0;
  for (const auto& [tokens, probability] : distribution) {
    mean += probability * static_cast<std::int64_t>(tokens.size());
  }
  return mean;
}

// Sun et al. 2024 prove that no rule that sees one chain emits more tokens on average. The last
// drafted token of a longer chain makes a difference, so two tokens are the shortest such chain.
TEST(SpeculationDistribution, BlocksEmitAtLeastAsManyTokensAsTokens) {
  std::size_t longer = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4), draft = rows_of(seed, 3);
    const Probability by_token = mean_length(chain_distribution(target, draft, draft, 2));
    const Probability by_block = mean_length(block_distribution(target, draft, draft, 2));
    EXPECT_GE(by_block, by_token - 3 * bound_of_block(2)) << "seed " << seed;
    longer += by_block > by_token + 3 * bound_of_block(2) ? 1U : 0U;
  }
  EXPECT_GT(longer, 0U);
}

// An example of Sun et al. 2024: p = (1/3, 2/3), q = (2/3, 1/3) at both positions of a chain of
// two. Token by token, 10/9 drafted tokens are accepted on average; by block, 11/9.
TEST(SpeculationDistribution, BlocksGiveTheExampleOfThePaper) {
  const RowBehind target = always({1.0F, 2.0F}), draft = always({2.0F, 1.0F});
  const auto expect = [](const Probability& mean, const Probability& expected) {
    EXPECT_LE(abs(Probability(mean - 1 - expected)), 3 * bound_of_block(2));
  };
  expect(mean_length(chain_distribution(target, draft, draft, 2)), Probability(10, 9));
  expect(mean_length(block_distribution(target, draft, draft, 2)), Probability(11, 9));
}

// One drafted token leaves no choice between rules, so both rules agree to the last word.
TEST(SpeculationDistribution, BlocksOfOneTokenAreTokens) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4), draft = rows_of(seed + 1000, 4);
    EXPECT_EQ(block_distribution(target, draft, draft, 1),
              chain_distribution(target, draft, draft, 1));
  }
}

TEST(SpeculationDistribution, DraftsOfTheTargetsOwnDistributionAlwaysStand) {
  const RowBehind target = rows_of(5, 4);
  for (const auto& [tokens, probability] : chain_distribution(target, target, target, 2)) {
    EXPECT_EQ(tokens.size(), 3U) << probability;
  }
  for (const auto& [tokens, probability] : block_distribution(target, target, target, 3)) {
    EXPECT_EQ(tokens.size(), 4U) << probability;
  }
}

// This test shows that a violation of the distribution is detected. In this test the draft is the
// largest token of q, but is judged as if it were drawn from q (transformers, issue 32867). Token 0
// is always drafted, and is accepted with probability .3 / .5. Otherwise the residual max(p - q, 0)
// = {0, .1, .1} gives the other tokens a probability of .2 each, so token 0 has .3 too much.
TEST(SpeculationDistribution, ADraftDrawnFromAnotherDistributionShows) {
  const RowBehind target = always({0.3F, 0.4F, 0.3F});
  const std::vector<float> q = {0.5F, 0.3F, 0.2F};
  RowParameters largest;
  largest.top_k = 1;
  const SequenceDistribution distribution =
      completed(chain_distribution(target, always(q), always(q, largest), 1), target, 1);
  const double distance =
      total_variation(distribution, sequences_of(target, 1)).convert_to<double>();
  EXPECT_NEAR(distance, 0.3, 4 * 0x1p-25);  // each probability is a float32, rounded once
  // The right distribution of that draft has all mass on one token; judged with it, the emitted
  // tokens have the target's distribution.
  const SequenceDistribution right =
      completed(chain_distribution(target, always(q, largest), always(q, largest), 1), target, 1);
  EXPECT_LE(total_variation(right, sequences_of(target, 1)), bound_of(2));
}

TEST(SpeculationDistribution, GivenChainsAndTreesHaveTheTargetsDistribution) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const RowBehind target = rows_of(seed, 4);
    const SequenceDistribution expected = sequences_of(target, 3);
    for (std::int32_t x = 0; x < 4; ++x) {
      for (std::int32_t y = 0; y < 4; ++y) {
        const SequenceDistribution distribution =
            completed(given_chain_distribution(target, Tokens{x, y}), target, 3);
        EXPECT_LE(total_variation(distribution, expected), bound_of(3)) << x << " " << y;
      }
    }
    // The root of the tree has two children. The first child has three children, two of which have
    // the same token.
    const SequenceDistribution tree =
        tree_distribution(target, Tokens{1, 3, 0, 2, 2, 3}, Tokens{-1, -1, 0, 0, 0, 1});
    EXPECT_LE(total_variation(completed(tree, target, 3), expected), bound_of(3));
  }
}

// Returns the parents of every tree of n nodes.
std::vector<Tokens> trees_of(std::size_t n) {
  std::vector<Tokens> trees = {{}};
  for (std::size_t j = 0; j < n; ++j) {
    std::vector<Tokens> larger;
    for (const Tokens& tree : trees) {
      for (std::int32_t parent = -1; parent < static_cast<std::int32_t>(j); ++parent) {
        larger.push_back(tree);
        larger.back().push_back(parent);
      }
    }
    trees = std::move(larger);
  }
  return trees;
}

// Returns rows of three tokens that differ after every prefix; in a third of the rows token 2 has
// no mass.
RowBehind small_rows_of(std::uint64_t seed, float spread) {
  return [=](std::span<const std::int32_t> prefix) {
    std::uint64_t state = seed;
    for (const std::int32_t token : prefix) {
      state = state * 31 + static_cast<std::uint64_t>(token + 1);
    }
    std::mt19937_64 random(state);
    std::vector<float> logits;
    for (int i = 0; i < 3; ++i) {
      logits.push_back(spread * static_cast<float>(random() % 1024) / 1024);
    }
    if (random() % 3 == 0) logits[2] = -INFINITY;
    return integer_model(logits, {}, {});
  };
}

std::int32_t max_children(const Tokens& parents) {
  std::int32_t most = 0;
  for (const std::int32_t parent : parents) {
    most = std::max(most,
                    static_cast<std::int32_t>(std::count(parents.begin(), parents.end(), parent)));
  }
  return most;
}

// Bounds the same total variation distance for a tree of n nodes. Drafts are drawn exactly, so the
// errors are those of at most n tests of two steps each, and of one draw of three steps at the end.
Probability bound_of_tree(std::size_t n) {
  return Probability(cpp_int(2 * n + 3), cpp_int(1) << 65);
}

void expect_distribution_of_tree(std::uint64_t seed, const RowBehind& draft, const Tokens& parents,
                                 SiblingSampling siblings) {
  const RowBehind target = small_rows_of(seed, 4);
  const std::size_t length = parents.size() + 1;
  const SequenceDistribution distribution = completed(
      sampled_tree_distribution(target, draft, {parents, siblings, siblings}), target, length);
  EXPECT_LE(total_variation(distribution, sequences_of(target, length)),
            bound_of_tree(parents.size()))
      << "seed " << seed << ", parents " << testing::PrintToString(parents);
  Probability sum = 0;
  for (const auto& [tokens, probability] : distribution) sum += probability;
  EXPECT_EQ(sum, 1);
}

TEST(SpeculationDistribution, SampledTreesHaveTheTargetsDistributionWhateverTheDraft) {
  for (std::size_t n = 1; n <= 4; ++n) {
    for (const Tokens& parents : trees_of(n)) {
      for (std::uint64_t seed = 1; seed <= (n < 4 ? 6U : 1U); ++seed) {
        // The drafts come from four distributions: an unrelated one, one close to the target, a
        // flat one, and the target's own.
        for (const RowBehind& draft : {small_rows_of(seed + 1000, 4), small_rows_of(seed, 4.25F),
                                       small_rows_of(seed, 0), small_rows_of(seed, 4)}) {
          expect_distribution_of_tree(seed, draft, parents, SiblingSampling::with_replacement);
          // Some rows have only two tokens with mass, so three siblings cannot be drawn without
          // replacement.
          if (max_children(parents) > 2) continue;
          expect_distribution_of_tree(seed, draft, parents, SiblingSampling::without_replacement);
        }
      }
    }
  }
}

// Three different children of a vocabulary of three tokens are all of its tokens, so one child is
// always accepted.
TEST(SpeculationDistribution, OfAllTokensAsChildrenOneStands) {
  const RowBehind target = small_rows_of(5, 4), draft = always({0.5F, 0.375F, 0.125F});
  const Tokens parents = {-1, -1, -1};
  const auto without = SiblingSampling::without_replacement;
  const SequenceDistribution distribution =
      sampled_tree_distribution(target, draft, {parents, without, without});
  for (const auto& [tokens, probability] : distribution)
    EXPECT_EQ(tokens.size(), 2U) << probability;
  EXPECT_LE(total_variation(completed(distribution, target, 2), sequences_of(target, 2)),
            bound_of_tree(3));
}

// A chain is a tree, so both have the same distribution up to the rounding of each decision.
TEST(SpeculationDistribution, ATreeOfOneChildANodeIsAChain) {
  const RowBehind target = small_rows_of(9, 4), draft = small_rows_of(1009, 4);
  for (const auto siblings :
       {SiblingSampling::with_replacement, SiblingSampling::without_replacement}) {
    const SequenceDistribution tree =
        sampled_tree_distribution(target, draft, {Tokens{-1, 0}, siblings, siblings});
    const SequenceDistribution chain = chain_distribution(target, draft, draft, 2);
    // Drafts of a chain are drawn by random words, which adds two draws of three steps each.
    EXPECT_LE(total_variation(tree, chain), Probability(cpp_int(2 * 3), cpp_int(1) << 65));
  }
}

// This test shows that a violation of the distribution is detected. The siblings are drawn without
// replacement but judged as if drawn with replacement, for p = (1/8, 1/2, 3/8), q = (3/4, 1/8, 1/8)
// and two children. The first child can only be rejected if it is token 0, with probability 5/8,
// which leaves (0, 3/8, 1/4) / (5/8) = (0, 3/5, 2/5). The second child is then token 1 or token 2,
// with probability 1/2 each. Judged as if drawn from q, which gives each of them 1/8, both tokens
// are accepted. So the mass 5/8 is divided into halves instead of 3/5 and 2/5, and token 2 gets
// 1/16 too much.
TEST(SpeculationDistribution, SiblingsWithoutReplacementJudgedAsWithShow) {
  const RowBehind target = always({0.125F, 0.5F, 0.375F}), draft = always({0.75F, 0.125F, 0.125F});
  const Tokens parents = {-1, -1};
  const auto with = SiblingSampling::with_replacement,
             without = SiblingSampling::without_replacement;
  const auto distance = [&](SiblingSampling drawn, SiblingSampling judged) {
    const SequenceDistribution distribution =
        sampled_tree_distribution(target, draft, {parents, drawn, judged});
    return total_variation(completed(distribution, target, 1), sequences_of(target, 1));
  };
  EXPECT_LE(abs(Probability(distance(without, with) - Probability(1, 16))), bound_of_tree(2));
  EXPECT_LE(distance(without, without), bound_of_tree(2));
  EXPECT_LE(distance(with, with), bound_of_tree(2));
}

// A drafted token of unknown distribution is accepted with its target probability P(x), as in the
// rule for a draft that has all mass on one token.
TEST(SpeculationDistribution, AGivenDraftStandsWithItsProbability) {
  const RowBehind target = rows_of(7, 2);
  const IntegerRow row = target({});
  for (std::int32_t x = 0; x < 4; ++x) {
    Probability stands = 0;
    for (const auto& [tokens, probability] : given_chain_distribution(target, Tokens{x})) {
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

TEST(SpeculationModel, StatusesInOrderAndNoFurtherThanTheChainGets) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> flat = {0, 0, 0, 0}, bad = {nan, 0, 0, 0},
                           sure = {0, -INFINITY, -INFINITY, -INFINITY};
  const std::vector<PositionWords> words(3);
  const auto run = [&](const std::vector<std::vector<float>>& target,
                       const std::vector<std::vector<float>>& draft, const Tokens& drafted) {
    return accept_chain_model(rows_from(target), rows_from(draft), drafted, words, 4, false);
  };
  EXPECT_EQ(run({bad, flat, flat}, {bad, flat}, {0, 4}).status, RowStatus::index_out_of_range);
  EXPECT_EQ(run({flat, flat, flat}, {bad, flat}, {0, 0}).status, RowStatus::nan_input);
  EXPECT_EQ(run({flat, flat, flat}, {sure, flat}, {1, 0}).status, RowStatus::impossible_draft);
  // Token 1 has no mass in the first row, so the rows after it are not read.
  const SpeculationOutcome ended = run({sure, bad, bad}, {flat, bad}, {1, 0});
  EXPECT_EQ(ended.status, RowStatus::ok);
  EXPECT_EQ(ended.tokens, (Tokens{0}));
  EXPECT_EQ(run({flat, flat, bad}, {flat, flat}, {0, 0}).status, RowStatus::nan_input);
}

TEST(SpeculationModel, BlocksReadAllPositionsThatHaveAShare) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> flat = {0, 0, 0, 0}, bad = {nan, 0, 0, 0},
                           sure = {0, -INFINITY, -INFINITY, -INFINITY};
  std::vector<PositionWords> words(3);
  const auto run = [&](const std::vector<std::vector<float>>& target,
                       const std::vector<std::vector<float>>& draft, const Tokens& drafted) {
    return accept_chain_model(rows_from(target), rows_from(draft), drafted, words, 4, false,
                              AcceptRule::block);
  };
  EXPECT_EQ(run({bad, flat, flat}, {bad, flat}, {0, 4}).status, RowStatus::index_out_of_range);
  EXPECT_EQ(run({flat, flat, flat}, {flat, bad}, {0, 0}).status, RowStatus::nan_input);
  EXPECT_EQ(run({flat, flat, flat}, {flat, sure}, {0, 1}).status, RowStatus::impossible_draft);
  // Token 1 has no mass in the first row, so no prefix has a share, and the rows after it are not
  // read.
  EXPECT_EQ(run({sure, bad, bad}, {flat, bad}, {1, 0}).tokens, (Tokens{0}));
  EXPECT_EQ(run({flat, flat, bad}, {flat, flat}, {0, 0}).status, RowStatus::nan_input);
  // The second token has no mass, so the whole chain fails and the last row is not read. In the
  // second row token 0 is left.
  const SpeculationOutcome first = run({flat, sure, bad}, {flat, flat}, {0, 1});
  EXPECT_EQ(first.tokens, (Tokens{0, 0}));
  EXPECT_EQ(first.accepted, 1);
  // The target has a fourth of the draft's chance of token 0. The next position doubles it: the
  // shares are 2^62 and 2^63. The word 2^63 - 1 accepts the whole chain, although the first
  // position alone would be rejected by the same word.
  const std::vector<float> quarter = {0, 0, 0, 0}, half = {0, 0, -INFINITY, -INFINITY};
  words[0].accept = words[1].accept = (std::uint64_t{1} << 63) - 1;
  EXPECT_EQ(run({quarter, half, flat}, {sure, flat}, {0, 0}).tokens, (Tokens{0, 0, 0}));
  EXPECT_EQ(accept_chain_model(rows_from({quarter, half, flat}), rows_from({sure, flat}),
                               Tokens{0, 0}, words, 4, false)
                .accepted,
            0);
  words[1].accept = std::uint64_t{1} << 63;
  EXPECT_EQ(run({quarter, half, flat}, {sure, flat}, {0, 0}).accepted, 0);
}

TEST(SpeculationModel, GreedyRequestsTakeTheLargestLogitAndNoDistribution) {
  RowParameters greedy;
  greedy.temperature = 0;
  const std::vector<IntegerRow> target =
      rows_from({{1, 3, 3, 0}, {5, 0, 0, 0}, {0, 0, 0, 9}}, greedy);
  const std::vector<IntegerRow> draft = rows_from({{0, 0, 0, 0}, {0, 0, 0, 0}});
  const std::vector<PositionWords> words = {{~0ULL, ~0ULL, ~0ULL, ~0ULL}, {}, {}};
  const auto run = [&](const Tokens& drafted) {
    return accept_chain_model(target, draft, drafted, words, 4, true).tokens;
  };
  EXPECT_EQ(run({1, 0}), (Tokens{1, 0, 3}));
  EXPECT_EQ(run({2, 0}), (Tokens{1}));  // the two tokens tie, and the lowest id wins
  EXPECT_EQ(run({1, 1}), (Tokens{1, 0}));
}

TEST(SpeculationModel, TreesOfKnownDistributionLookNoFurtherThanTheyGet) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> flat = {0, 0}, bad = {nan, 0}, sure = {0, -INFINITY};
  std::vector<PositionWords> words(4);
  for (PositionWords& at : words) at.accept_next = {0, 0};
  const auto run = [&](const std::vector<std::vector<float>>& target,
                       const std::vector<std::vector<float>>& draft, const Tokens& drafted,
                       const Tokens& parents, SiblingSampling siblings) {
    return accept_tree_model(rows_from(target), drafted, parents, words, 2, 3,
                             {rows_from(draft), siblings, false});
  };
  const auto with = SiblingSampling::with_replacement,
             without = SiblingSampling::without_replacement;
  const Tokens two = {-1, -1}, chain = {-1, 0};
  EXPECT_EQ(run({bad, flat, flat}, {bad, flat, flat}, {0, 0}, two, with).status,
            RowStatus::nan_input);
  EXPECT_EQ(run({flat, flat, flat}, {bad, flat, flat}, {0, 0}, two, with).status,
            RowStatus::nan_input);
  EXPECT_EQ(run({flat, flat, flat}, {sure, flat, flat}, {1, 0}, two, with).status,
            RowStatus::impossible_draft);
  // The target gives token 1 no mass, so token 0 replaces it, and the rows after it are not read.
  const SpeculationOutcome none = run({sure, bad, bad}, {flat, bad, bad}, {1, 1}, two, with);
  EXPECT_EQ(none.status, RowStatus::ok);
  EXPECT_EQ(none.tokens, (Tokens{0}));
  // Without replacement, token 1 cannot be drawn again as the second child.
  EXPECT_EQ(run({sure, bad, bad}, {flat, bad, bad}, {1, 1}, two, without).status,
            RowStatus::impossible_draft);
  // In this call the second child is accepted. At a leaf, the target's row is read and the draft's
  // row is not.
  const SpeculationOutcome second = run({sure, bad, flat}, {flat, bad, bad}, {1, 0}, two, without);
  EXPECT_EQ(second.status, RowStatus::ok);
  EXPECT_EQ(second.tokens, (Tokens{0, 0}));
  EXPECT_EQ(second.nodes, (Tokens{1}));
  EXPECT_EQ(run({flat, flat, bad}, {flat, flat, bad}, {0, 0}, chain, with).status,
            RowStatus::nan_input);
}

TEST(SpeculationModel, ANodeOfKnownDistributionHasOnlySoManyChildren) {
  for (const std::size_t children : {std::size_t{kMaxSiblings}, std::size_t{kMaxSiblings} + 1}) {
    const std::vector<IntegerRow> rows(children + 1, integer_model(std::vector<float>{0}, {}, {}));
    const Tokens drafted(children, 0), parents(children, -1);
    const std::vector<PositionWords> words(2);
    const auto run = [&](const TreeDraft& draft) {
      return accept_tree_model(rows, drafted, parents, words, 1, 1, draft).status;
    };
    EXPECT_EQ(run({}), RowStatus::ok);
    EXPECT_EQ(run({rows}),
              children > std::size_t{kMaxSiblings} ? RowStatus::invalid_draft_tree : RowStatus::ok);
  }
}

TEST(SpeculationModel, TreesNameWhatIsWrong) {
  const std::vector<IntegerRow> rows(3, integer_model(std::vector<float>{0, 0}, {}, {}));
  const std::vector<PositionWords> words(3);
  const auto run = [&](const Tokens& drafted, const Tokens& parents, std::size_t depth) {
    return accept_tree_model(rows, drafted, parents, words, 2, depth);
  };
  EXPECT_EQ(run({0, 2}, {-1, 0}, 2).status, RowStatus::index_out_of_range);
  EXPECT_EQ(run({0, 0}, {-1, 1}, 2).status, RowStatus::invalid_draft_tree);
  EXPECT_EQ(run({0, 0}, {-2, 0}, 2).status, RowStatus::invalid_draft_tree);
  EXPECT_EQ(run({0, 0}, {-1, 0}, 1).status, RowStatus::invalid_draft_length);
  const SpeculationOutcome both = run({0, 0}, {-1, -1}, 1);  // random words of 0 draw token 0
  EXPECT_EQ(both.tokens, (Tokens{0, 0}));
  EXPECT_EQ(both.nodes, (Tokens{0}));
  EXPECT_EQ(both.accepted, 1);
}

}  // namespace
}  // namespace fairdraw::reference
