// Sharded sampling on NVIDIA GPUs gives the tokens, statuses, supports and masks of
// fairdraw/sharded.h, bit for bit, and starts from the same first blocks. The phases of a call are
// enqueued on a stream.
//
// The contract is that of fairdraw/cuda.h: arrays are in device memory, and a call never allocates,
// never waits and can be captured in a CUDA graph. The array `boundaries` alone is read on the
// host, at the call.
//
// A call begins with a fixed number of exchanges, because a CUDA graph can have no other. Further
// exchanges follow if these do not decide all rows:
//
//   ShardedCall call;
//   if (Error error = make_sharded_call(request, result, execution, call)) return error;
//   exchange(summary), exchange(tokens), exchange(sums), exchange(ranks), where an exchange is:
//     if (call.bytes(kind) == 0) return {};  // ranks, where none are wanted
//     if (Error error = sharded_send(call, kind)) return error;
//     all_gather(call.send(kind), call.bytes(kind), call.receive(kind), stream);
//     return sharded_receive(call, kind);
//   int32 undecided = *call.undecided(), read when the stream is at its end
//   for (int left = call.gathers(undecided); left > 0; --left) exchange(gather);
//   if (undecided > 0) exchange(ranks);
//
//   summary  A shard sends the summary of its rows. After this exchange greedy rows, and rows whose
//            survivors are among the candidates, have their results.
//   tokens   Rows without filters, and rows that propose tokens (top_p without top_k), send 16
//            bytes per token and shard, with `indices` per output, or 64 bytes if sums may follow.
//            The exchange is not needed if no row can be of these kinds.
//   sums     Rows that propose tokens beyond the candidates send 64 bytes per token and shard. Only
//            calls that may have such rows, and that request nothing of their survivors (masks,
//            supports, filtered and processed log-probabilities), have this exchange; other calls
//            gather these rows.
//   gather   Each shard sends its columns of the next undecided rows: as many rows as fit in 4 MB
//            of whole float32 rows (8 rows of 128256), or one row. Every rank filters these rows
//            whole and draws from them.
//   ranks    Each shard sends 4 bytes per token, for the tokens' ranks. Only calls that request
//            logprobs.ranks have this exchange.
//
// The number of undecided rows is known after the first exchanges have run. The host reads this
// number, and waits for the exchanges before. The undecided rows of a replayed graph are gathered
// after the replay, on the same workspace. So an undecided row costs a wait, and 4 bytes per column
// from each rank (8 if raw modes report processed rows). The columns travel in blocks of the size
// of a whole group of rows, even if the group is not full. All ranks see the same number of
// undecided rows. A caller who knows that the filters leave no row undecided (top_k up to the
// number of candidates) need not read the number. If most rows keep many tokens (nuclei of
// thousands of tokens), gather the logits and call `sample`.
//
// Two transports need no code of the caller. NCCL (fairdraw/sharded_nccl.h) works everywhere. If
// all ranks can address each other's memory (NVLink or PCIe peers of one machine: peer access in
// one process, cudaIpc or torch's symmetric memory across processes), use_peers() lets the kernels
// write their blocks to the peers' memory and wait for the peers' blocks, row by row. Exchange
// through peers needs no kernel of a transport, and no barrier of all rows.
//
// Processed rows are written first, and then read as if they were the caller's rows: they take 4
// bytes per column and row of workspace, and two more passes over the row. raw_logprobs index each
// row twice, the second time at temperature 1, and take 792 bytes more. If rows are masked or
// processed, raw modes take 4 bytes more per candidate and per value of a cut tile, and 8 bytes
// more per value of the n largest.
//
// Sharded calls on GPUs do not support renormalised probabilities (`probs`), ties of top_k 1, or
// more than kMaxDeviceShards shards. A call that needs one of these is refused, and the error names
// it; the CPU supports all of them.
//
// This header can be included without the CUDA toolkit.
//
// Errors: A call returns invalid_argument or unsupported for the reasons of fairdraw/sharded.h and
// fairdraw/cuda.h. Calls through peers return invalid_argument if use_peers() has not been called;
// a launch that fails returns unsupported, with the kernel's name.
//
// Definition: fairdraw/sharded.h.
#pragma once

#include <cstdint>
#include <memory>

#include "fairdraw/cuda.h"
#include "fairdraw/sharded.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

/// Largest number of shards of a call on GPUs: the GPUs that are linked to each other in one
/// machine.
inline constexpr std::int32_t kMaxDeviceShards = 8;

/// The exchanges of a call, in their order; the head of this file says which rows need each
/// exchange.
enum class ShardedExchange : std::uint32_t {
  summary = 0,  ///< the summary that a shard makes of its rows
  tokens = 1,   ///< tokens of rows without filters, and of rows that propose tokens
  sums = 2,     ///< sums of rows whose proposed tokens lie beyond the candidates
  gather = 3,   ///< columns of rows that are not decided yet
  ranks = 4,    ///< ranks of tokens
};

/// Returns the bytes of workspace of a call: the blocks of all exchanges, the index of the shard's
/// rows (14 to 54 bytes per tile of 256 ids), and about 220 bytes per row and 48 bytes per sample
/// (160 if sums may follow). Processed rows add 8.4 bytes per column. Calls with filters add about
/// 16 MB for a group of gathered rows, or less if all rows need less. The result is 0 if the call
/// is not valid.
std::int64_t workspace_bytes(const ShardedRequest& request, const SampleResult& result) noexcept;

