// Compares the bounds on float32 samplers with emulations of such samplers: with sums one after
// another, in a tree and in blocks, and with an exponential that is off by up to two ulps. No
// emulation may leave the oracle's bounds, and a sampler that sums in bfloat16 must leave them.
#include "reference/float32_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <vector>

#include "reference/tests/random_rows.h"

namespace fairdraw::reference {
namespace {

using Floats = std::vector<float>;
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = 8;

enum class Order { sequential, tree, blocked, bfloat16 };

std::size_t additions(Order order, std::size_t n) {
  switch (order) {
    case Order::tree:
      return tree_additions(n);
    case Order::blocked:
      return blocked_additions(n, kBlock);
    default:
      return sequential_additions(n);
  }
}

float rounded_to_bfloat16(float value) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x8000U) & 0xffff0000U);
}

float sum(const float* first, const float* last, Order order) {
  const auto n = static_cast<std::size_t>(last - first);
  if (n == 0) return 0;
  float total = 0;
  switch (order) {
    case Order::tree: {
      if (n == 1) return *first;
      const std::size_t half = std::bit_ceil(n) / 2;
      return sum(first, first + half, order) + sum(first + half, last, order);
    }
    case Order::blocked:
      for (const float* begin = first; begin < last; begin += kBlock) {
        const float* const end = begin + std::min<std::ptrdiff_t>(kBlock, last - begin);
        total += sum(begin, end, Order::sequential);
      }
      return total;
    case Order::sequential:
      for (const float* value = first; value < last; ++value) total += *value;
      return total;
    case Order::bfloat16:
      for (const float* value = first; value < last; ++value) {
        total = rounded_to_bfloat16(total + *value);
      }
      return total;
  }
  return total;
}

float sum(const Floats& values, Order order) {
  return sum(values.data(), values.data() + values.size(), order);
}

// Returns an exponential that is off by -2 to 2 ulps of the correctly rounded value, including
// rounding. The error is the same for the same argument, and not monotone. exp(0) is exactly 1, as
// in all samplers.
float exponential(float z) {
  const auto exact = static_cast<float>(std::exp(static_cast<double>(z)));
  if (z == 0 || exact < std::numeric_limits<float>::min()) return z == 0 ? 1.0F : 0.0F;
  const std::uint32_t hash = std::bit_cast<std::uint32_t>(z) * 2654435761U;
  const int steps = static_cast<int>(hash >> 30) - 1;  // -1 to 2; half an ulp is left for rounding
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(exact) +
                              static_cast<std::uint32_t>(std::min(steps, 1)));
}

Floats softmax(const Floats& logits, float temperature, Order order) {
  Floats p(logits.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = logits[i] / temperature;
  const float largest = *std::max_element(p.begin(), p.end());
  for (float& value : p) value = exponential(value - largest);
  const float total = sum(p, order);
  for (float& value : p) value /= total;
  return p;
}

// Applies min_p to the probabilities, then top_p to the mass of strictly larger probabilities.
std::vector<bool> kept(const Floats& logits, const RowParameters& parameters, Order order) {
  const Floats p = softmax(logits, parameters.temperature, order);
  const float largest = *std::max_element(p.begin(), p.end());
  Floats left = p;
  if (parameters.min_p > 0) {
    Floats masked = logits;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] < parameters.min_p * largest) masked[i] = kMasked;
    }
    left = softmax(masked, parameters.temperature, order);
  }
  Floats sorted = left;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::vector<bool> result(p.size(), false);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto above = std::lower_bound(sorted.begin(), sorted.end(), left[i], std::greater<>());
    const float mass = sum(sorted.data(), sorted.data() + (above - sorted.begin()), order);
    result[i] = left[i] > 0 && (mass < parameters.top_p || parameters.top_p == 1);
  }
  return result;
}

bool contradicts(const std::vector<bool>& mask, const RealDistribution& distribution) {
  for (std::size_t id = 0; id < mask.size(); ++id) {
    const Membership membership = distribution.membership[id];
    if (membership == Membership::ambiguous) continue;
    // The mask may lack a token that float32 flushes to zero.
    if (membership == Membership::in && !mask[id] && distribution.probability[id] < 0x1p-124)
      continue;
    if (mask[id] != (membership == Membership::in)) return true;
  }
  return false;
}

// Returns the semantics of the sampler `kept`, with the bounds for its order of additions.
Semantics semantics_of(Order order, std::size_t vocab) {
  Semantics semantics = *find_profile("fairdraw");
  semantics.greedy_ties = GreedyTies::any;
  return in_float32(semantics, {.exp_ulps = 2, .additions = additions(order, vocab)});
}

struct RandomRow {
  Floats logits;
  RowParameters parameters;
  RowKind kind = RowKind::smooth;
};

RandomRow random_row(RandomRows& random, std::size_t vocab) {
  constexpr RowKind kinds[] = {RowKind::smooth,  RowKind::tied, RowKind::peaked, RowKind::masked,
                               RowKind::octaves, RowKind::flat, RowKind::close,  RowKind::shifted};
  RandomRow row;
  row.kind = kinds[random.below(std::size(kinds))];
  do {
    row.logits = random.logits(row.kind, vocab);
  } while (*std::max_element(row.logits.begin(), row.logits.end()) == kMasked);
  const float temperatures[] = {1, 0.7F, 1.9F, 0x1.715476p0F};
  row.parameters.temperature = temperatures[random.below(std::size(temperatures))];
  const float edges[] = {0.5F, 0.75F, 0.9F, 1 - 0x1p-24F, 0.95F};
  row.parameters.top_p =
      random.chance(0.5) ? edges[random.below(std::size(edges))] : 0x1p-24F + random.unit();
  row.parameters.top_p = std::min(row.parameters.top_p, 1.0F);
  if (random.chance(0.3)) row.parameters.min_p = 0.3F * random.unit();
  return row;
}

