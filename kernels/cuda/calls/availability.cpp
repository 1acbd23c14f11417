// Functions is_available, why_not_available and check_path, which tell whether a path can run
// (fairdraw/cuda.h).
//
// A path needs support from the device (its compute capability) and from this build (machine code
// or PTX that was compiled for this capability). A build for compute capability 8.0 alone also runs
// on a device of 9.0, but its code has no clusters. Only one kernel is queried for the version of
// the code, because all kernels are compiled alike.
#include <array>
#include <atomic>
#include <cstdint>

#include "common/arguments.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/outputs/write_rows.h"

namespace fairdraw::cuda {
namespace {

constexpr int kSmallestCapability = 80;         // 10 * major + minor
constexpr int kSmallestClusterCapability = 90;  // compute capability that clusters of thread blocks
                                                // need

/// Compute capabilities of a device and of the code that runs on it.
struct DeviceCode {
  cudaError_t error = cudaSuccess;
  int capability = 0;  ///< compute capability of the device, as 10 * major + minor
  int compiled = 0;    ///< compute capability for which the running code was compiled; never above
                       ///< `capability`
};

DeviceCode ask(int device) {
  DeviceCode found;
  int major = 0;
  int minor = 0;
  found.error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (found.error == cudaSuccess) {
    found.error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  found.capability = 10 * major + minor;
  if (found.error != cudaSuccess || found.capability < kSmallestCapability) return found;
  const RelaxedCapture relaxed;
  found.error = compiled_capability(found.compiled);
  return found;
}

/// Returns the compute capabilities of the current device, which are queried once per device and
/// process.
DeviceCode current_device() {
  constexpr int kKnown = 64;
  static std::array<std::atomic<std::uint32_t>, kKnown> known{};  // 0: not asked yet
  DeviceCode found;
  int device = 0;
  found.error = cudaGetDevice(&device);
  if (found.error == cudaSuccess) {
    std::atomic<std::uint32_t>* slot =
        device < kKnown ? &known[static_cast<std::size_t>(device)] : nullptr;
    const std::uint32_t packed = slot != nullptr ? slot->load(std::memory_order_relaxed) : 0;
    if (packed != 0) {
      found.capability = static_cast<int>(packed >> 16);
      found.compiled = static_cast<int>(packed & 0xffffU);
      return found;
    }
    found = ask(device);
    if (found.error == cudaSuccess && slot != nullptr) {
      slot->store((static_cast<std::uint32_t>(found.capability) << 16) |
                      static_cast<std::uint32_t>(found.compiled),
                  std::memory_order_relaxed);
    }
  }
  // Clears the CUDA error that this call has caused.
  if (found.error != cudaSuccess) static_cast<void>(cudaGetLastError());
  return found;
}

int needed_capability(Path path) {
  return path == Path::cluster ? kSmallestClusterCapability : kSmallestCapability;
}

bool can_run(const DeviceCode& device, Path path) {
  const int needed = needed_capability(path);
  return static_cast<std::uint32_t>(path) <= 2 && device.error == cudaSuccess &&
         device.capability >= needed && device.compiled >= needed;
}

std::string version(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

/// Returns the reason for which can_run() is false.
std::string reason(const DeviceCode& device, Path path) {
  if (static_cast<std::uint32_t>(path) > 2) {
    return out_of_range("path", std::to_string(static_cast<std::uint32_t>(path)),
                        "0 (best), 1 (cluster) or 2 (block)")
        .message;
  }
  if (device.error != cudaSuccess) {
    return cuda_error("no CUDA device that can be used", device.error).message;
  }
  const std::string needed = std::string(to_string(path)) + " needs compute capability " +
                             version(needed_capability(path));
  if (device.capability < needed_capability(path)) {
    return "path " + needed + ", the current device has " + version(device.capability);
  }
  return "path " + needed + ", this build's kernels for the current device are compiled for " +
         version(device.compiled);
}

}  // namespace

bool is_available(Path path) noexcept { return can_run(current_device(), path); }

std::string why_not_available(Path path) {
  const DeviceCode device = current_device();
  return can_run(device, path) ? std::string() : reason(device, path);
}

Error check_path(Path& path) {
  const DeviceCode device = current_device();
  if (!can_run(device, path)) {
    const bool known = static_cast<std::uint32_t>(path) <= 2;
    return {known ? ErrorCode::unsupported : ErrorCode::invalid_argument, reason(device, path)};
  }
  if (path == Path::best && !can_run(device, Path::cluster)) path = Path::block;
  return {};
}

}  // namespace fairdraw::cuda
