#include "harness/statistics/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/statistics/tests/outcomes.h"

namespace fairdraw::statistics {
namespace {

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Pooling, ClosesACellWhenItsExpectedCountIsReached) {
  // With 1000 draws and at least 100 expected per cell, the cells are 0.5 alone, 0.2 alone, 0.09 +
  // 0.09, and 0.08 + 0.04, in order of size.
  const std::vector<double> distribution = {0.09, 0.5, 0.0, 0.08, 0.09, 0.2, 0.04};
  const Pooling pooling = pool_by_probability(distribution, 1000, 100);
  const std::vector<std::uint32_t> cells = {2, 0, kNoCell, 3, 2, 1, 3};
  EXPECT_EQ(pooling.cell_of, cells);
  ASSERT_EQ(pooling.probability.size(), 4U);
  EXPECT_LE(std::abs(pooling.probability[2] - 0.18), kRounding);
  EXPECT_LE(std::abs(pooling.smallest_expected - 120), 1000 * kRounding);
}

TEST(Pooling, ARestThatIsTooSmallJoinsTheLastCell) {
  const std::vector<double> distribution = {0.5, 0.3, 0.15, 0.05};
  const Pooling pooling = pool_by_probability(distribution, 100, 15);
  const std::vector<std::uint32_t> cells = {0, 1, 2, 2};
  EXPECT_EQ(pooling.cell_of, cells);
  EXPECT_LE(std::abs(pooling.smallest_expected - 20), 100 * kRounding);
}

TEST(Pooling, TiesGoByTokenId) {
  const std::vector<double> distribution(8, 0.125);
  const Pooling pooling = pool_by_probability(distribution, 8, 2);
  const std::vector<std::uint32_t> cells = {0, 0, 1, 1, 2, 2, 3, 3};
  EXPECT_EQ(pooling.cell_of, cells);
}

TEST(Pooling, TooFewDrawsMakeOneCell) {
  const Pooling pooling = pool_by_probability(zipf_distribution(100), 10, 400);
  EXPECT_EQ(pooling.probability.size(), 1U);
  EXPECT_EQ(pooling.probability[0], 1);
  EXPECT_EQ(pooling.smallest_expected, 10);
}

TEST(Pooling, EveryTokenMayHaveItsOwnCell) {
  const std::vector<double> distribution = {0.25, 0.5, 0.25};
  const Pooling pooling = pool_by_probability(distribution, 10, 0);
  const std::vector<std::uint32_t> cells = {1, 0, 2};
  EXPECT_EQ(pooling.cell_of, cells);
}

TEST(Pooling, CellsAreFullFewAndAddUpToOne) {
  for (const std::size_t vocab : {1U, 2U, 1000U, 131072U}) {
    const std::vector<double> distribution = zipf_distribution(vocab);
    for (const std::uint32_t max_cells : {0U, 1U, 2U, 32U}) {
      for (const std::uint64_t draws : {1000U, 1000000U}) {
        SCOPED_TRACE(testing::Message() << vocab << " " << max_cells << " " << draws);
        const Pooling pooling = pool_by_probability(distribution, draws, 400, max_cells);
        EXPECT_LE(std::abs(sum_of(pooling.probability) - 1), kRounding);
        if (max_cells != 0) {
          EXPECT_LE(pooling.probability.size(), max_cells);
        }
        EXPECT_GE(pooling.smallest_expected, 400);
        // The mass of a cell is the sum of its tokens' masses, and cells are in descending order of
        // their tokens' masses.
        std::vector<double> mass(pooling.probability.size(), 0.0);
        for (std::size_t i = 0; i < vocab; ++i) {
          ASSERT_LT(pooling.cell_of[i], mass.size());
          mass[pooling.cell_of[i]] += distribution[i];
          if (i > 0) {
            ASSERT_GE(pooling.cell_of[i], pooling.cell_of[i - 1]);
          }
        }
        for (std::size_t cell = 0; cell < mass.size(); ++cell) {
          EXPECT_LE(std::abs(mass[cell] - pooling.probability[cell]), kRounding);
        }
      }
    }
  }
}

TEST(Pooling, AFullSetOfCellsIsUsedWhereTheDistributionAllows) {
  // The largest of 131072 tokens of a Zipf distribution has 8% of the mass, which is more than
  // 1/32; the other tokens share cells.
  EXPECT_EQ(pool_by_probability(zipf_distribution(131072), 1000000, 400, 32).probability.size(),
            32U);
  const std::vector<double> flat(64, 0.015625);
  EXPECT_EQ(pool_by_probability(flat, 1000000, 400, 32).probability.size(), 32U);
}

TEST(Pooling, GroupsStayWhole) {
  const std::vector<double> distribution = zipf_distribution(4096);
  std::vector<std::uint32_t> lane(distribution.size());
  for (std::size_t i = 0; i < lane.size(); ++i) lane[i] = static_cast<std::uint32_t>(i % 128);
  const Pooling pooling = pool_by_group(distribution, lane, 1000000, 400);
  EXPECT_EQ(pooling.probability.size(), 128U);
  for (std::size_t i = 128; i < lane.size(); ++i) {
    ASSERT_EQ(pooling.cell_of[i], pooling.cell_of[i - 128]);
  }
  EXPECT_LE(std::abs(sum_of(pooling.probability) - 1), kRounding);
}

TEST(Pooling, CountsOutsideTheSupportAreKeptApart) {
  const std::vector<double> distribution = {0.5, 0.0, 0.25, 0.25};
  const Pooling pooling = pool_by_probability(distribution, 100, 30);
  const std::vector<std::uint64_t> counts = {7, 3, 2, 1};
  const PooledCounts pooled = pool_counts(pooling, counts);
  EXPECT_EQ(pooled.counts, (std::vector<std::uint64_t>{7, 3}));
  EXPECT_EQ(pooled.outside, 3U);
}

}  // namespace
}  // namespace fairdraw::statistics
