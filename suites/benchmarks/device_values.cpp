#include "suites/benchmarks/device_values.h"

#include <algorithm>

#include "suites/benchmarks/cuda_floor.h"
#include "suites/benchmarks/cuda_machine.h"

namespace fairdraw::suites {
namespace {

constexpr int kFloorTrials = 10;  // number of trials for each launch configuration, from which the
                                  // best is chosen

}  // namespace

DeviceRows::DeviceRows(const Rows& host, std::int64_t batch, const cuda::Stream& stream)
    : host_(host), row_bytes_(host.vocab * (host.dtype == DType::float32 ? 4 : 2)) {
  expect_success(values_.reserve(batch * row_bytes_), "the batch of logits");
  for (std::int64_t done = 0; done < batch; done += host.batch) {
    expect_success(values_.upload(done * row_bytes_, host.view().data,
                                  std::min(host.batch, batch - done) * row_bytes_, stream),
                   "the batch of logits");
  }
}

Floor::Floor(const Inputs& inputs, const cuda::Stream& stream, ColdTimer& timer) {
  const std::vector<FloorShape> shapes =
      floor_shapes(inputs.bytes, device_properties().multiProcessorCount);
  std::int64_t max_blocks = 0;
  for (const FloorShape& shape : shapes) max_blocks = std::max(max_blocks, shape.blocks);
  expect_success(largest_.reserve(max_blocks * 4), "the floor's results");
  std::vector<std::unique_ptr<CapturedCall>> captured;
  std::vector<TimedCall> trials;
  for (const FloorShape& shape : shapes) {
    captured.push_back(std::make_unique<CapturedCall>(stream, [&] {
      expect_success(read_once(inputs.data, inputs.dtype, inputs.bytes, shape,
                               static_cast<float*>(largest_.data()), handle(stream)),
                     "the floor");
    }));
    trials.push_back({captured.back().get(), {}});
  }
  const std::vector<double> times = timer.medians(trials, kFloorTrials);
  const auto best = std::min_element(times.begin(), times.end()) - times.begin();
  call_ = std::move(captured[static_cast<std::size_t>(best)]);
}

}  // namespace fairdraw::suites
