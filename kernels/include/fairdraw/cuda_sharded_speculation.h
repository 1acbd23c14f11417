// Speculation over a sharded vocabulary (fairdraw/sharded_speculation.h) on NVIDIA GPUs: the
// tokens, nodes, accepted drafts and statuses of verify_chain, verify_tree and
// chain_speculative_sampling over the whole rows, bit for bit, on every rank, in phases that are
// enqueued on a stream.
//
// The contract is that of fairdraw/cuda_sharded.h: arrays lie in device memory (`boundaries` is
// read on the host, at the call), nothing is allocated, nothing is waited for, and all of it can be
// captured in a CUDA graph. What moves the blocks is the caller's: NCCL (fairdraw/sharded_nccl.h),
// or any other all-gather of device memory; or, after use_peers(), kernels that write them into
// memory which all ranks address, the memory of ShardedCall's calls too. A call is a fixed number
// of exchanges:
//
//   ShardedChain call;
//   if (Error error = make_sharded_chain(request, result, execution, call)) return error;
//   for (int number = 0; number < call.exchanges(rounds); ++number) {
//     const ChainExchange exchange = call.exchange(number, rounds);
//     if (Error error = sharded_send(call, exchange)) return error;
//     all_gather(call.send(exchange), call.bytes(exchange), call.receive(exchange), stream);
//     if (Error error = sharded_receive(call, exchange)) return error;
//   }
//   if (Error error = finish_sharded(call)) return error;
//
// which is verify_sharded() of sharded_nccl.h, and without the all-gather the one below.
//
//   summary    what a shard says of its rows: of the target, of the draft's logits, 8 bytes a row
//              of the draft's probabilities. All rows at once, those that no path reaches too.
//   threshold  `rounds` times, as in cuda_sharded.h: rows that are filtered beyond the candidates.
//   tokens     12 bytes a row of the target: of requests that follow the target's own tokens, where
//              rows have no filter or took rounds. A call needs none where no row can be one.
//   weights    Where the draft's distribution is known. 32 bytes a row of the target: what it and
//              the draft's row weigh in the shard's columns, and what the drafted token does. From
//              these all ranks test the same drafts with the same words.
//   left       likewise, 16 bytes a request: what a rejected draft leaves of the target.
//   last       likewise, 4 bytes a request: the token that ends its chain.
//
// Of trees `weights` tell what the drafted token weighs that leads to a row, and `left` comes
// max_draft + 1 times and brings the last token, too: a path may reject as many drafts as there
// are, and a graph has a fixed number of exchanges. A request that has its token answers nothing.
//
// Results are written by finish_sharded. A request that needs a row which was not decided, because
// it would have needed more rounds, keeps its results as they were; `undecided` says how many rows
// are left. More thresholds, tokens, and then the three others of the same call go on with them.
//
// Of chain_speculative_sampling, whose rows are probabilities, a row of the target says as much as
// one without filters, and there are no rounds and no tokens; the rest is that of a chain.
//
// What is not there: more than kMaxDeviceShards shards. Calls that ask for them are refused by
// name.
//
// This header needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "fairdraw/cuda.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/sharded_speculation.h"
#include "fairdraw/types.h"

namespace fairdraw::cuda {

enum class ChainExchange : std::uint32_t {
  summary = 0,
  threshold = 1,
  tokens = 2,
  weights = 3,
  left = 4,
  last = 5
};

/// The exchanges of a call in their order: a summary, `rounds` thresholds, tokens, and the three of
/// drafts whose distribution is known.
constexpr ChainExchange chain_exchange(int number, int rounds) {
  if (number == 0) return ChainExchange::summary;
  if (number <= rounds) return ChainExchange::threshold;
  return static_cast<ChainExchange>(number - rounds + 1);
}

/// Bytes of workspace: for each row of the target, and of the draft's logits, what
/// workspace_bytes(ShardedRequest) has for a row, and some 250 bytes; for each tree whose draft's
/// distribution is known 16 KB. 0: the call is not right.
std::int64_t workspace_bytes(const ShardedChainRequest& request,
                             const VerifyChainResult& result) noexcept;
std::int64_t workspace_bytes(const ShardedTreeRequest& request,
                             const VerifyTreeResult& result) noexcept;
std::int64_t workspace_bytes(const ShardedChainSamplingRequest& request,
                             const ChainSpeculativeResult& result) noexcept;

/// A call of chains or of trees that has been checked, and where its exchanges lie in the
/// workspace.
class ShardedChain {
 public:
  ShardedChain();
  ~ShardedChain();
  ShardedChain(ShardedChain&&) noexcept;
  ShardedChain& operator=(ShardedChain&&) noexcept;

