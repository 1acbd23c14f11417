// List of the values of a row that are at least a bound, in the order of token ids, in shared
// memory.
//
// Of the row, only groups of ids whose largest value may reach the bound are read again; the keys
// of the groups are in shared memory (group_keys.cuh). These groups are listed first: each warp
// counts the groups of consecutive tiles, two tiles per lane, and after a barrier writes the groups
// to their places in the list. Then all threads read the listed groups in quads of four
// values, with several loads in flight. They count the values that reach the bound, and after a
// barrier write these values to their places. So the threads share the work evenly for any
// distribution of the values, the list has no gaps, and the list overflows only if the row as a
// whole has too many candidates. Values beyond the list's capacity are counted, but never written.
//
// A quad is four consecutive ids that begin at a multiple of 4, at any address. A quad takes one
// load of 16 bytes (for 16-bit types, 8 bytes) if the row is aligned to that size and consists of
// whole quads, and then no branch separates the loads of several quads. In other rows, a quad is
// read value by value.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/device/block_masses.cuh"
#include "cuda/rows/tile_values.cuh"
#include "cuda/tiles/group_keys.cuh"

namespace fairdraw::cuda {

inline constexpr int kQuad = 4;
inline constexpr int kQuadsOfTile = kTileSize / kQuad;

template <RowForm kForm>
class RowQuads {
 public:
  /// Takes a row.
  __device__ __forceinline__ explicit RowQuads(const RowOfTiles<kForm>& row)
      : values_(row.values()), edits_(row.edits()), allowed_(row.allowed()), vocab_(row.vocab()) {
    values_.dtype = kForm.type;
  }

  __device__ int vocab() const { return vocab_; }
  __device__ bool has_vectors() const {
    if (kForm.access == TileAccess::vectors) return true;
    return is_aligned(values_.bytes, kQuad * value_size(kForm.type)) && vocab_ % kQuad == 0;
  }

  /// Quad in the form in which it was loaded: the bits of its values (after vector loads of 16-bit
  /// types, two values in each even word), and the words that contain the allowed and edited bits
  /// of the quad.
  struct Raw {
    std::uint32_t bits[kQuad];
    std::uint32_t allowed, edited;
  };

  /// Starts to load the ids from `first` to first + 3; kVectors must be has_vectors().
  template <bool kVectors>
  __device__ __forceinline__ void load(int first, Raw& raw) const {
    if constexpr (kVectors) {
      load_vector(first, raw.bits);
    } else {
      load_value_bits<kForm.type, 1>(values_.bytes + std::int64_t{first} * value_size(kForm.type),
                                     values_.aligned, vocab_ - first, 0, raw.bits);
    }
    raw.allowed = 0xffffffffU;
    raw.edited = 0;
    if (first >= vocab_) return;
    const unsigned word = static_cast<unsigned>(first) / 32U;
    if (allowed_ != nullptr) raw.allowed = allowed_[word];
    if (edits_.edited != nullptr) raw.edited = edits_.edited[word];
  }

