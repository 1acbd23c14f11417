#include "harness/adapters/device_arrays.h"

#include <algorithm>
#include <memory>
#include <mutex>

namespace fairdraw::harness {
namespace {

// Device addresses have the same remainder modulo this number as host addresses, so that a
// misaligned row stays misaligned.
constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kSlotAlignment = 256;

/// A pool of the device states that no call is using. Each thread of the runner uses one device
/// state while it makes a call.
class DeviceStates {
 public:
  std::unique_ptr<DeviceState> take(Error& error) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<DeviceState> state = std::move(idle_.back());
        idle_.pop_back();
        return state;
      }
    }
    auto state = std::make_unique<DeviceState>();
    error = state->stream.create();
    return state;
  }
  void give_back(std::unique_ptr<DeviceState> state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(state));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceState>> idle_;
};

DeviceStates& device_states() {
  static DeviceStates states;
  return states;
}

}  // namespace

std::string on_device(const std::function<Error(DeviceState&)>& call) {
  Error error;
  std::unique_ptr<DeviceState> state = device_states().take(error);
  if (!error) error = call(*state);
  // Enqueued work reads host memory of the caller, so this function must not return before the work
  // ends.
  const Error unfinished = state->stream.get() == nullptr ? Error{} : state->stream.synchronise();
  if (!error) error = unfinished;
  if (!error) device_states().give_back(std::move(state));
  return error.message;
}

std::size_t DeviceArrays::add(const void* host, std::int64_t bytes) {
  Array array;
  array.host = host;
  array.bytes = std::max<std::int64_t>(bytes, 0);
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  array.offset = end_ + static_cast<std::int64_t>(address % kAlignment);
  if (host != nullptr) {
    const std::int64_t last = array.offset + std::max<std::int64_t>(array.bytes, 1);
    end_ = (last + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
  }
  arrays_.push_back(array);
  return arrays_.size() - 1;
}

std::size_t DeviceArrays::add_result(void* host, std::int64_t bytes) {
  const std::size_t number = add(host, bytes);
  arrays_[number].result = host;
  return number;
}

Error DeviceArrays::upload(DeviceState& state) {
  if (Error error = state.arrays.reserve(end_)) return error;
  if (Error error = state.arrays.fill(0, 0xFF, end_, state.stream)) return error;
  for (const Array& array : arrays_) {
    if (array.host == nullptr) continue;
    Error error = state.arrays.upload(array.offset, array.host, array.bytes, state.stream);
    if (error) return error;
  }
  base_ = static_cast<char*>(state.arrays.data());
  return {};
}

Error DeviceArrays::download(DeviceState& state) const {
  for (const Array& array : arrays_) {
    if (array.result == nullptr) continue;
    Error error = state.arrays.download(array.result, array.offset, array.bytes, state.stream);
    if (error) return error;
  }
  return {};
}

Error prepare(DeviceState& state, std::int64_t bytes, cuda::Execution& execution) {
  execution.stream = state.stream.get();
  execution.workspace_bytes = bytes;
  constexpr std::int64_t kFewestBytes = 256;  // gives even an empty batch an address that is not
                                              // null
  if (Error error = state.workspace.reserve(std::max(bytes, kFewestBytes))) return error;
  execution.workspace = state.workspace.data();
  return {};
}

}  // namespace fairdraw::harness
