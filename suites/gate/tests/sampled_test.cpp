// The tests cover the cases that leave values to the run's seed, and the mutants that only these
// cases detect.
#include "suites/gate/cases/sampled/sampled.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/inputs/model_vocabularies.h"
#include "harness/run/checks/statistical/pit_bands.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/mutants/kill_matrix.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

constexpr std::size_t kModels = harness::kModelVocabularies.size();

std::vector<Case> sampled_cases_of(Suite suite) {
  std::vector<Case> cases = case_table(suite);
  std::erase_if(cases, [](const Case& entry) { return !entry.sampled; });
  return cases;
}

TEST(Sampled, ValuesFollowTheSeedAndStayInTheirRanges) {
  const std::vector<Case> cases = sampled_cases_of(Suite::gate);
  ASSERT_GE(cases.size(), 20U);
  for (const Case& entry : cases) {
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Case drawn = with_sampled_values(entry, seed);
      EXPECT_EQ(drawn.id, entry.id);
      EXPECT_GE(drawn.input.vocab, entry.sampled->smallest_vocab);
      EXPECT_LE(drawn.input.vocab, entry.sampled->largest_vocab);
      const bool own = entry.sampled->operations == 0;
      EXPECT_EQ(drawn.operations.size(), own ? entry.operations.size() : entry.sampled->operations);
      EXPECT_EQ(describe_sampled(drawn), describe_sampled(with_sampled_values(entry, seed)));
      seen.insert(describe_sampled(drawn));
      for (const Operation& operation : drawn.operations) {
        if (own) break;
        const reference::RowParameters& row = operation.parameters;
        EXPECT_GE(row.temperature, 1.0F / 16);
        EXPECT_LT(row.temperature, 16);
        EXPECT_EQ(row.top_k != 0, entry.sampled->filters.top_k);
        EXPECT_EQ(row.top_p < 1, entry.sampled->filters.top_p);
        EXPECT_EQ(row.min_p > 0, entry.sampled->filters.min_p);
        EXPECT_LE(row.top_k, drawn.input.vocab);
      }
    }
    EXPECT_GE(seen.size(), entry.sampled->turn ? kModels : 15U) << entry.id;
  }
}

TEST(Sampled, VocabulariesOfModelsTakeTurns) {
  for (std::size_t i = 1; i < kModels; ++i) {
    EXPECT_LT(harness::kModelVocabularies[i - 1].size, harness::kModelVocabularies[i].size);
  }
  // One run of suite gate must cover each model's vocabulary with every kind of case, except for
  // two kinds with few turns.
  for (const std::uint64_t seed : {0ULL, 1ULL, 13ULL, 0xffffffffffffffffULL}) {
    std::map<Check, std::set<std::int64_t>> sizes;
    for (const Case& entry : sampled_cases_of(Suite::gate)) {
      if (entry.sampled->turn) sizes[entry.check].insert(with_values(entry, seed).input.vocab);
    }
    for (const auto& [check, seen] : sizes) {
      const bool few = check == Check::streams || check == Check::verify;
      EXPECT_EQ(seen.size(), few ? (check == Check::verify ? 3U : 4U) : kModels)
          << to_string(check);
    }
    EXPECT_EQ(sizes.size(), 9U);
  }
  // Several runs of suite smoke must cover the vocabularies of all models over successive seeds.
  std::map<Check, std::set<std::int64_t>> sizes;
  for (const Case& entry : sampled_cases_of(Suite::smoke)) {
    if (!entry.sampled->turn) continue;
    for (std::uint64_t seed = 5; seed < 5 + kModels; ++seed) {
      sizes[entry.check].insert(with_values(entry, seed).input.vocab);
    }
  }
  for (const auto& [check, seen] : sizes) EXPECT_EQ(seen.size(), kModels) << to_string(check);
  EXPECT_EQ(sizes.size(), 1U);
}

