// Merges the summaries and answers of all shards for a row into the row's threshold and tokens,
// with the same result on every rank.
//
// Contract. The results equal those of sharded/merged_row.h, bit for bit: the summaries of all
// shards, and the answers that the row has requested since, give either the row's results or its
// next request. The merge reads only received data and the row's own state. The exception are
// tokens that are exchanged in the merge itself (row_answerer.cuh). A row that has requested no
// answer in this exchange is left unchanged. A row whose tokens are known writes its results; the
// results of all other rows do not change.
//
// Algorithm and cost. Each row has one block of 256 threads. Every thread by itself finds the row's
// faults and its largest value, and one warp per shard weighs the whole tiles of the shard. The
// known values (known_values.cuh) are ordered by binary searches and weighed, and their weights are
// added up to prefix sums. Each threshold is then a binary search over prefix sums, which every
// thread does by itself, without a barrier. The drawn token is the known survivor whose part of the
// mass, in the order of ids, contains the drawn position. For each survivor, one thread adds up the
// survivors that precede it, which costs less than sorting the 50 survivors of a typical top_k.
//
// The merge is limited by the number of registers, and by its code, which must be loaded from
// memory although a row executes it only once. If a member function is called out of line, its
// object must be in local memory for all uses. With all data of a row in local memory, a merge of
// top_k 50 took 39 microseconds on an H100, and 26 with the data in registers; for 256 rows, 63 and
// 29. So functions that few rows need are called on copies of the object. The summaries are copied
// to shared memory at once, with all loads in flight.
//
// If the known values do not decide a row, it is gathered, filtered and drawn from as a whole row
// (gather_rows.cu), and then merged again. The survivors and tokens then come from the whole row,
// and all other results are computed as for other rows.
//
// Randomness: the merge uses the random words of `sample` (common/philox.h). Numerics: the weights
// are defined in common/tile_weights.h; masses are integers of 128 bits. Log-probabilities are
// computed with doubles, as in log_mass.h. Determinism: the result does not depend on the order of
// threads.
#pragma once

#include <math_constants.h>

#include <algorithm>
#include <cstdint>

#include "common/float_order.h"
#include "common/log_mass.h"
#include "common/proposals.h"
#include "common/wide_integers.h"
#include "cuda/device/block_sums.cuh"
#include "cuda/rows/filtered_row.cuh"
#include "cuda/sharded/merged_row.cuh"
#include "cuda/sharded/reported_value.cuh"
#include "cuda/sharded/row_answerer.cuh"
#include "cuda/sharded/row_outputs.cuh"
#include "cuda/sharded/row_thresholds.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Shared memory of RowMerger, at the beginning of the dynamic shared memory; the known values
/// follow after it.
struct MergeMemory {
  MergedRowMemory row;
  uint128_t part_mass[kMaxRowParts];
  static constexpr int kTokens = 64;
  ShardedToken tokens[kTokens];
};
constexpr int merge_known_at() { return (static_cast<int>(sizeof(MergeMemory)) + 15) / 16 * 16; }

/// Returns the number of bytes of dynamic shared memory that a merge needs.
inline int merge_bytes(const ShardedTask& task) {
  return std::max(merge_known_at() + KnownArrays::bytes(task),
                  static_cast<int>(sizeof(AnswerMemory)));
}

/// Calls launch.operator()<kReports, kFromProbs>(), a template, for the kind of RowMerger that a
/// call needs. Rows of probabilities have no reports of log-probabilities.
template <class Launch>
cudaError_t launch_with_reports(const ShardedTask& task, const Launch& launch) {
  if (task.from_probs) return launch.template operator()<false, true>();
  const bool reports = task.top_n > 0 || task.logprob != nullptr ||
                       task.logprob_filtered != nullptr || task.values != nullptr ||
                       task.ranks != nullptr || task.all.given();
  return reports ? launch.template operator()<true, false>()
                 : launch.template operator()<false, false>();
}

/// Answers the requests for tokens, in shared memory that the merge has finished using.
template <bool kFromProbs>
__device__ __noinline__ void answer_tokens(const ShardedTask& task, std::int64_t number,
                                           unsigned char* dynamic) {
  RowAnswerer<kFromProbs>(task, number, dynamic).list_tokens();
}
template <bool kFromProbs>
__device__ __noinline__ void answer_sums(const ShardedTask& task, ReceivedBlocks blocks,
                                         std::int64_t number, unsigned char* dynamic) {
  RowAnswerer<kFromProbs>(task, number, dynamic).sum_above(blocks);
}

