// Sharded sampling is `sample` over a vocabulary whose columns are spread over several ranks. A row
// is gathered only if the largest values of each rank do not decide its token.
//
// Shard s has the columns boundaries[s] to boundaries[s + 1], exclusive, of every row of logits, as
// tensor-parallel engines split their LM head. Every rank makes the same call over its own columns.
// On every rank, tokens, statuses, supports and log-probabilities are those of `sample` over the
// whole rows, bit for bit; masks, probabilities and rows of log-probabilities are those of the
// rank's columns.
//
// A call consists of a number of exchanges. In each exchange every rank sends one block of bytes,
// and receives the blocks of all ranks in the order of the shards: an all-gather. All blocks of an
// exchange have the same size. The caller moves the blocks (by NCCL, gloo, MPI or shared memory).
// In C++:
//
//   ShardedSample call;
//   if (Error error = call.begin(request, result)) return error;
//   while (call.block_bytes() > 0) {
//     std::vector<std::byte> blocks(shards * call.block_bytes());
//     all_gather(call.block(), call.block_bytes(), blocks.data());
//     if (Error error = call.receive(blocks.data())) return error;
//   }                                                     // now the results are written
//
// All ranks compute the same number of exchanges from the same blocks, so that they need no other
// agreement. The number of exchanges depends on the rows.
//   - 1 exchange suffices if each row is greedy, or if the tokens that survive its top_k or min_p
//     are among the candidates: top_k up to the number of candidates, or min_p with that many
//     survivors. Ties at the threshold count as survivors.
//   - 2 exchanges are needed if a row has no filter, or if a row proposes tokens
//     (common/proposals.h: top_p without top_k) and its threshold is among the candidates. The
//     second exchange brings the tokens from the shards that have them, because no rank knows the
//     contents of other ranks' tiles. It takes 16 bytes per token, or 64 if sums may follow.
//   - 3 exchanges are needed if a nucleus is wider than the candidates, and the call asks for
//     nothing but tokens, statuses, unfiltered and raw log-probabilities. The third exchange brings
//     the sums of weights above the proposed tokens, 64 bytes per token.
//   - 2 exchanges are needed if another row has more survivors than candidates. The second exchange
//     gathers the row: 4 bytes per column of the widest shard, and 4 more if a raw mode reports
//     processed rows. Rows with top_p and min_p are gathered likewise. So are, one exchange later,
//     rows that no tested proposal decides (5 in a million with top_p 0.9). gathered_rows() gives
//     the number of gathered rows; if it is large, gather all logits instead.
//   - Ranks of tokens beyond the candidates take one more exchange of 4 bytes per token.
//
// Why the result is exact: weights are integers (tile_index.h). A shard sums the weights of its
// tiles of 256 ids by octave, into 49 sums of 128 bits; another octave of the whole row only shifts
// these sums. The values of a tile that a boundary cuts are sent unchanged, at most 256 values per
// boundary. A filter's threshold is a value that is found from counts and masses, which add up over
// the shards. The candidates of a shard are its first tokens by value (descending) and id, without
// those that min_p drops by the shard's own largest value. The candidates come with a certificate,
// a value above which no token of the shard was left out. So all ranks know every token above the
// certificates of all shards, and the mass of these tokens. If these tokens decide threshold and
// token, no further exchange is needed.
//
// Layout: the bytes of a block are little-endian, without unnamed padding, and have the same layout
// on every transport and backend. A block has a header of 16 bytes (u32 magic 0x53485244, u32
// number of the exchange, u64 fingerprint of the call) and one part per row.
//   first exchange  The part is a summary: i32 status, i32 key of the largest value, i32 its id,
//                   u32 its bits, u32 its logit as the caller has it, u32 number of allowed tokens,
//                   u32 number of candidates, i32 key above which no token was left out; 49 sums
//                   (u64 low, u64 high) of tiles that are 0 to 48 octaves below the largest; values
//                   of cut tiles (f32); candidates (u32 bits, i32 id; u32 raw bits if a raw mode
//                   reports processed rows). Keys are those of tile_index.h; everything but the
//                   values of cut tiles belongs to whole tiles.
//   others          The part answers the question of the merged row. The same question goes to all
//                   shards, and its kind decides the answer's size.
// With 128256 tokens in two shards a summary takes 3.4 KB per row and shard with filters, and 1.3
// KB without filters.
//
// Rows may be probabilities (`input`). A call that asks for a mask, for probabilities or for whole
// rows of log-probabilities need not ask for tokens. So the operations of sampling.h on rows
// (softmax, masks, renormalised probabilities) are calls of sharded sampling, in one exchange if
// the candidates suffice.
//
// Statuses are those of `sample`: the first fault that holds on any shard, and no_allowed_token if
// it holds on all shards. `active`, `indices`, parameters, seeds and all lists of ids are those of
// the whole call and the same on every rank. All ranks ask for the same results, in arrays of their
// own. The packed mask `allowed`, processing.prompt_mask and processing.output_counts have the
// shard's columns, as the logits do. If ranks disagree, receive() returns an error: it compares
// fingerprints of everything that decides the tokens. So ranks must agree on a seed before the
// call, because the default seed is a fresh one, different on each rank.
//
// Errors: A call returns invalid_argument if a field is out of its range, if an array has the wrong
// length, or if a block is of another call or another exchange. It returns unsupported for
// top_n_sigma, for the filters by probability, for a tie rule or a filter order of each row, for a
// temperature, processing or log-probabilities with rows of probabilities, and if this machine has
// no execution.target.
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

