// A sharded call as the device sees it, and what a row keeps between exchanges.
//
// Private to kernels/cuda. The blocks are those of sharded/exchange.h; blocks after the first have
// a place for every row, whether it asks or not, because a graph's exchanges have a fixed size.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/tiles/filter_rows.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded.h"
#include "sharded/exchange.h"

namespace fairdraw::cuda {

inline constexpr int kExchanges = 5;

/// Where a shard's columns lie, as in sharded/partition.h.
struct ShardPart {
  int begin, whole_begin, whole_end, end;

  __host__ __device__ int head() const { return whole_begin - begin; }
  __host__ __device__ int tail() const { return end - whole_end; }
  __host__ __device__ int cut_values() const { return head() + tail(); }
  __host__ __device__ int whole() const { return whole_end - whole_begin; }
  /// Column of the shard that has its i-th value of cut tiles.
  __host__ __device__ int cut_column(int i) const { return i < head() ? i : i + whole(); }
};

/// A tile that boundaries cut: its ids, and where its values are among those of all cut tiles.
struct CutSpan {
  int begin, size, at;
};

/// Consecutive ids of cut tiles that one shard has.
struct CutPiece {
  int at;  ///< among the values of all cut tiles
  int begin;
  int shard;
  int in_summary;  ///< among the shard's own
};

/// Consecutive ids that are weighed together: a shard's whole tiles, or a cut tile.
struct RowPart {
  int begin;
  int shard;  ///< -1: a cut tile
  int cut;    ///< its number
};

inline constexpr int kMaxCutTiles = kMaxDeviceShards - 1;
inline constexpr int kMaxRowParts = kMaxDeviceShards + kMaxCutTiles;

/// What a row waits for.
enum class RowAsks : std::int32_t { nothing, tokens, sums, gather };

/// One row between exchanges.
struct ShardedRowState {
  RowAsks asks;
  std::int32_t slot;  ///< in the group of rows that is gathered; -1: in none

  double octave;  ///< of the row
  float scale;
  float max;
  float raw_max;      ///< of the caller's logits; of calls that report raw_logprobs
  bool awaits_ranks;  ///< its tokens are known, and their ranks are wanted

  // When the survivors are known.
  std::int32_t low;  ///< threshold, a key
  std::int32_t tie_end;
  std::int32_t support_size;
  sharded::Sum128 unfiltered, survivors;

  // Of rows that ask for tokens (MergedRow of the CPU).
  sharded::Sum128 in_front;  ///< mass in front of this shard's whole tiles
  sharded::Sum128 target;    ///< of a nucleus whose threshold is not known
  std::int32_t rejected_below, accepted_from;
  std::int32_t cut_keys[kMaxCutTiles];  ///< the largest of each cut tile
  sharded::Sum128 raw;                  ///< at temperature 1; of calls that report raw_logprobs
};

/// A token that is known or asked for.
struct ShardedToken {
  std::uint32_t attempts;  ///< in front of its own, that shards are asked for
  std::int32_t id;         ///< -1: there are attempts of shards alone
  std::uint32_t bits;
  std::uint32_t raw_bits;  ///< as the caller has it; of calls that report values
  sharded::Sum128 place;   ///< mass in front of it among survivors that are known
};

/// The beginning of a rank's memory of peers; the flags of all shards' rows follow. The kernels
/// that send change it, and all others of the rank read it after them.
struct PeerCounts {
  std::uint64_t exchanges;  ///< that this rank has sent, of all calls
  std::uint64_t calls;      ///< summaries among them
  std::uint32_t ended;      ///< blocks of a launch that have sent
  std::uint32_t unused[11];
};
static_assert(sizeof(PeerCounts) == 64);

/// Copies of a call's blocks of gathered rows, which take turns.
inline constexpr int kGatherCopies = 3;

/// Where blocks lie that ranks write into each other's memory (peer_exchange.cuh).
struct PeerBlocks {
  /// Of each rank, as this one addresses it; the first is null: a transport carries the blocks.
  std::byte* memory[kMaxDeviceShards];
  std::int64_t most_rows;         ///< that there are flags for
  std::int64_t flags_end;         ///< byte at which blocks begin
  std::int64_t half;              ///< bytes of every other call's blocks, the same for all calls
  std::int64_t at[kExchanges];    ///< byte of the blocks that are received, in a half
  std::int64_t each[kExchanges];  ///< from one of them to the next

