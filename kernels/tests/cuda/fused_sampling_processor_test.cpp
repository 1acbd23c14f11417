// FusedSamplingProcessor on a GPU against the CPU's, bit for bit: random runs in which requests
// come, move, leave and are preempted, with tokens that the host waits for at once or late; steps
// in a CUDA graph; bitmasks from page-locked memory; copies concurrent with other work.
//
// FAIRDRAW_REDUCED makes it short, for compute-sanitizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fairdraw/cuda_fused_sampling_processor.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/sample/reduced.h"
#include "tests/serving/random_requests.h"

namespace fairdraw::suites {
namespace {

using batches::random_bitmask;
using batches::random_request;
using batches::random_step;
using batches::StepInput;
using harness::Dice;

/// Of small rows: more threads only wait for each other.
const Execution kOneThread = {CpuTarget::best, 1};

template <class T>
std::vector<T> list(View<const T> view) {
  return {view.data, view.data + view.size};
}

void expect_ok(const Error& error) { ASSERT_FALSE(error) << error.message; }

/// A batch of few tokens and short histories, so that lists, masks and full histories meet.
BatchStateOptions small_batch() {
  BatchStateOptions options;
  options.vocab = 37;  // not a whole number of words of a bitmask
  options.capacity = 5;
  options.max_length = 24;
  options.max_bias = 3;
  options.max_stop_ids = 2;
  options.max_bad_words = 2;
  options.max_bad_word_tokens = 4;
  options.max_allowed_ids = 5;
  return options;
}

/// More slots than advance_batch has threads in a warp, rows of several vectors a thread.
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

/// Page-locked memory that copies on a stream may read until the test is over.
class PinnedWords {
 public:
  explicit PinnedWords(const std::vector<std::uint32_t>& words) {
    require(cudaMallocHost(&data_, std::max<std::size_t>(words.size(), 1) * 4), "cudaMallocHost");
    std::copy(words.begin(), words.end(), data());
  }
  ~PinnedWords() { static_cast<void>(cudaFreeHost(data_)); }
  PinnedWords(const PinnedWords&) = delete;
  PinnedWords& operator=(const PinnedWords&) = delete;
  std::uint32_t* data() const { return static_cast<std::uint32_t*>(data_); }

 private:
  void* data_ = nullptr;
};

/// How logits lie in memory.
struct Layout {
  DType dtype = DType::float32;
  std::int64_t lead = 0;  ///< values before the first row: it need not be aligned
  std::int64_t pad = 0;   ///< values between rows
};

/// The logits of a step, for both processors.
class StepRowsOnBoth {
 public:
  StepRowsOnBoth(const StepInput& input, std::int64_t vocab, const Layout& layout,
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
        if (!wide) bits >>= 16;  // bfloat16, rounded towards zero
        const auto at = static_cast<std::size_t>(layout.lead + row * stride + token) * size;
        std::memcpy(bytes_.data() + at, &bits, size);  // little-endian: the low half
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

  RowsView on_host, on_device;

 private:
  std::vector<std::uint8_t> bytes_;
  DeviceBlock block_;
};

/// Where the offsets of a step are.
enum class Offsets { host, narrow_host, device, narrow_device };

/// A batch on the CPU, and the same one on the GPU.
class Twins {
 public:
  Twins(const BatchStateOptions& options, cuda::FusedSamplingOptions gpu_options)
      : options_(options) {
    gpu_options.stream = stream.get();
    expect_ok(BatchState::make(options, expected));
    expect_ok(BatchState::make(options, state));
    cpu = std::make_unique<FusedSamplingProcessor>(*expected, kOneThread);
    expect_ok(cuda::FusedSamplingProcessor::make(*state, gpu_options, gpu));
  }
  ~Twins() { static_cast<void>(cudaDeviceSynchronize()); }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  template <class Call>
  void on_both(const Call& call) {
    const Error first = call(*expected);
    const Error second = call(*state);
    EXPECT_EQ(first.message, second.message);
  }

  /// False where both refuse it, or the CPU does and the GPU cannot know.
  bool step(const StepInput& input, const Layout& layout, Offsets where) {
    kept_.push_back(std::make_unique<StepRowsOnBoth>(input, options_.vocab, layout, stream));
    return step(*kept_.back(), input, where);
  }

