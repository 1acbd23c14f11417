#include "suites/benchmarks/device_values.h"

#include <algorithm>

#include "suites/benchmarks/cuda_floor.h"
#include "suites/benchmarks/cuda_machine.h"

namespace fairdraw::suites {
namespace {

constexpr int kFloorTrials = 10;  // of each shape, before the best one is measured

}  // namespace

Floor::Floor(const void* data, DType dtype, std::int64_t bytes, const cuda::Stream& stream,
             ColdTimer& timer) {
  const std::vector<FloorShape> shapes =
      floor_shapes(bytes, device_properties().multiProcessorCount);
  std::int64_t most_blocks = 0;
  for (const FloorShape& shape : shapes) most_blocks = std::max(most_blocks, shape.blocks);
  expect_success(largest_.reserve(most_blocks * 4), "the floor's results");
  std::vector<std::unique_ptr<CapturedCall>> captured;
  std::vector<TimedCall> trials;
  for (const FloorShape& shape : shapes) {
    captured.push_back(std::make_unique<CapturedCall>(stream, [&] {
      expect_success(read_once(data, dtype, bytes, shape, static_cast<float*>(largest_.data()),
                               handle(stream)),
                     "the floor");
    }));
    trials.push_back({captured.back().get(), {}});
  }
  const std::vector<double> times = timer.medians(trials, kFloorTrials);
  const auto best = std::min_element(times.begin(), times.end()) - times.begin();
  call_ = std::move(captured[static_cast<std::size_t>(best)]);
}

}  // namespace fairdraw::suites
