// Selects the attempts of a token that may be the first accepted attempt, from the attempts that
// all shards list (in the same steps as MergedRow::records_of in sharded/merged_survivors.cpp).
#pragma once

#include <climits>
#include <cstdint>

#include "common/float_order.h"
#include "cuda/sharded/peer_exchange.cuh"
#include "cuda/sharded/sharded_task.h"

namespace fairdraw::cuda {

/// Attempts of a token in their order, each with a larger value than all attempts before it.
struct TokenRecords {
  int count;
  sharded::TokenAttempt of[sharded::kRecords];

  __device__ std::int32_t key(int i) const { return order_key(std::bit_cast<float>(of[i].bits)); }
};

/// Finds the records of a token, with one thread, after the lists of attempts have arrived; `at` is
/// the index of the token among the tokens of all outputs.
__device__ __noinline__ inline TokenRecords records_of(const ShardedTask& task,
                                                       ReceivedBlocks blocks,
                                                       const ShardedRowState& state,
                                                       std::int64_t at) {
  const ShardedToken& of_cut = task.drawn[at];
  const auto listed_by = [&](int shard) {
    const std::byte* tokens = blocks.row(ShardedExchange::tokens, shard, 0);
    return reinterpret_cast<const sharded::TokenAttempt*>(tokens) + at * task.attempts;
  };
  const auto key_of = [](const sharded::TokenAttempt& drawn) {
    return order_key(std::bit_cast<float>(drawn.bits));
  };
  // If the list of a shard is full, the attempts after the last listed attempt are unknown.
  std::uint32_t end = of_cut.attempts + 1;
  for (int shard = 0; shard < task.shards; ++shard) {
    const sharded::TokenAttempt& last = listed_by(shard)[task.attempts - 1];
    if (last.attempts == 0 || key_of(last) >= state.accepted_from) continue;
    end = ::min(end, last.attempts);
  }
  TokenRecords records{};
  std::int32_t before_key = INT_MIN;
  for (std::uint32_t before = 0; records.count < static_cast<int>(sharded::kRecords);) {
    sharded::TokenAttempt next{end + 1, 0, 0, 0};
    for (int shard = 0; shard < task.shards; ++shard) {
      const sharded::TokenAttempt* listed = listed_by(shard);
      for (int i = 0; i < task.attempts && listed[i].attempts != 0; ++i) {
        const bool is_next = listed[i].attempts > before && listed[i].attempts < next.attempts;
        if (is_next) next = listed[i];
      }
    }
    if (of_cut.id >= 0 && of_cut.attempts >= before && of_cut.attempts + 1 < next.attempts) {
      next = {of_cut.attempts + 1, of_cut.id, of_cut.bits, of_cut.raw_bits};
    }
    if (next.attempts > end) break;
    before = next.attempts;
    if (key_of(next) <= before_key) continue;
    before_key = key_of(next);
    records.of[records.count++] = next;
    if (before_key >= state.accepted_from) break;
  }
  return records;
}

}  // namespace fairdraw::cuda
