// A sharded call as the device sees it, and the state of its rows between exchanges.
//
// Private to kernels/cuda. The blocks are those of sharded/exchange.h. Blocks after the first have
// a place for every row, even if it does not ask, because a graph's exchanges have a fixed size.
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

/// Columns of a shard, as in sharded/partition.h.
struct ShardPart {
  int begin, whole_begin, whole_end, end;

  __host__ __device__ int head() const { return whole_begin - begin; }
  __host__ __device__ int tail() const { return end - whole_end; }
  __host__ __device__ int cut_values() const { return head() + tail(); }
  __host__ __device__ int whole() const { return whole_end - whole_begin; }
  /// Returns the shard's column that has its i-th value of cut tiles.
  __host__ __device__ int cut_column(int i) const { return i < head() ? i : i + whole(); }
};

/// Ids of a tile that boundaries cut, and the index of its values among those of all cut tiles.
struct CutSpan {
  int begin, size, at;
};

/// Consecutive ids of cut tiles that one shard has.
struct CutPiece {
  int at;  ///< index among the values of all cut tiles
  int begin;
  int shard;
  int in_summary;  ///< index among the shard's own values of cut tiles
};

/// Consecutive ids that are weighed together: a shard's whole tiles, or a cut tile.
struct RowPart {
  int begin;
  int shard;  ///< -1: a cut tile
  int cut;    ///< number of the cut tile
};

inline constexpr int kMaxCutTiles = kMaxDeviceShards - 1;
inline constexpr int kMaxRowParts = kMaxDeviceShards + kMaxCutTiles;

/// Answer that a row waits for.
enum class RowAsks : std::int32_t { nothing, tokens, sums, gather };

/// State of a row between exchanges.
struct ShardedRowState {
  RowAsks asks;
  std::int32_t slot;  ///< slot in the group of rows that is gathered; -1: none

  double octave;  ///< octave of the row's largest value
  float scale;
  float max;
  float raw_max;      ///< maximum of the caller's logits, in calls that report raw_logprobs
  bool awaits_ranks;  ///< its tokens are known, and their ranks are wanted

  // Set once the survivors are known.
  std::int32_t low;  ///< threshold, a key
  std::int32_t tie_end;
  std::int32_t support_size;
  sharded::Sum128 unfiltered, survivors;

  // For rows that ask for tokens (MergedRow of the CPU).
  sharded::Sum128 in_front;  ///< mass in front of this shard's whole tiles
  sharded::Sum128 target;    ///< target of a nucleus whose threshold is not known
  std::int32_t rejected_below, accepted_from;
  std::int32_t cut_keys[kMaxCutTiles];  ///< largest key of each cut tile
  sharded::Sum128 raw;  ///< mass at temperature 1, in calls that report raw_logprobs
};

/// Token that is known or asked for.
struct ShardedToken {
  std::uint32_t attempts;  ///< attempts before its own that shards are asked for
  std::int32_t id;         ///< -1: only shards have attempts
  std::uint32_t bits;
  std::uint32_t raw_bits;  ///< the caller's value, in calls that report values
  sharded::Sum128 place;   ///< drawn position in the mass of the known survivors
};

/// Head of a rank's memory of peers; the flags of all shards' rows follow. The kernels that send
/// change it, and the rank's later kernels read it.
struct PeerCounts {
  std::uint64_t exchanges;  ///< number of exchanges that this rank has sent, over all calls
  std::uint64_t calls;      ///< number of summaries among them
  std::uint32_t ended;      ///< blocks of the current launch that have sent
  std::uint32_t unused[11];
};
static_assert(sizeof(PeerCounts) == 64);

/// Number of copies of a call's blocks of gathered rows, which alternate.
inline constexpr int kGatherCopies = 3;

/// Layout of the blocks that ranks write into each other's memory (peer_exchange.cuh).
struct PeerBlocks {
  /// Memory of each rank, as this one addresses it. First one null: a transport carries the blocks.
  std::byte* memory[kMaxDeviceShards];
  std::int64_t most_rows;         ///< maximum number of rows that have flags
  std::int64_t flags_end;         ///< byte at which blocks begin
  std::int64_t half;              ///< bytes of one of the two halves, the same for all calls
  std::int64_t at[kExchanges];    ///< byte of the received blocks in a half
  std::int64_t each[kExchanges];  ///< bytes from a block to the next

  __host__ __device__ bool given() const { return memory[0] != nullptr; }
};

/// Rows that candidates do not decide. Groups of them are gathered, filtered and drawn from whole.
struct GatheredRows {
  int count;              ///< maximum number of rows of a group; 0: no row is filtered
  int room;               ///< maximum number of columns of a shard in its part of a block
  std::int32_t* numbers;  ///< [count], of rows; -1: beyond the group's rows
  std::int32_t* slots;    ///< [outputs], slots of their rows in the group; -1: not in it
  FloatRows rows;         ///< [count, vocab]
  std::uint8_t* active;   ///< [count]
  float* temperature;     ///< [count], as are the next parameters and the records
  std::int32_t* top_k;
  float* top_p;
  float* min_p;
  RowRecord* records;
  std::int32_t* tokens;        ///< [outputs, num_samples]
  std::int32_t* support_size;  ///< [outputs]
};

/// The caller's logits, if reports use them and rows are masked or processed.
struct RawRows {
  RowsView columns;  ///< this shard's columns
  RowsView whole;    ///< this shard's whole tiles
  TileRows<std::int32_t> keys;
  TileRows<std::uint16_t> counts;
  int cut_at, candidates_at;  ///< byte offsets in a summary
  int candidates;             ///< maximum number of candidates
  bool given;
};

