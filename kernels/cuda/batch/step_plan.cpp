#include "cuda/batch/step_plan.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "common/arguments.h"
#include "cuda/device/device_pointers.h"

namespace fairdraw::cuda {
namespace {

/// Reads offsets in host memory, in the same way as the processor of the CPU. `most` is set to the
/// maximum number of rows per request.
template <class Offset>
Error read_offsets(View<const Offset> offsets, std::int64_t rows, std::vector<std::int64_t>& begins,
                   std::int64_t& most) {
  std::uint64_t before = 0;
  most = 0;
  for (std::int64_t i = 0; i < offsets.size; ++i) {
    const auto limit = static_cast<std::uint64_t>(i == 0 ? 0 : rows);
    const auto offset = static_cast<std::uint64_t>(offsets.data[i]);  // a negative offset becomes a
                                                                      // number beyond all rows, and
                                                                      // so an error
    if (offset < before || offset > limit) {
      return out_of_range("logit_offsets[" + std::to_string(i) + "]",
                          std::to_string(offsets.data[i]),
                          std::to_string(before) + " to " + std::to_string(limit));
    }
    most = std::max(most, static_cast<std::int64_t>(offset - before));
    before = offset;
    begins[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(offset);
  }
  return {};
}

}  // namespace

Error check_slots(const BatchState& state, const char* field, std::int64_t slots) {
  if (slots >= state.slots() && slots <= state.options().capacity) return {};
  return out_of_range(field, std::to_string(slots),
                      std::to_string(state.slots()) + " (slots in use) to " +
                          std::to_string(state.options().capacity) + " (capacity)");
}

Error find_memory(const char* field, const void* pointer, MemoryKind& memory) {
  cudaPointerAttributes attributes{};
  const cudaError_t answer = cudaPointerGetAttributes(&attributes, pointer);
  if (answer != cudaSuccess && answer != cudaErrorInvalidValue) {
    return check_call(std::string("memory of ") + field, answer);
  }
  memory = MemoryKind::other;
  if (answer == cudaErrorInvalidValue) {  // the error means that the CUDA driver does not know the
                                          // pointer
    static_cast<void>(cudaGetLastError());
  } else if (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged) {
    int device = 0;
    if (Error error = check_call("the current device", cudaGetDevice(&device))) return error;
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != device) {
      return out_of_range(field, "memory of GPU " + std::to_string(attributes.device),
                          "memory of the host, or of the current GPU, " + std::to_string(device));
    }
    memory = MemoryKind::device;
  } else if (attributes.type == cudaMemoryTypeHost) {
    memory = MemoryKind::page_locked;
  }
  return {};
}

template <class Offset>
Error plan_step(const BatchState& state, const RowsView& logits, View<const Offset> offsets,
                StepRows rows, std::int32_t most_rows, StepPlan& plan) {
  if (Error error = check_rows(logits, "logits")) return error;
  if (Error error = check_length("a row of logits", logits.vocab, state.options().vocab,
                                 "vocab of the batch state")) {
    return error;
  }
  if (static_cast<std::uint32_t>(rows) > 1) {
    return out_of_range("rows", std::to_string(static_cast<std::uint32_t>(rows)),
                        "0 (last) or 1 (all)");
  }
  DevicePointers pointers;
  pointers.check("logits", logits);
  if (pointers.error()) return pointers.error();
  plan.logits = logits;
  plan.rows = rows;
  plan.calls = 1;
  if (!offsets.given()) {
    plan.rows_by = RowsBy::slots;
    plan.slots = logits.rows;
    return check_slots(state, "logits.rows", logits.rows);
  }
  if (!plan.has_room_for_rows) {
    return out_of_range("logit_offsets of the options", "false", "true, for steps with offsets");
  }
  if (Error error = check_size("length of logit_offsets", offsets.size, sizeof(Offset))) {
    return error;
  }
  plan.slots = offsets.size - 1;
  if (Error error = check_slots(state, "length of logit_offsets - 1", plan.slots)) return error;
  MemoryKind memory = MemoryKind::other;
  if (Error error = find_memory("logit_offsets", offsets.data, memory)) return error;
  const bool all = rows == StepRows::all;
  if (memory == MemoryKind::device) {
    if (all && most_rows < 1) return out_of_range("most_rows", std::to_string(most_rows), ">= 1");
    plan.rows_by = RowsBy::device_offsets;
    plan.device_offsets = offsets.data;
    plan.narrow_offsets = sizeof(Offset) == 4;
    if (all) plan.calls = most_rows;
    return {};
  }
  if (plan.is_captured) {
    return out_of_range("logit_offsets", "host memory",
                        "device memory while the stream is captured");
  }
  plan.rows_by = RowsBy::host_offsets;
  plan.narrow_offsets = false;
  std::int64_t most = 0;
  if (Error error = read_offsets(offsets, logits.rows, plan.host_offsets, most)) return error;
  if (all) plan.calls = std::max<std::int64_t>(most, 1);
  return {};
}

template Error plan_step(const BatchState&, const RowsView&, View<const std::int64_t>, StepRows,
                         std::int32_t, StepPlan&);
template Error plan_step(const BatchState&, const RowsView&, View<const std::uint32_t>, StepRows,
                         std::int32_t, StepPlan&);

}  // namespace fairdraw::cuda
