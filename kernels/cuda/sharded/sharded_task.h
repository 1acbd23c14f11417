// Arguments of a sharded call, with pointers to device memory, and the state of its rows between
// exchanges.
//
// Private to kernels/cuda. The layout of exchange blocks is that of sharded/exchange.h. Blocks
// after the first have a place for every row, even if a row requests nothing, because the exchanges
// of a graph have a fixed size.
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

/// Columns of the vocabulary that a shard has, as in sharded/partition.h.
struct ShardPart {
  int begin, whole_begin, whole_end, end;

  __host__ __device__ int head() const { return whole_begin - begin; }
  __host__ __device__ int tail() const { return end - whole_end; }
  __host__ __device__ int cut_values() const { return head() + tail(); }
  __host__ __device__ int whole() const { return whole_end - whole_begin; }
  /// Returns the shard's column that contains the shard's i-th value of cut tiles.
  __host__ __device__ int cut_column(int i) const { return i < head() ? i : i + whole(); }
};

/// Ids of a tile that shard boundaries cut, and the index of the tile's values among those of all
/// cut tiles.
struct CutSpan {
  int begin, size, at;
};

/// Consecutive ids of cut tiles that belong to one shard.
struct CutPiece {
  int at;  ///< index of the piece's first value among the values of all cut tiles
  int begin;
  int shard;
  int in_summary;  ///< index of the piece's first value among the shard's own values of cut tiles
};

/// Consecutive ids whose weights are added together: a shard's whole tiles, or a cut tile.
struct RowPart {
  int begin;
  int shard;  ///< -1: a cut tile
  int cut;    ///< number of the cut tile, if the part is one
};

inline constexpr int kMaxCutTiles = kMaxDeviceShards - 1;
inline constexpr int kMaxRowParts = kMaxDeviceShards + kMaxCutTiles;

/// Answer from the shards that a row waits for.
enum class RowAsks : std::int32_t { nothing, tokens, sums, gather };

/// State of a row between exchanges.
struct ShardedRowState {
  RowAsks asks;
  std::int32_t slot;  ///< slot of the row in the group that is gathered; -1: the row is not in the
                      ///< group

  double octave;  ///< octave of the row's largest value
  float scale;
  float max;
  float raw_max;      ///< maximum of the caller's logits, in calls that report raw_logprobs
  bool awaits_ranks;  ///< whether the row's tokens are known and their ranks are requested

  // The following fields are set once the survivors are known.
  std::int32_t low;  ///< threshold, a key
  std::int32_t tie_end;
  std::int32_t support_size;
  sharded::Sum128 unfiltered, survivors;

  // The following fields are for rows that request tokens (MergedRow of the CPU).
  sharded::Sum128 in_front;  ///< mass before this shard's whole tiles, in id order
  sharded::Sum128 target;    ///< target mass of a nucleus whose threshold is unknown
  std::int32_t rejected_below, accepted_from;
  std::int32_t cut_keys[kMaxCutTiles];  ///< largest key of each cut tile
  sharded::Sum128 raw;  ///< mass of the row at temperature 1, in calls that report raw_logprobs
};

/// Token of a row that is known or requested from shards.
struct ShardedToken {
  std::uint32_t attempts;  ///< number of attempts before the token's own that shards must list
  std::int32_t id;         ///< -1: no attempt is in a cut tile, so only shards can have the token
  std::uint32_t bits;
  std::uint32_t raw_bits;  ///< float bits of the caller's logit, in calls that report values
  sharded::Sum128 place;   ///< drawn position within the mass of the known survivors
};

/// Counters at the beginning of a rank's peer memory; the flags of all shards' rows follow. The
/// kernels that send increase the counters, and the rank's later kernels read them.
struct PeerCounts {
  std::uint64_t exchanges;  ///< number of exchanges that this rank has sent in all calls so far
  std::uint64_t calls;  ///< number of exchanges of summaries that this rank has sent, which is the
                        ///< number of calls
  std::uint32_t ended;  ///< number of blocks of the current launch that have finished sending
  std::uint32_t unused[11];
};
static_assert(sizeof(PeerCounts) == 64);

/// Number of copies of a call's blocks of gathered rows, which are used in turn.
inline constexpr int kGatherCopies = 3;

