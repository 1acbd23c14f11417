// Self-tests of the check of the randomness contract: right samplers pass, and every way to share
// random bits fails within 64 draws from a flat row, or, if it is weaker, in the long streams.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>

#include "harness/adapters/model_sampler.h"
#include "harness/inputs/counter_random.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/stream_probes.h"
#include "harness/run/tests/case_share.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

CheckOutcome judge(Sampler& sampler, Family family, std::int64_t vocab, std::uint64_t draws) {
  const auto logits = family_source(family, 4, vocab, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{}};
  input.draws = draws;
  input.declared_discrepancy = 0.2;
  input.seed = 5;
  input.false_fail_rate = kShare;
  return check_streams(input);
}

// Judges streams of draws from a row of flat logits over a large vocabulary.
CheckOutcome judge_short(Sampler& sampler) { return judge(sampler, Family::all_equal, 131072, 0); }

// Judges 5 streams of 20000 draws from a row that is not flat.
CheckOutcome judge_long(Sampler& sampler) { return judge(sampler, Family::gaussian, 200, 100'000); }

// A function of seed, offset and number that gives the integer model other random words.
using Word = std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint32_t)>;

struct WithWords : ModelSampler {
  explicit WithWords(Word function) : function_(std::move(function)) {}
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t) override {
    return function_(seed, offset, index);
  }

 private:
  Word function_;
};

std::uint64_t right(std::uint64_t seed, std::uint64_t offset, std::uint32_t index) {
  return random_word(seed, offset, Purpose::draw, index);
}

struct WrongWord {
  const char* name;
  Word word;
};

void PrintTo(const WrongWord& fault, std::ostream* out) { *out << fault.name; }

constexpr std::uint64_t kMultiplier = 6364136223846793005ULL, kIncrement = 1442695040888963407ULL;

// Mixes the bits of a word linearly, by shifts joined by exclusive or.
std::uint64_t xorshift(std::uint64_t x) {
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ (x << 17);
}

const WrongWord kShared[] = {
    {"one seed for all", [](auto, auto offset, auto index) { return right(7, offset, index); }},
    {"offset frozen", [](auto seed, auto, auto index) { return right(seed, 0, index); }},
    {"number ignored", [](auto seed, auto offset, auto) { return right(seed, offset, 0); }},
    {"offset and number added up",
     [](auto seed, auto offset, auto index) { return right(seed, offset + index, 0); }},
    {"number shifted by one against the offset",
     [](auto seed, auto offset, auto index) { return right(seed, offset + index + 1, 0); }},
    {"seed and offset added up: adjacent seeds overlap",
     [](auto seed, auto offset, auto index) { return right(0, seed + offset, index); }},
    {"seed and number added up",
     [](auto seed, auto offset, auto index) { return right(seed + index, offset, 0); }},
    {"seed cut to 32 bits",
     [](auto seed, auto offset, auto index) { return right(seed & 0xffffffffU, offset, index); }},
    {"seed cut to 16 bits",
     [](auto seed, auto offset, auto index) { return right(seed & 0xffffU, offset, index); }},
    {"lowest bit of the seed lost",
     [](auto seed, auto offset, auto index) { return right(seed | 1, offset, index); }},
    {"offset cut to 32 bits",
     [](auto seed, auto offset, auto index) { return right(seed, offset & 0xffffffffU, index); }},
    {"one step of a linear congruence from seed plus step",
     [](auto seed, auto offset, auto index) {
       return (seed + offset + index) * kMultiplier + kIncrement;
     }},
    {"noise of the seed read at a stride",
     [](auto seed, auto offset, auto index) {
       return right(seed, 0, index) - offset * (std::uint64_t{1024} << 47);
     }},
    {"hash that is linear over bits",
     [](auto seed, auto offset, auto index) {
       return xorshift(seed ^ mixed(offset, 0) ^ mixed(index, 1));
     }},
    {"affine in the seed", [](auto seed, auto offset,
                              auto index) { return right(0, offset, index) + seed * kMultiplier; }},
};

