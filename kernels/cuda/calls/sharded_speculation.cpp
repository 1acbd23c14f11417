// Speculation over sharded rows on the GPU (fairdraw/cuda_sharded_speculation.h): checks, the
// layout of a call in its workspace, and which kernels an exchange is. The kernels are in sharded/.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "common/arguments.h"
#include "common/bump_allocator.h"
#include "common/speculative_arguments.h"
#include "cuda/calls/drafted_calls.h"
#include "cuda/calls/sample_rows.h"
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

/// A call that has been checked.
struct ChainParts {
  static constexpr int kChainExchanges = 6;

  ShardedChainTask chain{};
  ShardedTask target{};
  ProcessedColumns processed;  ///< of the target
  ShardedTask draft{};         ///< of the draft's logits
  TileSpread of_target, of_draft;
  DraftLaw law = DraftLaw::none;  ///< none, too, where no place for a draft is
  ChainBlocks blocks[kChainExchanges]{};
  PeerBlocks peers{};  ///< not given: the caller moves the blocks
  VerifyChainResult result;
  Path path{};
  cudaStream_t stream = nullptr;

  bool is_empty() const { return chain.drafts.target.batch == 0; }
  /// The draft's logits are rows of all exchanges but that of tokens. There are none without rows
  /// of the target.
  bool has_draft_rows(ShardedExchange exchange) const {
    return law == DraftLaw::logits && exchange != ShardedExchange::tokens;
  }
  ChainBlocks& at(ChainExchange exchange) { return blocks[static_cast<int>(exchange)]; }
  /// A call has a flag at least: requests without rows have results, too.
  Error check_rows(std::int64_t most_rows) const {
    return check_most_rows(most_rows, std::max<std::int64_t>(target.rows(), 1));
  }
  /// Bytes of a memory of peers.
  std::int64_t place_peers(std::int64_t most_rows, PeerBlocks& memory) const;

  Error send_summaries() const;
  Error answer(ShardedExchange exchange) const;
  Error merge(ShardedExchange exchange) const;
  /// This rank's block, in the workspace; and what is made of those of all.
  Error make_block(ChainExchange exchange) const;
  Error take_blocks(ChainExchange exchange) const;
  PeerGather gather(ChainExchange exchange) const;
};

struct ShardedChain::Parts : ChainParts {};

namespace {

using sharded::ArraysLie;

/// What the CPU has and this does not.
Error check_supported(const ShardedChainRequest& request) {
  const std::int64_t shards = request.boundaries.size - 1;
  if (shards > kMaxDeviceShards) {
    return {ErrorCode::unsupported, "shards is " + std::to_string(shards) + "; allowed: 1 to " +
                                        std::to_string(kMaxDeviceShards) + " on GPUs"};
  }
  return {};
}

DraftLaw law_of(const VerifyChainRequest& request) {
  return request.draft_tokens.size > 0 ? request.draft_law : DraftLaw::none;
}

Error check_chain_of_shard(const ShardedChainRequest& request, const VerifyChainResult& result) {
  if (Error error = sharded::check_speculation(request, result)) return error;
  if (Error error = check_sizes(request.chain.target)) return error;
  if (law_of(request.chain) != DraftLaw::none) {
    if (Error error = check_batch(request.chain.draft, "draft")) return error;
  }
  return check_supported(request);
}

Error check_pointers(const ShardedChainRequest& request, const VerifyChainResult& result,
                     const Execution& execution) {
  const VerifyChainRequest& chain = request.chain;
  TargetRows target = chain.target;
  const bool has_columns = target.logits.vocab > 0;
  if (!has_columns) {
    target.logits.rows = 0;
    target.allowed = {};
    target.processing = processing_of_columns(rows_of(chain.target));
  }
  DevicePointers pointers;
  check_target(pointers, target);
  pointers.check("draft_tokens", chain.draft_tokens);
  pointers.check("draft_lengths", chain.draft_lengths);
  if (law_of(chain) != DraftLaw::none) {
    if (has_columns) pointers.check("draft", chain.draft);
    check_filters(pointers, chain.draft_filters, "draft_filters.");
  }
  pointers.check("tokens", result.tokens);
  pointers.check("accepted", result.accepted);
  pointers.check("statuses", result.statuses);
  pointers.check_workspace(execution, workspace_bytes(request, result), chain.target.batch);
  return pointers.error();
}

/// The rows of one side, as a sharded call has them. Parameters that are arrays are a request's:
/// what matters here is that they are.
ShardedRequest rows_of_side(const ShardedChainRequest& request, const SampleRequest& rows,
                            const LawFilters& filters) {
  ShardedRequest side;
  side.rows = rows;
  side.rows.temperature = filters.temperature;
  side.rows.top_k = filters.top_k;
  side.rows.top_p = filters.top_p;
  side.rows.min_p = filters.min_p;
  side.rows.tie_rule = filters.tie_rule;
  side.rows.filter_order = filters.filter_order;
  side.rows.seed = std::uint64_t{0};  // words are given, or nothing is drawn
  side.boundaries = request.boundaries;
  side.shard = request.shard;
  return side;
}

/// Each row's own parameters in place of its request's.
void use_settings(const RowSettings& settings, ShardedTask& task) {
  const auto use = [n = task.rows()](auto& parameter, const auto* of_rows) {
    if (parameter.is_array()) parameter = {of_rows, n};
  };
  use(task.temperature, settings.temperature);
  use(task.top_k, settings.top_k);
  use(task.top_p, settings.top_p);
  use(task.min_p, settings.min_p);
  task.active = {settings.active, task.rows()};
}

FilteredRows filtered(const RowsView& rows, const PerRequest<float>& temperature,
                      const BitRows<const std::uint32_t>& allowed, const RowRecord* records) {
  FilteredRows filtered;
  filtered.rows = rows;
  filtered.temperature = temperature;
  filtered.allowed = allowed;
  filtered.records = records;
  return filtered;
}

/// The call's arrays in a workspace, or what they take.
class ChainLayout {
 public:
  ChainLayout(const ShardedChainRequest& request, BumpAllocator& memory)
      : request_(request), chain_(request.chain), memory_(memory) {}

