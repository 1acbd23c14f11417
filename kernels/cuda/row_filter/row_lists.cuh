// A row whose survivors are among its largest values: they are listed, and the first block ends
// the row alone (list_finish.cuh).
//
// The list holds what is at or above the head's end, in token-id order. Every warp notes the
// numbers of its values in its part of the scratch: where few threads have one, their vectors are
// shared by the lanes; else all vectors are tested, with one vote a component. Then the numbers
// of all warps are summed, and values and ids are written straight into the first block's shared
// memory.
#pragma once

#include "cuda/row_filter/list_finish.cuh"
#include "cuda/row_filter/row_state.cuh"

namespace fairdraw::cuda {

template <DType kType, bool kFromProbs, int kThreads, bool kProcessed>
class RowLists : public RowState<kType, kFromProbs, kThreads, kProcessed> {
 public:
  using Base = RowState<kType, kFromProbs, kThreads, kProcessed>;
  using Base::Base;
  using Base::kPerVector;
  using Base::kWarps;
  using typename Base::Segment;
  using typename Base::Work;

 protected:
  using Base::dynamic_;
  using Base::lowest_with_weight;
  using Base::memory_;
  using Base::segment_;
  using Base::streamed_max_;
  using Base::thread_max_;
  using Base::word_;
  using Base::work_;

  /// Lists the values >= `from`. The row's weight is summed too where `row_mass`. False where the
  /// list does not hold all that is needed; all blocks agree on that.
  __device__ __forceinline__ bool finish_by_list(float from, bool row_mass) {
    int hits = 0;  // of the warp
    const unsigned threads = __ballot_sync(kAllLanes, thread_max_ >= from);
    const bool few = __popc(threads) <= kFewThreads;
    if (row_mass && !few) {
      hits = list_and_sum<true>(from);
    } else {
      if (row_mass) list_and_sum<false>(from);
      if (!few) {
        segment_.for_each(
            [&](const float(&x)[kPerVector], int position) { stage(x, position, from, hits); },
            streamed_max_ >= from);
      } else if (threads != 0) {
        hits = stage_threads(threads, from);
      }
    }
    if (work_.lane == 0) memory_.warp_count[0][work_.warp] = hits;
    __syncthreads();
    const int of_warps =
        warp_inclusive_sum(work_.lane < kWarps ? memory_.warp_count[0][work_.lane] : 0);
    PartSums mine{};
    const int count = __shfl_sync(kAllLanes, of_warps, kWarps - 1);
    mine.count = count;
    const int before = __shfl_sync(kAllLanes, of_warps, work_.warp) - hits;
    const int room = min(dynamic_.list.capacity, kMaxListed) / work_.cluster.blocks;
    if (count <= room && hits > 0) send_list(from, hits, work_.cluster.rank * room + before);
    if (row_mass) {
      mine.total = work_.block_sum(0);
      mine.inside = work_.block_sum(1);
    }
    const PartSums* sums = work_.exchange(mine);
    if (__any_sync(kAllLanes, work_.lane < work_.cluster.blocks && sums[work_.lane].count > room)) {
      return false;
    }
    std::uint64_t mass = 0;
    if (row_mass) {
      mass = work_.total_of(sums, &PartSums::total);
      // Jointly, what top_k keeps may hold less than the nucleus: then all of it stays.
      if (!work_.top_k_on() &&
          work_.total_of(sums, &PartSums::inside) < nucleus_target(work_.parameters.top_p, mass)) {
        return false;
      }
    }
    if (work_.cluster.rank == 0) {
      ListFinish<kFromProbs, kThreads>(work_, dynamic_.list, word_)
          .finish(sums, room, from, row_mass, mass);
    }
    return true;
  }

