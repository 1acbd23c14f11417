#include "cuda/device/device_pointers.h"

#include <array>
#include <cstdio>

#include "common/arguments.h"
#include "common/bump_allocator.h"

namespace fairdraw::cuda {
namespace {

std::string hexadecimal(const void* pointer) {
  std::array<char, 2 + 2 * sizeof(void*) + 1> text{};
  std::snprintf(text.data(), text.size(), "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer)));
  return text.data();
}

bool is_aligned(const void* pointer, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

/// Returns the reason for which memory with these attributes cannot be used on `device`, or an
/// empty string if the memory can be used.
std::string why_not(const cudaPointerAttributes& memory, int device) {
  switch (memory.type) {
    case cudaMemoryTypeDevice:
      if (memory.device == device) return {};
      return "memory of device " + std::to_string(memory.device);
    case cudaMemoryTypeManaged:
      return {};
    case cudaMemoryTypeHost:
      return "page-locked host memory";
    case cudaMemoryTypeUnregistered:
      return "host memory, or no memory at all";
    default:
      return "memory of kind " + std::to_string(static_cast<int>(memory.type));
  }
}

}  // namespace

Error cuda_error(const std::string& action, cudaError_t error) {
  return {ErrorCode::unsupported,
          action + ": " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error)};
}

Error check_call(const std::string& action, cudaError_t status) {
  if (status == cudaSuccess) return {};
  static_cast<void>(cudaGetLastError());
  return cuda_error(action, status);
}

Error check_launch(const std::string& kernel, cudaError_t launched) {
  return launched == cudaSuccess ? Error{} : check_call("launch of " + kernel, launched);
}

void DevicePointers::check(const std::string& field, const void* pointer, std::size_t alignment) {
  if (error_ || pointer == nullptr) return;
  if (device_ < 0) {
    const cudaError_t answer = cudaGetDevice(&device_);
    if (answer != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      error_ = cuda_error("current device", answer);
      return;
    }
  }
  cudaPointerAttributes memory{};
  const cudaError_t answer = cudaPointerGetAttributes(&memory, pointer);
  if (answer == cudaErrorInvalidValue) {  // the error means that the CUDA driver does not know the
                                          // pointer
    static_cast<void>(cudaGetLastError());
    memory.type = cudaMemoryTypeUnregistered;
  } else if (answer != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    error_ = cuda_error("memory of " + field, answer);
    return;
  }
  const std::string wrong = why_not(memory, device_);
  if (!wrong.empty()) {
    error_ = out_of_range(field, hexadecimal(pointer) + " (" + wrong + ")",
                          "memory of device " + std::to_string(device_) + ", the current one");
  } else if (!is_aligned(pointer, alignment)) {
    error_ = out_of_range(field, hexadecimal(pointer),
                          "addresses aligned to " + std::to_string(alignment) + " bytes");
  }
}

void DevicePointers::check_needed(const std::string& field, const void* pointer, std::int64_t size,
                                  std::size_t alignment) {
  if (error_ || size == 0) return;
  if (pointer == nullptr) {
    error_ = out_of_range(field, "null", "an array in device memory");
    return;
  }
  check(field, pointer, alignment);
}

void DevicePointers::check(const std::string& field, const TokenLists& lists) {
  if (lists.size > 0) check(field + ".data", lists.data, alignof(std::int32_t));
  check(field + ".begins", lists.begins);
  check(field + ".lengths", lists.lengths);
}

void DevicePointers::check(const LogitsProcessing& processing) {
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) check(#name, processing.name);
#include "fairdraw/processing_parameters.inc"
  check("prompt", processing.prompt);
  check("output", processing.output);
  check("prompt_mask", processing.prompt_mask);
  if (processing.output_counts.rows > 0) {
    check("output_counts", processing.output_counts.data, alignof(std::int32_t));
  }
  check("bias_ids", processing.bias_ids);
  check("bias_values", processing.bias_values);
  check("stop_ids", processing.stop_ids);
  check("output_lengths", processing.output_lengths);
  check("bad_words", processing.bad_words);
  check("bad_word_lengths", processing.bad_word_lengths);
  check("allowed_ids", processing.allowed_ids);
  check("forced_tokens", processing.forced_tokens);
  check("dry_breakers", processing.dry_breakers);
}

void DevicePointers::check_workspace(const Execution& execution, std::int64_t needed,
                                     std::int64_t rows) {
  if (error_ || needed == 0) return;
  if (execution.workspace == nullptr) {
    error_ = out_of_range("workspace", "null",
                          std::to_string(needed) + " bytes of device memory (room for " +
                              std::to_string(rows) + " rows)");
    return;
  }
  if (execution.workspace_bytes < needed) {
    error_ = out_of_range(
        "workspace_bytes", std::to_string(execution.workspace_bytes),
        ">= " + std::to_string(needed) + " (room for " + std::to_string(rows) + " rows)");
    return;
  }
  check("workspace", execution.workspace,
        static_cast<std::size_t>(BumpAllocator::kDeviceAlignment));
}

}  // namespace fairdraw::cuda