  bool step(const StepRowsOnBoth& rows, const StepInput& input, Offsets where) {
    if (input.offsets.empty()) return same(cpu->step(rows.on_host), gpu->step(rows.on_device));
    const auto count = static_cast<std::int64_t>(input.offsets.size());
    const Error refused = cpu->step(
        rows.on_host, View<const std::int64_t>{input.offsets.data(), count}, input.sampled);
    const std::vector<std::uint32_t> narrow(input.offsets.begin(), input.offsets.end());
    const View<const std::int64_t> wide_view{input.offsets.data(), count};
    const View<const std::uint32_t> narrow_view{narrow.data(), count};
    constexpr std::int32_t kMaxRows = 4;  // random_step gives up to 3
    switch (where) {
      case Offsets::host:
        return same(refused, gpu->step(rows.on_device, wide_view, input.sampled));
      case Offsets::narrow_host: {
        const Error error = gpu->step(rows.on_device, narrow_view, input.sampled);
        if (refused) {  // -1 is another number there
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

  void start_copy() {
    expect_ok(gpu->start_async_token_copy());
    on_their_way_.push_back(
        {list(cpu->new_tokens()), list(cpu->new_token_counts()), list(cpu->statuses())});
  }
  std::size_t copies_on_their_way() const { return on_their_way_.size(); }
  void wait() {
    cuda::CopiedStep step;
    expect_ok(gpu->wait_for_tokens(step));
    const Expected& expected_step = on_their_way_.front();
    EXPECT_EQ(list(step.tokens), expected_step.tokens);
    EXPECT_EQ(list(step.counts), expected_step.counts);
    EXPECT_EQ(list(step.statuses), expected_step.statuses);
    on_their_way_.pop_front();
  }
  /// The host knows all tokens.
  void drain(bool by_copies) {
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

  /// Results of the last step where the device has them.
  void expect_equal_results() const {
    require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    EXPECT_EQ(from_device(gpu->new_tokens()), list(cpu->new_tokens()));
    EXPECT_EQ(from_device(gpu->new_token_counts()), list(cpu->new_token_counts()));
    EXPECT_EQ(from_device(gpu->statuses()), list(cpu->statuses()));
  }

  void expect_equal_states() const {
    for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
      EXPECT_EQ(state->id_at(slot), expected->id_at(slot)) << slot;
      EXPECT_EQ(state->offset(slot), expected->offset(slot)) << slot;
      EXPECT_EQ(list(state->output(slot)), list(expected->output(slot))) << slot;
    }
  }

  PinnedWords& pinned(const std::vector<std::uint32_t>& words) {
    pinned_.push_back(std::make_unique<PinnedWords>(words));
    return *pinned_.back();
  }

  const BatchStateOptions& options() const { return options_; }

  Stream stream;
  std::unique_ptr<BatchState> expected, state;  // the CPU's, and the one behind the GPU
  std::unique_ptr<FusedSamplingProcessor> cpu;
  std::unique_ptr<cuda::FusedSamplingProcessor> gpu;

 private:
  struct Expected {
    std::vector<std::int32_t> tokens, counts;
    std::vector<RowStatus> statuses;
  };

  bool same(const Error& first, const Error& second) {
    EXPECT_EQ(first.message, second.message);
    has_stepped_ = has_stepped_ || !second;
    return !first && !second;
  }

  template <class T>
  View<const T> on_device(View<const T> values) {
    const std::size_t bytes = static_cast<std::size_t>(values.size) * sizeof(T);
    offsets_.push_back(std::make_unique<DeviceBlock>(bytes));
    require(cudaMemcpyAsync(offsets_.back()->data(), values.data, bytes, cudaMemcpyHostToDevice,
                            stream.get()),
            "cudaMemcpyAsync");
    // The values are the caller's own, and gone when it returns.
    require(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    return {reinterpret_cast<const T*>(offsets_.back()->data()), values.size};
  }

  template <class T>
  static std::vector<T> from_device(View<const T> view) {
    std::vector<T> values(static_cast<std::size_t>(view.size));
    require(cudaMemcpy(values.data(), view.data, values.size() * sizeof(T), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
    return values;
  }

  BatchStateOptions options_;
  bool has_stepped_ = false;
  std::deque<Expected> on_their_way_;
  std::vector<std::unique_ptr<StepRowsOnBoth>> kept_;  // copies may still read them
  std::vector<std::unique_ptr<DeviceBlock>> offsets_;
  std::vector<std::unique_ptr<PinnedWords>> pinned_;
};

/// What is done in a run besides steps.
struct Manner {
  HistoryForm history = HistoryForm::lists;
  bool late = false;          ///< the host waits for tokens some steps later
  bool device_masks = false;  ///< bitmasks by update_bitmask(), and nobody is preempted
};

/// A random run. How many tokens were drawn.
std::int64_t run(BatchStateOptions options, const Manner& manner, std::uint64_t seed, int rounds) {
  Dice dice{seed};
  options.history = manner.history;
  cuda::FusedSamplingOptions gpu_options;
  gpu_options.most_copies = 3;
  Twins twins(options, gpu_options);
  if (testing::Test::HasFatalFailure()) return 0;
  RequestId next = 1;
  std::vector<RequestId> there;
  const auto slot = [&] {
    return static_cast<std::int32_t>(dice.between(0, options.capacity - 1));
  };
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    switch (dice.below(10)) {
      case 0:
      case 1: {
        if (there.size() == static_cast<std::size_t>(options.capacity)) break;
        const BatchRequest request = random_request(dice, options);
        twins.on_both([&](BatchState& state) { return state.add(next, request); });
        there.push_back(next++);
        break;
      }
      case 2: {
        if (there.empty() || dice.once_in(2)) break;
        const std::size_t which = dice.below(there.size());
        twins.on_both([&](BatchState& state) { return state.remove(there[which]); });
        there.erase(there.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      }
      case 3: {
        const std::int32_t first = slot();
        const std::int32_t second = slot();
        twins.on_both([&](BatchState& state) { return state.swap(first, second); });
        if (dice.once_in(3)) {
          twins.on_both([](BatchState& state) {
            state.compact();
            return Error{};
          });
        }
        break;
      }
      case 4: {
        if (there.empty() || manner.device_masks) break;
        twins.drain(dice.once_in(2));
        const RequestId id = dice.pick(there);
        if (dice.once_in(3)) {
          const std::vector<std::int32_t> tokens = batches::random_tokens(dice, options, 2);
          twins.on_both([&](BatchState& state) { return state.append(id, tokens.data(), 2); });
          break;
        }
        twins.on_both([&](BatchState& state) {
          RequestSnapshot snapshot;
          expect_ok(state.evict(id, snapshot));
          return state.restore(snapshot);
        });
        break;
      }
      case 5: {
        const std::vector<std::uint32_t> packed = random_bitmask(dice, options, options.capacity);
        const std::int64_t words = (options.vocab + 31) / 32;
        if (dice.once_in(3)) {
          twins.cpu->clear_bitmask();
          expect_ok(twins.gpu->clear_bitmask());
        } else if (manner.device_masks) {
          expect_ok(twins.cpu->update_bitmask({packed.data(), options.capacity, words}));
          expect_ok(
              twins.gpu->update_bitmask({twins.pinned(packed).data(), options.capacity, words}));
        } else {
          twins.on_both([&](BatchState& state) {
            return state.set_allowed({packed.data(), options.capacity, words});
          });
        }
        break;
      }
      default: {
        const StepInput input = random_step(dice, options, twins.state->slots());
        const Layout layout{dice.pick({DType::float32, DType::bfloat16}), dice.between(0, 8),
                            dice.between(0, 5)};
        const auto where = dice.pick(
            {Offsets::host, Offsets::narrow_host, Offsets::device, Offsets::narrow_device});
        if (!twins.step(input, layout, where)) break;
        if (manner.late) {
          if (twins.copies_on_their_way() == 3) twins.wait();
          if (!dice.once_in(4)) twins.start_copy();
        } else {
          twins.expect_equal_results();
          twins.start_copy();
          twins.wait();
          twins.expect_equal_states();
        }
      }
    }
    if (manner.late && twins.copies_on_their_way() > 0 && dice.once_in(3)) twins.wait();
  }
  twins.drain(true);
  std::int64_t drawn = 0;
  for (std::int32_t i = 0; i < options.capacity; ++i) drawn += twins.state->output(i).size;
  return drawn;
}

TEST(CudaFusedSamplingProcessor, DrawsTheCpusTokensWhateverHappensToTheBatch) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::int64_t drawn = 0;
  for (const HistoryForm history : {HistoryForm::lists, HistoryForm::dense}) {
    for (const bool late : {false, true}) {
      for (const bool device_masks : {false, true}) {
        const Manner manner{history, late, device_masks};
        for (std::uint64_t seed = 0; seed < (is_reduced() ? 2U : 12U); ++seed) {
          SCOPED_TRACE("seed " + std::to_string(seed) + (late ? " late" : "") +
                       (device_masks ? " device_masks" : "") +
                       (history == HistoryForm::dense ? " dense" : ""));
          drawn += run(small_batch(), manner, seed, is_reduced() ? 40 : 120);
          if (seed < 2) drawn += run(wide_batch(), manner, 100 + seed, is_reduced() ? 15 : 60);
          if (HasFailure()) return;
        }
      }
    }
  }
  // In the batches that the runs end with; else those ran empty. They are the same everywhere, 518
  // when reduced.
  EXPECT_GT(drawn, is_reduced() ? 400 : 1000);
}

/// `count` steps with a row for every slot.
std::vector<StepInput> steps_of(const BatchStateOptions& options, int count, std::uint64_t seed) {
  Dice dice{seed};
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

TEST(CudaFusedSamplingProcessor, AGraphOfEightStepsIsEightStepsAtEveryReplay) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const HistoryForm history : {HistoryForm::lists, HistoryForm::dense}) {
    BatchStateOptions options = wide_batch();
    options.history = history;
    Twins twins(options, {});
    ASSERT_FALSE(HasFailure());
    Dice dice{5};
    RequestId next = 1;
    const auto add = [&] {
      BatchRequest request = random_request(dice, options);
      twins.on_both([&](BatchState& state) { return state.add(next, request); });
      ++next;
    };
    for (int i = 0; i < 30; ++i) add();
    const std::vector<StepInput> steps = steps_of(options, 8, 6);
    const auto rows = on_both(steps, twins);

    expect_ok(twins.gpu->bring_changes());
    Graph graph;
    Graph::begin(twins.stream);
    for (const auto& step : rows) expect_ok(twins.gpu->step(step->on_device));
    graph.end(twins.stream);
    graph.expect_device_work_only("eight steps");
    for (int replay = 0; replay < 4; ++replay) {
      graph.launch(twins.stream);
      for (const auto& step : rows) expect_ok(twins.cpu->step(step->on_host));
      if (replay == 1) continue;  // the next copy has the tokens of two replays
      twins.start_copy();
      if (replay == 0) {  // the batch changes while tokens are on their way, then is brought
        add();
        twins.on_both([](BatchState& state) { return state.swap(2, 40); });
        twins.on_both([](BatchState& state) { return state.remove(5); });
        expect_ok(twins.gpu->bring_changes());
      }
      twins.wait();
      twins.expect_equal_results();
      twins.expect_equal_states();
    }
    // Steps that are not captured go on from there.
    expect_ok(twins.gpu->step(rows[0]->on_device));
    expect_ok(twins.cpu->step(rows[0]->on_host));
    twins.start_copy();
    twins.wait();
    twins.expect_equal_states();
  }
}

TEST(CudaFusedSamplingProcessor, AGraphHasRowsByOffsetsAndABitmaskThatIsReadAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const BatchStateOptions options = small_batch();
  Twins twins(options, {});
  ASSERT_FALSE(HasFailure());
  for (RequestId id = 0; id < 3; ++id) {
    BatchRequest request;
    request.seed = id;
    request.presence_penalty = 0.5F;
    twins.on_both([&](BatchState& state) { return state.add(id, request); });
  }
  const std::vector<StepInput> steps = steps_of(options, 1, 9);  // five rows
  const auto rows = on_both(steps, twins);
  const std::vector<std::int64_t> offsets = {0, 2, 3, 5};
  DeviceArrays arrays;
  const View<const std::int64_t> on_device{arrays.in(offsets), 4};
  PinnedWords& packed = twins.pinned({~0U, ~0U, ~0U, ~0U, ~0U, ~0U});  // two words a row

  expect_ok(twins.gpu->bring_changes());
  Graph graph;
  Graph::begin(twins.stream);
  const Error masked = twins.gpu->update_bitmask({packed.data(), 3, 2});
  const Error host_offsets =
      twins.gpu->step(rows[0]->on_device, View<const std::int64_t>{offsets.data(), 4});
  const Error stepped = twins.gpu->step(rows[0]->on_device, on_device, StepRows::all, 2);
  graph.end(twins.stream);
  expect_ok(masked);
  expect_ok(stepped);
  EXPECT_EQ(host_offsets.message,
            "logit_offsets is host memory; allowed: device memory while the stream is captured");
  for (const std::uint32_t even : {~0U, 0x55555555U}) {
    std::fill_n(packed.data(), 6, even);
    graph.launch(twins.stream);
    expect_ok(twins.cpu->update_bitmask({packed.data(), 3, 2}));
    expect_ok(twins.cpu->step(rows[0]->on_host, View<const std::int64_t>{offsets.data(), 4},
                              StepRows::all));
    twins.start_copy();
    twins.wait();
    twins.expect_equal_results();
    twins.expect_equal_states();
  }
}

TEST(CudaFusedSamplingProcessor, ACaptureIsRefusedWhileChangesAreToBeBrought) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Twins twins(small_batch(), {});
  ASSERT_FALSE(HasFailure());
  twins.on_both([](BatchState& state) { return state.add(1, batches::seeded_request()); });
  const auto rows = on_both(steps_of(small_batch(), 1, 2), twins);
  const DeviceBlock word(4);
  Graph graph;
  Graph::begin(twins.stream);
  const Error refused = twins.gpu->step(rows[0]->on_device);
  require(cudaMemsetAsync(word.data(), 0, 4, twins.stream.get()), "cudaMemsetAsync");
  graph.end(twins.stream);
  EXPECT_EQ(refused.code, ErrorCode::invalid_argument);
  EXPECT_NE(refused.message.find("bring_changes()"), std::string::npos) << refused.message;
  // The capture was whole, and nothing has happened.
  expect_ok(twins.gpu->step(rows[0]->on_device));
  expect_ok(twins.cpu->step(rows[0]->on_host));
  twins.start_copy();
  twins.wait();
  twins.expect_equal_states();
}

TEST(CudaFusedSamplingProcessor, TokensThatWereOverwrittenAreMissedAndCatchUpBringsThem) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  for (const bool captured : {false, true}) {
    cuda::FusedSamplingOptions few;
    few.most_unread_calls = 3;
    Twins twins(small_batch(), few);
    ASSERT_FALSE(HasFailure());
    twins.on_both([](BatchState& state) { return state.add(1, batches::seeded_request()); });
    const auto rows = on_both(steps_of(small_batch(), 5, 2), twins);
    Graph graph;
    if (captured) {
      expect_ok(twins.gpu->bring_changes());
      Graph::begin(twins.stream);
    }
    for (const auto& step : rows) {
      expect_ok(twins.gpu->step(step->on_device));
      expect_ok(twins.cpu->step(step->on_host));
    }
    if (captured) {
      graph.end(twins.stream);
      graph.launch(twins.stream);
    }
    expect_ok(twins.gpu->start_async_token_copy());
    cuda::CopiedStep step;
    const Error missed = twins.gpu->wait_for_tokens(step);
    EXPECT_EQ(missed.message,
              "tokens of call 0 were overwritten by call 3 before they were copied "
              "(most_unread_calls); catch_up() brings them");
    EXPECT_EQ(twins.state->output(0).size, 0);
    expect_ok(twins.gpu->catch_up());
    twins.expect_equal_states();
    // The next tokens come as ever.
    twins.on_both([](BatchState& state) { return state.swap(0, 2); });
    expect_ok(twins.gpu->step(rows[0]->on_device));
    expect_ok(twins.cpu->step(rows[0]->on_host));
    twins.start_copy();
    twins.wait();
    twins.expect_equal_states();
  }
}

/// Work on a stream that ends when the test says so.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<bool> waited_in_vain{false};

  static void hold(void* data) {
    auto& gate = *static_cast<Gate*>(data);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!gate.open.load()) {
      if (std::chrono::steady_clock::now() > end) {
        gate.waited_in_vain = true;
        return;
      }
      std::this_thread::yield();
    }
  }
};

TEST(CudaFusedSamplingProcessor, AWaitIsForTheCopyAndNotForLaterWork) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  if (is_reduced()) GTEST_SKIP() << "under a sanitizer a launch may wait for the work before it";
  Twins twins(small_batch(), {});
  ASSERT_FALSE(HasFailure());
  twins.on_both([](BatchState& state) { return state.add(1, batches::seeded_request()); });
  const auto rows = on_both(steps_of(small_batch(), 2, 2), twins);
  expect_ok(twins.gpu->step(rows[0]->on_device));
  expect_ok(twins.cpu->step(rows[0]->on_host));
  twins.start_copy();
  Gate gate;
  require(cudaLaunchHostFunc(twins.stream.get(), Gate::hold, &gate), "cudaLaunchHostFunc");
  expect_ok(twins.gpu->step(rows[1]->on_device));  // the next step, which cannot end yet
  twins.wait();
  twins.expect_equal_states();
  EXPECT_EQ(cudaStreamQuery(twins.stream.get()), cudaErrorNotReady);
  gate.open = true;
  expect_ok(twins.cpu->step(rows[1]->on_host));
  twins.start_copy();
  twins.wait();
  twins.expect_equal_states();
  EXPECT_FALSE(gate.waited_in_vain);  // else the wait was for later work
}

TEST(CudaFusedSamplingProcessor, AHundredStepsTakeNoMemory) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Twins twins(wide_batch(), {});
  ASSERT_FALSE(HasFailure());
  for (RequestId id = 0; id < 40; ++id) {
    twins.on_both([&](BatchState& state) { return state.add(id, batches::seeded_request()); });
  }
  const auto rows = on_both(steps_of(wide_batch(), 1, 2), twins);
  const auto step = [&] {
    expect_ok(twins.gpu->step(rows[0]->on_device));
    expect_ok(twins.gpu->start_async_token_copy());
    cuda::CopiedStep copied;
    expect_ok(twins.gpu->wait_for_tokens(copied));
  };
  step();  // the first one loads the kernels
  std::size_t free_before = 0;
  std::size_t free_after = 0;
  std::size_t all = 0;
  require(cudaMemGetInfo(&free_before, &all), "cudaMemGetInfo");
  for (int i = 0; i < (is_reduced() ? 10 : 100); ++i) step();
  require(cudaMemGetInfo(&free_after, &all), "cudaMemGetInfo");
  EXPECT_EQ(free_after, free_before);
}

TEST(CudaFusedSamplingProcessor, OffsetsOnTheDeviceThatAreNoRowsFailTheirRequests) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Twins twins(small_batch(), {});
  ASSERT_FALSE(HasFailure());
  for (RequestId id = 0; id < 5; ++id) {
    twins.on_both([&](BatchState& state) { return state.add(id, batches::seeded_request()); });
  }
  const auto rows = on_both(steps_of(small_batch(), 1, 2), twins);  // five rows
  const std::vector<std::int64_t> offsets = {0, 1, -1, 3, 2, 6};
  DeviceArrays arrays;
  for (const StepRows sampled : {StepRows::last, StepRows::all}) {
    expect_ok(twins.gpu->step(rows[0]->on_device, View<const std::int64_t>{arrays.in(offsets), 6},
                              sampled, 3));
    expect_ok(twins.gpu->start_async_token_copy());
    cuda::CopiedStep step;
    expect_ok(twins.gpu->wait_for_tokens(step));
    const RowStatus bad = RowStatus::index_out_of_range;
    EXPECT_EQ(list(step.statuses), (std::vector<RowStatus>{RowStatus::ok, bad, bad, bad, bad}));
    EXPECT_EQ(list(step.counts), (std::vector<std::int32_t>{1, 0, 0, 0, 0}));
  }
}

TEST(CudaFusedSamplingProcessor, RefusedCallsSayWhyAndChangeNothing) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  cuda::FusedSamplingOptions plain;
  plain.processing = false;
  plain.bitmask = false;
  plain.logit_offsets = false;
  plain.most_copies = 1;
  Twins twins(small_batch(), plain);
  ASSERT_FALSE(HasFailure());
  const auto rows = on_both(steps_of(small_batch(), 1, 2), twins);
  const RowsView& logits = rows[0]->on_device;
  EXPECT_EQ(twins.gpu->start_async_token_copy().message,
            "number of steps is 0; allowed: >= 1 before tokens are copied");
  twins.on_both([](BatchState& state) { return state.add(1, batches::seeded_request()); });
  const Error of_host = twins.gpu->step(rows[0]->on_host);
  EXPECT_EQ(of_host.message.rfind("logits.data is ", 0), 0U) << of_host.message;
  const std::vector<std::int64_t> offsets = {0, 1};
  EXPECT_EQ(twins.gpu->step(logits, View<const std::int64_t>{offsets.data(), 2}).message,
            "logit_offsets of the options is false; allowed: true, for steps with offsets");
  const std::vector<std::uint32_t> packed(2, ~0U);
  EXPECT_EQ(twins.gpu->update_bitmask({packed.data(), 1, 2}).message,
            "bitmask of the options is false; allowed: true, for update_bitmask()");
  expect_ok(twins.gpu->step(logits));
  expect_ok(twins.cpu->step(rows[0]->on_host));
  twins.start_copy();
  EXPECT_EQ(twins.gpu->start_async_token_copy().message,
            "copies on their way is 2; allowed: 0 to 1 (most_copies); wait_for_tokens() makes "
            "room");
  twins.wait();
  BatchRequest penalised;
  penalised.presence_penalty = 1;
  expect_ok(twins.state->add(2, penalised));
  EXPECT_EQ(twins.gpu->step(logits).message,
            "processing of the options is false; allowed: true: a request has penalties, biases "
            "or bans");
  expect_ok(twins.state->remove(2));
  expect_ok(twins.gpu->step(logits));
  expect_ok(twins.cpu->step(rows[0]->on_host));
  twins.start_copy();
  twins.wait();
  twins.expect_equal_states();

