// Implementation of accept_tree and accept_chain (fairdraw/speculative.h), which test a tree of
// drafted tokens against the target's logits in integer arithmetic. A chain is a tree with one
// child per node.
//
// The contract and the semantics are given in fairdraw/speculative.h. The walk follows a single
// path through the tree, node by node, in one of two ways:
//   - Unknown draft distribution, or greedy request: the target's token is drawn from the row after
//     the node, with the word of purpose draw. If a child holds that token, the path continues
//     there; otherwise it ends, and the token is emitted all the same. This has the same
//     distribution as trying the children one by one, each a point mass, against the residual that
//     the earlier ones left: either way child x is accepted with probability P(x), and if none is
//     accepted, the token comes from the target without the children. Tokens equal those of
//     `sample`, for any tree.
//   - Known draft distribution: two filtered rows and their weights. sibling_residual.h tests the
//     children one by one, or draws from the residual. Filters are part of both distributions: P is
//     what `sample` would draw from, Q what the draft was drawn from. A greedy draft is a point
//     mass at its largest logit.
//   - Block verification of a chain (Sun et al. 2024, Algorithm 2): the walk reads all positions
//     before the last row, because each drafted token may change how many are accepted, and
//     computes the shares of the prefixes (block_share.h). Then it tests the prefixes from the
//     longest to the empty one, and ends at the first that passes.
//
// Cost: each emitted token costs a filtered row and a draw; rows that are not on the path are never
// read. The search for children visits the nodes of a request only once along the whole path,
// because a child comes after its parent. In a chain, the child is the next token. If the
// distribution of the drafts is known, each node also costs the draft's row and two passes that
// write weights. Accepting a child needs no further pass, and rejecting a child takes one pass over
// the tokens whose residual is positive. Block verification costs all positions but the last.
//
// Randomness: a draw at depth d uses offset + d. The draw, the acceptance (one word per child), the
// recovery and the bonus have different purposes, so no two decisions share bits, at the same depth
// or at different depths. Determinism: all arithmetic is done with integers, and results do not
// depend on order, threads or the instruction set.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "fairdraw/speculative.h"
#include "serving/drafts/drafted_requests.h"
#include "serving/drafts/kept_sets.h"
#include "serving/drafts/sibling_residual.h"
#include "serving/rules/block_share.h"
#include "serving/rules/kept_arguments.h"
#include "serving/rules/speculative_arguments.h"

namespace fairdraw {
namespace {

using cpu::Worker;

/// Buffers of a thread, which are kept between requests.
struct Distributions {
  cpu::DistributionWeights target, draft;
  cpu::SiblingResidual residual;
};

class Trees {
 public:
  /// `sets` has the sets of all token positions, which are to be filled, or is null.
  Trees(const DraftedCall& call, cpu::Survivors* sets)
      : is_chain_(call.is_chain),
        accept_rule_(call.accept_rule),
        request_(call.request),
        result_(call.result),
        sets_(sets),
        requests_(request_.target, request_.max_draft, request_.draft_tokens,
                  request_.draft_lengths),
        drafts_(request_.draft_law, request_.draft, request_.draft_filters) {}

  void run(std::int64_t b, Worker& worker) const {
    const std::int64_t depth = request_.max_depth;
    std::int32_t* const tokens = result_.tokens.data + b * (depth + 1);
    std::int32_t* const nodes = result_.nodes.given() ? result_.nodes.data + b * depth : nullptr;
    const auto clear = [&] {
      std::fill_n(tokens, depth + 1, -1);
      if (nodes != nullptr) std::fill_n(nodes, depth, -1);
    };
    clear();
    std::int32_t accepted = 0;
    DraftedRequest request;
    RowStatus status = requests_.find(b, request);
    if (status == RowStatus::ok && !is_chain_) {
      status = cpu::check_tree(request_.parents.data + request.place, request.drafts,
                               request_.max_depth, request_.draft_law != DraftLaw::none);
    }
    if (status == RowStatus::ok) {
      const bool by_distribution =
          request_.draft_law != DraftLaw::none && request.drafts > 0 && !requests_.is_greedy(b);
      if (!by_distribution) {
        status = walk_by_draw(b, request, worker, tokens, nodes, accepted);
      } else if (accept_rule_.at(b) == AcceptRule::block) {
        status = walk_by_block(b, request, worker, tokens, accepted);
      } else {
        status = walk_by_distribution(b, request, worker, tokens, nodes, accepted);
      }
    }
    if (status != RowStatus::ok) {
      clear();
      for (std::int64_t i = 0; sets_ != nullptr && i <= depth; ++i) set_of(b, i).clear();
      accepted = 0;
    }
    if (result_.accepted.given()) result_.accepted.data[b] = accepted;
    if (result_.statuses.given()) result_.statuses.data[b] = status;
  }

