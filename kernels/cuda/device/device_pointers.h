// Checks before a call launches kernels (whether the device can run it, its pointers, its
// workspace), and of the launch's outcome.
//
// All checks are legal while a stream is captured, because they read attributes and enqueue
// nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Mode that lets this thread load code while this or another thread captures a stream. Used for
/// queries that are made once per device.
class RelaxedCapture {
 public:
  RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Checker of pointers that keeps the first error. Pointers that are not given, and arrays without
/// elements, are not checked. Device memory of the current device and managed memory pass; only the
/// first byte of an array is checked.
class DevicePointers {
 public:
  /// Checks a pointer. `alignment` in bytes: the size of an element if the kernels require it,
  /// otherwise 1.
  void check(const std::string& field, const void* pointer, std::size_t alignment);
  /// Checks an array of `size` elements that the caller must give.
  void check_needed(const std::string& field, const void* pointer, std::int64_t size,
                    std::size_t alignment);

  void check(const std::string& field, const RowsView& rows) {
    if (rows.rows > 0) check(field + ".data", rows.data, 1);
  }
  template <class T>
  void check(const std::string& field, const View<T>& view) {
    if (view.size > 0) check(field, view.data, alignof(T));
  }
  template <class T>
  void check(const std::string& field, const PerRequest<T>& parameter) {
    check(field, parameter.values);
  }
  template <class Word>
  void check(const std::string& field, const BitRows<Word>& bits) {
    if (bits.rows > 0) check(field, bits.data, alignof(Word));
  }
  void check(const std::string& field, const FloatRows& floats) {
    if (floats.rows > 0) check(field, floats.data, alignof(float));
  }
  void check(const std::string& field, const TokenLists& lists);
  void check(const LogitsProcessing& processing);
  /// Checks the workspace: `needed` bytes of aligned device memory, in the error message for `rows`
  /// rows.
  void check_workspace(const Execution& execution, std::int64_t needed, std::int64_t rows);

  const Error& error() const { return error_; }

 private:
  Error error_;
  int device_ = -1;  // number of the current device; -1 until the first pointer is checked
};

/// Returns the error for a failed CUDA call. `action` has failed.
Error cuda_error(const std::string& action, cudaError_t error);

/// Returns the outcome of a CUDA runtime call as an Error, and clears CUDA's last error.
Error check_call(const std::string& action, cudaError_t status);

/// Returns the outcome of a kernel launch; `kernel` is the kernel's name. A failed launch leaves
/// its error as CUDA's last error, which is cleared because this function reports it.
Error check_launch(const std::string& kernel, cudaError_t launched);

}  // namespace fairdraw::cuda
