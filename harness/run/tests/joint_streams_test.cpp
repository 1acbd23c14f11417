// Self-tests of draws at all combinations of seeds, offsets, outputs and samples: bits that are
// shared one step apart fail, and independent draws fail at most as often as stated.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "harness/adapters/model_sampler.h"
#include "harness/inputs/counter_random.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/stream_lattices.h"
#include "harness/run/tests/case_share.h"
#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

CheckOutcome judge(Sampler& sampler) {
  const auto logits = family_source(Family::all_equal, 4, 131072, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{}};
  input.declared_discrepancy = 0.2;
  input.seed = 5;
  input.false_fail_rate = kShare;
  return check_streams(input);
}

/// The draw for which a random word is computed.
struct Draw {
  std::uint64_t seed, offset, output, sample;
  bool scalar;  ///< true if the whole call has one seed
};

std::uint64_t word_at(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  return random_word(seed, offset, Purpose::draw, static_cast<std::uint32_t>(index));
}

// The integer model with other random words: each draw uses the word that the specification gives
// another draw.
struct Moved : ModelSampler {
  explicit Moved(std::function<void(Draw&)> move) : move_(std::move(move)) {}
  std::uint64_t decisive_word(const fairdraw_batch& batch, std::int64_t output, std::int32_t sample,
                              std::uint32_t) override {
    const bool scalar = batch.seed_is_scalar != 0;
    const auto at = scalar ? 0 : output;
    Draw draw{batch.seed[at], batch.offset[at], static_cast<std::uint64_t>(output),
              static_cast<std::uint64_t>(sample), scalar};
    move_(draw);
    const auto samples = static_cast<std::uint64_t>(batch.num_samples);
    return word_at(draw.seed, draw.offset,
                   scalar ? draw.output * samples + draw.sample : draw.sample);
  }

 private:
  std::function<void(Draw&)> move_;
};

struct SharedDraw {
  const char* name;
  std::function<void(Draw&)> move;
};

void PrintTo(const SharedDraw& fault, std::ostream* out) { *out << fault.name; }

const SharedDraw kFaults[] = {
    {"sample 1 is sample 0 of the next offset",
     [](Draw& draw) {
       if (!draw.scalar && draw.sample == 1) ++draw.offset, draw.sample = 0;
     }},
    {"sample 2 is sample 1 of the next seed",
     [](Draw& draw) {
       if (!draw.scalar && draw.sample == 2) ++draw.seed, --draw.sample;
     }},
    {"with one seed, sample 1 is sample 0 of the next output",
     [](Draw& draw) {
       if (draw.scalar && draw.sample == 1) ++draw.output, --draw.sample;
     }},
    {"with one seed, output 1 is output 0 of the next seed",
     [](Draw& draw) {
       if (draw.scalar && draw.output == 1) ++draw.seed, --draw.output;
     }},
    {"an odd offset is the one before it of the next seed",
     [](Draw& draw) {
       if (draw.offset % 2 != 0) ++draw.seed, --draw.offset;
     }},
    {"seed and sample are mixed by exclusive or",
     [](Draw& draw) {
       if (!draw.scalar) draw.seed ^= draw.sample, draw.sample = 0;
     }},
    {"a sample's number is the upper half of the offset",
     [](Draw& draw) {
       if (!draw.scalar) draw.offset ^= draw.sample << 32, draw.sample = 0;
     }},
    {"seeds of 61 bits: the last three come from the sample",
     [](Draw& draw) {
       if (!draw.scalar) draw.seed ^= draw.sample << 61, draw.sample = 0;
     }},
};

class JointStreams : public testing::TestWithParam<SharedDraw> {};

TEST_P(JointStreams, AreRedWhereDrawsAreShared) {
  Moved sampler(GetParam().move);
  const CheckOutcome outcome = judge(sampler);
  EXPECT_TRUE(outcome.failed()) << GetParam().name << ": " << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Faults, JointStreams, testing::ValuesIn(kFaults));

TEST(JointStreams, PassTheModelWithinTheBudget) {
  Moved sampler([](Draw&) {});
  const CheckOutcome outcome = judge(sampler);
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  EXPECT_GT(outcome.measures.at("lattice_draws"), 0);
  EXPECT_LE(outcome.spent(), kShare);
}

// The message names a step of the lattice by its direction and size.
TEST(JointStreams, NameTheStep) {
  Moved sampler([](Draw& draw) {
    if (!draw.scalar && draw.sample == 1) ++draw.offset, draw.sample = 0;
  });
  const std::string message = judge(sampler).message;
  EXPECT_NE(message.find("(offset + 0x1, sample - 0x1) apart"), std::string::npos) << message;
}

// A sampler with its own generator must not repeat the draws of the call before.
TEST(JointStreams, SeeAGeneratorThatAdvancesTooLittle) {
  struct Generator : ModelSampler {
    explicit Generator(bool sound) : sound_(sound) {
      description_.per_request_seeds = description_.exact_integer = false;
    }
    std::string run(const fairdraw_batch& batch) override {
      next_ = begin_;
      begin_ += static_cast<std::uint64_t>(batch.outputs * (sound_ ? batch.num_samples : 1));
      return ModelSampler::run(batch);
    }
    std::uint64_t word(std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t) override {
      return word_at(9, next_++, 0);
    }

   private:
    bool sound_;
    std::uint64_t begin_ = 0, next_ = 0;
  };
  Generator sound(true), wrong(false);
  EXPECT_STREQ(to_string(judge(sound).verdict), "passed");
  EXPECT_TRUE(judge(wrong).failed());
}

// The test counts alarms on independent draws, at a rate that makes alarms frequent. The number of
// alarms is at most Binomial(runs, null_rate), whose upper tail must not be below 1e-9 (2^-30).
TEST(StreamLattices, AlarmsOfIndependentDrawsAreWithinTheBound) {
  constexpr std::int64_t kVocab = 64;
  constexpr std::uint64_t kRuns = 20'000;
  const StreamLattice lattice{"a lattice", {0, 1, 2, 8}, {0, 1, 2}, 2, 3};
  const auto design = design_lattice(lattice, 1.0 / kVocab, 0.05);
  ASSERT_TRUE(design.has_value());
  EXPECT_LE(design->null_rate, 0.05);
  std::uint64_t alarms = 0;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    const CounterRandom random(mixed(7, run));
    std::vector<std::int32_t> tokens;
    for (std::size_t i = 0; i < lattice.size(); ++i) {
      tokens.push_back(static_cast<std::int32_t>(random.below(kVocab, i)));
    }
    alarms += shared_in_lattice(lattice, *design, tokens).empty() ? 0U : 1U;
  }
  EXPECT_GE(statistics::binomial_upper_tail(alarms, kRuns, design->null_rate), 1e-9)
      << alarms << " alarms in " << kRuns << ", bound " << design->null_rate;
  EXPECT_GT(alarms, 0U);  // the bound is tight enough to be tested
}

TEST(StreamLattices, KnowWhenNothingIsProof) {
  const StreamLattice lattice{"a lattice", {0, 1}, {0, 1}, 1, 2};
  EXPECT_FALSE(design_lattice(lattice, 0.3, 1e-12).has_value());
}

}  // namespace
}  // namespace fairdraw::harness
