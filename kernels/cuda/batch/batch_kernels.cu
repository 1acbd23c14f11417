// Kernels that update the device's copy of a batch, after each call of `sample` and when requests
// enter, move or leave (fairdraw/cuda_fused_sampling_processor.h).
//
// Contract. The kernel advance_batch does after a call what BatchState::append_step does on the
// host: it appends the drawn token to the request's output, and increments the length, the offset
// and the count. It also writes the results of the step, and a record of the call for the host. A
// request without a token in the call does not change. The kernel choose_rows finds the rows of
// logits that a call samples, and copies them side by side, slot by slot. The kernel merge_table
// takes the values of the slots from the host, except for values that only the device knows: the
// offsets and lengths of requests that were in the batch before, even if they move. Then
// take_moved_rows and fill_rows_of_slots update the rows of the bitmask, of the counts and of the
// prompt masks.
//
// Algorithm and cost. The kernels advance_batch and merge_table have one block with one thread per
// slot. Each thread makes a few dependent loads and stores, which take 2 microseconds, and more
// blocks would have no work to share. The records form a ring with one record per slot and call, so
// that the host can copy them at any time. While a copy of the last step runs, later steps write
// other places of the ring. Every record has the number of its call, so that a record that was
// overwritten too early is detected. The kernel choose_rows reads and writes each chosen row once,
// because the row kernel reads rows at equal distances. If the rows are aligned to 16 bytes, each
// thread copies 16 bytes at a time. Steps without logit_offsets do not need choose_rows.
//
// The order of the stream is also the order of the writes. No two threads of a kernel write the
// same place, except for the counts and mask bits of a history, which are atomic additions and ORs
// in one block.
//
// Randomness: none; the kernels only increase the offsets. Determinism: the values of a slot depend
// only on that slot.
#include <cstdint>

#include "cuda/batch/batch_kernels.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/row_launch.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTableThreads = 1024;
constexpr int kTilesOfRow = 16;

// --- Which rows ----------------------------------------------------------------------------------

__device__ std::int64_t offset_at(const ChooseTask& task, std::int32_t i) {
  return task.narrow_offsets
             ? static_cast<std::int64_t>(static_cast<const std::uint32_t*>(task.offsets)[i])
             : static_cast<const std::int64_t*>(task.offsets)[i];
}

struct ChosenRow {
  Choice choice;
  std::int64_t row;
};

__device__ ChosenRow choose(const ChooseTask& task, std::int32_t slot) {
  if (task.occupied[slot] == 0) return {Choice::none, 0};
  if (task.call > 0 && task.statuses[slot] != RowStatus::ok) return {Choice::none, 0};
  const std::int64_t begin = offset_at(task, slot);
  const std::int64_t end = offset_at(task, slot + 1);
  if (begin < 0 || end < begin || end > task.logits.rows) return {Choice::bad_offsets, 0};
  const std::int64_t row = task.last ? end - 1 : begin + task.call;
  if (row < begin || row >= end) return {Choice::none, 0};
  if (task.prompt_lengths[slot] + task.output_lengths[slot] >= task.max_length) {
    return {Choice::full, 0};
  }
  return {Choice::sampled, row};
}

/// Copies the part of `count` elements that belongs to this thread block.
template <class Element>
__device__ void copy_elements(const unsigned char* source, unsigned char* target,
                              std::int64_t count, int tile) {
  const auto* from = reinterpret_cast<const Element*>(source);
  auto* to = reinterpret_cast<Element*>(target);
#pragma unroll 4
  for (std::int64_t i = std::int64_t{tile} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{kTilesOfRow} * kThreads) {
    to[i] = from[i];
  }
}

