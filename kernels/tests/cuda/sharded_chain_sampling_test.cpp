// chain_speculative_sampling over sharded rows of probabilities in device memory: tokens, both
// counts and statuses of every shard are those over the whole rows, bit for bit. All shards have
// the same GPU here; what one sends is copied to the others, or goes through memory that all of
// them address.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fairdraw/cuda_sharded_speculation.h"
#include "fairdraw/sampling.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/processing_arrays.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

/// Results of a call, with a sentinel pattern where nothing is written.
struct SamplingOutputs {
  SamplingOutputs(std::int64_t batch, std::int64_t drafts)
      : tokens(static_cast<std::size_t>(batch * (drafts + 1)), -77),
        accepted(static_cast<std::size_t>(batch), -77),
        emitted(accepted),
        statuses(accepted.size(), static_cast<RowStatus>(-77)) {}

  template <class Arrays>
  ChainSpeculativeResult in(Arrays& arrays) {
    const auto view = [&arrays](auto& values) {
      return View(arrays.out(values), static_cast<std::int64_t>(values.size()));
    };
    return {view(tokens), view(accepted), view(emitted), view(statuses)};
  }
  bool operator==(const SamplingOutputs&) const = default;

  std::vector<std::int32_t> tokens, accepted, emitted;
  std::vector<RowStatus> statuses;
};

/// Drafts near the target and equal to it, tokens that the draft never gives, zeros, and a bad row
/// now and then.
struct SamplingCall {
  SamplingCall(std::uint64_t number, std::int64_t vocabulary) : vocab(vocabulary) {
    Dice dice(number);
    batch = dice.between(1, 4);
    drafts = dice.between(0, 4);
    const auto fill = [&](std::vector<float>& rows, std::int64_t count) {
      for (std::int64_t i = 0; i < count * vocab; ++i) {
        rows.push_back(dice.below(4) == 0 ? 0.0F : static_cast<float>(dice.below(64)) / 64.0F);
      }
    };
    fill(target, batch * (drafts + 1));
    fill(draft, batch * drafts);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < drafts; ++i) {
        float* mine = draft.data() + (b * drafts + i) * vocab;
        const float* theirs = target.data() + (b * (drafts + 1) + i) * vocab;
        const std::size_t kind = dice.below(4);
        if (kind == 0) std::copy_n(theirs, vocab, mine);
        if (kind == 1) {
          for (std::int64_t id = 0; id < vocab; ++id) mine[id] = theirs[id] + mine[id] / 8;
        }
        tokens.push_back(static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(vocab))));
      }
    }
    const auto spoil = [&](std::vector<float>& rows) {
      if (rows.empty() || dice.below(6) != 0) return;
      rows[dice.below(rows.size())] = dice.pick({-1.0F, NAN, INFINITY});
    };
    spoil(target);
    spoil(draft);
    if (dice.below(8) == 0) std::fill_n(target.begin(), vocab, 0.0F);
    for (std::int64_t b = 0; b < batch; ++b) seeds.push_back(dice.bits());
    const auto draw = [&](std::vector<std::uint64_t>& words, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) words.push_back(dice.bits());
    };
    has_words = drafts > 0 && dice.below(3) == 0;
    draw(accept_words, batch * drafts);
    draw(recover_words, batch * drafts);
    draw(bonus_words, batch);
  }

  /// The whole rows.
  template <class Arrays>
  ShardedChainSamplingRequest in(Arrays& arrays) const {
    const auto view = [&arrays](const auto& values) {
      return View(arrays.in(values), static_cast<std::int64_t>(values.size()));
    };
    ShardedChainSamplingRequest whole;
    ChainSpeculativeRequest& chain = whole.chain;
    chain.batch = batch;
    chain.num_draft_tokens = drafts;
    chain.target_probs = {arrays.in(target), DType::float32, batch * (drafts + 1), vocab, vocab};
    chain.draft_probs = {arrays.in(draft), DType::float32, batch * drafts, vocab, vocab};
    chain.draft_tokens = view(tokens);
    chain.seed = {view(seeds).data, batch};
    chain.offset = std::uint64_t{3};
    if (has_words) {
      whole.accept_words = view(accept_words);
      whole.recover_words = view(recover_words);
      whole.bonus_words = view(bonus_words);
    }
    return whole;
  }

  std::int64_t vocab, batch = 0, drafts = 0;
  std::vector<float> target, draft;
  std::vector<std::int32_t> tokens;
  std::vector<std::uint64_t> seeds, accept_words, recover_words, bonus_words;
  bool has_words = false;
};

