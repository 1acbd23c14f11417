// Row as a sequence of tiles of 256 ids, which a warp reads from any address.
//
// Contract. Any dtype, stride and byte address are supported. Tiles are defined by token ids, so
// the content of a tile does not depend on the row's address. A warp reads a tile, of which each
// lane reads kLaneValues values. Ids beyond the end of the row get a value of weight 0 (-inf, or 0
// for probabilities), and no memory beyond the row is read.
//
// Algorithm and cost. Rows are read by vectors if all rows of a call are aligned to 16 bytes and
// consist of whole vectors (access_of in tile_launch.cuh). Other rows have kernels of their own,
// because code for both ways of reading in one kernel takes more registers and instructions. A lane
// copies 2 vectors of float32, or 1 vector of a 16-bit type, into a ring buffer in shared memory
// that holds the warp's next tiles (TileRing), so that values in flight occupy no registers. A
// thread reads only values that it has copied itself, so no barrier is needed. In calls with many
// rows, the number of instructions limits the speed. So reading a whole tile takes only about 20
// instructions: an address takes one multiplication, and only the last, partial tile of a row has
// bounds checks. Rows that vectors cannot read are read value by value: the 32 lanes read
// consecutive ids, with 8 loads per lane into registers, while the next tiles are prefetched into
// L2. If the address of a row is not aligned to the size of its values, the row is read byte by
// byte. Each lane loads at most one word of the bits of `allowed`, and shuffles give the words to
// the lanes that need them.
//
// In a processed row (edit_planes.h), the caller's values are read first, at a time when edit_rows
// may still run. Then alternate groups of 8 lanes read the bits of allowed tokens and the bits of
// edited tokens, and finally the few edited values are read when they are needed (TilePass).
#pragma once

#include <cstdint>

#include "common/minus_infinity.h"
#include "common/tile_weights.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/warp_sums.cuh"
#include "cuda/rows/edit_planes.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Number of values of a tile that each lane has.
inline constexpr int kLaneValues = kTileSize / kWarp;
/// Number of words that the bits of a tile take.
inline constexpr int kTileWords = kTileSize / 32;

/// Values of a tile in registers, in the same form as in memory.
struct RawTile {
  std::uint32_t words[kLaneValues];  ///< for 16-bit values read by vectors, each of the first half
                                     ///< of the words has two values
  /// Word (lane % 8) of the tile's allowed bits, if the row has allowed bits. In a processed row,
  /// lanes 0 to 7 have the words of allowed bits, lanes 8 to 15 the words of edited bits, and so on
  /// in turn.
  std::uint32_t allowed;
  int tile;
};

/// Assignment of the ids of a tile to lanes.
enum class TileAccess {
  vectors,  ///< each lane has 16 bytes of consecutive ids in each half of the tile (for 16-bit
            ///< types, in the whole tile)
  values,   ///< the i-th value of a lane has the id 32 i + lane
};

/// Form of rows for which a kernel is compiled.
struct RowForm {
  DType type;
  TileAccess access;
};

/// A row that warps read tile by tile.
template <RowForm kForm>
class RowOfTiles {
 public:
  /// Takes a row. `edits` has the edits of a call with logits processing, which replace `allowed`.
  __device__ RowOfTiles(const RowsView& rows, const BitRows<const std::uint32_t>& allowed,
                        std::int64_t number, bool from_probs, const EditPlanes& edits = {})
      : values_(RowValues::of(rows, number)),
        edits_(edits.of(number)),
        allowed_(edits.given()     ? edits_.allowed
                 : allowed.given() ? allowed.data + number * allowed.row_stride
                                   : nullptr),
        is_masked_(allowed_ != nullptr),
        vocab_(static_cast<int>(rows.vocab)),
        empty_bits_(from_probs ? 0 : minus_infinity_bits(kForm.type)) {}

  RowOfTiles() = default;  // for a row in shared memory that is set later

