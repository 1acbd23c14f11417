// The same batch is kept on the CPU and on the GPU, with equal steps and changes, so that tests of
// cuda::FusedSamplingProcessor can compare them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "fairdraw/cuda_fused_sampling_processor.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/serving/random_requests.h"

namespace fairdraw::suites {

using batches::StepInput;

template <class T>
std::vector<T> list(View<const T> view) {
  return {view.data, view.data + view.size};
}

inline void expect_ok(const Error& error) { ASSERT_FALSE(error) << error.message; }

/// Returns options for small vocabularies and short histories, so that lists, masks and full
/// histories affect each other.
BatchStateOptions small_batch();

/// Returns options for a batch with more slots than a warp of advance_batch has threads, and with
/// several vectors of a row per thread.
BatchStateOptions wide_batch();

/// Page-locked memory, which copies on a stream may read until the test ends.
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

/// The layout in which a step's logits lie in memory.
struct Layout {
  DType dtype = DType::float32;
  std::int64_t lead = 0;  ///< number of values before the first row, which shift its alignment
  std::int64_t pad = 0;   ///< values between rows
};

/// The logits of a step, with one copy for each processor.
class StepRowsOnBoth {
 public:
  StepRowsOnBoth(const StepInput& input, std::int64_t vocab, const Layout& layout,
                 const Stream& stream);

  RowsView on_host, on_device;

 private:
  std::vector<std::uint8_t> bytes_;
  DeviceBlock block_;
};

/// The memory in which a step's offsets are, and their integer type.
enum class Offsets { host, narrow_host, device, narrow_device };

/// The same batch on the CPU and on the GPU.
class Twins {
 public:
  Twins(const BatchStateOptions& options, cuda::FusedSamplingOptions gpu_options);
  ~Twins() { static_cast<void>(cudaDeviceSynchronize()); }
  Twins(const Twins&) = delete;
  Twins& operator=(const Twins&) = delete;

  template <class Call>
  void on_both(const Call& call) {
    const Error first = call(*expected);
    const Error second = call(*state);
    EXPECT_EQ(first.message, second.message);
  }

  /// Runs a step on the CPU and on the GPU. Returns false if both processors reject the step, or if
  /// the CPU rejects it for an error that the GPU cannot detect.
  bool step(const StepInput& input, const Layout& layout, Offsets where) {
    kept_.push_back(std::make_unique<StepRowsOnBoth>(input, options_.vocab, layout, stream));
    return step(*kept_.back(), input, where);
  }

  bool step(const StepRowsOnBoth& rows, const StepInput& input, Offsets where);

  void start_copy();
  std::size_t copies_on_their_way() const { return on_their_way_.size(); }
  /// Waits for the oldest copy in flight, and expects the CPU's values in it.
  void wait();
  /// Copies all tokens that are still on the GPU to the host.
  void drain(bool by_copies);

  /// Compares the results of the last step, which are in the GPU's memory, with the CPU's.
  void expect_equal_results() const;

  void expect_equal_states() const;

  PinnedWords& pinned(const std::vector<std::uint32_t>& words);

  const BatchStateOptions& options() const { return options_; }

  Stream stream;
  std::unique_ptr<BatchState> expected, state;  // the CPU's batch state, and the host side of the
                                                // GPU's batch state
  std::unique_ptr<FusedSamplingProcessor> cpu;
  std::unique_ptr<cuda::FusedSamplingProcessor> gpu;

 private:
  struct Expected {
    std::vector<std::int32_t> tokens, counts;
    std::vector<RowStatus> statuses;
  };

  bool same(const Error& first, const Error& second);

  template <class T>
  View<const T> on_device(View<const T> values);

  BatchStateOptions options_;
  bool has_stepped_ = false;
  std::deque<Expected> on_their_way_;
  std::vector<std::unique_ptr<StepRowsOnBoth>> kept_;  // rows that copies in flight read
  std::vector<std::unique_ptr<DeviceBlock>> offsets_;
  std::vector<std::unique_ptr<PinnedWords>> pinned_;
};

/// Returns `count` steps, each with a row for every slot.
std::vector<StepInput> steps_of(const BatchStateOptions& options, int count, std::uint64_t seed);

/// Returns the rows of these steps, already copied to the device.
std::vector<std::unique_ptr<StepRowsOnBoth>> on_both(const std::vector<StepInput>& steps,
                                                     const Twins& twins);

}  // namespace fairdraw::suites
