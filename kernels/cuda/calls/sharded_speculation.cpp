// Speculation over sharded rows on the GPU (fairdraw/cuda_sharded_speculation.h): checks, and which
// kernels an exchange is. The kernels are in sharded/, the layout of a call in sharded_drafts.cpp.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "common/speculative_arguments.h"
#include "cuda/calls/drafted_calls.h"
#include "cuda/calls/sample_rows.h"
#include "cuda/calls/sharded_drafts.h"
#include "cuda/calls/sharded_peers.h"
#include "cuda/calls/sharded_rows.h"
#include "cuda/device/device_pointers.h"
#include "cuda/sharded/peer_gather.h"
#include "cuda/sharded/sharded_chain.h"
#include "cuda/sharded/sharded_task.h"
#include "cuda/tiles/tile_spread.h"
#include "fairdraw/cuda_sharded_speculation.h"
#include "sharded/fingerprint.h"
#include "sharded/speculation_call.h"

namespace fairdraw::cuda {

struct ShardedChain::Parts : ChainParts {};

namespace {

using sharded::ArraysLie;

/// What the CPU has and this does not.
Error check_supported(const View<const std::int64_t>& boundaries) {
  const std::int64_t shards = boundaries.size - 1;
  if (shards > kMaxDeviceShards) {
    return {ErrorCode::unsupported, "shards is " + std::to_string(shards) + "; allowed: 1 to " +
                                        std::to_string(kMaxDeviceShards) + " on GPUs"};
  }
  return {};
}

using sharded::SpeculationCall;

/// `call`: where there is no error.
template <class Request, class Result>
Error check_call_of_shard(const Request& request, const Result& result, SpeculationCall& call) {
  if (Error error = sharded::check_speculation(request, result)) return error;
  call = sharded::call_of(request, result);
  if (Error error = check_sizes(call.target)) return error;
  if (law_of(call) != DraftLaw::none) {
    if (Error error = check_batch(call.draft, "draft")) return error;
  }
  constexpr std::int64_t kMostDrafts = 1 << 20;  // exchanges are counted by an int
  if (call.is_tree && call.max_draft > kMostDrafts) {
    return {ErrorCode::unsupported, "max_draft is " + std::to_string(call.max_draft) +
                                        "; allowed: 0 to " + std::to_string(kMostDrafts) +
                                        " in a sharded call on GPUs"};
  }
  return check_supported(call.boundaries);
}

Error check_pointers(const SpeculationCall& call, std::int64_t workspace,
                     const Execution& execution) {
  TargetRows target = call.target;
  const bool has_columns = target.logits.vocab > 0;
  if (!has_columns) {
    target.logits.rows = 0;
    target.allowed = {};
    target.processing = processing_of_columns(rows_of(call.target));
  }
  DevicePointers pointers;
  if (call.tests_all) {
    if (has_columns) pointers.check("target_probs", target.logits);
    pointers.check("seed", target.seed);
    pointers.check("offset", target.offset);
    pointers.check("accept_words", call.accept_words);
    pointers.check("recover_words", call.recover_words);
    pointers.check("bonus_words", call.bonus_words);
  } else {
    check_target(pointers, target);
  }
  pointers.check("draft_tokens", call.draft_tokens);
  pointers.check("draft_lengths", call.draft_lengths);
  pointers.check("parents", call.parents);
  if (law_of(call) != DraftLaw::none) {
    if (has_columns) pointers.check(call.tests_all ? "draft_probs" : "draft", call.draft);
    check_filters(pointers, call.draft_filters, "draft_filters.");
  }
  pointers.check("tokens", call.tokens);
  pointers.check("nodes", call.nodes);
  pointers.check("accepted", call.accepted);
  pointers.check("emitted", call.emitted);
  pointers.check("statuses", call.statuses);
  pointers.check_workspace(execution, workspace, call.target.batch);
  return pointers.error();
}

Error find_spread(const ShardedTask& task, Path path, TileSpread& spread) {
  if (task.rows() == 0 || task.whole.vocab == 0) return {};
  return check_call("best_spread", best_spread(task.whole, path, spread));
}

std::int64_t bytes_of(const SpeculationCall& call) {
  BumpAllocator memory(nullptr);
  ChainParts parts;
  place_drafts(call, memory, parts);
  return memory.bytes();
}

}  // namespace

std::int64_t workspace_bytes(const ShardedChainRequest& request,
                             const VerifyChainResult& result) noexcept {
  SpeculationCall call;
  return check_call_of_shard(request, result, call) ? 0 : bytes_of(call);
}
std::int64_t workspace_bytes(const ShardedTreeRequest& request,
                             const VerifyTreeResult& result) noexcept {
  SpeculationCall call;
  return check_call_of_shard(request, result, call) ? 0 : bytes_of(call);
}
std::int64_t workspace_bytes(const ShardedChainSamplingRequest& request,
                             const ChainSpeculativeResult& result) noexcept {
  SpeculationCall call;
  return check_call_of_shard(request, result, call) ? 0 : bytes_of(call);
}

ShardedChain::ShardedChain() = default;
ShardedChain::~ShardedChain() = default;
ShardedChain::ShardedChain(ShardedChain&&) noexcept = default;
ShardedChain& ShardedChain::operator=(ShardedChain&&) noexcept = default;

int ShardedChain::exchanges(int rounds) const {
  constexpr int kOfRows = 2, kOfWeights = 1, kOfChain = 2;
  if (parts_->law == DraftLaw::none) return kOfRows + rounds;
  return kOfRows + rounds + kOfWeights + (parts_->is_tree ? parts_->answers() : kOfChain);
}
ChainExchange ShardedChain::exchange(int number, int rounds) const {
  const ChainExchange of_chain = chain_exchange(number, rounds);
  return parts_->is_tree && of_chain > ChainExchange::left ? ChainExchange::left : of_chain;
}
std::byte* ShardedChain::send(ChainExchange exchange) const { return parts_->at(exchange).send; }
std::byte* ShardedChain::receive(ChainExchange exchange) const {
  return parts_->at(exchange).receive;
}
std::int64_t ShardedChain::bytes(ChainExchange exchange) const {
  return parts_->at(exchange).bytes;
}
const std::int32_t* ShardedChain::undecided() const { return parts_->target.undecided; }

namespace {

Error make_parts(const SpeculationCall& call, const Execution& execution, ChainParts& parts) {
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(call, bytes_of(call), execution)) return error;
  BumpAllocator memory(execution.workspace);
  place_drafts(call, memory, parts);
  parts.target.fingerprint = parts.draft.fingerprint =
      sharded::fingerprint_of(call, ArraysLie::on_device);
  parts.path = path;
  parts.stream = stream_of(execution);
  if (Error error = find_spread(parts.target, path, parts.of_target)) return error;
  if (parts.law != DraftLaw::logits) return {};
  return find_spread(parts.draft, path, parts.of_draft);
}

}  // namespace

