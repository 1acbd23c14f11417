// What a call asks before it launches, whether the device can run it and what it was given there
// (kinds of pointers, workspace), and what the launch answers.
//
// All of it is legal while a stream is captured: attributes are read, nothing is enqueued.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fairdraw/cuda.h"

namespace fairdraw::cuda {

/// Lets this thread load code while it, or another thread, captures a stream: for what is asked of
/// a device once.
class RelaxedCapture {
 public:
  RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Checks pointers one by one and keeps the first error. What is not given, or has no elements, is
/// not checked. Device memory of the current device and managed memory pass; of arrays only the
/// first byte is checked.
class DevicePointers {
 public:
  /// `alignment` in bytes: that of an element, where the kernels ask for it.
  void check(const std::string& field, const void* pointer, std::size_t alignment);
  /// The same for an array that must be there, of `size` elements.
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
  /// `needed` bytes, room for `rows` rows, in device memory, aligned.
  void check_workspace(const Execution& execution, std::int64_t needed, std::int64_t rows);

  const Error& error() const { return error_; }

 private:
  Error error_;
  int device_ = -1;  // the current one; asked for at the first pointer
};

/// An error of CUDA, `action` being what failed.
Error cuda_error(const std::string& action, cudaError_t error);

/// The outcome of a call of the CUDA runtime. Its error is not CUDA's last one any more.
Error check_call(const std::string& action, cudaError_t status);

/// The outcome of a launch; `kernel` is its name. A launch that failed leaves its error behind as
/// CUDA's last one: that is taken away again, because this call reports it.
Error check_launch(const std::string& kernel, cudaError_t launched);

}  // namespace fairdraw::cuda
