// The tests require that a case drawn in parts gives the same record, byte for byte, as in one run.
#include "suites/gate/run/merge_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "harness/adapters/model_sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/run/calls/request.h"
#include "reports/report.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;

// Glob for cases of each check that can be split, with sampled values and rows of probabilities
// among them, and for cases of other checks.
constexpr const char* kCases = "[bc]*/gaussian*/*/n[1-9]*";
constexpr const char* kSampler = "cpu";

PlanOptions options_for(const std::string& sampler, const std::string& cases,
                        std::optional<harness::CasePart> part = {}, bool second_look = false) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {sampler};
  options.make_sampler = harness::make_builtin_sampler;
  options.case_glob = cases;
  options.draws_scale = 1.5;
  options.seed = 11;
  options.seed_source = "--seed 11";
  options.replay_options = " --draws-scale 1.5";
  options.part = part;
  options.second_look = second_look;
  return options;
}

RunRecord run(const PlanOptions& options) { return run_plan(make_plan(options), options, 2, {}); }

// Returns the bytes of a record without the parts that differ from run to run.
std::string bytes_of(RunRecord record) {
  record.seconds = 0;
  record.environment.clear();
  for (CaseRecord& one : record.cases) one.seconds = 0;
  return reports::to_json(record);
}

// Writes a record and reads it back, as if it went through a file.
NamedRecord as_file(const RunRecord& record) {
  return {record.case_part, reports::from_json(reports::to_json(record))};
}

std::vector<NamedRecord> parts_of(const std::string& cases, std::uint32_t parts) {
  std::vector<NamedRecord> records;
  for (std::uint32_t part = 1; part <= parts; ++part) {
    records.push_back(as_file(run(options_for(kSampler, cases, harness::CasePart{part, parts}))));
  }
  return records;
}

// Returns options as `merge` makes them from records, without a glob and without a sampler.
PlanOptions recorded() {
  PlanOptions options;
  options.draws_scale = 1.5;
  options.replay_options = " --draws-scale 1.5";
  return options;
}

TEST(MergeParts, GivesTheRecordOfOneRunByteForByte) {
  const RunRecord whole = run(options_for(kSampler, kCases));
  std::map<std::string, int> split;
  for (const CaseRecord& one : whole.cases) {
    if (one.verdict == Verdict::passed) ++split[one.check];
  }
  for (const char* check : {"chi_squared", "bets", "binomial"}) EXPECT_GT(split[check], 0) << check;
  EXPECT_GT(split.size(), 3U);  // some of the cases cannot be split
  for (const std::uint32_t parts : {1U, 3U}) {
    std::vector<NamedRecord> records = parts_of(kCases, parts);
    std::uint64_t draws = 0;
    for (const NamedRecord& named : records) {
      EXPECT_EQ(named.record.exit_code(), 0) << named.name;
      draws += named.record.draws;
      for (const CaseRecord& one : named.record.cases) {
        EXPECT_TRUE(one.verdict == Verdict::skipped || named.name.starts_with("1/")) << one.id;
      }
    }
    EXPECT_EQ(draws, whole.draws);
    std::ranges::reverse(records);  // in any order
    const RunRecord merged = merge_parts(records, recorded(), 2);
    EXPECT_EQ(bytes_of(merged), bytes_of(whole)) << parts;
  }
}