  __device__ const RowValues& values() const { return values_; }
  __device__ const RowEdits& edits() const { return edits_; }
  /// Returns the words of allowed bits, or null if all tokens are allowed.
  __device__ const std::uint32_t* allowed() const { return allowed_; }
  __device__ int vocab() const { return vocab_; }
  __device__ int tiles() const { return (vocab_ + kTileSize - 1) / kTileSize; }
  /// Returns the number of complete tiles, which do not include a partial last tile.
  __device__ int whole_tiles() const { return vocab_ / kTileSize; }
  __device__ bool is_masked() const { return is_masked_; }
  /// Returns whether the row has edits of logits processing. Every processed row is also masked.
  __device__ bool is_processed() const { return edits_.edited != nullptr; }
  /// Loads the values of a tile one by one.
  __device__ __forceinline__ void load(int tile, RawTile& raw) const {
    raw.tile = tile;
    load_values<kWarp>(tile * kTileSize + lane(), raw.words);
  }
  /// Prefetches a tile's values into L2.
  __device__ __forceinline__ void prefetch(int tile) const {
    constexpr int kLine = 128 / static_cast<int>(value_size(kForm.type));  // number of values per
                                                                           // cache line
    const int token = tile * kTileSize + lane() * kLine;
    if (lane() * kLine >= kTileSize || token >= vocab_) return;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(values_.bytes + token * value_size(kForm.type)));
  }
  __device__ __forceinline__ void load_bits(int tile, RawTile& raw) const {
    if (!is_masked_) return;
    const int word = word_of(tile);
    raw.allowed = word < words() ? bit_words()[word] : 0;
  }

  /// Returns the index of the word of bits that this lane reads for a tile. The caller must check
  /// that this word exists.
  __device__ static int word_of(int tile) { return tile * kTileWords + lane() % kTileWords; }
  __device__ int words() const { return (vocab_ + 31) / 32; }
  /// Returns the array of bits that this lane reads, which has allowed bits or edited bits.
  __device__ const std::uint32_t* bit_words() const {
    return is_processed() && lane() / kTileWords % 2 == 1 ? edits_.edited : allowed_;
  }

  static constexpr int kPerVector = kForm.type == DType::float32 ? 4 : 8;
  static constexpr int kVectors = kLaneValues / kPerVector;  // vectors of a lane

  /// Returns the first id of one of the lane's vectors.
  __device__ static int token_of(int tile, int vector) {
    return tile * kTileSize + (vector * kWarp + lane()) * kPerVector;
  }
  /// Returns the address of one of the lane's vectors, in a row that is read by vectors.
  __device__ const uint4* vector_at(int tile, int vector) const {
    return reinterpret_cast<const uint4*>(values_.bytes) + lane() +
           static_cast<unsigned>(tile) * (kVectors * kWarp) + vector * kWarp;
  }
  __device__ bool has_vector(int tile, int vector) const { return token_of(tile, vector) < vocab_; }
  /// Returns the vector that takes the place of values beyond the end of the row.
  __device__ uint4 empty_vector() const {
    const std::uint32_t word = empty_word();
    return make_uint4(word, word, word, word);
  }
  /// Reads the values of a tile in the order of ids, with kLaneValues consecutive ids per lane,
  /// after logits processing. Ids that are banned or beyond the end of the row get empty values.
  __device__ __forceinline__ void read_in_order(int tile, float (&x)[kLaneValues]) const {
    const int first = tile * kTileSize + lane() * kLaneValues;
    std::uint32_t bits = 0xffU;
    if (allowed_ != nullptr && first < vocab_) bits = allowed_[first / 32] >> (first % 32);
    read_neighbours(first, x);
    const float empty = float_of(empty_bits_, kForm.type);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) x[i] = ((bits >> i) & 1U) != 0 ? x[i] : empty;
    if (!is_processed() || first >= vocab_) return;
    const std::uint32_t edited = bits & (edits_.edited[first / 32] >> (first % 32));
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((edited >> i) & 1U) != 0) x[i] = edits_.values[first + i];
    }
  }

  /// Reads the values of consecutive ids, from a multiple of kLaneValues on, without logits
  /// processing.
  __device__ __forceinline__ void read_neighbours(int first, float (&x)[kLaneValues]) const {
    if constexpr (kForm.access == TileAccess::vectors) {
      RawTile raw;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) {
        uint4 vector = empty_vector();
        const int token = first + v * kPerVector;
        if (token < vocab_) {
          vector = __ldg(reinterpret_cast<const uint4*>(values_.bytes) + token / kPerVector);
        }
        set_vector(raw, v, vector);
      }
      convert(raw, x);
    } else {
      std::uint32_t words[kLaneValues];
      load_values<1>(first, words);
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) x[i] = float_of(words[i], kForm.type);
    }
  }

  /// Stores one of the lane's vectors of a tile.
  __device__ __forceinline__ static void set_vector(RawTile& raw, int number, const uint4& vector) {
    raw.words[4 * number] = vector.x;
    raw.words[4 * number + 1] = vector.y;
    raw.words[4 * number + 2] = vector.z;
    raw.words[4 * number + 3] = vector.w;
  }

  /// Converts the values of a tile to float32.
  __device__ __forceinline__ static void convert(const RawTile& raw, float (&x)[kLaneValues]) {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if constexpr (kForm.type == DType::float32) {
        x[i] = __uint_as_float(raw.words[i]);
      } else if constexpr (kForm.access == TileAccess::values) {
        x[i] = float_of(raw.words[i], kForm.type);
      } else if constexpr (kForm.type == DType::bfloat16) {
        const std::uint32_t word = raw.words[i / 2];
        x[i] = __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
      } else {
        x[i] = float_of((raw.words[i / 2] >> (16 * (i % 2))) & 0xffffU, kForm.type);
      }
    }
  }

  /// Returns a word in which bit i tells whether the i-th value of this lane is allowed. A whole
  /// warp must call this function, for a row with allowed bits.
  __device__ __forceinline__ static std::uint32_t allowed_bits(const RawTile& raw) {
    return bits_of_lane(raw, 0);
  }

  /// Replaces the lane's values that are allowed and edited by their processed values. `allowed` is
  /// the result of allowed_bits for this lane. A whole warp must call this function.
  __device__ __forceinline__ void edit(const RawTile& raw, std::uint32_t allowed,
                                       float (&x)[kLaneValues]) const {
    const std::uint32_t edited = allowed & bits_of_lane(raw, kTileWords);
    if (edited == 0) return;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((edited >> i) & 1U) != 0) x[i] = edits_.values[id_of(raw.tile, i)];
    }
  }

  /// Returns the id of the i-th value of this lane.
  __device__ __forceinline__ static int id_of(int tile, int i) {
    if constexpr (kForm.access == TileAccess::values) return tile * kTileSize + kWarp * i + lane();
    return token_of(tile, i / kPerVector) + i % kPerVector;
  }

 private:
  __device__ std::uint32_t empty_word() const {
    return kForm.type == DType::float32 ? empty_bits_ : empty_bits_ | (empty_bits_ << 16);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  /// Loads the bits of the values whose ids are first + i * kStep.
  template <int kStep>
  __device__ __forceinline__ void load_values(int first,
                                              std::uint32_t (&words)[kLaneValues]) const {
    load_value_bits<kForm.type, kStep>(values_.bytes + std::int64_t{first} * value_size(kForm.type),
                                       kForm.access == TileAccess::vectors || values_.aligned,
                                       vocab_ - first, empty_bits_, words);
  }

  /// Returns the bits for the values of this lane in a tile; the lanes from `first_lane` on have
  /// the words of these bits.
  __device__ __forceinline__ static std::uint32_t bits_of_lane(const RawTile& raw, int first_lane) {
    if constexpr (kForm.access == TileAccess::values) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kLaneValues; ++i) {
        const std::uint32_t word = __shfl_sync(kAllLanes, raw.allowed, first_lane + i);
        bits |= ((word >> lane()) & 1U) << i;
      }
      return bits;
    } else if constexpr (kForm.type == DType::float32) {
      const int shift = 4 * lane() % 32;
      const int from = first_lane + lane() / 8;
      const std::uint32_t first = __shfl_sync(kAllLanes, raw.allowed, from);
      const std::uint32_t second = __shfl_sync(kAllLanes, raw.allowed, from + 4);
      return ((first >> shift) & 0xfU) | (((second >> shift) & 0xfU) << 4);
    } else {
      const std::uint32_t word = __shfl_sync(kAllLanes, raw.allowed, first_lane + lane() / 4);
      return (word >> (8 * (lane() % 4))) & 0xffU;
    }
  }

  RowValues values_;
  RowEdits edits_;
  const std::uint32_t* allowed_;  ///< allowed bits, or null if all tokens are allowed
  bool is_masked_;
  int vocab_;
  std::uint32_t empty_bits_;
};

