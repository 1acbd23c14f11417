// Index of a row for top_k that is finer than the index by tiles: the largest values of groups of
// 16 or 32 ids, with 9 or 11 bits of precision.
//
// Contract. The key of a group is the group's largest value as float16, rounded toward 0. For
// probabilities, the key has the exponent and 8 more bits of the value's float32, counted from
// 2^-124, because the softmax of a peaked row spreads its k largest values over more octaves than
// float16 has. Keys increase with the value, so a group may have a value that reaches a bound only
// if the group's key is at least the key of the bound. Conversely, some value of the group is at
// least lower_bound(key), and exceeds it by less than a 2^-10 part (for probabilities up to 1, a
// 2^-8 part).
//
// Groups have 16 ids in rows of up to 640 tiles, and 32 ids in longer rows. The keys of a row take
// at most 20 KB up to 640 tiles and 64 KB for 2^20 ids, so that two blocks with their ring buffers
// fit on an SM.
//
// A word has the keys of two groups that are half a tile apart, as in the lanes of the pass, so
// that one comparison handles two keys. The words are arranged so that lanes have no bank conflicts
// when each lane reads 16 bytes of one of several consecutive tiles.
#pragma once

#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/rows/tile_values.cuh"
#include "cuda/tiles/row_index.cuh"

namespace fairdraw::cuda {

/// Codes of group keys: integers in the order of the values, as order_key is for float32. The keys
/// of probabilities are compared as if they were float16 values, because float16 values that are
/// not negative have the order of their bits.
struct GroupCode {
  static constexpr std::int32_t kLargest = 0x7bff;  ///< code of 65504 (for probabilities, of 1) and
                                                    ///< of everything larger
  static constexpr std::int32_t kSmallest = -kLargest;

  template <bool kFromProbs>
  __device__ __forceinline__ static std::int32_t of(std::int32_t key) {
    const std::uint32_t word = word_of<kFromProbs>(from_order_key(key), 0.0F);
    const auto bits = static_cast<std::int32_t>(word & 0xffffU);
    return bits < 0x8000 ? bits : 0x8000 - bits;
  }

  /// Returns an order_key that every group with a given key reaches with some value, or `lowest` if
  /// there is no such order_key.
  template <bool kFromProbs>
  __device__ __forceinline__ static std::int32_t lower_bound(std::int32_t code,
                                                             std::int32_t lowest) {
    if (code == kSmallest || (kFromProbs && code <= 0)) return lowest;
    if constexpr (kFromProbs) {  // the order_key of a value that is not negative equals the value's
                                 // bits
      return (min(code, kLargest) + kFirstCode) << kDroppedBits;
    }
    // A negative value that was rounded up, toward 0, is larger than the next smaller float16. For
    // negative values that overflowed float16, the lower bound is -inf.
    const auto bits = static_cast<unsigned short>(code > 0 ? min(code, kLargest) : 0x8001 - code);
    return order_key(__half2float(__ushort_as_half(bits)));
  }

  /// Returns a pair of two equal keys, with which two keys are compared at once.
  __device__ __forceinline__ static __half2 pair_of(std::int32_t code) {
    const auto bits = static_cast<unsigned short>(code >= 0 ? code : 0x8000 - code);
    return __half2half2(__ushort_as_half(bits));
  }

  /// Returns a word with the keys of two values.
  template <bool kFromProbs>
  __device__ __forceinline__ static std::uint32_t word_of(float low, float high) {
    if constexpr (kFromProbs) return code_of(low) | (code_of(high) << 16);
    const __half2 pair = __halves2half2(__float2half_rz(low), __float2half_rz(high));
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }

 private:
  static constexpr int kDroppedBits = 15;  ///< of a fraction's 23 bits
  /// First code, chosen so that a probability of 1 has the code kLargest. Values below 2^-124 have
  /// code 0.
  static constexpr std::int32_t kFirstCode = (0x3f800000 >> kDroppedBits) - kLargest;

  /// Returns the code of a probability; NaN and negative values, which make their row fail, may get
  /// any code.
  __device__ __forceinline__ static std::uint32_t code_of(float probability) {
    const std::int32_t code =
        (std::bit_cast<std::int32_t>(probability) >> kDroppedBits) - kFirstCode;
    return static_cast<std::uint32_t>(min(max(code, 0), kLargest));
  }
};

__device__ __forceinline__ __half2 half_pair(std::uint32_t word) {
  return *reinterpret_cast<const __half2*>(&word);
}
__device__ __forceinline__ std::uint32_t larger_keys(std::uint32_t a, std::uint32_t b) {
  const __half2 larger = __hmax2(half_pair(a), half_pair(b));
  return *reinterpret_cast<const std::uint32_t*>(&larger);
}

class GroupKeys {
 public:
  __host__ __device__ static constexpr int words_log2(std::int64_t tiles) {
    return tiles <= kMaxTilesOfSmallGroups ? 3 : 2;
  }
  __host__ __device__ static constexpr int bytes(std::int64_t tiles) {
    return static_cast<int>(tiles) << (words_log2(tiles) + 2);
  }

  /// `memory` has bytes(tiles) bytes, and its address is a multiple of 16.
  __device__ GroupKeys(unsigned char* memory, int tiles)
      : words_(reinterpret_cast<std::uint32_t*>(memory)), log_(words_log2(tiles)) {}

  __device__ int groups_of_tile() const { return 2 << log_; }
  /// Returns the base-2 logarithm of the number of ids per group.
  __device__ int group_log2() const { return 7 - log_; }

