// Self-tests of draws with given random words: each mistake at the end of an interval fails in one
// call, for integer arithmetic and, beyond the effect of rounding, for float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "harness/adapters/model_sampler.h"
#include "harness/run/checks/checks.h"
#include "reference/float32_bound.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kVocab = 50;

CheckOutcome judge(Sampler& sampler, const reference::Semantics& semantics, RowInput row_input,
                   bool banned, CheckOutcome (*check)(const CheckInput&) = check_scripted) {
  const auto logits = family_source(Family::gaussian, 4, kVocab, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = semantics;
  input.logits = logits.get();
  input.parameters = {{.top_k = 20, .top_p = 0.9F}, {.temperature = 0.8F}, {.temperature = 0}};
  input.rows = 12;
  input.row_input = row_input;
  input.banned_tokens = banned;
  input.draws = 12'000;
  input.seed = 5;
  return check(input);
}

CheckOutcome judge_exact(Sampler& sampler, RowInput row_input, bool banned) {
  return judge(sampler, *reference::find_profile("fairdraw"), row_input, banned);
}

TEST(Scripted, PassesTheModel) {
  for (const RowInput input : {RowInput::logits, RowInput::probabilities}) {
    for (const bool banned : {false, true}) {
      ModelSampler sampler;
      const CheckOutcome outcome = judge_exact(sampler, input, banned);
      EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
    }
  }
}

using reference::RowWeight;
using Choose = std::function<std::int32_t(const reference::IntegerRow&, std::uint64_t)>;

// Returns the first token whose prefix sum satisfies the predicate `full`, or -1 if there is none.
std::int32_t first_where(const reference::IntegerRow& row,
                         const std::function<bool(RowWeight sum)>& full) {
  RowWeight sum = 0;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] != 0) sum += row.weight[id];
    if (full(sum)) return static_cast<std::int32_t>(id);
  }
  return -1;
}

RowWeight position(const reference::IntegerRow& row, std::uint64_t word) {
  return reference::position_of(word, row.total);
}

struct Wrong {
  const char* name;
  Choose choose;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const Wrong kWrong[] = {
    {"at least instead of above",
     [](const auto& row, auto word) {
       const RowWeight t = position(row, word);
       return first_where(row, [t](RowWeight sum) { return sum >= t; });
     }},
    // A word stands for many positions, so an error of one position only matters at a word's
    // boundary.
    {"one word too far",
     [](const auto& row, auto word) { return row.token_for(word == ~0ULL ? word : word + 1); }},
    {"words of 63 bits", [](const auto& row, auto word) { return row.token_for(word & ~1ULL); }},
    {"a word of 0 gives token 0",
     [](const auto& row, auto word) { return word == 0 ? 0 : row.token_for(word); }},
    {"a word of all ones gives the last id",
     [](const auto& row, auto word) {
       return word == ~0ULL ? static_cast<std::int32_t>(row.mask.size()) - 1 : row.token_for(word);
     }},
    {"the upper end rounds up to 1",
     [](const auto& row, auto word) {
       return word >= ~0ULL - 1 ? static_cast<std::int32_t>(row.mask.size()) : row.token_for(word);
     }},
};

struct WithChoice : ModelSampler {
  explicit WithChoice(Choose choice) : choice_(std::move(choice)) {}
  std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word) override {
    return choice_(row, word);
  }

 private:
  Choose choice_;
};

class WrongChoice : public testing::TestWithParam<Wrong> {};

