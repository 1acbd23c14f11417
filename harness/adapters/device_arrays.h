// The arrays of one call on the device: copied there and back, results included, so that what the
// sampler leaves untouched comes back as it was. Everything else in the block is NaN, so that a
// read outside a row shows.
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

/// What a call needs on the device. Kept from call to call, and from sampler to sampler.
struct DeviceState {
  cuda::Stream stream;
  cuda::DeviceBuffer arrays, workspace;
};

/// Calls with a state that no other call is using, and waits until all that was enqueued is over.
/// Returns the message of the first error.
std::string on_device(const std::function<Error(DeviceState&)>& call);

/// Each array at a place of its own in one block of device memory.
class DeviceArrays {
 public:
  /// Plans a place for `bytes` bytes at `host`; null stays null. Returns its number.
  std::size_t add(const void* host, std::int64_t bytes);
  /// As add, for a result: download() brings it back.
  std::size_t add_result(void* host, std::int64_t bytes);

  Error upload(DeviceState& state);
  Error download(DeviceState& state) const;

  /// Where array `number` lies on the device, after upload().
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

/// A call of the contract with its arrays on the device. `Arrays` is another type in tests alone.
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

  /// After upload(): every pointer is one of the device.
  Call& call() { return call_; }

 private:
  Call call_;
  Arrays arrays_;
};

/// After upload(): where the result of an operation is the memory of its rows, it is that on the
/// device too, and came there with the rows. Nothing for other calls.
template <class Call>
void keep_in_place(const Call& given, Call& moved) {
  if constexpr (requires { moved.values = moved.result; }) {
    if (given.values == given.result) moved.values = moved.result;
  }
}

/// After upload(): the library takes a scalar seed as a value, which is read on the host.
template <class Call>
void keep_host_seed(const Call& given, Call& moved) {
  if (given.seed_is_scalar == 0) return;
  moved.seed = given.seed;
  moved.offset = given.offset;
}

/// Gives a call the state's stream, and a workspace of `bytes`.
Error prepare(DeviceState& state, std::int64_t bytes, cuda::Execution& execution);

}  // namespace fairdraw::harness
