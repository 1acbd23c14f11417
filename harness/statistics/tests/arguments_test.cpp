// Tests that invalid input is refused with the field, its value and its range, that valid input
// never throws, and that the ledger records and refuses rates.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/statistics/argument.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::statistics {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Arguments, MessagesNameFieldValueAndRange) {
  EXPECT_EQ(refusal([] { binomial_p_value(3, 2, 0.5); }),
            "successes is 3; it must be at most trials, 2");
  EXPECT_EQ(refusal([] { binomial_p_value(1, 2, 1.5); }),
            "probability is 1.5; it must be in [0, 1]");
  EXPECT_EQ(refusal([] { binomial_p_value(1, 2, kNan); }),
            "probability is nan; it must be in [0, 1]");
  EXPECT_EQ(refusal([] { dkwm_min_num_samples(0, 1e-3, 1e-3); }),
            "discrepancy is 0; it must be in (0, 1]");
  EXPECT_EQ(refusal([] { dkwm_min_num_samples(0.1, 0, 1e-3); }),
            "false_fail_rate is 0; it must be in (0, 0.5]");
  EXPECT_EQ(refusal([] { g_min_discrepancy(10, 2, 1e-3, 0.75); }),
            "false_pass_rate is 0.75; it must be in (0, 0.5]");
  EXPECT_EQ(refusal([] { chi_squared_upper_tail(1, 0); }),
            "dof is 0; it must be positive and finite");
  EXPECT_EQ(refusal([] { chi_squared_upper_tail(kInfinity, 1); }),
            "statistic is inf; it must be finite and at least 0");
  EXPECT_EQ(refusal([] { dkwm_min_discrepancy(0, 1e-3, 1e-3); }),
            "draws is 0; it must be in [1, 2^53]");
  EXPECT_EQ(refusal([] { binomial_p_value(1, kMaxTrials + 1, 0.5); }),
            "trials is 1099511627777; it must be in [0, 2^40]");
  EXPECT_NE(refusal([] { binomial_min_num_samples(1e-9, 0.5, 1e-3, 1e-3); }).find("2^40 draws"),
            std::string::npos);
  EXPECT_EQ(refusal([] { binomial_min_num_samples(0.6, 0.5, 1e-3, 1e-3); }),
            "discrepancy is 0.6; it must be in (0, 0.5]");
  EXPECT_EQ(refusal([] { fisher_p_value(std::vector<double>{0.5, -1}); }),
            "p_values is -1; it must be in [0, 1]");
  EXPECT_NE(refusal([] { dkwm_min_num_samples(1e-12, 1e-3, 1e-3); }).find("2^53 draws"),
            std::string::npos);
}

