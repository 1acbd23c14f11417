// Compares the number of draws needed for small mistakes with the normal approximation and with
// small cases.
#include "harness/run/checks/statistical/small_mistakes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/run/checks/statistical/two_stages.h"
#include "harness/statistics/binomial.h"

namespace fairdraw::harness {
namespace {

// The level of each of two looks.
const double kOfALook = TwoStages(1e-12).each;

TEST(DrawsToFind, find_it_and_half_of_them_do_not) {
  const double each = kOfALook;
  for (const CountedSet& set : {CountedSet{0.5, 0.5005}, CountedSet{0.01, 0.0101},
                                CountedSet{0.25, 0.2}, CountedSet{1e-6, 0}}) {
    const std::uint64_t draws = draws_to_find(set, each);
    ASSERT_GT(draws, 0u);
    EXPECT_GE(statistics::binomial_power(draws, set.right, set.mistaken, each),
              1 - kFalsePassRateOfALook);
    EXPECT_LT(statistics::binomial_power(draws / 2, set.right, set.mistaken, each),
              1 - kFalsePassRateOfALook);
  }
}

// The two-sided p-value is below each = sqrt(1e-12 / 2) = 7.07e-7 for z = 4.957, and is missed with
// probability 5e-7 for z = 4.892. So n = (4.957 + 4.892)^2 p (1 - p) / d^2 = 97.0 * 0.25 / 2.5e-7 =
// 9.70e7, up to the 1/64 of the search.
TEST(DrawsToFind, are_those_of_the_normal_approximation) {
  EXPECT_NEAR(static_cast<double>(draws_to_find({0.5, 0.5005}, kOfALook)), 9.70e7, 0.03 * 9.70e7);
}

TEST(DrawsToFind, are_none_where_nothing_differs_or_too_little) {
  EXPECT_EQ(draws_to_find({0.5, 0.5}, kOfALook), 0u);
  EXPECT_EQ(draws_to_find({1, 1}, kOfALook), 0u);
  // 97 * 0.25 / 1e-18 = 2.4e19 draws, beyond 2^40 = 1.1e12.
  EXPECT_EQ(draws_to_find({0.5, 0.5 + 1e-9}, kOfALook), 0u);
}

TEST(Mistakes, change_what_they_say) {
  // The square roots of 0.8 and 0.2 are in the ratio 2 to 1.
  const std::vector<double> flatter = at_other_temperature(std::vector{0.8, 0.0, 0.2}, 2);
  EXPECT_NEAR(flatter[0], 2.0 / 3, 1e-15);
  EXPECT_EQ(flatter[1], 0);
  // With two bits the words are 0, 1/4, 1/2, 3/4. Ends of intervals: 0.3, 0.55, 0.56, 1. No word is
  // in the interval of the third token.
  EXPECT_EQ(with_words_of(2, std::vector{0.3, 0.25, 0.01, 0.44}),
            (std::vector{0.5, 0.25, 0.0, 0.25}));
}

TEST(Mistakes, are_noted_of_the_set_that_tells_most) {
  CheckOutcome outcome;
  const CountedSet sets[] = {{0.5, 0.5001}, {0.5, 0.51}, {0.5, 0.5}};
  note_small_mistake("x", sets, kOfALook, 1, outcome);
  EXPECT_NEAR(outcome.measures.at("difference: x"), 0.01, 1e-12);
  EXPECT_EQ(outcome.measures.at("draws to find: x"),
            static_cast<double>(draws_to_find(sets[1], kOfALook)));
}

}  // namespace
}  // namespace fairdraw::harness
