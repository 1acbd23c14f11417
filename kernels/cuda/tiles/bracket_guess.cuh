// Where the threshold of a row is guessed to lie: a bracket of values, from a sample of tiles.
//
// Contract. The threshold is the largest value such that the tokens that reach it weigh a given
// part of the row's mass, or are so many. Any bracket is right: what it holds is measured after
// (bracket_search.cuh), and a miss costs another pass.
//
// Algorithm. A histogram over values, in bins as far apart as the values (of probabilities: as
// their octaves). The largest value of each tile is known from the index. Of the rest, 64 tiles
// spread over the row are a sample; tiles whose rest is more than a 64th of the mass are read
// whatever their place, and stand for themselves alone. So few tokens that hold most of the mass
// are not left to chance. Then the bins within so many standard deviations of the target, the
// variance being that of W(>= v) - p Z: what is above v counts 1 - p in it, the rest p.
//
// Cost: one round of reads from L2 by one block, and about 20 instructions a value.
//
// Determinism: units are integers; but for the bracket nothing of the guess shows.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/bracket_pass.cuh"
#include "cuda/tiles/key_selection.cuh"
#include "cuda/tiles/row_weigher.cuh"

namespace fairdraw::cuda {

/// The histogram, and what its rounds pass on.
struct GuessMemory {
  static constexpr int kBins = 1024;
  static constexpr int kTiles = 64;  ///< of the sample; and most of the heavy tiles

  unsigned units[kBins];    ///< that a bin stands for, the largest values' first
  unsigned squares[kBins];  ///< of the units of each value, in a unit of their own
  int heavy[kTiles];
  int heavy_count;
  float bins_of_distance;  ///< bins for each unit of distance from the largest value
  double units_of_mass;    ///< units of a weight, or of a token
  float unit_of_squares;
  float of_warp[kEndWarps];
  unsigned sum_of_warp[kEndWarps];
  int edges[2];  ///< the first bin of the bracket, and the last
};

/// How values of a row are put into bins: by their distance to the largest one.
template <bool kFromProbs>
struct BinRule {
  float largest;
  std::int32_t largest_key;
  float bins_of_distance;

  __device__ __forceinline__ float distance(float x) const {
    if constexpr (kFromProbs) return static_cast<float>(largest_key - order_key(x));
    return largest - x;
  }
  __device__ __forceinline__ int bin_of(float distance) const {
    return static_cast<int>(
        fminf(distance * bins_of_distance, static_cast<float>(GuessMemory::kBins - 1)));
  }
  /// A key about which a bin begins.
  __device__ std::int32_t key_of(int bin) const {
    const float distance = static_cast<float>(bin) / bins_of_distance;
    if constexpr (kFromProbs) return largest_key - static_cast<std::int32_t>(distance);
    return order_key(fmaxf(largest - distance, from_order_key(kEmptyTileKey + 1)));
  }
};

/// Makes the histogram. For the threads of the row's end.
template <DType kType, bool kFromProbs>
class RowSample {
  using Row = TileRow<kType>;
  using Weigher = RowWeigher<kFromProbs>;
  /// Bins reach so many octaves down: what is lighter cannot be a nucleus' threshold, but for p
  /// close to 1.
  static constexpr float kOctaves = 24.0F;
  static constexpr float kKeysOfOctave = 0x1p23F;
  /// Units of a row's mass.
  static constexpr double kUnits = 0x1p26;
  static constexpr float kSquares = 0x1p-16F;  ///< of units: they fit into a word

 public:
  __device__ RowSample(GuessMemory& memory, const Row& row, const RowIndex& index,
                       const TileRule& rule, const Weigher& weigh, std::int32_t largest,
                       std::int32_t lowest)
      : memory_(memory),
        row_(row),
        index_(index),
        scale_(rule.scale),
        weigh_(weigh),
        largest_(largest),
        lowest_(lowest) {}

