// The end of a row whose survivors are in a list: the first block's work, alone.
//
// A list of at most kMaxRanked candidates is sorted by counting: every candidate counts those that
// come before it, all threads at once, and its count is its place. Then one warp has the cuts of
// top_k and top_p from prefix sums over the sorted weights, and the token from prefix sums in list
// order, which is token-id order. Longer lists find each cut through levels of bins (weight_bins),
// whose last is ranked.
#pragma once

#include "cuda/row_filter/row_walk.cuh"

namespace fairdraw::cuda {

template <bool kFromProbs, int kThreads>
class ListFinish {
  using Work = RowWork<kFromProbs, kThreads>;
  static constexpr int kWarps = kThreads / kWarp;
  static_assert(kMaxRanked <= RowHeads::kMax);

 public:
  __device__ __forceinline__ ListFinish(Work& work, const CandidateList& list, std::uint64_t word)
      : work_(work), memory_(work.memory), list_(list), word_(word) {}

  /// `sums`: each block's entries. room: of each in the list. Lists values >= from. row_mass: top_p
  /// is measured on `mass`, the row's; else on what top_k keeps.
  __device__ __forceinline__ void finish(const PartSums* sums, int room, float from, bool row_mass,
                                         std::uint64_t mass) {
    const int n = write_offsets(sums);
    work_.low = from;
    if (n <= kMaxRanked) {
      finish_short(n, room, row_mass, mass);
    } else {
      finish_long(n, room, row_mass, mass);
    }
  }

  /// The largest listed value for which it and what is larger weigh at least `target`, in lists of
  /// values alone with `room` for each block; and each block's weight of what reaches it, by lane.
  struct NucleusCut {
    float low;
    std::uint64_t weight_of_block;  ///< in lanes of warp 0
  };
  __device__ __forceinline__ NucleusCut cut_nucleus(const PartSums* sums, int room, KeyRange range,
                                                    std::uint64_t target) {
    write_offsets(sums);
    const int blocks = work_.cluster.blocks;
    const auto each = [&](auto&& visit) { each_entry(room, [&](int slot, int) { visit(slot); }); };
    const auto weight_of = [&](int slot) {
      return integer_weight(work_.weight(list_.value[slot]));
    };
    const float low = select(range, target, each, weight_of).value;
    std::uint64_t sum = 0;
    each([&](int slot) {
      if (list_.value[slot] >= low) sum += weight_of(slot);
    });
    sum = warp_sum(sum);
    if (work_.lane == 0) memory_.warp_sum[1][work_.warp] = sum;
    __syncthreads();
    std::uint64_t weight = 0;
    if (work_.warp == 0 && work_.lane < blocks) {
      for (int w = work_.lane; w < kWarps / blocks * blocks; w += blocks) {
        weight += memory_.warp_sum[1][w];
      }
    }
    return {low, weight};
  }

 private:
  /// Where each block's entries begin among all; returns their number.
  __device__ __forceinline__ int write_offsets(const PartSums* sums) {
    const int blocks = work_.cluster.blocks;
    const int count = work_.lane < blocks ? static_cast<int>(sums[work_.lane].count) : 0;
    const int inclusive = warp_inclusive_sum(count);
    if (work_.warp == 0 && work_.lane < blocks) memory_.offset[work_.lane + 1] = inclusive;
    if (work_.thread == 0) memory_.offset[0] = 0;
    __syncthreads();
    return __shfl_sync(kAllLanes, inclusive, kWarp - 1);
  }

  /// Calls visit(slot, entry) for the thread's share of the list: warp w takes entries of block
  /// w mod the number of blocks.
  template <class Visit>
  __device__ __forceinline__ void each_entry(int room, Visit&& visit) const {
    const int blocks = work_.cluster.blocks;
    const int block = work_.warp % blocks;
    const int part = work_.warp / blocks;
    const int warps_of_block = kWarps / blocks;
    if (part >= warps_of_block) return;
    const int first = memory_.offset[block];
    const int count = memory_.offset[block + 1] - first;
    for (int i = part * kWarp + work_.lane; i < count; i += warps_of_block * kWarp) {
      visit(block * room + i, first + i);
    }
  }

