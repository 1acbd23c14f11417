// A row as tiles of 256 ids: how a warp reads one, wherever the row lies.
//
// Contract. Any dtype, stride and byte address; tiles are by token id, so that the address plays no
// part in what a tile holds. A warp reads a tile, each lane kLaneValues of it. Ids beyond the row
// come as what weighs nothing (-inf; of probabilities 0), and nothing beyond the row is read.
//
// Algorithm and cost. By vectors where all rows of a call are aligned to 16 bytes and whole numbers
// of vectors (access_of in tile_launch.cuh; code for both ways in one kernel takes registers and
// instructions of it away): 2 copies a lane of float32, 1 of 16-bit types, into a ring in shared
// memory that holds the warp's next tiles (TileRing), so that what is in flight takes no registers.
// A thread copies what it reads itself, and no barrier is needed. Instructions are what limits many
// rows, so a whole tile costs about 20 of them here: addresses are one multiplication each, and
// only the tile that the row's end cuts is asked where it ends. By values otherwise: the 32 lanes
// side by side, 8 loads a lane into registers, two tiles at a time. A row that is not even aligned
// to its values is read byte by byte. Bits of `allowed` are one word a lane, that goes where it is
// needed by shuffles.
//
// Of a processed row (edit_planes.h) the values come first, as the caller has them, while edit_rows
// may still run; its bits of allowed and of edited tokens after that, in the words of two halves of
// lanes; and then the few values that are edited, as they are met (TilePass).
#pragma once

#include <cstdint>

#include "common/minus_infinity.h"
#include "common/tile_weights.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/warp_sums.cuh"
#include "cuda/tiles/edit_planes.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Values of a tile that each lane has.
inline constexpr int kLaneValues = kTileSize / kWarp;
/// Words of a tile's bits.
inline constexpr int kTileWords = kTileSize / 32;

/// A tile's values in registers, as they lie in memory.
struct RawTile {
  std::uint32_t words[kLaneValues];  ///< 16-bit values by vectors: two in each of the first half
  /// Word (lane % 8) of the tile's bits, where there are any. Of a processed row allowed ones on
  /// lanes 0 to 7, edited ones on lanes 8 to 15, and so on.
  std::uint32_t allowed;
  int tile;
};

/// Which ids of a tile a lane has.
enum class TileAccess {
  vectors,  ///< of each half of a tile (16-bit types: of the tile) neighbours, 16 bytes of them
  values,   ///< i-th value: id 32 i + lane
};

/// What the code of a kernel is made for: rows that lie alike.
struct RowForm {
  DType type;
  TileAccess access;
};

template <RowForm kForm>
class TileRow {
 public:
  /// `edits`: those of a processed call, in place of `allowed`.
  __device__ TileRow(const RowsView& rows, const BitRows<const std::uint32_t>& allowed,
                     std::int64_t number, bool from_probs, const EditPlanes& edits = {})
      : values_(RowValues::of(rows, number)),
        edits_(edits.of(number)),
        allowed_(edits.given()     ? edits_.allowed
                 : allowed.given() ? allowed.data + number * allowed.row_stride
                                   : nullptr),
        is_masked_(allowed_ != nullptr),
        vocab_(static_cast<int>(rows.vocab)),
        empty_bits_(from_probs ? 0 : minus_infinity_bits(kForm.type)) {}

  __device__ int vocab() const { return vocab_; }
  __device__ int tiles() const { return (vocab_ + kTileSize - 1) / kTileSize; }
  /// Those that the row's end does not cut.
  __device__ int whole_tiles() const { return vocab_ / kTileSize; }
  __device__ bool is_masked() const { return is_masked_; }
  /// Such a row is masked, too.
  __device__ bool is_processed() const { return edits_.edited != nullptr; }
  /// Reads a tile by values, and its bits.
  __device__ __forceinline__ void load(int tile, RawTile& raw) const {
    raw.tile = tile;
    load_values<kWarp>(tile * kTileSize + lane(), raw.words);
  }
  /// Asks for a tile's values in L2.
  __device__ __forceinline__ void prefetch(int tile) const {
    constexpr int kLine = 128 / static_cast<int>(value_size(kForm.type));  // values
    const int token = tile * kTileSize + lane() * kLine;
    if (lane() * kLine >= kTileSize || token >= vocab_) return;
    asm volatile("prefetch.global.L2 [%0];" ::"l"(values_.bytes + token * value_size(kForm.type)));
  }
  __device__ __forceinline__ void load_bits(int tile, RawTile& raw) const {
    if (!is_masked_) return;
    const int word = word_of(tile);
    raw.allowed = word < words() ? bit_words()[word] : 0;
  }