 private:
  std::vector<std::int32_t>& set_of(std::int64_t b, std::int64_t i) const {
    return (*sets_)[static_cast<std::size_t>(b * (request_.max_depth + 1) + i)];
  }
  /// Stores the kept set of position i; the row of the position is in the worker's sampler.
  void keep(std::int64_t b, std::int64_t i, Worker& worker) const {
    if (sets_ != nullptr) worker.sampler.list_survivors(set_of(b, i));
  }

  // Returns the first child of `node` among the nodes from `from` on, or the number of nodes if
  // there is no such child.
  std::int64_t child_of(const DraftedRequest& request, std::int64_t node, std::int64_t from) const {
    if (is_chain_) return from == node + 1 ? from : request.drafts;
    const std::int32_t* const parents = request_.parents.data + request.place;
    while (from < request.drafts && parents[from] != node) ++from;
    return from;
  }

  RowStatus walk_by_draw(std::int64_t b, const DraftedRequest& request, Worker& worker,
                         std::int32_t* tokens, std::int32_t* nodes, std::int32_t& accepted) const {
    const std::int32_t* const drafted = requests_.tokens(request);
    for (std::int64_t node = -1;; ++accepted) {
      const RowStatus status = requests_.filter(b, request, node + 1, worker);
      if (status != RowStatus::ok) return status;
      const std::int32_t token = worker.sampler.draw(requests_.draw_words(b, accepted));
      tokens[accepted] = token;
      keep(b, accepted, worker);
      std::int64_t child = child_of(request, node, node + 1);
      while (child < request.drafts && drafted[child] != token) {
        child = child_of(request, node, child + 1);
      }
      if (child == request.drafts) return RowStatus::ok;
      if (nodes != nullptr) nodes[accepted] = static_cast<std::int32_t>(child);
      node = child;
    }
  }

  RowStatus walk_by_distribution(std::int64_t b, const DraftedRequest& request, Worker& worker,
                                 std::int32_t* tokens, std::int32_t* nodes,
                                 std::int32_t& accepted) const {
    const std::int32_t* const drafted = requests_.tokens(request);
    for (std::int64_t node = -1;; ++accepted) {
      const RowStatus status = requests_.filter(b, request, node + 1, worker);
      if (status != RowStatus::ok) return status;
      keep(b, accepted, worker);
      std::int64_t child = child_of(request, node, node + 1);
      if (child == request.drafts) {
        tokens[accepted] = bonus(b, accepted, worker);
        return RowStatus::ok;
      }
      const RowStatus found = test_children(b, request, node, accepted, worker, child, tokens);
      if (found != RowStatus::ok || child == request.drafts) return found;
      tokens[accepted] = drafted[child];
      if (nodes != nullptr) nodes[accepted] = static_cast<std::int32_t>(child);
      node = child;
    }
  }

  // Tests the children of `node` in order, beginning with the first child. Precondition: the
  // worker's sampler has the target's distribution after `node`. Sets `child` to the accepted
  // child. If no child is accepted, the function sets `child` to the number of nodes, and writes
  // the replacement token.
  RowStatus test_children(std::int64_t b, const DraftedRequest& request, std::int64_t node,
                          std::int32_t depth, Worker& worker, std::int64_t& child,
                          std::int32_t* tokens) const {
    Distributions& distributions = buffers();
    const std::int32_t* const drafted = requests_.tokens(request);
    const RowStatus status = weigh(b, request, node, worker, distributions);
    if (status != RowStatus::ok) return status;
    distributions.residual.start(distributions.target, distributions.draft,
                                 static_cast<std::size_t>(requests_.vocab()));
    for (std::uint32_t sibling = 0; child < request.drafts; ++sibling) {
      const std::int32_t token = drafted[child];
      if (distributions.draft.weight[static_cast<std::size_t>(token)] == 0) {
        return RowStatus::impossible_draft;
      }
      const std::uint64_t word = requests_.word(b, depth, Purpose::accept, sibling);
      if (distributions.residual.accepts(token, word)) return RowStatus::ok;
      distributions.residual.reject(token, request_.siblings);
      child = child_of(request, node, child + 1);
    }
    tokens[depth] = distributions.residual.recover(requests_.word(b, depth, Purpose::recover));
    return RowStatus::ok;
  }

