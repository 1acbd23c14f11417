// Makes kept sets, which have the ids of the tokens that survived the filters, packed one output
// after another (fairdraw/kept_sets.h).
//
// Contract. The set of output i has the ids that are marked in the output's row, in ascending
// order, at the positions from offsets[i] to offsets[i + 1]. A set that is larger than the
// remaining capacity is left out: its overflow is 1, and the next set begins at the place where the
// omitted set would have begun. If the index of an output is out of range, or its row is not ok,
// its set has no ids. Memory beyond the last set is not written. The marks are the same bits as the
// mask of write_rows, because the row's record alone determines the survivors.
//
// Algorithm and cost. A row is divided into parts of whole tiles, with one block per part. There
// are two launches, which start while the kernel before them ends (device/early_start.h).
//   mark   reads the tiles whose largest value (from the row kernel's keys) reaches the row's
//          threshold, and writes bits and a count. Peaked rows have few such tiles; in flat rows
//          all values are read once more, mostly from L2.
//   pack   adds up the sizes of the sets before the block's own, in each block if there are at most
//          256 outputs, and writes the ids of the block's part: a warp takes a word of bits at a
//          time, so that neighbouring lanes write neighbouring ids.
// If there are more than 256 outputs, a launch of one block finds the offsets before the second
// launch. One launch in which blocks wait for each other's sizes would need counters that are 0
// before the launch.
//
// Whether a set fits depends on all sets before it, one after another. If a chunk of 256 outputs
// fits as a whole, a prefix sum places its sets; only a chunk in which some set may not fit is
// processed one set at a time.
//
// Determinism: all values are integers, and each is written to a place of its own.
#include <cstdint>

#include "cuda/device/block_sums.cuh"
#include "cuda/device/early_start.h"
#include "cuda/outputs/kept_rule.cuh"
#include "cuda/outputs/kept_sets.h"
#include "cuda/rows/tile_launch.cuh"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kBlocksAtOnce = 4;         ///< number of blocks per SM, which allows 64 registers per
                                         ///< thread
static_assert(kTileWords * 4 == kWarp);  // each lane writes one byte of a tile's marks

/// Part of a row: a range of tiles, with the words of their marks up to the end of the row.
struct Part {
  int number;
  int first_tile, end_tile;

  __device__ static Part of(const KeptMarks& marks, std::int64_t block) {
    const int number = static_cast<int>(block & (marks.parts - 1));
    const std::int64_t tiles = tiles_of(marks.vocab);
    return {number, static_cast<int>(tiles * number / marks.parts),
            static_cast<int>(tiles * (number + 1) / marks.parts)};
  }
  __device__ int first_word() const { return first_tile * kTileWords; }
  __device__ int end_word(std::int64_t vocab) const {
    return ::min(end_tile * kTileWords, static_cast<int>((vocab + 31) / 32));
  }
};

/// Returns a word of a row's marks, in which the bits beyond the end of the row are cleared.
__device__ __forceinline__ std::uint32_t word_of(const KeptMarks& marks, const std::uint32_t* words,
                                                 int word) {
  const auto left = static_cast<int>(marks.vocab) - word * 32;
  return left >= 32 ? words[word] : words[word] & ((1U << left) - 1);
}

// --- Marks ---------------------------------------------------------------------------------------

/// Writes the marks of a tile, where bit i of `kept` belongs to the i-th value of a lane. For a
/// whole warp.
template <RowForm kForm>
__device__ __forceinline__ void write_marks(std::uint32_t* words, int tile, unsigned kept) {
  const int lane = lane_of_thread();
  if constexpr (kForm.access == TileAccess::values) {
    std::uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::uint32_t votes = __ballot_sync(kAllLanes, ((kept >> i) & 1U) != 0);
      if (lane == i) mine = votes;
    }
    if (lane < kTileWords) words[tile * kTileWords + lane] = mine;
    return;
  }
  auto* bytes = reinterpret_cast<std::uint8_t*>(words + tile * kTileWords);
  if constexpr (kForm.type != DType::float32) {
    bytes[lane] = static_cast<std::uint8_t>(kept);
    return;
  }
  // A lane has four adjacent values of each half of the tile: even lanes assemble a byte for the
  // first half, and odd lanes a byte for the second half.
  const unsigned other = __shfl_xor_sync(kAllLanes, kept, 1);
  const bool odd = (lane & 1) != 0;
  const unsigned byte = odd ? (other >> 4) | (kept & 0xf0U) : (kept & 0xfU) | ((other & 0xfU) << 4);
  bytes[(odd ? kWarp / 2 : 0) + lane / 2] = static_cast<std::uint8_t>(byte);
}