  /// Notes which values of a vector are listed: their numbers in the warp, in token-id order, in
  /// the warp's part of the scratch. More than fit are counted only.
  __device__ __forceinline__ void stage(const float (&x)[kPerVector], int position, float from,
                                        int& hits) {
    unsigned reached[kPerVector];
    unsigned any = 0;
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      reached[j] = __ballot_sync(kAllLanes, x[j] >= from);
      any |= reached[j];
    }
    if (any == 0) return;
    const unsigned before_me = (1U << work_.lane) - 1U;
    int place = hits;
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) place += __popc(reached[j] & before_me);
    std::uint16_t* staged = staged_of_warp();
    const int number = position - segment_.first_position(work_.warp);
#pragma unroll
    for (int j = 0; j < kPerVector; ++j) {
      if (x[j] >= from) {
        if (place < kStagedPerWarp) staged[place] = static_cast<std::uint16_t>(number + j);
        ++place;
      }
      hits += __popc(reached[j]);
    }
  }

  /// The same for few threads, given as bits: the lanes share their vectors. Then the numbers are
  /// sorted, by counting.
  __device__ __forceinline__ int stage_threads(unsigned threads, float from) {
    std::uint16_t* staged = staged_of_warp();
    const unsigned streamed = __ballot_sync(kAllLanes, streamed_max_ >= from);
    int hits = 0;
#pragma unroll 1
    for (; threads != 0; threads &= threads - 1) {
      const int owner = __ffs(static_cast<int>(threads)) - 1;
      // Steps that are not resident are read where one of theirs is the thread's largest, or may be
      // listed too.
      const int steps = ((streamed >> owner) & 1U) != 0 ? segment_.steps() : segment_.resident();
#pragma unroll 1
      for (int first = 0; first < steps; first += kWarp) {
        const int step = first + work_.lane < steps ? first + work_.lane : segment_.steps();
        float x[kPerVector];
        segment_.read_of_lane(owner, step, x);
#pragma unroll
        for (int j = 0; j < kPerVector; ++j) {
          const unsigned reached = __ballot_sync(kAllLanes, x[j] >= from);
          if (x[j] >= from) {
            const int place = hits + __popc(reached & ((1U << work_.lane) - 1U));
            if (place < kStagedPerWarp) {
              staged[place] = static_cast<std::uint16_t>((step * kWarp + owner) * kPerVector + j);
            }
          }
          hits += __popc(reached);
        }
      }
    }
    __syncwarp();
    if (hits > kWarp) return hits > kStagedPerWarp ? hits : sort_staged(hits);
    const int mine = work_.lane < hits ? staged[work_.lane] : 0;
    int before = 0;
    for (int i = 0; i < hits; ++i) before += __shfl_sync(kAllLanes, mine, i) < mine ? 1 : 0;
    __syncwarp();
    if (work_.lane < hits) staged[before] = static_cast<std::uint16_t>(mine);
    return hits;
  }

  /// Sorts more numbers than the warp has lanes.
  __device__ __forceinline__ int sort_staged(int hits) {
    std::uint16_t* staged = staged_of_warp();
    constexpr int kPerLane = kStagedPerWarp / kWarp;
    int number[kPerLane];
    int before[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int place = i * kWarp + work_.lane;
      number[i] = place < hits ? staged[place] : INT_MAX;
      before[i] = 0;
    }
#pragma unroll 1
    for (int other = 0; other < hits; ++other) {
      const int that = staged[other];
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) before[i] += that < number[i] ? 1 : 0;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (number[i] != INT_MAX) staged[before[i]] = static_cast<std::uint16_t>(number[i]);
    }
    return hits;
  }

  /// The row's weight and the list's, and where kStages stage() for the whole segment; returns the
  /// warp's hits.
  template <bool kStages>
  __device__ __forceinline__ int list_and_sum(float from) {
    int hits = 0;
    ExactSum total;
    ExactSum listed;
    const float lowest = lowest_with_weight(work_.base);
    segment_.for_each([&](const float(&x)[kPerVector], int position) {
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) {
        const float v = work_.weight(x[j], lowest);
        total.add(v);
        if (x[j] >= from) listed.add(v);
      }
      if constexpr (kStages) stage(x, position, from, hits);
    });
    const std::uint64_t warp_total = warp_sum(total.value());
    const std::uint64_t warp_listed = warp_sum(listed.value());
    if (work_.lane == 0) {
      memory_.warp_sum[0][work_.warp] = warp_total;
      memory_.warp_sum[1][work_.warp] = warp_listed;
    }
    return hits;
  }

  /// Sends this warp's listed values to the first block, from `slot` on.
  __device__ __forceinline__ void send_list(float from, int hits, int slot) {
    float* values = work_.cluster.at(dynamic_.list.value, 0) + slot;
    std::int32_t* ids = work_.cluster.at(dynamic_.list.id, 0) + slot;
    if (hits <= kStagedPerWarp) {
      __syncwarp();
      const std::uint16_t* staged = staged_of_warp();
      const int first = segment_.first_position(work_.warp);
      for (int i = work_.lane; i < hits; i += kWarp) {
        const int number = staged[i];
        values[i] = segment_.value(work_.warp, number);
        ids[i] = first + number;
      }
      return;
    }
    int sent = 0;
    segment_.for_each([&](const float(&x)[kPerVector], int position) {
      unsigned mine = 0;
#pragma unroll
      for (int j = 0; j < kPerVector; ++j) mine |= x[j] >= from ? 1U << j : 0U;
      const int inclusive = warp_inclusive_sum(__popc(mine));
      int at = sent + inclusive - __popc(mine);
#pragma unroll 1
      for (int j = 0; mine != 0; ++j, mine >>= 1) {
        if ((mine & 1U) == 0) continue;
        values[at] = x[0];
#pragma unroll
        for (int i = 1; i < kPerVector; ++i) {
          if (i == j) values[at] = x[i];
        }
        ids[at++] = position + j;
      }
      sent += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    });
  }

  /// A warp's part of the scratch.
  __device__ __forceinline__ std::uint16_t* staged_of_warp() const {
    return reinterpret_cast<std::uint16_t*>(dynamic_.scratch) + work_.warp * kStagedPerWarp;
  }
};

}  // namespace fairdraw::cuda
