// Makes the summaries of a shard's rows, which form the first exchange block (sharded/exchange.h).
//
// Contract. Each row has a summary, which equals the CPU's bit for bit: the row's status, its
// largest value, the sums of tiles by octave, and the values of cut tiles. If rows of the call may
// be filtered, the first candidates of the row follow, in descending order of their values and then
// by id, with the key of the first value that is not among them. If rows are masked or processed
// and their reports are raw, the same data follows for the caller's logits: the sums at temperature
// 1, the values of cut tiles, and the largest values to report. The summaries of padding rows
// consist of zeros. Precondition: the index of the shard's whole tiles has been computed
// (index_shard.cu).
//
// Algorithm and cost. Each row has one block of 256 threads, which reads 14 bytes per tile and the
// keys of the tiles' groups. From the row itself, the block reads the values of cut tiles and the
// groups whose keys reach a bound, which are about 300 groups of 16 ids for 257 candidates of 64128
// values. This bound is the bound of top_k (tiles/candidate_bound.cuh), or the shard's threshold of
// min_p if few tiles reach that threshold. Warps sort the list of candidates in parts of 32 values;
// the rank of a value is the sum of its ranks in all parts. The list overflows if thousands of
// values are equal, or if the keys of groups do not separate the values. Then levels of bins over
// the row find the candidates (outputs/row_heads.cuh), which is exact but takes more passes over
// the row in the L2 cache. The summary of a row is made in shared memory and sent to all ranks. The
// kernel that only makes summaries also copies it to the block of this rank.
//
// On an H100, 64 rows of 64128 values take 16 microseconds without filters, two thirds of which are
// code that a row runs once and loads from memory; with 257 candidates they take 28 microseconds.
// Two other designs took longer. Adding octaves by 64-bit atomics in shared memory, which are
// loops, took 10 microseconds if most tiles have the same octave. Ranking a value by counting all
// other values took 7 microseconds more.
//
// Randomness: none. Numerics: the weights are defined in common/tile_weights.h. Determinism: all
// values are integers, and each is written to a place of its own.
#pragma once

#include <cstdint>

#include "common/float_order.h"
#include "common/parameters.h"
#include "common/processing_rules.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/outputs/row_heads.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/block_words.cuh"
#include "cuda/sharded/octave_adder.cuh"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/candidate_bound.cuh"
#include "cuda/tiles/candidate_list.cuh"
#include "cuda/tiles/min_p_key.cuh"

