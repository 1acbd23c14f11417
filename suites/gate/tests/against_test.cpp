// The tests compare two samplers: equal samplers must pass, and a sampler with another distribution
// or other results must fail.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "harness/adapters/model_sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/statistics/error_ledger.h"
#include "harness/statistics/two_sample.h"
#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/mutants/float_sampler.h"
#include "suites/gate/run/plan.h"
#include "suites/gate/run/run_case.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;

// The integer model with temperatures that are 5% too high. The sampler does not claim the exact
// arithmetic, so that only the distribution can reveal the error.
class Hot final : public harness::ModelSampler {
 public:
  Hot() { description_.exact_integer = false; }

 private:
  reference::IntegerRow model(const Row& row) override {
    Row hot = row;
    hot.parameters.temperature *= 1.05F;
    return harness::ModelSampler::model(hot);
  }
};

// The integer model with calls that take longer than any time limit in these tests.
class Slow final : public harness::ModelSampler {
 public:
  std::string run(const fairdraw_batch& batch) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    return harness::ModelSampler::run(batch);
  }
};

std::unique_ptr<harness::Sampler> make(const std::string& name) {
  if (name == "slow" || name == "plugin:slow") return std::make_unique<Slow>();
  if (name == "hot") return std::make_unique<Hot>();
  if (name == "vllm") {
    return std::make_unique<FloatSampler>(FloatSampler::Order::vllm_torch, FloatSampler::Draw::race,
                                          FloatMutation{});
  }
  if (name == "vllm-cdf") {
    return std::make_unique<FloatSampler>(FloatSampler::Order::vllm_torch,
                                          FloatSampler::Draw::inverse_cdf, FloatMutation{});
  }
  for (const Mutant& mutant : catalogue()) {
    if (mutant.name == name) return mutant.make();
  }
  return harness::make_builtin_sampler(name);
}

RunRecord compare(const std::string& sampler, const std::string& other, const std::string& glob,
                  Suite suite = Suite::smoke) {
  PlanOptions options;
  options.suite = suite;
  options.samplers = {sampler};
  options.against = other;
  options.make_sampler = make;
  options.seed = 11;
  options.case_glob = glob;
  return run_plan(make_plan(options), options, 1, {});
}

// Runs a case of suite smoke in which every sampler is called several times.
CaseRecord compare_within(const std::string& sampler, const std::string& other, double case_seconds,
                          double run_seconds) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {sampler};
  options.against = other;
  options.make_sampler = make;
  options.seed = 11;
  options.case_glob = "chi_squared/gaussian_wide/v1000/none/*";
  options.case_seconds = case_seconds;
  options.run_seconds = run_seconds;
  return run_plan(make_plan(options), options, 1, {}).cases.at(0);
}

bool any_failed(const RunRecord& record, const std::string& check) {
  for (const CaseRecord& one : record.cases) {
    if (one.check == check && one.verdict == Verdict::failed) return true;
  }
  return false;
}

TEST(Against, TheKernelsAndTheModelAreOne) {
  const RunRecord record = compare("cpu", "model", "*/v1000/*");
  std::size_t distributions = 0, results = 0;
  for (const CaseRecord& one : record.cases) {
    EXPECT_EQ(one.verdict, Verdict::passed) << one.id << ": " << one.message;
    EXPECT_NE(one.replay.find("--against model"), std::string::npos);
    distributions += one.check == "same_law" ? 1U : 0U;
    results += one.check == "same_results" ? 1U : 0U;
  }
  EXPECT_GE(distributions, 5U);
  EXPECT_GE(results, 20U);
  EXPECT_GT(record.error_budget.spent, 0);
  EXPECT_LE(record.error_budget.spent, statistics::ErrorLedger::kCasesShare);
}

TEST(Against, TwoWaysToDrawFromOneFloat32DistributionAreOne) {
  for (const char* glob : {"chi_squared/gaussian/v1000/top_k_50*", "mask/ties_at_k/v1000/edges"}) {
    const RunRecord record = compare("vllm", "vllm-cdf", glob);
    ASSERT_EQ(record.cases.size(), 1U) << glob;
    EXPECT_EQ(record.cases[0].verdict, Verdict::passed) << record.cases[0].message;
  }
}

