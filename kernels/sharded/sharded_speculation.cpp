// Speculation in shards (fairdraw/sharded_speculation.h): the rows' exchanges, the weights of nodes
// and drafted tokens, and the walks of all requests, question by question.
#include "fairdraw/sharded_speculation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/arguments.h"
#include "common/speculative_arguments.h"
#include "cpu/batch.h"
#include "cpu/drafted_requests.h"
#include "sharded/call_blocks.h"
#include "sharded/call_layout.h"
#include "sharded/drafted_walk.h"
#include "sharded/row_exchange.h"
#include "sharded/speculation_call.h"

namespace fairdraw {

using sharded::CallBlocks;
using sharded::CallRules;
using sharded::DraftedWalk;
using sharded::MergedRow;
using sharded::NodeWeights;
using sharded::RowExchange;
using sharded::RowInCall;
using sharded::SpeculationCall;
using sharded::WeightPair;
using Asks = DraftedWalk::Asks;

namespace {

/// Of a row (speculative.h), and so of all sums in it.
constexpr std::uint64_t kLargestSum = std::uint64_t{1} << 60;

constexpr std::int64_t kNoRow = -1;

}  // namespace

class ShardedSpeculation::Call {
 public:
  template <class Request, class Result>
  Error begin(const Request& request, const Result& result, const Execution& execution) {
    if (Error error = cpu::check_execution(execution)) return error;
    if (Error error = sharded::check_speculation(request, result)) return error;
    call_ = sharded::call_of(request, result);
    execution_ = execution;
    start();
    return {};
  }
  Error receive(const std::byte* blocks);
  bool done() const { return phase_ == Phase::done; }
  const CallBlocks& blocks() const { return blocks_; }

 private:
  enum class Phase { rows, weights, walk, done };

  /// One request.
  struct Path final : sharded::DraftedRequestView {
    const Call* call = nullptr;
    std::int64_t b = 0;
    RowStatus status = RowStatus::ok;
    DraftedRequest request;
    bool by_distribution = false;
    std::int64_t first_target = 0;         // of the exchange of the target's rows: the root's
    std::vector<std::int64_t> draft_rows;  // of the draft's, by node + 1; kNoRow: none is needed
    std::optional<DraftedWalk> walk;
    std::vector<WeightPair> sums;  // answers, by shard
    std::size_t at = 0;            // of what it asks, in the block
    bool adds_up = true;

    // Of paths by draw; of others those of the walk.
    std::vector<std::int32_t> accepted;
    std::int32_t last_token = -1;
    std::int32_t tests_passed = 0;  // of tests_all

    std::int64_t nodes() const { return request.drafts + 1; }
    std::int64_t drafts() const override { return request.drafts; }
    std::int32_t token(std::int64_t draft) const override {
      return call->call_.draft_tokens.data[request.place + draft];
    }
    std::int64_t parent(std::int64_t draft) const override {
      return call->call_.is_tree ? call->call_.parents.data[request.place + draft] : draft - 1;
    }
    const MergedRow& target(std::int64_t node) const {
      return call->target_.merged(first_target + node + 1);
    }
    RowStatus target_status(std::int64_t node) const override { return target(node).status(); }
    RowStatus draft_status(std::int64_t node) const override {
      return call->draft_.merged(draft_rows[static_cast<std::size_t>(node + 1)]).status();
    }
    std::uint64_t word(std::int64_t depth, Purpose purpose, std::uint32_t sibling) const override;
    bool is_walked() const { return status == RowStatus::ok && by_distribution; }
    std::size_t bytes_of_weights() const {
      return static_cast<std::size_t>(nodes() + drafts()) * sizeof(WeightPair);
    }
    std::size_t bytes_of_question() const {
      if (!walk || walk->asks() == Asks::nothing) return 0;
      return walk->asks() == Asks::sums ? sizeof(WeightPair) : sizeof(std::int32_t);
    }
  };

