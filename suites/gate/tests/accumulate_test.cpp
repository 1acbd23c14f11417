// The tests cover accumulated nightly runs: their joint record, its error budget, and rejected
// records.
#include "suites/gate/run/accumulate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "harness/contract/usage_error.h"
#include "harness/statistics/statistics.h"
#include "reports/report.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;
using statistics::ErrorLedger;

// Returns counts of random draws from `distribution` over four equal cells.
harness::CellCounts cells_of(const std::vector<double>& distribution, std::uint64_t draws,
                             std::mt19937_64& generator) {
  harness::CellCounts cells{"rank", {0.25, 0.25, 0.25, 0.25}, {0, 0, 0, 0}, 0, 0};
  std::discrete_distribution<int> draw(distribution.begin(), distribution.end());
  for (std::uint64_t i = 0; i < draws; ++i)
    ++cells.counts[static_cast<std::size_t>(draw(generator))];
  return cells;
}

RunRecord night(std::uint64_t seed, const std::vector<double>& distribution, double p_value) {
  std::mt19937_64 generator(seed);
  RunRecord record;
  record.suite = "gate";
  record.seed = seed;
  record.seed_source = "--seed-from a date";
  record.commit = "0123";
  record.shard = "1/1";
  record.samplers = {{"cpu", "1", "fairdraw"}};
  record.error_budget.statistical_cases = 1024;
  CaseRecord counted;
  counted.id = "bets/x";
  counted.suite = "gate";
  counted.check = "bets";
  counted.sampler = "cpu";
  counted.verdict = Verdict::passed;
  counted.draws = 4000;
  counted.cells = {cells_of(distribution, counted.draws, generator)};
  counted.measures = {{"log10_e", -0.5}, {"spent", 4e-13}};
  CaseRecord p;
  p.id = "pit/x";
  p.suite = "gate";
  p.check = "pit";
  p.sampler = "cpu";
  p.verdict = Verdict::passed;
  p.p_value = p_value;
  p.draws = 100;
  CaseRecord exact;
  exact.id = "mask/x";
  exact.suite = "gate";
  exact.check = "mask";
  exact.sampler = "cpu";
  exact.verdict = Verdict::passed;
  exact.message = "all equal";
  record.cases = {counted, p, exact};
  complete_record(record);
  return reports::from_json(reports::to_json(record));  // the record as it is read back from a file
}

std::vector<NamedRecord> nights(int number, const std::vector<double>& distribution,
                                const std::function<double(int)>& p_value) {
  std::vector<NamedRecord> records;
  for (int i = 0; i < number; ++i) {
    records.push_back({std::to_string(i) + ".json",
                       night(100 + static_cast<std::uint64_t>(i), distribution, p_value(i))});
  }
  return records;
}

const std::vector<double> kRight = {0.25, 0.25, 0.25, 0.25};
double uniform_p_value(int i) { return (i * 7 % 20 + 0.5) / 20; }

TEST(AccumulateNights, AddUpAndSayWhatTheyCost) {
  const RunRecord whole = accumulate_nights(nights(12, kRight, uniform_p_value));
  EXPECT_EQ(whole.exit_code(), 0);
  ASSERT_EQ(whole.nights.size(), 12U);
  EXPECT_EQ(whole.nights[3].seed, 103U);
  EXPECT_EQ(whole.draws, 12 * 4100U);
  EXPECT_EQ(whole.cases[0].measures.at("nights"), 12);
  EXPECT_EQ(whole.cases[2].message, "all equal");
  // The sum consists of twelve nightly runs of 1e-9 each and the 3e-10 of the accumulation, which
  // are booked separately.
  EXPECT_LE(std::abs(whole.error_budget.false_alarm_rate - 1.23e-8), 1e-22);
  EXPECT_LE(whole.error_budget.spent, whole.error_budget.false_alarm_rate);
  // Each case has its own level; all cases and the global case of each sampler together are within
  // the reserve.
  EXPECT_LE(whole.cases[0].measures.at("alpha") * (1024 + 1), ErrorLedger::kReserve * (1 + 1e-12));
  // A record that was written must be read back unchanged.
  EXPECT_EQ(reports::to_json(reports::from_json(reports::to_json(whole))), reports::to_json(whole));
}

// Nightly run i spends the fraction 1 / (i (i + 1)), so that all runs together spend at most the
// budget of one run.
TEST(AccumulateNights, NumberedNightsSpendOneBudget) {
  double sum = 0;
  for (std::uint64_t i = 1; i <= 1000; ++i) sum += share_of_night(i);
  EXPECT_LE(std::abs(sum - (1 - 1.0 / 1001)), 1000 * 0x1p-53);
  EXPECT_EQ(share_of_night(std::nullopt), 1);
  std::vector<NamedRecord> records = nights(40, kRight, uniform_p_value);
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i].record.error_budget.false_alarm_rate = 1e-9 * share_of_night(i + 1);
    records[i].record.options = " --night " + std::to_string(i + 1) + " --draws 5";
  }
  const RunRecord whole = accumulate_nights(records);
  EXPECT_LT(whole.error_budget.false_alarm_rate, 1.3e-9);
  EXPECT_EQ(whole.options, " --draws 5");
}