/// Largest number of shards of a vocabulary.
inline constexpr std::int32_t kMaxShards = 256;

/// The part of a call that one rank makes.
struct ShardedRequest {
  SampleRequest rows;  ///< the request of `sample` over the shard's columns: logits.vocab is the
                       ///< number of these columns, which may be 0 (then logits.data may be null)
  View<const std::int64_t> boundaries;  ///< [shards + 1]; 0, then numbers that never fall, then the
                                        ///< size of the vocabulary
  std::int32_t shard = 0;               ///< this rank's
  /// Kind of values in rows.logits. Probabilities are as in sampling.h: finite and >= 0, and they
  /// need not sum to 1. Rows of probabilities may have every filter and `allowed`; their
  /// temperature is 1, and they have no processing and no log-probabilities.
  TileInput input = TileInput::logits;
  bool top_k_1_keeps_ties = false;  ///< true if ties of top_k 1 are kept, as in top_k_mask_logits
                                    ///< and top_k_renorm_probs
  /// [outputs, num_samples], optional: random words to draw with, instead of the words of seeds and
  /// offsets.
  View<const std::uint64_t> words = {};
};

/// Returns the number of bytes in the block of the first exchange of a valid call, so that a
/// transport can reserve memory. If the call has one token per row, only the blocks of gathered
/// rows may be larger.
/// Errors: the function returns 0 if a field of the call is out of its range.
std::int64_t sharded_block_bytes(const ShardedRequest& request, const SampleResult& result);

/// A call in progress. An object is used by one thread at a time.
class ShardedSample {
 public:
  /// Makes an object without a call; begin() starts a call.
  ShardedSample();
  ~ShardedSample();
  ShardedSample(ShardedSample&&) noexcept;
  ShardedSample& operator=(ShardedSample&&) noexcept;

  /// Starts a call, and makes the block of the first exchange. The arrays of the request and of the
  /// result must stay alive and unchanged until the call is done. If begin() returns an error,
  /// nothing is written, and no call is started.
  Error begin(const ShardedRequest& request, const SampleResult& result,
              const Execution& execution = {});

  /// Returns the number of bytes in this rank's block of the next exchange, the same on all ranks.
  /// 0 means that the call is done, and that its results are written.
  std::int64_t block_bytes() const;
  /// Returns this rank's block of the next exchange, of block_bytes() bytes and valid until
  /// receive(); null if no call is running.
  const std::byte* block() const;

  /// Takes the blocks of all ranks, [shards, block_bytes()], and makes the next block or writes the
  /// results. An error (blocks of another call, or of another exchange) ends the call.
  Error receive(const void* blocks);

  /// Exchanges so far.
  std::int32_t exchanges() const;
  /// Returns the number of rows that have been gathered so far. All ranks return the same number.
  std::int64_t gathered_rows() const;

 private:
  class Call;
  std::unique_ptr<Call> call_;
};

}  // namespace fairdraw