  /// Exchanges of a call with so many thresholds: 2 more, or where the draft's distribution is
  /// known 5, of trees 4 + max_draft. The same on all ranks.
  int exchanges(int rounds) const;
  /// Which one an exchange is.
  ChainExchange exchange(int number, int rounds) const;
  /// This rank's block of an exchange, in device memory.
  std::byte* send(ChainExchange exchange) const;
  /// The blocks of all ranks, in the order of the shards: [shards, bytes()].
  std::byte* receive(ChainExchange exchange) const;
  /// Bytes of a block, the same on all ranks; 0: the call has no such exchange.
  std::int64_t bytes(ChainExchange exchange) const;
  /// One number in device memory: how many rows of target and draft are not decided; -1: ranks
  /// disagree about the call, and no request has a result. After the summary has been received.
  const std::int32_t* undecided() const;

 private:
  friend Error make_sharded_chain(const ShardedChainRequest&, const VerifyChainResult&,
                                  const Execution&, ShardedChain&);
  friend Error make_sharded_tree(const ShardedTreeRequest&, const VerifyTreeResult&,
                                 const Execution&, ShardedChain&);
  friend Error make_sharded_chain_sampling(const ShardedChainSamplingRequest&,
                                           const ChainSpeculativeResult&, const Execution&,
                                           ShardedChain&);
  friend Error sharded_send(const ShardedChain&, ChainExchange);
  friend Error sharded_receive(const ShardedChain&, ChainExchange);
  friend Error finish_sharded(const ShardedChain&);
  friend std::int64_t peer_bytes(const ShardedChain&, std::int64_t);
  friend Error use_peers(ShardedChain&, const ShardedPeers&);
  friend Error continue_sharded(const ShardedChain&, const ShardedPlan&);
  friend Error verify_sharded(const ShardedChain&, const ShardedPlan&);
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Checks a call, and enqueues nothing. Errors are those of ShardedSpeculation::begin, and of
/// cuda::verify_chain for device memory. Arrays must stay alive until the results are written.
Error make_sharded_chain(const ShardedChainRequest& request, const VerifyChainResult& result,
                         const Execution& execution, ShardedChain& call);

/// The same of trees; errors are those of cuda::verify_tree, and max_draft above 2^20.
Error make_sharded_tree(const ShardedTreeRequest& request, const VerifyTreeResult& result,
                        const Execution& execution, ShardedChain& call);

/// The same of chain_speculative_sampling.
Error make_sharded_chain_sampling(const ShardedChainSamplingRequest& request,
                                  const ChainSpeculativeResult& result, const Execution& execution,
                                  ShardedChain& call);

/// As of a ShardedCall (fairdraw/cuda_sharded.h), whose calls may go through the same memory.
/// `most_rows`: at least the rows of the target.
std::int64_t peer_bytes(const ShardedChain& call, std::int64_t most_rows);

/// Blocks of this call go through `peers`: an exchange is sharded_send, then sharded_receive, which
/// waits for the others' blocks, and copies them to `receive`. Rules and errors are those of a
/// ShardedCall's.
Error use_peers(ShardedChain& call, const ShardedPeers& peers);

// What follows is enqueued on the execution's stream. Errors: a launch that fails, by the kernel's
// name; where this rank alone fails, the others wait.

/// Enqueues what makes this rank's block of an exchange.
Error sharded_send(const ShardedChain& call, ChainExchange exchange);

/// Enqueues what is made of the blocks of all ranks. Of a chain's last three exchanges that is
/// nothing: what comes next reads them.
Error sharded_receive(const ShardedChain& call, ChainExchange exchange);

/// Enqueues the results of all requests whose rows are decided.
Error finish_sharded(const ShardedChain& call);

/// A call through peers: its summary, what the plan says, the exchanges of drafts whose
/// distribution is known, and the results. Error: peers is not set.
Error verify_sharded(const ShardedChain& call, const ShardedPlan& plan);

/// More rounds of a call through peers whose summary has been received, and all that follows.
/// Error: peers is not set.
Error continue_sharded(const ShardedChain& call, const ShardedPlan& plan);

}  // namespace fairdraw::cuda