  std::int64_t batch() const { return call_.target.batch; }
  std::int64_t shards() const { return target_rules_.partition.shards(); }
  std::int64_t vocab_begin() const {
    return target_rules_.partition.columns(static_cast<int>(call_.shard)).begin;
  }
  Path& path(std::int64_t b) { return paths_[static_cast<std::size_t>(b)]; }
  template <class Work>
  void for_each_path(const Work& work) {
    cpu::for_each_row(batch(), execution_,
                      [&](std::int64_t b, cpu::Worker& worker) { work(path(b), worker); });
  }

  void start();
  void begin_path(std::int64_t b, std::vector<RowInCall>& target, std::vector<RowInCall>& draft);
  void write_rows();
  void take_rows(const std::byte* blocks);
  void after_rows();
  void check_all_rows(Path& path) const;
  void walk_by_draw(Path& path) const;
  void start_weights();
  void write_weights(const Path& path, cpu::Worker& worker, std::byte* part) const;
  Error take_weights(const std::byte* blocks);
  void count_tests(Path& path, const std::vector<NodeWeights>& nodes,
                   const std::vector<WeightPair>& tokens) const;
  void weigh_node(const Path& path, std::int64_t node, cpu::Worker& worker,
                  cpu::DistributionWeights& target, cpu::DistributionWeights& draft) const;
  Error go_on();
  void ask();
  void write_answer(const Path& path, cpu::Worker& worker, std::byte* part) const;
  Error take_answers(const std::byte* blocks);
  void write_results();