/// Ring buffer with the next tiles of each warp, in shared memory.
template <RowForm kForm>
class TileRing {
 public:
  using Row = RowOfTiles<kForm>;

  /// Maximum number of tiles in flight per warp.
  static constexpr int kStages = 4;
  static constexpr int kLaneBytes = kStages * (Row::kVectors * 16 + 4);

  /// Place for a tile. The stages form a ring, in which stage 0 follows the last stage.
  struct Stage {
    unsigned vector;  ///< first vector of this lane, counted from the start of the warp's memory

    __device__ Stage next() const {
      static_assert((kStages & (kStages - 1)) == 0);
      return {(vector + kStageVectors) % (kStages * kStageVectors)};
    }
  };
  __device__ static Stage first_stage() { return {lane()}; }

  /// `memory` has kLaneBytes bytes for each thread, and is aligned to 16 bytes. The memory of a
  /// warp is contiguous.
  __device__ explicit TileRing(unsigned char* memory)
      : memory_(memory + threadIdx.x / kWarp * (kWarp * kLaneBytes)) {}

  /// Starts to copy the values of a tile.
  __device__ __forceinline__ void start(const Row& row, Stage stage, int tile) const {
    if (tile < row.whole_tiles()) {
#pragma unroll
      for (int v = 0; v < Row::kVectors; ++v) copy(row, stage, tile, v);
      return;
    }
    for (int v = 0; v < Row::kVectors; ++v) {
      if (row.has_vector(tile, v)) {
        copy(row, stage, tile, v);
      } else {
        *slot(stage, v) = row.empty_vector();
      }
    }
  }
  /// Starts to copy the bits of a tile.
  __device__ __forceinline__ void start_bits(const Row& row, Stage stage, int tile) const {
    if (Row::word_of(tile) < row.words()) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(word(stage))),
                   "l"(row.bit_words() + Row::word_of(tile))
                   : "memory");
    } else {
      *word(stage) = 0;
    }
  }

  /// Ends the group of asynchronous copies for one tile. Every tile has one group, even if nothing
  /// of the tile is copied.
  __device__ __forceinline__ static void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// Waits until all groups of copies except the last kStages - 1 groups have completed.
  __device__ __forceinline__ static void await_oldest() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
  }
  __device__ __forceinline__ static void await_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
  }

  /// Reads a tile after its copy has completed.
  __device__ __forceinline__ void read(const Row& row, Stage stage, int tile, RawTile& raw) const {
    raw.tile = tile;
#pragma unroll
    for (int v = 0; v < Row::kVectors; ++v) {
      Row::set_vector(raw, v, *slot(stage, v));
    }
    if (row.is_masked()) raw.allowed = *word(stage);
  }

 private:
  static constexpr unsigned kStageVectors = Row::kVectors * kWarp;

  __device__ static unsigned lane() { return threadIdx.x % kWarp; }
  __device__ __forceinline__ void copy(const Row& row, Stage stage, int tile, int vector) const {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(slot(stage, vector))),
                 "l"(row.vector_at(tile, vector))
                 : "memory");
  }
  __device__ uint4* slot(Stage stage, int vector) const {
    return reinterpret_cast<uint4*>(memory_) + stage.vector + vector * kWarp;
  }
  __device__ std::uint32_t* word(Stage stage) const {
    return reinterpret_cast<std::uint32_t*>(memory_ + kStages * kStageVectors * 16) +
           stage.vector / kStageVectors * kWarp + lane();
  }
  __device__ static unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }

  unsigned char* memory_;  ///< this warp's part of the ring in shared memory
};

