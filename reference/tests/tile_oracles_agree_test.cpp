// The model of tiles against the real-number oracle under kTileWeights: it may never contradict
// what that is sure of, and its distribution stays within the bound that the oracle states.
//
// Cannot see: a mistake that both share (the known answers are for that), and anything inside the
// ambiguous band, whose width the last test bounds from above.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "reference/real_oracle.h"
#include "reference/tests/compare_oracles.h"
#include "reference/tests/random_rows.h"
#include "reference/tile_bound.h"
#include "reference/tile_model.h"

namespace fairdraw::reference {
namespace {

constexpr float kOctaves = 0x1.715476p0F;  // temperature at which logits are octaves

std::string describe(RowKind kind, std::size_t vocab, const RowParameters& parameters) {
  return fmt::format("kind {} vocab {} temperature {} top_k {} top_p {} min_p {}",
                     static_cast<int>(kind), vocab, parameters.temperature, parameters.top_k,
                     parameters.top_p, parameters.min_p);
}

RealDistribution oracle(const std::vector<float>& logits, const RowParameters& parameters) {
  return real_oracle(logits, {}, parameters, *find_profile("fairdraw"), kTileWeights);
}

TEST(TileOraclesAgree, OnRowsOfLogits) {
  RandomRows random(1);
  const std::size_t vocabs[] = {1, 2, 17, 128, 255, 256, 257, 300, 1000, 2000};
  for (int i = 0; i < 20000; ++i) {
    const auto kind = static_cast<RowKind>(i % kRowKinds);
    const std::size_t vocab = vocabs[random.below(std::size(vocabs))];
    const std::vector<float> logits = random.logits(kind, vocab);
    const std::vector<std::uint32_t> allowed =
        random.chance(0.3) ? random.allowed(vocab) : std::vector<std::uint32_t>{};
    const RowParameters parameters = random.parameters(vocab);
    const TieRule ties = random.chance(0.3) ? TieRule::lowest_id : TieRule::keep_all;
    const FilterOrder order = random.chance(0.3) ? FilterOrder::joint : FilterOrder::top_k_first;
    const TileRow row = tile_model(logits, allowed, parameters, ties, order);
    const RealDistribution distribution =
        real_oracle(logits, allowed, parameters, fairdraw_semantics(ties, order), kTileWeights);
    ASSERT_EQ(contradiction(row, distribution), "")
        << "row " << i << ": " << describe(kind, vocab, parameters);
  }
}

// Within 32 octaves nothing is lost of a probability, so that the oracle decides every token, and
// equality at the boundary is tested.
TEST(TileOraclesAgree, OnRowsOfDyadicProbabilities) {
  RandomRows random(2);
  const std::size_t vocabs[] = {1, 2, 7, 33, 256, 257, 600};
  for (int i = 0; i < 10000; ++i) {
    const std::size_t vocab = vocabs[random.below(std::size(vocabs))];
    const std::vector<float> probs = random.probs(vocab, true);
    const RowParameters parameters = random.parameters(vocab);
    const FilterOrder order = random.chance(0.3) ? FilterOrder::joint : FilterOrder::top_k_first;
    const bool ties_at_1 = random.chance(0.3);
    const TileRow row = tile_model_from_probs(probs, parameters, order, ties_at_1);
    Semantics semantics = fairdraw_semantics(TieRule::keep_all, order);
    if (ties_at_1) semantics.top_k_one = TopKOne::filter;
    const RealDistribution distribution =
        real_oracle_from_probs(probs, parameters, semantics, false);
    ASSERT_EQ(contradiction(row, distribution), "")
        << "row " << i << ": " << describe(RowKind::smooth, vocab, parameters);
    ASSERT_EQ(distribution.support_low, distribution.support_high) << "row " << i;
    ASSERT_EQ(distribution.ambiguous_mass, 0) << "row " << i;
  }
}

TEST(TileOraclesAgree, OnVocabulariesOfEveryDay) {
  RandomRows random(3);
  for (int i = 0; i < kRowKinds; ++i) {
    const auto kind = static_cast<RowKind>(i);
    const std::vector<float> logits = random.logits(kind, 131072);
    RowParameters parameters = random.parameters(logits.size());
    parameters.temperature = 1;
    const TileRow row = tile_model(logits, {}, parameters);
    ASSERT_EQ(contradiction(row, oracle(logits, parameters)), "")
        << describe(kind, logits.size(), parameters);
  }
}

// A band that is too narrow would be seen: integers and real numbers do decide differently where
// float32's distance is next to the threshold of min_p, and the oracle has to say ambiguous.
TEST(TileOraclesAgree, AndRoundedDistancesAreInTheBandOfMinP) {
  RandomRows random(4);
  int different = 0;
  for (int i = 0; i < 5000; ++i) {
    const float temperature = 0.5F + random.unit();
    const float logit = -20 * random.unit();
    const double octaves =
        static_cast<double>(logit) / static_cast<double>(temperature) * 0x1.71547652b82fep0;
    RowParameters parameters;
    parameters.temperature = temperature;
    parameters.min_p = static_cast<float>(std::exp2(octaves));  // as near as float32 gets
    const std::vector<float> logits = {logit, 0};
    const TileRow row = tile_model(logits, {}, parameters);
    const RealDistribution distribution = oracle(logits, parameters);
    ASSERT_EQ(contradiction(row, distribution), "") << i;
    if ((row.mask[0] != 0) != (distribution.probability[0] > 0)) ++different;
  }
  EXPECT_GT(different, 0);
}

// Tiles that are 49 octaves below: nothing is left of 2^20 tokens, and the oracle allows for it.
TEST(TileOraclesAgree, AndLostTilesAreInTheBound) {
  std::vector<float> logits(static_cast<std::size_t>(kMaxVocab), -48.6F);
  std::fill_n(logits.begin(), kIdsOfATile, -100.0F);
  logits[1] = 0;
  const RowParameters parameters{.temperature = kOctaves};
  const TileRow row = tile_model(logits, {}, parameters);
  const RealDistribution distribution = oracle(logits, parameters);
  const double lost = static_cast<double>(logits.size() - kIdsOfATile) * std::exp2(-48.6);
  EXPECT_GT(total_variation(row, distribution), 0.99 * lost);
  EXPECT_EQ(contradiction(row, distribution), "");
}

// The band must be narrow, or nothing would be tested. At temperature 1 over 1000 tokens of
// N(0, 2^2) the band of top_p is below 2 * (2^-22 + 2^-24 ln 2 * 20 octaves) = 2.1e-6 of the mass
// to either side, and a token of the body holds about 1e-3 of it, so about one row in 250 has
// an ambiguous token; one in fifty is asked for.
TEST(TileOraclesAgree, AndFewTokensAreAmbiguous) {
  RandomRows random(5);
  const int rows = 400;
  int ambiguous = 0;
  for (int i = 0; i < rows; ++i) {
    RowParameters parameters;
    parameters.top_p = 0.25F + 0.5F * random.unit();
    parameters.top_k = 1 + static_cast<std::int32_t>(random.below(1000));
    const RealDistribution distribution = oracle(random.logits(RowKind::smooth, 1000), parameters);
    if (distribution.support_low != distribution.support_high || distribution.ambiguous_mass > 0)
      ++ambiguous;
  }
  EXPECT_LE(ambiguous, rows / 50);
}

}  // namespace
}  // namespace fairdraw::reference