  void place(ChainParts& parts) {
    parts.law = law_of(chain_);
    place_requests(parts.chain);
    place_target(parts);
    if (parts.law == DraftLaw::logits) place_draft(parts.chain, parts.draft, parts.target);
    if (parts.law != DraftLaw::none) place_distributions(parts);
    place_blocks(parts);
    parts.chain.target = filtered(parts.target.columns, parts.target.temperature,
                                  parts.target.allowed, parts.target.records);
    parts.chain.shards = parts.target.shards;
    parts.chain.shard = parts.target.shard;
    parts.chain.begin = parts.target.parts[parts.target.shard].begin;
  }

 private:
  std::int64_t target_rows() const { return chain_.target.logits.rows; }
  std::int64_t places() const { return chain_.draft_tokens.size; }

  void place_requests(ShardedChainTask& task) {
    DraftTask& drafts = task.drafts;
    const DraftLaw law = law_of(chain_);
    drafts.target = chain_.target;
    drafts.target.logits.vocab = request_.boundaries.data[request_.boundaries.size - 1];
    drafts.drafts = {chain_.max_draft, chain_.draft_tokens, chain_.draft_lengths};
    drafts.draft_law = law;
    drafts.draft_filters = chain_.draft_filters;
    memory_.allocate(drafts.requests, chain_.target.batch);
    drafts.of_target = place_settings(memory_, target_rows());
    memory_.allocate(drafts.draws.words, target_rows());
    memory_.allocate(drafts.draws.owner, target_rows());
    memory_.allocate(drafts.draws.tokens, target_rows());
    if (law == DraftLaw::none) return;
    drafts.draft_rows = places();
    drafts.of_draft = place_settings(memory_, places());
    memory_.allocate(task.ends, chain_.target.batch);
  }

  /// A row's token is drawn where its request follows the target's tokens; where it does not, the
  /// token is drawn too, and not looked at.
  void place_target(ChainParts& parts) {
    const ShardedChainTask& chain = parts.chain;
    ShardedTask& task = parts.target;
    SampleResult result;
    static std::int32_t no_token;  // says that tokens are wanted
    result.tokens = {&no_token, target_rows()};
    place_sharded_rows(rows_of_side(request_, rows_of(chain_.target), chain_.target.filters),
                       result, task, parts.processed, memory_);
    memory_.allocate(task.records, target_rows());
    use_settings(chain.drafts.of_target, task);
    parts.processed.edits.active = task.active;
    task.words = chain.drafts.draws.words;
    task.tokens = chain.drafts.draws.tokens;
  }

  void place_draft(ShardedChainTask& chain, ShardedTask& task, const ShardedTask& target) {
    SampleRequest rows;
    rows.logits = chain_.draft;
    ProcessedColumns none;
    place_sharded_rows(rows_of_side(request_, rows, chain_.draft_filters), {}, task, none, memory_);
    memory_.allocate(task.records, places());
    use_settings(chain.drafts.of_draft, task);
    task.undecided = target.undecided;
  }

  void place_distributions(ChainParts& parts) {
    ShardedChainTask& task = parts.chain;
    if (parts.law == DraftLaw::probs) {
      memory_.allocate(task.draft_records, places());
      task.draft = filtered(chain_.draft, 1.0F, {}, task.draft_records);
      task.draft.from_probs = true;
    } else {
      task.draft = filtered(chain_.draft, parts.draft.temperature, {}, parts.draft.records);
    }
  }