/// Tiles of a row that a warp visits: first, first + step and so on, as long as they are below
/// `end`.
struct TileSteps {
  int first, end, step;

  __device__ int count() const { return first < end ? (end - first + step - 1) / step : 0; }
  __device__ int at(int number) const { return first + number * step; }
};

/// Condition that selects every tile.
struct AllTiles {
  __device__ bool operator()(int) const { return true; }
};

/// Visits the tiles of a warp for which wanted(tile) is true, in a row that is read by vectors. The
/// function calls prepare() once, when the first tiles are in flight, and visit(tile, raw) for each
/// of the tiles. All lanes of a warp must call this function with the same arguments.
template <RowForm kForm, class Wanted, class Prepare, class Visit>
__device__ __forceinline__ void visit_by_vectors(const RowOfTiles<kForm>& row, TileRing<kForm> ring,
                                                 const TileSteps& steps, const Wanted& wanted,
                                                 const Prepare& prepare, const Visit& visit) {
  const auto from = [&](int tile) {
    while (tile < steps.end && !wanted(tile)) tile += steps.step;
    return tile;
  };
  using Ring = TileRing<kForm>;
  int next = from(steps.first);
  int tile = next;
  auto stage = Ring::first_stage();
#pragma unroll 1
  for (int i = 0; i < Ring::kStages; ++i, stage = stage.next()) {
    if (next < steps.end) {
      ring.start(row, stage, next);
      if (row.is_masked() && !row.is_processed()) ring.start_bits(row, stage, next);
    }
    Ring::commit();
    next = from(next + steps.step);
  }
  prepare();
  if (row.is_processed()) {
    await_edits();
    int late = tile;
    for (int i = 0; i < Ring::kStages && late < steps.end; ++i, stage = stage.next()) {
      ring.start_bits(row, stage, late);
      late = from(late + steps.step);
    }
    Ring::await_all();
    stage = Ring::first_stage();
  }
#pragma unroll 1
  for (; tile < steps.end; tile = from(tile + steps.step)) {
    Ring::await_oldest();
    RawTile raw;
    ring.read(row, stage, tile, raw);
    if (next < steps.end) {
      ring.start(row, stage, next);
      if (row.is_masked()) ring.start_bits(row, stage, next);
    }
    Ring::commit();
    next = from(next + steps.step);
    stage = stage.next();
    visit(tile, raw);
  }
  Ring::await_all();  // the last groups are empty, but racecheck expects a wait for them
}

