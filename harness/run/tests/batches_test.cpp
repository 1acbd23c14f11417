// Self-tests of the checks of batches of every size, and of the checks that judge tokens alone: the
// right sampler passes with every set of abilities, and a wrong sampler fails with the right
// message.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "harness/adapters/model_sampler.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

using Change = std::function<void(const fairdraw_batch&)>;

enum class Claim { integers, tokens, engine };

// The integer model with fewer abilities, and with a change of its inputs or its answers.
class Subject : public ModelSampler {
 public:
  explicit Subject(Claim claim) : claim_(claim) {
    if (claim == Claim::integers) return;
    const std::string name = description_.name;
    description_ = {};
    description_.name = name;
    description_.semantics = "fairdraw";
    description_.allowed_mask = description_.active_rows = true;
    description_.from_probs = description_.bfloat16 = description_.float16 = true;
    description_.per_request_seeds = description_.num_samples = claim == Claim::tokens;
    description_.indices = claim == Claim::tokens;
  }

  Change answered;
  std::function<void(Row&)> row_changed;
  std::function<std::int64_t(std::int64_t)> at;  // maps a row to the row of its parameters
  std::function<std::uint64_t(std::uint32_t index, std::uint64_t word)> word_changed;

  std::string run(const fairdraw_batch& batch) override {
    ModelSampler::run(batch);
    if (answered) answered(batch);
    return {};
  }

 protected:
  std::int64_t parameters_row(const fairdraw_batch&, std::int64_t row) override {
    return at ? at(row) : row;
  }
  reference::IntegerRow model(const Row& row) override {
    if (!row_changed) return ModelSampler::model(row);
    Row changed = row;
    row_changed(changed);
    return ModelSampler::model(changed);
  }
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t attempt) override {
    if (claim_ == Claim::engine) return ModelSampler::word(9, words_++, 0, attempt);
    const std::uint64_t word = ModelSampler::word(seed, offset, index, attempt);
    return word_changed ? word_changed(index, word) : word;
  }

 private:
  Claim claim_;
  std::uint64_t words_ = 0;
};

const std::vector<reference::RowParameters> kMixed = {
    {.temperature = 0.05F},
    {.temperature = 0.7F, .top_k = 50, .top_p = 0.9F},
    {.temperature = 0},
    {.temperature = 2, .top_p = 0.6F},
    {.temperature = 2}};

struct Setting {
  CheckOutcome (*check)(const CheckInput&);
  std::int64_t vocab = 100;
  DType dtype = DType::float32;
  RowInput row_input = RowInput::logits;
  Family family = Family::ties_at_k;
  std::vector<reference::RowParameters> parameters = kMixed;
  std::int64_t rows = 5;
  std::uint64_t draws = 1024;
  bool banned = false;
};

CheckOutcome judge(Sampler& sampler, const Setting& setting) {
  const auto logits = family_source(setting.family, 20, setting.vocab, setting.dtype);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = setting.parameters;
  input.row_input = setting.row_input;
  input.banned_tokens = setting.banned;
  // A case with several rows makes only a part of the rows of the check `boundaries`.
  input.rows = setting.check == check_boundaries ? 1 : setting.rows;
  input.seed = 31;
  const bool statistical = setting.check == check_batch_distribution;
  input.draws = statistical ? 99'000 : setting.draws;
  input.declared_discrepancy = 0.058;
  input.false_fail_rate = 4.8e-13;  // a share of 5e-10 over 1024 cases, rounded down
  return setting.check(input);
}

void expect_red(const CheckOutcome& outcome, const char* part) {
  EXPECT_STREQ(to_string(outcome.verdict), "failed") << part;
  EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
}

TEST(Batches, TheRightSamplerPassesWhateverItReports) {
  for (const Claim claim : {Claim::integers, Claim::tokens, Claim::engine}) {
    for (const RowInput input : {RowInput::logits, RowInput::probabilities}) {
      Subject sampler(claim);
      const CheckOutcome outcome = judge(sampler, {.check = check_batches, .row_input = input});
      EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
      EXPECT_GE(outcome.rows, 2U * 1011U);  // all batch sizes, once with results and once without
    }
  }
  Subject engine(Claim::engine);
  const CheckOutcome outcome = judge(engine, {.check = check_batch_distribution});
  EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  EXPECT_LE(outcome.spent(), 4.8e-13 * (1 + 32 * 0x1p-53));
  Subject seeds(Claim::tokens);
  EXPECT_STREQ(to_string(judge(seeds, {.check = check_batch_distribution}).verdict), "skipped");
}