TEST(Arguments, DistributionsAndCountsAreChecked) {
  using Counts = std::vector<std::uint64_t>;
  using Distribution = std::vector<double>;
  const auto fit = [](const Counts& counts, const Distribution& distribution) {
    return refusal([&] { goodness_of_fit(counts, distribution); });
  };
  EXPECT_EQ(fit({1, 2}, {0.5, 0.5}), "not refused");
  EXPECT_EQ(fit({1, 2}, {1.0}),
            "size of counts is 2; it must be that of probability, 1, and at least 1");
  EXPECT_EQ(fit({}, {}), "size of counts is 0; it must be that of probability, 0, and at least 1");
  EXPECT_EQ(fit({1, 2}, {1.0, 0.0}), "probability[1] is 0; it must be in (0, 1]");
  EXPECT_EQ(fit({1, 2}, {0.5, kNan}), "probability[1] is nan; it must be in (0, 1]");
  EXPECT_EQ(fit({0, 0}, {0.5, 0.5}), "sum of counts is 0; it must be in [1, 2^53]");
  EXPECT_EQ(fit({kMaxDraws, 1}, {0.5, 0.5}),
            "sum of counts is above 2^53; it must be in [1, 2^53]");
  EXPECT_EQ(fit({~std::uint64_t{0}, ~std::uint64_t{0}}, {0.5, 0.5}),
            "sum of counts is above 2^53; it must be in [1, 2^53]");
  EXPECT_EQ(fit({1, 2}, {0.5, 0.25}).substr(0, 40), "sum of probability is 0.75; it must be 1");
  // The error of a distribution that is normalised in float32 is refused; that of one normalised in
  // double is accepted.
  EXPECT_NE(fit({1, 2}, {0.5, 0.5 + 0x1p-25}), "not refused");
  EXPECT_EQ(fit({1, 2}, {0.5, 0.5 + 0x1p-50}), "not refused");

  EXPECT_NE(refusal([] { cdf_distance(Counts{1}, Distribution{0.5, 0.5}); }), "not refused");
  EXPECT_EQ(refusal([] { cdf_distance(Counts{1, 0}, Distribution{1.0, 0.0}); }), "not refused");
  EXPECT_NE(refusal([] { uniform_distance(Distribution{}); }), "not refused");
  EXPECT_NE(refusal([] { uniform_distance(Distribution{0.5, kNan}); }), "not refused");
  EXPECT_NE(refusal([] { pool_by_probability(Distribution{0.5, 0.5}, 0, 5); }), "not refused");
  EXPECT_NE(refusal([] { pool_by_probability(Distribution{0.5, 0.5}, 10, -1); }), "not refused");
  EXPECT_NE(refusal([] {
              pool_by_group(Distribution{0.5, 0.5}, std::vector<std::uint32_t>{0, kNoCell}, 10, 1);
            }),
            "not refused");
  EXPECT_EQ(refusal([] { exact_multinomial_p_value(Counts{200, 1}, Distribution{0.5, 0.5}); }),
            "2 cells and 201 draws; it must be at most 6 and 200");
  EXPECT_NE(refusal([] { exact_multinomial_p_value(Counts(7, 1), Distribution(7, 1.0 / 7)); }),
            "not refused");
}

TEST(Arguments, StreamsAreChecked) {
  const std::vector<double> prefix = {0.25, 0.25, 1.0};
  EXPECT_EQ(refusal([] { prefix_sums(std::vector<double>{0.0, 0.0}); }),
            "sum of weights is 0; it must be positive and finite");
  EXPECT_EQ(refusal([] { prefix_sums(std::vector<double>{0.5, -1.0}); }),
            "weights is -1; it must be finite and at least 0");
  EXPECT_EQ(refusal([] { prefix_sums(std::vector<double>{1e308, 1e308}); }),
            "sum of weights is infinite; it must be positive and finite");
  EXPECT_EQ(refusal([&] { randomized_pit(prefix, 3, 0); }), "token is 3; it must be in [0, 3)");
  EXPECT_EQ(refusal([&] { randomized_pit(prefix, -1, 0); }), "token is -1; it must be in [0, 3)");
  EXPECT_NE(refusal([] { randomized_pit(std::vector<double>{0.5, 0.25}, 1, 0); }), "not refused");
  EXPECT_NE(refusal([] { randomized_pit(std::vector<double>{0.0, 0.0}, 1, 0); }), "not refused");
  EXPECT_NE(refusal([] { randomized_pit(std::vector<double>{0.5, kNan}, 1, 0); }), "not refused");
  EXPECT_NE(refusal([] { randomized_pit(std::vector<double>{0.5, kInfinity}, 0, 0); }),
            "not refused");
  const std::vector<double> stream = {0.1, 0.9, 0.4};
  EXPECT_EQ(refusal([&] { lag_agreement_p_value(stream, 3); }),
            "lag is 3; it must be at least 1 and below the number of values, 3");
  EXPECT_NE(refusal([&] { lag_correlation_p_value(stream, 0); }), "not refused");
  EXPECT_EQ(refusal([&] { pair_correlation_p_value(stream, prefix); }), "not refused");
  EXPECT_NE(refusal([&] { pair_agreement_p_value(stream, std::vector<double>{0.5}); }),
            "not refused");
  EXPECT_NE(refusal([&] { lag_agreement_p_value(std::vector<double>{0.1, 1.5}, 1); }),
            "not refused");
  EXPECT_NE(refusal([&] { pair_counts(stream, 1, 1); }), "not refused");
}