  SpeculationCall call_;
  Execution execution_;
  TargetRows whole_;  // the target, with the whole vocabulary
  std::optional<cpu::DraftedRequests> requests_;
  CallRules target_rules_, draft_rules_;
  CallBlocks blocks_;
  RowExchange target_, draft_;
  std::vector<Path> paths_;
  Phase phase_ = Phase::rows;
};

// --- Rows
// -----------------------------------------------------------------------------------------

std::uint64_t ShardedSpeculation::Call::Path::word(std::int64_t depth, Purpose purpose,
                                                   std::uint32_t sibling) const {
  const SpeculationCall& given = call->call_;
  if (given.bonus_words.given()) {
    if (purpose == Purpose::bonus) return given.bonus_words.data[b];
    const View<const std::uint64_t>& words =
        purpose == Purpose::accept ? given.accept_words : given.recover_words;
    return words.data[b * given.max_draft + depth];
  }
  return call->requests_->word(b, depth, purpose, sibling);
}

void ShardedSpeculation::Call::start() {
  const bool has_law = call_.draft_law != DraftLaw::none;
  const TileInput draft_input =
      call_.draft_law == DraftLaw::probs ? TileInput::probs : TileInput::logits;
  const LawFilters draft_filters =
      call_.draft_law == DraftLaw::logits ? call_.draft_filters : LawFilters{};
  target_rules_ = sharded::rules_of_survivors(call_.boundaries, call_.target_input,
                                              call_.target.filters, batch());
  draft_rules_ = sharded::rules_of_survivors(call_.boundaries, draft_input, draft_filters,
                                             has_law ? batch() : 0);
  sharded::use(execution_.target, target_rules_);
  sharded::use(execution_.target, draft_rules_);
  whole_ = call_.target;
  whole_.logits.vocab = target_rules_.partition.vocab();
  requests_.emplace(whole_, call_.max_draft, call_.draft_tokens, call_.draft_lengths);

  paths_.resize(static_cast<std::size_t>(batch()));
  std::vector<RowInCall> target, draft;
  for (std::int64_t b = 0; b < batch(); ++b) begin_path(b, target, draft);
  SampleRequest draft_rows;
  draft_rows.logits = call_.draft;
  target_.begin(rows_of(call_.target), target_rules_, call_.shard, execution_, std::move(target));
  draft_.begin(draft_rows, draft_rules_, call_.shard, execution_, std::move(draft));
  blocks_.begin(static_cast<int>(shards()), sharded::fingerprint_of(call_));
  write_rows();
}

/// Finds a request, and adds the rows that it needs.
void ShardedSpeculation::Call::begin_path(std::int64_t b, std::vector<RowInCall>& target,
                                          std::vector<RowInCall>& draft) {
  Path& path = this->path(b);
  path.call = this;
  path.b = b;
  path.status = requests_->find(b, path.request);
  const DraftedRequest& request = path.request;
  if (path.status == RowStatus::ok && call_.is_tree) {
    path.status = cpu::check_tree(call_.parents.data + request.place, request.drafts,
                                  call_.max_depth, call_.draft_law != DraftLaw::none);
  }
  if (path.status != RowStatus::ok) return;
  path.by_distribution = call_.tests_all || (call_.draft_law != DraftLaw::none &&
                                             request.drafts > 0 && !requests_->is_greedy(b));
  path.first_target = static_cast<std::int64_t>(target.size());
  path.draft_rows.assign(static_cast<std::size_t>(path.nodes()), kNoRow);
  std::vector<std::int64_t> depths(static_cast<std::size_t>(path.nodes()), 0);
  for (std::int64_t node = -1; node < request.drafts; ++node) {
    std::int64_t& depth = depths[static_cast<std::size_t>(node + 1)];
    if (node >= 0) depth = depths[static_cast<std::size_t>(path.parent(node) + 1)] + 1;
    RowInCall& row = target.emplace_back();
    row.row = request.row + node + 1;
    row.parameters = cpu::parameters_of(call_.target.filters, b);
    if (!path.by_distribution) row.words = {requests_->word(b, depth, Purpose::draw)};
    if (node < 0 || !path.by_distribution) continue;
    std::int64_t& of_parent = path.draft_rows[static_cast<std::size_t>(path.parent(node) + 1)];
    if (of_parent != kNoRow) continue;
    of_parent = static_cast<std::int64_t>(draft.size());
    RowInCall& drafted = draft.emplace_back();
    drafted.row = (call_.is_tree ? request.row : request.place) + path.parent(node) + 1;
    if (call_.draft_law == DraftLaw::logits) {
      drafted.parameters = cpu::parameters_of(call_.draft_filters, b);
    }
  }
}

void ShardedSpeculation::Call::write_rows() {
  const std::size_t of_target = target_.bytes();
  std::byte* part = blocks_.start(of_target + draft_.bytes());
  target_.write(part);
  draft_.write(part + of_target);
}

void ShardedSpeculation::Call::take_rows(const std::byte* blocks) {
  const std::size_t of_target = target_.bytes();
  const bool has_draft = draft_.bytes() > 0;
  if (of_target > 0) target_.take(blocks_.parts(blocks));
  if (has_draft) draft_.take(blocks_.parts(blocks, of_target));
  if (target_.bytes() + draft_.bytes() > 0) {
    write_rows();
  } else {
    after_rows();
  }
}

void ShardedSpeculation::Call::after_rows() {
  bool any_walks = false;
  for_each_path([this](Path& path, cpu::Worker&) {
    if (path.status != RowStatus::ok) return;
    if (call_.tests_all) check_all_rows(path);
    if (!path.by_distribution) walk_by_draw(path);
  });
  for (const Path& path : paths_) any_walks = any_walks || path.is_walked();
  any_walks ? start_weights() : write_results();
}

/// The first bad row, position by position, the draft's before the target's.
void ShardedSpeculation::Call::check_all_rows(Path& path) const {
  for (std::int64_t node = -1; node < path.drafts() && path.status == RowStatus::ok; ++node) {
    if (node + 1 < path.drafts()) path.status = path.draft_status(node);
    if (path.status == RowStatus::ok) path.status = path.target_status(node);
  }
}

/// The target's token is drawn at each node, and looked for among its children.
void ShardedSpeculation::Call::walk_by_draw(Path& path) const {
  for (std::int64_t node = -1;;) {
    const MergedRow& row = path.target(node);
    if (row.status() != RowStatus::ok) {
      path.status = row.status();
      return;
    }
    path.last_token = row.tokens().front().id;
    std::int64_t child = node + 1;
    while (child < path.drafts() &&
           (path.parent(child) != node || path.token(child) != path.last_token)) {
      ++child;
    }
    if (child == path.drafts()) return;
    path.accepted.push_back(static_cast<std::int32_t>(child));
    node = child;
  }
}

// --- Weights
// --------------------------------------------------------------------------------------

void ShardedSpeculation::Call::start_weights() {
  phase_ = Phase::weights;
  std::size_t bytes = 0;
  for (Path& path : paths_) {
    path.at = bytes;
    if (path.is_walked()) bytes += path.bytes_of_weights();
  }
  std::byte* part = blocks_.start(bytes);
  for_each_path([this, part](Path& path, cpu::Worker& worker) {
    if (path.is_walked()) write_weights(path, worker, part + path.at);
  });
}

/// This shard's weights of a node; none of a row that is not ok, or that no child needs.
void ShardedSpeculation::Call::weigh_node(const Path& path, std::int64_t node, cpu::Worker& worker,
                                          cpu::DistributionWeights& target,
                                          cpu::DistributionWeights& draft) const {
  const auto weigh = [&worker](const RowExchange& rows, std::int64_t row,
                               cpu::DistributionWeights& weights) {
    weights.total = 0;
    if (row == kNoRow || rows.merged(row).status() != RowStatus::ok) return false;
    rows.shard_row(row, worker).weigh(rows.merged(row), weights);
    return true;
  };
  const auto columns = static_cast<std::size_t>(call_.target.logits.vocab);
  target.make_room(columns);
  draft.make_room(columns);
  if (!weigh(target_, path.first_target + node + 1, target)) {
    std::fill_n(target.weight.begin(), columns, std::uint64_t{0});
  }
  if (!weigh(draft_, path.draft_rows[static_cast<std::size_t>(node + 1)], draft)) {
    std::fill_n(draft.weight.begin(), columns, std::uint64_t{0});
  }
}

namespace {

/// What a thread weighs nodes with.
struct NodeBuffers {
  cpu::DistributionWeights target, draft;
};

NodeBuffers& node_buffers() {
  thread_local NodeBuffers buffers;
  return buffers;
}

}  // namespace

void ShardedSpeculation::Call::write_weights(const Path& path, cpu::Worker& worker,
                                             std::byte* part) const {
  NodeBuffers& buffers = node_buffers();
  const auto nodes = static_cast<std::size_t>(path.nodes());
  for (std::int64_t node = -1; node < path.drafts(); ++node) {
    weigh_node(path, node, worker, buffers.target, buffers.draft);
    sharded::write_at(part, WeightPair{buffers.target.total, buffers.draft.total},
                      static_cast<std::size_t>(node + 1));
    for (std::int64_t child = node + 1; child < path.drafts(); ++child) {
      if (path.parent(child) != node) continue;
      const std::int64_t column = path.token(child) - vocab_begin();
      if (column < 0 || column >= call_.target.logits.vocab) continue;
      const auto at = static_cast<std::size_t>(column);
      sharded::write_at(part, WeightPair{buffers.target.weight[at], buffers.draft.weight[at]},
                        nodes + static_cast<std::size_t>(child));
    }
  }
}

Error ShardedSpeculation::Call::take_weights(const std::byte* blocks) {
  for_each_path([&](Path& path, cpu::Worker&) {
    if (!path.is_walked()) return;
    const std::vector<const std::byte*> parts = blocks_.parts(blocks, path.at);
    std::vector<NodeWeights> nodes(static_cast<std::size_t>(path.nodes()));
    std::vector<WeightPair> tokens(static_cast<std::size_t>(path.drafts()));
    for (const std::byte* part : parts) {
      for (std::size_t node = 0; node < nodes.size(); ++node) {
        const auto of_shard = sharded::read_at<WeightPair>(part, node);
        path.adds_up =
            path.adds_up && of_shard.target <= kLargestSum && of_shard.draft <= kLargestSum;
        nodes[node].target_by_shard.push_back(of_shard.target);
        nodes[node].target += of_shard.target;
        nodes[node].draft += of_shard.draft;
      }
      for (std::size_t token = 0; token < tokens.size(); ++token) {
        const auto of_shard = sharded::read_at<WeightPair>(part, nodes.size() + token);
        tokens[token].target += of_shard.target;
        tokens[token].draft += of_shard.draft;
      }
    }
    for (std::size_t token = 0; token < tokens.size(); ++token) {
      const auto parent = path.parent(static_cast<std::int64_t>(token));
      const NodeWeights& node = nodes[static_cast<std::size_t>(parent + 1)];
      path.adds_up = path.adds_up && node.target <= kLargestSum && node.draft <= kLargestSum &&
                     tokens[token].target <= node.target && tokens[token].draft <= node.draft;
    }
    if (!path.adds_up) return;
    if (call_.tests_all) count_tests(path, nodes, tokens);
    path.walk.emplace(path, call_.siblings, !call_.tests_all, std::move(nodes), std::move(tokens));
    path.walk->advance();
  });
  return go_on();
}

/// Each draft by its own test, as if the chain had got there.
void ShardedSpeculation::Call::count_tests(Path& path, const std::vector<NodeWeights>& nodes,
                                           const std::vector<WeightPair>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint64_t word = path.word(static_cast<std::int64_t>(i), Purpose::accept, 0);
    const bool passes =
        cpu::accepts(tokens[i].target, nodes[i].target, tokens[i].draft, nodes[i].draft, word);
    path.tests_passed += passes ? 1 : 0;
  }
}