namespace fairdraw::cuda {

/// Byte offsets of the fields of a summary.
inline constexpr std::size_t kStatusAt = offsetof(sharded::RowSummary, status);
inline constexpr std::size_t kMaxKeyAt = offsetof(sharded::RowSummary, max_key);
inline constexpr std::size_t kMaxIdAt = offsetof(sharded::RowSummary, max_id);
inline constexpr std::size_t kMaxBitsAt = offsetof(sharded::RowSummary, max_bits);
inline constexpr std::size_t kMaxRawBitsAt = offsetof(sharded::RowSummary, max_raw_bits);
inline constexpr std::size_t kAllowedAt = offsetof(sharded::RowSummary, allowed);
inline constexpr std::size_t kListedAt = offsetof(sharded::RowSummary, listed);
inline constexpr std::size_t kLeftKeyAt = offsetof(sharded::RowSummary, left_key);
inline constexpr std::size_t kOctavesAt = offsetof(sharded::RowSummary, octaves);

/// Shared memory of RowSummariser, at the beginning of the dynamic shared memory; the keys of
/// groups and the index follow after it.
struct SummaryMemory {
  TileSearchMemory search;
  BlockScratch<std::int32_t> keys;
  BlockScratch<std::uint32_t> numbers;
  uint128_t octaves[sharded::kOctaveSums];
  union {
    CandidateList list;
    struct {
      HeadSearch::Memory search;
      HeadEntries entries;
    } exact;
  };
};

__host__ __device__ constexpr int summary_groups_at() {
  return (static_cast<int>(sizeof(SummaryMemory)) + 15) / 16 * 16;
}

/// Returns the byte offset in shared memory at which the summary of the row is made, after the
/// index.
__host__ __device__ inline int summary_part_at(const ShardedTask& task) {
  const int tiles = task.tiles();
  return summary_groups_at() + (task.groups != nullptr ? GroupKeys::bytes(tiles) : 0) +
         (index_bytes(tiles) + 3) / 4 * 4;
}

/// Returns the number of bytes of dynamic shared memory that a summary needs.
inline int summary_bytes(const ShardedTask& task) {
  return summary_part_at(task) + static_cast<int>(task.each[0]);
}

/// Returns the number of bytes of a row's summary up to its last candidate, or of the whole summary
/// if raw data follows the candidates. A barrier must precede the call.
__device__ __forceinline__ std::size_t summary_bytes_sent(const ShardedTask& task,
                                                          const std::byte* part) {
  if (task.raw_at > 0) return static_cast<std::size_t>(task.each[0]);
  return sizeof(sharded::RowSummary) + 4 * static_cast<std::size_t>(task.cut_values) +
         sizeof(sharded::Candidate) * word_of(part, kListedAt);  // nothing is listed for the
                                                                 // caller's logits
}

/// Summary of one row of a shard, which a block of kEndThreads threads makes.
template <bool kFromProbs>
class RowSummariser {
 public:
  __device__ RowSummariser(const ShardedTask& task, std::int64_t number, unsigned char* dynamic,
                           std::byte* part)
      : task_(task),
        place_(task.parts[task.shard]),
        number_(number),
        tiles_(task.tiles()),
        part_(part),
        shared_(*reinterpret_cast<SummaryMemory*>(dynamic)),
        groups_(dynamic + summary_groups_at(), tiles_),
        row_(FilteredRow::whole(task.whole, number, kFromProbs)) {
    unsigned char* index =
        dynamic + summary_groups_at() + (task.groups != nullptr ? GroupKeys::bytes(tiles_) : 0);
    sums_ = reinterpret_cast<std::uint64_t*>(index);
    keys_ = reinterpret_cast<std::int32_t*>(sums_ + tiles_);
    if (task.whole_allowed.given()) {
      row_.allowed = task.whole_allowed.data + number * task.whole_allowed.row_stride;
    }
  }