// The parts of a case must have no draws in common, and together must make the draws of the whole
// case.
TEST(MergeParts, DrawDisjointSeeds) {
  struct Recorder : harness::ModelSampler {
    explicit Recorder(std::vector<std::uint64_t>& to) : seeds(to) {}
    std::string run(const fairdraw_batch& batch) override {
      seeds.push_back(batch.seed[0]);
      return ModelSampler::run(batch);
    }
    std::vector<std::uint64_t>& seeds;
  };
  harness::Request row;
  row.rows = 1;
  row.vocab = 3;
  row.logits = {0, 1, 2};
  row.parameters.resize(1);
  row.seed = row.offset = {0};
  const auto seeds_of = [&row](harness::CasePart part) {
    std::vector<std::uint64_t> seeds;
    Recorder sampler(seeds);
    const harness::Counts counts = harness::count_draws(sampler, row, 200'000, 9, part);
    EXPECT_EQ(counts.trouble, "");
    return seeds;
  };
  std::vector<std::uint64_t> whole = seeds_of({}), parts;
  for (std::uint32_t part = 1; part <= 3; ++part) {
    const auto more = seeds_of({part, 3});
    EXPECT_GT(more.size(), 0U);
    parts.insert(parts.end(), more.begin(), more.end());
  }
  std::ranges::sort(whole);
  std::ranges::sort(parts);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(std::ranges::adjacent_find(whole), whole.end());
}

// A sampler whose temperatures are too high by a factor.
class Warm final : public harness::Sampler {
 public:
  explicit Warm(float factor) : factor_(factor) {}
  const harness::SamplerDescription& description() const override { return own_->description(); }
  std::string run(const fairdraw_batch& batch) override {
    fairdraw_batch warm = batch;
    std::vector<float> temperature(batch.temperature,
                                   batch.temperature + static_cast<std::size_t>(batch.rows));
    for (float& one : temperature) one *= factor_;
    warm.temperature = temperature.data();
    return own_->run(warm);
  }

 private:
  float factor_;
  std::unique_ptr<harness::Sampler> own_ = harness::make_builtin_sampler(kSampler);
};

// If a check needs a second look, the record is incomplete and does not pass. When the second look
// of the parts is merged, too, the record must equal that of one run. A bug near the detection
// limit makes a second look likely: for some of these factors a second look is needed, and for some
// the first look fails.
TEST(MergeParts, AsksForASecondLookAndJudgesIt) {
  const std::string cases = "[bc]*/gaussian_wide/v1000/none/t1/n*";
  std::map<bool, int> looked_again;
  for (const float factor : {1.01F, 1.02F, 1.03F, 1.05F, 1.2F}) {
    const auto options = [&](std::optional<harness::CasePart> part, bool second_look) {
      PlanOptions made = options_for("warm", cases, part, second_look);
      made.make_sampler = [factor](const std::string&) { return std::make_unique<Warm>(factor); };
      return made;
    };
    const RunRecord whole = run(options({}, false));
    std::vector<NamedRecord> records;
    const auto add_parts = [&](bool second_look) {
      for (std::uint32_t part = 1; part <= 2; ++part) {
        records.push_back(as_file(run(options(harness::CasePart{part, 2}, second_look))));
      }
    };
    add_parts(false);
    const RunRecord merged = merge_parts(records, recorded(), 2);
    ++looked_again[!merged.incomplete.empty()];
    if (!merged.incomplete.empty()) {
      EXPECT_NE(merged.incomplete.find("--second-look"), std::string::npos);
      EXPECT_LT(merged.cases.size(), whole.cases.size());
      EXPECT_NE(merged.exit_code(), 0);
      add_parts(true);
    }
    EXPECT_EQ(bytes_of(merge_parts(records, recorded(), 2)), bytes_of(whole)) << factor;
  }
  EXPECT_GT(looked_again[true], 0);
  EXPECT_GT(looked_again[false], 0);
}

std::string refusal(const std::vector<NamedRecord>& records) {
  try {
    merge_parts(records, recorded(), 1);
  } catch (const harness::UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(MergeParts, RefusesWhatIsNotOfOneRun) {
  const std::vector<NamedRecord> parts = parts_of("binomial/gaussian/*", 3);
  const auto after = [&parts](const std::function<void(std::vector<NamedRecord>&)>& change) {
    std::vector<NamedRecord> changed = parts;
    change(changed);
    return refusal(changed);
  };
  EXPECT_EQ(after([](auto& all) { all.erase(all.begin() + 1); }), "1 of 3 parts are missing: 2/3");
  EXPECT_EQ(after([](auto& all) { all.push_back({"d", all[1].record}); }),
            "2/3 and d are both case part 2/3");
  EXPECT_NE(after([](auto& all) { all[2].record.seed = 12; }).find("seed"), std::string::npos);
  EXPECT_NE(after([](auto& all) { all[2].record.incomplete = "stopped"; }).find("is incomplete"),
            std::string::npos);
  EXPECT_NE(after([](auto& all) { all[2].record.case_part = "3/4"; }).find("'1/3' and '3/4'"),
            std::string::npos);
  EXPECT_NE(after([](auto& all) { all[2].record.case_part = "x"; }).find("is not I/N"),
            std::string::npos);
}

TEST(CaseParts, AreRefusedWhereTheyMakeNoSense) {
  const auto error_of = [](const PlanOptions& options) -> std::string {
    try {
      make_plan(options);
    } catch (const harness::UsageError& error) {
      return error.what();
    }
    return "none";
  };
  PlanOptions options = options_for(kSampler, kCases, harness::CasePart{3, 2});
  EXPECT_NE(error_of(options).find("3/2 is out of range"), std::string::npos);
  options = options_for(kSampler, kCases, harness::CasePart{1, 2});
  options.shards = 2;
  EXPECT_NE(error_of(options).find("--shard is given too"), std::string::npos);
  options = options_for(kSampler, "mask/gaussian/*", harness::CasePart{2, 2});
  EXPECT_NE(error_of(options).find("can be split"), std::string::npos);
  options.part = harness::CasePart{1, 2};
  EXPECT_EQ(error_of(options), "none");  // part 1 runs the whole case
}

// --draws-scale gives the requested number of draws, within the limits of memory and tests, and the
// discrepancy that these draws detect.
TEST(DrawsScale, ScalesEachCaseWithinItsBounds) {
  const auto draws_of = [](const std::string& cases, std::optional<double> scale) {
    PlanOptions options = options_for(kSampler, cases);
    options.draws.reset();
    options.draws_scale = scale;
    std::map<std::string, double> found;
    options.part = harness::CasePart{10000, 10000};  // the last part has almost no draws
    for (const CaseRecord& one : run(options).cases) {
      found[one.id] = one.min_discrepancy.value_or(0);
      EXPECT_LE(one.draws, 1U << 16);
    }
    return found;
  };
  const auto usual = draws_of("chi_squared/gaussian_wide/v1000/none/*", std::nullopt);
  const auto more = draws_of("chi_squared/gaussian_wide/v1000/none/*", 100);
  ASSERT_GT(usual.size(), 0U);
  for (const auto& [id, discrepancy] : usual) {
    // The smallest discrepancy that can be detected decreases with the root of the number of draws;
    // more cells raise it slightly.
    EXPECT_LT(more.at(id), discrepancy / 5) << id;
    EXPECT_GT(more.at(id), discrepancy / 11) << id;
  }
  for (const Case& entry : case_table(Suite::nightly)) {
    if (!is_statistical(entry.check)) continue;
    const std::uint64_t most = max_draws(entry, false);
    EXPECT_GE(most, entry.draws) << entry.id;
    EXPECT_GE(most, can_be_split(entry.check) ? 10'000'000'000U : 1U << 24) << entry.id;
    EXPECT_LE(max_draws(entry, true), std::uint64_t{1} << 32) << entry.id;
  }
}

}  // namespace
}  // namespace fairdraw::suites
