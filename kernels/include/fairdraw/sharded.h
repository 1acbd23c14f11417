// sharded: `sample` over a vocabulary whose columns lie on several ranks. A row is gathered where
// the largest values of each rank do not decide it, and not else.
//
// Shard s has the columns boundaries[s] to boundaries[s + 1], exclusive, of every row of logits, as
// tensor-parallel engines keep their LM head. Every rank makes the same call over its own columns;
// tokens, statuses, supports and log-probabilities are those of `sample` over the whole rows, bit
// for bit, on every rank; masks, probabilities and rows of log-probabilities those of its columns.
//
// A call is a number of exchanges. In each one every rank has a block of bytes, all of the same
// size, and gets those of all ranks, in the order of the shards: an all-gather. The caller moves
// the blocks (by NCCL, gloo, MPI or shared memory). In C++:
//
//   ShardedSample call;
//   if (Error error = call.begin(request, result)) return error;
//   while (call.block_bytes() > 0) {
//     std::vector<std::byte> blocks(shards * call.block_bytes());
//     all_gather(call.block(), call.block_bytes(), blocks.data());
//     if (Error error = call.receive(blocks.data())) return error;
//   }                                                     // now the results are written
//
// All ranks work out the same number of exchanges from the same blocks: nothing is agreed on by
// other means. How many there are:
//   - 1 where each row is greedy, or what survives its top_k or min_p is among the candidates:
//   top_k
//     up to the list's length, min_p of so many tokens. Ties at the threshold count.
//   - 2 where a row has no filter, or proposes (common/proposals.h: top_p without top_k) and has
//   its
//     threshold among the candidates: the second one brings tokens (16 bytes each, 64 of calls that
//     may have the next kind) from the shards that have them, because no rank knows what others'
//     tiles hold.
//   - 3 where a nucleus is wider than the candidates, and nothing but tokens, statuses, unfiltered
//     and raw log-probabilities is wanted: the third one brings what weighs above the proposals, 64
//     bytes a token.
//   - 2 where another row survives too widely for the candidates: the second one gathers it, 4
//   bytes
//     for each of the most columns that a shard has, and 4 more where a raw mode reports processed
//     rows. So are rows with top_p and min_p, and, one exchange later, those that no proposal that
//     was looked at decides (5 in a million with top_p 0.9). gathered_rows() says how many those
//     were: where they are common, gather all logits.
//   - Ranks beyond the candidates take one of 4 bytes per token.
//
// Why it is exact: weights are integers (tile_index.h). A shard's tiles of 256 ids are summed by
// octave, 49 sums of 128 bits, which any other octave of the row only shifts; the values of a tile
// that a boundary cuts travel as they are, at most 256 a boundary; a filter's threshold is a value,
// found by counts and masses that add up. The candidates of a shard are the first in the order of
// value (descending) and id, without those that min_p drops by the shard's own largest value; they
// come with a certificate, a value above which nothing was left out: what is above all shards'
// certificates is known to all, with its mass. If this decides threshold and token, no further
// exchange is needed.
//
// Blocks. Little-endian, no padding that is not named, the same layout on every transport and
// backend. A header of 16 bytes (u32 magic 0x53485244, u32 number of the exchange, u64 fingerprint
// of the call) and one part a row:
//   first exchange  a summary: i32 status, i32 key of the largest value, i32 its id, u32 its bits,
//                   u32 its logit as the caller has it, u32 allowed tokens, u32 candidates, i32 key
//                   above which none was left out; 49 sums (u64 low, u64 high) of tiles that are 0
//                   to 48 octaves below the largest; values of cut tiles (f32); candidates (u32
//                   bits, i32 id; u32 raw bits where a raw mode reports processed rows). Keys are
//                   those of tile_index.h; all but the values of cut tiles are of whole tiles.
//   others          answers to what the merged row asked: the same question goes to all shards, and
//                   its kind decides the answer's size.
// With 128256 tokens in two shards a summary takes 3.4 KB per row and shard with filters and 1.3 KB
// without.
//
// Rows may be probabilities (`input`), and tokens need not be asked for where a mask, probabilities
// or whole rows of log-probabilities are: so the operations of sampling.h on rows (softmax, masks,
// renormalised probabilities) are calls of this, in one exchange where candidates suffice.
//
// Statuses are those of `sample`: the first that holds on any shard, and no_allowed_token where it
// holds on all. `active`, `indices`, parameters, seeds and all lists of ids are those of the whole
// call, the same on every rank, and so are the results that are asked for, except for the arrays
// themselves. The packed mask `allowed`, processing.prompt_mask and processing.output_counts are of
// the shard's columns, as the logits are. Ranks that disagree get an error from receive(), which
// compares fingerprints of all that decides the tokens. So ranks agree on a seed first: one that
// none of them sets is fresh, and another on each.
//
// Errors: A call returns invalid_argument if a field is out of its range, if an array has the wrong
// length, or if a block is of another call or another exchange. It returns unsupported for
// top_n_sigma, for a tie rule or a filter order of each row, for a temperature, processing or
// log-probabilities with rows of probabilities, and if this machine has no execution.target.
//
// Definition: docs/sharded.md for the exchanges, fairdraw/sample.h for the results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fairdraw/sample.h"
#include "fairdraw/tile_index.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Most shards of a vocabulary.
inline constexpr std::int32_t kMaxShards = 256;

