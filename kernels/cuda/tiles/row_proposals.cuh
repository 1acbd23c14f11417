// Draws the token of a row by proposals (common/proposals.h): the first proposal that the filters
// accept is the token.
//
// Contract. The first block has the row's index with the sums of all allowed tokens, and its ring
// buffers contain the last tiles of the first pass. All other blocks wait for orders
// (shared_row.cuh). Precondition: the row's status is ok. All threads of the first block must call
// run(). The result is the first proposal that is accepted, -1 if no proposal is accepted, or
// kUndecided.
//
// Algorithm and cost. The prefix sums over groups of tiles are computed once for all proposals
// (tile_draw.cuh). The proposals are drawn in turns. The first turn has 4 proposals if top_p is at
// least 0.7, and otherwise 8; each later turn has one proposal per warp. In a turn, each warp draws
// a token and adds up the tiles whose largest value is larger than the token's; this sum is an
// upper bound of A, the mass above the token. If this bound does not decide about a proposal, the
// mass above the proposal decides, which one pass of all blocks sums with floats (mass_above.cuh).
// Not every undecided proposal needs the pass. If a proposal is not larger than an earlier
// undecided one, it is rejected if the earlier one is rejected, and does not matter if the earlier
// one is accepted. So the pivots of a pass are the undecided proposals that are larger than all
// earlier undecided ones, at most four per pass. The first warp makes the decisions, and gives the
// orders for passes.
//
// With min_p, the smallest value that min_p keeps is a pivot of the first pass, because the mass
// that min_p keeps is not known before this pass. Before this pass, only the largest value of the
// row can be accepted. Proposals that min_p drops are rejected.
//
// If the target is within the error of the float sums, which happens in about one of ten thousand
// rows, the row's threshold is searched (threshold_search.cuh), and the first attempt that reaches
// it is the token. So is it if float sums of the row are not accurate.
//
// Determinism: the float bounds are rounded up, the error of float sums is less than the allowed
// margin, and the exact threshold decides the remaining cases.
//
// Hints. In calls with many rows, each row has a single block, and a separate pass to decide about
// proposals would read the row from memory a second time. So the first pass sums the mass above a
// single value, the hint, with floats, which takes 4 instructions per value. The hint is found in
// nine halvings of a range. On the average of the block's warps, the mass above the hint is a
// little less than top_p of the mass of the warp's first tile. If the mass above the hint is less
// than the row's target, all proposals >= the hint are accepted; if the mass is more, all proposals
// <= the hint are rejected. A bad hint affects no result; it only makes more rows need another
// pass.
#pragma once

#include <climits>
#include <cstdint>

#include "common/proposals.h"
#include "cuda/tiles/mass_above.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Returns the hint of a row, which combines the hints of the block's warps.
__device__ __forceinline__ ProposalMemory::Hint hint_of(const ProposalMemory& memory) {
  const int warps = warps_of_block();
  ProposalMemory::Hint mine{0.0F, -INFINITY};
  if (lane_of_thread() < warps) mine = memory.hints[lane_of_thread()];
  const float value = reduce_warp(mine.value, Add{}) / static_cast<float>(warps);
  return {value, reduce_warp(mine.octave, Maximum{})};
}