  /// Slot in the list of an entry, counted over all blocks.
  __device__ __forceinline__ int slot_of(int entry, int room) const {
    int block = 0;
    while (entry >= memory_.offset[block + 1]) ++block;
    return block * room + entry - memory_.offset[block];
  }

  /// How many of the n ranked values come before number `entry`: larger ones, and equal ones that
  /// stand before it. 2^log threads an entry; the first of them has the answer.
  struct Rank {
    int entry, before;
    bool has;
  };
  __device__ __forceinline__ Rank rank_of(int n) const {
    int log = 0;
    while ((n << (log + 1)) <= kThreads && log < 5) ++log;
    const int group = 1 << log;
    const int first = work_.thread & (group - 1);
    Rank rank{work_.thread >> log, 0, false};
    if (!__any_sync(kAllLanes, rank.entry < n)) return rank;
    const float x = rank.entry < n ? memory_.ranked.value[rank.entry] : INFINITY;
    const int own_quad = rank.entry / 4;
    const float below = previous_below(x);  // more than this: at least x
#pragma unroll 2
    for (int quad = first; quad < (n + 3) / 4; quad += group) {
      const float4 others = reinterpret_cast<const float4*>(memory_.ranked.value)[quad];
      const float threshold = quad < own_quad ? below : x;
      rank.before += (others.x > threshold ? 1 : 0) + (others.y > threshold ? 1 : 0) +
                     (others.z > threshold ? 1 : 0) + (others.w > threshold ? 1 : 0);
      if (quad == own_quad) {
        const int place = rank.entry % 4;
        rank.before += (place > 0 && others.x == x ? 1 : 0) + (place > 1 && others.y == x ? 1 : 0) +
                       (place > 2 && others.z == x ? 1 : 0);
      }
    }
    for (int distance = group / 2; distance > 0; distance /= 2) {
      rank.before += __shfl_xor_sync(kAllLanes, rank.before, distance);
    }
    rank.has = rank.entry < n && first == 0;
    return rank;
  }

  /// Sorts the n ranked values. Ends with a barrier.
  __device__ __forceinline__ void sort_ranked(int n) {
    if (work_.thread < 4 && n + work_.thread < kMaxRanked) {
      memory_.ranked.value[n + work_.thread] = -INFINITY;  // a whole number of quads
    }
    __syncthreads();
    const Rank rank = rank_of(n);
    if (rank.has) memory_.ranked.sorted[rank.before] = rank.entry;
    __syncthreads();
  }

  __device__ __forceinline__ float sorted_value(int place) const {
    return memory_.ranked.value[memory_.ranked.sorted[place]];
  }
  __device__ __forceinline__ std::uint64_t sorted_weight(int place) const {
    return memory_.ranked.weight[memory_.ranked.sorted[place]];
  }

  /// One warp's view of the sorted entries [0, n): consecutive ones in each lane, and prefix sums
  /// of their weights from the largest value down.
  struct Prefix {
    int begin, end;
    std::uint64_t before, inclusive;  ///< of this lane's entries
    std::uint64_t total;
  };
  __device__ __forceinline__ Prefix sum_sorted(int n) const {
    const int per_lane = (n + kWarp - 1) / kWarp;
    Prefix prefix{};
    prefix.begin = min(work_.lane * per_lane, n);
    prefix.end = min(prefix.begin + per_lane, n);
    std::uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kMaxRanked / kWarp; ++i) {
      if (prefix.begin + i < prefix.end) sum += sorted_weight(prefix.begin + i);
    }
    prefix.inclusive = warp_inclusive_sum(sum);
    prefix.before = prefix.inclusive - sum;
    prefix.total = __shfl_sync(kAllLanes, prefix.inclusive, kWarp - 1);
    return prefix;
  }

