// Compares the statistics with numbers that other programs computed, and with closed forms.
#include "harness/statistics/known_answers/known_answers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/statistics/statistics.h"

namespace fairdraw::statistics {
namespace {

// A p-value that is wrong by a factor 1 + r costs the ledger a factor 1 + r, and the ledger keeps
// 30% in reserve. An error of 2^-20 uses a 300000th of that reserve, while a wrong formula is off
// by far more.
constexpr double kRelativeError = 0x1p-20;

// Critical values and non-centralities are under the square roots of numbers of draws; root finding
// stops at half the digits of a double (2^-26). A wrong tail or a factor of 2 would be off by far
// more.
constexpr double kRootError = 0x1p-20;

double relative_error(double actual, double expected) { return std::abs(actual / expected - 1); }

TEST(KnownAnswers, BinomialPValue) {
  for (const auto& known : known_answers::kBinomial) {
    SCOPED_TRACE(testing::Message()
                 << known.successes << " of " << known.trials << " at " << known.probability);
    const double p = binomial_p_value(known.successes, known.trials, known.probability);
    // A wrong tail or a factor of 2 would be off by far more than this tolerance.
    const double stated = static_cast<double>(known.trials) * 0x1p-53 + 0x1p-44;
    EXPECT_LE(relative_error(p, known.p_value), stated) << p;
  }
}

TEST(KnownAnswers, ChiSquaredTails) {
  for (const auto& known : known_answers::kChiSquared) {
    SCOPED_TRACE(testing::Message() << known.statistic << " with dof " << known.dof);
    const double lower = chi_squared_lower_tail(known.statistic, known.dof);
    const double upper = chi_squared_upper_tail(known.statistic, known.dof);
    EXPECT_LE(relative_error(lower, known.lower), kRelativeError) << lower;
    EXPECT_LE(relative_error(upper, known.upper), kRelativeError) << upper;
  }
}

TEST(KnownAnswers, ChiSquaredCriticalValue) {
  for (const auto& known : known_answers::kCriticalValue) {
    SCOPED_TRACE(testing::Message() << known.dof << " at " << known.false_fail_rate);
    const double value = chi_squared_critical_value(known.dof, known.false_fail_rate);
    EXPECT_LE(relative_error(value, known.critical_value), kRootError) << value;
  }
}

TEST(KnownAnswers, RequiredNonCentrality) {
  for (const auto& known : known_answers::kNonCentrality) {
    SCOPED_TRACE(testing::Message()
                 << known.dof << " at " << known.false_fail_rate << ", " << known.false_pass_rate);
    const double value = chi_squared_required_non_centrality(known.dof, known.false_fail_rate,
                                                             known.false_pass_rate);
    EXPECT_LE(relative_error(value, known.non_centrality), kRootError) << value;
  }
}

// The published table of numbers of draws uses these six numbers, rounded to integers.
TEST(KnownAnswers, RequiredNonCentralityOfTheDesign) {
  const auto rounded = [](double cells) {
    return std::lround(chi_squared_required_non_centrality(cells - 1, 1e-12, 1e-6));
  };
  EXPECT_EQ(rounded(2), 141);
  EXPECT_EQ(rounded(10), 172);
  EXPECT_EQ(rounded(100), 287);
  EXPECT_EQ(rounded(1000), 652);
  EXPECT_EQ(rounded(10000), 1795);
  EXPECT_EQ(rounded(131072), 6165);
}

TEST(KnownAnswers, GBound) {
  for (const auto& known : known_answers::kGBound) {
    SCOPED_TRACE(testing::Message() << known.g << " with " << known.cells);
    const double bound = g_upper_bound(known.g, known.cells);
    EXPECT_LE(relative_error(bound, known.bound), kRelativeError) << bound;
  }
  EXPECT_EQ(g_upper_bound(5, 1), 1);
}

TEST(KnownAnswers, GCriticalValueIsWhereTheBoundReachesTheRate) {
  for (const std::uint32_t cells : {2U, 10U, 32U, 100U, 1000U, 131072U}) {
    for (const double rate : {1e-12, 1e-9, 1e-3, 0.5}) {
      const double critical = g_critical_value(cells, rate);
      EXPECT_LE(relative_error(g_upper_bound(critical, cells), rate), kRelativeError);
      EXPECT_LE(g_upper_bound(critical, cells), rate * (1 + kRelativeError));
    }
  }
  EXPECT_EQ(std::lround(g_critical_value(2, 1e-12)), 64);
  EXPECT_EQ(std::lround(g_critical_value(10, 1e-12)), 105);
  EXPECT_EQ(std::lround(g_critical_value(32, 1e-12)), 185);
  EXPECT_EQ(std::lround(g_critical_value(100, 1e-12)), 385);
}

TEST(KnownAnswers, ExactMultinomial) {
  for (const auto& known : known_answers::kExactMultinomial) {
    const double p = exact_multinomial_p_value(known.counts, known.probability);
    EXPECT_LE(relative_error(p, known.p_value), kRelativeError) << p;
  }
}

TEST(KnownAnswers, ClopperPearsonAtTheEndsHasAClosedForm) {
  for (const std::uint64_t trials : {1U, 10U, 1000000U}) {
    for (const double rate : {1e-9, 1e-2}) {
      // Without a success, the upper end q satisfies (1 - q)^n = rate / 2.
      const double upper = -std::expm1(std::log(rate / 2) / static_cast<double>(trials));
      const Interval none = clopper_pearson_interval(0, trials, rate);
      EXPECT_EQ(none.lower, 0);
      EXPECT_LE(relative_error(none.upper, upper), kRelativeError);
      const Interval all = clopper_pearson_interval(trials, trials, rate);
      EXPECT_EQ(all.upper, 1);
      EXPECT_LE(relative_error(1 - all.lower, upper), kRelativeError);
    }
  }
}

TEST(KnownAnswers, DkwmAndFisherHaveClosedForms) {
  EXPECT_LE(relative_error(dkwm_p_value(0.005, 1000000), 2 * std::exp(-50.0)), kRelativeError);
  EXPECT_EQ(dkwm_p_value(0, 5), 1);
  // Fisher's method for two p-values gives x (1 - ln x), where x is their product.
  const double pair[] = {1e-4, 3e-5};
  const double x = 3e-9;
  EXPECT_LE(relative_error(fisher_p_value(pair), x * (1 - std::log(x))), kRelativeError);
  EXPECT_LE(relative_error(bonferroni_p_value(pair), 6e-5), kRelativeError);
  EXPECT_LE(relative_error(global_p_value(pair), 2 * x * (1 - std::log(x))), kRelativeError);
  const double with_zero[] = {0.5, 0.0};
  EXPECT_EQ(fisher_p_value(with_zero), 0);
  EXPECT_EQ(bonferroni_p_value(with_zero), 0);
  EXPECT_EQ(fisher_p_value({}), 1);
  EXPECT_EQ(bonferroni_p_value({}), 1);
  EXPECT_EQ(global_p_value({}), 1);
}

}  // namespace
}  // namespace fairdraw::statistics
