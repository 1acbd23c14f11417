// Long list of candidates, of which each thread has a few consecutive ones: finds the survivors of
// top_k and top_p in the list, and finishes a row whose candidates are all in the list.
//
// The keys of the candidates are in registers, and the k-th largest key is found by comparisons
// with pivots (tile_search.cuh). The weight of each candidate that top_k keeps is computed once,
// and stored in memory that only the candidate's thread reads. The threshold of the nucleus is
// bisected over the keys, until one candidate is left or after 32 steps; each step adds up these
// weights and counts the candidates. Prefix sums over the threads then find the thread whose
// candidates contain the drawn position, and this thread finds the token among its candidates.
//
// The list may also be a part of the row's candidates, those in a bracket of keys, in any order
// (threshold_search.cuh). Then the number or the mass of the larger candidates is known.
#pragma once

#include <climits>
#include <cstdint>

#include "cuda/tiles/row_results.cuh"
#include "cuda/tiles/shared_row.cuh"

namespace fairdraw::cuda {

/// Long list of candidates as a single thread sees the list, with the thread's consecutive
/// candidates.
template <bool kFromProbs>
class LongList {
  static constexpr int kOfThread = CandidateList::kMax / kEndThreads;
  /// First bit of a count of candidates that is summed together with their weights, which are below
  /// 2^104 each.
  static constexpr int kCountAt = 116;
  static_assert(CandidateList::kMax < 1 << (kCountAt - 104) && kCountAt <= 128 - 11);

 public:
  /// The list has n candidates, all with keys in an interval.
  __device__ __forceinline__ LongList(RowEnd& row, int n, KeyInterval keys)
      : row_(row), n_(n), keys_(keys), search_(row.search), masses_(row.masses) {
    FAIRDRAW_DEVICE_ASSERT(n <= CandidateList::kMax && keys.low <= keys.high);
    const int share = (n + kEndThreads - 1) / kEndThreads;
    begin_ = min(n, static_cast<int>(threadIdx.x) * share);
    end_ = min(n, begin_ + share);
#pragma unroll
    for (int i = 0; i < kOfThread; ++i) {
      key_[i] = begin_ + i < end_ ? row.list.key[begin_ + i] : INT_MIN;
    }
  }

  /// Draws the token of a row whose candidates are all in the list.
  __device__ __forceinline__ void draw(const RowOutputs& outputs) {
    const RowFilters filters = row_.filters;
    RowCut cut{keys_.low, filters.vocab};
    if (n_ > filters.top_k) cut = top_k(filters.top_k);
    weigh(cut);
    uint128_t mine = mass(cut.low, INT_MAX);
    BlockMasses::Prefix prefix = masses_.prefix(mine);
    if (filters.top_p_on()) {
      const uint128_t target =
          nucleus_target(filters.top_p, filters.by_row_mass ? filters.row_mass : prefix.total);
      if (prefix.total >= target) {
        const std::int32_t low = top_p(cut.low, target);
        if (low > cut.low) cut = {low, filters.vocab};
        mine = mass(cut.low, INT_MAX);
        prefix = masses_.prefix(mine);
      }
    }
    const uint128_t position = multiply_high(filters.word, prefix.total);
    if (position < prefix.before || position >= prefix.before + mine) return;
    const int drawn = entry_at(cut.low, position - prefix.before);
    write_drawn(outputs, RowEndKind::long_list, row_.list.id[drawn], row_.keys.largest, cut,
                prefix.total);
  }

  /// Returns the cut that keeps the k largest candidates. Precondition: the list has at least k
  /// candidates.
  __device__ __forceinline__ RowCut top_k(int k) {
    FAIRDRAW_DEVICE_ASSERT(k > 0 && k <= n_);
    const KeyRange range = search_.search(
        {keys_.low, keys_.high, n_}, keys_.low, k, 0, [&](const std::int32_t(&pivot)[3]) {
          PivotCounts counts;
#pragma unroll
          for (const std::int32_t key : key_) {
            counts.add(key >= pivot[0], key >= pivot[1], key >= pivot[2]);
          }
          return counts;
        });
    RowCut cut{range.low, row_.filters.vocab};
    if (row_.filters.lowest_id && range.reached > k) {
      cut.tie_end = end_of_ties(row_, begin_, end_, range, k);
    }
    return cut;
  }

  /// Computes the weights of this thread's candidates. Candidates that the cut drops get the weight
  /// 0.
  __device__ __forceinline__ void weigh(const RowCut& cut) {
    const RowWeigher<kFromProbs> weigher(row_.rule, row_.keys.largest);
#pragma unroll 1
    for (int i = begin_; i < end_; ++i) {
      const CandidateList::Entry entry = row_.list.entry(i);
      typename RowWeigher<kFromProbs>::Shifted weight{0, 0};
      if (cut.keeps(entry.key, entry.id)) {
        weight =
            weigher.shifted(from_order_key(entry.key), row_.index().keys[entry.id / kTileSize]);
      }
      row_.list.weight.of_tile[i] = weight.of_tile;
      row_.list.weight.shift[i] = static_cast<std::int8_t>(weight.shift);
    }
  }