  /// Makes the histogram. mass: of the tiles' sums; 0: tokens are counted, not weighed.
  __device__ void sample(uint128_t mass, BlockMasses& masses) {
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < GuessMemory::kBins; i += kEndThreads) {
      memory_.units[i] = 0;
      memory_.squares[i] = 0;
    }
    if (thread == 0) memory_.heavy_count = 0;
    sync_end();
    const int tiles = min(index_.tiles, GuessMemory::kTiles);
    if (mass == 0) {
      count(tiles);
    } else {
      weigh(tiles, mass, masses);
    }
    sync_end();
  }

 private:
  __device__ static int sampled_tile(int number, int tiles, int of) {
    return static_cast<int>((2U * static_cast<unsigned>(number) + 1U) * static_cast<unsigned>(of) /
                            (2U * static_cast<unsigned>(tiles)));
  }

  /// Bins as wide as the sample: two readings.
  __device__ void count(int tiles) {
    float distance = 0;
    int taken = 0;
    int ids = 0;
    BinRule<kFromProbs> bins{from_order_key(largest_), largest_, 0};
    const float lowest = from_order_key(lowest_);
    visit(tiles, [&](int tile, const float(&x)[kLaneValues]) {
      ids += tile + 1 < index_.tiles ? kTileSize : row_.vocab() - tile * kTileSize;
#pragma unroll
      for (const float value : x) {
        const bool counts = value >= lowest;
        distance += counts ? bins.distance(value) : 0.0F;
        taken += counts ? 1 : 0;
      }
    });
    distance = warp_sum(distance);
    taken = static_cast<int>(__reduce_add_sync(kAllLanes, static_cast<unsigned>(taken)));
    if (lane_of_thread() == 0) {
      memory_.of_warp[warp_of_thread()] = distance;
      memory_.sum_of_warp[warp_of_thread()] = static_cast<unsigned>(taken);
      memory_.heavy[warp_of_thread()] = ids;
    }
    sync_end();
    float all_distance = 0;
    unsigned all_taken = 0;
    int all_ids = 0;
#pragma unroll
    for (int warp = 0; warp < kEndWarps; ++warp) {
      all_distance += memory_.of_warp[warp];
      all_taken += memory_.sum_of_warp[warp];
      all_ids += memory_.heavy[warp];
    }
    // Twice the mean reaches the smallest of values that are spread evenly on both sides.
    const float reach = 2.5F * all_distance / static_cast<float>(max(all_taken, 1U));
    bins.bins_of_distance = bins_within(reach);
    sync_end();
    if (threadIdx.x == 0) {
      memory_.bins_of_distance = bins.bins_of_distance;
      memory_.units_of_mass = static_cast<double>(all_ids) / static_cast<double>(row_.vocab());
      memory_.unit_of_squares = 1.0F;
    }
    visit(tiles, [&](int, const float(&x)[kLaneValues]) {
#pragma unroll
      for (const float value : x) {
        if (value >= lowest) {
          const int bin = bins.bin_of(bins.distance(value));
          atomicAdd(&memory_.units[bin], 1U);
          atomicAdd(&memory_.squares[bin], 1U);
        }
      }
    });
  }

  __device__ static float bins_within(float reach) {
    const float bins = static_cast<float>(GuessMemory::kBins) / reach;
    return bins > 0 && bins < INFINITY ? bins : 1.0F;
  }

