#include "harness/adapters/sharded_speculation.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "harness/adapters/shard_columns.h"

namespace fairdraw::harness {
namespace {

void split(TargetRows& target, ShardColumns& columns) {
  target.logits = columns.of(target.logits);
  target.allowed = columns.of(target.allowed);
  target.processing = columns.of(target.processing);
}

void split(ShardedChainRequest& request, ShardColumns& columns) {
  split(request.chain.target, columns);
  request.chain.draft = columns.of(request.chain.draft);
}
void split(ShardedTreeRequest& request, ShardColumns& columns) {
  split(request.tree.target, columns);
  request.tree.draft = columns.of(request.tree.draft);
}
void split(ShardedChainSamplingRequest& request, ShardColumns& columns) {
  request.chain.target_probs = columns.of(request.chain.target_probs);
  request.chain.draft_probs = columns.of(request.chain.draft_probs);
}

std::int64_t batch_of(const ShardedChainRequest& request) { return request.chain.target.batch; }
std::int64_t batch_of(const ShardedTreeRequest& request) { return request.tree.target.batch; }
std::int64_t batch_of(const ShardedChainSamplingRequest& request) { return request.chain.batch; }

/// Calls use(view) for each array of a result.
template <class Result, class Use>
void for_each_array(Result& result, const Use& use) {
  use(result.tokens);
  use(result.accepted);
  use(result.statuses);
  if constexpr (requires { result.nodes; }) use(result.nodes);
  if constexpr (requires { result.emitted; }) use(result.emitted);
}

/// One shard: its part of the request, and its own results.
template <class Request, class Result>
struct SpeculatingShard {
  SpeculatingShard(const Request& whole, const Result& wanted, std::int32_t number)
      : request(whole),
        result(wanted),
        columns(whole.boundaries.data[number], whole.boundaries.data[number + 1]) {
    request.shard = number;
    split(request, columns);
    for_each_array(result, [this](auto& view) {
      if (!view.given()) return;
      using Value = std::remove_reference_t<decltype(*view.data)>;
      auto values = std::make_shared<std::vector<Value>>(
          static_cast<std::size_t>(std::max<std::int64_t>(view.size, 1)));
      view.data = values->data();
      kept.push_back(std::move(values));
    });
  }
  SpeculatingShard(const SpeculatingShard&) = delete;
  SpeculatingShard& operator=(const SpeculatingShard&) = delete;

  /// A request's results into the whole ones.
  void copy(std::int64_t b, std::int64_t batch, Result& wanted) {
    std::vector<const void*> own;
    for_each_array(result, [&own](auto& view) { own.push_back(view.data); });
    auto next = own.begin();
    for_each_array(wanted, [&](auto& view) {
      using Value = std::remove_reference_t<decltype(*view.data)>;
      const auto* const from = static_cast<const Value*>(*next++);
      const std::int64_t width = batch == 0 ? 0 : view.size / batch;
      if (view.given()) std::copy_n(from + b * width, width, view.data + b * width);
    });
  }

  Request request;
  Result result;
  ShardColumns columns;
  std::vector<std::shared_ptr<void>> kept;
  ShardedSpeculation call;
};

template <class Request, class Result>
Error run_in_shards(const Request& whole, Result wanted, const Execution& execution,
                    ShardTraffic* traffic, const SpeculationFault& fault) {
  using Shard = SpeculatingShard<Request, Result>;
  std::vector<std::unique_ptr<Shard>> shards;
  for (std::int32_t s = 0; s + 1 < static_cast<std::int32_t>(whole.boundaries.size); ++s) {
    shards.push_back(std::make_unique<Shard>(whole, wanted, s));
    Shard& shard = *shards.back();
    if (Error error = shard.call.begin(shard.request, shard.result, execution)) return error;
  }
  std::function<void(const Request&, int, std::byte*, std::int64_t)> spoil;
  if (fault) {
    spoil = [&fault](const Request& request, int exchange, std::byte* blocks, std::int64_t bytes) {
      fault(request.shard, exchange, blocks, bytes);
    };
  }
  ShardTraffic sent;
  if (Error error = exchange_all(shards, sent, spoil)) return error;
  const std::int64_t batch = batch_of(whole);
  for (std::int64_t b = 0; b < batch; ++b) {
    shards[static_cast<std::size_t>(b) % shards.size()]->copy(b, batch, wanted);
  }
  if (traffic != nullptr) *traffic = sent;
  return {};
}

}  // namespace

Error speculate_in_shards(const ShardedChainRequest& whole, const VerifyChainResult& result,
                          const Execution& execution, ShardTraffic* traffic,
                          const SpeculationFault& fault) {
  return run_in_shards(whole, result, execution, traffic, fault);
}
Error speculate_in_shards(const ShardedTreeRequest& whole, const VerifyTreeResult& result,
                          const Execution& execution, ShardTraffic* traffic,
                          const SpeculationFault& fault) {
  return run_in_shards(whole, result, execution, traffic, fault);
}
Error speculate_in_shards(const ShardedChainSamplingRequest& whole,
                          const ChainSpeculativeResult& result, const Execution& execution,
                          ShardTraffic* traffic, const SpeculationFault& fault) {
  return run_in_shards(whole, result, execution, traffic, fault);
}

}  // namespace fairdraw::harness