class SharedStreams : public testing::TestWithParam<WrongWord> {};

TEST_P(SharedStreams, AreRedWithin64Draws) {
  WithWords sampler(GetParam().word);
  const CheckOutcome outcome = judge_short(sampler);
  ASSERT_TRUE(outcome.failed()) << GetParam().name << ": " << outcome.message;
  const double draws = outcome.measures.at("draws_to_red");
  std::printf("%3.0f draws to red: %s\n", draws, GetParam().name);
  EXPECT_LE(draws, 64) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, SharedStreams, testing::ValuesIn(kShared));

// The test flips each bit of seed and offset separately, within the sequences: all bits of the seed
// except bits 1 to 3, which the neighbouring seeds cover.
TEST(Streams, SeeEachBitOfSeedAndOffset) {
  for (int bit = 4; bit < 64; bit += 7) {
    const std::uint64_t without = ~(std::uint64_t{1} << bit);
    WithWords seeds([without](auto seed, auto offset, auto index) {
      return right(seed & without, offset, index);
    });
    EXPECT_TRUE(judge_short(seeds).failed()) << "seed bit " << bit;
    WithWords offsets([without](auto seed, auto offset, auto index) {
      return right(seed, offset & without, index);
    });
    EXPECT_TRUE(judge_short(offsets).failed()) << "offset bit " << bit;
  }
}

TEST(Streams, PassWhereTheyAreRight) {
  for (const std::string& name : builtin_sampler_names()) {
    const auto sampler = make_builtin_sampler(name);
    for (const CheckOutcome& outcome : {judge_short(*sampler), judge_long(*sampler)}) {
      EXPECT_STREQ(to_string(outcome.verdict), "passed") << name << ": " << outcome.message;
      EXPECT_LE(outcome.spent(), kShare * (1 + 128 * 0x1p-53));  // a sum of 128 levels
    }
  }
}

// These are faults with dependence but without repetition, which short streams cannot detect.
const WrongWord kWeak[] = {
    {"one draw of five is that of the offset before",
     [](auto seed, auto offset, auto index) {
       return right(seed, offset - (right(~seed, offset, index) % 5 == 0 ? 1 : 0), index);
     }},
    {"odd seeds mirror even ones",
     [](auto seed, auto offset, auto index) {
       const std::uint64_t word = right(seed & ~std::uint64_t{1}, offset, index);
       return seed % 2 == 0 ? word : ~word;
     }},
    // The value 2 |u - 1/2| is uniform and uncorrelated, but it is a function of the draw before.
    {"odd offsets fold even ones",
     [](auto seed, auto offset, auto index) {
       const std::uint64_t word = right(seed, offset & ~std::uint64_t{1}, index);
       const std::uint64_t high = std::uint64_t{1} << 63;
       return offset % 2 == 0 ? word : 2 * (word >= high ? word - high : high - 1 - word);
     }},
    {"outputs use a twentieth of the unit interval",
     [](auto seed, auto offset, auto index) {
       const std::uint64_t word = right(seed, offset, index);
       return index > 0 ? word / 20 : word;
     }},
};

class WeakStreams : public testing::TestWithParam<WrongWord> {};

TEST_P(WeakStreams, AreRedInLongOnes) {
  WithWords sampler(GetParam().word);
  const CheckOutcome outcome = judge_long(sampler);
  EXPECT_TRUE(outcome.failed()) << GetParam().name << ": " << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, WeakStreams, testing::ValuesIn(kWeak));

// Properties of random bits that are not promised are not tested.
TEST(Streams, KeepToTheContract) {
  struct OneSeed : WithWords {
    OneSeed() : WithWords([](auto, auto offset, auto index) { return right(7, offset, index); }) {
      description_.randomness.seeds = false;
    }
  };
  OneSeed sampler;
  for (const CheckOutcome& outcome : {judge_short(sampler), judge_long(sampler)}) {
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  }
  struct OffsetsOnly : WithWords {
    OffsetsOnly() : WithWords([](auto, auto offset, auto) { return right(7, offset, 0); }) {
      description_.randomness.seeds = description_.randomness.outputs = false;
      description_.randomness.samples = false;
    }
  };
  OffsetsOnly offsets;
  EXPECT_STREQ(to_string(judge_short(offsets).verdict), "passed");
}