  __device__ void weigh(int tiles, uint128_t mass, BlockMasses& masses) {
    static_assert(GuessMemory::kTiles == 1 << 6);
    const auto is_heavy = [&](uint128_t weight) { return weight > mass >> 6; };
    const auto rest_of = [&](int tile) {
      const std::int32_t key = index_.keys[tile];
      const std::uint64_t sum = index_.sums[tile];
      if (sum == 0) return uint128_t{0};
      const uint128_t all = row_weight(sum, weigh_.shift_of(key));
      const uint128_t largest = weigh_(from_order_key(key), key);
      return all > largest ? all - largest : uint128_t{0};
    };
    uint128_t heavy = 0;
    uint128_t rest = 0;
    for (int tile = static_cast<int>(threadIdx.x); tile < index_.tiles; tile += kEndThreads) {
      const uint128_t weight = rest_of(tile);
      rest += weight;
      if (!is_heavy(weight)) continue;
      heavy += weight;
      memory_.heavy[atomicAdd(&memory_.heavy_count, 1)] = tile;  // fewer than kTiles
    }
    uint128_t light = 0;
    if (static_cast<int>(threadIdx.x) < tiles) {
      const uint128_t weight =
          rest_of(sampled_tile(static_cast<int>(threadIdx.x), tiles, index_.tiles));
      if (!is_heavy(weight)) light = weight;
    }
    heavy = masses.sum(heavy);
    rest = masses.sum(rest);
    light = masses.sum(light);
    const double largest = nearest_double(weigh_(from_order_key(largest_), largest_));
    const double units_of_mass = kUnits / nearest_double(mass);
    const auto heavy_factor = static_cast<float>(largest * units_of_mass);
    const auto light_factor =
        light == 0 ? 0.0F
                   : static_cast<float>(nearest_double(rest - heavy) / nearest_double(light) *
                                        largest * units_of_mass);
    const BinRule<kFromProbs> bins{
        from_order_key(largest_), largest_,
        bins_within(kFromProbs ? kOctaves * kKeysOfOctave : kOctaves / scale_)};
    if (threadIdx.x == 0) {
      memory_.bins_of_distance = bins.bins_of_distance;
      memory_.units_of_mass = units_of_mass;
      memory_.unit_of_squares = 1.0F / kSquares;
    }
    const float lowest = from_order_key(lowest_);
    const float of_value = kFromProbs ? 1.0F / from_order_key(largest_) : -scale_;
    const int heavies = memory_.heavy_count;
    const auto add = [&](float value, float factor, bool squares) {
      const float distance = bins.distance(value);
      const float units = factor * (kFromProbs ? value * of_value : exp2f(distance * of_value));
      if (units < 0.5F) return;
      const int bin = bins.bin_of(distance);
      atomicAdd(&memory_.units[bin], __float2uint_rn(units));
      if (squares) atomicAdd(&memory_.squares[bin], __float2uint_rn(units * units * kSquares));
    };
    for (int tile = static_cast<int>(threadIdx.x); tile < index_.tiles; tile += kEndThreads) {
      const bool counts = index_.sums[tile] != 0 && index_.keys[tile] >= lowest_;
      if (counts) add(from_order_key(index_.keys[tile]), heavy_factor, false);
    }
    // All of a tile but one of its largest values.
    const auto add_rest = [&](int tile, const float(&x)[kLaneValues], float factor, bool squares) {
      const float largest_of_tile = from_order_key(index_.keys[tile]);
      bool left_out = false;
#pragma unroll
      for (const float value : x) {
        const unsigned equal = __ballot_sync(kAllLanes, value == largest_of_tile);
        const bool mine = !left_out && __ffs(static_cast<int>(equal)) - 1 == lane_of_thread();
        left_out = left_out || equal != 0;
        if (value >= lowest && !mine) add(value, factor, squares);
      }
    };
    visit(tiles, [&](int tile, const float(&x)[kLaneValues]) {
      if (!is_heavy(rest_of(tile))) add_rest(tile, x, light_factor, true);
    });
    for (int i = warp_of_thread(); i < heavies; i += kEndWarps) {
      float x[kLaneValues];
      row_.read_in_order(memory_.heavy[i], x);
      add_rest(memory_.heavy[i], x, heavy_factor, false);
    }
  }