// --- Walks
// ----------------------------------------------------------------------------------------

/// The block of what the walks ask, or the results.
void ShardedSpeculation::Call::ask() {
  phase_ = Phase::walk;
  std::size_t bytes = 0;
  for (Path& path : paths_) {
    path.at = bytes;
    bytes += path.bytes_of_question();
  }
  if (bytes == 0) {
    write_results();
    return;
  }
  std::byte* part = blocks_.start(bytes);
  for_each_path([this, part](Path& path, cpu::Worker& worker) {
    if (path.bytes_of_question() > 0) write_answer(path, worker, part + path.at);
  });
}

void ShardedSpeculation::Call::write_answer(const Path& path, cpu::Worker& worker,
                                            std::byte* part) const {
  NodeBuffers& buffers = node_buffers();
  const auto columns = static_cast<std::size_t>(call_.target.logits.vocab);
  const DraftedWalk& walk = *path.walk;
  if (walk.asks() == Asks::sums) {
    weigh_node(path, walk.node(), worker, buffers.target, buffers.draft);
    sharded::write_at(part, walk.part_of_left(buffers.target, buffers.draft, columns));
    return;
  }
  if (walk.owner() != call_.shard) return;
  weigh_node(path, walk.node(), worker, buffers.target, buffers.draft);
  const std::int64_t position = walk.drawn_position(buffers.target, buffers.draft, columns);
  sharded::write_at(part, static_cast<std::int32_t>(position < 0 ? 0 : vocab_begin() + position));
}