  /// Word of the bits that this lane reads of a tile; whether it is there is the caller's to see.
  __device__ static int word_of(int tile) { return tile * kTileWords + lane() % kTileWords; }
  __device__ int words() const { return (vocab_ + 31) / 32; }
  /// The bits that this lane reads.
  __device__ const std::uint32_t* bit_words() const {
    return is_processed() && lane() / kTileWords % 2 == 1 ? edits_.edited : allowed_;
  }

  static constexpr int kPerVector = kForm.type == DType::float32 ? 4 : 8;
  static constexpr int kVectors = kLaneValues / kPerVector;  // of a lane

  /// First id of a lane's vector.
  __device__ static int token_of(int tile, int vector) {
    return tile * kTileSize + (vector * kWarp + lane()) * kPerVector;
  }
  /// Of a row that has vectors.
  __device__ const uint4* vector_at(int tile, int vector) const {
    return reinterpret_cast<const uint4*>(values_.bytes) + lane() +
           static_cast<unsigned>(tile) * (kVectors * kWarp) + vector * kWarp;
  }
  __device__ bool has_vector(int tile, int vector) const { return token_of(tile, vector) < vocab_; }
  /// What stands for a vector beyond the row.
  __device__ uint4 empty_vector() const {
    const std::uint32_t word = empty_word();
    return make_uint4(word, word, word, word);
  }
  /// A tile's values in id order, kLaneValues neighbours a lane, as they are processed; what is
  /// banned or beyond the row is empty.
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

  /// The values of neighbouring ids, from a multiple of kLaneValues on, as they lie in memory.
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

  /// A lane's vector of a tile.
  __device__ __forceinline__ static void set_vector(RawTile& raw, int number, const uint4& vector) {
    raw.words[4 * number] = vector.x;
    raw.words[4 * number + 1] = vector.y;
    raw.words[4 * number + 2] = vector.z;
    raw.words[4 * number + 3] = vector.w;
  }

  /// The values as float32.
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

  /// Bit i: whether this lane's i-th value is allowed. Of a row with bits; for the whole warp.
  __device__ __forceinline__ static std::uint32_t allowed_bits(const RawTile& raw) {
    return bits_of_lane(raw, 0);
  }

  /// What processing makes of the lane's values, those that are allowed and edited. `allowed`: the
  /// lane's allowed_bits; for the whole warp.
  __device__ __forceinline__ void edit(const RawTile& raw, std::uint32_t allowed,
                                       float (&x)[kLaneValues]) const {
    const std::uint32_t edited = allowed & bits_of_lane(raw, kTileWords);
    if (edited == 0) return;
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (((edited >> i) & 1U) != 0) x[i] = edits_.values[id_of(raw.tile, i)];
    }
  }

  /// The id of this lane's i-th value.
  __device__ __forceinline__ static int id_of(int tile, int i) {
    if constexpr (kForm.access == TileAccess::values) return tile * kTileSize + kWarp * i + lane();
    return token_of(tile, i / kPerVector) + i % kPerVector;
  }

 private:
  __device__ std::uint32_t empty_word() const {
    return kForm.type == DType::float32 ? empty_bits_ : empty_bits_ | (empty_bits_ << 16);
  }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  /// The bits of ids first + i kStep.
  template <int kStep>
  __device__ __forceinline__ void load_values(int first,
                                              std::uint32_t (&words)[kLaneValues]) const {
    load_value_bits<kForm.type, kStep>(values_.bytes + std::int64_t{first} * value_size(kForm.type),
                                       kForm.access == TileAccess::vectors || values_.aligned,
                                       vocab_ - first, empty_bits_, words);
  }

  /// The lane's bits of a tile; its words lie on the lanes from `first_lane` on.
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
  const std::uint32_t* allowed_;  ///< null: all are
  bool is_masked_;
  int vocab_;
  std::uint32_t empty_bits_;
};

/// The next tiles of each warp, in shared memory.
template <RowForm kForm>
class TileRing {
 public:
  using Row = TileRow<kForm>;

