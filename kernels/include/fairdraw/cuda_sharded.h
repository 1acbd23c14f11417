// Sharded sampling (fairdraw/sharded.h) on NVIDIA GPUs: the same tokens, statuses, supports and
// masks, bit for bit, from the same first blocks, in phases that are enqueued on a stream.
//
// The contract is that of fairdraw/cuda.h: arrays lie in device memory, nothing is allocated,
// nothing is waited for, and all of it can be captured in a CUDA graph. `boundaries` alone is read
// on the host, at the call.
//
// A call is a fixed number of exchanges, because a graph has no other, and then as many more as the
// rows need that those do not decide:
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
//   summary  a shard's knowledge of its rows. After this exchange greedy rows, and rows whose
//            survivors are among the candidates, have their results.
//   tokens   of rows without filters, and of rows that propose (top_p without top_k): 16 bytes per
//            token and shard, with `indices` per output, or 64 if sums may follow. Not needed if no
//            row can be of these kinds.
//   sums     of rows that propose beyond the candidates: 64 bytes per token and shard. For calls
//            that may have such rows and request nothing of their survivors (masks, supports,
//            filtered and processed log-probabilities); other calls gather these rows.
//   gather   columns of the next undecided rows: as many as are 4 MB of whole float32 rows (8 rows
//            of 128256), or one. Every rank filters these rows whole and draws from them.
//   ranks    ranks of tokens: 4 bytes per token and shard. For calls that request logprobs.ranks.
//
// How many rows are undecided is known when the exchanges before have run: so it is read by the
// host, which waits for them, and those of a graph are gathered after its replay, on the same
// workspace. That is what such a row costs: a wait, and of each rank 4 bytes a column of it (8
// where raw modes report processed rows), in blocks that hold a whole group whether it is full or
// not. All ranks see the same number. A caller who knows the filters (top_k up to the candidates)
// need not look. If most rows keep many tokens (nuclei of thousands of tokens), gather the logits
// and call `sample`.
//
// Two transports need no code of the caller's. NCCL (fairdraw/sharded_nccl.h) works everywhere. If
// all ranks can address each other's memory (NVLink or PCIe peers of one machine: peer access in
// one process, cudaIpc or torch's symmetric memory across processes), use_peers() lets the kernels
// write their blocks to the peers' memory and wait for the peers' blocks, row by row. This needs no
// kernel of a transport and no barrier of all rows.
//
// Processed rows are written first, and read after that as if they were the caller's: 4 bytes a
// column and row of workspace, and two passes over the row more. raw_logprobs index each row twice,
// the second time at temperature 1, and take 792 bytes more; where rows are masked or processed,
// raw modes take 4 bytes more for each candidate and each value of a cut tile, and 8 for each of
// the n largest.
//
// Not supported: renormalised probabilities (`probs`), ties of top_k 1, and more than
// kMaxDeviceShards shards. Such calls are refused by name; the CPU supports all of these.
//
// This header needs no CUDA header.
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

/// Most shards of a call on GPUs: what is linked to each other in one machine.
inline constexpr std::int32_t kMaxDeviceShards = 8;

/// Exchanges of a call, in their order; the head of this file says which rows need each.
enum class ShardedExchange : std::uint32_t {
  summary = 0,  ///< what a shard says of its rows
  tokens = 1,   ///< tokens of rows without filters, and of proposals
  sums = 2,     ///< sums of rows whose proposals reach beyond the candidates
  gather = 3,   ///< columns of undecided rows
  ranks = 4,    ///< ranks of tokens
};

/// Bytes of workspace: blocks of all exchanges, the index of the shard's rows (14 to 54 bytes a
/// tile of 256 ids), and for each row about 220 bytes and 48 bytes a sample, 160 where sums may
/// follow; of processed rows 8.4 bytes a column; of calls with filters about 16 MB for a group of
/// gathered rows, where all rows are not fewer. 0: the call is not right.
std::int64_t workspace_bytes(const ShardedRequest& request, const SampleResult& result) noexcept;