// A sampler with its own generator, which ignores seeds.
struct OwnGenerator : ModelSampler {
  explicit OwnGenerator(std::uint64_t calls_repeat) : calls_repeat_(calls_repeat) {
    description_.per_request_seeds = description_.exact_integer = false;
  }
  std::string run(const fairdraw_batch& batch) override {
    draws_ = 0;
    ++calls_;
    return ModelSampler::run(batch);
  }
  std::uint64_t word(std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return right(9, calls_ % calls_repeat_, static_cast<std::uint32_t>(++draws_));
  }

 private:
  std::uint64_t calls_repeat_, calls_ = 0, draws_ = 0;
};

TEST(Streams, OfASamplerWithItsOwnGenerator) {
  OwnGenerator sound(~std::uint64_t{0});
  EXPECT_STREQ(to_string(judge_short(sound).verdict), "passed");
  EXPECT_STREQ(to_string(judge_long(sound).verdict), "passed");
  OwnGenerator resets(5);  // like a captured graph that is replayed without advancing its state
  const CheckOutcome outcome = judge_short(resets);
  ASSERT_TRUE(outcome.failed()) << outcome.message;
  EXPECT_LE(outcome.measures.at("draws_to_red"), 64);
}

// Equal seeds must repeat their draws, because this is a promise too.
TEST(Streams, SeeSeedsThatDoNotRepeat) {
  struct Counting : ModelSampler {
    std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                       std::uint32_t) override {
      return right(seed ^ ++calls, offset, index);
    }
    std::uint64_t calls = 0;
  };
  Counting sampler;
  const CheckOutcome outcome = judge_short(sampler);
  EXPECT_TRUE(outcome.failed());
  EXPECT_NE(outcome.message.find("other tokens again"), std::string::npos) << outcome.message;
}

// The test checks the bounds of the probes with a vocabulary so small that alarms on independent
// draws are frequent. The number of alarms over `runs` runs is at most Binomial(runs, null_rate),
// whose upper tail must not be below 1e-9 (2^-30).
TEST(StreamProbes, AlarmsOfIndependentDrawsAreWithinTheBound) {
  constexpr std::int64_t kVocab = 64;
  constexpr std::size_t kSequences = 6, kLength = 8;
  constexpr std::uint64_t kRuns = 20'000;
  const auto design = design_probes(kSequences, kLength, 1.0 / kVocab, 0.02);
  ASSERT_TRUE(design.has_value());
  std::uint64_t alarms = 0;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    const CounterRandom random(mixed(3, run));
    StreamProbes probes(*design, kVocab);
    bool alarm = false;
    for (std::size_t s = 0; s < kSequences && !alarm; ++s) {
      std::vector<std::int32_t> tokens;
      for (std::size_t i = 0; i < kLength; ++i) {
        tokens.push_back(static_cast<std::int32_t>(random.below(kVocab, s * kLength + i)));
      }
      alarm = !probes.add("a sequence", tokens).empty();
    }
    alarms += alarm ? 1 : 0;
  }
  EXPECT_GE(statistics::binomial_upper_tail(alarms, kRuns, design->null_rate), 1e-9)
      << alarms << " alarms in " << kRuns << ", bound " << design->null_rate;
  EXPECT_GT(alarms, 0U);  // the bound is tight enough to be tested
}

TEST(StreamProbes, KnowWhenNothingIsProof) {
  EXPECT_FALSE(design_probes(100, 8, 0.3, 1e-12).has_value());
  EXPECT_TRUE(design_probes(8, 8, 1.0 / 131072, 1e-12).has_value());
  EXPECT_EQ(design_probes(8, 8, 1.0 / (1 << 20), 1e-12)->gram, 3U);
}

}  // namespace
}  // namespace fairdraw::harness
