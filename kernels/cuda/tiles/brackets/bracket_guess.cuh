// Guesses a bracket of values that contains a row's threshold, from a sample of tiles.
//
// Contract. The threshold is the largest value v for which the tokens with values of at least v
// have a given part of the row's mass (top_p), or have a given number (top_k). A bracket that
// misses the threshold is no error: the next pass of all blocks measures the bracket exactly
// (bracket_search.cuh), and a miss costs one more pass.
//
// Algorithm. The guess is read from a histogram of the row's values, whose bins have equal width
// (for probabilities, equal width in octaves). The row's index already has the largest value of
// each tile. The other values are sampled: the row's blocks count the values of some tiles that are
// spread evenly over the row, one tile per warp and at least 64 tiles in total. The values of one
// bin have about the same weight, so it suffices to count them, and each value costs one addition
// in the shared memory of its block. A few tokens with most of the mass are not left to chance: if
// the values of a tile, without its largest value, have more than 1/64 of the mass, the tile is
// always read, and its values are counted with their own weights. The bracket consists of the bins
// within a few standard deviations of the target. The variance is that of W(>= v) - p Z, where W(>=
// v) is the mass of the values from v up, Z the mass of the row, and p the target's part of Z. In
// this sum, a value above v counts 1 - p times its weight, and any other value p times its weight.
//
// Cost: all blocks read the sample once, from the L2 cache, with about 10 instructions per value.
//
// Determinism: the counts and the units that are summed are integers. The guess affects only the
// bracket, never the result of the search.
#pragma once

#include <cstdint>

#include "common/wide_integers.h"
#include "cuda/tiles/brackets/bracket_pass.cuh"
#include "cuda/tiles/brackets/value_bins.cuh"
#include "cuda/tiles/key_selection.cuh"
#include "cuda/tiles/row_weigher.cuh"
#include "cuda/tiles/tile_search.cuh"

namespace fairdraw::cuda {

/// Sample of a row's tiles, and the rule that assigns values to bins. All blocks of the row read
/// this rule.
struct SampleRule {
  static constexpr int kMin = 64;  ///< minimum number of sampled tiles; a row with fewer tiles is
                                   ///< sampled completely
  static constexpr int kMax = kMaxBlocksOfRow * kMaxThreadsOfBlock / kWarp;

  std::int32_t largest, lowest;  ///< keys of the row's largest value, and of the smallest value
                                 ///< that is counted
  float bins_of_distance;        ///< number of bins per unit of distance from the largest value
  int tiles;                     ///< number of tiles in the sample
  std::uint32_t left_out[kMax / 32];  ///< one bit per tile of the sample, set if the tile is not
                                      ///< read
};

/// Shared memory for a guess, with the histogram of a row's values.
struct GuessMemory {
  static constexpr int kBins = 1024;
  static constexpr int kMaxHeavy = 64;

  alignas(16) unsigned counts[kBins];  ///< number of sampled values per bin; bin 0 has the largest
                                       ///< values
  unsigned units[kBins];  ///< units of each bin, from the values that are counted exactly
  SampleRule rule;
  bool weighs;           ///< whether weights are summed; otherwise tokens are counted
  float scale;           ///< octaves per unit of distance between logits
  float units_of_value;  ///< units that a sampled value stands for if its weight is that of the
                         ///< row's largest value
  double units_of_mass;  ///< units per weight, or units per token
  int heavy[kMaxHeavy];
  int heavy_count;
  float of_warp[kEndWarps];
  float sum_of_warp[kEndWarps];
  int edges[2];  ///< first and last bin of the bracket
};

/// Returns the number of the tile at position `number` of a row's sample.
__device__ __forceinline__ int sampled_tile(int number, int samples, int tiles) {
  return static_cast<int>((2U * static_cast<unsigned>(number) + 1U) * static_cast<unsigned>(tiles) /
                          (2U * static_cast<unsigned>(samples)));
}

/// Part of the sample that one block counts in its own shared memory with all its threads.
template <RowForm kForm, bool kFromProbs>
class SamplePass {
  using Row = RowOfTiles<kForm>;

 public:
  __device__ __forceinline__ SamplePass(const Row& row, const RowBlocks& blocks,
                                        GuessMemory& memory)
      : row_(row), blocks_(blocks), memory_(memory) {}