  __host__ __device__ bool given() const { return memory[0] != nullptr; }
};

/// Rows that candidates do not decide, a group at a time: gathered, filtered and drawn from whole.
struct GatheredRows {
  int count;              ///< most of a group; 0: no row is filtered
  int room;               ///< for a shard's columns in its part of a block
  std::int32_t* numbers;  ///< [count], of rows; -1: the group has no more
  std::int32_t* slots;    ///< [outputs], of their rows in the group; -1: not in it
  FloatRows rows;         ///< [count, vocab]
  std::uint8_t* active;   ///< [count]
  float* temperature;     ///< [count], as the parameters that follow, and the records
  std::int32_t* top_k;
  float* top_p;
  float* min_p;
  RowRecord* records;
  std::int32_t* tokens;        ///< [outputs, num_samples]
  std::int32_t* support_size;  ///< [outputs]
};

/// The caller's logits, where reports are of them and rows are masked or processed.
struct RawRows {
  RowsView columns;  ///< of this shard
  RowsView whole;    ///< its whole tiles
  TileRows<std::int32_t> keys;
  TileRows<std::uint16_t> counts;
  int cut_at, candidates_at;  ///< bytes of a summary
  int candidates;             ///< room
  bool given;
};

/// Everything is in range except for what lies in device memory.
struct ShardedTask {
  RowsView columns;                            ///< of this shard, processed where the call is
  RowsView whole;                              ///< its whole tiles; vocab may be 0
  BitRows<const std::uint32_t> allowed;        ///< of the columns
  BitRows<const std::uint32_t> whole_allowed;  ///< of whole tiles, their first id at bit 0
  BitRows<std::uint32_t> shifted;              ///< where those have to be written first
  View<const std::uint8_t> active;
  bool from_probs;  ///< rows hold probabilities
  bool is_processed;
  LogitsProcessing processing;  ///< read where is_processed
  const RowFault* faults;       ///< [rows], of processing; null: there are none
  PerRequest<float> temperature;
  PerRequest<std::int32_t> top_k;
  PerRequest<float> top_p;
  PerRequest<float> min_p;
  PerRequest<std::uint64_t> seed;
  PerRequest<std::uint64_t> offset;
  const std::uint64_t* words;  ///< [outputs, num_samples], in place of those of seeds; null: none
  Purpose purpose;
  TieRule tie_rule;
  FilterOrder filter_order;
  int num_samples;                   ///< 0: no token is wanted
  View<const std::int32_t> indices;  ///< of outputs; not given: an output is a row
  int vocab, shards, shard;
  ShardPart parts[kMaxDeviceShards];
  CutSpan cut[kMaxCutTiles];
  CutPiece pieces[2 * kMaxDeviceShards];  ///< of them, in the order of ids
  int piece_count;
  int cut_tiles, cut_total;         ///< tiles, and their values
  RowPart row_parts[kMaxRowParts];  ///< in the order of ids
  int row_part_count;
  int cut_values;  ///< room in a summary
  int candidates;  ///< likewise; 0: no row is filtered
  int candidate_bytes;
  int attempts;  ///< most that a shard lists of a token
  int raw_at;    ///< byte of a summary at which that of temperature 1 is; 0: there is none
  std::uint64_t fingerprint;