/// Task of a sharded call. All arguments are in range, except for values in device memory.
struct ShardedTask {
  RowsView columns;                            ///< columns of this shard, processed if the call is
  RowsView whole;                              ///< its whole tiles; vocab may be 0
  BitRows<const std::uint32_t> allowed;        ///< bits of the columns
  BitRows<const std::uint32_t> whole_allowed;  ///< bits of whole tiles, whose first id is at bit 0
  BitRows<std::uint32_t> shifted;              ///< whole_allowed, if it has to be written first
  View<const std::uint8_t> active;
  bool from_probs;  ///< rows hold probabilities
  bool is_processed;
  LogitsProcessing processing;  ///< read if is_processed
  const RowFault* faults;       ///< [rows], of processing; null: none
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
  View<const std::int32_t> indices;  ///< rows of the outputs; not given: an output is a row
  int vocab, shards, shard;
  ShardPart parts[kMaxDeviceShards];
  CutSpan cut[kMaxCutTiles];
  CutPiece pieces[2 * kMaxDeviceShards];  ///< pieces of cut tiles, in id order
  int piece_count;
  int cut_tiles, cut_total;         ///< numbers of cut tiles, and of their values
  RowPart row_parts[kMaxRowParts];  ///< parts of a row, in id order
  int row_part_count;
  int cut_values;  ///< maximum number of cut values in a summary
  int candidates;  ///< maximum number of candidates in a summary; 0: no row is filtered
  int candidate_bytes;
  int attempts;  ///< maximum number of a token's attempts that a shard lists
  int raw_at;    ///< byte of a summary at which temperature 1 begins; 0: none
  std::uint64_t fingerprint;

  // In the workspace.
  TileRows<std::int32_t> keys;  ///< keys of this shard's whole tiles
  TileRows<std::uint64_t> sums;
  TileRows<std::uint16_t> counts;  ///< allowed tokens per tile
  unsigned char* groups;           ///< GroupKeys of consecutive rows; null: not wanted
  ShardedRowState* states;         ///< [rows]
  ShardedToken* drawn;             ///< [outputs, num_samples]
  std::int32_t* output_begins;  ///< [rows + 1], indices of outputs_by_row; null: an output is a row
  std::int32_t* outputs_by_row;  ///< outputs, in order of their rows
  RowRecord* records;            ///< [rows]; null: no mask is wanted
  std::uint64_t* raw_sums;       ///< like sums, at temperature 1; null: not wanted
  RawRows raw;
  GatheredRows gathered;
  std::int32_t* undecided;
  std::byte* send[kExchanges];
  std::byte* receive[kExchanges];
  std::int64_t bytes[kExchanges];  ///< bytes of a block
  std::int64_t each[kExchanges];   ///< bytes of a row in a block; of an output for tokens, sums and
                                   ///< ranks
  PeerBlocks peers;
  bool exchanges_tokens;  ///< tokens and sums are exchanged in the merge that asks for them

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
  FloatRows all;  ///< values of this shard's columns

  __host__ __device__ std::int64_t rows() const { return columns.rows; }
  std::int64_t outputs() const { return indices.given() ? indices.size : rows(); }
  bool has_ranks() const { return ranks != nullptr && num_samples > 0; }
  __host__ __device__ int tiles() const {
    return (parts[shard].whole() + kTileSize - 1) / kTileSize;
  }
  /// Returns this rank's part of a block, by row; of tokens, sums and ranks, by output.
  __device__ std::byte* mine(ShardedExchange exchange, std::int64_t row) const {
    const auto number = static_cast<int>(exchange);
    return send[number] + sizeof(sharded::BlockHeader) + row * each[number];
  }
  /// Returns whether a block has a place for each output.
  __host__ __device__ static bool is_of_outputs(ShardedExchange exchange) {
    return exchange == ShardedExchange::tokens || exchange == ShardedExchange::sums ||
           exchange == ShardedExchange::ranks;
  }
};

/// Returns the bytes of a row's groups, by its tiles.
std::int64_t group_bytes(std::int64_t tiles);
/// Enqueues the index of the shard's whole tiles (index_shard.cu); whole.vocab >= 1.
cudaError_t index_shard(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream);
/// Enqueues the lists of rows' outputs (list_outputs.cu), of calls with indices.
cudaError_t list_outputs(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the summaries of all rows (summarise_rows.cu).
cudaError_t summarise_rows(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the merge of what was received (merge_rows.cu).
cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues summaries and merge in one kernel, through peers whose kernels run at the same time
/// (exchange_summaries.cu). Precondition: task.undecided is 0.
cudaError_t exchange_summaries(const ShardedTask& task, cudaStream_t stream);
/// Enqueues this shard's answers to rows that ask for tokens or sums (answer_rows.cu).
cudaError_t answer_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues sending this shard's columns of the next group of undecided rows, and, after those of
/// all shards have come, making the rows whole (gather_rows.cu).
cudaError_t send_columns(const ShardedTask& task, cudaStream_t stream);
cudaError_t make_rows_whole(const ShardedTask& task, cudaStream_t stream);
/// Enqueues counting this shard's columns in front of tokens, and summing the counts over shards
/// (rank_tokens.cu).
cudaError_t count_in_front(const ShardedTask& task, cudaStream_t stream);
cudaError_t sum_ranks(const ShardedTask& task, cudaStream_t stream);
/// Enqueues log-probabilities of all of this shard's columns (report_columns.cu).
cudaError_t report_columns(const ShardedTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