  __device__ __forceinline__ void run() {
    for (int i = static_cast<int>(threadIdx.x); i < GuessMemory::kBins;
         i += static_cast<int>(blockDim.x)) {
      memory_.counts[i] = 0;
    }
    sync_block();
    visit();
  }

 private:
  __device__ __forceinline__ void visit() {
    const SampleRule& rule = *blocks_.cluster().at(&memory_.rule, 0);
    const int samples = rule.tiles;
    const BinRule<kFromProbs> bins(rule.largest, rule.bins_of_distance, GuessMemory::kBins);
    const float lowest = from_order_key(rule.lowest);
#pragma unroll 1
    for (int number = blocks_.warp(); number < samples; number += blocks_.warps()) {
      if (((rule.left_out[number / 32] >> (number % 32)) & 1U) != 0) continue;
      RawTile raw;
      load_again(row_, sampled_tile(number, samples, row_.tiles()), raw);
      float x[kLaneValues];
      TilePass<kForm, kFromProbs>::read(row_, raw, x);
      visit_rest(x, [&](float value) {
        const int bin = bins.bin_of(bins.distance(value));
        if (value >= lowest && bin < GuessMemory::kBins - 1) atomicAdd(&memory_.counts[bin], 1U);
      });
    }
  }

  const Row& row_;
  const RowBlocks& blocks_;
  GuessMemory& memory_;
};

/// Steps of a guess for the threads that finish a row, before and after all blocks count the
/// sample.
template <RowForm kForm, bool kFromProbs>
class RowSample {
  using Row = RowOfTiles<kForm>;
  using Weigher = RowWeigher<kFromProbs>;
  static constexpr double kUnits = 0x1p26;     ///< number of units into which the whole mass of a
                                               ///< row is divided
  static constexpr double kUnitsOfToken = 16;  ///< number of units per token if tokens are counted
  /// If tokens are counted, the bins cover kReach times the distance from the row's largest value
  /// to the smallest of the tiles' largest values. For a vocabulary of 1000 to 2^20 tokens, this
  /// distance is 3 to 5 standard deviations, so the bins cover 7.5 to 12 standard deviations.
  static constexpr float kReach = 2.5F;

 public:
  __device__ RowSample(GuessMemory& memory, const RowIndex& index, const TileWeighing& rule,
                       const Weigher& weigh, const TileKeys& keys, int vocab, std::int32_t lowest)
      : memory_(memory),
        index_(index),
        scale_(rule.scale),
        weigh_(weigh),
        keys_(keys),
        vocab_(vocab),
        lowest_(lowest) {}

