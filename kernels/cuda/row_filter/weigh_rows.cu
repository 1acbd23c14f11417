// What rows of probabilities weigh, and what is wrong with them: a record a row, nothing filtered.
//
// Contract. Any dtype, stride and alignment; the record of a row that has no fault says that all of
// its positive values survive. Semantics and weights: those of fairdraw/sampling.h, `*_from_probs`.
//
// Algorithm and cost. A weight depends on the row's largest value, so that a row has to be seen
// twice; it is read once. 1 to 16 blocks share a row, as many as can be resident walk over the rows
// of the call, and each walk is a pipeline:
//   copy      cp.async into shared memory, up to kMaxStages rows ahead: this is what keeps the
//             memory busy. A thread copies what it reads itself, so that no barrier is needed;
//   maximum   from shared memory into registers, kVectors vectors of 16 bytes a thread; each warp
//             tells its key to all blocks of the row (row_keys.cuh);
//   weights   one row later, when the keys have come, of the values in registers; each warp adds
//             its sum to the record.
// What does not fit (16384 values of float32 a block) is read past the pipeline, the second time
// from L2.
//
// What was tried, on an H200: microseconds of chain_speculative_sampling with 5 drafts, 64 requests
// of 128256 float32 (704 rows; reading them once takes 92; some 45 are the draws')
//   165  this; 161 with keys that are acquired in the scope of the block, which is not enough for
//        what other blocks push
//   186  one row a cluster, four blocks of 256 threads a multiprocessor, values in registers
//        between both passes: most of it is waiting for the row's other blocks
//   203  this pipeline with a barrier of the cluster for the keys: its release waits for all
//        memory, the records' atomics too
//   231  the same with places computed again for each vector, shuffles for extremes, and values
//        scaled before they are added: 33 instructions a value instead of 12
//
// Randomness: none. Numerics: sums are exact (row_weights.cuh). Determinism: integers throughout.
#include <algorithm>
#include <array>
#include <atomic>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "cuda/device/device_pointers.h"
#include "cuda/device/row_cluster.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/row_filter/filtered_row.cuh"
#include "cuda/row_filter/row_keys.cuh"
#include "cuda/row_filter/row_limits.h"
#include "cuda/row_filter/row_vectors.cuh"
#include "cuda/row_filter/row_weights.cuh"
#include "cuda/row_filter/weigh_rows.h"
#include "cuda/tiles/tile_pass.cuh"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kVectors = 8;  // of a thread: 32 registers, twice
/// Of a row; above kMaxBlocks where the device has room for such a cluster.
constexpr int kMaxOfRow = 16;
constexpr int kVectorsOfBlock = kThreads * kVectors;
constexpr int kStageBytes = kVectorsOfBlock * 16;
/// Rows in flight: what a multiprocessor of compute capability 9 has room for.
constexpr int kMaxStages = 3;

/// The largest value of some of a row as one key: its bits, which for values >= 0 order as the
/// values do; or, above all of them, the gravest fault.
constexpr std::uint32_t kFaultKey = 0xffffff00U;
constexpr std::uint32_t kNegative = kFaultKey + 1, kInfinite = kFaultKey + 2, kNan = kFaultKey + 3;
constexpr std::uint32_t kInfinityBits = 0x7f800000U;

__device__ RowStatus status_of_key(std::uint32_t key) {
  switch (key) {
    case 0:
      return RowStatus::no_allowed_token;
    case kNegative:
      return RowStatus::negative_probability;
    case kInfinite:
      return RowStatus::infinite_input;
    case kNan:
      return RowStatus::nan_input;
    default:
      return RowStatus::ok;
  }
}

/// An ExactSum of values below 2^exponent, on that scale: it starts where a double's unit in the
/// last place is 2^(exponent - 40), so that no value is scaled.
class ScaledSum {
 public:
  __device__ explicit ScaledSum(int exponent) {
    start_ = __double_as_longlong(4096.0) + (static_cast<long long>(exponent) << kMantissaBits);
    sum_ = __longlong_as_double(start_);
  }
  __device__ void add(float v) { sum_ = __dadd_rz(sum_, static_cast<double>(v)); }
  __device__ std::uint64_t value() const {
    return static_cast<std::uint64_t>(__double_as_longlong(sum_) - start_);
  }

 private:
  static constexpr int kMantissaBits = 52;
  long long start_;  // the bits of what the sum starts at
  double sum_;
};

