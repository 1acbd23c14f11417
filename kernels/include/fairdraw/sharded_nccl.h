// Sharded sampling on GPUs with NCCL as the transport runs all exchanges of a call on one stream.
//
//   ShardedCall call;                                      // fairdraw/cuda_sharded.h
//   if (Error error = make_sharded_call(request, result, execution, call)) return error;
//   if (Error error = sample_sharded(call, plan, communicator, stream)) return error;
//
// The ranks of the communicator are the shards. All work is enqueued without waiting for it, and
// the stream may be captured. The functions are in this header alone, so that the library does not
// need NCCL. A program that includes the header provides <nccl.h> and links libnccl (CMake:
// FAIRDRAW_NCCL, target fairdraw::nccl).
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

/// Enqueues one exchange of a call; enqueues nothing if the call has no exchange of this kind.
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

/// Enqueues the exchange of tokens, and that of sums if the call has one.
inline Error exchange_tokens(const ShardedCall& call, ncclComm_t communicator,
                             cudaStream_t stream) {
  if (Error error = exchange_sharded(call, ShardedExchange::tokens, communicator, stream)) {
    return error;
  }
  return exchange_sharded(call, ShardedExchange::sums, communicator, stream);
}

/// Enqueues the exchanges that the `undecided` rows of a call still need, and the ranks of their
/// tokens. The call's summary must have been received, and `undecided` is the number that
/// ShardedCall::undecided points to, the same on all ranks.
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

/// Enqueues a call: its summary, and the exchanges of the plan. `stream` is the stream of the
/// call's execution. Some rows may be left undecided; continue_sharded finishes them.
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
