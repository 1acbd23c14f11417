// What rows of probabilities weigh, and what is wrong with them: a record a row, nothing filtered.
//
// Contract. Any dtype, stride and alignment; the record of a row that has no fault says that all of
// its positive values survive. Semantics and weights: those of fairdraw/sampling.h, `*_from_probs`.
//
// Algorithm and cost. A weight depends on the row's largest value, so that a row has to be seen
// twice; it is read once. 1 to 16 blocks share a row, and every thread keeps its part in registers,
// kVectors vectors of 16 bytes that are loaded together: first their maximum, told to the other
// blocks, then their weights, which each block adds to the record. What does not fit (float32 above
// 131072 tokens) is read again from L2. Two blocks share a multiprocessor, so that one's loads hide
// the other's sums.
//
// Randomness: none. Numerics: sums are exact (row_weights.cuh). Determinism: integers throughout.
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "edit_planes.h"
#include "read_value.cuh"
#include "row_cluster.cuh"
#include "row_launch.h"
#include "row_weights.cuh"
#include "warp_sums.cuh"
#include "weigh_rows.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kVectors = 8;  // of a thread: 32 registers, so that four blocks fit
/// Of a row; above kMostBlocks for compute capability 9 alone.
constexpr int kMostOfRow = 16;
constexpr int kVectorsOfBlock = kThreads * kVectors;

struct Extremes {
  float max, min;  ///< max: NaN where there is one
};

struct Shared {
  Extremes of_warp[kWarps];
  Extremes of_block[kMostOfRow];
  std::uint64_t sum_of_warp[kWarps];
};

/// A row as vectors at multiples of 16 bytes, the first and the last perhaps not whole.
template <DType kType>
class RowVectors {
 public:
  static constexpr int kValues = kType == DType::float32 ? 4 : 8;

  __device__ RowVectors(const RowsView& rows, std::int64_t number)
      : values_(RowValues::of(rows, number)),
        vocab_(static_cast<int>(rows.vocab)),
        head_(place_of_first_token(values_.bytes, kType)),
        whole_(values_.aligned) {}

  __device__ int count() const { return (vocab_ + head_ + kValues - 1) / kValues; }

  /// Values outside of the row are 0: they weigh nothing.
  __device__ uint4 load(int vector) const {
    const int first = vector * kValues - head_;
    if (whole_ && first >= 0 && first + kValues <= vocab_) {
      const auto* at = values_.bytes + std::int64_t{first} * (16 / kValues);
      uint4 raw;
      asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                   : "l"(at));
      return raw;
    }
    return load_by_value(values_, first, vocab_);
  }

  __device__ static void unpack(const uint4& raw, float (&x)[kValues]) {
    const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kType == DType::float32) {
        x[i] = __uint_as_float(words[i]);
      } else {
        x[2 * i] = float_of(words[i] & 0xffffU, kType);
        x[2 * i + 1] = float_of(words[i] >> 16, kType);
      }
    }
  }

 private:
  __device__ __noinline__ static uint4 load_by_value(const RowValues& values, int first,
                                                     int vocab) {
    std::uint32_t words[4] = {0, 0, 0, 0};
    for (int i = 0; i < kValues; ++i) {
      if (first + i < 0 || first + i >= vocab) continue;
      const int shift = kType == DType::float32 ? 0 : 16 * (i % 2);
      words[kType == DType::float32 ? i : i / 2] |= values.bits(first + i) << shift;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  RowValues values_;
  int vocab_, head_;
  bool whole_;
};

template <DType kType>
class RowWeigher {
  using Vectors = RowVectors<kType>;

 public:
  __device__ RowWeigher(const RowsView& rows, std::int64_t number, const RowCluster& cluster,
                        Shared& shared)
      : row_(rows, number),
        vocab_(static_cast<std::int32_t>(rows.vocab)),
        cluster_(cluster),
        shared_(shared) {
    const int of_block = (row_.count() + cluster.blocks - 1) / cluster.blocks;
    begin_ = cluster.rank * of_block + static_cast<int>(threadIdx.x);
    end_ = min((cluster.rank + 1) * of_block, row_.count());
  }

  __device__ void run(RowRecord& record) {
    cluster_.announce();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int vector = begin_ + i * kThreads;
      kept_[i] = vector < end_ ? row_.load(vector) : make_uint4(0, 0, 0, 0);
    }
    const bool writes = cluster_.rank == 0 && threadIdx.x == 0;
    if (writes) record.total = 0;  // before the blocks meet: then each adds its part
    const Extremes row = share_extremes();
    const RowStatus status = row.max != row.max  ? RowStatus::nan_input
                             : row.max > FLT_MAX ? RowStatus::infinite_input
                             : row.min < 0.0F    ? RowStatus::negative_probability
                             : !(row.max > 0.0F) ? RowStatus::no_allowed_token
                                                 : RowStatus::ok;
    if (status != RowStatus::ok) {
      if (writes) record = {status, -1, 0.0F, 0.0F, 0, 0, 0};
      return;
    }
    if (writes) {
      record.status = status;
      record.greedy_token = -1;
      record.max = row.max;
      record.low = 0x1p-149F;
      record.tie_end = vocab_;
    }
    add_weights(row.max, record.total);
  }

 private:
  /// Calls visit(x) for each vector of this thread.
  template <class Visit>
  __device__ void for_each(Visit&& visit) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float x[Vectors::kValues];
      Vectors::unpack(kept_[i], x);
      visit(x);
    }