/// Layout of the exchange blocks that ranks write into each other's memory (peer_exchange.cuh).
struct PeerBlocks {
  /// Address of each rank's memory in this process. If the first address is null, a transport
  /// carries the blocks.
  std::byte* memory[kMaxDeviceShards];
  std::int64_t most_rows;       ///< maximum number of rows for which the memory has flags
  std::int64_t flags_end;       ///< byte offset at which exchange blocks begin
  std::int64_t half;            ///< size in bytes of one of the two halves, the same for all calls
  std::int64_t at[kExchanges];  ///< byte offset of the received blocks within a half
  std::int64_t each[kExchanges];  ///< distance in bytes between blocks

  __host__ __device__ bool given() const { return memory[0] != nullptr; }
};

/// Rows that the shards' candidates do not decide. Groups of these rows are gathered, filtered and
/// drawn from as whole rows.
struct GatheredRows {
  int count;  ///< maximum number of rows per group; 0: no row of the call is filtered
  int room;   ///< maximum number of a shard's columns, for which its part of a block has room
  std::int32_t* numbers;  ///< [count], numbers of the group's rows; -1: the group has fewer rows
  std::int32_t* slots;    ///< [outputs], slots of the outputs' rows in the group; -1: row is not in
                          ///< the group
  FloatRows rows;         ///< [count, vocab]
  std::uint8_t* active;   ///< [count]
  float* temperature;     ///< [count], like the following parameters and the records
  std::int32_t* top_k;
  float* top_p;
  float* min_p;
  RowRecord* records;
  std::int32_t* tokens;        ///< [outputs, num_samples]
  std::int32_t* support_size;  ///< [outputs]
};

/// The caller's logits, used if reports need them and rows are masked or processed.
struct RawRows {
  RowsView columns;  ///< this shard's columns
  RowsView whole;    ///< columns of this shard's whole tiles
  TileRows<std::int32_t> keys;
  TileRows<std::uint16_t> counts;
  int cut_at, candidates_at;  ///< byte offsets of the raw part in a summary
  int candidates;             ///< maximum number of raw candidates in a summary
  bool given;
};

/// Arguments of the kernels of a sharded call. All arguments are in range, except for values in
/// device memory.
struct ShardedTask {
  RowsView columns;  ///< columns of this shard, after processing if the call is processed
  RowsView whole;    ///< the columns of this shard's whole tiles; vocab may be 0
  BitRows<const std::uint32_t> allowed;        ///< allowed bits of the shard's columns
  BitRows<const std::uint32_t> whole_allowed;  ///< allowed bits of whole tiles, with bit 0 for
                                               ///< their first id
  BitRows<std::uint32_t> shifted;  ///< memory of whole_allowed, if the bits must be shifted first
  View<const std::uint8_t> active;
  bool from_probs;  ///< rows hold probabilities
  bool is_processed;
  LogitsProcessing processing;  ///< logits processing, which is read if is_processed
  const RowFault* faults;       ///< [rows], faults of processing; null: no faults
  PerRequest<float> temperature;
  PerRequest<std::int32_t> top_k;
  PerRequest<float> top_p;
  PerRequest<float> min_p;
  PerRequest<std::uint64_t> seed;
  PerRequest<std::uint64_t> offset;
  const std::uint64_t* words;  ///< [outputs, num_samples], random words that replace those of
                               ///< seeds; null: none
  Purpose purpose;
  TieRule tie_rule;
  FilterOrder filter_order;
  int num_samples;                   ///< number of tokens per output; 0: no token is requested
  View<const std::int32_t> indices;  ///< row of each output; if not given, output i belongs to row
                                     ///< i
  int vocab, shards, shard;
  ShardPart parts[kMaxDeviceShards];
  CutSpan cut[kMaxCutTiles];
  CutPiece pieces[2 * kMaxDeviceShards];  ///< pieces of cut tiles, in id order
  int piece_count;
  int cut_tiles, cut_total;         ///< number of cut tiles, and of the values in them
  RowPart row_parts[kMaxRowParts];  ///< parts of a row, in id order
  int row_part_count;
  int cut_values;  ///< maximum number of values of cut tiles in a summary
  int candidates;  ///< maximum number of candidates in a summary; 0: no row is filtered
  int candidate_bytes;
  int attempts;  ///< maximum number of attempts that a shard lists for a token
  int raw_at;    ///< byte offset in a summary of the raw data at temperature 1; 0: none
  std::uint64_t fingerprint;