TEST(Batches, WhatLargeBatchesGetWrongIsSeenAndTheSizeSaid) {
  const Setting exact{.check = check_batches}, law{.check = check_batch_distribution};
  for (const Claim claim : {Claim::integers, Claim::tokens, Claim::engine}) {
    Subject sampler(claim);
    sampler.at = [](std::int64_t row) { return row < 132 ? row : 0; };
    const char* const size = "batch of 257 rows";
    if (claim != Claim::engine) {
      expect_red(judge(sampler, exact), size);
    } else {
      expect_red(judge(sampler, law), "257 rows");
    }
  }
  // The wrong sampler gives token 0 for the middle row of a batch, from which nothing can be drawn.
  for (const Claim claim : {Claim::integers, Claim::tokens, Claim::engine}) {
    Subject sampler(claim);
    sampler.answered = [](const fairdraw_batch& batch) {
      for (std::int64_t i = 64; i < batch.outputs * batch.num_samples; ++i) {
        if (batch.tokens[i] == -1) batch.tokens[i] = 0;
      }
    };
    expect_red(judge(sampler, exact), "batch of 129 rows");
  }
}

TEST(Status, IsJudgedByTokensWhereNoneIsReported) {
  for (const Claim claim : {Claim::tokens, Claim::engine}) {
    Subject right(claim);
    const CheckOutcome outcome = judge(right, {.check = check_status});
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
    EXPECT_GE(outcome.measures.at("faults"), 30);
    for (const std::int32_t token : {0, 99, 100, std::numeric_limits<std::int32_t>::min()}) {
      Subject sampler(claim);
      sampler.answered = [token](const fairdraw_batch& batch) {
        std::replace(batch.tokens, batch.tokens + batch.outputs * batch.num_samples, -1, token);
      };
      expect_red(judge(sampler, {.check = check_status}), "and must give none");
    }
    // A sampler that refuses the whole call gives no token.
    struct Refusing : Subject {
      using Subject::Subject;
      std::string run(const fairdraw_batch& batch) override {
        Subject::run(batch);
        const std::int32_t* const end = batch.tokens + batch.outputs * batch.num_samples;
        return std::find(static_cast<const std::int32_t*>(batch.tokens), end, -1) == end
                   ? std::string()
                   : "a row has no token";
      }
    };
    Refusing refusing(claim);
    EXPECT_STREQ(to_string(judge(refusing, {.check = check_status}).verdict), "passed");
    // A sampler must not refuse a call without bad rows either.
    Subject mate(claim);
    mate.answered = [](const fairdraw_batch& batch) {
      if (std::find(batch.tokens, batch.tokens + batch.outputs, -1) == batch.tokens + 1) {
        batch.tokens[0] = -1;
      }
    };
    expect_red(judge(mate, {.check = check_status}), "batch-mate 0 gives token -1");
  }
}

TEST(Boundaries, TheRightSamplerPassesInEveryInput) {
  for (const Claim claim : {Claim::integers, Claim::tokens, Claim::engine}) {
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      for (const RowInput input : {RowInput::logits, RowInput::probabilities}) {
        Subject sampler(claim);
        const CheckOutcome outcome = judge(sampler, {.check = check_boundaries,
                                                     .vocab = 40,
                                                     .dtype = dtype,
                                                     .row_input = input,
                                                     .parameters = {{}}});
        EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
        EXPECT_GE(outcome.measures.at("tokens_expected"), 100);
        // The case takes at most 1e-18 of the budget per token, which is negligible in a run's
        // 1e-9.
        EXPECT_LE(outcome.spent(), 1e-18 * outcome.measures.at("tokens_expected"));
      }
    }
  }
}