  __device__ void run() {
    clear();
    if (task_.active.given() && task_.active.data[number_] == 0) return;
    __syncthreads();
    const RowStatus status = summarise();
    if (task_.raw.given && (status == RowStatus::ok || status == RowStatus::no_allowed_token)) {
      RowSummariser copy(*this);  // works on a copy, so that *this stays in registers
      copy.write_raw_rows();
    }
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  /// Writes the summary of a row, except for the part about the caller's logits.
  __device__ __forceinline__ RowStatus summarise() {
    const RowParameters parameters{task_.temperature.at(number_), task_.top_k.at(number_),
                                   task_.top_p.at(number_), task_.min_p.at(number_)};
    RowStatus status = check(parameters);
    if (task_.is_processed && status == RowStatus::ok) {
      status = check(parameters_of(task_.processing, number_));
    }
    std::int32_t largest = kEmptyTileKey;
    if (status == RowStatus::ok) {
      largest = read_index();
      const std::int32_t of_cut = reduce_block(largest_of_cut(), shared_.keys, Maximum{});
      const RowFault fault = task_.faults != nullptr ? task_.faults[number_] : RowFault::none;
      status = status_of_key(::max(largest, of_cut), fault);
    }
    if (status == RowStatus::ok || status == RowStatus::no_allowed_token) write_cut_values();
    if (status != RowStatus::ok) largest = kEmptyTileKey;
    if (threadIdx.x == 0) {
      word_of(part_, kStatusAt) = static_cast<std::uint32_t>(status);
      word_of(part_, kMaxKeyAt) = static_cast<std::uint32_t>(largest);
      word_of(part_, kLeftKeyAt) = static_cast<std::uint32_t>(largest);
      word_of(part_, kMaxIdAt) = ~0U;
    }
    const bool has_raw = task_.raw_at > 0 && !task_.raw.given;
    if (has_raw && (status == RowStatus::ok || status == RowStatus::no_allowed_token)) {
      write_raw(largest);
    }
    if (largest == kEmptyTileKey) return status;
    const float temperature = parameters.temperature == 0.0F ? 1.0F : parameters.temperature;
    sum_octaves(logit_scale(temperature), largest, sums_, kOctavesAt);
    count_allowed();
    const bool has_filter = top_k_is_on(parameters.top_k, task_.vocab) || parameters.top_p < 1.0F ||
                            parameters.min_p > 0.0F;
    candidates_ = sharded::candidates_of_row(has_filter && !is_greedy(parameters), parameters.top_k,
                                             task_.vocab, task_.candidates, task_.top_n);
    if (candidates_ == 0) {
      write_largest(largest);
      return status;
    }
    if (parameters.min_p > 0.0F && task_.top_n == 0) {
      // Values that min_p drops within the shard are also dropped within the row, because the
      // largest value of the row is at least that of the shard.
      low_ =
          smallest_key_kept<kFromProbs>(parameters.min_p, logit_scale(temperature), low_, largest);
    }
    write_candidates();
    return status;
  }

  __device__ void clear() {
    const auto words = static_cast<int>(task_.each[0] / 4);
#pragma unroll 1
    for (int i = thread(); i < words; i += kEndThreads)
      word_of(part_, 4 * static_cast<unsigned>(i)) = 0;
  }

  /// Copies the index of this shard's whole tiles to shared memory. Returns the largest key of the
  /// tiles, or the key of a fault.
  __device__ std::int32_t read_index() {
    const std::int32_t* keys = task_.keys.data + number_ * task_.keys.row_stride;
    const std::uint64_t* sums = task_.sums.data + number_ * task_.sums.row_stride;
    std::int32_t largest = kEmptyTileKey;
#pragma unroll 1
    for (int tile = thread(); tile < tiles_; tile += kEndThreads) {
      keys_[tile] = keys[tile];
      sums_[tile] = sums[tile];
      largest = ::max(largest, keys[tile]);
    }
    if (task_.groups != nullptr) {
      const int bytes = GroupKeys::bytes(tiles_);
      const auto* from = reinterpret_cast<const uint4*>(task_.groups + number_ * bytes);
      auto* to = reinterpret_cast<uint4*>(reinterpret_cast<unsigned char*>(&shared_) +
                                          summary_groups_at());
#pragma unroll 1
      for (int i = thread(); i < bytes / 16; i += kEndThreads) to[i] = from[i];
    }
    return reduce_block(largest, shared_.keys, Maximum{});
  }

  // --- Cut tiles

  __device__ bool is_column_allowed(int column) const {
    if (!task_.allowed.given()) return true;
    const std::uint32_t* words = task_.allowed.data + number_ * task_.allowed.row_stride;
    return FilteredRow::is_set(words[column / 32], column);
  }
  /// Returns the largest key of the values of cut tiles that this thread reads. A value that makes
  /// the row fail counts even at a banned id.
  __device__ std::int32_t largest_of_cut() const {
    const RowValues values = RowValues::of(task_.columns, number_);
    std::int32_t largest = kEmptyTileKey;
#pragma unroll 1
    for (int i = thread(); i < place_.cut_values(); i += kEndThreads) {
      const int column = place_.cut_column(i);
      const float x = values[column];
      std::int32_t key = is_column_allowed(column) ? order_key(x) : kEmptyTileKey;
      if (kFromProbs && key <= 0) key = kEmptyTileKey;
      if (kFromProbs && x < 0.0F) key = kNegativeKey;
      if (x == INFINITY) key = kInfiniteKey;
      if (x != x) key = kNanKey;
      largest = ::max(largest, key);
    }
    return largest;
  }
  __device__ void write_cut_values() {
    const RowValues values = RowValues::of(task_.columns, number_);
#pragma unroll 1
    for (int i = thread(); i < place_.cut_values(); i += kEndThreads) {
      const int column = place_.cut_column(i);
      const float x = is_column_allowed(column) ? values[column] : row_.nothing();
      word_of(part_, sizeof(sharded::RowSummary) + 4 * static_cast<unsigned>(i)) =
          std::bit_cast<std::uint32_t>(x);
    }
  }

  // --- Whole tiles

  /// Writes the sums at temperature 1 of a row whose reports use the same values as the filters.
  __device__ __noinline__ void write_raw(std::int32_t largest) {
    const auto at = static_cast<std::size_t>(task_.raw_at);
    if (threadIdx.x == 0) {
      word_of(part_, at + offsetof(sharded::RawSummary, max_key)) =
          static_cast<std::uint32_t>(largest);
    }
    if (largest == kEmptyTileKey) return;
    sum_octaves(logit_scale(1.0F), largest, task_.raw_sums + number_ * task_.sums.row_stride,
                at + offsetof(sharded::RawSummary, octaves));
    __syncthreads();  // wait until all threads have read the sums
  }

  __device__ __forceinline__ void sum_octaves(float scale, std::int32_t largest,
                                              const std::uint64_t* sums, std::size_t at) {
    OctaveAdder<kFromProbs>(shared_.octaves).add({keys_, sums, tiles_}, largest, scale, part_, at);
  }
  __device__ void count_allowed() {
    if (warp_of_thread() != 0) return;
    const std::uint16_t* counts = task_.counts.data + number_ * task_.counts.row_stride;
    std::uint32_t allowed = 0;
#pragma unroll 4
    for (int tile = lane_of_thread(); tile < tiles_; tile += kWarp) allowed += counts[tile];
    allowed = __reduce_add_sync(kAllLanes, allowed);
    if (lane_of_thread() == 0) word_of(part_, kAllowedAt) = allowed;
  }

  /// Writes the first token that has the largest value of the shard, with the last warp of the
  /// block.
  __device__ void write_largest(std::int32_t largest) {
    if (warp_of_thread() != kEndWarps - 1) return;
    int tile = INT_MAX;
#pragma unroll 1
    for (int i = lane_of_thread(); i < tiles_; i += kWarp) {
      if (keys_[i] == largest) tile = ::min(tile, i);
    }
    tile = __reduce_min_sync(kAllLanes, tile);
    const std::int64_t first = std::int64_t{tile} * kTileSize;
#pragma unroll 1
    for (int i = lane_of_thread(); i < kTileSize; i += kWarp) {
      const std::int64_t token = first + i;
      const float x = token < row_.vocab ? row_.values[token] : -INFINITY;
      const bool is_first = order_key(x) == largest && row_.is_allowed(token, x);
      const unsigned lanes = __ballot_sync(kAllLanes, is_first);
      if (lanes == 0) continue;
      if (lane_of_thread() == __ffs(static_cast<int>(lanes)) - 1) {
        write_first(x, static_cast<int>(token));
      }
      return;
    }
  }
  /// Writes the value and the id of the first token that has the largest value of the shard. The
  /// argument `id` is counted from the first whole tile.
  __device__ void write_first(float x, int id) {
    word_of(part_, kMaxIdAt) = static_cast<std::uint32_t>(place_.whole_begin + id);
    word_of(part_, kMaxBitsAt) = std::bit_cast<std::uint32_t>(x);
    word_of(part_, kMaxRawBitsAt) = raw_bits_of(x, id);
  }
  /// Returns the bits of the caller's value of a token in a whole tile; x is the value that filters
  /// see.
  __device__ std::uint32_t raw_bits_of(float x, int id) const {
    if (!task_.raw.given) return std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<std::uint32_t>(RowValues::of(task_.raw.whole, number_)[id]);
  }

  // --- Candidates

  __device__ void write_candidate(int place, float x, int id) {
    const std::size_t at =
        sizeof(sharded::RowSummary) + 4 * static_cast<std::size_t>(task_.cut_values) +
        static_cast<std::size_t>(task_.candidate_bytes) * static_cast<std::size_t>(place);
    write_entry(at, x, id);
    if (task_.raw.given) word_of(part_, at + sizeof(sharded::Candidate)) = raw_bits_of(x, id);
  }
  /// Writes the value and the id of a token in a list. The argument `id` is counted from the first
  /// whole tile.
  __device__ void write_entry(std::size_t at, float x, int id) {
    word_of(part_, at) = std::bit_cast<std::uint32_t>(x);
    word_of(part_, at + 4) = static_cast<std::uint32_t>(place_.whole_begin + id);
  }
  /// Writes the length of the candidate list and its certificate. If more values were found than
  /// are listed, `left` is the key of the first value that is not listed. Values that min_p drops
  /// were not searched for; the keys of all of them are below low_.
  __device__ void write_end(int found, std::int32_t left) {
    word_of(part_, kListedAt) = static_cast<std::uint32_t>(::min(found, candidates_));
    word_of(part_, kLeftKeyAt) = static_cast<std::uint32_t>(found > candidates_ ? left : low_ - 1);
  }

  __device__ void write_candidates() {
    __syncthreads();  // wait until all threads have read the data that the list replaces
    const RowIndex index{keys_, sums_, tiles_};
    const TileKeys keys = find_tile_keys(index);
    std::int32_t bound = low_;
    if (!few_reach(low_)) {
      bound = ::max(low_, CandidateBound<kFromProbs>{index, groups_, keys}.of_top_k(
                              shared_.search, candidates_ + 1, kEmptyTileKey + 1));
    }
    if (thread() == 0) shared_.list.listed = 0;
    const int groups = list_groups<kFromProbs>(shared_.list, index, groups_, bound);
    if (groups <= CandidateList::kMaxGroups) list_values(groups, from_order_key(bound));
    __syncthreads();
    const int listed = shared_.list.listed;
    if (groups > CandidateList::kMaxGroups || listed > CandidateList::kMax) {
      __syncthreads();  // wait until all threads have read the counts
      write_exactly(keys);
    } else {
      write_ranked(listed);
    }
  }

  /// Returns whether so few tiles reach a key that the key is a good bound for the list. All
  /// threads must call this function.
  __device__ bool few_reach(std::int32_t key) {
    constexpr int kFew = 16;
    if (key == kEmptyTileKey + 1) return false;
    int reaching = 0;
#pragma unroll 1
    for (int tile = thread(); tile < tiles_; tile += kEndThreads) {
      reaching += keys_[tile] >= key ? 1 : 0;
    }
    // Counts the threads that have a tile that reaches the key; each thread has one tile or a few.
    return __syncthreads_count(reaching) <= kFew;
  }

  /// Lists the values of the listed groups that reach the bound, in any order.
  __device__ void list_values(int groups, float from) {
    if (row_.values.dtype == DType::float32 && row_.values.aligned) {
      const auto* values = reinterpret_cast<const float*>(row_.values.bytes);
      list_values_of(groups, from, [values](int id) { return values[id]; });
    } else {
      list_other_values(groups, from);
    }
  }
  __device__ __noinline__ void list_other_values(int groups, float from) {
    list_values_of(groups, from, [this](int id) { return row_.values[id]; });
  }
  template <class Read>
  __device__ __forceinline__ void list_values_of(int groups, float from, const Read& read) {
    constexpr int kLoads = 4;  // number of loads that a warp has in flight
    CandidateList& list = shared_.list;
    const int log = groups_.group_log2();  // 4 or 5
    const int at_once = kWarp >> log;      // groups per load
    const int of_batch = at_once * kLoads;
    const int in_group = lane_of_thread() & ((1 << log) - 1);
    const auto vocab = static_cast<int>(row_.vocab);
#pragma unroll 1
    for (int first = warp_of_thread() * of_batch; first < groups; first += kEndWarps * of_batch) {
      int id[kLoads];
      float x[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int number = first + i * at_once + (lane_of_thread() >> log);
        id[i] = number < groups ? (list.group[number] << log) + in_group : vocab;
        x[i] = id[i] < vocab ? read(id[i]) : -INFINITY;
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const bool hit = x[i] >= from && row_.is_allowed(id[i], x[i]);
        const unsigned hits = __ballot_sync(kAllLanes, hit);
        if (hits == 0) continue;
        int place = 0;
        if (lane_of_thread() == 0) place = atomicAdd(&list.listed, __popc(hits));
        place = __shfl_sync(kAllLanes, place, 0) +
                __popc(hits & ((1U << static_cast<unsigned>(lane_of_thread())) - 1U));
        if (!hit || place >= CandidateList::kMax) continue;
        list.key[place] = order_key(x[i]);
        list.id[place] = id[i];
      }
    }
  }
  /// Returns the key and the id of a value in one word, such that values with larger words come
  /// first in the order of candidates.
  __device__ static std::uint64_t place_in_order(std::int32_t key, int id) {
    return (std::uint64_t{static_cast<std::uint32_t>(key) ^ 0x80000000U} << 32) |
           ~static_cast<std::uint32_t>(id);
  }

  /// Sorts the values of the lanes of a warp, in descending order.
  __device__ static std::uint64_t sort_warp(std::uint64_t value) {
    const auto lane = static_cast<unsigned>(lane_of_thread());
#pragma unroll 1
    for (unsigned size = 2; size <= kWarp; size *= 2) {
#pragma unroll 1
      for (unsigned distance = size / 2; distance > 0; distance /= 2) {
        const std::uint64_t other = __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance));
        const bool takes_larger = ((lane & distance) == 0) == ((lane & size) == 0);
        value = takes_larger == (other > value) ? other : value;
      }
    }
    return value;
  }