  /// Chooses the sample for `warps` warps, and adds the values that are already known exactly to
  /// the histogram. `mass` is the total of the tiles' sums, or 0 if tokens are counted instead of
  /// weighed. `target` is the weight, or the number, of the tokens above the threshold.
  __device__ void plan(uint128_t mass, uint128_t target, int warps, const Row& row,
                       BlockMasses& masses) {
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < GuessMemory::kBins; i += kEndThreads) memory_.units[i] = 0;
    if (thread < SampleRule::kMax / 32) memory_.rule.left_out[thread] = 0;
    if (thread == 0) memory_.heavy_count = 0;
    sync_end();
    const int samples = min(index_.tiles, max(warps, SampleRule::kMin));
    uint128_t heavy = 0;
    uint128_t rest = 0;
    const auto is_heavy = [&](uint128_t weight) {
      static_assert(GuessMemory::kMaxHeavy == 1 << 6);
      return mass != 0 && weight > mass >> 6;
    };
    for (int tile = thread; tile < index_.tiles; tile += kEndThreads) {
      const uint128_t weight = rest_of(tile, mass != 0);
      rest += weight;
      if (!is_heavy(weight)) continue;
      heavy += weight;
      memory_.heavy[atomicAdd(&memory_.heavy_count, 1)] = tile;  // at most 63 tiles can have more
                                                                 // than 1/64 of the mass each
    }
    uint128_t light = 0;
    for (int number = thread; number < samples; number += kEndThreads) {
      const uint128_t weight = rest_of(sampled_tile(number, samples, index_.tiles), mass != 0);
      if (is_heavy(weight)) {
        atomicOr(&memory_.rule.left_out[number / 32], 1U << (number % 32));
      } else {
        light += weight;
      }
    }
    rest = masses.sum(rest);
    light = masses.sum(light);
    heavy = masses.sum(heavy);
    const float of_mass =
        light == 0 ? 0.0F
                   : static_cast<float>(nearest_double(rest - heavy) / nearest_double(light));
    SampleRule rule{keys_.largest, lowest_, 0, samples, {}};
    float of_largest = static_cast<float>(kUnitsOfToken);
    if (mass == 0) {
      rule.bins_of_distance = bins_within(kReach * tile_distance());
    } else {
      const double largest = nearest_double(weigh_(from_order_key(keys_.largest), keys_.largest));
      const double of_weight = kUnits / nearest_double(mass);
      const double rest_mass = target < mass ? nearest_double(mass - target) : 0.0;
      of_largest = static_cast<float>(largest * of_weight);
      rule.bins_of_distance = bins_within(octaves_to_reach(static_cast<float>(nearest_double(mass)),
                                                           static_cast<float>(rest_mass),
                                                           static_cast<float>(largest), vocab_) *
                                          (kFromProbs ? kKeysOfOctave : 1.0F / scale_));
    }
    if (thread == 0) {
      memory_.rule.largest = rule.largest;
      memory_.rule.lowest = rule.lowest;
      memory_.rule.bins_of_distance = rule.bins_of_distance;
      memory_.rule.tiles = rule.tiles;
      memory_.weighs = mass != 0;
      memory_.scale = scale_;
      memory_.units_of_value = of_largest * of_mass;
      memory_.units_of_mass = mass == 0 ? kUnitsOfToken : kUnits / nearest_double(mass);
    }
    const BinRule<kFromProbs> bins(rule.largest, rule.bins_of_distance, GuessMemory::kBins);
    const float relative = kFromProbs ? 1.0F / from_order_key(keys_.largest) : -scale_;
    const auto add = [&](float value) {
      const float distance = bins.distance(value);
      const float weight = kFromProbs ? value * relative : exp2f(distance * relative);
      const float units = mass == 0 ? of_largest : of_largest * weight;
      const int bin = bins.bin_of(distance);
      if (units >= 0.5F && bin < GuessMemory::kBins - 1) {
        atomicAdd(&memory_.units[bin], __float2uint_rn(units));
      }
    };
    for (int tile = thread; tile < index_.tiles; tile += kEndThreads) {
      const bool counts = index_.keys[tile] >= lowest_ && (mass == 0 || index_.sums[tile] != 0);
      if (counts) add(from_order_key(index_.keys[tile]));
    }
    const float lowest = from_order_key(lowest_);
    for (int i = warp_of_thread(); i < memory_.heavy_count; i += kEndWarps) {
      float x[kLaneValues];
      row.read_in_order(memory_.heavy[i], x);
      visit_rest(x, [&](float value) {
        if (value >= lowest) add(value);
      });
    }
  }

  /// Adds up the counts of all blocks of the row. Each thread adds up the bins that the same thread
  /// reads in guessed_bracket.
  __device__ void gather(const RowCluster& cluster) {
    static_assert(GuessMemory::kBins == 4 * kEndThreads);
    uint4* mine = reinterpret_cast<uint4*>(memory_.counts) + threadIdx.x;
    uint4 sum = *mine;
#pragma unroll 4
    for (int block = 1; block < cluster.blocks; ++block) {
      const uint4 theirs = *cluster.at(mine, block);
      sum = make_uint4(sum.x + theirs.x, sum.y + theirs.y, sum.z + theirs.z, sum.w + theirs.w);
    }
    *mine = sum;
  }

 private:
  /// Returns the weight of a tile's values without the largest value, or the number of these
  /// values.
  __device__ uint128_t rest_of(int tile, bool weighs) const {
    if (!weighs) {
      return static_cast<unsigned>(min(kTileSize, vocab_ - tile * kTileSize) - 1);
    }
    const std::int32_t key = index_.keys[tile];
    const std::uint64_t sum = index_.sums[tile];
    if (sum == 0) return 0;
    const uint128_t all = row_weight(sum, weigh_.shift_of(key));
    const uint128_t largest = weigh_(from_order_key(key), key);
    return all > largest ? all - largest : uint128_t{0};
  }