/// Marks the survivors in the tiles of a part that this warp reads. Returns the number of this
/// lane's values that survive.
template <RowForm kForm>
__device__ __forceinline__ int mark_tiles(const MarkTask& task, std::int64_t number,
                                          const Part& part, const KeptRule& rule) {
  constexpr int kAtOnce = 2;
  const FilteredRows& filtered = task.filtered;
  const RowOfTiles<kForm> row(filtered.rows, filtered.allowed, number, filtered.from_probs,
                              filtered.edits);
  const std::int32_t* keys = task.keys.data + number * task.keys.row_stride;
  std::uint32_t* words = task.words + number * task.marks.row_stride;
  int count = 0;
#pragma unroll 1
  for (int first = part.first_tile + warp_of_thread(); first < part.end_tile;
       first += kAtOnce * kWarps) {
    RawTile raw[kAtOnce];
    bool reads[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int tile = first + i * kWarps;
      reads[i] = tile < part.end_tile && rule.reaches(tile, keys[tile]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (reads[i]) load_again(row, first + i * kWarps, raw[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int tile = first + i * kWarps;
      if (tile >= part.end_tile) break;
      unsigned kept = 0;
      if (reads[i]) {
        float x[kLaneValues];
        // Values of tokens that are not allowed become -inf, even in rows of probabilities, so that
        // no threshold keeps them.
        TilePass<kForm, false>::read(row, raw[i], x);
#pragma unroll
        for (int v = 0; v < kLaneValues; ++v) {
          kept |= rule.keeps(x[v], RowOfTiles<kForm>::id_of(tile, v)) ? 1U << v : 0U;
        }
      }
      write_marks<kForm>(words, tile, kept);
      count += __popc(kept);
    }
  }
  return count;
}

/// Writes the number of marks in a part, which is summed over the block's threads. The function has
/// one barrier.
__device__ __forceinline__ void write_count(const KeptMarks& marks, std::int64_t block, int count,
                                            int (&of_warp)[kWarps]) {
  count = __reduce_add_sync(kAllLanes, count);
  if (lane_of_thread() == 0) of_warp[warp_of_thread()] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (const int other : of_warp) sum += other;
  marks.counts[block] = sum;  // the array has the shape [rows, parts], and so the order of the
                              // blocks
}

template <DType kType, TileAccess kAccess>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    mark_kept_kernel(const __grid_constant__ MarkTask task, int) {
  __shared__ int of_warp[kWarps];
  await_kernel_before();
  let_next_kernel_start();
  const std::int64_t number = blockIdx.x / task.marks.parts;
  const RowRecord& record = task.filtered.records[number];
  const Part part = Part::of(task.marks, blockIdx.x);
  if (record.status != RowStatus::ok) {
    if (threadIdx.x == 0) task.marks.counts[blockIdx.x] = 0;
    // The words of marks are written even though the count is 0, because words are read before the
    // count of the part is read.
    std::uint32_t* words = task.words + number * task.marks.row_stride;
    for (int word = part.first_word() + static_cast<int>(threadIdx.x);
         word < part.end_tile * kTileWords; word += kThreads) {
      words[word] = 0;
    }
    return;
  }
  const int count = mark_tiles<RowForm{kType, kAccess}>(
      task, number, part, KeptRule::of(record, task.filtered.from_probs));
  write_count(task.marks, blockIdx.x, count, of_warp);
}

__global__ void __launch_bounds__(kThreads)
    count_kept_kernel(const __grid_constant__ KeptMarks marks, int) {
  __shared__ int of_warp[kWarps];
  await_kernel_before();
  let_next_kernel_start();
  const Part part = Part::of(marks, blockIdx.x);
  const std::uint32_t* words = marks.words + blockIdx.x / marks.parts * marks.row_stride;
  int count = 0;
  for (int word = part.first_word() + static_cast<int>(threadIdx.x);
       word < part.end_word(marks.vocab); word += kThreads) {
    count += __popc(word_of(marks, words, word));
  }
  write_count(marks, blockIdx.x, count, of_warp);
}

// --- Sets ----------------------------------------------------------------------------------------

struct PackShared {
  std::int64_t sums[kWarps];
  std::int64_t begins[kThreads];
  std::int64_t end;
  std::int32_t sizes[kThreads];
  std::int32_t words[2][kWarps];
};

/// Returns the row of an output, or -1 if the output's index is out of range or its status is not
/// ok.
__device__ std::int64_t row_of(const PackTask& task, std::int64_t output) {
  if (task.statuses.given() && task.statuses.data[output] != RowStatus::ok) return -1;
  const std::int64_t row = task.indices.given() ? task.indices.data[output] : output;
  return row >= 0 && row < task.marks.rows ? row : -1;
}

__device__ std::int32_t size_of(const PackTask& task, std::int64_t output) {
  const std::int64_t row = row_of(task, output);
  if (row < 0) return 0;
  const std::int32_t* counts = task.marks.counts + row * task.marks.parts;
  std::int32_t of_part[kMaxKeptParts];
#pragma unroll
  for (int part = 0; part < kMaxKeptParts; ++part) {
    of_part[part] = part < task.marks.parts ? counts[part] : 0;  // no load depends on another, so
                                                                 // that all loads are in flight
                                                                 // together
  }
  std::int32_t size = 0;
#pragma unroll
  for (const std::int32_t count : of_part) size += count;
  return size;
}

/// Places the sets of kThreads outputs, where each thread gives the size of one set. Writes the
/// offsets at which the sets begin, and sets `end` to the end of the last set. A set fits if the
/// capacity that remains where the set begins is at least its size. The function ends with a
/// barrier.
__device__ void place_sets(std::int32_t size, std::int64_t room, std::int64_t& end,
                           PackShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const auto sum = block_prefix(std::int64_t{size}, shared.sums);
  shared.begins[thread] = end + sum.before;
  shared.sizes[thread] = size;
  end += sum.total;
  __syncthreads();
  if (end <= room) return;  // all sets fit
  if (thread == 0) {
    std::int64_t at = shared.begins[0];
    for (int i = 0; i < kThreads; ++i) {
      shared.begins[i] = at;
      if (shared.sizes[i] <= room - at) at += shared.sizes[i];
    }
    shared.end = at;
  }
  __syncthreads();
  end = shared.end;
}

/// Writes all results of an output except the ids, with one thread.
__device__ void write_place(const PackTask& task, std::int64_t output, std::int64_t begin,
                            std::int32_t size) {
  task.kept.offsets.data[output] = begin;
  if (task.kept.overflow.given()) {
    task.kept.overflow.data[output] = size > task.kept.token_ids.size - begin ? 1 : 0;
  }
  if (task.support_size != nullptr) task.support_size[output] = size;
}

/// Places the sets of all outputs, with one block.
__global__ void __launch_bounds__(kThreads)
    place_kept_kernel(const __grid_constant__ PackTask task, int) {
  __shared__ PackShared shared;
  await_kernel_before();
  let_next_kernel_start();
  std::int64_t end = 0;
  for (std::int64_t first = 0; first < task.outputs; first += kThreads) {
    const std::int64_t output = first + threadIdx.x;
    const std::int32_t size = output < task.outputs ? size_of(task, output) : 0;
    place_sets(size, task.kept.token_ids.size, end, shared);
    if (output < task.outputs) write_place(task, output, shared.begins[threadIdx.x], size);
    __syncthreads();
  }
  if (threadIdx.x == 0) task.kept.offsets.data[task.outputs] = end;
}

/// Data for a part of a row, which a block loads before it waits for other data.
struct PartOfRow {
  std::uint32_t word;   ///< first of the words of marks that this thread reads
  std::int32_t before;  ///< number of kept ids in the parts of the row before this part
  std::int32_t size;    ///< number of kept ids in this part

  /// Reads the data. All threads must call this function; if the row is -1, nothing is read.
  __device__ static PartOfRow read(const KeptMarks& marks, std::int64_t row, const Part& part) {
    static_assert(kMaxKeptParts <= kWarp);
    const int lane = lane_of_thread();
    const int first = part.first_word() + static_cast<int>(threadIdx.x);
    std::uint32_t word = 0;
    std::int32_t count = 0;
    if (row >= 0) {
      if (first < part.end_word(marks.vocab)) {
        word = word_of(marks, marks.words + row * marks.row_stride, first);
      }
      if (lane < marks.parts) count = marks.counts[row * marks.parts + lane];
    }
    return {word, __reduce_add_sync(kAllLanes, lane < part.number ? count : 0),
            __shfl_sync(kAllLanes, count, part.number)};
  }
};

/// Writes the ids of a part of a row to memory, from `ids` on; `word` is the first word of marks
/// that this thread reads.
__device__ __forceinline__ void write_ids(const KeptMarks& marks, std::int64_t row,
                                          const Part& part, std::uint32_t word,
                                          std::int32_t first_id, std::int32_t* ids,
                                          PackShared& shared) {
  const std::uint32_t* words = marks.words + row * marks.row_stride;
  const int end = part.end_word(marks.vocab);
  const int lane = lane_of_thread();
  int turn = 0;
  for (int first = part.first_word(); first < end; first += kThreads, turn ^= 1) {
    const int next = first + kThreads + static_cast<int>(threadIdx.x);
    const std::uint32_t next_word = next < end ? word_of(marks, words, next) : 0;
    const auto sizes = block_prefix(std::int32_t{__popc(word)}, shared.words[turn]);
#pragma unroll 1
    for (unsigned left = __ballot_sync(kAllLanes, word != 0); left != 0; left &= left - 1) {
      const int source = __ffs(static_cast<int>(left)) - 1;
      const std::uint32_t bits = __shfl_sync(kAllLanes, word, source);
      const std::int32_t at = __shfl_sync(kAllLanes, sizes.before, source);
      if (((bits >> lane) & 1U) != 0) {
        ids[at + __popc(bits & ((1U << lane) - 1))] =
            first_id + (first + warp_of_thread() * kWarp + source) * 32 + lane;
      }
    }
    ids += sizes.total;
    word = next_word;
  }
}

/// Packs the ids of one part of an output's set; kPlacesAreKnown says whether place_kept_kernel has
/// computed the offsets.
template <bool kPlacesAreKnown>
__device__ void pack_part(const PackTask& task, std::int64_t output, const Part& part,
                          PackShared& shared) {
  const std::int64_t row = row_of(task, output);
  const PartOfRow mine = PartOfRow::read(task.marks, row, part);
  std::int64_t begin = 0;
  if constexpr (kPlacesAreKnown) {
    begin = task.kept.offsets.data[output];
    if (task.kept.offsets.data[output + 1] == begin) return;  // the set is empty or does not fit
  } else {
    const auto thread = static_cast<std::int64_t>(threadIdx.x);
    std::int64_t end = 0;
    place_sets(thread < task.outputs ? size_of(task, thread) : 0, task.kept.token_ids.size, end,
               shared);
    begin = shared.begins[output];
    const std::int32_t size = shared.sizes[output];
    if (part.number == 0 && threadIdx.x == 0) {
      write_place(task, output, begin, size);
      if (output == task.outputs - 1) task.kept.offsets.data[task.outputs] = end;
    }
    if (size > task.kept.token_ids.size - begin) return;
  }
  if (mine.size == 0) return;
  write_ids(task.marks, row, part, mine.word, task.first_id,
            task.kept.token_ids.data + begin + mine.before, shared);
}

template <bool kPlacesAreKnown>
__global__ void __launch_bounds__(kThreads)
    pack_kept_kernel(const __grid_constant__ PackTask task, int) {
  __shared__ PackShared shared;
  await_kernel_before();
  let_next_kernel_start();
  const Part part = Part::of(task.marks, blockIdx.x);
  const std::int64_t step = gridDim.x / task.marks.parts;
  for (std::int64_t output = blockIdx.x / task.marks.parts; output < task.outputs; output += step) {
    pack_part<kPlacesAreKnown>(task, output, part, shared);
    __syncthreads();  // wait, because the shared memory is read until the last warp has written its
                      // ids
  }
}

/// Enqueues a kernel of `blocks` blocks, which may start early.
template <auto* kKernel, class Task>
cudaError_t launch(std::int64_t blocks, const Task& task, cudaStream_t stream) {
  const TileSpread spread{1, kThreads};
  const SpreadNeeds needs{[](int) { return 0; }, /*starts_early=*/true};
  return launch_spread<kKernel>(blocks, spread, needs, stream, task);
}

}  // namespace

cudaError_t mark_kept(const MarkTask& task, cudaStream_t stream) {
  const std::int64_t blocks = task.marks.rows * task.marks.parts;
  return launch_for_form(task.filtered.rows, [&]<RowForm kForm>() {
    return launch<mark_kept_kernel<kForm.type, kForm.access>>(blocks, task, stream);
  });
}

cudaError_t count_kept(const KeptMarks& marks, cudaStream_t stream) {
  return launch<count_kept_kernel>(marks.rows * marks.parts, marks, stream);
}

cudaError_t pack_kept(const PackTask& task, cudaStream_t stream) {
  if (task.outputs > 0 && task.outputs <= kThreads) {
    return launch<pack_kept_kernel<false>>(task.outputs * task.marks.parts, task, stream);
  }
  if (const cudaError_t error = launch<place_kept_kernel>(1, task, stream);
      error != cudaSuccess || task.outputs == 0) {
    return error;
  }
  constexpr std::int64_t kMax = std::int64_t{1} << 20;  // maximum number of blocks in a grid; each
                                                        // block processes several parts if there
                                                        // are more
  const std::int64_t outputs = task.outputs < kMax ? task.outputs : kMax;
  return launch<pack_kept_kernel<true>>(outputs * task.marks.parts, task, stream);
}

}  // namespace fairdraw::cuda
