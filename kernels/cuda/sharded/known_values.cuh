// Values of a row that all ranks know, in shared memory: the candidates of all shards, and the
// values of tiles that shard boundaries cut.
//
// The index of a candidate is the number of its shard times the capacity of a list, plus the
// candidate's position in the list. The values of cut tiles follow the candidates, in the order of
// ids. The certificate is the key above which the shards' lists are complete: the known values
// above the certificate are all values of the row above it. The known values are ordered by value,
// in descending order, and then by id; their weights have prefix sums in this order. The list of
// each shard already has this order. So the rank of a value among all known values is found by
// binary searches in the lists of the other shards. Only a few values of cut tiles are above the
// certificate.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_masses.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/row_weigher.cuh"

namespace fairdraw::cuda {

/// Number of tokens in some set, with their total weight in the row's unit.
struct Totals {
  std::uint64_t count;
  uint128_t mass;
};

/// Arrays in dynamic shared memory whose lengths depend on the call.
struct KnownArrays {
  uint128_t* weight;       ///< [places]
  uint128_t* prefix;       ///< prefix sums of weights in the order of values [known values]
  std::int32_t* key;       ///< keys of the known values [known values]; kEmptyTileKey marks a place
                           ///< without a value
  std::int32_t* id;        ///< [places]
  std::int32_t* tile_max;  ///< largest key of each tile [tiles of the vocabulary]
  std::uint16_t* order;    ///< [places]
  std::uint16_t* cut;      ///< indices of the cut tiles' values that are above the certificate
                           ///< [values of cut tiles]
  std::byte* summaries;    ///< received summaries [shards, bytes of a row's summary]

  __host__ __device__ static int places(const ShardedTask& task) {
    // After the known values have been used for the last time, the caller's logits replace them.
    const int of_raw = task.raw.given ? task.raw.candidates : 0;
    return task.shards * (task.candidates > of_raw ? task.candidates : of_raw) + task.cut_total;
  }
  __host__ __device__ static int bytes(const ShardedTask& task) {
    const int n = places(task);
    return n * static_cast<int>(2 * sizeof(uint128_t) + 2 * sizeof(std::int32_t)) +
           static_cast<int>(tiles_of(task.vocab) * sizeof(std::int32_t)) +
           (n + task.cut_total + 1) / 2 * 2 * static_cast<int>(sizeof(std::uint16_t)) +
           static_cast<int>(task.shards * task.each[0]);
  }
  __device__ static KnownArrays at(unsigned char* memory, const ShardedTask& task) {
    const int n = places(task);
    KnownArrays arrays{};
    arrays.weight = reinterpret_cast<uint128_t*>(memory);
    arrays.prefix = arrays.weight + n;
    arrays.key = reinterpret_cast<std::int32_t*>(arrays.prefix + n);
    arrays.id = arrays.key + n;
    arrays.tile_max = arrays.id + n;
    arrays.order = reinterpret_cast<std::uint16_t*>(arrays.tile_max + tiles_of(task.vocab));
    arrays.cut = arrays.order + n;
    arrays.summaries =
        reinterpret_cast<std::byte*>(arrays.cut + (task.cut_total + n + 1) / 2 * 2 - n);
    return arrays;
  }
};

/// Shared memory of KnownValues in addition to the arrays.
struct KnownValuesMemory {
  BlockMasses::Memory masses;
  int above[kMaxDeviceShards];  ///< for each shard, the number of its candidates that are above the
                                ///< certificate
  int cut_above;                ///< number of values of cut tiles above the certificate
};

/// Known values of a row, in descending order. All kEndThreads threads of a block must call the
/// member functions together.
template <bool kFromProbs>
class KnownValues {
 public:
  using Memory = KnownValuesMemory;

  __device__ KnownValues(const ShardedTask& task, const KnownArrays& arrays, Memory& memory)
      : task_(task), arrays_(arrays), memory_(memory) {}

  __device__ int first_cut() const { return task_.shards * task_.candidates; }
  __device__ int places() const { return first_cut() + task_.cut_total; }
  __device__ std::int32_t key_of(int place) const { return arrays_.key[place]; }
  __device__ std::int32_t id_of(int place) const { return arrays_.id[place]; }
  __device__ uint128_t weight_of(int place) const { return arrays_.weight[place]; }

