// The tests cover shards: together they must equal the whole run, and records of different runs
// must be rejected by name.
#include "suites/gate/run/complete_record.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "harness/contract/usage_error.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::RunRecord;

RunRecord whole_run() {
  RunRecord record;
  record.suite = "gate";
  record.seed = 7;
  record.seed_source = "commit 0123";
  record.commit = "0123";
  record.shard = "1/1";
  record.error_budget.statistical_cases = 512;
  record.samplers = {{"cpu", "1", "fairdraw"}};
  for (int i = 0; i < 11; ++i) {
    CaseRecord one;
    one.id = "binomial/" + std::to_string(i);
    one.check = "binomial";
    one.sampler = "cpu";
    one.verdict = harness::Verdict::passed;
    one.draws = 100;
    one.p_value = 0.25;
    one.measures["spent"] = 9e-13;
    record.cases.push_back(one);
  }
  return record;
}

// Returns the shards of a run; case i belongs to shard i % parts + 1.
std::vector<NamedRecord> shards_of(const RunRecord& whole, std::size_t parts) {
  std::vector<NamedRecord> shards;
  for (std::size_t part = 0; part < parts; ++part) {
    RunRecord shard = whole;
    shard.shard = std::to_string(part + 1) + "/" + std::to_string(parts);
    shard.cases.clear();
    for (std::size_t i = part; i < whole.cases.size(); i += parts) {
      shard.cases.push_back(whole.cases[i]);
    }
    complete_record(shard);
    shards.push_back({std::string(1, static_cast<char>('a' + part)) + ".json", shard});
  }
  return shards;
}

std::string refusal(const std::vector<NamedRecord>& records) {
  try {
    merge_shards(records);
  } catch (const harness::UsageError& error) {
    return error.what();
  }
  return "none";
}

std::string refusal_after(const std::function<void(std::vector<NamedRecord>&)>& change) {
  std::vector<NamedRecord> shards = shards_of(whole_run(), 3);
  change(shards);
  return refusal(shards);
}

TEST(MergeShards, gives_the_record_of_the_whole_run) {
  RunRecord whole = whole_run();
  complete_record(whole);
  ASSERT_EQ(whole.cases.size(), 12u);  // the number includes the global case
  for (const std::size_t parts : {1U, 2U, 3U, 11U, 13U}) {
    std::vector<NamedRecord> shards = shards_of(whole_run(), parts);
    std::swap(shards.front(), shards.back());  // in any order
    const RunRecord merged = merge_shards(shards);
    ASSERT_EQ(merged.cases.size(), whole.cases.size()) << parts;
    for (std::size_t i = 0; i < whole.cases.size(); ++i) {
      EXPECT_EQ(merged.cases[i].id, whole.cases[i].id);
      EXPECT_EQ(merged.cases[i].p_value, whole.cases[i].p_value);
      EXPECT_EQ(merged.cases[i].replay, whole.cases[i].replay);
    }
    EXPECT_EQ(merged.shard, "1/1");
    EXPECT_EQ(merged.draws, whole.draws);
    EXPECT_EQ(merged.error_budget.spent, whole.error_budget.spent);
    EXPECT_GT(merged.error_budget.spent, 11 * 9e-13 * (1 - 0x1p-40));
  }
}

TEST(MergeShards, refuses_what_is_not_of_one_run_and_names_it) {
  const auto differs = [](const std::function<void(RunRecord&)>& change) {
    return refusal_after([&change](auto& shards) { change(shards[1].record); });
  };
  EXPECT_EQ(differs([](RunRecord& record) { record.seed = 8; }),
            "a.json and b.json are not of one run: seed '7 (commit 0123)' and '8 (commit 0123)'");
  EXPECT_EQ(differs([](RunRecord& record) { record.commit = "4567"; }),
            "a.json and b.json are not of one run: commit '0123' and '4567'");
  EXPECT_EQ(differs([](RunRecord& record) { record.suite = "smoke"; }),
            "a.json and b.json are not of one run: suite 'gate' and 'smoke'");
  EXPECT_EQ(differs([](RunRecord& record) { record.samplers[0].version = "2"; }),
            "a.json and b.json are not of one run: samplers 'cpu 1 (fairdraw)' and 'cpu 2 "
            "(fairdraw)'");
  EXPECT_EQ(differs([](RunRecord& record) { record.selection = "x*"; }),
            "a.json and b.json are not of one run: choice of cases '' and 'x*'");
  EXPECT_EQ(differs([](RunRecord& record) { record.shard = "2/4"; }),
            "a.json and b.json are not of one run: shard '1/3' and '2/4'");
  EXPECT_EQ(differs([](RunRecord& record) { record.shard = "2"; }), "b.json: shard '2' is not I/N");
}