  /// Writes the list of candidates in their order. Each warp sorts parts of 32 values; the rank of
  /// a value is the sum of its ranks in all parts.
  __device__ void write_ranked(int listed) {
    CandidateList& list = shared_.list;
    std::uint64_t* order = list.weight.of_tile;
    static_assert(CandidateList::kMax % kWarp == 0);
    const int parts = (listed + kWarp - 1) / kWarp;
#pragma unroll 1
    for (int part = warp_of_thread(); part < parts; part += kEndWarps) {
      const int i = part * kWarp + lane_of_thread();
      order[i] = sort_warp(i < listed ? place_in_order(list.key[i], list.id[i]) : 0);
    }
    if (thread() == 0) write_end(listed, kEmptyTileKey);
    __syncthreads();
#pragma unroll 1
    for (int i = thread(); i < listed; i += kEndThreads) {
      const std::uint64_t mine = order[i];
      int rank = 0;
#pragma unroll 1
      for (int part = 0; part < parts; ++part) {
        const std::uint64_t* of_part = order + part * kWarp;
        int before = 0;
#pragma unroll
        for (int step = kWarp; step > 0; step /= 2) {
          if (before + step <= kWarp && of_part[before + step - 1] > mine) before += step;
        }
        rank += before;
      }
      const auto key =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(mine >> 32) ^ 0x80000000U);
      const auto id = static_cast<int>(~static_cast<std::uint32_t>(mine));
      // The zeros 0.0 and -0.0 have the same key, so the value itself is read to tell which zero it
      // is.
      if (rank < candidates_) {
        const float x = key == 0 ? row_.values[id] : from_order_key(key);
        write_candidate(rank, x, id);
        if (rank == 0) write_first(x, id);
      } else if (rank == candidates_) {
        word_of(part_, kLeftKeyAt) = static_cast<std::uint32_t>(key);
      }
    }
  }

  __device__ __noinline__ void write_exactly(const TileKeys& keys) {
    const KeyedRow keyed{row_, keys_, tiles_};
    HeadEntries& entries = shared_.exact.entries;
    const HeadSearch::Head head =
        HeadSearch(shared_.exact.search).find(keyed, keys, candidates_ + 1, entries);
    int found = 0;  // number of values found that min_p keeps
    for (int i = thread(); i < head.n; i += kEndThreads) {
      const std::int32_t key = order_key(entries.value[i]);
      if (key < low_ || (kFromProbs && key <= 0)) continue;
      ++found;
      if (i < candidates_) write_candidate(i, entries.value[i], entries.id[i]);
      if (i == 0) write_first(entries.value[i], entries.id[i]);
    }
    found = reduce_block(found, shared_.keys, Add{});
    if (thread() != 0) return;
    write_end(found, found > candidates_ ? order_key(entries.value[candidates_]) : 0);
  }

  // --- The caller's logits

  /// Writes the summary of the caller's logits, for rows that are masked or processed. The function
  /// is out of line, because it is rarely executed.
  __device__ __noinline__ void write_raw_rows() {
    const RawRows& raw = task_.raw;
    const RowValues values = RowValues::of(raw.columns, number_);
#pragma unroll 1
    for (int i = thread(); i < place_.cut_values(); i += kEndThreads) {
      word_of(part_, static_cast<std::size_t>(raw.cut_at) + 4 * static_cast<unsigned>(i)) =
          std::bit_cast<std::uint32_t>(values[place_.cut_column(i)]);
    }
    const auto at = static_cast<std::size_t>(task_.raw_at);
    std::int32_t largest = kEmptyTileKey;
    __syncthreads();  // wait until all threads have read the index of the filtered row
    const std::int32_t* keys = raw.keys.data + number_ * raw.keys.row_stride;
#pragma unroll 1
    for (int tile = thread(); tile < tiles_; tile += kEndThreads) {
      keys_[tile] = keys[tile];
      largest = ::max(largest, keys[tile]);
    }
    largest = reduce_block(largest, shared_.keys, Maximum{});
    if (thread() == 0) {
      word_of(part_, at + offsetof(sharded::RawSummary, max_key)) =
          static_cast<std::uint32_t>(largest);
    }
    if (largest == kEmptyTileKey) return;
    sum_octaves(logit_scale(1.0F), largest, task_.raw_sums + number_ * raw.keys.row_stride,
                at + offsetof(sharded::RawSummary, octaves));
    if (raw.candidates > 0) write_raw_candidates();
  }

  __device__ void write_raw_candidates() {
    __syncthreads();
    const TileKeys keys = find_tile_keys({keys_, sums_, tiles_});
    const FilteredRow row = FilteredRow::whole(task_.raw.whole, number_, /*from_probs=*/false);
    const KeyedRow keyed{row, keys_, tiles_};
    HeadEntries& entries = shared_.exact.entries;
    const HeadSearch::Head head =
        HeadSearch(shared_.exact.search).find(keyed, keys, task_.raw.candidates, entries);
    const int listed = ::min(head.n, task_.raw.candidates);
    if (thread() == 0) {
      word_of(part_,
              static_cast<std::size_t>(task_.raw_at) + offsetof(sharded::RawSummary, listed)) =
          static_cast<std::uint32_t>(listed);
    }
    for (int i = thread(); i < listed; i += kEndThreads) {
      write_entry(static_cast<std::size_t>(task_.raw.candidates_at) +
                      sizeof(sharded::Candidate) * static_cast<std::size_t>(i),
                  entries.value[i], entries.id[i]);
    }
  }

  const ShardedTask& task_;
  const ShardPart& place_;
  std::int64_t number_;
  int tiles_;
  std::byte* part_;
  SummaryMemory& shared_;
  GroupKeys groups_;
  FilteredRow row_;
  std::uint64_t* sums_;
  std::int32_t* keys_;
  int candidates_ = 0;                    ///< number of candidates to list for this row
  std::int32_t low_ = kEmptyTileKey + 1;  ///< smallest key that the list of candidates includes
};

}  // namespace fairdraw::cuda
