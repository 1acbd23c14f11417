// Compares the error band of top_p with the extremes that a sampler can reach, on rows of two
// groups of tokens of known mass and error, so that the range of boundaries is a fraction.
#include "reference/real_filters.h"

#include <gtest/gtest.h>

namespace fairdraw::reference {
namespace {

struct Group {
  double weight, error;
};

RankedWeights row_of(const std::vector<Group>& groups, double sum_slack = 0) {
  RankedWeights row;
  row.weight = Eigen::ArrayXd(static_cast<Eigen::Index>(groups.size()));
  row.tie_error = Eigen::ArrayXd::Zero(row.weight.size());
  row.sampler_slack = sum_slack;
  row.mass = {0};
  row.mass_error = {0};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    row.id.push_back(static_cast<std::int32_t>(i));
    row.value.push_back(-static_cast<float>(i));
    row.weight[static_cast<Eigen::Index>(i)] = groups[i].weight;
    row.mass.push_back(row.mass.back() + groups[i].weight);
    row.mass_error.push_back(row.mass_error.back() + groups[i].error);
  }
  return row;
}

// The decision on the second of two tokens: certainly in, certainly out, or neither.
enum class Kept { in, out, open };
Kept second_token(const RankedWeights& row, const Cut& base, double top_p,
                  const Semantics& semantics = {}) {
  const Cut cut = top_p_cut(row, base, static_cast<float>(top_p), semantics);
  if (cut.certain >= 2) return Kept::in;
  return cut.possible >= 2 ? Kept::open : Kept::out;
}

void expect_boundaries(const RankedWeights& row, const Cut& base, double low, double high,
                       const Semantics& semantics = {}) {
  const double step = 0x1p-22;  // more than p's rounding error, far less than the tested errors
  EXPECT_EQ(second_token(row, base, low - step, semantics), Kept::out);
  EXPECT_EQ(second_token(row, base, low + step, semantics), Kept::open);
  EXPECT_EQ(second_token(row, base, high - step, semantics), Kept::open);
  EXPECT_EQ(second_token(row, base, high + step, semantics), Kept::in);
}

TEST(TopPBand, IsWhatErrorsOfBothSidesAllow) {
  // The second token is in if p is above F / (F + R), where F is in 0.6 +- 0.03 and R is in 0.4 +-
  // 0.01.
  const RankedWeights row = row_of({{0.6, 0.03}, {0.4, 0.01}});
  expect_boundaries(row, whole_row(row), 0.57 / (0.57 + 0.41), 0.63 / (0.63 + 0.39));
  const RankedWeights front = row_of({{0.6, 0.03}, {0.4, 0}});
  expect_boundaries(front, whole_row(front), 0.57 / (0.57 + 0.4), 0.63 / (0.63 + 0.4));
  const RankedWeights rest = row_of({{0.6, 0}, {0.4, 0.01}});
  expect_boundaries(rest, whole_row(rest), 0.6 / (0.6 + 0.41), 0.6 / (0.6 + 0.39));
}

TEST(TopPBand, HoldsTheSlackOfSums) {
  // The sum Z is 1, so a slack of 0.02 moves the boundary of p by 0.02.
  const RankedWeights row = row_of({{0.6, 0}, {0.4, 0}}, 0.02);
  expect_boundaries(row, whole_row(row), 0.58, 0.62);
}

TEST(TopPBand, HoldsASlackOfTheTailAloneWhereSumsBeginThere) {
  // The sampler compares the rest R = 0.4, known within 2 %, with 1 - p.
  Semantics ascending;
  ascending.sums_from_the_smallest = true;
  const RankedWeights row = row_of({{0.6, 0}, {0.4, 0}}, 0.02);
  expect_boundaries(row, whole_row(row), 1 - 0.4 * 1.02, 1 - 0.4 * 0.98, ascending);
  // A tail whose mass is below the slack of the row's sum stays at p = 1.
  const RankedWeights small = row_of({{0.99, 0}, {0.01, 0}}, 0.02);
  EXPECT_EQ(second_token(small, whole_row(small), 1, ascending), Kept::in);
  EXPECT_EQ(second_token(small, whole_row(small), 1), Kept::open);
}

TEST(TopPBand, HoldsWhatIsOpenOfTheBase) {
  // The sums have no errors, but min_p may have dropped the third token, so Z is 1 or 0.9.
  const RankedWeights row = row_of({{0.6, 0}, {0.3, 0}, {0.1, 0}});
  Cut base = whole_row(row);
  base.certain = base.count_low = 2;
  base.mass_low = row.mass[2];
  const double step = 0x1p-22;
  EXPECT_EQ(second_token(row, base, 0.6 / 0.9 + step), Kept::in);
  EXPECT_EQ(second_token(row, base, 0.6 / 0.9 - step), Kept::open);
  EXPECT_EQ(second_token(row, base, 0.6 + step), Kept::open);
  // The band is symmetric by its computation, although no mass can be added on the other side.
  EXPECT_EQ(second_token(row, base, 0.6 / 1.1 - step), Kept::out);
}

TEST(TopPBand, ClosesWhereNothingIsUncertain) {
  const RankedWeights row = row_of({{0.5, 0}, {0.25, 0}, {0.25, 0}});
  const Cut whole = whole_row(row);
  EXPECT_EQ(second_token(row, whole, 0.5), Kept::out);
  EXPECT_EQ(second_token(row, whole, 0.5 + 0x1p-24), Kept::in);
  EXPECT_EQ(second_token(row, whole, 0.5 - 0x1p-25), Kept::out);
}

TEST(TopKCut, WidensByWhatRoundingMayTie) {
  RankedWeights row = row_of({{1, 0}, {0.5, 0}, {0.499, 0}, {0.25, 0}});
  const Cut exact = top_k_cut(row, 2, TopKTies::keep_all);
  EXPECT_EQ(exact.possible, 2U);
  row.tie_error.setConstant(0.0012);  // 0.5 <= 0.499 * 1.0024
  const Cut kept = top_k_cut(row, 2, TopKTies::keep_all);
  EXPECT_EQ(kept.certain, 2U);
  EXPECT_EQ(kept.possible, 3U);
  EXPECT_EQ(kept.count_high, 3U);
  const Cut any = top_k_cut(row, 2, TopKTies::any_k);
  EXPECT_EQ(any.certain, 1U);
  EXPECT_EQ(any.possible, 3U);
  EXPECT_EQ(any.count_low, 2U);
  EXPECT_EQ(any.count_high, 2U);
  EXPECT_NEAR(static_cast<double>(any.mass_low), 1.499, 0x1p-50);  // allows one rounding of float64
  row.tie_error.setConstant(0.0008);
  EXPECT_EQ(top_k_cut(row, 2, TopKTies::keep_all).possible, 2U);
}

}  // namespace
}  // namespace fairdraw::reference