TEST(Boundaries, ATokenThatStaysAndOneThatGoesAreSeen) {
  for (const Claim claim : {Claim::tokens, Claim::engine}) {
    Subject more(claim), less(claim), wide(claim);
    more.row_changed = [](auto& row) {
      row.parameters.top_p += row.parameters.top_p < 1 ? 5e-4F : 0;
    };
    less.row_changed = [](auto& row) {
      row.parameters.top_p -= row.parameters.top_p < 1 ? 5e-4F : 0;
    };
    wide.row_changed = [](auto& row) { row.parameters.min_p *= 0.999F; };
    const Setting heavy{.check = check_boundaries, .parameters = {{}}};
    expect_red(judge(more, heavy), "outside of the support");
    expect_red(judge(less, heavy), "is missing from 1024 draws");
    expect_red(judge(wide, heavy), "outside of the support");
  }
}

// --- Rows of operations --------------------------------------------------------------------------

const std::vector<reference::RowParameters> kOperations = {
    {.top_k = 40},
    {.temperature = 0},
    {.temperature = 0.6F, .top_p = 0.95F},
    {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F},
    {.top_k = 99},
    {.top_k = 100},
    {.top_k = 1000, .top_p = 0.9F},
    {.temperature = 0.1F},
    {.temperature = 1.5F, .min_p = 0.1F}};

Setting of_operations() { return {.check = check_boundaries, .parameters = kOperations}; }

TEST(RowsOfOperations, AreDrawnFromRightlyByTheRightSampler) {
  for (const Claim claim : {Claim::integers, Claim::tokens, Claim::engine}) {
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      for (const bool banned : {false, true}) {
        Subject sampler(claim);
        Setting setting = of_operations();
        setting.dtype = dtype;
        setting.banned = banned;
        const CheckOutcome outcome = judge(sampler, setting);
        EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
        EXPECT_GE(outcome.measures.at("tokens_expected"), 40);
        EXPECT_LE(outcome.spent(), 1e-18 * outcome.measures.at("tokens_expected"));
      }
    }
    Subject sampler(claim);
    Setting setting = of_operations();
    setting.row_input = RowInput::probabilities;
    const CheckOutcome outcome = judge(sampler, setting);
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
  }
}

struct WrongRow {
  void (*change)(reference::RowParameters& p);
  const char* message;
};

TEST(RowsOfOperations, ShowWhatIsWrongForOneValueAlone) {
  const WrongRow wrong[] = {
      {[](auto& p) { p.top_k += p.top_k == 40 && p.min_p == 0 ? 1 : 0; }, "outside of the support"},
      {[](auto& p) { p.top_k -= p.top_k == 40 && p.min_p == 0 ? 3 : 0; }, "is missing from 1024"},
      {[](auto& p) { p.top_k = p.top_k == 100 ? 50 : p.top_k; }, "is missing from 1024 draws"},
      {[](auto& p) { p.top_k = p.top_k == 99 ? 0 : p.top_k; }, "outside of the support"},
      {[](auto& p) { p.top_k = p.top_k > 100 ? 1 : p.top_k; }, "is missing from 1024 draws"},
      {[](auto& p) { p.top_p = p.top_p == 0.95F ? 0.96F : p.top_p; }, "outside of the support"},
      {[](auto& p) { p.top_p = p.top_p == 0.95F ? 0.94F : p.top_p; }, "is missing from 1024"},
      {[](auto& p) { p.min_p = p.top_k == 40 ? 0 : p.min_p; }, "outside of the support"},
      {[](auto& p) { p.min_p *= p.top_k == 40 ? 2 : 1; }, "is missing from 1024 draws"},
      {[](auto& p) { p.top_k = p.temperature == 0 ? 2 : p.top_k; }, ""}};
  for (const Claim claim : {Claim::tokens, Claim::engine}) {
    for (const WrongRow& one : wrong) {
      Subject sampler(claim);
      sampler.row_changed = [&one](auto& row) { one.change(row.parameters); };
      const CheckOutcome outcome = judge(sampler, of_operations());
      if (*one.message == '\0') {  // this is so because greedy rows use no top_k
        EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
      } else {
        expect_red(outcome, one.message);
      }
    }
  }
}