  /// Returns the number of values above the certificate; the arguments of place(i) and key(i) are
  /// positions in the order of these values.
  __device__ int size() const { return size_; }
  __device__ int place(int number) const { return arrays_.order[number]; }
  __device__ std::int32_t key(int number) const { return arrays_.key[arrays_.order[number]]; }
  /// Returns the number and the total weight of the first n values.
  __device__ Totals first(int n) const {
    return {static_cast<std::uint64_t>(n), n == 0 ? uint128_t{0} : arrays_.prefix[n - 1]};
  }
  /// Returns the number of known values whose keys are at least `key_`.
  __device__ int reaching(std::int32_t key_) const {
    return partition(0, size_, [&](int number) { return key(number) >= key_; });
  }
  /// Returns the position of the first value whose prefix sum is at least `mass`, or size() if
  /// there is no such value.
  __device__ int first_reaching(uint128_t mass) const {
    return partition(0, size_, [&](int number) { return arrays_.prefix[number] < mass; });
  }
  /// Returns the number of known values that precede a given value in the order; values below the
  /// certificate count, too.
  __device__ __noinline__ int rank_of_all(int place_) const {
    int before = 0;
    for (int shard = 0; shard < task_.shards; ++shard) {
      const int first = first_of(shard);
      before +=
          partition(0, task_.candidates, [&](int i) { return comes_first(first + i, place_); });
    }
    for (int other = first_cut(); other < places(); ++other) {
      before += comes_first(other, place_) ? 1 : 0;
    }
    return before;
  }
  /// Returns the index of a shard's first candidate; the other candidates of the shard follow in
  /// order.
  __device__ int first_of(int shard) const { return shard * task_.candidates; }

  /// Orders the known values above the certificate. Precondition: a barrier has followed the
  /// writing of the keys and ids. For cut tiles, tile_max has their keys; for all other tiles,
  /// tile_max has kEmptyTileKey.
  __device__ void arrange(std::int32_t left_key, const TileWeighing& rule, std::int32_t largest) {
    const int threads = kEndThreads;
    const int candidates = first_cut();
    if (thread() == 0) memory_.cut_above = 0;
      // If a list contains any value of a tile, the list also contains the tile's largest value.
#pragma unroll 1
    for (int i = thread(); i < candidates; i += threads) {
      if (arrays_.key[i] == kEmptyTileKey) continue;
      atomicMax(&arrays_.tile_max[arrays_.id[i] / kTileSize], arrays_.key[i]);
    }
    if (thread() < task_.shards) {
      const int first = first_of(thread());
      memory_.above[thread()] =
          partition(0, task_.candidates, [&](int i) { return arrays_.key[first + i] > left_key; });
    }
    __syncthreads();
    const RowWeigher<kFromProbs> weigh(rule, largest);
#pragma unroll 1
    for (int i = thread(); i < places(); i += threads) {
      const std::int32_t key_ = arrays_.key[i];
      const bool counts = key_ > (i < candidates ? left_key : kEmptyTileKey);
      arrays_.weight[i] =
          counts ? weigh(from_order_key(key_), arrays_.tile_max[arrays_.id[i] / kTileSize])
                 : uint128_t{0};
      if (i >= candidates && key_ > left_key) {
        arrays_.cut[atomicAdd(&memory_.cut_above, 1)] = static_cast<std::uint16_t>(i);
      }
    }
    __syncthreads();
    size_ = memory_.cut_above;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) size_ += memory_.above[shard];
#pragma unroll 1
    for (int i = thread(); i < candidates + memory_.cut_above; i += threads) {
      int place_ = i;
      if (i >= candidates) {
        place_ = arrays_.cut[i - candidates];
      } else if (arrays_.key[i] <= left_key) {
        continue;
      }
      arrays_.order[rank(place_)] = static_cast<std::uint16_t>(place_);
    }
    __syncthreads();
    sum();
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  /// Returns the first number >= `begin` for which `passes` is false, or `end` if `passes` is true
  /// for all numbers. Precondition: all numbers for which `passes` is true precede all numbers for
  /// which `passes` is false.
  template <class Passes>
  __device__ static int partition(int begin, int end, const Passes& passes) {
#pragma unroll 1
    while (begin < end) {
      const int middle = (begin + end) / 2;
      if (passes(middle)) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }

  __device__ bool comes_first(int place_, int other) const {
    const std::int32_t mine = arrays_.key[place_];
    const std::int32_t theirs = arrays_.key[other];
    return mine > theirs || (mine == theirs && arrays_.id[place_] < arrays_.id[other]);
  }

  __device__ __forceinline__ int rank(int place_) const {
    int before = 0;
#pragma unroll 1
    for (int shard = 0; shard < task_.shards; ++shard) {
      const int first = first_of(shard);
      before +=
          partition(0, memory_.above[shard], [&](int i) { return comes_first(first + i, place_); });
    }
#pragma unroll 1
    for (int i = 0; i < memory_.cut_above; ++i) {
      before += comes_first(arrays_.cut[i], place_) ? 1 : 0;
    }
    return before;
  }

  /// Computes prefix sums over the ordered values; each thread has a run of consecutive values.
  __device__ void sum() {
    const int share = (size_ + kEndThreads - 1) / kEndThreads;
    const int begin = ::min(thread() * share, size_);
    const int end = ::min(begin + share, size_);
    uint128_t mine = 0;
#pragma unroll 1
    for (int i = begin; i < end; ++i) mine += arrays_.weight[arrays_.order[i]];
    uint128_t upto = BlockMasses(memory_.masses).prefix(mine).before;
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
      upto += arrays_.weight[arrays_.order[i]];
      arrays_.prefix[i] = upto;
    }
    __syncthreads();
  }

  const ShardedTask& task_;
  KnownArrays arrays_;
  Memory& memory_;
  int size_ = 0;
};

}  // namespace fairdraw::cuda