/// The e of 2^(e - 1) <= x < 2^e, of the bits of x > 0.
__device__ inline int exponent_above(std::uint32_t bits) {
  constexpr std::uint32_t kSmallestNormal = 0x00800000U;
  return bits >= kSmallestNormal ? static_cast<int>(bits >> 23) - 126
                                 : 32 - __clz(static_cast<int>(bits)) - 149;
}

/// The sum over all lanes of what each has of weights: at most 2 * 4095 of 2^40.
__device__ inline std::uint64_t warp_sum_of_weights(std::uint64_t sum) {
  constexpr int kLowBits = 27;  // 32 of them fit into a word, and 32 of the 26 above them
  const auto low = static_cast<std::uint32_t>(sum) & ((1U << kLowBits) - 1);
  const auto high = static_cast<std::uint32_t>(sum >> kLowBits);
  return (std::uint64_t{__reduce_add_sync(kAllLanes, high)} << kLowBits) +
         __reduce_add_sync(kAllLanes, low);
}

using Keys = RowKeys<kWarps, kMaxOfRow>;

/// What a launch is given besides its task.
struct WeighShape {
  int blocks_log2;          ///< of a row
  int vectors_of_block[2];  ///< of a row of the first view, and of the second
  int stages;
  bool fits;  ///< no thread has more than kVectors vectors of a row
};

/// A block's walk over rows `first`, `first + step`, ... of the call.
class RowsWeigher {
 public:
  __device__ RowsWeigher(const WeighTask& task, const WeighShape& shape, Keys& keys, uint4* ring)
      : task_(task),
        shape_(shape),
        of_first_(static_cast<int>(task.rows[0].rows)),
        rows_(of_first_ + static_cast<int>(task.rows[1].rows)),
        first_(static_cast<int>(blockIdx.x >> shape.blocks_log2)),
        step_(static_cast<int>(gridDim.x >> shape.blocks_log2)),
        cluster_{1 << shape.blocks_log2,
                 static_cast<int>(blockIdx.x & ((1U << shape.blocks_log2) - 1))},
        keys_(keys),
        ring_(ring + threadIdx.x) {}

  __device__ void run() {
    keys_.clear(cluster_);
    if (cluster_.rank == 0) {  // before the blocks meet: then each adds its part
      for (int row = first_ + static_cast<int>(threadIdx.x) * step_; row < rows_;
           row += kThreads * step_) {
        task_.records[row].total = 0;
      }
    }
    cluster_.arrive();
    for (int stage = 0; stage < shape_.stages; ++stage) {
      start_copy(stage, first_ + stage * step_);
    }
    cluster_.wait();
    uint4 even[kVectors];
    uint4 odd[kVectors];
    for (int row = first_;; row += 2 * step_, ++phase_) {
      step(0, row, even, odd);
      if (row >= rows_) return;
      step(1, row + step_, odd, even);
      if (row + step_ >= rows_) return;
    }
  }

 private:
  /// One row arrives, if there is one, and the one before it is weighed.
  __device__ __forceinline__ void step(int parity, int row, uint4 (&arrived)[kVectors],
                                       const uint4 (&kept)[kVectors]) {
    const bool is_row = row < rows_;
    const bool is_behind = row > first_;
    std::uint32_t key = 0;
    if (is_row) {
      await_copy();
#pragma unroll
      for (int i = 0; i < kVectors; ++i) arrived[i] = *slot(stage_, i);
      start_copy(stage_, row + shape_.stages * step_);
      stage_ = stage_ + 1 < shape_.stages ? stage_ + 1 : 0;
      if (is_active(row)) key = warp_key(row, arrived);
    }
    const std::uint32_t behind =
        is_behind ? keys_.await(cluster_, parity ^ 1, phase_ - (parity ^ 1)) : 0;
    if (is_row) keys_.tell(cluster_, parity, key);
    if (is_behind) finish(row - step_, behind, kept);
  }

  __device__ uint4* slot(int stage, int i) const {
    return ring_ + (stage * kVectors + i) * kThreads;
  }
  __device__ const RowsView& view_of(int row) const { return task_.rows[row < of_first_ ? 0 : 1]; }
  __device__ RowVectors vectors_of(int row) const {
    return RowVectors(view_of(row), row < of_first_ ? row : row - of_first_);
  }
  __device__ int vectors_of_block(int row) const {
    return shape_.vectors_of_block[row < of_first_ ? 0 : 1];
  }
  __device__ bool is_active(int row) const {
    return !task_.active.given() || row < of_first_ || task_.active.data[row - of_first_] != 0;
  }

