// Checks the device, the pointers and the workspace before a call launches kernels, and checks the
// result of a launch.
//
// All checks are allowed while a stream is captured, because they only read attributes and enqueue
// nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Mode in which this thread may load code while this thread or another one captures a stream. A
/// RelaxedCapture object is used for queries that are made once per device.
class RelaxedCapture {
 public:
  RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Checker of pointers, which keeps the first error. Pointers that are not given, and arrays
/// without elements, are not checked. Memory of the current device and managed memory pass the
/// check; of an array, only the first byte is checked.
class DevicePointers {
 public:
  /// Checks a pointer. `alignment` is a number of bytes: the size of an element if the kernels
  /// require this alignment, and otherwise 1.
  void check(const std::string& field, const void* pointer, std::size_t alignment);
  /// Checks an array of `size` elements that the caller has to give.
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
  /// Checks that the workspace has `needed` bytes of aligned device memory; the error message says
  /// that they are for `rows` rows.
  void check_workspace(const Execution& execution, std::int64_t needed, std::int64_t rows);

  const Error& error() const { return error_; }

 private:
  Error error_;
  int device_ = -1;  // number of the current device, or -1 until the first pointer is checked
};

/// Returns the error for a CUDA call that has failed. `action` has failed.
Error cuda_error(const std::string& action, cudaError_t error);

/// Returns the result of a call of the CUDA runtime as an Error, and clears the last error of CUDA.
Error check_call(const std::string& action, cudaError_t status);

/// Returns the result of a kernel launch as an Error; `kernel` is the name of the kernel. A launch
/// that fails becomes the last error of CUDA, which this function clears because it reports the
/// failure itself.
Error check_launch(const std::string& kernel, cudaError_t launched);

}  // namespace fairdraw::cuda