  /// Converts a quad to its values, with -inf for ids that are banned or beyond the vocabulary.
  template <bool kVectors>
  __device__ __forceinline__ void convert(int first, const Raw& raw, float (&x)[kQuad]) const {
    constexpr bool kPairs = kVectors && kForm.type != DType::float32;
    const unsigned place = static_cast<unsigned>(first) % 32U;
    const std::uint32_t allowed = raw.allowed >> place;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const bool counts = ((allowed >> i) & 1U) != 0 && first + i < vocab_;
      const std::uint32_t bits =
          kPairs ? (raw.bits[i - i % 2] >> (16 * (i % 2))) & 0xffffU : raw.bits[i];
      x[i] = counts ? float_of(bits, kForm.type) : -INFINITY;
    }
    const std::uint32_t edited = allowed & (raw.edited >> place) & ((1U << kQuad) - 1U);
    if (edited == 0) return;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      if (((edited >> i) & 1U) != 0) x[i] = edits_.values[first + i];
    }
  }

  /// Reads a quad in rarely executed code, where a single instance serves vector loads and scalar
  /// loads.
  __device__ __forceinline__ void load_any(int first, float (&x)[kQuad]) const {
    Raw raw;
    if (has_vectors()) {
      load<true>(first, raw);
      convert<true>(first, raw, x);
    } else {
      load<false>(first, raw);
      convert<false>(first, raw, x);
    }
  }

 private:
  /// Loads a quad. The load is volatile, because the compiler would otherwise move loads behind the
  /// uses of earlier loads to save registers. For a quad beyond the vocabulary, the first quad of
  /// the row is loaded instead, but not used.
  __device__ __forceinline__ void load_vector(int first, std::uint32_t (&bits)[kQuad]) const {
    const auto quad = static_cast<unsigned>(first < vocab_ ? first : 0) / kQuad;
    if constexpr (kForm.type == DType::float32) {
      asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
                   : "l"(reinterpret_cast<const uint4*>(values_.bytes) + quad));
    } else {
      asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];"
                   : "=r"(bits[0]), "=r"(bits[2])
                   : "l"(reinterpret_cast<const uint2*>(values_.bytes) + quad));
    }
  }

  RowValues values_;
  RowEdits edits_;
  const std::uint32_t* allowed_;  ///< allowed bits, or null if all tokens are allowed
  int vocab_;
};

/// Weight in two parts of 52 bits, so that sums of a few hundred weights need no carry between the
/// parts.
struct alignas(16) RankedWeight {
  static constexpr int kBits = 52;

  std::uint64_t low, high;

  __device__ __forceinline__ static RankedWeight of(uint128_t weight) {  // `weight` is below 2^104
    return {static_cast<std::uint64_t>(weight) & ((std::uint64_t{1} << kBits) - 1),
            static_cast<std::uint64_t>(weight >> kBits)};
  }
  __device__ __forceinline__ uint128_t sum() const {
    return low + (static_cast<uint128_t>(high) << kBits);
  }
};

/// List of a row's candidates, in shared memory.
struct CandidateList {
  static constexpr int kMax = 7 * kEndThreads;
  static constexpr int kMaxGroups = 2048;
  static constexpr int kBins = 4 * kEndThreads;
  static constexpr int kKeysAtOnce = 4;  ///< number of keys that a thread reads with one load

  /// Keys of the listed values (order_key), followed by smaller keys up to the next multiple of
  /// kKeysAtOnce.
  alignas(16) std::int32_t key[kMax + kKeysAtOnce];
  std::int32_t id[kMax];
  int listed;  ///< number of values that reach the bound; if the number is above kMax, the list
               ///< does not have all of them
  alignas(16) int count[2][kEndWarps];  ///< one count per step and warp; the steps alternate
                                        ///< between the two arrays
  union {                               // no two members are used at the same time
    std::uint16_t group[kMaxGroups];    ///< groups of ids that may have a value that reaches the
                                        ///< bound
    RankedWeight ranked[kEndThreads];   ///< weights of the candidates if the list is short
    alignas(16) unsigned bins[kBins];   ///< units of a bracket's tokens (threshold_pass.cuh)
    struct {
      std::uint64_t of_tile[kMax];
      std::int8_t shift[kMax];
    } weight;  ///< weights of the candidates if the list is long (row_weigher.cuh)
  };

  struct Size {
    int total;
    bool overflow;
  };
  __device__ Size size() const { return {listed, listed > kMax}; }

  struct Entry {
    std::int32_t key;
    int id;
  };
  /// Returns the list entry at position `number`, which must be below the number of entries.
  __device__ Entry entry(int number) const { return {key[number], id[number]}; }
};

/// Position in the list at which a warp's entries begin, and the number of entries of all warps.
struct WarpShare {
  int before, total;
};

/// Assigns places in the list to the warps, of which each needs `mine` places. The function needs
/// only one barrier, because calls alternate between two arrays of counts.
__device__ __forceinline__ WarpShare share_of_warp(int (&counts)[kEndWarps], int mine) {
  if (lane_of_thread() == 0) counts[warp_of_thread()] = mine;
  sync_end();
  WarpShare share{0, 0};
#pragma unroll
  for (int warp = 0; warp < kEndWarps; ++warp) {
    share.before += warp < warp_of_thread() ? counts[warp] : 0;
    share.total += counts[warp];
  }
  return share;
}

