// Checked plan of a step: the requests to which the rows of logits belong, and the number of calls.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/batch_state.h"
#include "fairdraw/fused_sampling_processor.h"

namespace fairdraw::cuda {

/// Assignment of rows of logits to requests.
enum class RowsBy { slots, host_offsets, device_offsets };

struct StepPlan {
  // From the processor and its stream; set before a step is planned.
  bool has_room_for_rows = false;  ///< there is memory for the rows that offsets choose
  bool is_captured = false;

  RowsView logits;
  std::int64_t slots = 0;
  StepRows rows = StepRows::last;
  RowsBy rows_by = RowsBy::slots;
  std::vector<std::int64_t> host_offsets;  ///< [capacity + 1]; the first slots + 1 are the step's
  const void* device_offsets = nullptr;
  bool narrow_offsets = false;  ///< offsets on the device are uint32, otherwise int64
  std::int64_t calls = 1;       ///< number of calls of `sample`
};

/// Checks the arguments of FusedSamplingProcessor::step and completes the plan.
template <class Offset>
Error plan_step(const BatchState& state, const RowsView& logits, View<const Offset> offsets,
                StepRows rows, std::int32_t most_rows, StepPlan& plan);

/// Checks a number of slots, which must include all that are in use.
Error check_slots(const BatchState& state, const char* field, std::int64_t slots);

enum class MemoryKind { device, page_locked, other };

Error find_memory(const char* field, const void* pointer, MemoryKind& memory);

}  // namespace fairdraw::cuda
