#include "tests/cuda/serving/processor_twins.h"

#include <cstring>

namespace fairdraw::suites {
namespace {

/// The CPU uses one thread, because on small rows more threads would only wait for each other.
const Execution kOneThread = {CpuTarget::best, 1};

template <class T>
std::vector<T> from_device(View<const T> view) {
  std::vector<T> values(static_cast<std::size_t>(view.size));
  require(cudaMemcpy(values.data(), view.data, values.size() * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
  return values;
}

}  // namespace

/// Returns options for small vocabularies and short histories, so that lists, masks and full
/// histories affect each other.
BatchStateOptions small_batch() {
  BatchStateOptions options;
  options.vocab = 37;  // the vocabulary does not fill a whole number of bitmask words
  options.capacity = 5;
  options.max_length = 24;
  options.max_bias = 3;
  options.max_stop_ids = 2;
  options.max_bad_words = 2;
  options.max_bad_word_tokens = 4;
  options.max_allowed_ids = 5;
  return options;
}

/// Returns options for a batch with more slots than a warp of advance_batch has threads, and with
/// several vectors of a row per thread.
BatchStateOptions wide_batch() {
  BatchStateOptions options = small_batch();
  options.vocab = 4099;
  options.capacity = 45;
  options.max_length = 200;
  options.max_bias = 40;
  options.tie_rule = TieRule::lowest_id;
  options.filter_order = FilterOrder::joint;
  return options;
}

StepRowsOnBoth::StepRowsOnBoth(const StepInput& input, std::int64_t vocab, const Layout& layout,
                               const Stream& stream) {
  const bool wide = layout.dtype == DType::float32;
  const std::size_t size = wide ? 4 : 2;
  const std::int64_t stride = vocab + layout.pad;
  bytes_.resize(static_cast<std::size_t>(layout.lead + input.rows * stride + 1) * size, 0xff);
  for (std::int64_t row = 0; row < input.rows; ++row) {
    for (std::int64_t token = 0; token < vocab; ++token) {
      const float value = input.logits[static_cast<std::size_t>(row * vocab + token)];
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      if (!wide) bits >>= 16;  // bfloat16 values, made by truncating the float32 values
      const auto at = static_cast<std::size_t>(layout.lead + row * stride + token) * size;
      // the number is little-endian, so that the low half comes first
      std::memcpy(bytes_.data() + at, &bits, size);
    }
  }
  block_ = DeviceBlock(bytes_.size());
  require(cudaMemcpyAsync(block_.data(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice,
                          stream.get()),
          "cudaMemcpyAsync");
  const std::size_t lead = static_cast<std::size_t>(layout.lead) * size;
  on_host = {bytes_.data() + lead, layout.dtype, input.rows, vocab, stride};
  on_device = {block_.data() + lead, layout.dtype, input.rows, vocab, stride};
}

Twins::Twins(const BatchStateOptions& options, cuda::FusedSamplingOptions gpu_options)
    : options_(options) {
  gpu_options.stream = stream.get();
  expect_ok(BatchState::make(options, expected));
  expect_ok(BatchState::make(options, state));
  cpu = std::make_unique<FusedSamplingProcessor>(*expected, kOneThread);
  expect_ok(cuda::FusedSamplingProcessor::make(*state, gpu_options, gpu));
}

bool Twins::same(const Error& first, const Error& second) {
  EXPECT_EQ(first.message, second.message);
  has_stepped_ = has_stepped_ || !second;
  return !first && !second;
}

template <class T>
View<const T> Twins::on_device(View<const T> values) {
  const std::size_t bytes = static_cast<std::size_t>(values.size) * sizeof(T);
  offsets_.push_back(std::make_unique<DeviceBlock>(bytes));
  require(cudaMemcpyAsync(offsets_.back()->data(), values.data, bytes, cudaMemcpyHostToDevice,
                          stream.get()),
          "cudaMemcpyAsync");
  // The source values belong to the caller, who may free them after this function returns.
  require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  return {reinterpret_cast<const T*>(offsets_.back()->data()), values.size};
}

bool Twins::step(const StepRowsOnBoth& rows, const StepInput& input, Offsets where) {
  if (input.offsets.empty()) return same(cpu->step(rows.on_host), gpu->step(rows.on_device));
  const auto count = static_cast<std::int64_t>(input.offsets.size());
  const Error refused =
      cpu->step(rows.on_host, View<const std::int64_t>{input.offsets.data(), count}, input.sampled);
  const std::vector<std::uint32_t> narrow(input.offsets.begin(), input.offsets.end());
  const View<const std::int64_t> wide_view{input.offsets.data(), count};
  const View<const std::uint32_t> narrow_view{narrow.data(), count};
  constexpr std::int32_t kMaxRows = 4;  // random_step chooses at most 3 rows
  switch (where) {
    case Offsets::host:
      return same(refused, gpu->step(rows.on_device, wide_view, input.sampled));
    case Offsets::narrow_host: {
      const Error error = gpu->step(rows.on_device, narrow_view, input.sampled);
      if (refused) {  // in the narrower type, -1 would become another number
        EXPECT_TRUE(error);
        return false;
      }
      return same(refused, error);
    }
    case Offsets::device:
      if (refused) return false;
      return same(refused,
                  gpu->step(rows.on_device, on_device(wide_view), input.sampled, kMaxRows));
    case Offsets::narrow_device:
      if (refused) return false;
      return same(refused,
                  gpu->step(rows.on_device, on_device(narrow_view), input.sampled, kMaxRows));
  }
  return false;
}

void Twins::start_copy() {
  expect_ok(gpu->start_async_token_copy());
  on_their_way_.push_back(
      {list(cpu->new_tokens()), list(cpu->new_token_counts()), list(cpu->statuses())});
}

void Twins::wait() {
  cuda::CopiedStep step;
  expect_ok(gpu->wait_for_tokens(step));
  const Expected& expected_step = on_their_way_.front();
  EXPECT_EQ(list(step.tokens), expected_step.tokens);
  EXPECT_EQ(list(step.counts), expected_step.counts);
  EXPECT_EQ(list(step.statuses), expected_step.statuses);
  on_their_way_.pop_front();
}

void Twins::drain(bool by_copies) {
  while (!on_their_way_.empty()) wait();
  if (!has_stepped_) return;
  if (by_copies) {
    start_copy();
    wait();
  } else {
    expect_ok(gpu->catch_up());
  }
  expect_equal_states();
}

void Twins::expect_equal_results() const {
  require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
  EXPECT_EQ(from_device(gpu->new_tokens()), list(cpu->new_tokens()));
  EXPECT_EQ(from_device(gpu->new_token_counts()), list(cpu->new_token_counts()));
  EXPECT_EQ(from_device(gpu->statuses()), list(cpu->statuses()));
}

void Twins::expect_equal_states() const {
  for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
    EXPECT_EQ(state->id_at(slot), expected->id_at(slot)) << slot;
    EXPECT_EQ(state->offset(slot), expected->offset(slot)) << slot;
    EXPECT_EQ(list(state->output(slot)), list(expected->output(slot))) << slot;
  }
}

PinnedWords& Twins::pinned(const std::vector<std::uint32_t>& words) {
  pinned_.push_back(std::make_unique<PinnedWords>(words));
  return *pinned_.back();
}

std::vector<StepInput> steps_of(const BatchStateOptions& options, int count, std::uint64_t seed) {
  harness::Dice dice{seed};
  std::vector<StepInput> steps(static_cast<std::size_t>(count));
  for (StepInput& step : steps) {
    step.rows = options.capacity;
    for (std::int64_t i = 0; i < step.rows * options.vocab; ++i) {
      step.logits.push_back(static_cast<float>(dice.bell() * 2));
    }
  }
  return steps;
}

std::vector<std::unique_ptr<StepRowsOnBoth>> on_both(const std::vector<StepInput>& steps,
                                                     const Twins& twins) {
  std::vector<std::unique_ptr<StepRowsOnBoth>> rows;
  for (const StepInput& step : steps) {
    rows.push_back(
        std::make_unique<StepRowsOnBoth>(step, twins.options().vocab, Layout{}, twins.stream));
  }
  require(cudaStreamSynchronize(twins.stream.get()), "cudaStreamSynchronize");
  return rows;
}

}  // namespace fairdraw::suites
