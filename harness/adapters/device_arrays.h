// Copies the arrays of one call to the device and back. Results are also copied to the device
// first, so that parts that no kernel writes come back unchanged. The rest of the memory block is
// NaN, so that a read outside a row changes the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_memory.h"
#include "harness/contract/call_arrays.h"

namespace fairdraw::harness {

/// The device resources of a call, which later calls of any sampler reuse.
struct DeviceState {
  cuda::Stream stream;
  cuda::DeviceBuffer arrays, workspace;
};

/// Runs `call` with a device state that no other call is using, and waits until all enqueued work
/// has finished. Returns the message of the first error, or an empty string.
std::string on_device(const std::function<Error(DeviceState&)>& call);

/// The arrays of a call, each at its own place in one block of device memory.
class DeviceArrays {
 public:
  /// Plans a place on the device for `bytes` bytes of the array `host`, and returns the number of
  /// the place. The place of a null array is null.
  std::size_t add(const void* host, std::int64_t bytes);
  /// Does the same as add() for a result, which download() copies back.
  std::size_t add_result(void* host, std::int64_t bytes);

  Error upload(DeviceState& state);
  Error download(DeviceState& state) const;

  /// Returns the device address of array `number`. Precondition: after upload().
  template <class T>
  T* at(std::size_t number) const {
    const Array& array = arrays_[number];
    return array.host == nullptr ? nullptr : reinterpret_cast<T*>(base_ + array.offset);
  }

 private:
  struct Array {
    const void* host = nullptr;
    void* result = nullptr;
    std::int64_t offset = 0, bytes = 0;
  };
  std::vector<Array> arrays_;
  std::int64_t end_ = 0;
  char* base_ = nullptr;
};

/// A call of the contract whose arrays are on the device. The parameter `Arrays` is another type
/// only in tests.
template <class Call, class Arrays = DeviceArrays>
class DeviceCall {
 public:
  explicit DeviceCall(const Call& call, Arrays&& arrays = {})
      : call_(call), arrays_(std::forward<Arrays>(arrays)) {
    each_array(call_, [this](const auto& pointer, const CallArray& array) {
      if constexpr (is_result<decltype(pointer)>) {
        arrays_.add_result(pointer, array.bytes());
      } else {
        arrays_.add(pointer, array.bytes());
      }
    });
  }

  Error upload(DeviceState& state) {
    if (Error error = arrays_.upload(state)) return error;
    std::size_t next = 0;
    each_array(call_, [&](auto& pointer, const CallArray& /*array*/) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
      pointer = arrays_.template at<Value>(next++);
    });
    return {};
  }
  Error download(DeviceState& state) const { return arrays_.download(state); }

  /// Returns the call, whose pointers are all device addresses after upload().
  Call& call() { return call_; }

 private:
  Call call_;
  Arrays arrays_;
};

/// Makes the result the memory of the rows on the device too, if the given operation works in
/// place; upload() copied the result there with the rows. Does nothing for calls that do not work
/// in place. Precondition: after upload().
template <class Call>
void keep_in_place(const Call& given, Call& moved) {
  if constexpr (requires { moved.values = moved.result; }) {
    if (given.values == given.result) moved.values = moved.result;
  }
}

/// Keeps a scalar seed on the host, because the library reads a scalar seed on the host and passes
/// it by value. Precondition: after upload().
template <class Call>
void keep_host_seed(const Call& given, Call& moved) {
  if (given.seed_is_scalar == 0) return;
  moved.seed = given.seed;
  moved.offset = given.offset;
}

/// Gives a call the stream of the device state, and a workspace of `bytes` bytes.
Error prepare(DeviceState& state, std::int64_t bytes, cuda::Execution& execution);

}  // namespace fairdraw::harness
