// The tests require that shards take equal time, contain every case once, and are the same on every
// machine.
#include "suites/gate/run/shards.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "harness/adapters/model_sampler.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

std::vector<double> loads(const std::vector<double>& seconds, std::uint32_t shards) {
  std::vector<double> load(shards, 0);
  const auto shard_of = balanced_shards(seconds, shards);
  for (std::size_t i = 0; i < seconds.size(); ++i) load.at(shard_of[i]) += seconds[i];
  return load;
}

// Three lower bounds hold for the longest shard of any division: the mean, the longest case, and,
// if there are more cases than shards, the sum of cases N and N + 1 by length, because two of the
// first N + 1 cases share a shard. In balanced_shards, the last case of the longest shard is alone
// there, or takes at most half of that sum. The case was added to the shard with the least time,
// which had at most the mean.
TEST(Shards, TakeAtMostHalfMoreThanAnyDivision) {
  std::mt19937_64 generator(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> seconds(1 + generator() % 60);
    for (double& one : seconds) one = static_cast<double>(generator() % 1000);
    for (const std::uint32_t shards : {1U, 2U, 3U, 7U}) {
      const std::vector<double> load = loads(seconds, shards);
      const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
      EXPECT_EQ(std::accumulate(load.begin(), load.end(), 0.0), all);  // integers: exact
      std::vector<double> sorted = seconds;
      std::ranges::sort(sorted, std::greater());
      double best = std::max(all / shards, sorted.front());
      if (sorted.size() > shards) best = std::max(best, sorted[shards - 1] + sorted[shards]);
      EXPECT_LE(*std::ranges::max_element(load), 1.5 * best) << seconds.size() << " " << shards;
    }
  }
}

TEST(Shards, LongestFirstAndTheFirstAmongEquals) {
  EXPECT_EQ(balanced_shards(std::vector<double>{1, 5, 4, 2}, 2),
            (std::vector<std::uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(balanced_shards(std::vector<double>{2, 2, 2, 2}, 2),
            (std::vector<std::uint32_t>{0, 1, 0, 1}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(balanced_shards(std::vector<double>{0, nan, -1, 0}, 2),
            (std::vector<std::uint32_t>{0, 1, 0, 1}));
  EXPECT_EQ(balanced_shards(std::vector<double>{1}, 3), (std::vector<std::uint32_t>{0}));
}

TEST(Shards, TheTableKnowsTheNearestVocabulary) {
  const double small = table_seconds("mask", 1), large = table_seconds("mask", 131072);
  EXPECT_GT(large, 10 * small);
  // a vocabulary that the table lacks has the time of the next smaller vocabulary
  EXPECT_EQ(table_seconds("mask", 131074), table_seconds("mask", 131073));
  EXPECT_EQ(table_seconds("no such check", 31), table_seconds("no such check", 131072));
  for (const Case& entry : case_table(Suite::gate)) {
    EXPECT_GT(table_seconds(to_string(entry.check), static_cast<std::uint64_t>(entry.input.vocab)),
              0)
        << entry.id;
  }
}

PlanOptions options_for(std::uint32_t shard, std::uint32_t shards) {
  PlanOptions options;
  options.suite = Suite::gate;
  options.samplers = {"model", "model:second"};
  options.make_sampler = [](const std::string&) {
    return std::make_unique<harness::ModelSampler>();
  };
  options.seed = 5;
  options.shard = shard;
  options.shards = shards;
  return options;
}

// According to the table of times, the longest of 4 shards of the gate takes at most 2 % more than
// the mean.
TEST(Shards, OfTheGateAreEqual) {
  std::set<std::uint64_t> places;
  std::vector<double> load;
  const CaseTimes times;
  std::map<std::string, Case> table;
  for (const Case& entry : case_table(Suite::gate)) table.emplace(entry.id, entry);
  for (std::uint32_t shard = 1; shard <= 4; ++shard) {
    const Plan plan = make_plan(options_for(shard, 4));
    ASSERT_EQ(plan.places.size(), plan.jobs.size());
    EXPECT_TRUE(std::ranges::is_sorted(plan.places));
    load.push_back(0);
    for (std::size_t i = 0; i < plan.jobs.size(); ++i) {
      EXPECT_TRUE(places.insert(plan.places[i]).second);
      Case entry = table.at(plan.jobs[i].record.id);
      // Sampled cases have the vocabulary that this run's seed chooses, as in the plan.
      entry.input.vocab = static_cast<std::int64_t>(plan.jobs[i].record.vocab);
      load.back() += times.seconds(entry, plan.jobs[i].record.sampler, entry.draws);
    }
  }
  EXPECT_EQ(places.size(), make_plan(options_for(1, 4)).planned);
  EXPECT_EQ(*places.rbegin() + 1, places.size());
  const double mean = std::accumulate(load.begin(), load.end(), 0.0) / 4;
  EXPECT_LE(*std::ranges::max_element(load), 1.02 * mean);
}

// Times of an earlier run are used for each sampler; times of other cases are scaled to the speed
// of its machine.
TEST(Shards, FollowTheTimesOfAnEarlierRun) {
  harness::RunRecord earlier;
  harness::CaseRecord one;
  one.id = "mask/x";
  one.check = "mask";
  one.vocab = 131072;
  one.sampler = "slow";
  one.seconds = 10 * table_seconds("mask", 131072);
  earlier.cases = {one};
  const CaseTimes times(earlier);
  Case entry;
  entry.id = "mask/x";
  entry.check = Check::mask;
  entry.input.vocab = 131072;
  EXPECT_EQ(times.seconds(entry, "slow", 0), one.seconds);
  EXPECT_EQ(times.seconds(entry, "other", 0), one.seconds);  // ten times the time in the table
  entry.check = Check::pit;
  entry.draws = 300;
  const double usual = 10 * table_seconds("pit", 131072);
  EXPECT_EQ(times.seconds(entry, "other", 100), 3 * usual);
}

}  // namespace
}  // namespace fairdraw::suites