/// Finds the hint of a row of logits, with all threads of the row's only block; each warp must have
/// a tile. Each warp reads its first tile again, whose copy to shared memory is already under way.
template <RowForm kForm>
__device__ __noinline__ ProposalMemory::Hint find_hint(SharedRow<kForm> place) {
  constexpr int kHalvings = 9;
  constexpr float kOctaves = 29.0F;  // width, in octaves, of the range below the tile's largest
                                     // value that is searched
  constexpr float kLess = 0.02F;  // part of the mass by which the mass above the hint is smaller,
                                  // so that proposals from the hint up are likely to be accepted
  const RowOfTiles<kForm> row = place.asked().row;
  const float scale = place.asked().rule.scale;
  ProposalMemory& memory = *place.proposals();
  RawTile raw;
  load_again(row, warp_of_thread(), raw);
  float x[kLaneValues];
  TilePass<kForm, false>::read(row, raw, x);
  float largest = x[0];
#pragma unroll
  for (const float value : x) largest = fmaxf(largest, value);
  largest = reduce_warp(largest, Maximum{});
  const float octave = float_octave_origin(largest, scale) - kOctaveOrigin;
  float weights[kLaneValues];
  float all = 0;
#pragma unroll
  for (int i = 0; i < kLaneValues; ++i) {
    weights[i] = rough_exp2(__fmaf_rn(x[i], scale, -octave));
    all += weights[i];
  }
  const float wanted = (place.asked().filters.top_p - kLess) * reduce_warp(all, Add{});
  float high = largest;
  float low = largest - kOctaves / scale;
#pragma unroll 1
  for (int i = 0; i < kHalvings; ++i) {
    const float middle = 0.5F * (low + high);
    float above = 0;
#pragma unroll
    for (int v = 0; v < kLaneValues; ++v) above += x[v] > middle ? weights[v] : 0.0F;
    if (reduce_warp(above, Add{}) <= wanted) {
      high = middle;
    } else {
      low = middle;
    }
  }
  if (lane_of_thread() == 0) memory.hints[warp_of_thread()] = {high, octave};
  sync_block();
  return hint_of(memory);
}

template <RowForm kForm, bool kFromProbs>
class RowProposals {
 public:
  /// Next steps after a decision that found no token, beside kUndecided.
  static constexpr std::int32_t kNextTurn = -3;
  static constexpr std::int32_t kPass = -4;

  /// Takes a row. `floor` is the smallest key that min_p keeps.
  __device__ __forceinline__ RowProposals(const SharedRow<kForm>& place,
                                          const RowOfTiles<kForm>& row, std::int32_t largest,
                                          std::int32_t floor)
      : place_(place),
        memory_(*place.proposals()),
        largest_(largest),
        floor_(floor),
        error_(rough_error((row.tiles() - 1) / (warps_of_block() << place.blocks_log2) + 1)),
        indexed_(row, place.blocks(row.tiles()).index(), place.asked().rule, ProposedTiles{floor},
                 largest) {}

  /// Returns the accepted token, -1 if no proposal is accepted, or kUndecided. `word` is the random
  /// word of the first turn's attempt that has the warp's number. `hinted` says whether the first
  /// pass had a hint.
  __device__ __forceinline__ std::int32_t run(const DrawWords& words, std::uint64_t word,
                                              bool hinted) {
    if (threadIdx.x == 0) {
      memory_.target_low = memory_.target_high = 0;
      memory_.accepted = INT_MAX;
      memory_.rejected = floor_ - 1;
      memory_.is_open = false;
      memory_.has_passed = false;
    }
    indexed_.sum_groups(memory_.groups, warps_of_block(), [&](int tile, uint128_t weight) {
      memory_.masses()[tile] = __ull2float_ru(static_cast<std::uint64_t>(weight >> 64) + 1);
    });
    sync_block();
    const auto attempts = static_cast<int>(kAttempts);
    int turn = filters().top_p < kFewFrom ? kSome : kFew;
    bool passed = false;
#pragma unroll 1
    for (int base = 0; base < attempts; base += turn, turn = warps_of_block()) {
      if (base > 0) {
        turn = min(warps_of_block(), attempts - base);
        word = words.of_attempt(static_cast<std::uint32_t>(base + warp_of_thread()));
      }
      if (warp_of_thread() < turn) propose(word);
      sync_block();
      if (base == 0 && hinted && warp_of_thread() == 0) note_hint();
#pragma unroll 1
      while (true) {
        if (warp_of_thread() == 0) decide(turn, passed);
        sync_block();
        const std::int32_t outcome = memory_.outcome;
        if (outcome >= 0 || outcome == kUndecided) return outcome;
        if (outcome == kNextTurn) break;
        place_.cluster().sync();
        called_mass_above<kForm, kFromProbs>(place_);
        place_.cluster().sync();
        if (warp_of_thread() == 0) note_masses(!passed);
        passed = true;
      }
    }
    return -1;
  }