  // In the workspace.
  TileRows<std::int32_t> keys;  ///< largest keys of this shard's whole tiles
  TileRows<std::uint64_t> sums;
  TileRows<std::uint16_t> counts;  ///< number of allowed tokens per whole tile
  unsigned char* groups;           ///< GroupKeys of consecutive rows; null: not needed
  ShardedRowState* states;         ///< [rows]
  ShardedToken* drawn;             ///< [outputs, num_samples]
  std::int32_t* output_begins;  ///< [rows + 1], indices into outputs_by_row; null: output i belongs
                                ///< to row i
  std::int32_t* outputs_by_row;  ///< numbers of the outputs, in the order of their rows
  RowRecord* records;            ///< [rows]; null: no mask is requested
  std::uint64_t* raw_sums;       ///< like sums, but at temperature 1; null: not needed
  RawRows raw;
  GatheredRows gathered;
  std::int32_t* undecided;
  std::byte* send[kExchanges];
  std::byte* receive[kExchanges];
  std::int64_t bytes[kExchanges];  ///< bytes of a block
  std::int64_t each[kExchanges];   ///< bytes per row of a block; bytes per output for tokens, sums
                                   ///< and ranks
  PeerBlocks peers;
  bool exchanges_tokens;  ///< whether tokens and sums are exchanged in the merge that requests them

  // Results of the call; a null pointer is a result that is not requested.
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
  FloatRows all;  ///< log-probabilities of this shard's columns

  __host__ __device__ std::int64_t rows() const { return columns.rows; }
  std::int64_t outputs() const { return indices.given() ? indices.size : rows(); }
  bool has_ranks() const { return ranks != nullptr && num_samples > 0; }
  __host__ __device__ int tiles() const {
    return (parts[shard].whole() + kTileSize - 1) / kTileSize;
  }
  /// Returns this rank's part of a block for a row; for tokens, sums and ranks, `row` is an output.
  __device__ std::byte* mine(ShardedExchange exchange, std::int64_t row) const {
    const auto number = static_cast<int>(exchange);
    return send[number] + sizeof(sharded::BlockHeader) + row * each[number];
  }
  /// Returns whether the block of an exchange has a place for each output.
  __host__ __device__ static bool is_of_outputs(ShardedExchange exchange) {
    return exchange == ShardedExchange::tokens || exchange == ShardedExchange::sums ||
           exchange == ShardedExchange::ranks;
  }
};

/// Returns the bytes of a row's group keys, for a number of tiles.
std::int64_t group_bytes(std::int64_t tiles);
/// Enqueues the kernel that indexes the shard's whole tiles (index_shard.cu); whole.vocab >= 1.
cudaError_t index_shard(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream);
/// Enqueues the kernel that lists the outputs of rows (list_outputs.cu), in calls with indices.
cudaError_t list_outputs(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that makes the summaries of all rows (summarise_rows.cu).
cudaError_t summarise_rows(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that merges the received blocks (merge_rows.cu).
cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues one kernel that makes and merges summaries through peer memory, for ranks whose kernels
/// run concurrently (exchange_summaries.cu). Precondition: task.undecided is 0.
cudaError_t exchange_summaries(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that answers rows that request tokens or sums from this shard
/// (answer_rows.cu).
cudaError_t answer_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues the kernels that send this shard's columns of the next group of undecided rows and,
/// after the columns of all shards have arrived, assemble the whole rows (gather_rows.cu).
cudaError_t send_columns(const ShardedTask& task, cudaStream_t stream);
cudaError_t make_rows_whole(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernels that count this shard's columns before tokens in the order, and add the
/// counts over shards (rank_tokens.cu).
cudaError_t count_in_front(const ShardedTask& task, cudaStream_t stream);
cudaError_t sum_ranks(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that writes the log-probabilities of all of this shard's columns
/// (report_columns.cu).
cudaError_t report_columns(const ShardedTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