/// Lists the groups that may reach the bound in the order of their ids, and returns their number.
/// If there are more than kMaxGroups such groups, the others are only counted. The function has one
/// barrier at its end, and one per 512 tiles.
template <bool kFromProbs>
__device__ __forceinline__ int list_groups(CandidateList& list, const RowIndex& index,
                                           const GroupKeys& groups, std::int32_t bound) {
  const __half2 reached = GroupCode::pair_of(GroupCode::of<kFromProbs>(bound));
  const auto reaching = [&](int tile) {
    return tile < index.tiles && index.keys[tile] >= bound ? groups.reaching(tile, reached) : 0U;
  };
  const auto write = [&](int tile, unsigned bits, int at) {
#pragma unroll 1
    for (; bits != 0 && at < CandidateList::kMaxGroups; bits &= bits - 1) {
      list.group[at++] = static_cast<std::uint16_t>(tile * groups.groups_of_tile() +
                                                    __ffs(static_cast<int>(bits)) - 1);
    }
  };
  int listed = 0;
  int turn = 0;
#pragma unroll 1
  for (int first = 0; first < index.tiles; first += 2 * kEndThreads) {
    const int tile = first + 2 * warp_of_thread() * kWarp + lane_of_thread();
    const unsigned bits = reaching(tile);
    const unsigned more_bits = reaching(tile + kWarp);
    const auto hits = static_cast<unsigned>(__popc(bits) + (__popc(more_bits) << 16));
    const unsigned upto = warp_inclusive_sum(hits);
    const unsigned all = __shfl_sync(kAllLanes, upto, kWarp - 1);
    const unsigned before = upto - hits;
    const auto of_tiles = static_cast<int>(all & 0xffffU);
    const WarpShare share = share_of_warp(list.count[turn], of_tiles + static_cast<int>(all >> 16));
    turn ^= 1;
    const int place = listed + share.before;
    listed += share.total;
    write(tile, bits, place + static_cast<int>(before & 0xffffU));
    write(tile + kWarp, more_bits, place + of_tiles + static_cast<int>(before >> 16));
  }
  sync_end();
  return listed;
}

/// Stores a value in shared memory if a condition holds, without a branch.
__device__ __forceinline__ void store_shared_if(bool condition, std::int32_t* at,
                                                std::int32_t value) {
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p st.shared.u32 [%0], %1;\n\t}" ::"r"(
          static_cast<unsigned>(__cvta_generic_to_shared(at))),
      "r"(value), "r"(condition ? 1U : 0U)
      : "memory");
}

/// Number of values that reach a bound in each quad of a lane, with one byte per quad.
template <int kQuads>
struct QuadHits {
  static constexpr int kWords = (kQuads + 3) / 4;
  std::uint32_t counts[kWords] = {};

  __device__ __forceinline__ void add(int quad, unsigned hits) {
    counts[quad / 4] += hits << (8 * (quad % 4));
  }
  __device__ __forceinline__ int of(int quad) const {
    return static_cast<int>((counts[quad / 4] >> (8 * (quad % 4))) & 0xffU);
  }
  /// Returns the prefix sums over the lanes up to and including this lane. A byte counts at most 32
  /// * 4 values, so it does not overflow.
  __device__ __forceinline__ QuadHits inclusive_sum() const {
    QuadHits sum;
#pragma unroll
    for (int i = 0; i < kWords; ++i) sum.counts[i] = warp_inclusive_sum(counts[i]);
    return sum;
  }
  __device__ __forceinline__ QuadHits of_lane(int lane) const {
    QuadHits other;
#pragma unroll
    for (int i = 0; i < kWords; ++i) other.counts[i] = __shfl_sync(kAllLanes, counts[i], lane);
    return other;
  }
};