/// Merge of one row; kReports says whether log-probabilities or the largest values are requested.
template <bool kReports, bool kFromProbs>
class RowMerger {
  using Thresholds = RowThresholds<kFromProbs>;

 public:
  __device__ RowMerger(const ShardedTask& task, const ReceivedBlocks& blocks,
                       ShardedExchange exchange, std::int64_t number, unsigned char* dynamic)
      : task_(task),
        blocks_(blocks),
        exchange_(exchange),
        number_(number),
        state_(task.states[number]),
        asked_(exchange == ShardedExchange::summary ? RowAsks::nothing : state_.asks),
        dynamic_(dynamic),
        shared_(*reinterpret_cast<MergeMemory*>(dynamic)),
        outputs_(task, number),
        row_(task, blocks, number, KnownArrays::at(dynamic + merge_known_at(), task), shared_.row),
        thresholds_(task) {}

  __device__ void run() {
    const bool is_summary = exchange_ == ShardedExchange::summary;
    if (is_summary || take_answers_now()) blocks_.await(exchange_, number_);
    if (task_.active.given() && task_.active.data[number_] == 0) {
      if (is_summary) fail(RowStatus::inactive);
      return;
    }
    if (take_answers_now()) {
      __syncthreads();  // wait until all threads have read the request of the row
      asked_ == RowAsks::tokens ? take_tokens() : take_sums();
      return;
    }
    if (!is_summary && !is_gathered()) return;
    row_.load();
    if (is_summary && !ranks_agree()) return;
    __syncthreads();  // wait until all threads have read the request of the row, and the summaries
                      // have arrived
    if (thread() == 0) state_.awaits_ranks = false;
    const RowStatus status = row_.status();
    if (status != RowStatus::ok) {
      fail(status);
      return;
    }
    row_.merge();
    if (thread() == 0) {
      state_.octave = row_.octave();
      state_.scale = row_.rule().scale;
      state_.max = from_order_key(row_.max_key());
      if constexpr (kReports) state_.raw_max = from_order_key(row_.raw_max_key());
    }
    decide();
  }