  /// A group of copies a row, empty ones too, so that their number tells which are over.
  __device__ __forceinline__ void start_copy(int stage, int row) const {
    if (row < rows_ && is_active(row)) {
      const RowVectors vectors = vectors_of(row);
      const int of_block = vectors_of_block(row);
      const int begin = cluster_.rank * of_block + static_cast<int>(threadIdx.x);
      const int left = min((cluster_.rank + 1) * of_block, vectors.count()) - begin;
      const uint4* from = vectors.at(begin);
      if (vectors.plain()) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          copy_vector(slot(stage, i), from + i * kThreads, i * kThreads < left);
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < kVectors; ++i) {
          const int vector = begin + i * kThreads;
          if (i * kThreads >= left || vectors.is_whole(vector)) {
            copy_vector(slot(stage, i), from + i * kThreads, i * kThreads < left);
          } else {
            *slot(stage, i) = vectors.load(vector);
          }
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ void await_copy() const {
    static_assert(kMaxStages == 3);
    if (shape_.stages == 3) {
      asm volatile("cp.async.wait_group 2;" ::: "memory");
    } else if (shape_.stages == 2) {
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
  }

  /// Calls visit(x) for each value of this thread's vectors: those in registers, then the rest.
  template <class Visit>
  __device__ __forceinline__ void visit_part(int row, const uint4 (&kept)[kVectors],
                                             Visit&& visit) const {
    const auto visit_as = [&]<DType kType>() {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) visit_vector<kType>(kept[i], visit);
      if (shape_.fits) return;
      const RowVectors vectors = vectors_of(row);
      const int of_block = vectors_of_block(row);
      const int end = min((cluster_.rank + 1) * of_block, vectors.count());
      int vector = cluster_.rank * of_block + kVectorsOfBlock + static_cast<int>(threadIdx.x);
#pragma unroll 4
      for (; vector < end; vector += kThreads) visit_vector<kType>(vectors.load(vector), visit);
    };
    switch (view_of(row).dtype) {
      case DType::float16:
        visit_as.template operator()<DType::float16>();
        return;
      case DType::bfloat16:
        visit_as.template operator()<DType::bfloat16>();
        return;
      case DType::float32:
        visit_as.template operator()<DType::float32>();
        return;
    }
  }

  __device__ __forceinline__ std::uint32_t warp_key(int row, const uint4 (&kept)[kVectors]) const {
    std::uint32_t key = 0;
    visit_part(row, kept, [&](float x) { key = max(key, __float_as_uint(x)); });
    key = warp_max(key);
    if (key < kInfinityBits) return key;
    float most = 0.0F;
    float least = 0.0F;
    visit_part(row, kept, [&](float x) {
      most = max_or_nan(most, x);
      least = fminf(least, x);
    });
    return warp_max(most != most     ? kNan
                    : most > FLT_MAX ? kInfinite
                    : least < 0.0F   ? kNegative
                                     : __float_as_uint(most));  // there was a -0
  }

  /// The record of a row except for its total, and this warp's part of that.
  __device__ __forceinline__ void finish(int row, std::uint32_t key,
                                         const uint4 (&kept)[kVectors]) const {
    const RowStatus status = is_active(row) ? status_of_key(key) : RowStatus::inactive;
    const bool is_ok = status == RowStatus::ok;
    RowRecord& record = task_.records[row];
    if (cluster_.rank == 0 && threadIdx.x == 0) {
      record.status = status;
      record.greedy_token = -1;
      record.max = is_ok ? __uint_as_float(key) : 0.0F;
      record.low = is_ok ? kSmallestProbability : 0.0F;
      record.tie_end = is_ok ? static_cast<std::int32_t>(view_of(row).vocab) : 0;
    }
    if (!is_ok) return;
    ScaledSum even(exponent_above(key));
    ScaledSum odd(exponent_above(key));
    bool is_odd = false;
    visit_part(row, kept, [&](float x) {
      (is_odd ? odd : even).add(x);
      is_odd = !is_odd;
    });
    const std::uint64_t sum = warp_sum_of_weights(even.value() + odd.value());
    if (threadIdx.x % kWarp == 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(&record.total),
                static_cast<unsigned long long>(sum));
    }
  }

  const WeighTask& task_;
  const WeighShape& shape_;
  int of_first_, rows_, first_, step_;
  RowCluster cluster_;
  Keys& keys_;
  uint4* ring_;  ///< this thread's first slot
  int stage_ = 0;
  std::uint32_t phase_ = 0;  ///< pairs of rows that are behind
};

__global__ void __launch_bounds__(kThreads, 1)
    weigh_rows_kernel(const __grid_constant__ WeighTask task,
                      const __grid_constant__ WeighShape shape) {
  __shared__ Keys keys;
  extern __shared__ uint4 ring[];
  RowsWeigher(task, shape, keys, ring).run();
}

/// Clusters of 2^blocks_log2 blocks that the current device holds at once, 0 where it has no room
/// for one. Asked once a device and process: the answer takes longer than a launch.
cudaError_t resident_clusters(int blocks_log2, int dynamic_bytes, const GpuLimits& gpu,
                              int& resident) {
  constexpr int kKnown = 64;
  constexpr int kSizes = 5;
  static_assert(1 << (kSizes - 1) == kMaxOfRow);
  static std::array<std::atomic<int>, kKnown * kSizes> known{};  // 1 more than the answer
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  std::atomic<int>* slot =
      device < kKnown ? &known[static_cast<std::size_t>(device * kSizes + blocks_log2)] : nullptr;
  if (slot != nullptr && slot->load(std::memory_order_relaxed) > 0) {
    resident = slot->load(std::memory_order_relaxed) - 1;
    return cudaSuccess;
  }
  const RelaxedCapture relaxed;
  error = cudaFuncSetAttribute(weigh_rows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               dynamic_bytes);
  if (error != cudaSuccess) return error;
  resident = gpu.multiprocessors;
  if (blocks_log2 > 0) {
    const ClusterLaunch one(1, 1 << blocks_log2, kThreads, dynamic_bytes, nullptr);
    error = 1 << blocks_log2 > kMaxBlocks
                ? cudaFuncSetAttribute(weigh_rows_kernel,
                                       cudaFuncAttributeNonPortableClusterSizeAllowed, 1)
                : cudaSuccess;
    if (error == cudaSuccess) {
      error = cudaOccupancyMaxActiveClusters(&resident, weigh_rows_kernel, &one.config);
    }
    if (error != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // no cluster of this size on this device
      resident = 0;
    }
  }
  if (slot != nullptr) slot->store(resident + 1, std::memory_order_relaxed);
  return cudaSuccess;
}

}  // namespace

