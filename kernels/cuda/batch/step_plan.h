// What a step is asked to do, checked: which rows of logits belong to whom, and how many calls that
// takes.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/batch_state.h"
#include "fairdraw/fused_sampling_processor.h"

namespace fairdraw::cuda {

/// Whose a row of logits is.
enum class RowsBy { slots, host_offsets, device_offsets };

struct StepPlan {
  // Of the processor and its stream; set before a step is planned.
  bool has_room_for_rows = false;  ///< that offsets choose
  bool is_captured = false;

  RowsView logits;
  std::int64_t slots = 0;
  StepRows rows = StepRows::last;
  RowsBy rows_by = RowsBy::slots;
  std::vector<std::int64_t> host_offsets;  ///< [capacity + 1]; the first slots + 1 are the step's
  const void* device_offsets = nullptr;
  bool narrow_offsets = false;  ///< those on the device: uint32, else int64
  std::int64_t calls = 1;       ///< of `sample`
};

/// Checks the arguments of FusedSamplingProcessor::step and completes the plan.
template <class Offset>
Error plan_step(const BatchState& state, const RowsView& logits, View<const Offset> offsets,
                StepRows rows, std::int32_t most_rows, StepPlan& plan);

/// A number of slots that are in a call: all that are in use.
Error check_slots(const BatchState& state, const char* field, std::int64_t slots);

enum class MemoryKind { device, page_locked, other };

Error find_memory(const char* field, const void* pointer, MemoryKind& memory);

}  // namespace fairdraw::cuda