  /// Returns the distance from the row's largest value to the smallest of the tiles' largest
  /// values.
  __device__ float tile_distance() const {
    if constexpr (kFromProbs) return static_cast<float>(keys_.largest - keys_.smallest);
    return from_order_key(keys_.largest) - from_order_key(keys_.smallest);
  }

  __device__ static float bins_within(float reach) {
    const float bins = static_cast<float>(GuessMemory::kBins) / reach;
    return bins > 0 && bins < INFINITY ? bins : 1.0F;
  }

  GuessMemory& memory_;
  const RowIndex& index_;
  float scale_;
  const Weigher& weigh_;
  const TileKeys& keys_;
  int vocab_;
  std::int32_t lowest_;
};

/// Returns the bracket in which the histogram places a threshold at `target` tokens, or at a mass
/// of `target`, with a margin of `deviations` standard deviations on each side.
template <bool kFromProbs>
__device__ __noinline__ KeyInterval guessed_bracket(GuessMemory& passed, double target,
                                                    float deviations, std::int32_t lowest) {
  GuessMemory& memory = in_shared(passed);
  constexpr int kBinsOfThread = GuessMemory::kBins / kEndThreads;
  const auto thread = static_cast<int>(threadIdx.x);
  const BinRule<kFromProbs> bins(memory.rule.largest, memory.rule.bins_of_distance,
                                 GuessMemory::kBins);
  float sampled[kBinsOfThread];  // number of units that one sampled value of the bin stands for
  float units[kBinsOfThread];
  float mine = 0;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    const int bin = thread * kBinsOfThread + i;
    sampled[i] = memory.units_of_value * (memory.weighs ? bins.weight_of(bin, memory.scale) : 1.0F);
    units[i] =
        static_cast<float>(memory.units[bin]) + static_cast<float>(memory.counts[bin]) * sampled[i];
    mine += units[i];
  }
  const float inclusive = warp_inclusive_sum(mine);
  if (lane_of_thread() == kWarp - 1) memory.sum_of_warp[warp_of_thread()] = inclusive;
  if (thread == 0) memory.edges[0] = 0, memory.edges[1] = GuessMemory::kBins - 1;
  sync_end();
  float before = inclusive - mine;
  float all = 0;
#pragma unroll
  for (int warp = 0; warp < kEndWarps; ++warp) {
    before += warp < warp_of_thread() ? memory.sum_of_warp[warp] : 0.0F;
    all += memory.sum_of_warp[warp];
  }
  all = fmaxf(all, 1.0F);
  const float wanted = fminf(static_cast<float>(target * memory.units_of_mass), all);
  const float share = wanted / all;
  float variance = 0;
  float upto = before;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    upto += units[i];
    const float counts = (upto <= wanted ? 1.0F - share : share) * sampled[i];
    variance += counts * counts * static_cast<float>(memory.counts[thread * kBinsOfThread + i]);
  }
  variance = reduce_warp(variance, Add{});
  if (lane_of_thread() == 0) memory.of_warp[warp_of_thread()] = variance;
  sync_end();
  variance = 0;
#pragma unroll
  for (const float of_warp : memory.of_warp) variance += of_warp;
  const float margin = deviations * sqrtf(variance);
  upto = before;
#pragma unroll
  for (int i = 0; i < kBinsOfThread; ++i) {
    const float above = upto;
    upto += units[i];
    const int bin = thread * kBinsOfThread + i;
    // Threads sum these floats in different orders, so that rounding may let more than one bin
    // qualify.
    if (above < wanted - margin && upto >= wanted - margin) memory.edges[0] = bin;
    if (above <= wanted + margin && upto > wanted + margin) memory.edges[1] = bin;
  }
  sync_end();
  const int first = memory.edges[0];
  const int last = max(memory.edges[1], first);
  sync_end();
  const std::int32_t high = first == 0 ? memory.rule.largest : bins.key_of(first);
  const std::int32_t low = last + 1 >= GuessMemory::kBins ? lowest : bins.key_of(last + 1);
  return {max(low, lowest), max(high, lowest)};
}

}  // namespace fairdraw::cuda
