#include "cuda/calls/sharded_drafts.h"

#include <algorithm>

#include "common/speculative_arguments.h"
#include "cuda/calls/drafted_calls.h"

namespace fairdraw::cuda {
namespace {

using sharded::SpeculationCall;

/// The rows of one side, as a sharded call has them. Parameters that are arrays are a request's:
/// what matters here is that they are.
ShardedRequest rows_of_side(const SpeculationCall& call, const SampleRequest& rows,
                            const LawFilters& filters, TileInput input) {
  ShardedRequest side;
  side.rows = rows;
  side.rows.temperature = filters.temperature;
  side.rows.top_k = filters.top_k;
  side.rows.top_p = filters.top_p;
  side.rows.min_p = filters.min_p;
  side.rows.tie_rule = filters.tie_rule;
  side.rows.filter_order = filters.filter_order;
  side.rows.seed = std::uint64_t{0};  // words are given, or nothing is drawn
  side.input = input;
  side.boundaries = call.boundaries;
  side.shard = call.shard;
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
  ChainLayout(const SpeculationCall& call, BumpAllocator& memory) : call_(call), memory_(memory) {}

  void place(ChainParts& parts) {
    parts.is_tree = call_.is_tree;
    parts.law = law_of(call_);
    place_requests(parts.chain);
    if (call_.is_tree) place_walks(parts.tree);
    place_target(parts);
    if (parts.law == DraftLaw::logits) place_draft(parts.chain, parts.draft, parts.target);
    if (parts.law != DraftLaw::none) place_distributions(parts);
    place_blocks(parts);
    parts.chain.target = filtered(parts.target.columns, parts.target.temperature,
                                  parts.target.allowed, parts.target.records);
    parts.chain.target.from_probs = parts.target.from_probs;
    parts.chain.shards = parts.target.shards;
    parts.chain.shard = parts.target.shard;
    parts.chain.begin = parts.target.parts[parts.target.shard].begin;
  }

 private:
  std::int64_t target_rows() const { return call_.target.logits.rows; }
  std::int64_t places() const { return call_.draft_tokens.size; }
  std::int64_t draft_rows() const { return call_.is_tree ? target_rows() : places(); }

  void place_requests(ShardedChainTask& task) {
    DraftTask& drafts = task.drafts;
    const DraftLaw law = law_of(call_);
    drafts.target = call_.target;
    drafts.target.logits.vocab = call_.boundaries.data[call_.boundaries.size - 1];
    drafts.drafts = {call_.max_draft, call_.draft_tokens, call_.draft_lengths};
    drafts.draft_law = law;
    drafts.tests_all = call_.tests_all;
    task.accept_words = call_.accept_words.data;
    task.recover_words = call_.recover_words.data;
    task.bonus_words = call_.bonus_words.data;
    task.emitted = call_.emitted.data;
    drafts.draft_filters = call_.draft_filters;
    memory_.allocate(drafts.requests, call_.target.batch);
    drafts.of_target = place_settings(memory_, target_rows());
    memory_.allocate(drafts.draws.words, target_rows());
    memory_.allocate(drafts.draws.owner, target_rows());
    memory_.allocate(drafts.draws.tokens, target_rows());
    if (call_.is_tree) {
      drafts.parents = call_.parents;
      drafts.siblings = call_.siblings;
      drafts.max_depth = call_.max_depth;
      memory_.allocate(drafts.depths, std::max<std::int64_t>(places(), 1));
    }
    if (law == DraftLaw::none) return;
    if (call_.is_tree) memory_.allocate(drafts.children, target_rows());
    drafts.draft_rows = draft_rows();
    drafts.of_draft = place_settings(memory_, draft_rows());
    if (!call_.is_tree) memory_.allocate(task.ends, call_.target.batch);
  }

  void place_walks(ShardedTreeTask& tree) {
    memory_.allocate(tree.paths, call_.target.batch * call_.max_depth);
    if (law_of(call_) == DraftLaw::none) return;
    memory_.allocate(tree.walks, call_.target.batch);
    tree.scales =
        reinterpret_cast<Scales*>(memory_.allocate<std::byte>(call_.target.batch * scales_bytes()));
  }

  /// A row's token is drawn where its request follows the target's tokens; where it does not, the
  /// token is drawn too, and not looked at.
  void place_target(ChainParts& parts) {
    const ShardedChainTask& chain = parts.chain;
    ShardedTask& task = parts.target;
    SampleResult result;
    static std::int32_t no_token;  // says that tokens are wanted
    if (!call_.tests_all) result.tokens = {&no_token, target_rows()};
    place_sharded_rows(
        rows_of_side(call_, rows_of(call_.target), call_.target.filters, call_.target_input),
        result, task, parts.processed, memory_);
    memory_.allocate(task.records, target_rows());
    use_settings(chain.drafts.of_target, task);
    parts.processed.edits.active = task.active;
    task.words = chain.drafts.draws.words;
    task.tokens = chain.drafts.draws.tokens;
  }

  void place_draft(ShardedChainTask& chain, ShardedTask& task, const ShardedTask& target) {
    SampleRequest rows;
    rows.logits = call_.draft;
    ProcessedColumns none;
    place_sharded_rows(rows_of_side(call_, rows, call_.draft_filters, TileInput::logits), {}, task,
                       none, memory_);
    memory_.allocate(task.records, draft_rows());
    use_settings(chain.drafts.of_draft, task);
    task.undecided = target.undecided;
  }

  void place_distributions(ChainParts& parts) {
    ShardedChainTask& task = parts.chain;
    if (parts.law == DraftLaw::probs) {
      memory_.allocate(task.draft_records, draft_rows());
      task.draft = filtered(call_.draft, 1.0F, {}, task.draft_records);
      task.draft.from_probs = true;
    } else {
      task.draft = filtered(call_.draft, parts.draft.temperature, {}, parts.draft.records);
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
      if (has_probs) bytes += draft_rows() * static_cast<std::int64_t>(sizeof(ProbabilityPart));
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
    const std::int64_t batch = call_.target.batch;
    parts.chain.weights =
        place_blocks_of(ChainExchange::weights,
                        target_rows() * static_cast<std::int64_t>(sizeof(RowWeights)), parts);
    static_assert(sizeof(TreeAnswer) == sizeof(sharded::Sum128));
    parts.chain.left = place_blocks_of(
        ChainExchange::left, batch * static_cast<std::int64_t>(sizeof(sharded::Sum128)), parts);
    if (call_.is_tree) return;
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

  const SpeculationCall& call_;
  BumpAllocator& memory_;
};

}  // namespace

DraftLaw law_of(const sharded::SpeculationCall& call) {
  if (call.tests_all) return DraftLaw::probs;
  return call.draft_tokens.size > 0 ? call.draft_law : DraftLaw::none;
}

void place_drafts(const sharded::SpeculationCall& call, BumpAllocator& memory, ChainParts& parts) {
  ChainLayout(call, memory).place(parts);
}

}  // namespace fairdraw::cuda