  static Distributions& buffers() {
    thread_local Distributions distributions;
    return distributions;
  }

  // Draws the token after all drafted tokens of a path. Precondition: the worker's sampler has the
  // target's distribution after the last drafted token.
  std::int32_t bonus(std::int64_t b, std::int64_t position, Worker& worker) const {
    cpu::DistributionWeights& target = buffers().target;
    cpu::take_weights(worker, requests_.vocab(), target);
    return cpu::draw(target, requests_.word(b, position, Purpose::bonus));
  }

  // Computes the weights of both distributions after `node`. Precondition: the worker's sampler has
  // the target's distribution after the node.
  RowStatus weigh(std::int64_t b, const DraftedRequest& request, std::int64_t node, Worker& worker,
                  Distributions& distributions) const {
    cpu::take_weights(worker, requests_.vocab(), distributions.target);
    const std::int64_t row = (is_chain_ ? request.place : request.row) + node + 1;
    return drafts_.weigh(b, row, worker, distributions.draft);
  }

  // Computes the weights of both distributions after the first `position` drafted tokens.
  RowStatus read(std::int64_t b, const DraftedRequest& request, std::int64_t position,
                 Worker& worker, Distributions& distributions) const {
    const RowStatus status = requests_.filter(b, request, position, worker);
    if (status != RowStatus::ok) return status;
    keep(b, position, worker);
    return weigh(b, request, position - 1, worker, distributions);
  }

  // The chance of a prefix is at most its share, so a prefix can pass only if its word is below its
  // share. The weights of the longest such prefix are kept, because it nearly always passes.
  RowStatus walk_by_block(std::int64_t b, const DraftedRequest& request, Worker& worker,
                          std::int32_t* tokens, std::int32_t& accepted) const {
    thread_local std::vector<uint128_t> shares;  // shares of the prefixes, the empty one first
    thread_local Distributions other;
    Distributions *current = &buffers(), *kept = &other;
    const std::int32_t* const drafted = requests_.tokens(request);
    const auto may_pass = [&](std::int64_t prefix) {
      return prefix == 0 || word_of_prefix(b, prefix) < shares[static_cast<std::size_t>(prefix)];
    };
    shares.assign(1, kWholeShare);
    std::int64_t prefix = 0, kept_prefix = 0;
    for (; prefix < request.drafts && shares.back() > 0; ++prefix) {
      const RowStatus status = read(b, request, prefix, worker, *current);
      if (status != RowStatus::ok) return status;
      const auto token = static_cast<std::size_t>(drafted[prefix]);
      const std::uint64_t q = current->draft.weight[token];
      if (q == 0) return RowStatus::impossible_draft;
      shares.push_back(next_share(shares.back(), current->target.weight[token],
                                  current->target.total, q, current->draft.total));
      if (may_pass(prefix)) {
        std::swap(current, kept);
        kept_prefix = prefix;
      }
    }
    if (prefix == request.drafts && may_pass(prefix)) {
      const RowStatus status = requests_.filter(b, request, prefix, worker);
      if (status != RowStatus::ok) return status;
      keep(b, prefix, worker);
      tokens[prefix] = bonus(b, prefix, worker);
    } else {
      for (prefix = kept_prefix;; --prefix) {
        if (!may_pass(prefix)) continue;
        if (prefix != kept_prefix) read(b, request, prefix, worker, *kept);
        kept->residual.start(kept->target, kept->draft, static_cast<std::size_t>(requests_.vocab()),
                             shares[static_cast<std::size_t>(prefix)]);
        if (prefix == 0 || kept->residual.passes(word_of_prefix(b, prefix))) break;
      }
      tokens[prefix] = kept->residual.recover(requests_.word(b, prefix, Purpose::recover));
      for (std::int64_t i = prefix + 1; sets_ != nullptr && i <= request.drafts; ++i) {
        set_of(b, i).clear();
      }
    }
    std::copy_n(drafted, prefix, tokens);
    accepted = static_cast<std::int32_t>(prefix);
    return RowStatus::ok;
  }