  /// Returns a word in which bit g is set if group g of the tile may have a value that reaches the
  /// bound with key `pair`.
  __device__ __forceinline__ unsigned reaching(int tile, const __half2& pair) const {
    unsigned bits = 0;
#pragma unroll
    for (int chunk = 0; chunk < kMaxChunks; ++chunk) {
      if (chunk >= chunks()) continue;
      std::uint32_t words[4];
      load(tile, chunk, words);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        bits |= __hge2_mask(half_pair(words[i]), pair) & (0x10001U << (4 * chunk + i));
      }
    }
    const unsigned first_half = bits & 0xffffU;
    return first_half | ((bits >> 16) << (1 << log_));
  }

  /// Calls visit(word), with two keys per word, for all groups of a tile or for all pairs of
  /// adjacent groups.
  template <class Visit>
  __device__ __forceinline__ void for_each_word(int tile, bool in_pairs, const Visit& visit) const {
#pragma unroll
    for (int chunk = 0; chunk < kMaxChunks; ++chunk) {
      if (chunk >= chunks()) continue;
      std::uint32_t words[4];
      load(tile, chunk, words);
      if (in_pairs) {
        visit(larger_keys(words[0], words[1]));
        visit(larger_keys(words[2], words[3]));
      } else {
#pragma unroll
        for (const std::uint32_t word : words) visit(word);
      }
    }
  }

  /// Sends the keys of a tile's groups to the row's first block; a warp must have the tile's
  /// values, without banned values, in registers.
  template <RowForm kForm, bool kFromProbs>
  __device__ __forceinline__ void send(const RowCluster& cluster, int tile,
                                       const float (&x)[kLaneValues]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const auto word_of = [](float low, float high) {
      return GroupCode::word_of<kFromProbs>(low, high);
    };
    const auto with_lane = [](std::uint32_t word, int distance) {
      return larger_keys(word, __shfl_xor_sync(kAllLanes, word, distance));
    };
    if constexpr (kForm.access == TileAccess::values) {  // each group consists of the values of 16
                                                         // or 32 lanes
      static_assert(kLaneValues == 8);
      const auto word = [&](int i) { return word_of(x[i], x[i + kLaneValues / 2]); };
      // In each exchange, a lane keeps one of two words for both lanes of a pair, so that four
      // words take few exchanges.
      const auto kept = [&](bool second, std::uint32_t a, std::uint32_t b, int distance) {
        const std::uint32_t theirs = __shfl_xor_sync(kAllLanes, second ? a : b, distance);
        return larger_keys(second ? b : a, theirs);
      };
      const bool odd = (lane & 1) != 0;
      const std::uint32_t first_two = kept(odd, word(0), word(1), 1);
      const std::uint32_t last_two = kept(odd, word(2), word(3), 1);
      std::uint32_t mine = kept((lane & 2) != 0, first_two, last_two, 2);  // word(lane % 4)
      mine = with_lane(with_lane(mine, 4), 8);
      if (log_ < 3) mine = with_lane(mine, 16);
      if ((lane & ((1 << group_log2()) - 1)) < kLaneValues / 2) {
        *cluster.at(at(tile, (lane % 4 * kWarp + lane) >> group_log2()), 0) = mine;
      }
    } else if constexpr (kForm.type == DType::float32) {  // a lane has four consecutive ids of each
                                                          // half of the tile, so a group has 4 or 8
                                                          // lanes
      std::uint32_t word = word_of(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])),
                                   fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
      word = with_lane(with_lane(word, 1), 2);
      if (log_ < 3) word = with_lane(word, 4);
      const int lanes_log = 5 - log_;
      if ((lane & ((1 << lanes_log) - 1)) == 0) {
        *cluster.at(at(tile, lane >> lanes_log), 0) = word;
      }
    } else {  // a lane has consecutive ids, so a group has 2 or 4 lanes; half a tile has 16 lanes
      const float largest = fmaxf(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])),
                                  fmaxf(fmaxf(x[4], x[5]), fmaxf(x[6], x[7])));
      std::uint32_t word = word_of(largest, __shfl_xor_sync(kAllLanes, largest, kWarp / 2));
      word = with_lane(word, 1);
      if (log_ < 3) word = with_lane(word, 2);
      const int lanes_log = 4 - log_;
      if (lane < kWarp / 2 && (lane & ((1 << lanes_log) - 1)) == 0) {
        *cluster.at(at(tile, lane >> lanes_log), 0) = word;
      }
    }
  }

 private:
  static constexpr std::int64_t kMaxTilesOfSmallGroups = 640;
  static constexpr int kMaxChunks = 2;

  /// Returns the number of 16-byte chunks of a tile.
  __device__ int chunks() const { return 1 << (log_ - 2); }
  /// Returns the position of a 16-byte chunk of a tile. Groups of eight lanes read 16 bytes per
  /// lane at once, so the chunks of 8 consecutive tiles must be in different banks.
  __device__ __forceinline__ int place_of(int tile, int chunk) const {
    return chunk ^ ((tile >> (5 - log_)) & (chunks() - 1));
  }
  __device__ __forceinline__ std::uint32_t* at(int tile, int word) const {
    return words_ + (tile << log_) + place_of(tile, word / 4) * 4 + word % 4;
  }
  __device__ __forceinline__ void load(int tile, int chunk, std::uint32_t (&words)[4]) const {
    const uint4 raw =
        *reinterpret_cast<const uint4*>(words_ + (tile << log_) + place_of(tile, chunk) * 4);
    words[0] = raw.x;
    words[1] = raw.y;
    words[2] = raw.z;
    words[3] = raw.w;
  }

  std::uint32_t* words_;
  int log_;  ///< base-2 logarithm of the number of words per tile
};

}  // namespace fairdraw::cuda