Error make_sharded_chain(const ShardedChainRequest& request, const VerifyChainResult& result,
                         const Execution& execution, ShardedChain& call) {
  SpeculationCall checked;
  if (Error error = check_call_of_shard(request, result, checked)) return error;
  auto parts = std::make_unique<ShardedChain::Parts>();
  if (Error error = make_parts(checked, execution, *parts)) return error;
  parts->result = result;
  call.parts_ = std::move(parts);
  return {};
}

Error make_sharded_tree(const ShardedTreeRequest& request, const VerifyTreeResult& result,
                        const Execution& execution, ShardedChain& call) {
  SpeculationCall checked;
  if (Error error = check_call_of_shard(request, result, checked)) return error;
  auto parts = std::make_unique<ShardedChain::Parts>();
  if (Error error = make_parts(checked, execution, *parts)) return error;
  parts->tree_result = result;
  call.parts_ = std::move(parts);
  return {};
}

Error make_sharded_chain_sampling(const ShardedChainSamplingRequest& request,
                                  const ChainSpeculativeResult& result, const Execution& execution,
                                  ShardedChain& call) {
  SpeculationCall checked;
  if (Error error = check_call_of_shard(request, result, checked)) return error;
  auto parts = std::make_unique<ShardedChain::Parts>();
  if (Error error = make_parts(checked, execution, *parts)) return error;
  parts->result = {result.tokens, result.accepted, result.statuses};
  call.parts_ = std::move(parts);
  return {};
}