TEST(MergeShards, refuses_shards_that_are_missing_or_twice_or_not_whole) {
  EXPECT_EQ(refusal_after([](auto& shards) { shards.erase(shards.begin()); }),
            "1 of 3 shards are missing: 1/3");
  EXPECT_EQ(refusal_after([](auto& shards) { shards.push_back({"d.json", shards[1].record}); }),
            "b.json and d.json are both shard 2/3");
  EXPECT_EQ(refusal_after([](auto& shards) { shards[1].record.cases.resize(2); }).substr(0, 22),
            "b.json holds 2 cases; ");
  EXPECT_EQ(
      refusal_after([](auto& shards) { shards[1].record.cases[0] = shards[0].record.cases[0]; }),
      "case 'binomial/0' of cpu is in a.json and in b.json");
  EXPECT_EQ(refusal({}), "there is no record to merge");
}

TEST(MergeShards, refuses_to_spend_more_than_there_is) {
  const std::string error = refusal_after([](auto& shards) {
    for (CaseRecord& one : shards[0].record.cases) one.measures["spent"] = 4e-10;
  });
  EXPECT_NE(error.find("error budget overdrawn"), std::string::npos) << error;
}

TEST(MergeShards, joins_what_the_hosts_say) {
  std::vector<NamedRecord> shards = shards_of(whole_run(), 2);
  shards[0].record.environment = {{"cpu", "one"}, {"os", "same"}};
  shards[1].record.environment = {{"cpu", "two"}, {"os", "same"}};
  shards[0].record.seconds = 1.5;
  shards[1].record.seconds = 2;
  const RunRecord merged = merge_shards(shards);
  EXPECT_EQ(merged.environment.at("cpu"), "one; two");
  EXPECT_EQ(merged.environment.at("os"), "same");
  EXPECT_EQ(merged.seconds, 3.5);
}

TEST(MergeShards, says_once_what_two_hosts_say) {
  std::vector<NamedRecord> shards = shards_of(whole_run(), 4);
  const std::vector<const char*> cpus = {"a", "b", "b", "a"};
  for (std::size_t i = 0; i < cpus.size(); ++i) shards[i].record.environment["cpu"] = cpus[i];
  EXPECT_EQ(merge_shards(shards).environment.at("cpu"), "a; b");
}

TEST(MergeShards, has_the_name_of_a_run_only_where_all_shards_have_it) {
  std::vector<NamedRecord> shards = shards_of(whole_run(), 3);
  const auto has_name = [&shards] { return merge_shards(shards).environment.contains(kRunId); };
  EXPECT_FALSE(has_name());
  for (std::size_t i = 0; i < 3; ++i) {
    shards[i].record.environment[kRunId] = "pipeline 7";
    EXPECT_EQ(has_name(), i == 2) << i;
  }
  EXPECT_EQ(merge_shards(shards).environment.at(kRunId), "pipeline 7");
  for (NamedRecord& shard : shards) {
    shard.record.environment[kRunId] = "pipeline 8";
    EXPECT_EQ(has_name(), &shard == &shards.back());
  }
  shards[0].record.environment.erase(kRunId);
  EXPECT_FALSE(has_name());
}

// Each small mistake is listed once, with the passed case that needs the fewest draws to detect it;
// 0 means that no number of draws suffices.
TEST(SmallMistakes, areThoseOfTheCaseThatFindsThemFirst) {
  RunRecord record = whole_run();
  record.selection = "binomial/*";  // no global case
  const auto weigh = [&record](std::size_t at, const std::string& mistake, double needed) {
    record.cases[at].measures["draws to find: " + mistake] = needed;
    record.cases[at].measures["difference: " + mistake] = 1 / (needed + 2);
  };
  weigh(0, "a", 5e6);
  weigh(1, "a", 2e6);
  weigh(2, "a", 0);
  weigh(3, "a", 1e3);
  record.cases[3].verdict = harness::Verdict::failed;
  weigh(4, "b", 0);
  weigh(5, "uniforms of 24 bits", 0);
  weigh(6, "no number of draws", -1);  // such a number may be in a record that is read from a file
  weigh(7, "no number of draws", 1e300);
  weigh(8, "no number of draws", std::numeric_limits<double>::quiet_NaN());
  complete_record(record);
  ASSERT_EQ(record.small_mistakes.size(), 3u);
  EXPECT_EQ(record.small_mistakes[0].mistake, "a");
  EXPECT_EQ(record.small_mistakes[0].id, "binomial/1");
  EXPECT_EQ(record.small_mistakes[0].needed, 2'000'000u);
  EXPECT_EQ(record.small_mistakes[0].draws, 100u);
  EXPECT_EQ(record.small_mistakes[0].discrepancy, 1 / (2e6 + 2));
  EXPECT_EQ(record.small_mistakes[1].needed, 0u);
  EXPECT_EQ(record.small_mistakes[2].mistake, "uniforms of 24 bits");

  // Supplied random words at every end of an interval reveal words of few bits if tokens are
  // compared bit for bit, but not under the slack of float32.
  record.cases[6].check = "scripted";
  complete_record(record);
  EXPECT_EQ(record.small_mistakes.size(), 3u);
  record.cases[7].check = "tokens";
  complete_record(record);
  EXPECT_EQ(record.small_mistakes.size(), 2u);
}

}  // namespace
}  // namespace fairdraw::suites