/// Memory of all ranks of a machine, through which the ranks' kernels exchange blocks.
struct ShardedPeers {
  /// Address of each shard's memory, as this rank addresses it, at a multiple of 16 bytes. Each
  /// rank fills its memory with zeros before any rank's first call, and leaves it alone after that.
  std::byte* memory[kMaxDeviceShards] = {};
  std::int64_t bytes = 0;      ///< of each
  std::int64_t most_rows = 0;  ///< largest number of rows of the calls that use the memory
  // The sizes are the same on all ranks, and for all calls that use the memory.
};

struct ShardedPlan;

/// A call that has been checked, with the places of its exchanges in the workspace.
/// Precondition of every function that reads the call: make_sharded_call() has filled it.
class ShardedCall {
 public:
  /// Makes an object without a call, which make_sharded_call() fills.
  ShardedCall();
  ~ShardedCall();
  ShardedCall(ShardedCall&&) noexcept;
  ShardedCall& operator=(ShardedCall&&) noexcept;

  /// Returns this rank's block of an exchange, in device memory.
  std::byte* send(ShardedExchange exchange) const;
  /// Returns the blocks of all ranks, in the order of the shards: [shards, bytes()].
  std::byte* receive(ShardedExchange exchange) const;
  /// Returns the bytes of a block, the same on all ranks; 0 if the call has no exchange of this
  /// kind.
  std::int64_t bytes(ShardedExchange exchange) const;
  /// Returns the address of one number in device memory, the number of rows that have no result
  /// yet. A number of -1 means that ranks disagree about the call, and that no row has a result.
  /// The number is valid after the summary has been received. If ranks of a call through peers
  /// disagree about the number of rows, they wait for each other for ever.
  const std::int32_t* undecided() const;
  /// Returns the number of exchanges of kind `gather` that so many undecided rows need.
  std::int32_t gathers(std::int32_t rows) const;

 private:
  friend Error make_sharded_call(const ShardedRequest&, const SampleResult&, const Execution&,
                                 ShardedCall&);
  friend std::int64_t peer_bytes(const ShardedCall&, std::int64_t);
  friend Error use_peers(ShardedCall&, const ShardedPeers&);
  friend Error sharded_send(const ShardedCall&, ShardedExchange);
  friend Error sharded_receive(const ShardedCall&, ShardedExchange);
  friend Error continue_sharded(const ShardedCall&, std::int32_t);
  friend Error sample_sharded(const ShardedCall&, const ShardedPlan&);
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Checks a call without enqueuing any work. The rows hold logits or probabilities (`input`). All
/// results are written but `probs`; the mask and whole rows of log-probabilities (logprobs.all)
/// have this rank's columns. Results of rows that are not decided are left untouched, except for
/// the n largest values. The arrays of request and result must stay alive until the last exchange
/// has run.
/// Errors: the errors of fairdraw/sharded.h and fairdraw/cuda.h, and unsupported, with the name of
/// the field, for a result that only the CPU supports.
Error make_sharded_call(const ShardedRequest& request, const SampleResult& result,
                        const Execution& execution, ShardedCall& call);

/// Returns the bytes of ShardedPeers that a call takes in a memory for calls of up to `most_rows`
/// rows. `most_rows` lies between the call's own number of rows and 2^31 - 1; otherwise the result
/// is 0. A call with more rows, outputs, samples or candidates takes more bytes; the memory must
/// have room for the largest call.
/// Errors: the function returns 0 for most_rows outside that range.
std::int64_t peer_bytes(const ShardedCall& call, std::int64_t most_rows);

/// Makes this call exchange its blocks through the peer memory `peers`. `send` and `receive` are
/// then not used, and an exchange consists of sharded_send and sharded_receive. All ranks make
/// their calls through a memory in the same order and on one stream, and the exchanges of a call
/// are over before the next call through the memory begins. As with NCCL, a call waits for ever if
/// its peers do not make the call. While a kernel may wait for a peer, no rank may allocate or free
/// device memory, and a host thread that drives several ranks may launch no kernel for the first
/// time: both operations can wait for the GPU. Errors: invalid_argument if peers.most_rows,
/// peers.bytes or peers.memory is out of its range.
Error use_peers(ShardedCall& call, const ShardedPeers& peers);

/// The exchanges that a call enqueues after the summary; ranks follow if they are requested. Rows
/// that need more exchanges are left undecided (ShardedCall::undecided), and further exchanges
/// continue with these rows.
struct ShardedPlan {
  bool tokens = true;  ///< exchange tokens of rows without filters and of rows that propose tokens,
                       ///< and then their sums
};

// The functions below enqueue their work on the execution's stream. Errors: a kernel's launch
// failed; the message names the kernel. If the call fails on this rank alone, the other ranks wait.

/// Enqueues the work that makes this rank's block of an exchange.
Error sharded_send(const ShardedCall& call, ShardedExchange exchange);

/// Enqueues the work that reads the blocks of all ranks, and that writes the results of the rows
/// that the exchange decides.
Error sharded_receive(const ShardedCall& call, ShardedExchange exchange);

/// Enqueues the exchanges that the `undecided` rows of a call through peers still need, and the
/// ranks of their tokens. The call's summary must have been received, and `undecided` is the number
/// that undecided() points to. Error: peers is not set for the call.
Error continue_sharded(const ShardedCall& call, std::int32_t undecided);

/// Enqueues a call through peers: its summary, and the exchanges of the plan. A row that needs
/// tokens of one shard exchanges them while the row is merged. The ranks' kernels wait for each
/// other in this case, so they have to run at the same time. Error: peers is not set for the call.
Error sample_sharded(const ShardedCall& call, const ShardedPlan& plan);

}  // namespace fairdraw::cuda