Error ShardedSpeculation::Call::take_answers(const std::byte* blocks) {
  for_each_path([&](Path& path, cpu::Worker&) {
    if (path.bytes_of_question() == 0) return;
    const std::vector<const std::byte*> parts = blocks_.parts(blocks, path.at);
    DraftedWalk& walk = *path.walk;
    if (walk.asks() == Asks::token) {
      walk.take_token(
          sharded::read_at<std::int32_t>(parts[static_cast<std::size_t>(walk.owner())]));
      return;
    }
    path.sums.clear();
    for (const std::byte* part : parts) path.sums.push_back(sharded::read_at<WeightPair>(part));
    path.adds_up = walk.take_sums(path.sums);
    if (path.adds_up) walk.advance();
  });
  return go_on();
}

/// With what the walks ask next, unless what shards said cannot be.
Error ShardedSpeculation::Call::go_on() {
  for (const Path& path : paths_) {
    if (path.adds_up) continue;
    return out_of_range("blocks",
                        "with weights of request " + std::to_string(path.b) + " that do not add up",
                        "those of one call");
  }
  ask();
  return {};
}

Error ShardedSpeculation::Call::receive(const std::byte* blocks) {
  if (Error error = blocks_.take(blocks)) return error;
  if (phase_ == Phase::rows) {
    take_rows(blocks);
    return {};
  }
  return phase_ == Phase::weights ? take_weights(blocks) : take_answers(blocks);
}