 private:
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }

  /// Returns whether the headers of all ranks agree, on all threads. One thread per shard compares
  /// the header of the shard.
  __device__ bool ranks_agree() {
    bool agrees = true;
    if (thread() < task_.shards) {
      const std::byte* block = blocks_.block(ShardedExchange::summary, thread());
      const auto word = [block](std::size_t byte) { return word_of(block, byte); };
      constexpr std::size_t kFingerprintAt = offsetof(sharded::BlockHeader, fingerprint);
      agrees = word(offsetof(sharded::BlockHeader, magic)) == sharded::kMagic &&
               word(offsetof(sharded::BlockHeader, exchange)) == 0 &&
               word(kFingerprintAt) == static_cast<std::uint32_t>(task_.fingerprint) &&
               word(kFingerprintAt + 4) == static_cast<std::uint32_t>(task_.fingerprint >> 32);
    }
    const bool agree = __syncthreads_or(agrees ? 0 : 1) == 0;
    if (!agree && thread() == 0) {
      atomicMin(task_.undecided, -1);
      state_.asks = RowAsks::nothing;
      state_.awaits_ranks = false;
      if (task_.records != nullptr) task_.records[number_].status = RowStatus::inactive;
    }
    return agree;
  }

  /// Returns whether the tokens or sums that the row has requested have arrived.
  __device__ bool take_answers_now() const {
    return (exchange_ == ShardedExchange::tokens && asked_ == RowAsks::tokens) ||
           (exchange_ == ShardedExchange::sums && asked_ == RowAsks::sums);
  }
  /// Returns whether the row has been gathered, filtered and drawn from as a whole row.
  __device__ bool is_gathered() const {
    return exchange_ == ShardedExchange::gather && asked_ == RowAsks::gather;
  }

  __device__ void decide() {
    bool asks = false;
    if (is_gathered()) {
      take_whole_row();
    } else if (row_.is_greedy_row()) {
      const KnownToken& first = row_.first_at_max();
      greedy_ = {{row_.max_key(), {1, 0}}, first.id + 1, {0, 0}};
#pragma unroll 1
      for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
        token(t) = {0, first.id, first.bits, reports_raw() ? row_.raw_bits_of_first() : 0, {}};
      }
    } else {
      const bool attempts = outputs_.tokens() > 0 && proposes();
      // If min_p may drop values, the row cannot draw by proposals, because no rank knows which
      // part of another shard's mass is in the tiles that min_p keeps.
      const bool known = thresholds_.find_survivors(row_);
      const bool may_draw = attempts && !thresholds_.min_p_drops();
      if ((!known && !(may_draw && task_.attempts > 1)) || (attempts && !may_draw)) {
        ask(RowAsks::gather);
        return;
      }
      if (!known) {
        asks = draw_widely();
      } else if (attempts) {
        asks = draw_by_parts(kAttempts, survivors().from.key);
      } else if (row_.is_filtered() && row_.left_key() < survivors().from.key) {
        draw_known();
      } else {
        asks = draw_by_parts(1, survivors().from.key);
      }
    }
    finish(asks);
  }
  __device__ const Survivors& survivors() const {
    return row_.is_greedy_row() ? greedy_ : thresholds_.survivors();
  }

  /// Stores the request of a row that has no result yet.
  __device__ void ask(RowAsks what) {
    if (thread() != 0) return;
    state_.asks = what;
    atomicAdd(task_.undecided, 1);
    if (task_.records != nullptr) task_.records[number_].status = RowStatus::inactive;
  }

  // --- Tokens

  __device__ void take_whole_row() {
    const GatheredRows& gathered = task_.gathered;
    const int slot = state_.slot;
    const std::int32_t support =
        outputs_.count() > 0 ? gathered.support_size[outputs_.output(0)] : 0;
    thresholds_.take(gathered.records[slot], support);
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      const std::int32_t id = gathered.tokens[outputs_.at(t)];
      const auto bits =
          std::bit_cast<std::uint32_t>(gathered.rows.data[slot * gathered.rows.row_stride + id]);
      token(t) = {0, id, bits, reports_raw() ? gathered_raw_bits(slot, id) : bits, {}};
    }
  }
  /// Returns the caller's value for a token of a gathered row; in a shard's part, the caller's
  /// values follow the values that filters see.
  __device__ std::uint32_t gathered_raw_bits(int slot, std::int32_t id) const {
    int shard = 0;
    while (id >= task_.parts[shard].end) ++shard;
    const int column = task_.gathered.room + id - task_.parts[shard].begin;
    return word_of(blocks_.row(ShardedExchange::gather, shard, slot),
                   4 * static_cast<std::size_t>(column));
  }

  /// Returns whether reports use the caller's logit of a token, which differs from the value that
  /// filters see.
  __device__ bool reports_raw() const { return kReports && task_.raw.given; }

  /// Returns a token of the row's outputs. If the row has many tokens, they are in global memory
  /// from the beginning.
  __device__ ShardedToken& token(int t) const {
    return outputs_.tokens() <= MergeMemory::kTokens ? shared_.tokens[t]
                                                     : task_.drawn[outputs_.at(t)];
  }

  /// Returns whether the row draws its tokens by proposals. Random words that the caller gives are
  /// for draws from the survivors, and not for proposals.
  __device__ bool proposes() const {
    const RowParameters& parameters = row_.parameters();
    return task_.words == nullptr &&
           fairdraw::proposes(top_k_is_on(parameters.top_k, task_.vocab), parameters.top_p);
  }

  /// Draws the tokens of a row whose survivors are all known; the survivors are the first values in
  /// the order of known values.
  __device__ void draw_known() {
    if (outputs_.tokens() == 0) return;
    const auto kept = static_cast<int>(survivors().from.at_least.count - survivors().cut.count);
    const uint128_t total = row_.known().first(kept).mass;
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      token(t) = {0, -1, 0, 0, multiply_high(outputs_.word_of(task_, t, 0), total)};
    }
    __syncthreads();