  Twins others(small_batch(), {});
  const Error pageable = others.gpu->update_bitmask({packed.data(), 1, 2});
  EXPECT_EQ(pageable.message,
            "packed.data is memory of the host that is not page-locked; allowed: page-locked "
            "memory, or memory of the device");
}

// Tokens that one copy brings are news to no other.
TEST(CudaFusedSamplingProcessor, AStateHasOneAtATime) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::unique_ptr<BatchState> state;
  expect_ok(BatchState::make(small_batch(), state));
  std::unique_ptr<cuda::FusedSamplingProcessor> first;
  std::unique_ptr<cuda::FusedSamplingProcessor> second;
  expect_ok(cuda::FusedSamplingProcessor::make(*state, {}, first));
  EXPECT_EQ(cuda::FusedSamplingProcessor::make(*state, {}, second).message,
            "processors on a GPU of the batch state is 2; allowed: 1");
  EXPECT_EQ(second, nullptr);
  first.reset();
  expect_ok(cuda::FusedSamplingProcessor::make(*state, {}, second));
}

/// Options are checked before the device is.
TEST(CudaFusedSamplingProcessor, OptionsOutOfTheirRangesAreRefusedEverywhere) {
  std::unique_ptr<BatchState> state;
  expect_ok(BatchState::make(small_batch(), state));
  std::unique_ptr<cuda::FusedSamplingProcessor> processor;
  cuda::FusedSamplingOptions options;
  options.most_unread_calls = 0;
  EXPECT_EQ(cuda::FusedSamplingProcessor::make(*state, options, processor).message,
            "most_unread_calls is 0; allowed: >= 1");
  options.most_unread_calls = 1;
  options.most_copies = -1;
  EXPECT_EQ(cuda::FusedSamplingProcessor::make(*state, options, processor).message,
            "most_copies is -1; allowed: >= 1");
  if (cuda::is_available()) return;
  options.most_copies = 1;
  const Error nowhere = cuda::FusedSamplingProcessor::make(*state, options, processor);
  EXPECT_EQ(nowhere.code, ErrorCode::unsupported);
  EXPECT_EQ(nowhere.message, cuda::why_not_available());
  EXPECT_EQ(processor, nullptr);
}

}  // namespace
}  // namespace fairdraw::suites
