// Self-tests of logits processing over whole batches: counts, padding, and requests that come and
// go.
#include "harness/run/checks/exact/processing_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "harness/adapters/model_sampler.h"
#include "harness/adapters/sample_view.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;
using Expect = void (*)(const CheckInput& input, CheckOutcome& outcome);

CheckOutcome judge(Sampler& sampler, Expect expect) {
  const auto logits = family_source(Family::gaussian, 20, 31, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{.temperature = 0}, {.top_k = 5}, {.top_p = 0.9F}};
  input.seed = 12;
  input.rows = 16;
  CheckOutcome outcome;
  expect(input, outcome);
  return outcome;
}

// The integer model with the processing of one row changed. The sampler claims integer arithmetic,
// or only the distribution.
struct Changed : ModelSampler {
  using Change = std::function<void(RowProcessing&, std::size_t vocab)>;
  explicit Changed(Change change, bool exact = true) : change_(std::move(change)) {
    description_.exact_integer = exact;
    if (!exact) description_.reports_probs = description_.reports_logprobs = false;
  }
  reference::IntegerRow model(const Row& row) override {
    Row changed = row;
    if (changed.processing) change_(*changed.processing, row.logits.size());
    return ModelSampler::model(changed);
  }

 private:
  Change change_;
};

Changed::Change counting_in(std::int32_t (*kept)(std::int32_t)) {
  return [kept](RowProcessing& processing, std::size_t vocab) {
    std::vector<std::int32_t> counts(vocab, 0);
    if (processing.output_counts) {
      counts = *processing.output_counts;
    } else {
      for (const std::int32_t id : processing.output) {
        if (id >= 0) ++counts[static_cast<std::size_t>(id)];
      }
    }
    std::transform(counts.begin(), counts.end(), counts.begin(), kept);
    processing.output_counts = std::move(counts);
  };
}

TEST(ProcessingOfBatches, PassesTheModel) {
  for (const bool exact : {true, false}) {
    for (const Expect expect :
         {expect_large_counts, expect_padding_passed_over, expect_running_batch}) {
      Changed sampler([](RowProcessing&, std::size_t) {}, exact);
      const CheckOutcome outcome = judge(sampler, expect);
      EXPECT_FALSE(outcome.failed()) << outcome.message;
      EXPECT_GT(outcome.draws, 0U);
    }
  }
}

// A faulty sampler that moves a bias of an id that is no token to the nearest token.
struct BiasClamped : Changed {
  BiasClamped(bool clamps, bool seeds)
      : Changed(
            [clamps](RowProcessing& processing, std::size_t vocab) {
              for (RowProcessing::Bias& bias : processing.biases) {
                if (clamps) bias.id = std::clamp(bias.id, 0, static_cast<std::int32_t>(vocab) - 1);
              }
            },
            /*exact=*/false) {
    description_.per_request_seeds = seeds;
  }
};

