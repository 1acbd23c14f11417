// Calls over several shards on one GPU, and drafted tokens: fairdraw/
// cuda_sharded_speculation.h behind the contract. Blocks travel through host memory here.
#include "harness/adapters/cuda_shards.h"

#include <algorithm>
#include <utility>

#include "fairdraw/cuda_sharded_speculation.h"
#include "harness/adapters/speculation_view.h"

namespace fairdraw::harness {
namespace {

using cuda::ChainExchange;

/// One shard of a call with drafted tokens.
template <class Call>
class DraftsShard {
 public:
  DraftsShard(const Call& given, DeviceState& state)
      : results_(given), device_(results_.call()), state_(state) {}

  /// boundaries must stay where they are.
  Error begin(const Call& given, const std::vector<std::int64_t>& boundaries, int number) {
    if (Error error = device_.upload(state_)) return error;
    keep_host_seed(given, device_.call());
    return make_call(given, device_.call(), {boundaries, number});
  }

  /// This shard's block.
  Error send(ChainExchange exchange, std::vector<std::byte>& block) const {
    if (Error error = cuda::sharded_send(call_, exchange)) return error;
    block.resize(static_cast<std::size_t>(call_.bytes(exchange)));
    return download(call_.send(exchange), block.data(), call_.bytes(exchange));
  }
  Error receive(ChainExchange exchange, const std::vector<std::byte>& blocks) const {
    if (!blocks.empty()) {
      if (Error error =
              state_.workspace.upload(place_of(call_.receive(exchange)), blocks.data(),
                                      static_cast<std::int64_t>(blocks.size()), state_.stream)) {
        return error;
      }
      if (Error error = state_.stream.synchronise()) return error;
    }
    return cuda::sharded_receive(call_, exchange);
  }
  Error read_undecided(std::int32_t& rows) const {
    return download(call_.undecided(), &rows, sizeof(rows));
  }
  Error finish() const {
    if (Error error = cuda::finish_sharded(call_)) return error;
    return device_.download(state_);
  }
  int exchanges() const { return call_.exchanges(0); }
  ChainExchange exchange(int number) const { return call_.exchange(number, 0); }
  const std::deque<std::vector<std::byte>>& arrays() const { return results_.arrays(); }

 private:
  struct Columns {
    const std::vector<std::int64_t>& boundaries;
    int number;

    std::int64_t first() const { return boundaries[static_cast<std::size_t>(number)]; }
    std::int64_t size() const { return boundaries[static_cast<std::size_t>(number) + 1] - first(); }
    void split(RowsView& rows, std::uint32_t dtype) const {
      if (rows.data != nullptr) {
        rows.data = static_cast<const std::byte*>(rows.data) + first() * element_bytes(dtype);
      }
      rows.vocab = size();
    }
    /// What has a value a token.
    template <class Drafts>
    void split_drafts(Drafts& drafts, std::uint32_t dtype) const {
      split(drafts.target.logits, dtype);
      split(drafts.draft, dtype);
      if (drafts.target.allowed.given()) drafts.target.allowed.data += first() / kBitsOfWord;
      split_processing(first(), drafts.target.processing);
    }
  };

  Error make_call(const fairdraw_verification& given, const fairdraw_verification& moved,
                  const Columns& columns) {
    const View<RowStatus> statuses =
        view_or_none(reinterpret_cast<RowStatus*>(moved.statuses), moved.batch);
    if (given.parents != nullptr) {
      ShardedTreeRequest request;
      request.tree = tree_request_of(moved);
      columns.split_drafts(request.tree, given.dtype);
      return make(request, tree_result_of(moved, statuses), columns, cuda::make_sharded_tree);
    }
    ShardedChainRequest request;
    request.chain = chain_request_of(moved);
    columns.split_drafts(request.chain, given.dtype);
    return make(request, chain_result_of(moved, statuses), columns, cuda::make_sharded_chain);
  }
  Error make_call(const fairdraw_chain& given, const fairdraw_chain& moved,
                  const Columns& columns) {
    const View<RowStatus> statuses =
        view_or_none(reinterpret_cast<RowStatus*>(moved.statuses), moved.batch);
    ShardedChainSamplingRequest request;
    request.chain = chain_sampling_request_of(moved);
    columns.split(request.chain.target_probs, given.dtype);
    columns.split(request.chain.draft_probs, given.dtype);
    const std::int64_t drafts = moved.batch * moved.num_draft_tokens;
    request.accept_words = view_or_none(moved.accept_words, drafts);
    request.recover_words = view_or_none(moved.recover_words, drafts);
    request.bonus_words = view_or_none(moved.bonus_words, moved.batch);
    return make(request, chain_sampling_result_of(moved, statuses), columns,
                cuda::make_sharded_chain_sampling);
  }
  template <class Request, class Result, class Make>
  Error make(Request request, const Result& result, const Columns& columns,
             const Make& make_sharded) {
    request.boundaries = {columns.boundaries.data(),
                          static_cast<std::int64_t>(columns.boundaries.size())};
    request.shard = columns.number;
    cuda::Execution execution;
    const std::int64_t workspace = cuda::workspace_bytes(request, result);
    if (Error error = prepare(state_, workspace, execution)) return error;
    return make_sharded(request, result, execution, call_);
  }
  std::int64_t place_of(const void* at) const {
    return static_cast<const std::byte*>(at) -
           static_cast<const std::byte*>(state_.workspace.data());
  }
  Error download(const void* at, void* to, std::int64_t bytes) const {
    if (bytes == 0) return {};
    if (Error error = state_.workspace.download(to, place_of(at), bytes, state_.stream)) {
      return error;
    }
    return state_.stream.synchronise();
  }