  // In the workspace.
  TileRows<std::int32_t> keys;  ///< of this shard's whole tiles
  TileRows<std::uint64_t> sums;
  TileRows<std::uint16_t> counts;  ///< allowed tokens of a tile
  unsigned char* groups;           ///< GroupKeys of rows, one after the other; null: not wanted
  ShardedRowState* states;         ///< [rows]
  ShardedToken* drawn;             ///< [outputs, num_samples]
  std::int32_t* output_begins;     ///< [rows + 1], in outputs_by_row; null: an output is a row
  std::int32_t* outputs_by_row;    ///< those of a row one after the other
  RowRecord* records;              ///< [rows]; null: no mask is wanted
  std::uint64_t* raw_sums;         ///< as sums, at temperature 1; null: not wanted
  RawRows raw;
  GatheredRows gathered;
  std::int32_t* undecided;
  std::byte* send[kExchanges];
  std::byte* receive[kExchanges];
  std::int64_t bytes[kExchanges];  ///< of a block
  std::int64_t each[kExchanges];   ///< of a row in it; of tokens and ranks, of an output
  PeerBlocks peers;
  bool exchanges_tokens;  ///< in the merge that asks for them; and sums

  // Results; null: not wanted.
  std::int32_t* tokens;
  RowStatus* statuses;
  std::int32_t* support_size;
  float* logprob;
  float* logprob_filtered;
  LogprobsMode mode;
  int top_n;
  float* values;
  std::int32_t* ranks;
  RankRule rank_rule;
  std::int32_t* top_ids;
  float* top_values;
  FloatRows all;  ///< of this shard's columns

  __host__ __device__ std::int64_t rows() const { return columns.rows; }
  std::int64_t outputs() const { return indices.given() ? indices.size : rows(); }
  bool has_ranks() const { return ranks != nullptr && num_samples > 0; }
  __host__ __device__ int tiles() const {
    return (parts[shard].whole() + kTileSize - 1) / kTileSize;
  }
  /// This rank's part of a block, of a row; of tokens and ranks, of an output.
  __device__ std::byte* mine(ShardedExchange exchange, std::int64_t row) const {
    const auto number = static_cast<int>(exchange);
    return send[number] + sizeof(sharded::BlockHeader) + row * each[number];
  }
  /// Whether a block has a place for each output.
  __host__ __device__ static bool is_of_outputs(ShardedExchange exchange) {
    return exchange == ShardedExchange::tokens || exchange == ShardedExchange::sums ||
           exchange == ShardedExchange::ranks;
  }
};

/// Bytes of a row's groups, by its tiles.
std::int64_t group_bytes(std::int64_t tiles);
/// Enqueues the index of the shard's whole tiles (index_shard.cu); whole.vocab >= 1.
cudaError_t index_shard(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream);
/// Enqueues the lists of rows' outputs (list_outputs.cu), of calls with indices.
cudaError_t list_outputs(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the summaries of all rows (summarise_rows.cu).
cudaError_t summarise_rows(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the merge of what was received (merge_rows.cu).
cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues both, through peers whose kernels run at the same time (exchange_summaries.cu);
/// task.undecided is 0.
cudaError_t exchange_summaries(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the tokens or the sums that rows ask shards for (answer_rows.cu).
cudaError_t answer_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues this shard's columns of the next group of undecided rows, and, when those of all have
/// come, the whole rows (gather_rows.cu).
cudaError_t send_columns(const ShardedTask& task, cudaStream_t stream);
cudaError_t make_rows_whole(const ShardedTask& task, cudaStream_t stream);
/// Enqueues how many of this shard's columns are in front of tokens, and their sums over shards
/// (rank_tokens.cu).
cudaError_t count_in_front(const ShardedTask& task, cudaStream_t stream);
cudaError_t sum_ranks(const ShardedTask& task, cudaStream_t stream);
/// Enqueues log-probabilities of all of this shard's columns (report_columns.cu).
cudaError_t report_columns(const ShardedTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