 private:
  static constexpr int kFew = 4;
  static constexpr int kSome = 8;
  static constexpr float kFewFrom = 0.7F;
  static constexpr double kOfRoughUnit = 0x1p-103;
  static constexpr float kOfMassUnit = 0x1p39F;  ///< units of ProposalMemory::masses per unit of
                                                 ///< rough sums
  static_assert(kRoughUnit == 103 && kRoughUnit - 64 == 39);
  static constexpr float kRoundingError = 0x1p-22F;  ///< bound of the relative error of a mass that
                                                     ///< is rounded to double and to float
  static_assert(kSome <= kMinThreadsOfBlock / kWarp);

  __device__ __forceinline__ const RowFilters& filters() const { return place_.asked().filters; }
  __device__ __forceinline__ float scale() const { return place_.asked().rule.scale; }

  /// Returns whether float sums are accurate.
  __device__ __forceinline__ bool has_rough_sums() const {
    return kFromProbs || float_octaves_are_exact(from_order_key(largest_), scale());
  }

  __device__ __forceinline__ void set_target(uint128_t target) const {
    const auto rough = static_cast<float>(nearest_double(target) * kOfRoughUnit);
    memory_.target_low = rough * (1.0F - kRoundingError);
    memory_.target_high = rough * (1.0F + kRoundingError);
  }

  /// Draws the proposal of this warp, and bounds the mass above the proposal.
  __device__ __forceinline__ void propose(std::uint64_t word) const {
    const DrawnToken drawn = indexed_.draw(memory_.groups, word);
    if (threadIdx.x == 0 && !filters().min_p_on()) {
      set_target(nucleus_target(filters().top_p, drawn.total));
    }
    const std::int32_t key = order_key(drawn.value);
    const RowIndex& index = indexed_.index();
    const float* const masses = memory_.masses();
    constexpr int kAtOnce = 8;
    float above = 0;
#pragma unroll 1
    for (int first = lane_of_thread(); first < index.tiles; first += kAtOnce * kWarp) {
      std::int32_t keys[kAtOnce];
      float mass[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int tile = first + i * kWarp;
        const int place = min(tile, index.tiles - 1);
        keys[i] = tile < index.tiles ? index.keys[place] : INT_MIN;
        mass[i] = masses[place];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) above = __fadd_ru(above, keys[i] > key ? mass[i] : 0.0F);
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      above = __fadd_ru(above, __shfl_xor_sync(kAllLanes, above, distance));
    }
    if (lane_of_thread() == 0) memory_.proposals[warp_of_thread()] = {drawn.token, key, above};
  }

  /// Decides about the proposals of a turn, with the first warp: stores the token if one is known,
  /// and otherwise orders a pass if a pass can decide.
  __device__ __forceinline__ void decide(int turn, bool passed) const {
    const bool there = lane_of_thread() < turn;
    const Proposal mine = memory_.proposals[there ? lane_of_thread() : 0];
    const std::int32_t key = there ? mine.key : INT_MIN;
    const bool is_bounded =
        there && key >= floor_ && mine.above <= memory_.target_low * kOfMassUnit;
    const std::int32_t accepted =
        min(memory_.accepted, __reduce_min_sync(kAllLanes, is_bounded ? key : INT_MAX));
    const unsigned sure = __ballot_sync(kAllLanes, there && key >= accepted);
    std::int32_t before = key;  // largest key on the lanes before this one
#pragma unroll
    for (int distance = 1; distance < kWarp; distance *= 2) {
      const std::int32_t other = __shfl_up_sync(kAllLanes, before, distance);
      before = lane_of_thread() >= distance ? max(before, other) : before;
    }
    before = __shfl_up_sync(kAllLanes, before, 1);
    before = lane_of_thread() == 0 ? memory_.rejected : max(before, memory_.rejected);
    const unsigned records = __ballot_sync(kAllLanes, there && key > before);
    // Bits of the lanes before the first lane whose proposal is certainly accepted.
    const unsigned open = records & ((sure & (0U - sure)) - 1U);
    __syncwarp();
    if (lane_of_thread() == 0) memory_.accepted = accepted;
    if (open == 0) {
      const int lane = __ffs(static_cast<int>(sure)) - 1;
      if (lane_of_thread() == max(lane, 0)) memory_.outcome = lane < 0 ? kNextTurn : mine.token;
      return;
    }
    if (has_rough_sums() && !memory_.is_open) {
      order_pass(key, open, passed);
    } else if (lane_of_thread() == 0) {
      memory_.outcome = kUndecided;
    }
  }