/// One shard: views of its columns of rows that lie whole in device memory.
struct SamplingShard {
  SamplingShard(const SamplingCall& host, const std::vector<std::int64_t>& boundaries,
                std::int32_t shard)
      : outputs(host.batch, host.drafts) {
    ShardedChainSamplingRequest request = host.in(arrays);
    const std::int64_t begin = boundaries[static_cast<std::size_t>(shard)];
    for (RowsView* rows : {&request.chain.target_probs, &request.chain.draft_probs}) {
      rows->data = static_cast<const float*>(rows->data) + begin;
      rows->vocab = boundaries[static_cast<std::size_t>(shard) + 1] - begin;
    }
    request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    request.shard = shard;
    const ChainSpeculativeResult result = outputs.in(arrays);
    workspace.assign(static_cast<std::size_t>(cuda::workspace_bytes(request, result)), 0xcd);
    cuda::Execution execution;
    execution.workspace = arrays.out(workspace);
    execution.workspace_bytes = static_cast<std::int64_t>(workspace.size());
    error = cuda::make_sharded_chain_sampling(request, result, execution, call);
  }

  SamplingOutputs outputs;
  DeviceArrays arrays;
  std::vector<std::uint8_t> workspace;
  cuda::ShardedChain call;
  Error error;
};

/// What NCCL's all-gather does.
void gather(std::deque<std::unique_ptr<SamplingShard>>& shards, cuda::ChainExchange exchange) {
  for (const auto& to : shards) {
    std::byte* at = to->call.receive(exchange);
    for (const auto& from : shards) {
      const auto bytes = static_cast<std::size_t>(from->call.bytes(exchange));
      if (bytes == 0) continue;
      require(cudaMemcpy(at, from->call.send(exchange), bytes, cudaMemcpyDeviceToDevice),
              "cudaMemcpy");
      at += bytes;
    }
  }
}

TEST(CudaShardedChainSampling, IsTheUnshardedOperation) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::int64_t accepted = 0, rejected = 0, failed = 0, with_words = 0;
  for (std::uint64_t number = 0; number < budget(300) && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    const SamplingCall call(number, vocab);
    const std::string where =
        "call " + std::to_string(number) + ", boundaries" + describe(boundaries);
    // The CPU's, in one shard: there is no other call with words.
    harness::HostArrays host;
    SamplingOutputs expected(call.batch, call.drafts);
    const std::vector<std::int64_t> of_one = {0, vocab};
    ShardedChainSamplingRequest whole = call.in(host);
    whole.boundaries = {of_one.data(), 2};
    if (call.has_words) {
      ShardedSpeculation one;
      ASSERT_FALSE(one.begin(whole, expected.in(host), {CpuTarget::best, 1}));
      while (one.block_bytes() > 0) {
        const std::vector<std::byte> block(one.block(), one.block() + one.block_bytes());
        ASSERT_FALSE(one.receive(block.data()));
      }
    } else {
      ASSERT_FALSE(
          chain_speculative_sampling(whole.chain, expected.in(host), {CpuTarget::best, 1}));
    }
    std::deque<std::unique_ptr<SamplingShard>> shards;
    for (std::size_t shard = 0; shard + 1 < boundaries.size(); ++shard) {
      shards.push_back(
          std::make_unique<SamplingShard>(call, boundaries, static_cast<std::int32_t>(shard)));
      ASSERT_FALSE(shards.back()->error) << shards.back()->error.message << ", " << where;
    }
    DeviceArrays memories;
    std::deque<std::vector<std::byte>> pieces;
    const bool through_peers = number % 2 != 0;
    if (through_peers) {
      cuda::ShardedPeers peers;
      peers.most_rows = call.batch * (call.drafts + 1);
      peers.bytes = cuda::peer_bytes(shards.front()->call, peers.most_rows);
      for (std::size_t shard = 0; shard < shards.size(); ++shard) {
        pieces.emplace_back(static_cast<std::size_t>(peers.bytes));
        peers.memory[shard] = memories.out(pieces.back());
      }
      for (const auto& shard : shards) ASSERT_FALSE(cuda::use_peers(shard->call, peers));
    }
    for (int i = 0; i < shards.front()->call.exchanges(0); ++i) {
      const cuda::ChainExchange exchange = shards.front()->call.exchange(i, 0);
      for (const auto& shard : shards) ASSERT_FALSE(cuda::sharded_send(shard->call, exchange));
      if (!through_peers) gather(shards, exchange);
      for (const auto& shard : shards) ASSERT_FALSE(cuda::sharded_receive(shard->call, exchange));
    }
    for (const auto& shard : shards) {
      ASSERT_FALSE(cuda::finish_sharded(shard->call));
      shard->arrays.fetch();
      ASSERT_TRUE(shard->outputs == expected) << where;
    }
    with_words += call.has_words ? 1 : 0;
    for (std::size_t b = 0; b < expected.statuses.size(); ++b) {
      failed += expected.statuses[b] == RowStatus::ok ? 0 : 1;
      accepted += expected.emitted[b];
      rejected += expected.statuses[b] == RowStatus::ok ? call.drafts - expected.emitted[b] : 0;
    }
  }
  for (const std::int64_t count : {accepted, rejected, failed, with_words}) {
    EXPECT_GT(count, is_reduced() ? -1 : 20) << "the comparison says little";
  }
}

}  // namespace
}  // namespace fairdraw::suites