/// Visits the tiles of a warp for which wanted(tile) is true, value by value, in any row. The next
/// tiles are prefetched into L2. If their values were kept in registers, too few registers would be
/// left for `visit`, which would spill registers in every tile.
template <RowForm kForm, class Wanted, class Prepare, class Visit>
__device__ __forceinline__ void visit_by_values(const RowOfTiles<kForm>& row,
                                                const TileSteps& steps, const Wanted& wanted,
                                                const Prepare& prepare, const Visit& visit) {
  constexpr int kAhead = 3;  // distance of the prefetch in tiles
  const auto prefetch = [&](int tile) {
    if (tile < steps.end && wanted(tile)) row.prefetch(tile);
  };
#pragma unroll 1
  for (int i = 0; i < kAhead; ++i) prefetch(steps.first + i * steps.step);
  prepare();
  if (row.is_processed()) await_edits();
#pragma unroll 1
  for (int tile = steps.first; tile < steps.end; tile += steps.step) {
    prefetch(tile + kAhead * steps.step);
    if (!wanted(tile)) continue;
    RawTile raw;
    row.load(tile, raw);
    row.load_bits(tile, raw);
    visit(tile, raw);
  }
}

/// Visits tiles again, after all tiles of the same TileSteps have been visited. is_first says that
/// no tile was visited in between, so that the last kStages tiles are still in the ring buffer.
template <RowForm kForm, class Wanted, class Visit>
__device__ __forceinline__ void revisit_by_vectors(const RowOfTiles<kForm>& row,
                                                   const TileRing<kForm>& ring,
                                                   const TileSteps& steps, bool is_first,
                                                   const Wanted& wanted, const Visit& visit) {
  constexpr int kStages = TileRing<kForm>::kStages;
  const int count = steps.count();
  const int in_memory = is_first ? max(count - kStages, 0) : count;
  auto stage = TileRing<kForm>::first_stage();
  for (int i = in_memory % kStages; i > 0; --i) stage = stage.next();
#pragma unroll 1
  for (int number = in_memory; number < count; ++number, stage = stage.next()) {
    const int tile = steps.at(number);
    if (!wanted(tile)) continue;
    RawTile raw;
    ring.read(row, stage, tile, raw);
    visit(tile, raw);
  }
  if (in_memory == 0) return;
  visit_by_vectors(row, ring, {steps.first, steps.at(in_memory), steps.step}, wanted, [] {}, visit);
}