/// Which rows there are, and what this shard says of them.
Error ChainParts::send_summaries() const {
  if (Error e = check_launch("drafted_rows", prepare_drafted_rows(chain.drafts, stream))) return e;
  if (target.rows() == 0) return decide_none(target, stream);
  if (Error e = index_sharded_rows(target, processed, of_target, stream)) return e;
  if (Error e = check_launch("summarise_rows", summarise_rows(target, stream))) return e;
  if (law == DraftLaw::logits) {
    if (Error e = index_sharded_rows(draft, {}, of_draft, stream)) return e;
    return check_launch("summarise_rows", summarise_rows(draft, stream));
  }
  if (law == DraftLaw::none || chain.drafts.draft_rows == 0) return {};
  if (chain.draft.rows.vocab > 0) {
    const View<const std::uint8_t> active{chain.drafts.of_draft.active, chain.draft.rows.rows};
    if (Error e = check_launch(
            "filter_rows",
            weigh_probabilities(chain.draft.rows, active, chain.draft_records, path, stream))) {
      return e;
    }
  }
  return check_launch("send_probability_rows", send_probability_rows(chain, stream));
}

/// What rows ask this shard.
Error ChainParts::answer(ShardedExchange exchange) const {
  if (target.rows() == 0) return {};
  if (Error e = check_launch("answer_rows", answer_rows(target, exchange, stream))) return e;
  if (!has_draft_rows(exchange)) return {};
  return check_launch("answer_rows", answer_rows(draft, exchange, stream));
}

Error ChainParts::merge(ShardedExchange exchange) const {
  if (target.rows() == 0) return {};
  if (Error e = check_launch("merge_rows", merge_rows(target, exchange, stream))) return e;
  if (has_draft_rows(exchange)) {
    return check_launch("merge_rows", merge_rows(draft, exchange, stream));
  }
  const bool has_probs = law == DraftLaw::probs && chain.drafts.draft_rows > 0;
  if (!has_probs || exchange != ShardedExchange::summary) return {};
  return check_launch("merge_probability_rows", merge_probability_rows(chain, stream));
}

Error ChainParts::make_block_of_tree(ChainExchange exchange) const {
  if (exchange == ChainExchange::weights) {
    return check_launch("weigh_trees", weigh_trees(tree, path, stream));
  }
  return check_launch("answer_trees", answer_trees(tree, path, stream));
}

Error ChainParts::make_block(ChainExchange exchange) const {
  if (is_tree && exchange > ChainExchange::tokens) return make_block_of_tree(exchange);
  switch (exchange) {
    case ChainExchange::summary:
      return send_summaries();
    case ChainExchange::threshold:
    case ChainExchange::tokens:
      return answer(static_cast<ShardedExchange>(exchange));
    case ChainExchange::weights:
      return check_launch("weigh_chains", weigh_chains(chain, path, stream));
    case ChainExchange::left:
      return check_launch("walk_sharded_chains", walk_sharded_chains(chain, path, stream));
    case ChainExchange::last:
      return check_launch("draw_last_tokens", draw_last_tokens(chain, path, stream));
  }
  return {};
}