#pragma unroll 1
    for (int i = thread(); i < kept; i += kEndThreads) {
      const int place = row_.known().place(i);
      const std::int32_t id = row_.known().id_of(place);
      uint128_t before = 0;
#pragma unroll 2
      for (int j = 0; j < kept; ++j) {
        const int other = row_.known().place(j);
        if (row_.known().id_of(other) < id) before += row_.known().weight_of(other);
      }
      const uint128_t upto = before + row_.known().weight_of(place);
#pragma unroll 1
      for (int t = 0; t < outputs_.tokens(); ++t) {
        ShardedToken& drawn = token(t);
        const uint128_t position = drawn.place.value();
        if (position < before || position >= upto) continue;
        drawn.id = id;
        drawn.bits = row_.bits_of(place);
        if (reports_raw()) drawn.raw_bits = row_.raw_bits_of(place);
      }
    }
  }

  __device__ bool survives(std::int32_t key, std::int32_t id) const {
    return key > survivors().from.key || (key == survivors().from.key && id < survivors().tie_end);
  }

  /// Draws from a nucleus whose threshold is not known, by proposals from all values of the row.
  __device__ bool draw_widely() {
    // The mass of the known values is below the target, so the mass above the first unknown value
    // is also below the target.
    const bool asks = draw_by_parts(sharded::kWideAttempts, row_.left_key());
    if (thread() == 0) {
      state_.target = nucleus_target(row_.parameters().top_p, row_.unfiltered().mass);
    }
    if (thread() < task_.cut_tiles) state_.cut_keys[thread()] = row_.cut_tile(thread()).key;
    return asks;
  }

  /// Draws by proposals from all tiles of the row. Proposals below the threshold are rejected, and
  /// proposals whose key is at least accepted_from are accepted. Returns whether the row must
  /// request tokens from the shards.
  __device__ bool draw_by_parts(std::uint32_t attempts, std::int32_t accepted_from) {
    if (outputs_.tokens() == 0) return false;
    if (thread() < task_.row_part_count) {
      const RowPart& part = task_.row_parts[thread()];
      const CutTile& tile = row_.cut_tile(part.cut);
      shared_.part_mass[thread()] =
          part.shard >= 0 ? row_.whole(part.shard) : row_weight(tile.sum, tile.shift);
    }
    __syncthreads();
    if (thread() == 0) {
      uint128_t in_front = 0;
      for (int i = 0; i < task_.row_part_count && task_.row_parts[i].shard != task_.shard; ++i) {
        in_front += shared_.part_mass[i];
      }
      state_.in_front = in_front;
      state_.rejected_below = survivors().from.key;
      state_.accepted_from = accepted_from;
    }
    bool asks = false;
#pragma unroll 1
    for (int t = warp_of_thread(); t < outputs_.tokens(); t += kEndWarps) {
      const ShardedToken drawn = token_of_cut_tiles(t, attempts);
      asks = asks || drawn.attempts > 0 || drawn.id < 0 ||
             order_key(std::bit_cast<float>(drawn.bits)) < accepted_from;
      if (lane_of_thread() == 0) token(t) = drawn;
    }
    return __syncthreads_or(asks ? 1 : 0) != 0;
  }

  /// Finds a token's first attempt that is in a cut tile and not rejected; if shards have any of
  /// the preceding attempts, the function also returns how many attempts precede. A whole warp must
  /// call this function.
  __device__ ShardedToken token_of_cut_tiles(int t, std::uint32_t attempts) const {
    if (task_.cut_tiles == 0) return {attempts, -1, 0, 0, {}};
    bool asks = false;
#pragma unroll 1
    for (std::uint32_t first = 0; first < attempts; first += kWarp) {
      const auto attempt = first + static_cast<std::uint32_t>(lane_of_thread());
      uint128_t rest = 0;
      int number = task_.row_part_count;
      if (attempt < attempts) {
        rest = multiply_high(outputs_.word_of(task_, t, attempt), row_.unfiltered().mass);
        number = part_at(rest);
      }
      // Only received blocks that are wrong make `is_there` false.
      const bool is_there = number < task_.row_part_count;
      const bool of_shard = is_there && task_.row_parts[number].shard >= 0;
      const unsigned of_shards = __ballot_sync(kAllLanes, of_shard);
#pragma unroll 1
      for (unsigned left = __ballot_sync(kAllLanes, is_there && !of_shard); left != 0;
           left &= left - 1) {
        const int lane = __ffs(static_cast<int>(left)) - 1;
        const RowPart& part = task_.row_parts[__shfl_sync(kAllLanes, number, lane)];
        ShardedToken drawn = token_in_cut(part.cut, value_of_lane(rest, lane));
        if (drawn.id < 0) continue;
        asks = asks || (of_shards & ((1U << lane) - 1)) != 0;
        drawn.attempts = asks ? first + static_cast<std::uint32_t>(lane) : 0;
        return drawn;
      }
      asks = asks || of_shards != 0;
    }
    return {asks ? attempts : 0, -1, 0, 0, {}};
  }

  /// Returns the number of the part of the row that contains a position, and makes the position
  /// relative to the beginning of that part.
  __device__ int part_at(uint128_t& place) const {
    int number = 0;
    while (number < task_.row_part_count && place >= shared_.part_mass[number]) {
      place -= shared_.part_mass[number++];
    }
    return number;
  }

  /// Finds the token at a position in a cut tile; the id of the result is -1 if the token does not
  /// survive. A whole warp must call this function.
  __device__ ShardedToken token_in_cut(int cut, uint128_t in_tile) const {
    const CutSpan& span = task_.cut[cut];
    const CutTile& tile = row_.cut_tile(cut);
    const int first = row_.known().first_cut() + span.at;
    const TileWeights<kFromProbs> rule(from_order_key(tile.key), row_.rule());
    const bool quick = rule.are_quick();
    std::uint64_t weights[kLaneValues];
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const int place = lane_of_thread() * kLaneValues + i;
      const std::int32_t key =
          place < span.size ? row_.known().key_of(first + place) : kEmptyTileKey;
      const float x = from_order_key(key);
      weights[i] = key == kEmptyTileKey ? 0
                   : quick              ? rule.weigh(x)
                                        : weigh_slowly<kFromProbs>(rule, x);
    }
    const auto within = static_cast<std::uint64_t>(in_tile >> tile.shift);
    const int place = first + token_in_tile(0, weights, within);
    const std::int32_t id = row_.known().id_of(place);
    if (!survives(row_.known().key_of(place), id)) return {0, -1, 0, 0, {}};
    return {0, id, row_.bits_of(place), reports_raw() ? row_.raw_bits_of(place) : 0, {}};
  }

  // --- Results

  /// Finishes a row whose survivors are known: the row either requests tokens from the shards, or
  /// writes its results.
  __device__ void finish(bool asks) {
    __syncthreads();
    const bool waits = asked_ != RowAsks::nothing;
    if (thread() == 0) {
      state_.asks = RowAsks::nothing;
      state_.low = survivors().from.key;
      state_.tie_end = survivors().tie_end;
      state_.support_size =
          static_cast<std::int32_t>(survivors().from.at_least.count - survivors().cut.count);
      state_.unfiltered = row_.unfiltered().mass;
      state_.survivors = survivors().from.at_least.mass - survivors().cut.mass;
      state_.raw = row_.raw();
    }
    __syncthreads();
    if constexpr (kReports) {
      if (task_.top_n > 0) write_top();
    }
    if (asks) {
#pragma unroll 1
      for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
        task_.drawn[outputs_.at(t)] = token(t);
      }
      ask(RowAsks::tokens);
      if (!task_.exchanges_tokens) return;
      __syncthreads();  // wait until the request has been written
      answer_tokens<kFromProbs>(task_, number_, dynamic_);
      blocks_.exchange_in_merge(ShardedExchange::tokens, number_);
      take_tokens();
      return;
    }
    write_row(waits);
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      write_token(outputs_.at(t), token(t));
    }
  }

  /// Reads the attempts that the shards have listed for the row's request. If a token has no
  /// attempt that may be accepted, the row is gathered.
  __device__ void take_tokens() {
    bool misses = false, asks = false;
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      const TokenRecords records = records_of(task_, blocks_, state_, outputs_.at(t));
      misses = misses || records.count == 0;
      asks = asks || records.key(0) < state_.accepted_from;
    }
    misses = __syncthreads_or(misses ? 1 : 0) != 0;
    asks = __syncthreads_or(asks ? 1 : 0) != 0;
    if (misses && proposes()) {
      if (thread() == 0) state_.asks = RowAsks::gather;
      return;
    }
    if (!asks || misses) {
      write_first_accepted([](const TokenRecords&, std::int64_t) { return 0; });
      return;
    }
    if (thread() == 0) state_.asks = RowAsks::sums;
    if (!task_.exchanges_tokens) return;
    answer_sums<kFromProbs>(task_, blocks_, number_, dynamic_);
    blocks_.exchange_in_merge(ShardedExchange::sums, number_);
    take_sums();
  }

  /// Reads the sums above the listed attempts from all shards. If all attempts of a token are
  /// rejected, the row is gathered.
  __device__ void take_sums() {
    const auto first_accepted = [this](const TokenRecords& records, std::int64_t at) {
      int i = 0;
#pragma unroll 1
      for (; i < records.count && records.key(i) < state_.accepted_from; ++i) {
        uint128_t above = 0;
#pragma unroll 1
        for (int shard = 0; shard < task_.shards; ++shard) {
          const auto record =
              static_cast<std::size_t>(at * static_cast<int>(sharded::kRecords) + i);
          above += read_sum(blocks_.row(ShardedExchange::sums, shard, 0),
                            sizeof(sharded::Sum128) * record);
        }
        if (above < state_.target.value()) break;
      }
      return i;
    };
    bool misses = false;
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      const std::int64_t at = outputs_.at(t);
      const TokenRecords records = records_of(task_, blocks_, state_, at);
      misses = misses || first_accepted(records, at) == records.count;
    }
    if (__syncthreads_or(misses ? 1 : 0) != 0) {
      if (thread() == 0) state_.asks = RowAsks::gather;
      return;
    }
    write_first_accepted(first_accepted);
  }

  /// Writes the results of the row; first(records, at) must return the first accepted record of a
  /// token.
  template <class First>
  __device__ void write_first_accepted(const First& first) {
    write_row(true);
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      const std::int64_t at = outputs_.at(t);
      const TokenRecords records = records_of(task_, blocks_, state_, at);
      ShardedToken token{0, -1, 0, 0, {}};
      if (records.count > 0) {  // the count is 0 only if the received blocks were wrong
        const sharded::TokenAttempt& drawn = records.of[first(records, at)];
        token = {0, drawn.id, drawn.bits, drawn.raw_bits, {}};
      }
      write_token(at, token);
    }
  }

  /// Writes the results of the row. All threads must call this function after the state of the row
  /// has been written.
  __device__ void write_row(bool has_waited) {
#pragma unroll 1
    for (int i = thread(); i < outputs_.count(); i += kEndThreads) {
      const std::int64_t output = outputs_.output(i);
      if (task_.statuses != nullptr) task_.statuses[output] = RowStatus::ok;
      if (task_.support_size != nullptr) task_.support_size[output] = state_.support_size;
    }
    if (thread() != 0) return;
    if (has_waited) atomicAdd(task_.undecided, -1);
    state_.asks = RowAsks::nothing;
    if constexpr (kReports) state_.awaits_ranks = task_.ranks != nullptr;
    if (task_.records == nullptr) return;
    const ShardPart& mine = task_.parts[task_.shard];
    const int end = ::min(::max(state_.tie_end, mine.begin), mine.end) - mine.begin;
    std::int32_t greedy_token = -1;
    if (is_greedy(row_.parameters())) {  // this shard has no other tokens of the row
      const int token = state_.tie_end - 1;
      greedy_token = token >= mine.begin && token < mine.end ? token - mine.begin : INT_MAX;
    }
    task_.records[number_] = {
        RowStatus::ok, greedy_token, state_.max,           from_order_key(state_.low),
        end,           CUDART_INF_F, state_.survivors.low, state_.survivors.high};
  }

  __device__ void write_token(std::int64_t at, const ShardedToken& token) const {
    task_.tokens[at] = token.id;
    if constexpr (!kReports) return;
    if (task_.ranks != nullptr) task_.drawn[at] = token;
    const float x = std::bit_cast<float>(token.bits);
    write_values(at, x, task_.raw.given ? std::bit_cast<float>(token.raw_bits) : x);
  }
  /// Writes the reported log-probabilities of a token. The argument `raw` is the caller's logit of
  /// the token.
  __device__ void write_values(std::int64_t at, float x, float raw) const {
    const float divisor =
        row_.parameters().temperature == 0.0F ? 1.0F : row_.parameters().temperature;
    if (task_.logprob != nullptr) {
      const double log_mass = log_mass_of(state_.unfiltered.value(), state_.max, state_.scale);
      task_.logprob[at] = static_cast<float>(log_probability(x, state_.max, divisor, log_mass));
    }
    if (task_.values != nullptr) task_.values[at] = reported(is_raw(task_.mode) ? raw : x);
    if (task_.logprob_filtered != nullptr) {
      const double log_mass = filtered_log_mass(row_.parameters(), state_);
      task_.logprob_filtered[at] =
          static_cast<float>(log_probability(x, state_.max, divisor, log_mass));
    }
  }
  __device__ float reported(float x) const {
    return reported_value(task_.mode, row_.parameters(), state_, x);
  }

  /// Writes the largest reported values and their ids; the state of the row must already be
  /// written.
  __device__ void write_top() {
    for (int i = thread(); i < task_.top_n; i += kEndThreads) write_top_entry(i, -1, 0);
    __syncthreads();
    if (task_.raw.given) {
      const RowMerger copy(*this);  // works on a copy, so that *this stays in registers
      copy.write_raw_top();
      return;
    }
    const bool of_survivors = !is_raw(task_.mode);
    if (of_survivors && row_.is_greedy_row()) {
      const KnownToken& first = row_.first_at_max();
      if (thread() == 0) write_top_entry(0, first.id, first.bits);
      return;
    }
    const KnownValues<kFromProbs>& known = row_.known();
    for (int place = thread(); place < known.places(); place += kEndThreads) {
      const std::int32_t key = known.key_of(place);
      const bool counts =
          key > kEmptyTileKey && (!of_survivors || survives(key, known.id_of(place)));
      if (!counts) continue;
      const int rank = known.rank_of_all(place);
      if (rank < task_.top_n) write_top_entry(rank, known.id_of(place), row_.bits_of(place));
    }
  }
  /// Writes the largest of the caller's logits, which replace the known values in memory.
  __device__ __noinline__ void write_raw_top() const {
    const int n = row_.load_raw();
    __syncthreads();
    for (int i = thread(); i < n; i += kEndThreads) {
      const std::int32_t key = row_.raw_key(i);
      if (key == kEmptyTileKey) continue;
      int rank = 0;
      for (int j = 0; j < n && rank < task_.top_n; ++j) {
        const std::int32_t other = row_.raw_key(j);
        rank += other > key || (other == key && row_.raw_id(j) < row_.raw_id(i)) ? 1 : 0;
      }
      if (rank < task_.top_n) write_top_entry(rank, row_.raw_id(i), row_.loaded_raw_bits(i));
    }
    __syncthreads();
  }
  __device__ void write_top_entry(int rank, std::int32_t id, std::uint32_t bits) const {
    const bool has_value = task_.top_values != nullptr && id >= 0;
    const float value = has_value ? reported(std::bit_cast<float>(bits)) : -CUDART_INF_F;
#pragma unroll 1
    for (int i = 0; i < outputs_.count(); ++i) {
      const std::int64_t at = outputs_.output(i) * task_.top_n + rank;
      if (task_.top_ids != nullptr) task_.top_ids[at] = id;
      if (task_.top_values != nullptr) task_.top_values[at] = value;
    }
  }

  __device__ void fail(RowStatus status) {
#pragma unroll 1
    for (int t = thread(); t < outputs_.tokens(); t += kEndThreads) {
      const std::int64_t at = outputs_.at(t);
      task_.tokens[at] = -1;
      if constexpr (kReports) {
        if (task_.logprob != nullptr) task_.logprob[at] = -CUDART_INF_F;
        if (task_.logprob_filtered != nullptr) task_.logprob_filtered[at] = -CUDART_INF_F;
        if (task_.values != nullptr) task_.values[at] = -CUDART_INF_F;
        if (task_.ranks != nullptr) task_.ranks[at] = 0;
      }
    }
    if constexpr (kReports) {
      for (int i = thread(); i < task_.top_n; i += kEndThreads) write_top_entry(i, -1, 0);
    }
#pragma unroll 1
    for (int i = thread(); i < outputs_.count(); i += kEndThreads) {
      const std::int64_t output = outputs_.output(i);
      if (task_.statuses != nullptr) task_.statuses[output] = status;
      if (task_.support_size != nullptr) task_.support_size[output] = 0;
    }
    if (thread() != 0) return;
    state_.asks = RowAsks::nothing;
    state_.awaits_ranks = false;
    if (task_.records != nullptr) task_.records[number_] = {status, -1, 0, 0, 0, 0, 0, 0};
  }

  const ShardedTask& task_;
  ReceivedBlocks blocks_;
  ShardedExchange exchange_;
  std::int64_t number_;
  ShardedRowState& state_;
  RowAsks asked_;  ///< request that the row made before this exchange
  unsigned char* dynamic_;
  MergeMemory& shared_;
  RowOutputs outputs_;
  MergedRow<kFromProbs> row_;
  Thresholds thresholds_;
  Survivors greedy_{};
};

}  // namespace fairdraw::cuda