/// Memory of all ranks of a machine, through which their kernels exchange blocks.
struct ShardedPeers {
  /// Memory of each shard's rank, as this rank addresses it, at a multiple of 16 bytes. Filled with
  /// zeros by each rank before any rank's first call, and left alone after that.
  std::byte* memory[kMaxDeviceShards] = {};
  std::int64_t bytes = 0;      ///< of each
  std::int64_t most_rows = 0;  ///< of the calls that use it
  // Both are the same on all ranks, and for all calls of a memory.
};

struct ShardedPlan;

/// A call that has been checked, and where its exchanges lie in the workspace.
/// Precondition of every function that reads the call: make_sharded_call() has filled it.
class ShardedCall {
 public:
  /// No call yet: make_sharded_call() fills it.
  ShardedCall();
  ~ShardedCall();
  ShardedCall(ShardedCall&&) noexcept;
  ShardedCall& operator=(ShardedCall&&) noexcept;

  /// This rank's block of an exchange, in device memory.
  std::byte* send(ShardedExchange exchange) const;
  /// The blocks of all ranks, in the order of the shards: [shards, bytes()].
  std::byte* receive(ShardedExchange exchange) const;
  /// Bytes of a block, the same on all ranks. 0: this call has no such exchange.
  std::int64_t bytes(ShardedExchange exchange) const;
  /// One number in device memory: how many rows have no result yet; -1: ranks disagree about the
  /// call, and no row has one. After the summary has been received. Through peers, ranks that
  /// disagree about the number of rows wait for each other for ever.
  const std::int32_t* undecided() const;
  /// Exchanges of `gather` that so many undecided rows take.
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

/// Checks a call, and enqueues nothing. Rows hold logits or probabilities (`input`). Results: all
/// but `probs`; the mask and whole rows of log-probabilities (logprobs.all) are of this rank's
/// columns. Those of rows without a result are left untouched, except for the n largest. Arrays
/// must stay alive until the last exchange has run.
/// Errors: those of fairdraw/sharded.h and fairdraw/cuda.h, and unsupported, by name, for what only
/// the CPU supports.
Error make_sharded_call(const ShardedRequest& request, const SampleResult& result,
                        const Execution& execution, ShardedCall& call);

/// Bytes of ShardedPeers that a call takes, in a memory for calls of up to `most_rows` rows: the
/// call's own to 2^31 - 1, else 0. One of more rows, outputs, samples or candidates takes more; the
/// memory is that of the largest.
/// Errors: It returns 0 for most_rows outside that range.
std::int64_t peer_bytes(const ShardedCall& call, std::int64_t most_rows);

/// Blocks of this call go through `peers`; `send` and `receive` are not used then, and an exchange
/// is sharded_send, then sharded_receive. All ranks make their calls through one memory in the same
/// order, on one stream, and a call's exchanges are over before the next call through it begins. A
/// call whose peers do not come waits for ever, as NCCL's. While a kernel may wait for a peer no
/// rank takes or frees device memory, and a host thread that drives several ranks launches no
/// kernel for the first time: both can wait for the GPU.
/// Errors: invalid_argument if peers.most_rows, peers.bytes or peers.memory is out of its range.
Error use_peers(ShardedCall& call, const ShardedPeers& peers);

/// Which exchanges a call enqueues after the summary; ranks follow where they are wanted. Rows that
/// need more are left undecided (ShardedCall::undecided), and further exchanges go on with them.
struct ShardedPlan {
  bool tokens = true;  ///< of rows without filters and of those that propose; with their sums
};

// The functions below enqueue work on the execution's stream. Errors: a failed launch, with the
// kernel's name. If only this rank fails, the other ranks wait.

/// Enqueues what makes this rank's block of an exchange.
Error sharded_send(const ShardedCall& call, ShardedExchange exchange);

/// Enqueues what is made of the blocks of all ranks, and the results of rows that it decides.
Error sharded_receive(const ShardedCall& call, ShardedExchange exchange);

/// Enqueues what `undecided` rows need that are left, and their ranks, of a call through peers
/// whose summary has been received: the number that undecided() points to. Error: peers is not set.
Error continue_sharded(const ShardedCall& call, std::int32_t undecided);

/// A call through peers: its summary, and what the plan says. Tokens that a row asks one shard for
/// are exchanged while it is merged: ranks' kernels wait for each other, and have to run at the
/// same time. Error: peers is not set.
Error sample_sharded(const ShardedCall& call, const ShardedPlan& plan);

}  // namespace fairdraw::cuda
