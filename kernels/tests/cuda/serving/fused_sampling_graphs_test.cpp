// Steps of cuda::FusedSamplingProcessor in a CUDA graph are compared with the CPU's steps without a
// graph, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/cuda/serving/processor_twins.h"

namespace fairdraw::suites {
namespace {

using batches::random_request;
using harness::Dice;

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
      if (replay == 1)
        continue;  // skips the copy, so that the next copy delivers the tokens of
                   // two replays
      twins.start_copy();
      if (replay == 0) {  // changes the batch while tokens are in flight, and copies its new state
                          // to the device
        add();
        twins.on_both([](BatchState& state) { return state.swap(2, 40); });
        twins.on_both([](BatchState& state) { return state.remove(5); });
        expect_ok(twins.gpu->bring_changes());
      }
      twins.wait();
      twins.expect_equal_results();
      twins.expect_equal_states();
    }
    // Steps outside a graph continue from the state that the replays left.
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
  // Each row has a bitmask of two 32-bit words.
  PinnedWords& packed = twins.pinned({~0U, ~0U, ~0U, ~0U, ~0U, ~0U});

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
  // The capture ended normally, and it executed nothing.
  expect_ok(twins.gpu->step(rows[0]->on_device));
  expect_ok(twins.cpu->step(rows[0]->on_host));
  twins.start_copy();
  twins.wait();
  twins.expect_equal_states();
}

}  // namespace
}  // namespace fairdraw::suites