__global__ void __launch_bounds__(kThreads)
    choose_rows_kernel(const __grid_constant__ ChooseTask task) {
  const auto slot = static_cast<std::int32_t>(blockIdx.x / kTilesOfRow);
  const auto tile = static_cast<int>(blockIdx.x % kTilesOfRow);
  const ChosenRow chosen = choose(task, slot);
  if (tile == 0 && threadIdx.x == 0) {
    task.choices[slot] = chosen.choice;
    task.active[slot] = chosen.choice == Choice::sampled ? 1 : 0;
  }
  if (chosen.choice != Choice::sampled) return;
  const std::int64_t size = value_size(task.logits.dtype);
  const std::int64_t bytes = task.logits.vocab * size;
  const auto* source = static_cast<const unsigned char*>(task.logits.data) +
                       chosen.row * task.logits.row_stride * size;
  unsigned char* target = task.rows + slot * task.row_bytes;
  if (is_aligned(source, 16)) {
    const std::int64_t vectors = bytes / 16;
    copy_elements<uint4>(source, target, vectors, tile);
    copy_elements<std::uint16_t>(source + vectors * 16, target + vectors * 16,
                                 (bytes - vectors * 16) / 2, tile);
  } else if (is_aligned(source, 4) && bytes % 4 == 0) {
    copy_elements<std::uint32_t>(source, target, bytes / 4, tile);
  } else if (is_aligned(source, 2)) {
    copy_elements<std::uint16_t>(source, target, bytes / 2, tile);
  } else {
    copy_elements<std::uint8_t>(source, target, bytes, tile);
  }
}

// --- After a call --------------------------------------------------------------------------------

__device__ Choice choice_of(const AdvanceTask& task, std::int32_t slot) {
  if (slot >= task.slots) return Choice::none;
  if (task.choices != nullptr) return task.choices[slot];
  if (task.occupied[slot] == 0) return Choice::none;
  return task.may_draw[slot] != 0 ? Choice::sampled : Choice::full;
}

/// Appends a token to the history of a request on the device.
__device__ void append(const AdvanceTask& task, std::int32_t slot, std::int32_t token) {
  const std::int32_t length = task.output_lengths[slot];
  task.output[task.output_begins[slot] + length] = token;
  task.output_lengths[slot] = length + 1;
  ++task.offsets[slot];
  if (task.output_counts != nullptr) ++task.output_counts[slot * task.vocab + token];
  const bool has_room = task.prompt_lengths[slot] + length + 1 < task.max_length;
  task.may_draw[slot] = has_room ? 1 : 0;
}

__global__ void __launch_bounds__(kThreads)
    advance_batch_kernel(const __grid_constant__ AdvanceTask task) {
  const std::uint64_t call = *task.calls;
  const auto stamp = static_cast<std::uint32_t>(call) & ~serving::kFirstOfStep;
  serving::CallRecord* const records =
      task.records + static_cast<std::int64_t>(call % task.max_calls) * task.capacity;
  const std::uint32_t epoch = *task.epoch;
  for (auto slot = static_cast<std::int32_t>(threadIdx.x); slot < task.capacity; slot += kThreads) {
    const Choice choice = choice_of(task, slot);
    const bool is_new = task.first || slot >= task.slots;
    RowStatus status = is_new ? RowStatus::inactive : task.statuses[slot];
    std::int32_t token = -1;
    if (choice == Choice::sampled) {
      status = task.drawn_statuses[slot];
      token = task.drawn[slot];
    } else if (choice == Choice::full) {
      status = RowStatus::invalid_history;
    } else if (choice == Choice::bad_offsets) {
      status = RowStatus::index_out_of_range;
    }
    if (token >= 0) append(task, slot, token);
    if (slot < task.slots) {
      task.statuses[slot] = status;
      if (task.first || token >= 0) task.tokens[slot] = token;
      const std::int32_t before = task.first ? 0 : task.counts[slot];
      task.counts[slot] = before + (token >= 0 ? 1 : 0);
    }
    records[slot] = {token, status, stamp | (task.first ? serving::kFirstOfStep : 0U), epoch};
  }
  __syncthreads();  // wait until all threads have read the number of the call
  if (threadIdx.x == 0) *task.calls = call + 1;
}

__global__ void mark_calls_kernel(const std::uint64_t* calls, std::uint64_t* point) {
  *point = *calls;
}

// --- When requests come, move or go --------------------------------------------------------------

