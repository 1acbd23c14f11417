// Compares the bound of tile_bound.h with the integer model, for each token and in total variation,
// on rows of every kind up to the largest vocabulary. A test of the kernels,
// tile_distribution_test, measures the bound on rows of a language model.
//
// This test cannot detect errors below 2^-50 of a weight, which is the error of its own real
// arithmetic.
#include "reference/tile_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "reference/integer_model.h"
#include "reference/tests/random_rows.h"
#include "reference/tests/tile_distance.h"

namespace fairdraw::reference {
namespace {

constexpr float kOctaves = 0x1.715476p0F;  // at this temperature logits are octaves
constexpr auto kMax = static_cast<std::size_t>(kMaxVocab);

void expect_within(const TileDistance& seen, std::size_t vocab) {
  EXPECT_EQ(seen.out_of_band, 0U) << describe(seen);
  EXPECT_LE(seen.distance, seen.bound) << describe(seen);
  EXPECT_LE(seen.distance, seen.mean_error + 2 * seen.own_error) << describe(seen);
  EXPECT_LE(seen.bound, largest_tile_distribution_error(vocab)) << describe(seen);
}

TEST(TileBound, IsBelowAMillionthForEveryVocabulary) {
  EXPECT_LT(largest_tile_distribution_error(kMax) + word_distribution_error(kMax), 3.5e-7);
  EXPECT_LT(largest_tile_distribution_error(131072), 3.1e-7);
  for (std::size_t vocab = 1; vocab < kMax; vocab *= 2) {
    EXPECT_LT(largest_tile_distribution_error(vocab), largest_tile_distribution_error(2 * vocab));
  }
}

// Returns the quantity D of the bound, in closed form, for the rows where D is largest: V - 1 equal
// tokens of total mass a below a maximum of mass 1 have D = a / (1 + a)^2 log2((V - 1) / a). No row
// has a larger D than the bound states.
double deviation(std::size_t vocab, double mass) {
  return mass / ((1 + mass) * (1 + mass)) * std::log2(static_cast<double>(vocab - 1) / mass);
}

TEST(TileBound, LargestDeviationIsThatOfEqualTokensBelowAMaximum) {
  for (const std::size_t vocab : {std::size_t{2}, std::size_t{1000}, kMax}) {
    const double stated = std::log2(static_cast<double>(vocab)) / 4 + 1.0 / 3;
    double largest = 0;
    for (double mass = 0x1p-6; mass < 64; mass *= 1.01) {
      largest = std::max(largest, deviation(vocab, mass));
    }
    EXPECT_LE(largest, stated);
    EXPECT_GT(largest, stated - 1.0 / 3);  // for a = 1, D is a quarter of log2(V - 1)
  }
}

TEST(TileBound, HoldsOnRowsOfEveryKind) {
  RandomRows random(1);
  for (int i = 0; i < 30 * kRowKinds; ++i) {
    const auto kind = static_cast<RowKind>(i % kRowKinds);
    if (kind == RowKind::masked) continue;  // banned tokens have no distance to the maximum
    const std::size_t vocab = 1 + random.below(2000);
    const float temperatures[] = {1, 0.1F, 0.7F, 1.3F, 30, kOctaves, 0x1p-126F, 0x1p64F};
    const float temperature = temperatures[random.below(std::size(temperatures))];
    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " at " << temperature);
    expect_within(distance_to_softmax(random.logits(kind, vocab), temperature), vocab);
  }
}

TEST(TileBound, HoldsOnTheLargestVocabulary) {
  RandomRows random(2);
  for (const RowKind kind : {RowKind::smooth, RowKind::flat, RowKind::peaked}) {
    SCOPED_TRACE(static_cast<int>(kind));
    expect_within(distance_to_softmax(random.logits(kind, kMax), 0.7F), kMax);
  }
  // These rows have only equal tokens, or span 100 octaves.
  expect_within(distance_to_softmax(std::vector<float>(kMax, -1234.5F), 0.7F), kMax);
  std::vector<float> wide(kMax);
  for (float& x : wide) x = -100 * random.unit();
  expect_within(distance_to_softmax(wide, kOctaves), kMax);
}

// The test uses the row of the largest deviation, at a temperature where the scale c is off by
// almost half an ulp of a float just above a power of two. The bound is close to the distance on
// this row.
TEST(TileBound, IsNearOnTheRowThatIsMadeForIt) {
  RandomRows random(3);
  float worst = 1;
  double largest = 0;
  for (int i = 0; i < 20000; ++i) {
    const float temperature = 1.4F + 0.04F * random.unit();
    const double exact = 0x1.71547652b82fep0 / static_cast<double>(temperature);
    const double error = std::abs(static_cast<double>(octaves_per_logit(temperature)) / exact - 1);
    if (error > largest) worst = temperature;
    largest = std::max(largest, error);
  }
  ASSERT_GT(largest, 0.99 * 0x1p-24);
  const double mass = 0.85;  // mass of the V - 1 tokens at which D is largest, to two digits
  const double octaves = std::log2(static_cast<double>(kMax - 1) / mass);
  std::vector<float> logits(kMax, static_cast<float>(-octaves * std::log(2.0)) * worst);
  logits[0] = 0;
  const TileDistance seen = distance_to_softmax(logits, worst);
  expect_within(seen, kMax);
  // The error of the scale c appears in full in the distance. The other errors of a weight are at
  // most 2^-22, once for each of the two kinds of token.
  EXPECT_NEAR(seen.distance, std::log(2.0) * largest * deviation(kMax, mass),
              0x1p-22 * 2 * mass / ((1 + mass) * (1 + mass)));
  EXPECT_GT(seen.distance, seen.bound / 2);
}

TEST(TileBound, HoldsWhereTilesAreLost) {
  // Every tile except the first is 48.6 octaves below the first, which is rounded to 49. All mass
  // of these tiles is lost, which is almost half of the V 2^-48 that the bound allows.
  std::vector<float> logits(kMax, -48.6F);
  std::fill_n(logits.begin(), kIdsOfATile, -100.0F);
  logits[3] = 0;
  const TileDistance seen = distance_to_softmax(logits, kOctaves);
  expect_within(seen, kMax);
  const double lost = static_cast<double>(kMax - kIdsOfATile) * std::exp2(-48.6);
  EXPECT_GT(lost, 0.6 * static_cast<double>(kMax) * 0x1p-48);
  // In the integer model only the maximum has mass. The octaves in float32 and the temperature are
  // off by 2^-23 of the distance.
  EXPECT_NEAR(seen.distance, lost, 48.6 * 0x1p-22 * lost + seen.own_error);
}

TEST(TileBound, HoldsOnProbabilities) {
  RandomRows random(4);
  for (int i = 0; i < 200; ++i) {
    const std::size_t vocab = 1 + random.below(2000);
    // The rows are scaled by 1 to 2^-120, normalised or not; the smallest values are subnormal.
    const int shift = -static_cast<int>(random.below(30));
    std::vector<float> probs(vocab);
    for (float& p : probs)
      p = std::ldexp(1 + random.unit(), shift - static_cast<int>(random.below(120)));
    const TileDistance seen = distance_to_probs(probs);
    EXPECT_EQ(seen.out_of_band, 0U) << describe(seen);
    // The distance of a row of one token is 0, but the test's logarithms have a rounding error.
    EXPECT_LE(seen.distance, seen.bound + seen.own_error) << describe(seen);
  }
}

TEST(TileBound, OfProbabilitiesIsZeroWithin32Octaves) {
  RandomRows random(5);
  std::vector<float> probs(5000);
  for (float& p : probs) p = std::ldexp(1 + random.unit(), -static_cast<int>(random.below(32)));
  const IntegerRow row = integer_model_from_probs(probs, {});
  for (std::size_t id = 0; id < probs.size(); ++id) {
    const double exact = std::ldexp(static_cast<double>(probs[id]), 103);  // E is 0
    ASSERT_EQ(row.octave, 0);
    ASSERT_TRUE(row.weight[id] == static_cast<RowWeight>(exact)) << id;
  }
}

// The probabilities of a row are reported with a stated error down to float32's smallest number,
// also for tokens whose weight in the tile is 0. The test computes softmax in 113 bits.
TEST(TileBound, OfWrittenProbabilitiesHoldsDownToTheSmallest) {
  using Quad = boost::multiprecision::cpp_bin_float_quad;
  RandomRows random(7);
  int without_weight = 0, subnormal = 0;
  double nearest = 0;  // largest error, as a fraction of its bound
  for (int i = 0; i < 60; ++i) {
    const std::size_t vocab = 2 + random.below(800);
    const float temperatures[] = {1, 0.1F, 0.7F, 1.41F, 30, kOctaves};
    const float temperature = temperatures[random.below(std::size(temperatures))];
    const float shift = random.chance(0.5) ? 0 : 3000 * random.unit();
    std::vector<float> logits(vocab);
    for (float& x : logits) x = (shift - 115 * random.unit()) * temperature;
    const IntegerRow row = integer_model(logits, {}, {.temperature = temperature});
    const float largest = *std::ranges::max_element(logits);
    std::vector<Quad> exact;
    Quad sum = 0;
    for (const float x : logits) {
      exact.push_back(exp((Quad(x) - Quad(largest)) / Quad(temperature)));
      sum += exact.back();
    }
    for (std::size_t id = 0; id < vocab; ++id) {
      const auto octaves = static_cast<double>(-log(exact[id]) / log(Quad(2)));
      const Quad softmax = exact[id] / sum;
      const float written = row.probability(static_cast<std::int32_t>(id));
      const double allowed = written_error(octaves, vocab) * static_cast<double>(softmax);
      const double most = static_cast<double>(softmax) + allowed;
      const auto error = static_cast<double>(abs(Quad(written) - softmax));
      ASSERT_LE(error, allowed + std::max(most * 0x1p-24, 0x1p-150))
          << written << " of " << static_cast<double>(softmax) << ", " << octaves << " octaves";
      without_weight += row.weight[id] == 0 && written > 0 ? 1 : 0;
      subnormal += written > 0 && written < 0x1p-126F ? 1 : 0;
      if (softmax > 0x1p-100) nearest = std::max(nearest, error / allowed);
    }
  }
  EXPECT_GT(without_weight, 1000);
  EXPECT_GT(subnormal, 1000);
  EXPECT_GT(nearest, 0.25);  // a bound far above every error would say little
}

// The test checks the bound's own arithmetic by computing the same row in 113 bits.
TEST(TileBound, AgreesWithQuadruplePrecision) {
  using Quad = boost::multiprecision::cpp_bin_float_quad;
  RandomRows random(6);
  const std::vector<float> logits = random.logits(RowKind::smooth, 3000);
  const float temperature = 0.7F;
  const IntegerRow row = integer_model(logits, {}, {.temperature = temperature});
  const Quad total = Quad(static_cast<std::uint64_t>(row.total >> 64)) * pow(Quad(2), 64) +
                     static_cast<std::uint64_t>(row.total);
  std::vector<Quad> softmax;
  Quad sum = 0;
  for (const float logit : logits) {
    softmax.push_back(exp(Quad(logit) / Quad(temperature)));
    sum += softmax.back();
  }
  Quad twice = 0;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const Quad weight = Quad(static_cast<std::uint64_t>(row.weight[id] >> 64)) * pow(Quad(2), 64) +
                        static_cast<std::uint64_t>(row.weight[id]);
    twice += abs(weight / total - softmax[id] / sum);
  }
  const TileDistance seen = distance_to_softmax(logits, temperature);
  EXPECT_NEAR(seen.distance, static_cast<double>(twice / 2), seen.own_error);
  EXPECT_GT(seen.distance, 1000 * seen.own_error);  // otherwise the check above would prove nothing
}

}  // namespace
}  // namespace fairdraw::reference