// --- Results
// --------------------------------------------------------------------------------------

void ShardedSpeculation::Call::write_results() {
  phase_ = Phase::done;
  const std::int64_t width = call_.max_depth;
  for (Path& path : paths_) {
    if (path.walk) {
      path.status = path.walk->status();
      path.accepted = path.walk->path();
      path.last_token = path.walk->last_token();
    }
    const bool ok = path.status == RowStatus::ok;
    if (!ok) path.accepted.clear();
    std::int32_t* const tokens = call_.tokens.data + path.b * (width + 1);
    std::fill_n(tokens, width + 1, -1);
    std::int32_t* const nodes = call_.nodes.given() ? call_.nodes.data + path.b * width : nullptr;
    if (nodes != nullptr) std::fill_n(nodes, width, -1);
    const auto depth = static_cast<std::int32_t>(path.accepted.size());
    for (std::int32_t i = 0; i < depth; ++i) {
      const std::int32_t draft = path.accepted[static_cast<std::size_t>(i)];
      tokens[i] = path.token(draft);
      if (nodes != nullptr) nodes[i] = draft;
    }
    if (ok) tokens[depth] = path.last_token;
    const std::int32_t passed = call_.tests_all && ok ? path.tests_passed : depth;
    if (call_.accepted.given()) call_.accepted.data[path.b] = passed;
    if (call_.emitted.given()) call_.emitted.data[path.b] = depth;
    if (call_.statuses.given()) call_.statuses.data[path.b] = path.status;
  }
}

// --- The handle
// -----------------------------------------------------------------------------------

ShardedSpeculation::ShardedSpeculation() = default;
ShardedSpeculation::~ShardedSpeculation() = default;
ShardedSpeculation::ShardedSpeculation(ShardedSpeculation&&) noexcept = default;
ShardedSpeculation& ShardedSpeculation::operator=(ShardedSpeculation&&) noexcept = default;

Error ShardedSpeculation::begin(const ShardedChainRequest& request, const VerifyChainResult& result,
                                const Execution& execution) {
  return sharded::begin_call(call_, request, result, execution);
}
Error ShardedSpeculation::begin(const ShardedTreeRequest& request, const VerifyTreeResult& result,
                                const Execution& execution) {
  return sharded::begin_call(call_, request, result, execution);
}
Error ShardedSpeculation::begin(const ShardedChainSamplingRequest& request,
                                const ChainSpeculativeResult& result, const Execution& execution) {
  return sharded::begin_call(call_, request, result, execution);
}
std::int64_t ShardedSpeculation::block_bytes() const { return sharded::block_bytes_of(call_); }
const std::byte* ShardedSpeculation::block() const { return sharded::block_of(call_); }
Error ShardedSpeculation::receive(const void* blocks) { return sharded::receive_in(call_, blocks); }
std::int32_t ShardedSpeculation::exchanges() const { return sharded::exchanges_of(call_); }

}  // namespace fairdraw
