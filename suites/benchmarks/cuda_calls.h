// Calls of `fairdraw bench` on a GPU: their arrays in device memory, and the calls with which they
// are compared.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "fairdraw/cuda.h"
#include "fairdraw/watermark.h"
#include "suites/benchmarks/benchmarks.h"
#include "suites/benchmarks/device_values.h"

namespace fairdraw::suites {

/// Offset in the random bits at which the first call of a request begins.
inline constexpr std::uint64_t kFirstOffset = 1000;

template <class T>
PerRequest<T> per_request(View<T> view) {
  return {view.data, view.size};
}

class CudaCall {
 public:
  explicit CudaCall(const cuda::Stream& stream) : stream_(stream), arrays_(stream) {}
  virtual ~CudaCall() = default;
  CudaCall(const CudaCall&) = delete;
  CudaCall& operator=(const CudaCall&) = delete;

  virtual void enqueue(cuda::Path path) const = 0;
  /// Returns the name of the call to compare with, or an empty string if that is one read of the
  /// inputs.
  virtual std::string base() const { return {}; }
  virtual void enqueue_base(cuda::Path) const {}
  /// Enqueues the work that must run before each replay.
  virtual void advance() const {}
  /// Returns a text about an error in the results of the last replay, or an empty string.
  virtual std::string trouble() const {
    const std::vector<RowStatus> statuses = arrays_.download(statuses_);
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      if (statuses[i] != RowStatus::ok) {
        return fmt::format("output {} has status {}", i, to_string(statuses[i]));
      }
    }
    return {};
  }
  const Inputs& inputs() const { return inputs_; }

 protected:
  View<std::uint64_t> counted_from(std::uint64_t first, std::int64_t n) {
    std::vector<std::uint64_t> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), first);
    return arrays_.view(values);
  }
  View<RowStatus> make_statuses(std::int64_t n) {
    return statuses_ = arrays_.view(repeated(n, RowStatus::inactive));
  }
  void reserve_workspace(std::int64_t bytes) {
    expect_success(workspace_.reserve(bytes), "the workspace");
  }
  cuda::Execution execution(cuda::Path path) const {
    return {stream_.get(), workspace_.data(), workspace_.size(), path};
  }

  const cuda::Stream& stream_;
  DeviceValues arrays_;
  Inputs inputs_;
  View<RowStatus> statuses_;

 private:
  cuda::DeviceBuffer workspace_;
};

using MakeCall =
    std::function<std::unique_ptr<CudaCall>(const DeviceRows& rows, std::int64_t batch,
                                            const std::string& processing, const cuda::Stream&)>;

/// The form of a call of `sample` apart from its filters.
struct SampleForm {
  bool by_arrays = true;  ///< true if parameters, seeds and offsets are given per row, and false if
                          ///< per call
  bool from_probs = false;
  bool kept_sets = false;
  /// given if each row is marked by a key of its own
  std::optional<WatermarkScheme> marks = {};
  Report report = {};
};
MakeCall sample_call(const Operation& operation, const SampleForm& form);

/// Returns a function that makes calls with N drafted tokens or beams per request (README.md has
/// the names). Returns nothing for all other names.
std::optional<MakeCall> serving_call(const std::string& name);

/// Returns a text with backend, operation and rows of a benchmark record, for messages.
std::string cell_name(const harness::BenchmarkRecord& cell);

}  // namespace fairdraw::suites