CheckOutcome judge_processing(Sampler& sampler, const reference::Semantics& semantics) {
  const auto logits = family_source(Family::gaussian, 20, 31, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = semantics;
  input.logits = logits.get();
  input.parameters = {{.temperature = 0}, {.top_k = 5}, {.top_p = 0.9F}};
  input.seed = 12;
  input.rows = 16;
  return check_processing(input);
}

// The profile's promise about bad rows, and not its name, decides whether they are judged, with
// seeds or without.
TEST(BadProcessing, FailsWhereTheProfilePromisesAnError) {
  using reference::InvalidParameter;
  for (const char* profile : {"fairdraw", "vllm_torch"}) {
    for (const bool seeds : {true, false}) {
      reference::Semantics semantics = *reference::find_profile(profile);
      for (const auto invalid : {InvalidParameter::row_error, InvalidParameter::undefined}) {
        semantics.invalid_parameter = invalid;
        BiasClamped right(false, seeds), wrong(true, seeds);
        const CheckOutcome passed = judge_processing(right, semantics);
        EXPECT_FALSE(passed.failed()) << profile << ": " << passed.message;
        const bool promised = invalid == InvalidParameter::row_error;
        EXPECT_EQ(passed.message.find("does not define") == std::string::npos, promised);
        EXPECT_EQ(judge_processing(wrong, semantics).failed(), promised) << profile;
      }
    }
  }
}

// A single token detects a counter that is too narrow, for any claim of the sampler.
TEST(LargeCounts, SeeCountersThatAreTooNarrow) {
  const std::pair<const char*, std::int32_t (*)(std::int32_t)> kept[] = {
      {"int8, saturated", [](std::int32_t n) { return std::min(n, 127); }},
      {"int8, wrapped", [](std::int32_t n) { return std::max((n + 128) % 256 - 128, 0); }},
      {"uint8, saturated", [](std::int32_t n) { return std::min(n, 255); }},
      {"uint8, wrapped", [](std::int32_t n) { return n % 256; }},
      {"int16, saturated", [](std::int32_t n) { return std::min(n, 32767); }},
      {"uint16, saturated", [](std::int32_t n) { return std::min(n, 65535); }},
      {"uint16, wrapped", [](std::int32_t n) { return n % 65536; }}};
  for (const auto& [name, function] : kept) {
    for (const bool exact : {true, false}) {
      Changed sampler(counting_in(function), exact);
      EXPECT_TRUE(judge(sampler, expect_large_counts).failed()) << name;
    }
  }
}

// A faulty sampler in which a row gets its lists as if only active rows came before it.
struct ShiftedByPadding : ModelSampler {
  std::string run(const fairdraw_batch& batch) override {
    call_ = &batch;
    row_ = 0;
    return ModelSampler::run(batch);
  }
  std::int64_t parameters_row(const fairdraw_batch& batch, std::int64_t row) override {
    row_ = row;
    return ModelSampler::parameters_row(batch, row);
  }
  reference::IntegerRow model(const Row& row) override {
    Row changed = row;
    std::int64_t before = 0;
    for (std::int64_t r = 0; r < row_; ++r) {
      before += call_->active == nullptr || call_->active[r] != 0 ? 1 : 0;
    }
    if (changed.processing) {
      changed.processing =
          reference::processing_of_row(processing_of(*call_), before, row.logits.size());
    }
    return ModelSampler::model(changed);
  }

 private:
  const fairdraw_batch* call_ = nullptr;
  std::int64_t row_ = 0;
};

// A faulty sampler that reports padding with a bad list as a bad row.
struct LooksAtPadding : ModelSampler {
  void finish(const fairdraw_batch& batch) override {
    const LogitsProcessing processing = processing_of(batch);
    const auto vocab = static_cast<std::size_t>(batch.vocab);
    for (std::int64_t row = 0; batch.active != nullptr && row < batch.rows; ++row) {
      if (batch.active[row] != 0 || batch.statuses == nullptr) continue;
      const RowStatus status =
          reference::process_row(std::vector<float>(vocab), {},
                                 reference::processing_of_row(processing, row, vocab))
              .status;
      if (status != RowStatus::ok) batch.statuses[row] = static_cast<std::int32_t>(status);
    }
  }
};

TEST(Padding, IsPassedOver) {
  ShiftedByPadding shifted;
  const CheckOutcome disturbed = judge(shifted, expect_padding_passed_over);
  EXPECT_TRUE(disturbed.failed());
  ASSERT_EQ(disturbed.evidence.suspects.size(), 1U) << disturbed.message;
  EXPECT_EQ(disturbed.evidence.suspects.front().bug, "batches: rows of padding");
  LooksAtPadding looking;
  EXPECT_TRUE(judge(looking, expect_padding_passed_over).failed());
}

// A faulty sampler that keeps state by request, and identifies requests by their seed.
struct ByRequest : ModelSampler {
  std::string run(const fairdraw_batch& batch) override {
    ++calls_;
    return ModelSampler::run(batch);
  }
  std::uint64_t word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                     std::uint32_t attempt) override {
    const auto [entry, is_new] = last_call_.emplace(seed, calls_);
    if (!is_new && entry->second + 1 < calls_) restored_at_[seed] = offset;
    entry->second = calls_;
    return ModelSampler::word(seed, offset - restored_at_[seed], index, attempt);
  }

 private:
  std::uint64_t calls_ = 0;
  std::map<std::uint64_t, std::uint64_t> last_call_, restored_at_;
};

// A faulty sampler that keeps state by slot: a request that directly follows another one gets its
// repetition penalty.
struct BySlot : ModelSampler {
  std::int64_t parameters_row(const fairdraw_batch& batch, std::int64_t row) override {
    row_ = row;
    return ModelSampler::parameters_row(batch, row);
  }
  reference::IntegerRow model(const Row& row) override {
    Row changed = row;
    if (changed.processing) {
      RowProcessing& before = slots_[row_];
      const RowProcessing own = *changed.processing;
      if (own.output.empty() && !before.output.empty()) {
        changed.processing->repetition_penalty = before.repetition_penalty;
      }
      before = own;
    }
    return ModelSampler::model(changed);
  }

 private:
  std::int64_t row_ = 0;
  std::map<std::int64_t, RowProcessing> slots_;
};

// A step that is wrong in a call of its own, too, is named; state is not at fault.
TEST(RunningBatch, NamesTheStepThatIsWrong) {
  Changed sampler([](RowProcessing& row, std::size_t) { row.frequency_penalty *= 2; });
  const CheckOutcome outcome = judge(sampler, expect_running_batch);
  EXPECT_TRUE(outcome.failed());
  ASSERT_FALSE(outcome.evidence.suspects.empty()) << outcome.message;
  EXPECT_EQ(outcome.evidence.suspects.front().bug, "frequency penalty");
}

TEST(RunningBatch, SeesStateThatIsNotTheRequests) {
  ByRequest restored;
  EXPECT_TRUE(judge(restored, expect_running_batch).failed());
  BySlot slots;
  EXPECT_TRUE(judge(slots, expect_running_batch).failed());
}

}  // namespace
}  // namespace fairdraw::harness
