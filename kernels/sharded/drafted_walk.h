// The path of one request through its drafted tokens, as every rank walks it: which drafts are
// accepted, and what is asked of the shards on the way (fairdraw/sharded_speculation.h).
//
// A chain is a tree whose nodes have one child each: for one child the rule of trees is that of
// chains, bit for bit (speculative.h). Node -1 is the root, node j follows drafted token j; a
// node's distributions are those of the row after it. What the children that are rejected leave of
// the target is max(P A - Q B, 0), A and B of sibling_scales.h: these follow from the sums of P and
// Q over what is left, M, and a shard can say for each of its tokens whether it is in M, whatever
// was asked before. So a walk asks at most this, and nothing else is kept on any shard:
//   sums   what P and Q of the node sum to over the shard's part of M, once a rejected child
//   token  the token at a place among the shard's part of M, or of P where no child was rejected
#pragma once

#include <cstdint>
#include <vector>

#include "common/sibling_scales.h"
#include "cpu/distribution_weights.h"
#include "fairdraw/speculative.h"

namespace fairdraw::sharded {

/// Weights of a node's distributions: sums over all tokens, those of the target by shard.
struct NodeWeights {
  std::vector<std::uint64_t> target_by_shard;
  std::uint64_t target = 0;
  std::uint64_t draft = 0;
};

/// Weights of the target and of the draft: of a token, or sums. What shards say of nodes, of
/// drafted tokens and of what is left travels so.
struct WeightPair {
  std::uint64_t target = 0;
  std::uint64_t draft = 0;
};
static_assert(sizeof(WeightPair) == 16);

/// A request, and its random words.
class DraftedRequestView {
 public:
  virtual ~DraftedRequestView() = default;
  virtual std::int64_t drafts() const = 0;
  virtual std::int32_t token(std::int64_t draft) const = 0;
  /// The node that a drafted token follows.
  virtual std::int64_t parent(std::int64_t draft) const = 0;
  virtual RowStatus target_status(std::int64_t node) const = 0;
  virtual RowStatus draft_status(std::int64_t node) const = 0;
  virtual std::uint64_t word(std::int64_t depth, Purpose purpose, std::uint32_t sibling) const = 0;
};

class DraftedWalk {
 public:
  enum class Asks { nothing, sums, token };

  /// `nodes`: of node j at j + 1. `tokens`: of drafted token j at j; none above its node's sums,
  /// which are at most 2^60. Drafts that their own distribution never gives end the path where
  /// `refuses_impossible`.
  DraftedWalk(const DraftedRequestView& request, SiblingSampling siblings, bool refuses_impossible,
              std::vector<NodeWeights> nodes, std::vector<WeightPair> tokens);

  /// Goes on as far as it can.
  void advance();
  Asks asks() const { return asks_; }
  /// Of the last question: the shards' sums, or the token. False where the former do not add up,
  /// because blocks were not right.
  bool take_sums(const std::vector<WeightPair>& by_shard);
  void take_token(std::int32_t token);

  /// The node that is asked about.
  std::int64_t node() const { return node_; }
  /// What this shard says of it. `target`, `draft`: its columns' weights of the node, n of them;
  /// the latter are not used where no child was rejected.
  WeightPair part_of_left(const cpu::DistributionWeights& target,
                          const cpu::DistributionWeights& draft, std::size_t n) const;
  bool draws_what_is_left() const { return rejected_; }
  int owner() const { return owner_; }
  /// The position among the owner's columns; -1 of blocks that were not right.
  std::int64_t drawn_position(const cpu::DistributionWeights& target,
                              const cpu::DistributionWeights& draft, std::size_t n) const;

  RowStatus status() const { return status_; }
  /// The drafted tokens that are accepted, by their numbers, and the token after them.
  const std::vector<std::int32_t>& path() const { return path_; }
  std::int32_t last_token() const { return last_token_; }

 private:
  /// What A and B follow from. They have room for many children, so walks do not keep them.
  struct Rejection {
    std::uint64_t draft_total, target_left, draft_left;
  };

  /// Of the node; until the next call in this thread.
  const SiblingScales& scales() const;
  const NodeWeights& weights() const { return nodes_[static_cast<std::size_t>(node_ + 1)]; }
  std::int64_t depth() const { return static_cast<std::int64_t>(path_.size()); }
  std::int64_t child_from(std::int64_t draft) const;
  void enter_node();
  bool is_taken(std::int32_t token) const;
  void fail(RowStatus status);
  void place_in_target(std::uint64_t word);
  void place_in_left();

  const DraftedRequestView& request_;
  SiblingSampling siblings_;
  bool refuses_impossible_;
  std::vector<NodeWeights> nodes_;
  std::vector<WeightPair> tokens_;

  RowStatus status_ = RowStatus::ok;
  Asks asks_ = Asks::nothing;
  bool done_ = false;
  std::vector<std::int32_t> path_;
  std::int32_t last_token_ = -1;

  // Of the node.
  std::int64_t node_ = -1;
  bool entered_ = false;
  std::int64_t child_ = 0;
  std::uint32_t sibling_ = 0;
  bool rejected_ = false;
  std::uint64_t draft_total_ = 0;
  std::vector<std::int32_t> taken_;  // drawn without replacement, and rejected
  std::vector<Rejection> rejections_;
  std::uint64_t target_left_ = 0, draft_left_ = 0;  // sums over M
  std::vector<WeightPair> left_;                    // by shard

  // Of a token that is asked for: the owner, what M weighs in front of it, or the place in P.
  int owner_ = 0;
  WeightPair in_front_;
  std::uint64_t word_ = 0;
  std::uint64_t place_ = 0;
};

}  // namespace fairdraw::sharded
