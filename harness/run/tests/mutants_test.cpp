// Self-tests of the checks: the sampler that is right by definition passes each check, and each
// mutant fails the check that is made for it. The numbers of draws and the declared discrepancies
// of these tests are within the design's power (miss probability 1e-6), because an underpowered
// check would not fail.
#include "harness/run/tests/mutants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include "harness/run/calls/forwarding_sampler.h"
#include "harness/run/checks/checks.h"
#include "harness/run/tests/case_share.h"

namespace fairdraw::harness {
namespace {

using Check = CheckOutcome (*)(const CheckInput&);

struct Setting {
  const char* name;
  Check check;
  Family family;
  std::int64_t vocab;
  std::vector<reference::RowParameters> parameters;
  std::int64_t rows = 1;
  std::uint64_t draws = 0;
  double declared = 0;
  bool processed = false;
};

const std::vector<reference::RowParameters> kMixed = {
    {.temperature = 0.7F, .top_k = 50, .top_p = 0.9F},
    {},
    {.temperature = 0},
    {.top_p = 0.6F},
    {.temperature = 2, .top_k = 20, .min_p = 0.01F}};

void PrintTo(const Setting& entry, std::ostream* out) { *out << entry.name; }

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"mask", check_mask, Family::ties_at_k, 500, kMixed, 10},
      {"tokens", check_tokens, Family::gaussian_wide, 500, kMixed, 10, 80},
      {"support", check_support, Family::gaussian_wide, 500, kMixed, 10, 2000},
      {"status", check_status, Family::gaussian, 100, kMixed, 5},
      {"batches", check_batches, Family::ties_at_k, 100, kMixed, 5},
      {"boundaries", check_boundaries, Family::gaussian, 100, {{}}, 1, 1024},
      {"processing", check_processing, Family::gaussian, 65, kMixed, 64},
      {"processed logprobs", check_logprobs, Family::ties_at_k, 65, kMixed, 64, 0, 0, true},
      {"verify", check_speculation, Family::gaussian, 33, kMixed, 640, 0, 0, true},
      {"replay", check_replay, Family::gaussian, 300, kMixed, 10},
      {"streams", check_streams, Family::all_equal, 131072, {{}}},
      {"metamorphic",
       check_metamorphic,
       Family::ties_at_k,
       300,
       {{.top_k = 50}, {.top_p = 0.5F}},
       6},
      {"float_environment", check_float_environment, Family::gaussian, 300, kMixed, 10},
      {"probabilities", check_probabilities, Family::gaussian_wide, 500, kMixed, 10},
      {"chi_squared", check_chi_squared, Family::gaussian, 200, {{}}, 1, 200'000, 0.05},
      {"chi_squared of a tail", check_chi_squared, Family::zipf, 4096, {{}}, 1, 50'000, 0.1},
      {"bets", check_bets, Family::gaussian, 200, {{}}, 1, 100'000, 0.05},
      {"bets on a tail", check_bets, Family::zipf, 4096, {{}}, 1, 50'000, 0.1},
      {"binomial", check_binomial, Family::gaussian, 200, {{}}, 1, 50'000, 0.03},
      // The 51200 draws find a distance of 6.5 / sqrt(51200) = 0.029.
      {"pit", check_pit, Family::gaussian_wide, 500, {{.top_k = 40}}, 5120, 51'200, 0.032},
  };
  return all;
}

CheckOutcome run(Sampler& sampler, const Setting& setting) {
  const auto logits = family_source(setting.family, 20, setting.vocab, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = setting.parameters;
  input.seed = 12;
  input.rows = setting.rows;
  for (std::int64_t row = 0; setting.processed && row < setting.rows; ++row) {
    input.processing.push_back(processing_for_row(input.seed, row, setting.vocab));
  }
  input.draws = setting.draws;
  input.declared_discrepancy = setting.declared;
  input.false_fail_rate = kShare;
  return setting.check(input);
}

const Setting& setting(const std::string& name) {
  return *std::find_if(settings().begin(), settings().end(),
                       [&name](const Setting& entry) { return entry.name == name; });
}

class EveryCheck : public testing::TestWithParam<Setting> {};

TEST_P(EveryCheck, PassesTheModel) {
  const auto sampler = make_builtin_sampler("model");
  const CheckOutcome outcome = run(*sampler, GetParam());
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  // Allows for rounding in a sum of 32 levels.
  EXPECT_LE(outcome.spent(), kShare * (1 + 32 * 0x1p-53));
}

TEST_P(EveryCheck, SeesAWriteBehindTheTokens) {
  const auto sampler = make_mutant("writes behind its tokens");
  const CheckOutcome outcome = run(*sampler, GetParam());
  EXPECT_STREQ(to_string(outcome.verdict), "failed");
  EXPECT_NE(outcome.message.find("past the end of tokens"), std::string::npos) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Checks, EveryCheck, testing::ValuesIn(settings()),
                         [](const testing::TestParamInfo<Setting>& entry) {
                           std::string name = entry.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

struct Kill {
  const char* mutant;
  const char* check;
};

void PrintTo(const Kill& kill, std::ostream* out) { *out << kill.mutant << ", by " << kill.check; }

const Kill kKills[] = {
    {"first row's processing for all rows", "processing"},
    {"first row's processing for all rows", "processed logprobs"},
    {"drafts leave no history", "verify"},
    {"temperature 1.05 times too high", "chi_squared"},
    {"temperature 1.05 times too high", "bets"},
    {"temperature 1.05 times too high", "pit"},
    {"temperature 1.05 times too high", "tokens"},
    {"one lane of 16 never drawn", "binomial"},
    {"one lane of 16 never drawn", "chi_squared"},
    {"one lane of 16 never drawn", "bets"},
    {"tail beyond rank 1000 never drawn", "bets on a tail"},
    {"tail beyond rank 1000 never drawn", "chi_squared of a tail"},
    {"crossing token dropped", "mask"},
    {"ties at k dropped", "mask"},
    {"ties at k dropped", "metamorphic"},
    {"first seed for all outputs", "replay"},
    {"first seed for all outputs", "streams"},
    {"first seed for all outputs", "pit"},
    {"first row's parameters for all rows", "replay"},
    {"first row's parameters for all rows", "mask"},
    {"offset ignored", "streams"},
    {"offset added to the sample's number", "streams"},
    {"draws too even", "chi_squared"},
    {"draws too even", "tokens"},
    {"status missing", "status"},
    {"batch size in the seed", "replay"},
    {"probabilities before the filters", "probabilities"},
    {"token outside of the mask drawn", "support"},
    {"token outside of the mask drawn", "pit"},
    {"vocab itself is a token", "support"},
    {"vocab itself is a token", "chi_squared"},
    {"vocab itself is a token", "bets"},
    {"vocab itself is a token", "binomial"},
#if defined(__x86_64__)
    {"leaves flush-to-zero on", "float_environment"},
    {"follows the caller's FTZ and DAZ", "float_environment"},
    {"follows the caller's rounding mode", "float_environment"},
#endif
};

class EveryMutant : public testing::TestWithParam<Kill> {};

TEST_P(EveryMutant, IsKilled) {
  const auto sampler = make_mutant(GetParam().mutant);
  const CheckOutcome outcome = run(*sampler, setting(GetParam().check));
  EXPECT_STREQ(to_string(outcome.verdict), "failed")
      << GetParam().mutant << " survives " << GetParam().check << ": " << outcome.message;
  EXPECT_FALSE(outcome.message.empty());
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(kKills));

TEST(Mutants, AllHaveAKiller) {
  for (const RunMutant& mutant : mutants()) {
    const bool named = std::any_of(std::begin(kKills), std::end(kKills),
                                   [&](const Kill& kill) { return mutant.name == kill.mutant; });
    EXPECT_TRUE(named || mutant.name == "writes behind its tokens") << mutant.name;
  }
}

// A sampler that has the results of another sampler and a different description.
class Saying : public ForwardingSampler {
 public:
  Saying(std::unique_ptr<Sampler> sampler, void (*change)(SamplerDescription&))
      : ForwardingSampler(*sampler), sampler_(std::move(sampler)) {
    description_ = sampler_->description();
    change(description_);
  }
  const SamplerDescription& description() const override { return description_; }

 private:
  std::unique_ptr<Sampler> sampler_;
  SamplerDescription description_;
};

#if defined(__x86_64__)
// Flushing to zero is a separate cause, and is not judged if the promise is declined; rounding is
// judged.
TEST(FloatEnvironment, ThatFlushesIsACauseAndMayBeDeclined) {
  const Setting& by = setting("float_environment");
  const auto causes_of = [](const CheckOutcome& outcome) {
    std::vector<std::string> names;
    for (const Suspect& hint : outcome.evidence.suspects) names.push_back(hint.bug);
    return names;
  };
  const auto follows = make_mutant("follows the caller's FTZ and DAZ");
  EXPECT_EQ(causes_of(run(*follows, by)), std::vector<std::string>{"follows the caller's FTZ"});
  const auto rounds = make_mutant("follows the caller's rounding mode");
  EXPECT_EQ(causes_of(run(*rounds, by)), std::vector<std::string>{"numeric precision"});

  const auto decline = [](SamplerDescription& said) { said.flush_modes = false; };
  Saying declines(make_mutant("follows the caller's FTZ and DAZ"), decline);
  const CheckOutcome outcome = run(declines, by);
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  EXPECT_EQ(outcome.lacks, std::vector<std::string>{"flush_modes"});
  Saying still_rounds(make_mutant("follows the caller's rounding mode"), decline);
  EXPECT_STREQ(to_string(run(still_rounds, by).verdict), "failed");
}
#endif

// A sampler that gives token 0 for bad rows, and no token for padding.
class AnswersBadRows final : public Saying {
 public:
  using Saying::Saying;
  std::string run(const fairdraw_batch& batch) override {
    std::string refused = Saying::run(batch);
    for (std::int64_t output = 0; output < batch.outputs; ++output) {
      const std::int64_t row = batch.indices != nullptr ? batch.indices[output] : output;
      const bool padding =
          batch.active != nullptr && row >= 0 && row < batch.rows && batch.active[row] == 0;
      for (std::int32_t sample = 0; sample < batch.num_samples && !padding; ++sample) {
        std::int32_t& token = batch.tokens[output * batch.num_samples + sample];
        token = std::max(token, 0);
      }
    }
    return refused;
  }
};

// A sampler whose caller refuses bad rows is judged on padding, but not on bad rows.
TEST(BadRows, MayBeDeclined) {
  const auto plain = [](SamplerDescription& said) {
    said.exact_integer = said.reports_status = false;
  };
  AnswersBadRows promises(make_builtin_sampler("model"), plain);
  AnswersBadRows declines(make_builtin_sampler("model"), [](SamplerDescription& said) {
    said.exact_integer = said.reports_status = said.bad_rows = false;
  });
  for (const char* const name : {"status", "processing", "batches"}) {
    EXPECT_STREQ(to_string(run(promises, setting(name)).verdict), "failed") << name;
    const CheckOutcome outcome = run(declines, setting(name));
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << name << ": " << outcome.message;
    EXPECT_NE(std::ranges::find(outcome.lacks, "bad_rows"), outcome.lacks.end()) << name;
  }
}

TEST(TooGood, IsConfirmedOnFreshDraws) {
  const auto sampler = make_mutant("draws too even");
  const CheckOutcome outcome = run(*sampler, setting("chi_squared"));
  EXPECT_EQ(outcome.draws, 2 * setting("chi_squared").draws);
  EXPECT_NE(outcome.message.find("too good for independent draws"), std::string::npos)
      << outcome.message;
}

// A large fault ends the case in its first batches.
TEST(Bets, EndAsSoonAsTheyKnow) {
  const auto sampler = make_mutant("one lane of 16 never drawn");
  const CheckOutcome outcome = run(*sampler, setting("bets"));
  EXPECT_LT(outcome.draws, setting("bets").draws / 4);
  EXPECT_NE(outcome.message.find("was drawn 0 times"), std::string::npos) << outcome.message;
}

// A fault that is too small for the draws is suspicious at their end, and gets more draws. Such a
// case then fails, or it ends at four times the draws and is recorded as `watch`. Some of these
// numbers of draws lie between a number that finds nothing and one that suffices.
TEST(Bets, GoOnWhileTheyAreSuspicious) {
  int went_on = 0;
  for (std::uint64_t draws = 16'000; draws <= 64'000; draws += draws / 4) {
    const auto sampler = make_mutant("temperature 1.05 times too high");
    Setting few = setting("bets");
    few.draws = draws;
    few.declared = 0.2;
    const CheckOutcome outcome = run(*sampler, few);
    EXPECT_LE(outcome.draws, 4 * draws);
    if (outcome.draws <= draws) continue;
    ++went_on;
    EXPECT_TRUE(outcome.failed() || !outcome.watch.empty()) << outcome.message;
  }
  EXPECT_GT(went_on, 0);
}

// The effect size is reported with a confidence interval. For a right sampler the interval begins
// at 0; for a wrong sampler it excludes 0 and begins below the observed total variation distance.
TEST(EffectSize, IsAnInterval) {
  ModelSampler fair;
  const CheckOutcome right = run(fair, setting("chi_squared"));
  EXPECT_EQ(right.measures.at("total_variation_lower"), 0);
  EXPECT_GT(right.measures.at("total_variation_upper"), *right.total_variation);
  const auto sampler = make_mutant("one lane of 16 never drawn");
  const CheckOutcome wrong = run(*sampler, setting("chi_squared"));
  EXPECT_GT(wrong.measures.at("total_variation_lower"), 0);
  EXPECT_LT(wrong.measures.at("total_variation_lower"), *wrong.total_variation);
}

TEST(Orderings, AreFourWhereLanesAreNotIds) {
  ModelSampler sampler;
  const CheckOutcome few = run(sampler, setting("chi_squared"));
  EXPECT_EQ(few.measures.count("dkwm_lane_p_value"), 0U);
  const CheckOutcome outcome = run(sampler, setting("chi_squared of a tail"));
  for (const char* name : {"probability", "id", "lane", "hash"}) {
    EXPECT_EQ(outcome.measures.count(std::string("dkwm_") + name + "_p_value"), 1U) << name;
  }
}

// With two tokens, the exact distribution of 200 further draws is tested as well.
TEST(SmallSupports, AreJudgedExactly) {
  ModelSampler sampler;
  Setting two = setting("chi_squared");
  two.parameters = {{.top_k = 2}};
  const CheckOutcome outcome = run(sampler, two);
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  EXPECT_EQ(outcome.draws, two.draws + 200);
  EXPECT_EQ(outcome.measures.count("exact_multinomial_p_value"), 1U);
}

// Pairs of draws are judged only if seeds are promised to be independent.
TEST(Pairs, AreJudgedWhereTheSamplerPromisesThem) {
  struct NoPromise : ModelSampler {
    NoPromise() { description_.randomness.seeds = false; }
  };
  ModelSampler promising;
  NoPromise silent;
  EXPECT_EQ(run(promising, setting("pit")).measures.count("rows_table_p_value"), 1U);
  EXPECT_EQ(run(promising, setting("pit")).measures.count("calls_correlation_p_value"), 1U);
  EXPECT_EQ(run(silent, setting("pit")).measures.count("rows_table_p_value"), 0U);
}

// A sampler with one token per output needs more calls for the same number of draws from the same
// rows.
TEST(RowsThroughTheirDistributions, AreDrawnInCallsWhereOutputsHaveOneSample) {
  struct OneSample : ModelSampler {
    OneSample() { description_.num_samples = false; }
    std::string run(const fairdraw_batch& batch) override {
      max_samples = std::max(max_samples, batch.num_samples);
      return ModelSampler::run(batch);
    }
    std::int32_t max_samples = 0;
  };
  OneSample one;
  ModelSampler many;
  const CheckOutcome in_calls = run(one, setting("pit"));
  const CheckOutcome in_samples = run(many, setting("pit"));
  EXPECT_STREQ(to_string(in_calls.verdict), "passed") << in_calls.message;
  EXPECT_EQ(one.max_samples, 1);
  EXPECT_EQ(in_calls.draws, in_samples.draws);
  EXPECT_EQ(in_calls.rows, in_samples.rows);
  // Samples are also judged by their number, which takes a share of the level.
  EXPECT_LT(in_calls.min_discrepancy, in_samples.min_discrepancy);
}

TEST(Underpowered, IsSaidBeforeAnyDraw) {
  for (const char* name : {"chi_squared", "bets", "binomial", "pit"}) {
    ModelSampler sampler;
    Setting small = setting(name);
    small.declared = 0.001;
    const CheckOutcome outcome = run(sampler, small);
    EXPECT_STREQ(to_string(outcome.verdict), "underpowered") << name;
    EXPECT_EQ(outcome.draws, 0U) << name;
    ASSERT_TRUE(outcome.min_discrepancy.has_value()) << name;
    EXPECT_GT(*outcome.min_discrepancy, small.declared) << name;
  }
}

// The test runs the same sampler with fewer abilities: every check passes, or names the missing
// ability.
TEST(Abilities, AreSkippedWithTheReason) {
  struct Modest : ModelSampler {
    Modest() {
      const std::string name = description_.name;
      description_ = {};
      description_.name = name;
      description_.semantics = "fairdraw";
    }
  };
  for (const Setting& entry : settings()) {
    Modest sampler;
    Setting fewer = entry;  // each draw needs a row if there are no samples
    fewer.draws = std::min<std::uint64_t>(entry.draws, 5000);
    fewer.rows = std::min<std::int64_t>(entry.rows, 640);
    fewer.declared = 1;
    const CheckOutcome outcome = run(sampler, fewer);
    const bool fine = outcome.verdict == Verdict::passed || outcome.verdict == Verdict::skipped ||
                      outcome.verdict == Verdict::underpowered;
    EXPECT_TRUE(fine) << entry.name << ": " << outcome.message;
    EXPECT_FALSE(outcome.message.empty()) << entry.name;
  }
}

}  // namespace
}  // namespace fairdraw::harness