/// One rank's part of a call.
struct ShardedRequest {
  SampleRequest rows;  ///< as for `sample`, over the shard's columns: logits.vocab is their number,
                       ///< which may be 0 (then logits.data may be null)
  View<const std::int64_t> boundaries;  ///< [shards + 1]: 0, then not falling, then the vocabulary
  std::int32_t shard = 0;               ///< this rank's
  /// Contents of rows.logits. Probabilities are those of sampling.h: finite and >= 0, in any scale.
  /// They have every filter, and `allowed`; the temperature is 1, and there is no processing and no
  /// log-probability of them.
  TileInput input = TileInput::logits;
  bool top_k_1_keeps_ties = false;  ///< as top_k_mask_logits and top_k_renorm_probs do
  /// Optional, [outputs, num_samples]: random words to draw with, instead of those of seeds and
  /// offsets.
  View<const std::uint64_t> words = {};
};

/// Returns the bytes of the block of the first exchange, for a valid call, so that a transport can
/// reserve memory. In calls of one token per row, only blocks of gathered rows may be larger.
/// Errors: It returns 0 if a field of the call is out of its range.
std::int64_t sharded_block_bytes(const ShardedRequest& request, const SampleResult& result);

/// A call in progress. Not for several threads at a time.
class ShardedSample {
 public:
  /// No call yet: begin() starts one.
  ShardedSample();
  ~ShardedSample();
  ShardedSample(ShardedSample&&) noexcept;
  ShardedSample& operator=(ShardedSample&&) noexcept;

  /// Starts a call, and makes the block of the first exchange. Arrays of the request and of the
  /// result must stay alive and unchanged until the call is done. On an error nothing is written,
  /// and there is no call.
  Error begin(const ShardedRequest& request, const SampleResult& result,
              const Execution& execution = {});

  /// Bytes of this rank's block of the next exchange, the same on all ranks; 0: the call is done,
  /// and results are written.
  std::int64_t block_bytes() const;
  /// This rank's block of the next exchange, block_bytes() long, valid until receive(); null
  /// without a call.
  const std::byte* block() const;

  /// Takes the blocks of all ranks, [shards, block_bytes()], and makes the next one or writes the
  /// results. An error (blocks of another call, or of another exchange) ends the call.
  Error receive(const void* blocks);

  /// Exchanges so far.
  std::int32_t exchanges() const;
  /// Rows so far that are gathered. The same on all ranks.
  std::int64_t gathered_rows() const;

 private:
  class Call;
  std::unique_ptr<Call> call_;
};

}  // namespace fairdraw