  /// Orders a pass. The pivots of the pass are the keys of the first lanes in `open`; in the first
  /// pass, the smallest key that min_p keeps comes before them.
  __device__ __forceinline__ void order_pass(std::int32_t key, unsigned open, bool passed) const {
    const bool has_floor = filters().min_p_on() && !passed;
    ProposalMemory::Order order{};
    order.largest = largest_;
    order.in_ring = !passed;
    order.count = min(ProposalMemory::kPivots, __popc(open) + (has_floor ? 1 : 0));
#pragma unroll
    for (int i = 0; i < ProposalMemory::kPivots; ++i) {
      if (i == 0 && has_floor) {
        order.pivots[i] = floor_ - 1;
        continue;
      }
      const int lane = __ffs(static_cast<int>(open)) - 1;
      order.pivots[i] = lane < 0 ? largest_ : __shfl_sync(kAllLanes, key, lane);
      open &= open - 1U;
    }
    const RowCluster cluster = place_.cluster();
    if (lane_of_thread() < cluster.blocks) {
      cluster.at(&memory_, lane_of_thread())->order = order;
      cluster.at(&place_.asked(), lane_of_thread())->order = {PassKind::mass_above, {}, 0, 0};
    }
    if (lane_of_thread() != 0) return;
    memory_.has_passed = true;
    memory_.outcome = kPass;
  }

  /// Returns whether a mass is certainly below the target, or certainly above the target, given the
  /// rough sum of the mass.
  __device__ __forceinline__ bool is_below(float sum) const {
    return sum < memory_.target_low * (1.0F - error_);
  }
  __device__ __forceinline__ bool is_above(float sum) const {
    return sum > memory_.target_high * (1.0F + error_);
  }

  /// Finds, with the first warp, whether the mass above the hint accepts or rejects the hint, and
  /// stores the result.
  __device__ __forceinline__ void note_hint() const {
    const ProposalMemory::Hint hint = hint_of(memory_);
    float above = lane_of_thread() < warps_of_block() ? memory_.above_hint[lane_of_thread()] : 0.0F;
    const float octave = float_octave_origin(from_order_key(largest_), scale()) - kOctaveOrigin;
    above = reduce_warp(above, Add{}) * rough_exp2(hint.octave - octave);
    const std::int32_t key = order_key(hint.value);
    if (lane_of_thread() == 0 && has_rough_sums()) {
      if (is_below(above)) memory_.accepted = key;
      if (is_above(above)) memory_.rejected = key;
    }
    __syncwarp();
  }

