// Arguments of the kernels of a sharded call, with pointers to device memory, and the state of the
// call's rows between exchanges.
//
// The declarations are private to kernels/cuda. The layout of the exchange blocks is described in
// sharded/exchange.h. All blocks after the first have a place for every row, even for rows that
// request nothing, because the exchanges of a CUDA graph have a fixed size.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/device/tile_spread.h"
#include "cuda/tiles/filter_rows.h"
#include "fairdraw/cuda_sharded.h"
#include "sharded/exchange.h"

namespace fairdraw::cuda {

inline constexpr int kExchanges = 5;

/// Columns of the vocabulary that belong to a shard, as in sharded/partition.h.
struct ShardPart {
  int begin, whole_begin, whole_end, end;

  __host__ __device__ int head() const { return whole_begin - begin; }
  __host__ __device__ int tail() const { return end - whole_end; }
  __host__ __device__ int cut_values() const { return head() + tail(); }
  __host__ __device__ int whole() const { return whole_end - whole_begin; }
  /// Returns the column of the shard that contains the shard's i-th value of cut tiles.
  __host__ __device__ int cut_column(int i) const { return i < head() ? i : i + whole(); }
};

/// Ids of a tile that shard boundaries cut, and the index of the tile's first value among the
/// values of all cut tiles.
struct CutSpan {
  int begin, size, at;
};

/// Consecutive ids of cut tiles that belong to the same shard.
struct CutPiece {
  int at;  ///< index of the piece's first value among the values of all cut tiles
  int begin;
  int shard;
  int in_summary;  ///< index of the piece's first value among the shard's own values of cut tiles
};

/// Consecutive ids whose weights are added together: the whole tiles of a shard, or a cut tile.
struct RowPart {
  int begin;
  int shard;  ///< -1: a cut tile
  int cut;    ///< number of the cut tile, if the part is a cut tile
};

inline constexpr int kMaxCutTiles = kMaxDeviceShards - 1;
inline constexpr int kMaxRowParts = kMaxDeviceShards + kMaxCutTiles;

/// Answer that a row waits for, which the shards give.
enum class RowAsks : std::int32_t { nothing, tokens, sums, gather };

/// State of a row between two exchanges.
struct ShardedRowState {
  RowAsks asks;
  std::int32_t slot;  ///< slot of the row in the group of rows that is gathered, or -1 if the row
                      ///< is not in the group

  double octave;  ///< octave of the row's largest value
  float scale;
  float max;
  float raw_max;      ///< largest of the caller's logits, in calls that report raw_logprobs
  bool awaits_ranks;  ///< whether the row's tokens are known, and their ranks have been requested

  // The following fields are set when the survivors are known.
  std::int32_t low;  ///< threshold, a key
  std::int32_t tie_end;
  std::int32_t support_size;
  sharded::Sum128 unfiltered, survivors;

  // The following fields are used by rows that request tokens (MergedRow of the CPU).
  sharded::Sum128 in_front;  ///< mass of the row before this shard's whole tiles, in the order of
                             ///< ids
  sharded::Sum128 target;    ///< target mass of a nucleus whose threshold is not known
  std::int32_t rejected_below, accepted_from;
  std::int32_t cut_keys[kMaxCutTiles];  ///< largest key of each cut tile
  sharded::Sum128 raw;  ///< mass of the row at temperature 1, in calls that report raw_logprobs
};

/// Token of a row, which is either known or requested from the shards.
struct ShardedToken {
  std::uint32_t attempts;  ///< number of attempts that precede the token's own attempt and that
                           ///< shards must list
  std::int32_t id;         ///< id of the token; -1 means that no attempt is in a cut tile, so that
                           ///< only the shards can have the token
  std::uint32_t bits;
  std::uint32_t raw_bits;  ///< bits, as a float, of the caller's logit, in calls that report values
  sharded::Sum128 place;   ///< position of the draw within the mass of the known survivors
};

/// Counters at the beginning of a rank's peer memory, which the flags of all shards' rows follow.
/// The kernels that send increase these counters, and later kernels of the same rank read them.
struct PeerCounts {
  std::uint64_t exchanges;  ///< number of exchanges that this rank has sent in all calls so far
  std::uint64_t calls;  ///< number of exchanges of summaries that this rank has sent, which is the
                        ///< number of calls
  std::uint32_t ended;  ///< number of blocks of the current launch that have finished sending
  std::uint32_t unused[11];
};
static_assert(sizeof(PeerCounts) == 64);

/// Number of copies of the blocks for gathered rows, which a call uses in turn.
inline constexpr int kGatherCopies = 3;

/// Layout of the exchange blocks that ranks write into each other's memory (peer_exchange.cuh).
struct PeerBlocks {
  /// Address of the memory of each rank, as seen by this process. If the first address is null, a
  /// transport outside of the kernels carries the blocks.
  std::byte* memory[kMaxDeviceShards];
  std::int64_t max_rows;        ///< maximum number of rows for which the memory has flags
  std::int64_t flags_end;       ///< byte offset at which exchange blocks begin
  std::int64_t half;            ///< size of each of the two halves in bytes, which is the same for
                                ///< all calls
  std::int64_t at[kExchanges];  ///< byte offset of the received blocks within a half of the memory
  std::int64_t each[kExchanges];  ///< distance between two blocks in bytes