  /// First of the sorted entries at which the weight from the top reaches `target`, and the weight
  /// before it; -1 where it does not.
  struct Reached {
    int place;
    std::uint64_t before;
  };
  __device__ __forceinline__ Reached reach(const Prefix& prefix, std::uint64_t target) const {
    const unsigned reached = __ballot_sync(kAllLanes, prefix.inclusive >= target);
    if (reached == 0) return {-1, prefix.total};
    const int lane = __ffs(static_cast<int>(reached)) - 1;
    Reached found{prefix.begin, prefix.before};
    if (work_.lane == lane) {
      for (std::uint64_t w = sorted_weight(found.place); found.before + w < target;
           w = sorted_weight(found.place)) {
        found.before += w;
        ++found.place;
      }
    }
    return {__shfl_sync(kAllLanes, found.place, lane), __shfl_sync(kAllLanes, found.before, lane)};
  }

  __device__ __forceinline__ void finish_short(int n, int room, bool row_mass, std::uint64_t mass) {
    Ranked& ranked = memory_.ranked;
    each_entry(room, [&](int slot, int entry) {
      const float x = list_.value[slot];
      ranked.value[entry] = x;
      ranked.id[entry] = list_.id[slot];
      ranked.weight[entry] = integer_weight(work_.weight(x));
    });
    sort_ranked(n);
    if (work_.warp != 0) return;
    const int k = work_.parameters.top_k;
    const bool lowest_id = work_.task.tie_rule == TieRule::lowest_id;
    int kept = n;
    if (work_.top_k_on() && n > k) {
      work_.low = sorted_value(k - 1);
      int ties = 0;
      for (int i = k + work_.lane; i < n; i += kWarp) ties += sorted_value(i) == work_.low;
      ties = __reduce_add_sync(kAllLanes, ties);
      kept = lowest_id ? k : k + ties;
      if (lowest_id) work_.tie_end = ranked.id[ranked.sorted[k - 1]] + 1;
    }
    if (work_.top_p_on()) {
      const Prefix prefix = sum_sorted(kept);
      const Reached cut =
          reach(prefix, nucleus_target(work_.parameters.top_p, row_mass ? mass : prefix.total));
      if (cut.place >= 0 && sorted_value(cut.place) > work_.low) {
        work_.low = sorted_value(cut.place);
        work_.tie_end = work_.vocab;
      }
    }
    // The list is in token-id order: consecutive entries a lane.
    const int per_lane = (n + kWarp - 1) / kWarp;
    const int begin = min(work_.lane * per_lane, n);
    const int end = min(begin + per_lane, n);
    const bool ties_cut = work_.tie_end < work_.vocab;
    const auto kept_weight = [&](int i) {
      const float x = ranked.value[i];
      const bool keep = ties_cut ? work_.kept(x, ranked.id[i]) : x >= work_.low;
      return keep ? ranked.weight[i] : std::uint64_t{0};
    };
    std::uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kMaxRanked / kWarp; ++i) {
      if (begin + i < end) sum += kept_weight(begin + i);
    }
    const std::uint64_t inclusive = warp_inclusive_sum(sum);
    const std::uint64_t total = __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    if (work_.task.heads.given()) note_head(n);
    if (!work_.draws()) {
      if (work_.lane == 0) work_.write_cut(work_.task.total_of_row ? mass : total, -1);
      return;
    }
    std::uint64_t left = multiply_high(word_, total);
    if (left < inclusive - sum || left >= inclusive) return;
    left -= inclusive - sum;
    int i = begin;
    for (std::uint64_t w = kept_weight(i); left >= w; w = kept_weight(++i)) left -= w;
    work_.write_cut(total, ranked.id[i]);
  }

  /// One warp: the survivors among the n sorted values, which are the first of them.
  __device__ __forceinline__ void note_head(int n) {
    float* values = work_.task.heads.values + std::int64_t{work_.row} * RowHeads::kMax;
    std::int32_t* ids = work_.task.heads.ids + std::int64_t{work_.row} * RowHeads::kMax;
    int kept = 0;
    for (int first = 0; first < n; first += kWarp) {
      const int place = first + work_.lane;
      const int entry = memory_.ranked.sorted[min(place, n - 1)];
      const float x = memory_.ranked.value[entry];
      const std::int32_t id = memory_.ranked.id[entry];
      const bool keeps = place < n && work_.kept(x, id);
      if (keeps) {
        values[place] = x;
        ids[place] = id;
      }
      kept += __popc(__ballot_sync(kAllLanes, keeps));
    }
    work_.in_head = kept;
  }

  /// Puts the blocks' entries one after the other.
  __device__ __forceinline__ void close_gaps(int n, int room) {
    if (work_.cluster.blocks == 1) return;
    constexpr int kMaxPerThread = kMaxListed / kThreads;
    float x[kMaxPerThread];
    std::int32_t id[kMaxPerThread];
#pragma unroll
    for (int i = 0; i < kMaxPerThread; ++i) {
      const int entry = work_.thread + i * kThreads;
      if (entry >= n) continue;
      const int slot = slot_of(entry, room);
      x[i] = list_.value[slot];
      id[i] = list_.id[slot];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMaxPerThread; ++i) {
      const int entry = work_.thread + i * kThreads;
      if (entry >= n) continue;
      list_.value[entry] = x[i];
      list_.id[entry] = id[i];
    }
    __syncthreads();
  }

  struct Selected {
    float value;
    std::uint64_t above;  ///< measure of what is larger
  };

  /// The largest listed value for which it and what is larger measure at least `target` (at most
  /// what all measure). each(visit) calls visit(slot) for the thread's share of the list;
  /// weigh(slot) is an entry's measure.
  template <class Each, class Weigh>
  __device__ __forceinline__ Selected select(KeyRange range, std::uint64_t target, Each&& each,
                                             Weigh&& weigh) {
    std::uint64_t above = 0;
#pragma unroll 1
    while (true) {  // at most four times: KeyRange
      __syncthreads();
      memory_.bins.template clear<kThreads>();
      if (work_.thread == 0) memory_.gathered = 0;
      __syncthreads();
      each([&](int slot) {
        const std::uint32_t key = unsigned_key(list_.value[slot]);
        if (range.holds(key)) memory_.bins.add_weight(range.bin_of(key), weigh(slot));
      });
      __syncthreads();
      above = find_cut_bin<kThreads>(
          memory_, work_.thread < kBins ? memory_.bins.weight(work_.thread) : 0, above, target);
      range = range.of_bin(memory_.cut_bin);
      if (range.single()) return {from_unsigned_key(range.low), above};
      // The bins are no longer needed: what fell into this one takes their place.
      each([&](int slot) {
        const float x = list_.value[slot];
        if (!range.holds(unsigned_key(x))) return;
        const int place = atomicAdd(&memory_.gathered, 1);
        if (place >= kMaxRanked) return;
        memory_.ranked.value[place] = x;
        memory_.ranked.weight[place] = weigh(slot);
      });
      __syncthreads();
      if (memory_.gathered <= kMaxRanked) break;
    }
    const int n = memory_.gathered;
    sort_ranked(n);
    const Reached cut = reach(sum_sorted(n), target - above);
    const float value = sorted_value(cut.place);
    std::uint64_t before = above + cut.before;
    for (int i = cut.place; i > 0 && sorted_value(i - 1) == value; --i) {
      before -= sorted_weight(i - 1);
    }
    return {value, before};
  }

  /// A list of more candidates than are ranked.
  __device__ __forceinline__ void finish_long(int n, int room, bool row_mass, std::uint64_t mass) {
    close_gaps(n, room);
    const auto weight_of = [&](int i) { return integer_weight(work_.weight(list_.value[i])); };
    const auto kept_weight = [&](int i) {
      return work_.kept(list_.value[i], list_.id[i]) ? weight_of(i) : std::uint64_t{0};
    };
    const auto each = [&](auto&& visit) {
      for (int i = work_.thread; i < n; i += kThreads) visit(i);
    };
    if (work_.top_k_on() && n > work_.parameters.top_k) {
      const auto k = static_cast<std::uint64_t>(work_.parameters.top_k);
      const Selected cut = select({unsigned_key(work_.low), unsigned_key(work_.max)}, k, each,
                                  [](int) { return std::uint64_t{1}; });
      work_.low = cut.value;
      if (work_.task.tie_rule == TieRule::lowest_id) cut_ties(n, static_cast<int>(k - cut.above));
    }
    if (work_.top_p_on()) {
      std::uint64_t sum = 0;
      for (int i = work_.thread; i < n; i += kThreads) sum += kept_weight(i);
      std::uint64_t total = 0;
      __syncthreads();
      block_inclusive_sum<kThreads>(sum, total, memory_.scan_slots);
      const std::uint64_t target = nucleus_target(work_.parameters.top_p, row_mass ? mass : total);
      if (total >= target) {
        const Selected cut =
            select({unsigned_key(work_.low), unsigned_key(work_.max)}, target, each, kept_weight);
        if (cut.value > work_.low) {
          work_.low = cut.value;
          work_.tie_end = work_.vocab;
        }
      }
    }
    // Entries are in token-id order: each thread takes consecutive ones.
    const int per_thread = (n + kThreads - 1) / kThreads;
    const int begin = min(work_.thread * per_thread, n);
    const int end = min(begin + per_thread, n);
    std::uint64_t sum = 0;
    for (int i = begin; i < end; ++i) sum += kept_weight(i);
    std::uint64_t total = 0;
    __syncthreads();
    const std::uint64_t inclusive = block_inclusive_sum<kThreads>(sum, total, memory_.scan_slots);
    if (!work_.draws()) {
      if (work_.thread == 0) work_.write_cut(work_.task.total_of_row ? mass : total, -1);
      return;
    }
    std::uint64_t left = multiply_high(word_, total);
    if (left < inclusive - sum || left >= inclusive) return;
    left -= inclusive - sum;
    int i = begin;
    for (std::uint64_t w = kept_weight(i); left >= w; w = kept_weight(++i)) left -= w;
    work_.write_cut(total, list_.id[i]);
  }

  /// Of the listed values equal to low, only the first `ties_kept` stay.
  __device__ __forceinline__ void cut_ties(int n, int ties_kept) {
    const int per_thread = (n + kThreads - 1) / kThreads;
    const int begin = min(work_.thread * per_thread, n);
    const int end = min(begin + per_thread, n);
    std::uint64_t ties = 0;
    for (int i = begin; i < end; ++i) ties += list_.value[i] == work_.low ? 1 : 0;
    std::uint64_t total = 0;
    __syncthreads();
    const std::uint64_t inclusive = block_inclusive_sum<kThreads>(ties, total, memory_.scan_slots);
    const auto wanted = static_cast<std::uint64_t>(ties_kept);
    if (inclusive - ties < wanted && wanted <= inclusive) {
      auto seen = static_cast<int>(inclusive - ties);
      int i = begin;
      while (true) {
        seen += list_.value[i] == work_.low ? 1 : 0;
        if (seen == ties_kept) break;
        ++i;
      }
      memory_.tie_end = list_.id[i] + 1;
    }
    __syncthreads();
    work_.tie_end = memory_.tie_end;
  }

  Work& work_;
  BlockMemory<kThreads>& memory_;
  CandidateList list_;
  std::uint64_t word_;
};

}  // namespace fairdraw::cuda