  /// Most tiles of a warp in flight.
  static constexpr int kStages = 4;
  static constexpr int kLaneBytes = kStages * (Row::kVectors * 16 + 4);

  /// A place for a tile. The first one is 0, the one after the last too.
  struct Stage {
    unsigned vector;  ///< this lane's first, counted from the warp's first place

    __device__ Stage next() const {
      static_assert((kStages & (kStages - 1)) == 0);
      return {(vector + kStageVectors) % (kStages * kStageVectors)};
    }
  };
  __device__ static Stage first_stage() { return {lane()}; }

  /// `memory`: kLaneBytes a thread, aligned to 16 bytes. A warp has its part in one piece.
  __device__ explicit TileRing(unsigned char* memory)
      : memory_(memory + threadIdx.x / kWarp * (kWarp * kLaneBytes)) {}

  /// Begins to copy a tile.
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
  /// And its bits.
  __device__ __forceinline__ void start_bits(const Row& row, Stage stage, int tile) const {
    if (Row::word_of(tile) < row.words()) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(word(stage))),
                   "l"(row.bit_words() + Row::word_of(tile))
                   : "memory");
    } else {
      *word(stage) = 0;
    }
  }

  /// Ends a group of copies. There is one a tile, those that are not copied too.
  __device__ __forceinline__ static void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// Waits for all but the last kStages - 1 groups.
  __device__ __forceinline__ static void await_oldest() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 1) : "memory");
  }
  __device__ __forceinline__ static void await_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
  }

  /// A tile that has arrived.
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

  unsigned char* memory_;  ///< this warp's
};

/// Which tiles of a row a warp visits: first, first + step, ... below end.
struct TileSteps {
  int first, end, step;

  __device__ int count() const { return first < end ? (end - first + step - 1) / step : 0; }
  __device__ int at(int number) const { return first + number * step; }
};

/// Every tile of the steps.
struct AllTiles {
  __device__ bool operator()(int) const { return true; }
};

/// Reads those of a warp's tiles that are wanted(tile), of a row that has vectors: calls prepare()
/// once, when the first ones are on their way, and visit(tile, raw) for each. By a whole warp, all
/// lanes with the same numbers.
template <RowForm kForm, class Wanted, class Prepare, class Visit>
__device__ __forceinline__ void visit_by_vectors(const TileRow<kForm>& row, TileRing<kForm> ring,
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
}

/// The same of any row, by values. Tiles to come are asked for in L2: registers that held their
/// values would be short in `visit`, and spilled in every tile.
template <RowForm kForm, class Wanted, class Prepare, class Visit>
__device__ __forceinline__ void visit_by_values(const TileRow<kForm>& row, const TileSteps& steps,
                                                const Wanted& wanted, const Prepare& prepare,
                                                const Visit& visit) {
  constexpr int kAhead = 3;  // tiles
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

/// A second visit, after one of all of the same steps: the last kStages tiles are in the ring
/// still, where is_first says that nothing was visited in between.
template <RowForm kForm, class Wanted, class Visit>
__device__ __forceinline__ void revisit_by_vectors(const TileRow<kForm>& row,
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

/// Visits of any row.
template <RowForm kForm, class Prepare, class Visit>
__device__ __forceinline__ void visit_tiles(const TileRow<kForm>& row, const TileRing<kForm>& ring,
                                            const TileSteps& steps, const Prepare& prepare,
                                            const Visit& visit) {
  if constexpr (kForm.access == TileAccess::vectors) {
    visit_by_vectors(row, ring, steps, AllTiles{}, prepare, visit);
  } else {
    visit_by_values(row, steps, AllTiles{}, prepare, visit);
  }
}

/// After visit_tiles by the same warp, those tiles again that are wanted(tile); is_first: for the
/// first time.
template <RowForm kForm, class Wanted, class Visit>
__device__ __forceinline__ void revisit_tiles(const TileRow<kForm>& row,
                                              const TileRing<kForm>& ring, const TileSteps& steps,
                                              bool is_first, const Wanted& wanted,
                                              const Visit& visit) {
  if constexpr (kForm.access == TileAccess::vectors) {
    revisit_by_vectors(row, ring, steps, is_first, wanted, visit);
  } else {
    visit_by_values(row, steps, wanted, [] {}, visit);
  }
}

}  // namespace fairdraw::cuda