cudaError_t weigh_rows(const WeighTask& task, Path path, cudaStream_t stream) {
  GpuLimits gpu{};
  cudaError_t error = limits_of_device(gpu);
  if (error != cudaSuccess) return error;
  const int room = (gpu.shared_bytes_of_block - static_cast<int>(sizeof(Keys))) / kStageBytes;
  WeighShape shape{};
  shape.stages = std::min(room, kMaxStages);
  const int dynamic_bytes = shape.stages * kStageBytes;

  std::int64_t of_rows[2] = {0, 0};
  for (int view = 0; view < 2; ++view) {
    if (task.rows[view].rows > 0) of_rows[view] = vectors_of(task.rows[view]);
  }
  const std::int64_t vectors = std::max(of_rows[0], of_rows[1]);
  const int most = path == Path::block ? 1 : kMaxOfRow;
  while (1 << shape.blocks_log2 < most && vectors > std::int64_t{kVectorsOfBlock}
                                                        << shape.blocks_log2) {
    ++shape.blocks_log2;
  }
  int resident = 0;
  error = resident_clusters(shape.blocks_log2, dynamic_bytes, gpu, resident);
  while (error == cudaSuccess && resident == 0) {
    error = resident_clusters(--shape.blocks_log2, dynamic_bytes, gpu, resident);
  }
  if (error != cudaSuccess) return error;

  const int blocks = 1 << shape.blocks_log2;
  for (int view = 0; view < 2; ++view) {
    shape.vectors_of_block[view] = static_cast<int>((of_rows[view] + blocks - 1) / blocks);
  }
  shape.fits = vectors <= std::int64_t{kVectorsOfBlock} * blocks;
  const std::int64_t rows = task.rows[0].rows + task.rows[1].rows;
  const ClusterLaunch launch(std::min<std::int64_t>(rows, resident), blocks, kThreads,
                             dynamic_bytes, stream);
  return cudaLaunchKernelEx(&launch.config, weigh_rows_kernel, task, shape);
}

}  // namespace fairdraw::cuda