// Draws with seeds do not detect these mistakes: more than twelve thousand tokens agree with those
// of the model.
TEST_P(WrongChoice, DiesByGivenWordsAlone) {
  WithChoice sampler(GetParam().choose);
  EXPECT_TRUE(judge_exact(sampler, RowInput::logits, true).failed()) << GetParam().name;
  EXPECT_TRUE(judge_exact(sampler, RowInput::probabilities, true).failed()) << GetParam().name;
  const CheckOutcome random =
      judge(sampler, *reference::find_profile("fairdraw"), RowInput::logits, true, check_tokens);
  EXPECT_STREQ(to_string(random.verdict), "passed") << random.message;
  EXPECT_GE(random.draws, 12'000U);
}

INSTANTIATE_TEST_SUITE_P(Mutants, WrongChoice, testing::ValuesIn(kWrong));

// A float32 sampler that takes random words: softmax, sequential prefix sums, u * total. The
// sampler draws from the row of its last call of model(), because the check uses one row at a time.
struct FloatDraws : ModelSampler {
  enum class WrongSearch { none, at_least, from_the_other_end, half_precision };
  explicit FloatDraws(WrongSearch fault) : fault_(fault) { description_.exact_integer = false; }

  reference::IntegerRow model(const Row& row) override {
    values_ = row.logits;
    temperature_ = row.parameters.temperature == 0 ? 1 : row.parameters.temperature;
    from_probs_ = row.from_probs;
    return ModelSampler::model(row);
  }

  std::int32_t choose(const reference::IntegerRow& row, std::uint64_t word) override {
    std::vector<float> weight(values_.size(), 0);
    float largest = -INFINITY;
    for (const float x : values_) largest = std::max(largest, x / temperature_);
    float total = 0;
    for (std::size_t id = 0; id < weight.size(); ++id) {
      if (row.mask[id] == 0) continue;
      weight[id] = from_probs_ ? values_[id] : std::exp(values_[id] / temperature_ - largest);
      if (fault_ == WrongSearch::half_precision) {
        weight[id] = std::ldexp(std::round(std::ldexp(weight[id], 11)), -11);
      }
      total += weight[id];
    }
    const float unit = std::ldexp(static_cast<float>(word >> 40), -24);  // in [0, 1)
    const float target = (fault_ == WrongSearch::from_the_other_end ? 1 - unit : unit) * total;
    float sum = 0;
    std::int32_t last = 0;
    for (std::size_t id = 0; id < weight.size(); ++id) {
      sum += weight[id];
      const bool full = fault_ == WrongSearch::at_least ? sum >= target : sum > target;
      if (full) return static_cast<std::int32_t>(id);
      if (weight[id] > 0) last = static_cast<std::int32_t>(id);
    }
    return last;
  }

 private:
  WrongSearch fault_;
  std::vector<float> values_;
  float temperature_ = 1;
  bool from_probs_ = false;
};

CheckOutcome judge_float(FloatDraws::WrongSearch fault, RowInput row_input, bool banned) {
  FloatDraws sampler(fault);
  const reference::Semantics semantics =
      reference::in_float32(*reference::find_profile("fairdraw"),
                            {.exp_ulps = 1, .additions = reference::sequential_additions(kVocab)});
  return judge(sampler, semantics, row_input, banned);
}

TEST(ScriptedFloat, PassesWithinTheBound) {
  for (const RowInput input : {RowInput::logits, RowInput::probabilities}) {
    const CheckOutcome outcome = judge_float(FloatDraws::WrongSearch::none, input, false);
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  }
}

TEST(ScriptedFloat, DiesBeyondIt) {
  using WrongSearch = FloatDraws::WrongSearch;
  // If the first token is banned, a sampler with the mistake "at least" returns that token for a
  // word of 0.
  EXPECT_TRUE(judge_float(WrongSearch::at_least, RowInput::probabilities, true).failed());
  EXPECT_TRUE(judge_float(WrongSearch::from_the_other_end, RowInput::logits, false).failed());
  EXPECT_TRUE(judge_float(WrongSearch::half_precision, RowInput::logits, false).failed());
}

TEST(Scripted, SkipsSamplersThatTakeNoWords) {
  const auto sampler = make_builtin_sampler("cpu");
  const CheckOutcome outcome = judge_exact(*sampler, RowInput::logits, false);
  EXPECT_STREQ(to_string(outcome.verdict), "skipped");
  EXPECT_EQ(outcome.message, "takes no random words");
}

}  // namespace
}  // namespace fairdraw::harness