/// Reads the listed groups, lists the values that reach the bound, and returns the number of these
/// values; each thread reads kAtOnce quads between two barriers. All loads are issued before the
/// first loaded value is used, because the loads take longer than all other work.
template <bool kVectors, int kAtOnce, RowForm kForm>
__device__ __forceinline__ int append_candidates(CandidateList& list, const RowQuads<kForm>& row,
                                                 int groups, int group_log2, std::int32_t bound) {
  constexpr int kQuadLog2 = 2;
  static_assert(1 << kQuadLog2 == kQuad);
  const int quads_log2 = group_log2 - kQuadLog2;
  const float from = from_order_key(bound);
  const int quads = groups << quads_log2;
  int listed = 0;
  int turn = 0;
#pragma unroll 1
  for (int first = 0; first < quads; first += kAtOnce * kEndThreads) {
    const int of_warp = min(kAtOnce, (quads - first + kEndThreads - 1) / kEndThreads) * kWarp;
    const int begin = first + warp_of_thread() * of_warp;
    const int end = min(begin + of_warp, quads);
    typename RowQuads<kForm>::Raw raw[kAtOnce];
    int id[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int quad = begin + i * kWarp + lane_of_thread();
      const int group = list.group[min(quad, quads - 1) >> quads_log2];
      const int in_group = quad & ((1 << quads_log2) - 1);
      id[i] = quad < end ? (group << group_log2) + in_group * kQuad : row.vocab();
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) row.template load<kVectors>(id[i], raw[i]);
    float x[kAtOnce][kQuad];
    QuadHits<kAtOnce> hits;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      row.template convert<kVectors>(id[i], raw[i], x[i]);
#pragma unroll
      for (const float value : x[i]) hits.add(i, value >= from ? 1U : 0U);
    }
    const QuadHits<kAtOnce> upto = hits.inclusive_sum();
    const QuadHits<kAtOnce> of_quads = upto.of_lane(kWarp - 1);
    int in_warp = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) in_warp += of_quads.of(i);
    const WarpShare share = share_of_warp(list.count[turn], in_warp);
    turn ^= 1;
    int before = listed + share.before;
    listed += share.total;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int place = before + upto.of(i) - hits.of(i);
      before += of_quads.of(i);
#pragma unroll
      for (int j = 0; j < kQuad; ++j) {
        const bool hit = x[i][j] >= from;
        const int slot = min(place, CandidateList::kMax - 1);
        const bool fits = hit && place < CandidateList::kMax;
        store_shared_if(fits, &list.key[slot], order_key(x[i][j]));
        store_shared_if(fits, &list.id[slot], id[i] + j);
        place += hit ? 1 : 0;
      }
    }
  }
  return listed;
}

/// Lists the row's values that are at least from_order_key(bound). All threads that finish the row
/// must call this function. Threads may read the list after the next barrier.
template <RowForm kForm, bool kFromProbs>
__device__ __forceinline__ void list_candidates(CandidateList& list, const RowQuads<kForm>& row,
                                                const RowIndex& index, const GroupKeys& keys,
                                                std::int32_t bound) {
  const int groups = list_groups<kFromProbs>(list, index, keys, bound);
  int listed = groups > CandidateList::kMaxGroups ? INT_MAX : 0;
  if (listed == 0) {
    constexpr int kFew = 2;
    const int quads = groups << keys.group_log2() >> 2;
    if (!row.has_vectors()) {
      listed = append_candidates<false, kFew>(list, row, groups, keys.group_log2(), bound);
    } else if (quads <= kFew * kEndThreads) {
      listed = append_candidates<true, kFew>(list, row, groups, keys.group_log2(), bound);
    } else {
      listed = append_candidates<true, 4>(list, row, groups, keys.group_log2(), bound);
    }
  }
  if (threadIdx.x == 0) list.listed = listed;
  if (threadIdx.x < CandidateList::kKeysAtOnce && listed <= CandidateList::kMax) {
    list.key[listed + static_cast<int>(threadIdx.x)] = INT_MIN;
  }
}

}  // namespace fairdraw::cuda