TEST(Against, AHigherTemperatureIsRedInTheDistributionAndInTheMasks) {
  EXPECT_TRUE(
      any_failed(compare("hot", "model", "chi_squared/gaussian_wide/v1000/none/*"), "same_law"));
  EXPECT_TRUE(
      any_failed(compare("hot", "model", "mask/gaussian_wide/v1000/edges"), "same_results"));
}

TEST(Against, ALostLaneIsRed) {
  const RunRecord one = compare("lane-of-32-lost", "model", "binomial/gaussian/v1000/none/*");
  EXPECT_TRUE(any_failed(one, "same_law"));
  // One of 1024 lanes has 10^-3 of the mass. The total variation does not reveal the lost lane, but
  // the lane's own count does.
  const RunRecord fine =
      compare("lane-of-1024-lost", "model", "bets/gaussian_wide/v50304/*", Suite::gate);
  ASSERT_EQ(fine.cases.size(), 1U);
  EXPECT_EQ(fine.cases[0].verdict, Verdict::failed);
  EXPECT_NE(fine.cases[0].message.find("lane of 1024: set"), std::string::npos)
      << fine.cases[0].message;
}

TEST(Against, AnUnknownOtherIsBadUsage) {
  EXPECT_THROW(compare("cpu", "modell", "*"), harness::UsageError);
}

// A time limit applies to both samplers together, whichever of them takes the time.
TEST(Against, TheOtherSamplerHasTheLimitsOfTheCaseAndOfTheRun) {
  const CaseRecord record = compare_within("model", "slow", 0.2, 0);
  EXPECT_EQ(record.verdict, Verdict::failed);
  EXPECT_NE(record.message.find("the case took more than 0.2 s (--case-timeout)"),
            std::string::npos)
      << record.message;
  const CaseRecord of_run = compare_within("model", "slow", 600, 1);
  EXPECT_EQ(of_run.verdict, Verdict::error);
  EXPECT_EQ(of_run.message, "the run took more than 1 s (--run-timeout)");
}

TEST(Against, APluginToCompareWithHasThePluginsLimit) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.make_sampler = make;
  options.samplers = {"model"};
  options.against = "plugin:slow";
  const Plan plan = make_plan(options);
  ASSERT_FALSE(plan.jobs.empty());
  for (const harness::Job& job : plan.jobs) EXPECT_GE(job.seconds, 600) << job.record.id;
}

TEST(Against, EveryCaseFindsTwiceWhatItStatesOfOneSampler) {
  // The level is for 17 cells, the largest number of the check, and for half of a case's share.
  const double level = statistics::ErrorLedger(kStatisticalCases).case_share() / 2;
  for (const Case& entry : case_table(Suite::nightly)) {
    if (!is_comparable(entry) || !is_statistical(entry.check)) continue;
    EXPECT_LE(statistics::two_sample_min_discrepancy(17, entry.draws, entry.draws, 0, level, 1e-6),
              2 * entry.declared_discrepancy)
        << entry.id;
  }
}

TEST(Against, TooFewDrawsAreUnderpowered) {
  Case entry;
  for (const Case& one : case_table(Suite::smoke)) {
    if (one.check == Check::chi_squared) entry = one;
  }
  entry.draws = 2000;
  const harness::Job job = make_comparison(
      entry, "cpu", [] { return make("cpu"); }, [] { return make("model"); },
      *reference::find_profile("fairdraw"), 1, 1e-12);
  const auto sampler = make("cpu");
  const auto other = job.make_other();
  const harness::CheckOutcome outcome = job.compare(*sampler, *other);
  EXPECT_EQ(outcome.verdict, Verdict::underpowered);
  EXPECT_EQ(outcome.draws, 0U);
  EXPECT_EQ(outcome.spent(), 0);
}

}  // namespace
}  // namespace fairdraw::suites
