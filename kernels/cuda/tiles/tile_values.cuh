// A row as tiles of 256 ids: how a warp reads one, wherever the row lies.
//
// Contract. Any dtype, stride and byte address; tiles are by token id, so that the address plays no
// part in what a tile holds. A warp reads a tile, each lane kLaneValues of it. Ids beyond the row
// come as what weighs nothing (-inf; of probabilities 0), and nothing beyond the row is read.
//
// Algorithm and cost. By vectors where the row is aligned to 16 bytes and a whole number of
// vectors: 2 loads a lane of float32, 1 of 16-bit types. By values otherwise: the 32 lanes side by
// side, 8 loads a lane, which costs the same bytes and a few more instructions. A row that is not
// even aligned to its values is read byte by byte. Bits of `allowed` are one load a tile, a word
// for each of 8 lanes, that goes where it is needed by shuffles.
#pragma once

#include <cstdint>

#include "common/minus_infinity.h"
#include "common/tile_weights.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/warp_sums.cuh"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Values of a tile that each lane has.
inline constexpr int kLaneValues = kTileSize / kWarp;
/// Words of a tile's bits.
inline constexpr int kTileWords = kTileSize / 32;

/// A tile's values in registers, as they lie in memory.
struct RawTile {
  std::uint32_t words[kLaneValues];  ///< 16-bit values by vectors: two in each of the first half
  std::uint32_t allowed;             ///< word (lane % 8) of the tile's bits, where there are any
};

/// Which ids of a tile a lane has.
enum class TileAccess {
  vectors,  ///< of each half of a tile (16-bit types: of the tile) neighbours, 16 bytes of them
  values,   ///< i-th value: id 32 i + lane
};

template <DType kType>
class TileRow {
 public:
  /// `empty_bits`: what is read beyond the row.
  __device__ TileRow(const RowsView& rows, const BitRows<const std::uint32_t>& allowed,
                     std::int64_t number, bool from_probs)
      : values_(RowValues::of(rows, number)),
        allowed_(allowed.given() ? allowed.data + number * allowed.row_stride : nullptr),
        vocab_(static_cast<int>(rows.vocab)),
        empty_bits_(from_probs ? 0 : minus_infinity_bits(kType)) {}

  __device__ int vocab() const { return vocab_; }
  __device__ int tiles() const { return (vocab_ + kTileSize - 1) / kTileSize; }
  __device__ bool is_masked() const { return allowed_ != nullptr; }
  __device__ bool has_vectors() const {
    return is_aligned(values_.bytes, kVectorBytes) && vocab_ % kPerVector == 0;
  }
  __device__ bool is_allowed(int token) const {
    return allowed_ == nullptr || ((allowed_[token / 32] >> (token % 32)) & 1U) != 0;
  }
  /// The float32 of a token's value.
  __device__ float operator[](int token) const { return float_of(values_.bits(token), kType); }

  /// Begins to read a tile; tile may be any number: beyond the row all is empty.
  template <TileAccess kAccess>
  __device__ __forceinline__ void load(int tile, RawTile& raw) const {
    if constexpr (kAccess == TileAccess::vectors) {
      load_vectors(tile, raw);
    } else {
      load_values(tile, raw);
    }
    if (allowed_ == nullptr) return;
    const int word = tile * kTileWords + lane() % kTileWords;
    raw.allowed = word < (vocab_ + 31) / 32 ? __ldg(allowed_ + word) : 0;
  }