TEST(RowsOfOperations, ShowWhatBatchesPaddingAndBitmasksSpoil) {
  for (const Claim claim : {Claim::tokens, Claim::engine}) {
    // These are wrong samplers in which all rows of a call of 16, or all rows after padding, give
    // their largest logit.
    Subject sixteen(claim), padded(claim), word(claim);
    const auto take_largest = [](const fairdraw_batch& batch, std::int64_t row) {
      const float* const first = static_cast<const float*>(batch.logits) + row * batch.row_stride;
      batch.tokens[row] =
          static_cast<std::int32_t>(std::max_element(first, first + batch.vocab) - first);
    };
    sixteen.answered = [&](const fairdraw_batch& batch) {
      for (std::int64_t i = 0; batch.rows == 16 && i < 16; ++i) take_largest(batch, i);
    };
    padded.answered = [&](const fairdraw_batch& batch) {
      for (std::int64_t i = 1; batch.active != nullptr && i < batch.outputs; i += 2) {
        take_largest(batch, i);
      }
    };
    word.row_changed = [](auto& row) {
      if (!row.allowed.empty()) row.allowed.back() = ~0U;
    };
    expect_red(judge(sixteen, of_operations()), "in calls of 16 rows");
    expect_red(judge(padded, of_operations()), "among rows of padding");
    Setting banned = of_operations();
    banned.banned = true;
    expect_red(judge(word, banned), "outside of the support");
  }
}

// Tests samplers whose uniform random numbers have 16 or 20 bits, end below 1, or begin above 0.
TEST(RowsOfOperations, ShowUniformsThatCannotReachATail) {
  const auto narrow = [](int bits) {
    return [bits](std::uint32_t, std::uint64_t word) { return word >> (64 - bits) << (64 - bits); };
  };
  const auto shorter = [](std::uint32_t, std::uint64_t word) { return word - word / 100'000; };
  const auto later = [&](std::uint32_t, std::uint64_t word) { return ~shorter(0, ~word); };
  const decltype(Subject::word_changed) none;
  struct Row {
    std::int64_t vocab;
    std::uint64_t draws;
    decltype(Subject::word_changed) word;
  };
  const Row rows[] = {{(1 << 16) + 31, 2800, none},
                      {(1 << 16) + 31, 2800, narrow(16)},
                      {(1 << 16) + 31, 2800, narrow(20)},
                      {40, 490'000, none},
                      {40, 490'000, shorter},
                      {40, 490'000, later}};
  for (const Row& row : rows) {
    Subject sampler(Claim::tokens);
    sampler.word_changed = row.word;
    const CheckOutcome outcome = judge(sampler, {.check = check_boundaries,
                                                 .vocab = row.vocab,
                                                 .parameters = {{.temperature = 0.7F}},
                                                 .draws = row.draws});
    if (row.word) {
      expect_red(outcome, "is missing from");
    } else {
      EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
    }
  }
}

TEST(Pit, OneOperationAndOneSampleOfManyAreSeen) {
  // 10240 draws find a distance of 5.7 / sqrt(10240) = 0.056, and 2048 draws of one operation find
  // 0.13.
  const Setting setting{
      .check = check_pit, .family = Family::gaussian_wide, .rows = 320, .draws = 10'240};
  Subject right(Claim::tokens), cold(Claim::tokens), sample(Claim::tokens);
  EXPECT_STREQ(to_string(judge(right, setting).verdict), "passed");
  cold.row_changed = [](auto& row) {
    if (row.parameters.top_p == 0.6F) row.parameters.temperature = 1.7F;
  };
  expect_red(judge(cold, setting), "those at temperature 2, top_k 0, top_p 0.6");
  sample.word_changed = [](std::uint32_t index, std::uint64_t word) {
    return index == 3 ? word >> 1 : word;
  };
  // If 320 draws come from the lower half of their rows, the p-value is 2 exp(-2 320 / 4) =
  // 3.6e-70.
  Setting flat = setting;
  flat.parameters = {{.temperature = 2}, {.temperature = 3}};
  expect_red(judge(sample, flat), "of sample 3 of 32");
}

}  // namespace
}  // namespace fairdraw::harness
