// Sharded sampling on GPUs with NCCL as the transport: all exchanges of a call on one stream.
//
//   ShardedCall call;                                      // fairdraw/cuda_sharded.h
//   if (Error error = make_sharded_call(request, result, execution, call)) return error;
//   if (Error error = sample_sharded(call, plan, communicator, stream)) return error;
//
// Ranks of the communicator are the shards. Everything is enqueued, nothing is waited for, and the
// stream may be captured. A header alone, so that the library needs no NCCL: a program that
// includes it brings <nccl.h> and links libnccl (CMake: FAIRDRAW_NCCL, target fairdraw::nccl).
//
// Errors: Calls return the codes of fairdraw/cuda_sharded.h, and unsupported, with NCCL's message,
// if an all-gather fails.
//
// Definition: fairdraw/sharded.h.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "fairdraw/cuda_sharded.h"

namespace fairdraw::cuda {

/// One exchange of a call; nothing where the call has none of that kind.
inline Error exchange_sharded(const ShardedCall& call, ShardedExchange exchange,
                              ncclComm_t communicator, cudaStream_t stream) {
  if (call.bytes(exchange) == 0) return {};
  if (Error error = sharded_send(call, exchange)) return error;
  const ncclResult_t gathered = ncclAllGather(call.send(exchange), call.receive(exchange),
                                              static_cast<std::size_t>(call.bytes(exchange)),
                                              ncclUint8, communicator, stream);
  if (gathered != ncclSuccess) {
    return {ErrorCode::unsupported, std::string("ncclAllGather: ") + ncclGetErrorString(gathered)};
  }
  return sharded_receive(call, exchange);
}

/// Tokens, and sums where the call has them.
inline Error exchange_tokens(const ShardedCall& call, ncclComm_t communicator,
                             cudaStream_t stream) {
  if (Error error = exchange_sharded(call, ShardedExchange::tokens, communicator, stream)) {
    return error;
  }
  return exchange_sharded(call, ShardedExchange::sums, communicator, stream);
}

/// Enqueues what `undecided` rows need that are left, and their ranks, of a call whose summary has
/// been received: the number that ShardedCall::undecided points to, the same on all ranks.
inline Error continue_sharded(const ShardedCall& call, std::int32_t undecided,
                              ncclComm_t communicator, cudaStream_t stream) {
  if (Error error = exchange_tokens(call, communicator, stream)) return error;
  for (std::int32_t left = call.gathers(undecided); left > 0; --left) {
    if (Error error = exchange_sharded(call, ShardedExchange::gather, communicator, stream)) {
      return error;
    }
  }
  return exchange_sharded(call, ShardedExchange::ranks, communicator, stream);
}

/// A call: its summary, and what the plan says. `stream` is the execution's. Rows may be left
/// undecided (continue_sharded).
inline Error sample_sharded(const ShardedCall& call, const ShardedPlan& plan,
                            ncclComm_t communicator, cudaStream_t stream) {
  if (Error error = exchange_sharded(call, ShardedExchange::summary, communicator, stream)) {
    return error;
  }
  if (plan.tokens) {
    if (Error error = exchange_tokens(call, communicator, stream)) return error;
  }
  return exchange_sharded(call, ShardedExchange::ranks, communicator, stream);
}

}  // namespace fairdraw::cuda