constexpr std::size_t kVocabs[] = {2, 3, 8, 17, 33, 64};
constexpr int kRows = 120'000;

RealDistribution distribution_for(const RandomRow& row, Order order) {
  return real_oracle(row.logits, {}, row.parameters, semantics_of(order, row.logits.size()),
                     kFloat32Weights);
}

TEST(Float32Bound, NoEmulationLeavesTheOracle) {
  RandomRows random(31);
  std::array<int, kRowKinds> rows{}, ambiguous{};
  for (int i = 0; i < kRows; ++i) {
    const RandomRow row = random_row(random, kVocabs[random.below(std::size(kVocabs))]);
    const Order order = std::array{Order::sequential, Order::tree, Order::blocked}[random.below(3)];
    const RealDistribution distribution = distribution_for(row, order);
    ASSERT_TRUE(distribution.defined);
    ASSERT_FALSE(contradicts(kept(row.logits, row.parameters, order), distribution))
        << "row " << i << " kind " << static_cast<int>(row.kind) << " vocab " << row.logits.size()
        << " order " << static_cast<int>(order) << " T " << row.parameters.temperature << " top_p "
        << row.parameters.top_p << " min_p " << row.parameters.min_p;
    ++rows[static_cast<std::size_t>(row.kind)];
    if (distribution.ambiguous_mass > 0) ++ambiguous[static_cast<std::size_t>(row.kind)];
  }
  const char* const names[] = {"smooth", "tied", "peaked",  "masked", "subnormal",
                               "huge",   "flat", "octaves", "close",  "shifted"};
  for (std::size_t kind = 0; kind < rows.size(); ++kind) {
    if (rows[kind] == 0) continue;
    std::printf("%8s: %5d rows, ambiguous %.2e\n", names[kind], rows[kind],
                static_cast<double>(ambiguous[kind]) / rows[kind]);
  }
}

TEST(Float32Bound, SumsInBfloat16DoLeaveIt) {
  RandomRows random(32);
  int outside = 0;
  for (int i = 0; i < 2000; ++i) {
    const RandomRow row = random_row(random, 64);
    const RealDistribution distribution = distribution_for(row, Order::sequential);
    outside += contradicts(kept(row.logits, row.parameters, Order::bfloat16), distribution) ? 1 : 0;
  }
  EXPECT_GT(outside, 100);
}

// Prefix sums in the order of ids, divided by their total, are the ends of the intervals of a draw.
TEST(Float32Bound, IntervalsEndWithinTheirError) {
  RandomRows random(33);
  double largest = 0;
  for (int i = 0; i < 30'000; ++i) {
    RandomRow row = random_row(random, kVocabs[random.below(std::size(kVocabs))]);
    row.parameters.top_p = 1;
    row.parameters.min_p = 0;
    const Order order = std::array{Order::sequential, Order::tree, Order::blocked}[random.below(3)];
    const RealDistribution distribution = distribution_for(row, order);
    const double error = interval_error(distribution, semantics_of(order, row.logits.size()));
    const Floats p = softmax(row.logits, row.parameters.temperature, order);
    const float total = sum(p, order);
    long double exact = 0;
    for (std::size_t j = 0; j < p.size(); ++j) {
      exact += distribution.probability[j];
      const float end = sum(p.data(), p.data() + j + 1, order) / total;
      const double distance = static_cast<double>(std::abs(static_cast<long double>(end) - exact));
      ASSERT_LE(distance, error) << "row " << i << " id " << j;
      largest = std::max(largest, distance / error);
    }
  }
  std::printf("largest distance of an end: %.3f of its bound\n", largest);
  EXPECT_GT(largest, 0.01);  // otherwise the test would not test the bound
}

// This row is the worst case of a sum: 1 + u + u + ... with u = 2^-24 stays 1, so the sum loses
// every addition. The bound allows for 2 k + 2 rounding factors and only k of them act here, so the
// bound is at most 4 times the error, times 1 / (1 - 8194 u).
TEST(Float32Bound, SumsComeNearTheirError) {
  for (const std::size_t n : {std::size_t{2}, std::size_t{65}, std::size_t{4097}}) {
    Floats values(n, 0x1p-24F);
    values[0] = 1;
    const double exact = 1 + static_cast<double>(n - 1) * 0x1p-24;
    const double lost = exact - static_cast<double>(sum(values, Order::sequential));
    EXPECT_EQ(lost, static_cast<double>(n - 1) * 0x1p-24);
    const double bound = sum_error({.additions = sequential_additions(n)});
    EXPECT_LE(lost, bound * exact);
    EXPECT_LE(bound, 4 * (1 + 0x1p-10) * lost);
  }
}

TEST(Float32Bound, CountsAdditions) {
  EXPECT_EQ(sequential_additions(0), 0U);
  EXPECT_EQ(sequential_additions(5), 4U);
  EXPECT_EQ(tree_additions(1), 0U);
  EXPECT_EQ(tree_additions(5), 3U);
  EXPECT_EQ(tree_additions(8), 3U);
  EXPECT_EQ(blocked_additions(8, 8), 7U);
  EXPECT_EQ(blocked_additions(65, 8), 7U + 8U);
  EXPECT_EQ(weight_error({.exp_ulps = 2}), 5 * 0x1p-24 / (1 - 5 * 0x1p-24));
  EXPECT_EQ(sum_error({.additions = 3}), 8 * 0x1p-24 / (1 - 8 * 0x1p-24));
  EXPECT_THROW(sum_error({.additions = std::size_t{1} << 22}), std::invalid_argument);
}

}  // namespace
}  // namespace fairdraw::reference