  OwnResults<Call> results_;
  DeviceCall<Call> device_;
  DeviceState& state_;
  cuda::ShardedChain call_;
};

template <class Shard>
Error exchange_blocks(const std::deque<Shard>& shards, ChainExchange kind) {
  std::vector<std::byte> blocks, block;
  for (const Shard& shard : shards) {
    if (Error error = shard.send(kind, block)) return error;
    blocks.insert(blocks.end(), block.begin(), block.end());
  }
  for (const Shard& shard : shards) {
    if (Error error = shard.receive(kind, blocks)) return error;
  }
  return {};
}

/// The exchanges of rows, until all are decided.
template <class Shard>
Error decide_rows(const std::deque<Shard>& shards) {
  constexpr int kMostRounds = 64;  // of windows that shrink to a sixtieth each
  if (Error error = exchange_blocks(shards, ChainExchange::summary)) return error;
  for (int round = 0; round < kMostRounds; ++round) {
    std::int32_t left = 0;
    if (Error error = shards.front().read_undecided(left)) return error;
    if (left == 0) return {};
    if (left < 0) return {ErrorCode::unsupported, "shards disagree about the call"};
    if (Error error = exchange_blocks(shards, ChainExchange::threshold)) return error;
    if (Error error = exchange_blocks(shards, ChainExchange::tokens)) return error;
  }
  return {ErrorCode::unsupported, "rows are undecided after 64 rounds"};
}

}  // namespace

void split_processing(std::int64_t first, LogitsProcessing& processing) {
  if (processing.prompt_mask.given()) processing.prompt_mask.data += first / kBitsOfWord;
  if (processing.output_counts.given()) processing.output_counts.data += first;
}

std::vector<std::int64_t> word_boundaries(std::int64_t vocab, int shards) {
  std::vector<std::int64_t> boundaries;
  const std::int64_t words = words_for(vocab);
  for (int shard = 0; shard <= shards; ++shard) {
    boundaries.push_back(std::min(words * shard / shards * kBitsOfWord, vocab));
  }
  boundaries.back() = vocab;
  return boundaries;
}

std::string on_devices(int shards,
                       const std::function<Error(const std::vector<DeviceState*>&)>& call) {
  std::vector<DeviceState*> states;
  const std::function<std::string()> with_states = [&] {
    std::string message;
    const std::string failed = on_device([&](DeviceState& state) -> Error {
      states.push_back(&state);
      if (static_cast<int>(states.size()) == shards) return call(states);
      message = with_states();
      return {};
    });
    return message.empty() ? failed : message;
  };
  return with_states();
}

namespace {

template <class Call>
Error verify_drafts(const std::vector<DeviceState*>& states, const Call& call) {
  using Shard = DraftsShard<Call>;
  const std::vector<std::int64_t> boundaries =
      word_boundaries(call.vocab, static_cast<int>(states.size()));
  std::deque<Shard> shards;
  for (DeviceState* state : states) {
    shards.emplace_back(call, *state);
    const int number = static_cast<int>(shards.size()) - 1;
    if (Error error = shards.back().begin(call, boundaries, number)) return error;
  }
  if (call.batch > 0) {
    if (Error error = decide_rows(shards)) return error;
    for (int number = 2; number < shards.front().exchanges(); ++number) {
      if (Error error = exchange_blocks(shards, shards.front().exchange(number))) return error;
    }
  }
  for (const Shard& shard : shards) {
    if (Error error = shard.finish()) return error;
  }
  return copy_agreed_results(shards, call, [](const void*) { return false; });
}

}  // namespace

Error verify_in_shards(const std::vector<DeviceState*>& states, const fairdraw_verification& call) {
  return verify_drafts(states, call);
}
Error verify_in_shards(const std::vector<DeviceState*>& states, const fairdraw_chain& call) {
  return verify_drafts(states, call);
}

}  // namespace fairdraw::harness
