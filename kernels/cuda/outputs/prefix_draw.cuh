// Draws by prefix sums in token-id order: the first token whose inclusive sum exceeds t.
//
// The row is cut into kRanges runs of consecutive tokens. The block sums the weights of each run
// (a warp a run, lanes side by side, so that loads are coalesced) and makes inclusive prefix sums
// of the runs, once. Then each draw is a warp's: a binary search for the run, sums of 256 tokens
// until t is passed, and a prefix sum over lanes in the last 256. So a draw reads at most one run,
// 1/256 of the row, and any number of draws share the sums of the runs.
//
// Sums are integers, of 64 bits or (residuals) 128: neither the cut nor the order shows.
#pragma once

#include <cstdint>

#include "cuda/device/block_sums.cuh"

namespace fairdraw::cuda {

inline constexpr int kRanges = 256;
static_assert(kRanges % kWarp == 0);

/// In shared memory.
template <class Sum>
struct PrefixSums {
  Sum inclusive[kRanges];  ///< weight of all tokens up to the end of a range
};

/// The range of tokens [begin, end) with a number; empty for the last ones of a short row.
struct TokenRange {
  std::int64_t begin, end;

  __device__ static TokenRange of(int number, std::int64_t vocab) {
    const std::int64_t share = (vocab + kRanges - 1) / kRanges;
    const std::int64_t length = (share + kWarp - 1) / kWarp * kWarp;
    const std::int64_t begin = number * length;
    return {begin < vocab ? begin : vocab, begin + length < vocab ? begin + length : vocab};
  }
};

/// Sums weight(token) over every range, calling it once a token. For the whole block; ends with a
/// barrier; the caller sees to one before if other threads may still read the sums of a row before.
template <class Sum, class Weight>
__device__ void sum_ranges(PrefixSums<Sum>& sums, std::int64_t vocab, const Weight& weight) {
  for (int number = warp_of_thread(); number < kRanges; number += warps_of_block()) {
    const TokenRange range = TokenRange::of(number, vocab);
    Sum sum = 0;
#pragma unroll 4
    for (std::int64_t token = range.begin + lane_of_thread(); token < range.end; token += kWarp) {
      sum += weight(token);
    }
    sum = reduce_warp(sum, Add{});
    if (lane_of_thread() == 0) sums.inclusive[number] = sum;
  }
  __syncthreads();
  if (warp_of_thread() == 0) {
    constexpr int kALane = kRanges / kWarp;
    Sum* mine = sums.inclusive + lane_of_thread() * kALane;
    Sum of_lane = 0;
    for (int i = 0; i < kALane; ++i) of_lane += mine[i];
    Sum before = inclusive_sum_of_warp(of_lane) - of_lane;
    for (int i = 0; i < kALane; ++i) {
      before += mine[i];
      mine[i] = before;
    }
  }
  __syncthreads();
}

/// The first token whose inclusive prefix sum exceeds t, for a t below the sum of all. For a whole
/// warp, the same t on all lanes; every lane gets the token. weight as it was summed.
template <class Sum, class Weight>
__device__ std::int32_t draw_token(const PrefixSums<Sum>& sums, std::int64_t vocab, Sum t,
                                   const Weight& weight) {
  int number = 0;
  for (int step = kRanges / 2; step > 0; step /= 2) {
    if (sums.inclusive[number + step - 1] <= t) number += step;
  }
  Sum before = number == 0 ? Sum{0} : sums.inclusive[number - 1];
  const TokenRange range = TokenRange::of(number, vocab);

  constexpr int kSteps = 8;  // of one value a lane: 256 tokens
  std::int64_t begin = range.begin;
  for (; begin + kSteps * kWarp < range.end; begin += kSteps * kWarp) {
    Sum sum = 0;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      sum += weight(begin + step * kWarp + lane_of_thread());
    }
    sum = reduce_warp(sum, Add{});
    if (before + sum > t) break;
    before += sum;
  }
  for (; begin < range.end; begin += kWarp) {
    const std::int64_t token = begin + lane_of_thread();
    const Sum upto = before + inclusive_sum_of_warp(
                                  token < range.end ? static_cast<Sum>(weight(token)) : Sum{0});
    const unsigned passed = __ballot_sync(kAllLanes, upto > t);
    if (passed != 0) return static_cast<std::int32_t>(begin + __ffs(static_cast<int>(passed)) - 1);
    before = value_of_lane(upto, kWarp - 1);
  }
  return -1;  // not reached while t is below the sum of all weights
}

}  // namespace fairdraw::cuda
