// Compares the two oracles: the integer model may never contradict a certain result of the
// real-number oracle, and the model's distribution must stay within the oracle's bound.
//
// These tests cannot detect mistakes that both oracles share (the known answers can), and errors
// inside the ambiguous band, whose width the last test bounds.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "reference/integer_model.h"
#include "reference/real_oracle.h"
#include "reference/tests/compare_oracles.h"
#include "reference/tests/random_rows.h"

namespace fairdraw::reference {
namespace {

// CI uses one fixed seed; the variable RC_PARAMS sets other seeds.
const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20240607 max_success=20000", 0) == 0;

std::string describe(RowKind kind, std::size_t vocab, const RowParameters& parameters) {
  return fmt::format("kind {} vocab {} temperature {} top_k {} top_p {} min_p {}",
                     static_cast<int>(kind), vocab, parameters.temperature, parameters.top_k,
                     parameters.top_p, parameters.min_p);
}

TieRule random_ties(RandomRows& random) {
  return random.chance(0.3) ? TieRule::lowest_id : TieRule::keep_all;
}
FilterOrder random_order(RandomRows& random) {
  return random.chance(0.3) ? FilterOrder::joint : FilterOrder::top_k_first;
}

TEST(OraclesAgree, OnRowsOfLogits) {
  RandomRows random(1);
  const std::size_t vocabs[] = {1, 2, 3, 5, 17, 128, 129, 255, 256, 257, 300, 1000, 2000};
  for (int i = 0; i < 30000; ++i) {
    const auto kind = static_cast<RowKind>(i % kRowKinds);
    const std::size_t vocab = vocabs[random.below(std::size(vocabs))];
    const std::vector<float> logits = random.logits(kind, vocab);
    const std::vector<std::uint32_t> allowed =
        random.chance(0.3) ? random.allowed(vocab) : std::vector<std::uint32_t>{};
    const RowParameters parameters = random.parameters(vocab);
    const TieRule ties = random_ties(random);
    const FilterOrder order = random_order(random);
    const IntegerRow row = integer_model(logits, allowed, parameters, ties, order);
    const RealDistribution distribution =
        real_oracle(logits, allowed, parameters, fairdraw_semantics(ties, order));
    ASSERT_EQ(contradiction(row, distribution), "")
        << "row " << i << ": " << describe(kind, vocab, parameters);
  }
}

TEST(OraclesAgree, OnRowsOfProbabilities) {
  RandomRows random(2);
  const std::size_t vocabs[] = {1, 2, 3, 7, 33, 128, 500};
  for (int i = 0; i < 20000; ++i) {
    const std::size_t vocab = vocabs[random.below(std::size(vocabs))];
    const bool dyadic = random.chance(0.5);
    const std::vector<float> probs = random.probs(vocab, dyadic);
    const RowParameters parameters = random.parameters(vocab);
    const FilterOrder order = random_order(random);
    const bool ties_at_1 = random.chance(0.3);
    const IntegerRow row = integer_model_from_probs(probs, parameters, order, ties_at_1);
    Semantics semantics = fairdraw_semantics(TieRule::keep_all, order);
    if (ties_at_1) semantics.top_k_one = TopKOne::filter;
    const RealDistribution distribution = real_oracle_from_probs(probs, parameters, semantics);
    ASSERT_EQ(contradiction(row, distribution), "")
        << "row " << i << ": " << describe(RowKind::smooth, vocab, parameters);
    if (dyadic) {  // every token is decided in this case, even at the boundary
      ASSERT_EQ(distribution.support_low, distribution.support_high) << "row " << i;
      ASSERT_EQ(distribution.ambiguous_mass, 0) << "row " << i;
    }
  }
}

TEST(OraclesAgree, OnVocabulariesOfEveryDay) {
  RandomRows random(3);
  for (int i = 0; i < 2 * kRowKinds; ++i) {
    const auto kind = static_cast<RowKind>(i % kRowKinds);
    const std::size_t vocab = i < kRowKinds ? 32000 : 131072;
    const std::vector<float> logits = random.logits(kind, vocab);
    RowParameters parameters = random.parameters(vocab);
    parameters.temperature = 1;
    const IntegerRow row = integer_model(logits, {}, parameters);
    const RealDistribution distribution =
        real_oracle(logits, {}, parameters, *find_profile("fairdraw"));
    ASSERT_EQ(contradiction(row, distribution), "") << describe(kind, vocab, parameters);
  }
}

// Values come from a short list, so that ties, masses at the boundary and failing rows are common;
// RapidCheck shrinks the failures that it finds.
TEST(OraclesAgree, OnWhateverRapidCheckFinds) {
  ASSERT_TRUE(kSeedIsFixed);
  const bool holds = rc::check("the integer model never contradicts the real-number oracle", [] {
    const float infinity = std::numeric_limits<float>::infinity();
    const auto logit = rc::gen::weightedElement<float>({{20, 0.0F},
                                                        {5, -0.0F},
                                                        {20, -1.0F},
                                                        {20, 1.0F},
                                                        {10, -17.25F},
                                                        {10, 3.0F},
                                                        {5, 0x1p-149F},
                                                        {5, -3e38F},
                                                        {10, -infinity},
                                                        {1, infinity},
                                                        {1, std::nanf("")}});
    const auto logits = *rc::gen::container<std::vector<float>>(logit);
    const auto unit = rc::gen::element(0.0F, 1.0F, 0.5F, 0.25F, 0x1p-149F, 1 - 0x1p-24F, 0.75F,
                                       -0.5F, 1.5F, std::nanf(""));
    RowParameters parameters;
    parameters.temperature =
        *rc::gen::element(1.0F, 0.0F, 0x1.715476p0F, 0x1p-126F, 0x1p64F, -1.0F, 0x1p65F);
    parameters.top_k = *rc::gen::inRange(-2, 12);
    parameters.top_p = *unit;
    parameters.min_p = *unit;
    const auto ties = *rc::gen::element(TieRule::keep_all, TieRule::lowest_id);
    const auto order = *rc::gen::element(FilterOrder::top_k_first, FilterOrder::joint);
    const IntegerRow row = integer_model(logits, {}, parameters, ties, order);
    const RealDistribution distribution =
        real_oracle(logits, {}, parameters, fairdraw_semantics(ties, order));
    RC_LOG() << contradiction(row, distribution);
    RC_ASSERT(contradiction(row, distribution).empty());
  });
  EXPECT_TRUE(holds);
}

// The next two tests find rows on which the integers and real arithmetic really decide differently.
// On these rows the real-number oracle must say `ambiguous`, so the error band around the boundary
// is needed.

struct Scaled {
  float logit, temperature;
  double octaves, error;  // distance to a logit of 0, and its error by the rounded scale
};

Scaled scaled(float logit, float temperature) {
  const double scale = octaves_per_logit(temperature);
  const double octaves =
      static_cast<double>(logit) / static_cast<double>(temperature) * 0x1.71547652b82fep0;
  return {logit, temperature, octaves, static_cast<double>(logit) * scale - octaves};
}

TEST(OraclesAgree, AndARoundedScaleIsInTheBandOfTopP) {
  // The row has a maximum, and 2^19 equal tokens 19 octaves below it that have half of the mass, at
  // the temperature with the largest error of the distance.
  RandomRows random(7);
  Scaled worst{};
  for (int i = 0; i < 20000; ++i) {
    const float temperature = 0.5F + random.unit();
    const Scaled tail = scaled(-13.1697965F * temperature, temperature);
    if (std::abs(tail.error) > std::abs(worst.error)) worst = tail;
  }
  std::vector<float> logits((std::size_t{1} << 19) + 1, worst.logit);
  logits[5] = 0;
  RowParameters parameters;
  parameters.temperature = worst.temperature;
  const IntegerRow unfiltered = integer_model(logits, {}, parameters);
  const double integer_boundary =
      static_cast<double>(unfiltered.weight[5]) / static_cast<double>(unfiltered.total);
  const double real_boundary = 1 / (1 + 0x1p19 * std::exp2(worst.octaves));
  // The rest of the bound, 2^-22 of the tail's mass, moves the boundary by a quarter of that
  // distance.
  ASSERT_GT(std::abs(integer_boundary - real_boundary), 0x1p-23);
  parameters.top_p = static_cast<float>((integer_boundary + real_boundary) / 2);
  const IntegerRow row = integer_model(logits, {}, parameters);
  const RealDistribution distribution =
      real_oracle(logits, {}, parameters, *find_profile("fairdraw"));
  EXPECT_NE(row.mask[0] != 0, distribution.probability[0] > 0);
  EXPECT_EQ(distribution.membership[0], Membership::ambiguous);
}

TEST(OraclesAgree, AndRoundedDistancesAreInTheBandOfMinP) {
  RandomRows random(8);
  int different = 0;
  for (int i = 0; i < 5000; ++i) {
    const float temperature = 0.5F + random.unit();
    const Scaled tail = scaled(-20 * random.unit(), temperature);
    RowParameters parameters;
    parameters.temperature = temperature;
    parameters.min_p = static_cast<float>(std::exp2(tail.octaves));  // the closest float32
    const std::vector<float> logits = {tail.logit, 0};
    const IntegerRow row = integer_model(logits, {}, parameters);
    const RealDistribution distribution =
        real_oracle(logits, {}, parameters, *find_profile("fairdraw"));
    ASSERT_EQ(contradiction(row, distribution), "") << i;
    if ((row.mask[0] != 0) != (distribution.probability[0] > 0)) ++different;
  }
  EXPECT_GT(different, 0);
}

// Tiles that are 49 octaves below the first lose the weights of all 2^20 tokens, and the oracle's
// bound covers this loss.
TEST(OraclesAgree, AndLostTilesAreInTheBound) {
  std::vector<float> logits(static_cast<std::size_t>(kMaxVocab), -48.6F);
  std::fill_n(logits.begin(), kIdsOfATile, -100.0F);
  logits[1] = 0;
  const RowParameters parameters{.temperature = 0x1.715476p0F};
  const IntegerRow row = integer_model(logits, {}, parameters);
  const RealDistribution distribution =
      real_oracle(logits, {}, parameters, *find_profile("fairdraw"));
  const double lost = static_cast<double>(logits.size() - kIdsOfATile) * std::exp2(-48.6);
  EXPECT_GT(total_variation(row, distribution), 0.99 * lost);
  EXPECT_EQ(contradiction(row, distribution), "");
}

// Counts the rows with an ambiguous token among `rows` rows of 1000 logits from N(0, 2^2).
int ambiguous_rows(int rows, const WeightBound& bound) {
  RandomRows random(5);
  int ambiguous = 0;
  for (int i = 0; i < rows; ++i) {
    RowParameters parameters;
    parameters.top_p = 0.25F + 0.5F * random.unit();
    parameters.min_p = 0.01F * random.unit();
    parameters.top_k = 1 + static_cast<std::int32_t>(random.below(1000));
    const RealDistribution distribution = real_oracle(random.logits(RowKind::smooth, 1000), {},
                                                      parameters, *find_profile("fairdraw"), bound);
    if (distribution.support_low != distribution.support_high || distribution.ambiguous_mass > 0)
      ++ambiguous;
  }
  return ambiguous;
}

// The ambiguous band must be narrow, because the oracle tests nothing inside it. For logits from
// N(0, 2^2), the 23 largest of 1000 tokens have half of the mass, and the token at which half is
// reached has 7e-3 of the mass.
//   top_p  The mass F in front and the rest R = 1 - F are off by their share of the weights' error,
//          e = 2^-22 + 2^-24 ln 2 * 4 octaves = 4e-7, and so the margin by 2 p (1 - p) e = e / 2:
//          one row in 17000 at p = 1/2, one in 6000 at p = 3/4.
//   min_p  The threshold is some 8 octaves below the maximum and off by 3 * 2^-24 of that. If an
//          octave has 100 tokens that is one row in 3500, but top_p ends before in most of them.
// So about one ambiguous row in 4000 is expected; the test allows 4. A band 256 times as wide,
// 2^-14 of a weight, makes too many rows ambiguous.
TEST(OraclesAgree, AndFewTokensAreAmbiguous) {
  constexpr int kRows = 4000, kFew = 4;
  WeightBound bound;
  EXPECT_LE(ambiguous_rows(kRows, bound), kFew);
  bound.constant *= 256;
  bound.per_octave *= 256;
  bound.min_p_distance *= 256;
  EXPECT_GT(ambiguous_rows(kRows, bound), kFew);
}

}  // namespace
}  // namespace fairdraw::reference