  // Returns the word that decides whether a prefix of a block passes.
  std::uint64_t word_of_prefix(std::int64_t b, std::int64_t prefix) const {
    return requests_.word(b, prefix - 1, Purpose::accept);
  }

  bool is_chain_;
  PerRequest<AcceptRule> accept_rule_;
  const AcceptTreeRequest& request_;
  const AcceptTreeResult& result_;
  cpu::Survivors* sets_;
  cpu::DraftedRequests requests_;
  cpu::DraftDistributions drafts_;
};

/// Runs a call. `kept` is the destination of the kept sets, or null.
Error accept(const DraftedCall& call, const KeptSets* kept, const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_drafted_call(call)) return error;
  if (Error error = check_accept_rules(call.accept_rule)) return error;
  cpu::Survivors sets;
  const std::int64_t places = product_of(call.request.target.batch, call.width());
  if (kept != nullptr) {
    if (Error error = check_kept(*kept, places, call.width_text())) return error;
    sets.resize(static_cast<std::size_t>(places));
  }
  const Trees trees(call, kept != nullptr ? &sets : nullptr);
  cpu::for_each_row(call.request.target.batch, execution,
                    [&trees](std::int64_t b, Worker& worker) { trees.run(b, worker); });
  if (kept == nullptr) return {};
  cpu::pack_sets(places, [&](std::int64_t i) { return &sets[static_cast<std::size_t>(i)]; }, *kept);
  return {};
}

}  // namespace

Error accept_chain(const AcceptChainRequest& request, const AcceptChainResult& result,
                   const Execution& execution) {
  return accept(DraftedCall(request, result), nullptr, execution);
}

Error accept_chain_with_kept_sets(const AcceptChainRequest& request,
                                  const AcceptChainResult& result, const KeptSets& kept,
                                  const Execution& execution) {
  return accept(DraftedCall(request, result), &kept, execution);
}

Error accept_tree(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                  const Execution& execution) {
  return accept(DraftedCall(request, result), nullptr, execution);
}

Error accept_tree_with_kept_sets(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                                 const KeptSets& kept, const Execution& execution) {
  return accept(DraftedCall(request, result), &kept, execution);
}

Error parents_from_links(View<const std::int32_t> next_token, View<const std::int32_t> next_sibling,
                         std::int64_t batch, std::int64_t nodes, View<std::int32_t> parents) {
  if (batch < 0 || batch > std::numeric_limits<std::int32_t>::max()) {
    return out_of_range("batch", std::to_string(batch), "0 to 2^31 - 1");
  }
  if (nodes < 1 || nodes > kMaxVocab) {
    return out_of_range("nodes", std::to_string(nodes), "1 to " + std::to_string(kMaxVocab));
  }
  if (Error e = check_needed(next_token, "next_token", batch * nodes, "batch * nodes")) return e;
  if (Error e = check_needed(next_sibling, "next_sibling", batch * nodes, "batch * nodes")) {
    return e;
  }
  if (Error e = check_needed(parents, "parents", batch * (nodes - 1), "batch * (nodes - 1)")) {
    return e;
  }
  constexpr std::int32_t kNoLink = -2, kManyLinks = -3;  // accept_tree rejects both values as
                                                         // parents
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int32_t* const children = next_token.data + b * nodes;
    const std::int32_t* const siblings = next_sibling.data + b * nodes;
    std::int32_t* const found = parents.data + b * (nodes - 1);  // parent of node j, at the index j
                                                                 // - 1
    std::fill_n(found, nodes - 1, kNoLink);
    const auto link = [&](std::int64_t from, std::int32_t to, std::int32_t parent) {
      if (to == -1) return;
      if (to > from && to < nodes) {
        found[to - 1] = found[to - 1] == kNoLink ? parent : kManyLinks;
      } else if (from > 0) {
        found[from - 1] = kManyLinks;  // the link leads to the root, so node 1 stays without a link
      }
    };
    for (std::int64_t node = 0; node < nodes; ++node) {
      link(node, children[node], static_cast<std::int32_t>(node - 1));
      // The root of the tree has no siblings. A link always leads to a node with a higher number,
      // so the parent of every other node is already known.
      if (node > 0) link(node, siblings[node], found[node - 1]);
    }
  }
  return {};
}

}  // namespace fairdraw