// The arguments range from no draw to 2^40 draws, from the smallest probability to 1, and from the
// middle of each range to far outside.
TEST(Arguments, PValuesOfValidInputNeverThrow) {
  for (const std::uint64_t trials : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1000},
                                     std::uint64_t{1000000000}, kMaxTrials}) {
    for (const double p : {0.0, 5e-324, 1e-310, 1e-100, 1e-12, 1e-3, 0.5, 1 - 1e-12, 1.0}) {
      const double n = static_cast<double>(trials);
      const double deviation = std::sqrt(n * p * (1 - p));
      for (const double z : {-1e9, -40.0, -7.0, -1.0, 0.0, 1.0, 7.0, 40.0, 1e9}) {
        const double count = std::min(n, std::max(0.0, std::round(n * p + z * deviation)));
        const double p_value = binomial_p_value(static_cast<std::uint64_t>(count), trials, p);
        EXPECT_TRUE(p_value >= 0 && p_value <= 1) << count << " " << trials << " " << p;
      }
    }
  }
  for (const double dof : {1.0, 2.0, 99.0, 131071.0, 1048575.0}) {
    for (const double statistic : {0.0, 5e-324, 1e-9, 1.0, 1e3, 1e6, 1e12, 1e300}) {
      for (const double tail :
           {chi_squared_upper_tail(statistic, dof), chi_squared_lower_tail(statistic, dof),
            g_upper_bound(statistic, static_cast<std::uint32_t>(dof) + 1)}) {
        EXPECT_TRUE(tail >= 0 && tail <= 1) << statistic << " " << dof;
      }
    }
  }
}

TEST(ErrorLedger, SharesAddUpToTheRun) {
  for (const std::uint64_t cases : {1U, 7U, 1000U, 12345U}) {
    ErrorLedger ledger(cases);
    for (std::uint64_t i = 0; i < cases; ++i) ledger.spend(ledger.case_share());
    ledger.spend(ErrorLedger::kGlobalShare);
    ledger.spend(ErrorLedger::kReserve);
    // Each entry of the ledger is rounded to a unit of 2^-90.
    EXPECT_LE(std::abs(ledger.spent() - ErrorLedger::kRunFalseAlarmRate),
              static_cast<double>(cases + 2) * 0x1p-90 + 1e-9 * 0x1p-52);
    EXPECT_THROW(ledger.spend(1e-15), std::logic_error);
  }
}

TEST(ErrorLedger, AnOverdraftIsNotBooked) {
  ErrorLedger ledger(10);
  EXPECT_EQ(ledger.spent(), 0);
  ledger.spend(5e-10);
  const double before = ledger.spent();
  EXPECT_THROW(ledger.spend(6e-10), std::logic_error);
  EXPECT_THROW(ledger.spend(0.5), std::logic_error);
  EXPECT_EQ(ledger.spent(), before);
  ledger.spend(4e-10);
  EXPECT_THROW(ledger.spend(0), std::invalid_argument);
  EXPECT_THROW(ledger.spend(kNan), std::invalid_argument);
}

TEST(ErrorLedger, NoStatisticalCaseIsNoError) {
  const ErrorLedger ledger(0);
  EXPECT_EQ(ledger.spent(), 0);
  EXPECT_EQ(ledger.case_share(), ErrorLedger::kCasesShare);
}

TEST(ErrorLedger, TheOrderOfJobsDoesNotMatter) {
  ErrorLedger sequential(1000), threaded(1000);
  const auto rate = [](int i) { return 1e-14 * (1 + static_cast<double>(i % 17)); };
  for (int i = 0; i < 4000; ++i) sequential.spend(rate(i));
  std::vector<std::thread> threads;
  for (int part = 0; part < 4; ++part) {
    threads.emplace_back([&, part] {
      for (int i = part; i < 4000; i += 4) threaded.spend(rate(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sequential.spent(), threaded.spent());
}

}  // namespace
}  // namespace fairdraw::statistics