  /// The target's rows come first in the blocks that rows share.
  void place_blocks(ChainParts& parts) {
    constexpr std::int64_t kAlignment = 16;
    for (int number = 0; number <= static_cast<int>(ShardedExchange::tokens); ++number) {
      const auto exchange = static_cast<ShardedExchange>(number);
      const std::int64_t of_target =
          (parts.target.bytes[number] + kAlignment - 1) / kAlignment * kAlignment;
      std::int64_t bytes = of_target;
      const bool has_probs = parts.law == DraftLaw::probs && exchange == ShardedExchange::summary;
      if (parts.has_draft_rows(exchange)) bytes += parts.draft.bytes[number];
      if (has_probs) bytes += places() * static_cast<std::int64_t>(sizeof(ProbabilityPart));
      const ChainBlocks blocks = place_blocks_of(static_cast<ChainExchange>(number), bytes, parts);
      const auto use = [&blocks, number](ShardedTask& task, std::int64_t at) {
        task.send[number] = behind(blocks.send, at);
        task.receive[number] = behind(blocks.receive, at);
        task.bytes[number] = blocks.bytes;  // from one shard's to the next
      };
      use(parts.target, 0);
      if (parts.has_draft_rows(exchange)) use(parts.draft, of_target);
      if (has_probs) {
        parts.chain.probs = {behind(blocks.send, of_target), behind(blocks.receive, of_target),
                             bytes};
      }
    }
    if (parts.law == DraftLaw::none) return;
    const std::int64_t batch = chain_.target.batch;
    parts.chain.weights =
        place_blocks_of(ChainExchange::weights,
                        target_rows() * static_cast<std::int64_t>(sizeof(RowWeights)), parts);
    parts.chain.left = place_blocks_of(
        ChainExchange::left, batch * static_cast<std::int64_t>(sizeof(sharded::Sum128)), parts);
    parts.chain.last = place_blocks_of(
        ChainExchange::last, batch * static_cast<std::int64_t>(sizeof(std::int32_t)), parts);
  }
  /// Null where only bytes are counted.
  static std::byte* behind(std::byte* blocks, std::int64_t at) {
    return blocks == nullptr ? nullptr : blocks + at;
  }
  ChainBlocks place_blocks_of(ChainExchange exchange, std::int64_t bytes, ChainParts& parts) {
    ChainBlocks& blocks = parts.at(exchange);
    blocks.bytes = bytes;
    memory_.allocate(blocks.send, bytes);
    memory_.allocate(blocks.receive, parts.target.shards * bytes);
    return blocks;
  }

  const ShardedChainRequest& request_;
  const VerifyChainRequest& chain_;
  BumpAllocator& memory_;
};

Error find_spread(const ShardedTask& task, Path path, TileSpread& spread) {
  if (task.rows() == 0 || task.whole.vocab == 0) return {};
  return check_call("best_spread", best_spread(task.whole, path, spread));
}

}  // namespace

std::int64_t workspace_bytes(const ShardedChainRequest& request,
                             const VerifyChainResult& result) noexcept {
  if (check_chain_of_shard(request, result)) return 0;
  BumpAllocator memory(nullptr);
  ChainParts parts;
  ChainLayout(request, memory).place(parts);
  return memory.bytes();
}

ShardedChain::ShardedChain() = default;
ShardedChain::~ShardedChain() = default;
ShardedChain::ShardedChain(ShardedChain&&) noexcept = default;
ShardedChain& ShardedChain::operator=(ShardedChain&&) noexcept = default;

int ShardedChain::exchanges(int rounds) const {
  return rounds + (parts_->law == DraftLaw::none ? 2 : 5);
}
std::byte* ShardedChain::send(ChainExchange exchange) const { return parts_->at(exchange).send; }
std::byte* ShardedChain::receive(ChainExchange exchange) const {
  return parts_->at(exchange).receive;
}
std::int64_t ShardedChain::bytes(ChainExchange exchange) const {
  return parts_->at(exchange).bytes;
}
const std::int32_t* ShardedChain::undecided() const { return parts_->target.undecided; }

Error make_sharded_chain(const ShardedChainRequest& request, const VerifyChainResult& result,
                         const Execution& execution, ShardedChain& call) {
  if (Error error = check_chain_of_shard(request, result)) return error;
  Path path = execution.path;
  if (Error error = check_path(path)) return error;
  if (Error error = check_pointers(request, result, execution)) return error;
  auto parts = std::make_unique<ShardedChain::Parts>();
  BumpAllocator memory(execution.workspace);
  ChainLayout(request, memory).place(*parts);
  parts->target.fingerprint = parts->draft.fingerprint =
      sharded::fingerprint_of(sharded::call_of(request, result), ArraysLie::on_device);
  parts->result = result;
  parts->path = path;
  parts->stream = stream_of(execution);
  if (Error error = find_spread(parts->target, path, parts->of_target)) return error;
  if (parts->law == DraftLaw::logits) {
    if (Error error = find_spread(parts->draft, path, parts->of_draft)) return error;
  }
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
  if (law == DraftLaw::none) return {};
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
  if (law != DraftLaw::probs || exchange != ShardedExchange::summary) return {};
  return check_launch("merge_probability_rows", merge_probability_rows(chain, stream));
}

Error ChainParts::make_block(ChainExchange exchange) const {
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
  if (exchange > ChainExchange::tokens) return {};
  return merge(static_cast<ShardedExchange>(exchange));
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
    const ChainExchange exchange = chain_exchange(number, plan.rounds);
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
  return check_launch("write_chains", write_chains(parts.chain, parts.result, parts.stream));
}

}  // namespace fairdraw::cuda