// n random rows miss a band that has a fraction p of all values with a probability of (1 - p)^n.
TEST(Sampled, RowsMissNoBandOfParameters) {
  EXPECT_LT(std::pow(1 - part_of_temperature_band(0.05), 4096), 1e-34);
  EXPECT_LT(std::pow(1 - part_of_temperature_band(0.02), 4096), 1e-13);
  EXPECT_LT(std::pow(1 - part_of_fraction_band(0.01), 4096), 2e-9);
  // The fractions must agree with 400,000 drawn values within five standard deviations.
  const Sampled all{.largest_vocab = 1000,
                    .filters = {.top_k = true, .top_p = true, .min_p = true},
                    .operations = 400'000};
  const std::vector<Operation> operations = sampled_operations(all, 1000, 7);
  const auto part = [&](auto value, double low, double width) {
    const auto inside = std::count_if(operations.begin(), operations.end(), [&](const auto& one) {
      const auto of = static_cast<double>(value(one.parameters));
      return of >= low && of < low + width;
    });
    return static_cast<double>(inside) / static_cast<double>(operations.size());
  };
  const auto least = [&](double p) { return p - 5 * std::sqrt(p / 400'000); };
  for (double low = 0.07; low < 1.9; low += 0.13) {
    EXPECT_GE(part([](const auto& row) { return row.temperature; }, low, 0.05),
              least(part_of_temperature_band(0.05)));
  }
  for (double low = 0; low < 0.99; low += 0.09) {
    EXPECT_GE(part([](const auto& row) { return row.top_p; }, low, 0.01),
              least(part_of_fraction_band(0.01)));
    EXPECT_GE(part([](const auto& row) { return row.min_p; }, low, 0.01),
              least(part_of_fraction_band(0.01)));
  }
}

TEST(BandWindows, EachBandHoldsAWindowOfAThirdOfIt) {
  constexpr std::size_t kValues = 65'536;
  const std::vector<harness::Window> windows = harness::band_windows(kValues);
  EXPECT_EQ(windows.size(), 15U + 31U + 63U + 127U + 255U);
  for (const double part : {3.0 / 256, 0.015, 0.0225, 0.04, 0.1, 0.17}) {
    for (double first = 0; first + part <= 1; first += 0.0037) {
      std::size_t largest = 0;
      for (const harness::Window& window : windows) {
        const auto low = static_cast<double>(window.first) / kValues;
        const auto high = static_cast<double>(window.first + window.size) / kValues;
        if (low >= first && high <= first + part) largest = std::max(largest, window.size);
      }
      EXPECT_GE(static_cast<double>(largest), part * kValues / 3) << part << " from " << first;
    }
  }
}

// A sampler that rejects draws, so that a case with a sufficient design fails at its first draw.
class Refusing : public harness::Sampler {
 public:
  explicit Refusing(bool exact) {
    description_.name = "refusing";
    description_.semantics = exact ? "fairdraw" : "vllm_torch";
    description_.exact_integer = exact;
    description_.per_request_seeds = description_.bfloat16 = description_.float16 = true;
    description_.num_samples = description_.indices = description_.from_probs = true;
  }
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch&) override { return "by design"; }

 private:
  harness::SamplerDescription description_;
};

TEST(Sampled, EveryRowOfASeedHasThePowerThatItsCaseStates) {
  constexpr std::uint64_t kSeeds = 100;
  std::uint64_t judged = 0;
  for (const bool exact : {true, false}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      PlanOptions options;
      options.samplers = {"refusing"};
      options.make_sampler = [exact](const std::string&) {
        return std::make_unique<Refusing>(exact);
      };
      options.seed = seed;
      // pit is left out: it has the same power for every row, and rows above 2^16 tokens take a
      // second each. The power at models' vocabularies equals that of v7000-16000.
      for (const char* check : {"chi_squared/*/sampled*", "bets/*/v100-900/sampled*",
                                "binomial/*/v200-30000/sampled*", "binomial/*/v7000-16000/*"}) {
        options.case_glob = check;
        const Plan plan = make_plan(options);
        EXPECT_FALSE(plan.jobs.empty()) << check;
        for (const harness::CaseRecord& entry : run_plan(plan, options, 2, {}).cases) {
          ++judged;
          EXPECT_TRUE(entry.message.starts_with("call refused: by design"))
              << entry.id << ", seed " << seed << ": " << entry.message;
          EXPECT_NE(entry.message.find("the run's seed chose vocabulary"), std::string::npos);
          EXPECT_EQ(entry.measures.count("sampled_vocab"), 1U) << entry.id;
        }
      }
    }
  }
  EXPECT_EQ(judged, 2 * kSeeds * 5);
}

const Mutant& named(const std::string& name) {
  const auto found = std::find_if(catalogue().begin(), catalogue().end(),
                                  [&name](const Mutant& mutant) { return mutant.name == name; });
  EXPECT_NE(found, catalogue().end()) << name;
  return *found;
}

void expect_kill(const char* name, const char* by) {
  KillOptions options;
  options.seed = 11;
  const KillMatrix matrix = run_kill_matrix({&named(name)}, options, {});
  EXPECT_EQ(matrix.mutants.front().complaint(), "") << name;
  EXPECT_EQ(fnmatch(by, matrix.mutants.front().by.c_str(), 0), 0)
      << name << " is killed by " << matrix.mutants.front().by;
  EXPECT_EQ(matrix.twins.front().red, "") << name;
}

TEST(SampledMutants, BandsOfTemperatures) {
  expect_kill("temperatures-next-to-0.8-ignored", "pit/*/sampled/*");
  expect_kill("temperature-of-0.57-off", "tokens/*/sampled");
}

TEST(SampledMutants, BandsOfFilters) {
  expect_kill("top-p-of-0.63-wrong", "mask/*/sampled+top_p");
  expect_kill("min-p-of-0.12-wrong", "mask/*/sampled+min_p");
}

TEST(SampledMutants, RowsAndSizesOfTheTable) {
  expect_kill("right-on-known-rows", "chi_squared/*/sampled/*");
  expect_kill("right-on-known-sizes", "chi_squared/*/sampled/*");
}

TEST(SampledMutants, SmokeSeesATemperatureWithoutFilters) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {"mutant"};
  options.make_sampler = [](const std::string&) {
    return named("temperature-of-draws-ignored").make();
  };
  options.case_glob = "chi_squared/*/none/*";
  const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
  EXPECT_EQ(record.exit_code(), 1);
}

TEST(SampledMutants, NarrowNoise) {
  expect_kill("uniform-in-bfloat16", "bets/*/bfloat16/*");
  expect_kill("uniform-in-float16", "bets/*/float16/*");
  expect_kill("noise-in-float16", "*/float16/*");
}

TEST(SampledMutants, LargeIds) {
  expect_kill("ids-from-2-17-drawn-less", "binomial/*/vmodel-*/sampled/*");
  expect_kill("ids-from-2-18-drawn-less", "binomial/gaussian/v1048576/*");
}

TEST(SampledMutants, VocabulariesOfModelsAndBandsOfSizes) {
  expect_kill("wrong-from-7000-to-16000", "binomial/*/v7000-16000/*");
  expect_kill("wrong-from-33000-to-49000", "binomial/*/v33000-49000/*");
  expect_kill("prefilter-above-3000", "binomial/*");
}

TEST(SampledMutants, WorseAfterManyDraws) {
  expect_kill("coarse-after-1000-draws", "*");
  expect_kill("coarse-after-50000-draws", "chi_squared/*");
}

}  // namespace
}  // namespace fairdraw::suites