#pragma unroll 4
    for (int vector = begin_ + kVectorsOfBlock; vector < end_; vector += kThreads) {
      float x[Vectors::kValues];
      Vectors::unpack(row_.load(vector), x);
      visit(x);
    }
  }

  /// The largest and the smallest value of the row, told to all threads.
  __device__ Extremes share_extremes() {
    Extremes mine{0.0F, 0.0F};
    for_each([&](const float(&x)[Vectors::kValues]) {
#pragma unroll
      for (int j = 0; j < Vectors::kValues; ++j) {
        mine.max = max_or_nan(mine.max, x[j]);
        mine.min = fminf(mine.min, x[j]);
      }
    });
    const auto reduce = [](Extremes& value, int distance) {
      value.max = max_or_nan(value.max, __shfl_xor_sync(kAllLanes, value.max, distance));
      value.min = fminf(value.min, __shfl_xor_sync(kAllLanes, value.min, distance));
    };
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) reduce(mine, distance);
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread % kWarp == 0) shared_.of_warp[thread / kWarp] = mine;
    __syncthreads();
    mine = shared_.of_warp[thread % kWarps];
#pragma unroll
    for (int distance = kWarps / 2; distance > 0; distance /= 2) reduce(mine, distance);
    cluster_.await_all();
    if (thread < cluster_.blocks) *cluster_.at(&shared_.of_block[cluster_.rank], thread) = mine;
    cluster_.sync();
    mine = shared_.of_block[0];
    for (int block = 1; block < cluster_.blocks; ++block) {
      mine.max = max_or_nan(mine.max, shared_.of_block[block].max);
      mine.min = fminf(mine.min, shared_.of_block[block].min);
    }
    return mine;
  }

  /// Adds the weight of the block's part.
  __device__ void add_weights(float max, std::uint64_t& total) {
    ProbabilityWeight weight(1.0F);
    weight.set_max(max);
    ExactSum even;
    ExactSum odd;
    for_each([&](const float(&x)[Vectors::kValues]) {
#pragma unroll
      for (int j = 0; j < Vectors::kValues; j += 2) {
        even.add(weight(x[j]));
        odd.add(weight(x[j + 1]));
      }
    });
    const std::uint64_t of_warp = warp_sum(even.value() + odd.value());
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread % kWarp == 0) shared_.sum_of_warp[thread / kWarp] = of_warp;
    __syncthreads();
    if (thread >= kWarp) return;
    const std::uint64_t sum = warp_sum(thread < kWarps ? shared_.sum_of_warp[thread] : 0);
    if (thread == 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&total),
                static_cast<unsigned long long>(sum));
    }
  }

  Vectors row_;
  std::int32_t vocab_;
  RowCluster cluster_;
  Shared& shared_;
  int begin_, end_;
  uint4 kept_[kVectors];
};

__device__ void weigh(const RowsView& rows, std::int64_t number, const RowCluster& cluster,
                      Shared& shared, RowRecord& record) {
  switch (rows.dtype) {
    case DType::float16:
      RowWeigher<DType::float16>(rows, number, cluster, shared).run(record);
      return;
    case DType::bfloat16:
      RowWeigher<DType::bfloat16>(rows, number, cluster, shared).run(record);
      return;
    case DType::float32:
      RowWeigher<DType::float32>(rows, number, cluster, shared).run(record);
      return;
  }
}

__global__ void __launch_bounds__(kThreads, 4)
    weigh_rows_kernel(const __grid_constant__ WeighTask task, int blocks) {
  __shared__ Shared shared;
  const std::int64_t number = blockIdx.x / static_cast<unsigned>(blocks);
  const RowCluster cluster{blocks, static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks))};
  const std::int64_t first = task.rows[0].rows;
  RowRecord& record = task.records[number];
  if (number < first) {
    weigh(task.rows[0], number, cluster, shared, record);
    return;
  }
  const std::int64_t second = number - first;
  if (task.active.given() && task.active.data[second] == 0) {
    if (cluster.rank == 0 && threadIdx.x == 0) {
      record = {RowStatus::inactive, -1, 0.0F, 0.0F, 0, 0, 0};
    }
    return;
  }
  weigh(task.rows[1], second, cluster, shared, record);
}

/// The fewest blocks that keep a row in registers, as many as there may be.
int blocks_of_row(const WeighTask& task, int most) {
  std::int64_t vectors = 0;
  for (const RowsView& rows : task.rows) {
    if (rows.rows == 0) continue;
    const std::int64_t values = rows.dtype == DType::float32 ? 4 : 8;
    const std::int64_t of_row = (rows.vocab + 2 * values - 2) / values;
    vectors = of_row > vectors ? of_row : vectors;
  }
  int blocks = 1;
  while (blocks < most && vectors > std::int64_t{blocks} * kVectorsOfBlock) blocks *= 2;
  return blocks;
}

}  // namespace

cudaError_t weigh_rows(const WeighTask& task, Path path, cudaStream_t stream) {
  int most = 1;
  if (path != Path::block) {
    int device = 0;
    int major = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) {
      error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    }
    most = major == 9 ? kMostOfRow : kMostBlocks;
    if (error == cudaSuccess && most > kMostBlocks) {
      error = cudaFuncSetAttribute(weigh_rows_kernel,
                                   cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    }
    if (error != cudaSuccess) return error;
  }
  const int blocks = blocks_of_row(task, most);
  const std::int64_t rows = task.rows[0].rows + task.rows[1].rows;
  return launch_clusters(weigh_rows_kernel, rows, blocks, kThreads, stream, task, blocks);
}

}  // namespace fairdraw::cuda