// A total variation of 0.02. At this level, the 4000 draws of one nightly run detect 0.11, and the
// draws of 60 runs detect 0.02.
TEST(AccumulateNights, FindsWhatNoNightFinds) {
  const std::vector<double> biased = {0.26, 0.24, 0.26, 0.24};
  const std::vector<NamedRecord> all = nights(60, biased, uniform_p_value);
  const auto found = [&all](std::size_t number) {
    return accumulate_nights({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(number)});
  };
  EXPECT_EQ(found(1).cases[0].verdict, Verdict::passed);
  EXPECT_GT(*found(1).cases[0].min_discrepancy, 0.1);
  const RunRecord whole = found(60);
  EXPECT_EQ(whole.cases[0].verdict, Verdict::failed) << whole.cases[0].message;
  EXPECT_LT(*whole.cases[0].min_discrepancy, 0.02);
  EXPECT_NE(whole.cases[0].message.find("60 nights"), std::string::npos);
  EXPECT_EQ(whole.cases[1].verdict, Verdict::passed);
  ASSERT_EQ(whole.cases[0].evidence.growth.size(), 1U);
  EXPECT_EQ(whole.cases[0].evidence.growth[0].points.back().draws, 240'000U);
}

TEST(AccumulateNights, PValuesThatAreSmallEveryNightAreFound) {
  const RunRecord whole = accumulate_nights(nights(9, kRight, [](int) { return 1e-4; }));
  EXPECT_EQ(whole.cases[1].verdict, Verdict::failed) << whole.cases[1].message;
  EXPECT_EQ(whole.cases[0].verdict, Verdict::passed);
}

TEST(AccumulateNights, ARedNightStaysRed) {
  std::vector<NamedRecord> records = nights(5, kRight, uniform_p_value);
  records[1].record.cases[2].verdict = Verdict::failed;
  records[1].record.cases[2].message = "row 3 has another mask";
  const RunRecord whole = accumulate_nights(records);
  EXPECT_EQ(whole.exit_code(), 1);
  EXPECT_EQ(whole.cases[2].message, "night 2 (seed 101): row 3 has another mask");
}

// In sequences of nightly runs of a correct sampler, none must fail. At most 1 in 20 sequences may
// ever reach evidence of 20 to 1, whichever runs are looked at (statistics_test has more
// sequences).
TEST(AccumulateNights, NullNightsStayGreen) {
  constexpr std::uint64_t kSequences = 60;
  std::uint64_t reached = 0;
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence) {
    std::vector<NamedRecord> records;
    for (std::uint64_t i = 0; i < 10; ++i) {
      records.push_back({"x", night(sequence * 1000 + i, kRight, uniform(generator))});
    }
    const RunRecord whole = accumulate_nights(records);
    EXPECT_EQ(whole.exit_code(), 0);
    if (whole.cases[0].measures.at("max_log10_e") >= std::log10(20.0)) ++reached;
  }
  EXPECT_GT(statistics::binomial_upper_tail(reached, kSequences, 0.05), 1e-9) << reached;
}

TEST(AccumulateNights, RefusesWhatIsNoSequence) {
  const auto after = [](const std::function<void(RunRecord&)>& change) -> std::string {
    std::vector<NamedRecord> records = nights(3, kRight, uniform_p_value);
    change(records[1].record);
    try {
      accumulate_nights(records);
    } catch (const harness::UsageError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(after([](RunRecord& record) { record.seed = 100; }),
            "0.json and 1.json have the same seed, 100: the same draws count once");
  EXPECT_EQ(after([](RunRecord& record) { record.shard = "1/2"; }),
            "1.json: it is shard 1/2; a whole run is needed");
  EXPECT_EQ(after([](RunRecord& record) { record.incomplete = "stopped"; }),
            "1.json: it is incomplete: stopped; a whole run is needed");
  EXPECT_NE(after([](RunRecord& record) { record.samplers[0].version = "2"; }).find("samplers"),
            std::string::npos);
  EXPECT_NE(after([](RunRecord& record) { record.options = " --draws 7"; }).find("options"),
            std::string::npos);
  EXPECT_NE(after([](RunRecord& record) { record.cases.pop_back(); }).find("case tables"),
            std::string::npos);
  EXPECT_EQ(after([](RunRecord& record) { record.commit = "4567"; }), "none");
}

}  // namespace
}  // namespace fairdraw::suites