  /// Returns the total weight of all threads' candidates that weigh() kept. The function has one
  /// barrier.
  __device__ __forceinline__ uint128_t total() { return masses_.sum(mass(keys_.low, INT_MAX)); }

  /// Returns the largest key such that the kept candidates whose keys are at least this large weigh
  /// at least `target` together. Precondition: the candidates with keys >= `low` weigh at least
  /// `target` together.
  __device__ __forceinline__ std::int32_t top_p(std::int32_t low, const uint128_t& target) {
    std::int32_t high = keys_.high;
    uint128_t above = 0;  // weight of the candidates with keys above `high`
    // The search ends as soon as a single candidate is left, usually after half of the steps.
    int left = n_;  // at least the number of candidates with keys from `low` to `high`
#pragma unroll 1
    while (low < high && left > 1) {
      const std::uint32_t half =
          (static_cast<std::uint32_t>(high) - static_cast<std::uint32_t>(low) + 1U) / 2U;
      const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(high) - half + 1U);
      const uint128_t counted = masses_.sum(mass(middle, high, uint128_t{1} << kCountAt));
      const auto listed = static_cast<int>(counted >> kCountAt);
      const uint128_t sum = above + (counted & ((uint128_t{1} << kCountAt) - 1));
      if (sum >= target) {
        low = middle;
        left = listed;
      } else {
        above = sum;
        high = middle - 1;
        left -= listed;
      }
    }
    if (low == high) return low;
    std::uint32_t mine = 0;  // key of the candidate on the thread that has it
#pragma unroll
    for (const std::int32_t key : key_) {
      if (key >= low && key <= high) mine = static_cast<std::uint32_t>(key);
    }
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(masses_.sum(mine)));
  }

  /// Adds the weights of this thread's candidates to the sums of their tiles, for the kept
  /// candidates with keys >= `low`. A barrier must follow before the sums are read.
  __device__ __forceinline__ void add_to_tiles(std::int32_t low) const {
#pragma unroll 1
    for (int i = begin_; i < end_; ++i) {
      const CandidateList::Entry entry = row_.list.entry(i);
      const std::uint64_t weight = row_.list.weight.of_tile[i];
      if (entry.key < low || weight == 0) continue;
      atomicAdd(reinterpret_cast<unsigned long long*>(row_.sums + entry.id / kTileSize),
                static_cast<unsigned long long>(weight));
    }
  }

 private:
  /// Returns the id at which ties are cut, so that exactly k tokens are kept and tied tokens with
  /// low ids come first. Precondition: the range is a single key.
  __device__ __noinline__ static int end_of_ties(RowEnd& row, int begin, int end, KeyRange range,
                                                 int k) {
    const auto count = [&](const std::int32_t(&pivot)[3]) {
      PivotCounts counts;
#pragma unroll 1
      for (int i = begin; i < end; ++i) {
        if (row.list.key[i] != range.low) continue;
        const int place = -1 - row.list.id[i];
        counts.add(place >= pivot[0], place >= pivot[1], place >= pivot[2]);
      }
      return counts;
    };
    sync_end();  // wait until all threads have read the results of the previous search
    PivotSearch search(row.search);
    const std::int32_t all[3] = {INT_MIN, INT_MIN, INT_MIN};
    const auto ties = static_cast<int>(search.sum(count(all)).third);
    const int vocab = row.filters.vocab;
    return -search.search({-vocab, -1, ties}, -vocab, k - (range.reached - ties), 0, count).low;
  }

  __device__ __forceinline__ uint128_t weight_of(int entry) const {
    return row_weight(row_.list.weight.of_tile[entry], row_.list.weight.shift[entry]);
  }

  /// Returns the total weight of this thread's kept candidates with keys from low to high, plus
  /// `each` per candidate in this range.
  __device__ __forceinline__ uint128_t mass(std::int32_t low, std::int32_t high,
                                            uint128_t each = 0) const {
    uint128_t sum = 0;
#pragma unroll 1
    for (int i = begin_; i < end_; ++i) {
      const std::int32_t key = row_.list.key[i];
      if (key >= low && key <= high) sum += weight_of(i) + each;
    }
    return sum;
  }

  /// Returns the list index of this thread's candidate that contains a position in the thread's
  /// mass.
  __device__ __forceinline__ int entry_at(std::int32_t low, uint128_t position) const {
    uint128_t upto = 0;
    int entry = begin_;
    for (; entry < end_; ++entry) {
      if (row_.list.key[entry] >= low) upto += weight_of(entry);
      if (position < upto) break;
    }
    return entry;
  }

  RowEnd& row_;
  int n_, begin_, end_;
  KeyInterval keys_;
  std::int32_t key_[kOfThread];
  PivotSearch search_;
  BlockMasses masses_;
};

/// Finishes a row whose candidate list is long. Preconditions: the list has all n values that are
/// at least `bound`, a barrier has followed the writing of the list, and top_k is on.
template <bool kFromProbs>
__device__ __noinline__ void end_long_list(const RowOutputs& outputs, RowEnd& passed, int n,
                                           std::int32_t bound) {
  RowEnd& row = in_shared(passed);
  LongList<kFromProbs>(row, n, {bound, row.keys.largest}).draw(outputs);
}

}  // namespace fairdraw::cuda