  /// Finds, with the first warp, which keys the masses of a pass accept or reject, and stores the
  /// result.
  __device__ __forceinline__ void note_masses(bool is_first) const {
    const ProposalMemory::Order& order = memory_.order;
    const int lane = min(lane_of_thread(), ProposalMemory::kPivots - 1);
    const bool has_floor = filters().min_p_on() && is_first;
    const bool counts = lane_of_thread() < order.count && !(has_floor && lane_of_thread() == 0);
    // Lanes whose numbers differ by a multiple of kPivots add up the sums of different blocks.
    constexpr int kAtOnce = kWarp / ProposalMemory::kPivots;
    const int pivot = lane_of_thread() % ProposalMemory::kPivots;
    float above = 0;
#pragma unroll
    for (int first = 0; first < kMaxBlocksOfRow; first += kAtOnce) {
      const int block = first + lane_of_thread() / ProposalMemory::kPivots;
      if (block < place_.cluster().blocks) above += memory_.of_block[block][pivot];
    }
#pragma unroll
    for (int distance = ProposalMemory::kPivots; distance < kWarp; distance *= 2) {
      above += __shfl_xor_sync(kAllLanes, above, distance);
    }
    above = __shfl_sync(kAllLanes, above, lane);
    if (has_floor) {
      const float target = filters().top_p * __shfl_sync(kAllLanes, above, 0);
      __syncwarp();
      if (lane_of_thread() == 0) {
        memory_.target_low = target * (1.0F - 2 * error_);
        memory_.target_high = target * (1.0F + 2 * error_);
      }
      __syncwarp();
    }
    const bool accepts = is_below(above);
    const bool rejects = is_above(above);
    const bool is_open = __any_sync(kAllLanes, counts && !accepts && !rejects) != 0;
    const std::int32_t key = order.pivots[lane];
    const std::int32_t accepted = __reduce_min_sync(kAllLanes, counts && accepts ? key : INT_MAX);
    const std::int32_t rejected = __reduce_max_sync(kAllLanes, counts && rejects ? key : INT_MIN);
    __syncwarp();  // wait until all lanes have read
    if (lane_of_thread() == 0) {
      memory_.accepted = min(memory_.accepted, accepted);
      memory_.rejected = max(memory_.rejected, rejected);
      memory_.is_open = is_open;
    }
    __syncwarp();
  }

  const SharedRow<kForm>& place_;
  ProposalMemory& memory_;
  std::int32_t largest_, floor_;
  float error_;  ///< bound of the relative error of float sums
  IndexedRow<RowOfTiles<kForm>, kFromProbs, ProposedTiles> indexed_;
};

/// Sets end.token to the token of the first attempt that reaches the row's threshold, end.cut, or
/// to -1 if no attempt does, and sums the tokens that the cut keeps. `floor` is the smallest key
/// that min_p keeps. All threads that finish the row must call this function.
template <RowForm kForm, bool kFromProbs>
__device__ __noinline__ void accept_by_threshold(SharedRow<kForm> place, std::int32_t floor) {
  constexpr std::int32_t kLowest = kFromProbs ? 1 : kEmptyTileKey + 1;
  RowEnd& end = *place.end();
  const RowOfTiles<kForm> values = place.asked().row;
  const DrawWords words = place.asked().words;
  const RowCut all{kLowest, values.vocab()};
  pass_of_all<kForm, kFromProbs>(place, {PassKind::sum_and_list, all, kLowest, kLowest - 1});
  const IndexedRow<RowOfTiles<kForm>, kFromProbs, ProposedTiles> row(
      values, end.index(), end.rule, ProposedTiles{floor}, end.keys.largest);
  row.sum_groups(end.groups, kEndWarps);
  sync_end();
  std::int32_t token = -1;
#pragma unroll 1
  for (std::uint32_t base = 0; base < kAttempts && token < 0; base += kEndWarps) {
    const DrawnToken drawn =
        row.draw(end.groups, words.of_attempt(base + static_cast<std::uint32_t>(warp_of_thread())));
    const bool accepted = end.cut.keeps(order_key(drawn.value), drawn.token);
    if (lane_of_thread() == 0) end.low_of_warp[warp_of_thread()] = accepted ? drawn.token : -1;
    sync_end();
    for (const std::int32_t of_warp : end.low_of_warp) token = token < 0 ? of_warp : token;
    sync_end();
  }
  const RowCut cut = end.cut;
  pass_of_all<kForm, kFromProbs>(place, {PassKind::sum_and_list, cut, cut.low, cut.low - 1});
  if (threadIdx.x == 0) end.token = token;
  sync_end();
}

}  // namespace fairdraw::cuda