  __host__ __device__ bool given() const { return memory[0] != nullptr; }
};

/// Rows whose results do not follow from the shards' candidates. Groups of these rows are gathered,
/// and then filtered and drawn from as whole rows.
struct GatheredRows {
  int count;  ///< maximum number of rows in a group, or 0 if no row of the call is filtered
  int room;   ///< maximum number of columns of a shard, for which its part of a block has room
  std::int32_t* numbers;  ///< numbers of the group's rows [count]; -1 marks the places that the
                          ///< group does not fill
  std::int32_t* slots;    ///< slot of each output's row in the group [outputs], or -1 if the row is
                          ///< not in the group
  FloatRows rows;         ///< [count, vocab]
  std::uint8_t* active;   ///< [count]
  float* temperature;     ///< parameters [count] of the group's rows, like the following arrays and
                          ///< the records
  std::int32_t* top_k;
  float* top_p;
  float* min_p;
  RowRecord* records;
  std::int32_t* tokens;        ///< [outputs, num_samples]
  std::int32_t* support_size;  ///< [outputs]
};

/// Caller's logits, which are used if reports need them and rows are masked or processed.
struct RawRows {
  RowsView columns;  ///< this shard's columns
  RowsView whole;    ///< columns of the shard's whole tiles
  TileRows<std::int32_t> keys;
  TileRows<std::uint16_t> counts;
  int cut_at, candidates_at;  ///< byte offsets, within a summary, of the raw values of cut tiles
                              ///< and of the raw candidates
  int candidates;             ///< maximum number of raw candidates in a summary
  bool given;
};

/// Arguments of the kernels of a sharded call. All arguments must be in range, except for values in
/// device memory, which the kernels check.
struct ShardedTask {
  RowsView columns;  ///< columns of this shard, after logits processing if the call has any
  RowsView whole;    ///< columns of this shard's whole tiles; their `vocab` may be 0
  BitRows<const std::uint32_t> allowed;        ///< allowed bits of the shard's columns
  BitRows<const std::uint32_t> whole_allowed;  ///< allowed bits of the whole tiles, where bit 0 is
                                               ///< for the first id of these tiles
  BitRows<std::uint32_t> shifted;  ///< memory for whole_allowed, if the bits must be shifted first
  View<const std::uint8_t> active;
  bool from_probs;  ///< rows hold probabilities
  bool is_processed;
  LogitsProcessing processing;  ///< logits processing of the call, which is read if is_processed is
                                ///< true
  const RowFault* faults;       ///< faults of the logits processing [rows], or null if there are
                                ///< none
  PerRequest<float> temperature;
  PerRequest<std::int32_t> top_k;
  PerRequest<float> top_p;
  PerRequest<float> min_p;
  PerRequest<std::uint64_t> seed;
  PerRequest<std::uint64_t> offset;
  const std::uint64_t* words;  ///< random words [outputs, num_samples] that replace the random
                               ///< words of the seeds, or null
  Purpose purpose;
  TieRule tie_rule;
  FilterOrder filter_order;
  int num_samples;                   ///< number of tokens per output, or 0 if no token is requested
  View<const std::int32_t> indices;  ///< row of each output; if the indices are not given, output i
                                     ///< belongs to row i
  int vocab, shards, shard;
  ShardPart parts[kMaxDeviceShards];
  CutSpan cut[kMaxCutTiles];
  CutPiece pieces[2 * kMaxDeviceShards];  ///< pieces of cut tiles, in the order of ids
  int piece_count;
  int cut_tiles, cut_total;         ///< number of cut tiles, and number of values in all of them
  RowPart row_parts[kMaxRowParts];  ///< parts of a row, in the order of ids
  int row_part_count;
  int cut_values;  ///< maximum number of values of cut tiles in a summary
  int candidates;  ///< maximum number of candidates in a summary, or 0 if no row is filtered
  int candidate_bytes;
  int attempts;  ///< maximum number of attempts that a shard lists for a token
  int raw_at;    ///< byte offset, within a summary, of the raw data at temperature 1, or 0 if there
                 ///< is none
  std::uint64_t fingerprint;

