// FusedSamplingProcessor on a GPU is compared with the CPU's, bit for bit. In random runs requests
// enter, move, leave and are preempted, and the host waits for tokens at once or later. The tests
// also cover bitmasks from page-locked memory, and copies concurrent with other work.
// fused_sampling_graphs_test.cpp tests steps in CUDA graphs.
//
// FAIRDRAW_REDUCED shortens the test, for compute-sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/serving/processor_twins.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

using batches::random_bitmask;
using batches::random_request;
using batches::random_step;
using harness::Dice;

/// The kinds of events that a random run has besides steps.
struct Manner {
  HistoryForm history = HistoryForm::lists;
  bool late = false;          ///< true if the host reads the tokens only some steps later
  bool device_masks = false;  ///< true if update_bitmask() sets the bitmasks, and no request is
                              ///< preempted
};

/// Performs a random run. Runs random steps on both processors, and returns the number of tokens
/// that were drawn.
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
  // The number counts the tokens in the batches at the ends of the runs; without this check, the
  // runs could have been empty. The number is the same on every machine; it is 518 in the reduced
  // test.
  EXPECT_GT(drawn, is_reduced() ? 400 : 1000);
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
    // The tokens of the next step arrive as usual, without catch_up().
    twins.on_both([](BatchState& state) { return state.swap(0, 2); });
    expect_ok(twins.gpu->step(rows[0]->on_device));
    expect_ok(twins.cpu->step(rows[0]->on_host));
    twins.start_copy();
    twins.wait();
    twins.expect_equal_states();
  }
}

/// Work on a stream that ends when the test opens this gate.
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
  expect_ok(twins.gpu->step(rows[1]->on_device));  // starts the next step, which cannot finish
                                                   // before the gate is open
  twins.wait();
  twins.expect_equal_states();
  EXPECT_EQ(cudaStreamQuery(twins.stream.get()), cudaErrorNotReady);
  gate.open = true;
  expect_ok(twins.cpu->step(rows[1]->on_host));
  twins.start_copy();
  twins.wait();
  twins.expect_equal_states();
  EXPECT_FALSE(gate.waited_in_vain);  // If this fails, wait() has waited for work that was enqueued
                                      // later.
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
  step();  // the first step loads the CUDA kernels
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
            "processing of the options is false; allowed: true: a request has logits processing");
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

// A batch state accepts only one processor at a time, because a second processor would not see the
// tokens that the first one's copies deliver.
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

/// A processor checks its options before it looks for the device.
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