/// Visits all tiles of a warp, in any row.
template <RowForm kForm, class Prepare, class Visit>
__device__ __forceinline__ void visit_tiles(const RowOfTiles<kForm>& row,
                                            const TileRing<kForm>& ring, const TileSteps& steps,
                                            const Prepare& prepare, const Visit& visit) {
  if constexpr (kForm.access == TileAccess::vectors) {
    visit_by_vectors(row, ring, steps, AllTiles{}, prepare, visit);
  } else {
    visit_by_values(row, steps, AllTiles{}, prepare, visit);
  }
}

/// Visits the tiles for which wanted(tile) is true again, after visit_tiles by the same warp.
/// is_first says whether this is the first such visit.
template <RowForm kForm, class Wanted, class Visit>
__device__ __forceinline__ void revisit_tiles(const RowOfTiles<kForm>& row,
                                              const TileRing<kForm>& ring, const TileSteps& steps,
                                              bool is_first, const Wanted& wanted,
                                              const Visit& visit) {
  if constexpr (kForm.access == TileAccess::vectors) {
    revisit_by_vectors(row, ring, steps, is_first, wanted, visit);
  } else {
    visit_by_values(row, steps, wanted, [] {}, visit);
  }
}

/// Reads a tile's values and allowed bits into registers.
template <RowForm kForm>
__device__ __forceinline__ void load_again(const RowOfTiles<kForm>& row, int tile, RawTile& raw) {
  using Row = RowOfTiles<kForm>;
  if constexpr (kForm.access == TileAccess::values) {
    row.load(tile, raw);
  } else {
    raw.tile = tile;
#pragma unroll
    for (int v = 0; v < Row::kVectors; ++v) {
      uint4 vector = row.empty_vector();
      if (row.has_vector(tile, v)) vector = __ldg(row.vector_at(tile, v));
      Row::set_vector(raw, v, vector);
    }
  }
  row.load_bits(tile, raw);
}

}  // namespace fairdraw::cuda