Error ChainParts::take_blocks(ChainExchange exchange) const {
  if (exchange <= ChainExchange::tokens) return merge(static_cast<ShardedExchange>(exchange));
  if (!is_tree) return {};
  const bool begins = exchange == ChainExchange::weights;
  return check_launch("advance_trees", advance_trees(tree, begins, stream));
}

PeerGather ChainParts::gather(ChainExchange exchange) const {
  const ChainBlocks& moved = blocks[static_cast<int>(exchange)];
  return {peers, target.shards, target.shard, moved.send, moved.receive, moved.bytes};
}

Error sharded_send(const ShardedChain& call, ChainExchange exchange) {
  const ChainParts& parts = *call.parts_;
  if (parts.is_empty()) {
    return exchange == ChainExchange::summary ? decide_none(parts.target, parts.stream) : Error{};
  }
  if (call.bytes(exchange) == 0) return {};
  if (Error error = parts.make_block(exchange)) return error;
  if (!parts.peers.given()) return {};
  return check_launch("send_block", send_block(parts.gather(exchange), parts.stream));
}

Error sharded_receive(const ShardedChain& call, ChainExchange exchange) {
  const ChainParts& parts = *call.parts_;
  if (parts.is_empty() || call.bytes(exchange) == 0) return {};
  if (parts.peers.given()) {
    const cudaError_t received = receive_blocks(parts.gather(exchange), parts.stream);
    if (Error error = check_launch("receive_blocks", received)) return error;
  }
  return parts.take_blocks(exchange);
}

std::int64_t ChainParts::place_peers(std::int64_t most_rows, PeerBlocks& memory) const {
  memory.most_rows = most_rows;
  memory.flags_end = end_of_flags(target.shards, most_rows);
  std::int64_t half = 0;
  for (const ChainBlocks& moved : blocks) {
    half = std::max(half, bytes_of_half(moved.bytes, target.shards));
  }
  return bytes_with_halves(memory.flags_end, half);
}

std::int64_t peer_bytes(const ShardedChain& call, std::int64_t most_rows) {
  const ChainParts& parts = *call.parts_;
  PeerBlocks memory{};
  return parts.check_rows(most_rows) ? 0 : parts.place_peers(most_rows, memory);
}

Error use_peers(ShardedChain& call, const ShardedPeers& peers) {
  ChainParts& parts = *call.parts_;
  if (Error error = parts.check_rows(peers.most_rows)) return error;
  PeerBlocks memory{};
  const std::int64_t needed = parts.place_peers(peers.most_rows, memory);
  if (Error error = take_peers(peers, needed, parts.target.shards, memory)) return error;
  parts.peers = memory;
  return {};
}

Error continue_sharded(const ShardedChain& call, const ShardedPlan& plan) {
  if (Error error = needs_peers(call.parts_->peers)) return error;
  for (int number = 1; number < call.exchanges(plan.rounds); ++number) {
    const ChainExchange exchange = call.exchange(number, plan.rounds);
    if (exchange == ChainExchange::tokens && !plan.tokens) continue;
    if (Error error = sharded_send(call, exchange)) return error;
    if (Error error = sharded_receive(call, exchange)) return error;
  }
  return finish_sharded(call);
}

Error verify_sharded(const ShardedChain& call, const ShardedPlan& plan) {
  if (Error error = needs_peers(call.parts_->peers)) return error;
  if (Error error = sharded_send(call, ChainExchange::summary)) return error;
  if (Error error = sharded_receive(call, ChainExchange::summary)) return error;
  return continue_sharded(call, plan);
}

Error finish_sharded(const ShardedChain& call) {
  const ChainParts& parts = *call.parts_;
  if (parts.is_empty()) return {};
  if (parts.is_tree) {
    return check_launch("write_trees", write_trees(parts.tree, parts.tree_result, parts.stream));
  }
  return check_launch("write_chains", write_chains(parts.chain, parts.result, parts.stream));
}

}  // namespace fairdraw::cuda