  /// Calls visit(tile, values) for this warp's tiles of the sample.
  template <class Visit>
  __device__ __forceinline__ void visit(int tiles, const Visit& visit) const {
    if (row_.has_vectors()) {
      visit_by<TileAccess::vectors>(tiles, visit);
    } else {
      visit_by<TileAccess::values>(tiles, visit);
    }
  }
  template <TileAccess kAccess, class Visit>
  __device__ __forceinline__ void visit_by(int tiles, const Visit& visit) const {
    constexpr int kInFlight = 2;
#pragma unroll 1
    for (int first = warp_of_thread(); first < tiles; first += kInFlight * kEndWarps) {
      RawTile raw[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int number = first + i * kEndWarps;
        if (number < tiles) {
          load_again<kAccess>(row_, sampled_tile(number, tiles, index_.tiles), raw[i]);
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        const int number = first + i * kEndWarps;
        if (number >= tiles) continue;
        float x[kLaneValues];
        TilePass<kType, kFromProbs>::template read<kAccess>(row_, raw[i], x);
        visit(sampled_tile(number, tiles, index_.tiles), x);
      }
    }
  }

  GuessMemory& memory_;
  const Row& row_;
  const RowIndex& index_;
  float scale_;
  const Weigher& weigh_;
  std::int32_t largest_, lowest_;
};

/// The bracket for a threshold at so many tokens, or so much mass, each side `deviations` wide; by
/// the histogram.
template <bool kFromProbs>
__device__ __noinline__ KeyInterval guessed_bracket(GuessMemory& memory, double target,
                                                    float deviations, std::int32_t largest,
                                                    std::int32_t lowest) {
  constexpr int kBinsOfThread = GuessMemory::kBins / kEndThreads;
  const auto thread = static_cast<int>(threadIdx.x);
  unsigned units[kBinsOfThread];
  unsigned mine = 0;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    units[i] = memory.units[thread * kBinsOfThread + i];
    mine += units[i];
  }
  const unsigned inclusive = warp_inclusive_sum(mine);
  if (lane_of_thread() == kWarp - 1) memory.sum_of_warp[warp_of_thread()] = inclusive;
  if (thread == 0) memory.edges[0] = 0, memory.edges[1] = GuessMemory::kBins - 1;
  sync_end();
  unsigned before = inclusive - mine;
  unsigned total = 0;
#pragma unroll
  for (int warp = 0; warp < kEndWarps; ++warp) {
    before += warp < warp_of_thread() ? memory.sum_of_warp[warp] : 0;
    total += memory.sum_of_warp[warp];
  }
  const auto all = static_cast<float>(max(total, 1U));
  const float wanted = fminf(static_cast<float>(target * memory.units_of_mass), all);
  const float share = wanted / all;
  float variance = 0;
  unsigned upto = before;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    const float of_bin = static_cast<float>(memory.squares[thread * kBinsOfThread + i]);
    upto += units[i];
    const float counts = static_cast<float>(upto) <= wanted ? 1.0F - share : share;
    variance += counts * counts * of_bin;
  }
  variance = warp_sum(variance);
  if (lane_of_thread() == 0) memory.of_warp[warp_of_thread()] = variance;
  sync_end();
  variance = 0;
#pragma unroll
  for (const float of_warp : memory.of_warp) variance += of_warp;
  const float margin = deviations * sqrtf(variance * memory.unit_of_squares);
  upto = before;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    const auto above = static_cast<float>(upto);
    upto += units[i];
    const auto reached = static_cast<float>(upto);
    const int bin = thread * kBinsOfThread + i;
    if (above < wanted - margin && reached >= wanted - margin) memory.edges[0] = bin;
    if (above <= wanted + margin && reached > wanted + margin) memory.edges[1] = bin;
  }
  sync_end();
  const int first = memory.edges[0];
  const int last = memory.edges[1];
  sync_end();
  const BinRule<kFromProbs> bins{from_order_key(largest), largest, memory.bins_of_distance};
  const std::int32_t high = first == 0 ? largest : bins.key_of(first);
  const std::int32_t low = last + 1 >= GuessMemory::kBins ? lowest : bins.key_of(last + 1);
  return {max(low, lowest), max(high, lowest)};
}

}  // namespace fairdraw::cuda