__global__ void __launch_bounds__(kTableThreads)
    merge_table_kernel(const __grid_constant__ MergeTask task) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  for (std::int32_t slot = thread; slot < task.capacity; slot += kTableThreads) {
    const std::int32_t from = task.from[slot];
    task.kept_offsets[slot] = from >= 0 ? task.offsets[from] : task.staged_offsets[slot];
    task.kept_lengths[slot] = from >= 0 ? task.output_lengths[from] : task.staged_lengths[slot];
  }
  __syncthreads();
  const auto* from = static_cast<const uint4*>(task.staged);
  auto* to = static_cast<uint4*>(task.table);
  for (std::int64_t i = thread; i < task.table_bytes / 16; i += kTableThreads) to[i] = from[i];
  __syncthreads();
  for (std::int32_t slot = thread; slot < task.capacity; slot += kTableThreads) {
    const std::int32_t length = task.kept_lengths[slot];
    task.offsets[slot] = task.kept_offsets[slot];
    task.output_lengths[slot] = length;
    const bool has_room = task.prompt_lengths[slot] + length < task.max_length;
    task.may_draw[slot] = task.occupied[slot] != 0 && has_room ? 1 : 0;
  }
  if (thread == 0) *task.epoch = task.new_epoch;
}

__device__ std::int64_t words_of_row(std::int64_t vocab) { return (vocab + 31) / 32; }

__global__ void __launch_bounds__(kThreads)
    take_moved_rows_kernel(const __grid_constant__ RowsOfSlots task) {
  const std::int32_t slot = task.changed[blockIdx.x];
  const std::int32_t from = task.from[slot];
  if (from < 0) return;
  const std::int64_t words = words_of_row(task.vocab);
  for (std::int64_t i = threadIdx.x; i < words; i += kThreads) {
    task.moved_allowed[slot * words + i] = task.allowed[from * words + i];
  }
}

__global__ void __launch_bounds__(kThreads)
    fill_rows_of_slots_kernel(const __grid_constant__ RowsOfSlots task) {
  const std::int32_t slot = task.changed[blockIdx.x];
  const std::int64_t words = words_of_row(task.vocab);
  if (task.allowed != nullptr) {
    const bool has_moved = task.from[slot] >= 0;
    for (std::int64_t i = threadIdx.x; i < words; i += kThreads) {
      task.allowed[slot * words + i] = has_moved ? task.moved_allowed[slot * words + i] : ~0U;
    }
  }
  if (task.output_counts == nullptr) return;
  std::int32_t* const counts = task.output_counts + slot * task.vocab;
  std::uint32_t* const mask = task.prompt_mask + slot * words;
  for (std::int64_t i = threadIdx.x; i < task.vocab; i += kThreads) counts[i] = 0;
  for (std::int64_t i = threadIdx.x; i < words; i += kThreads) mask[i] = 0;
  __syncthreads();
  const std::int32_t* const output = task.histories + task.output_begins[slot];
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < task.output_lengths[slot];
       i += kThreads) {
    atomicAdd(counts + output[i], 1);
  }
  const std::int32_t* const prompt = task.histories + task.prompt_begins[slot];
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < task.prompt_lengths[slot];
       i += kThreads) {
    const std::int32_t token = prompt[i];
    if (token >= 0) atomicOr(mask + token / 32, 1U << (token % 32));
  }
}

}  // namespace

cudaError_t choose_rows(const ChooseTask& task, cudaStream_t stream) {
  return launch_clusters(choose_rows_kernel, std::int64_t{task.slots} * kTilesOfRow, 1, kThreads,
                         stream, task);
}

cudaError_t advance_batch(const AdvanceTask& task, cudaStream_t stream) {
  return launch_clusters(advance_batch_kernel, 1, 1, kThreads, stream, task);
}

cudaError_t merge_table(const MergeTask& task, cudaStream_t stream) {
  return launch_clusters(merge_table_kernel, 1, 1, kTableThreads, stream, task);
}

cudaError_t take_moved_rows(const RowsOfSlots& task, cudaStream_t stream) {
  return launch_clusters(take_moved_rows_kernel, task.count, 1, kThreads, stream, task);
}

cudaError_t fill_rows_of_slots(const RowsOfSlots& task, cudaStream_t stream) {
  return launch_clusters(fill_rows_of_slots_kernel, task.count, 1, kThreads, stream, task);
}

cudaError_t mark_calls(const std::uint64_t* calls, std::uint64_t* point, cudaStream_t stream) {
  return launch_clusters(mark_calls_kernel, 1, 1, 1, stream, calls, point);
}

}  // namespace fairdraw::cuda
