// Checked plan of a step: the number of calls of `sample`, and the rows of logits that belong to
// each request.
#pragma once

#include <cstdint>
#include <vector>

#include "fairdraw/batch_state.h"
#include "fairdraw/fused_sampling_processor.h"

namespace fairdraw::cuda {

/// Source of the assignment of rows of logits to requests.
enum class RowsBy { slots, host_offsets, device_offsets };

struct StepPlan {
  // Properties of the processor and its stream, which are set before a step is planned.
  bool has_room_for_rows = false;  ///< whether there is memory for copies of the rows that
                                   ///< logit_offsets select
  bool is_captured = false;

  RowsView logits;
  std::int64_t slots = 0;
  StepRows rows = StepRows::last;
  RowsBy rows_by = RowsBy::slots;
  std::vector<std::int64_t> host_offsets;  ///< offsets [capacity + 1], of which the step uses the
                                           ///< first slots + 1
  const void* device_offsets = nullptr;
  bool narrow_offsets = false;  ///< whether offsets on the device are uint32; otherwise they are
                                ///< int64
  std::int64_t calls = 1;       ///< number of calls of `sample` in the step
};

/// Checks the arguments of FusedSamplingProcessor::step, and completes the plan.
template <class Offset>
Error plan_step(const BatchState& state, const RowsView& logits, View<const Offset> offsets,
                StepRows rows, std::int32_t most_rows, StepPlan& plan);

/// Checks a number of slots, which must include all slots that have a request.
Error check_slots(const BatchState& state, const char* field, std::int64_t slots);

enum class MemoryKind { device, page_locked, other };

Error find_memory(const char* field, const void* pointer, MemoryKind& memory);

}  // namespace fairdraw::cuda