  /// The values as float32.
  template <TileAccess kAccess>
  __device__ __forceinline__ static void convert(const RawTile& raw, float (&x)[kLaneValues]) {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if constexpr (kType == DType::float32) {
        x[i] = __uint_as_float(raw.words[i]);
      } else if constexpr (kAccess == TileAccess::values) {
        x[i] = float_of(raw.words[i], kType);
      } else if constexpr (kType == DType::bfloat16) {
        const std::uint32_t word = raw.words[i / 2];
        x[i] = __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
      } else {
        x[i] = float_of((raw.words[i / 2] >> (16 * (i % 2))) & 0xffffU, kType);
      }
    }
  }

  /// Bit i: whether this lane's i-th value is allowed. Of a row with bits; for the whole warp.
  template <TileAccess kAccess>
  __device__ __forceinline__ static std::uint32_t allowed_bits(const RawTile& raw) {
    if constexpr (kAccess == TileAccess::values) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const std::uint32_t word = __shfl_sync(kAllLanes, raw.allowed, i);
        bits |= ((word >> lane()) & 1U) << i;
      }
      return bits;
    } else if constexpr (kType == DType::float32) {
      const int shift = 4 * lane() % 32;
      const std::uint32_t first = __shfl_sync(kAllLanes, raw.allowed, lane() / 8);
      const std::uint32_t second = __shfl_sync(kAllLanes, raw.allowed, lane() / 8 + 4);
      return ((first >> shift) & 0xfU) | (((second >> shift) & 0xfU) << 4);
    } else {
      const std::uint32_t word = __shfl_sync(kAllLanes, raw.allowed, lane() / 4);
      return (word >> (8 * (lane() % 4))) & 0xffU;
    }
  }

  /// Id of this lane's i-th value in its tile.
  template <TileAccess kAccess>
  __device__ __forceinline__ static int place(int i) {
    if constexpr (kAccess == TileAccess::values) {
      return kWarp * i + lane();
    } else if constexpr (kType == DType::float32) {
      return kTileSize / 2 * (i / 4) + 4 * lane() + i % 4;
    } else {
      return kLaneValues * lane() + i;
    }
  }

 private:
  static constexpr int kVectorBytes = 16;
  static constexpr int kPerVector = kType == DType::float32 ? 4 : 8;
  static constexpr int kVectors = kLaneValues / kPerVector;  // of a lane

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  __device__ __forceinline__ void load_vectors(int tile, RawTile& raw) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int token = tile * kTileSize + (v * kWarp + lane()) * kPerVector;
      const std::uint32_t empty =
          kType == DType::float32 ? empty_bits_ : empty_bits_ | (empty_bits_ << 16);
      uint4 vector = make_uint4(empty, empty, empty, empty);
      if (token < vocab_) {
        vector = read_once(reinterpret_cast<const uint4*>(values_.bytes) + token / kPerVector);
      }
      raw.words[4 * v] = vector.x;
      raw.words[4 * v + 1] = vector.y;
      raw.words[4 * v + 2] = vector.z;
      raw.words[4 * v + 3] = vector.w;
    }
  }

  __device__ __forceinline__ void load_values(int tile, RawTile& raw) const {
    if (!values_.aligned) {
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        raw.words[i] =
            bits_by_bytes(values_, tile * kTileSize + kWarp * i + lane(), vocab_, empty_bits_);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const int token = tile * kTileSize + kWarp * i + lane();
      raw.words[i] = empty_bits_;
      if (token >= vocab_) continue;
      if constexpr (kType == DType::float32) {
        raw.words[i] = __ldg(reinterpret_cast<const std::uint32_t*>(values_.bytes) + token);
      } else {
        raw.words[i] = __ldg(reinterpret_cast<const std::uint16_t*>(values_.bytes) + token);
      }
    }
  }

  /// Arguments by value: `values` stays in registers.
  __device__ __noinline__ static std::uint32_t bits_by_bytes(RowValues values, int token, int vocab,
                                                             std::uint32_t empty_bits) {
    return token < vocab ? values.bits(token) : empty_bits;
  }

  /// Not kept in L1: no other warp reads it. L2 keeps it: some tiles are read again.
  __device__ __forceinline__ static uint4 read_once(const uint4* at) {
    uint4 vector;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
        : "l"(at));
    return vector;
  }

  RowValues values_;
  const std::uint32_t* allowed_;  ///< null: all are
  int vocab_;
  std::uint32_t empty_bits_;
};

/// Reads tiles tile_of(first), tile_of(first + step), ... below `count`, kInFlight at a time: calls
/// prepare() once, when the first ones are on their way, and visit(tile, raw) for each. tile_of may
/// say -1: nothing to read there, and no visit. For a whole warp, all lanes with the same numbers.
template <TileAccess kAccess, int kInFlight, DType kType, class TileOf, class Prepare, class Visit>
__device__ __forceinline__ void visit_tiles(const TileRow<kType>& row, int first, int count,
                                            int step, const TileOf& tile_of, const Prepare& prepare,
                                            const Visit& visit) {
  bool prepared = false;
  for (int begin = first;; begin += kInFlight * step) {
    RawTile raw[kInFlight];
    int tiles[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      const int number = begin + i * step;
      tiles[i] = number < count ? tile_of(number) : -1;
      if (tiles[i] >= 0) row.template load<kAccess>(tiles[i], raw[i]);
    }
    if (!prepared) prepare();
    prepared = true;
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (tiles[i] >= 0) visit(tiles[i], raw[i]);
    }
    if (begin + kInFlight * step >= count) return;
  }
}

}  // namespace fairdraw::cuda