  // In the workspace.
  TileRows<std::int32_t> keys;  ///< largest keys of this shard's whole tiles
  TileRows<std::uint64_t> sums;
  TileRows<std::uint16_t> counts;  ///< number of allowed tokens in each whole tile
  unsigned char* groups;           ///< GroupKeys of consecutive rows, or null if they are not
                                   ///< needed
  ShardedRowState* states;         ///< [rows]
  ShardedToken* drawn;             ///< [outputs, num_samples]
  std::int32_t* output_begins;     ///< positions in outputs_by_row at which the lists of rows begin
                                   ///< [rows + 1], or null if output i belongs to row i
  std::int32_t* outputs_by_row;    ///< numbers of the outputs, sorted by their rows
  RowRecord* records;              ///< records of the rows [rows], or null if no mask is requested
  std::uint64_t* raw_sums;  ///< sums of tiles at temperature 1, or null if they are not needed
  RawRows raw;
  GatheredRows gathered;
  std::int32_t* undecided;
  std::byte* send[kExchanges];
  std::byte* receive[kExchanges];
  std::int64_t bytes[kExchanges];  ///< bytes of a block
  std::int64_t each[kExchanges];   ///< number of bytes per row in a block; per output in blocks of
                                   ///< tokens, sums and ranks
  PeerBlocks peers;
  bool exchanges_tokens;  ///< whether the merge that requests tokens and sums also exchanges them

  // Results of the call, where a null pointer means that the result is not requested.
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
  FloatRows all;  ///< log-probabilities of the columns of this shard

  __host__ __device__ std::int64_t rows() const { return columns.rows; }
  std::int64_t outputs() const { return indices.given() ? indices.size : rows(); }
  bool has_ranks() const { return ranks != nullptr && num_samples > 0; }
  __host__ __device__ int tiles() const {
    return (parts[shard].whole() + kTileSize - 1) / kTileSize;
  }
  /// Returns the part of a block that belongs to this rank and a row; in blocks of tokens, sums and
  /// ranks, `row` is an output.
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

/// Returns the number of bytes that the keys of a row's groups take, for a number of tiles.
std::int64_t group_bytes(std::int64_t tiles);
/// Enqueues the kernel that indexes the shard's whole tiles (index_shard.cu); whole.vocab must be
/// at least 1.
cudaError_t index_shard(const ShardedTask& task, const TileSpread& spread, cudaStream_t stream);
/// Enqueues the kernel that lists the outputs of each row (list_outputs.cu), in calls with row
/// indices.
cudaError_t list_outputs(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that makes the summaries of all rows (summarise_rows.cu).
cudaError_t summarise_rows(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that merges the received blocks (merge_rows.cu).
cudaError_t merge_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues a single kernel that makes and merges the summaries through peer memory, for ranks
/// whose kernels run at the same time (exchange_summaries.cu). Precondition: the counter
/// task.undecided is 0.
cudaError_t exchange_summaries(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that answers the requests of rows for tokens or sums of this shard
/// (answer_rows.cu).
cudaError_t answer_rows(const ShardedTask& task, ShardedExchange exchange, cudaStream_t stream);
/// Enqueues the kernels for the next group of undecided rows (gather_rows.cu): the first sends the
/// columns of this shard, and the second assembles the whole rows after the columns of all shards
/// have arrived.
cudaError_t send_columns(const ShardedTask& task, cudaStream_t stream);
cudaError_t make_rows_whole(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernels that find the ranks of tokens (rank_tokens.cu): the first counts the
/// columns of this shard that precede a token, and the second adds up the counts of all shards.
cudaError_t count_in_front(const ShardedTask& task, cudaStream_t stream);
cudaError_t sum_ranks(const ShardedTask& task, cudaStream_t stream);
/// Enqueues the kernel that writes the log-probabilities of all columns of this shard
/// (report_columns.cu).
cudaError_t report_columns(const ShardedTask& task, cudaStream_t stream);

}  // namespace fairdraw::cuda
