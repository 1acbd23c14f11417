// Mutants of drafted trees with known distribution, in which the tests of siblings or the residuals
// are wrong. Each mutant is the reference's walk with one wrong step.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;
using harness::DraftedTokens;
using reference::IntegerRow;
using reference::SpeculationOutcome;

enum class TreeFault {
  residual_not_updated,     // every child is tested against the whole target instead of the
                            // residual
  residual_not_normalised,  // the residual is tested as if its sum were 1
  q_not_normalised,         // a drawn token is removed from q, but q is not rescaled
  same_token_not_again,     // a child is skipped if its token has been tested before
  recovers_from_target,
  recovers_from_first_residual,
  last_child_first,
  distribution_behind_the_child,  // q is read at the child instead of at its parent
  bonus_from_the_parent
};

// Weights of a distribution, and the sum that is assumed for them.
struct Weights {
  std::vector<cpp_int> of;
  cpp_int sum = 0;

  explicit Weights(const IntegerRow& row) {
    for (std::size_t id = 0; id < row.mask.size(); ++id) {
      of.push_back(row.mask[id] != 0 ? row.speculation_weight[id] : 0);
      sum += of.back();
    }
  }
  std::int32_t token_for(std::uint64_t word) const {
    cpp_int total = 0, until = 0;
    for (const cpp_int& weight : of) total += weight;
    const cpp_int t = (total * word) >> 64;
    for (std::size_t id = 0; id < of.size(); ++id) {
      until += of[id];
      if (until > t) return static_cast<std::int32_t>(id);
    }
    return 0;
  }
};

// Returns the residual max(p - q, 0).
Weights left_of(const Weights& p, const Weights& q) {
  Weights left = p;
  left.sum = 0;
  for (std::size_t id = 0; id < p.of.size(); ++id) {
    const cpp_int more = p.of[id] * q.sum - q.of[id] * p.sum;
    left.of[id] = more > 0 ? more : cpp_int(0);
    left.sum += left.of[id];
  }
  return left;
}

std::vector<std::size_t> children_of(const DraftedTokens& request, std::int32_t node) {
  std::vector<std::size_t> children;
  for (std::size_t j = 0; j < request.parents.size(); ++j) {
    if (request.parents[j] == node) children.push_back(j);
  }
  return children;
}

SpeculationOutcome walk(const DraftedTokens& request, TreeFault fault) {
  const auto behind = [](std::int32_t node) {
    return static_cast<std::size_t>(std::int64_t{node} + 1);
  };
  SpeculationOutcome outcome;
  for (std::int32_t node = -1;;) {
    const reference::PositionWords& words = request.words[outcome.tokens.size()];
    std::vector<std::size_t> children = children_of(request, node);
    if (children.empty()) {
      const std::int32_t row = fault == TreeFault::bonus_from_the_parent && node >= 0
                                   ? request.parents[static_cast<std::size_t>(node)]
                                   : node;
      const IntegerRow target = request.target[behind(row)].model();
      if (target.status != RowStatus::ok) return {target.status, {}, {}, 0};
      outcome.tokens.push_back(target.speculation_token_for(words.bonus));
      return outcome;
    }
    if (fault == TreeFault::last_child_first) std::reverse(children.begin(), children.end());
    const bool beside = fault == TreeFault::distribution_behind_the_child;
    const IntegerRow target = request.target[behind(node)].model();
    const IntegerRow draft = request.draft[beside ? children.front() + 1 : behind(node)].model();
    for (const IntegerRow* row : {&target, &draft}) {
      if (row->status != RowStatus::ok) return {row->status, {}, {}, 0};
    }
    const Weights whole(target);
    Weights left = whole, q(draft), first = whole;
    std::vector<std::size_t> tested;
    std::size_t k = 0;
    bool stands = false;
    for (; k < children.size() && !stands; ++k) {
      const auto token = static_cast<std::size_t>(request.drafted[children[k]]);
      if (fault == TreeFault::same_token_not_again &&
          std::find(tested.begin(), tested.end(), token) != tested.end()) {
        continue;
      }
      tested.push_back(token);
      if (q.of[token] == 0) return {RowStatus::impossible_draft, {}, {}, 0};
      const std::uint64_t word = k == 0 ? words.accept : words.accept_next.at(k - 1);
      if (((q.of[token] * left.sum * word) >> 64) < left.of[token] * q.sum) {
        stands = true;
        break;
      }
      const cpp_int unscaled = left.sum * q.sum;
      if (fault != TreeFault::residual_not_updated) left = left_of(left, q);
      if (fault == TreeFault::residual_not_normalised) left.sum = unscaled;
      if (k == 0) first = left;
      if (request.siblings == SiblingSampling::without_replacement) {
        if (fault != TreeFault::q_not_normalised) q.sum -= q.of[token];
        q.of[token] = 0;
      }
    }
    if (!stands) {
      const Weights& from = fault == TreeFault::recovers_from_target           ? whole
                            : fault == TreeFault::recovers_from_first_residual ? first
                                                                               : left;
      outcome.tokens.push_back(from.token_for(words.recover));
      return outcome;
    }
    node = static_cast<std::int32_t>(children[k]);
    outcome.tokens.push_back(request.drafted[children[k]]);
    outcome.nodes.push_back(node);
    ++outcome.accepted;
  }
}

bool is_of_known_distribution(const DraftedTokens& request) {
  return request.status == RowStatus::ok && request.tree && !request.draft.empty() &&
         !request.drafted.empty() && !harness::is_greedy(request.target.front().parameters);
}

// Replaces the outcome by that of a wrong walk.
template <TreeFault fault>
void walk_with(SpeculationOutcome& outcome, const DraftedTokens& request) {
  if (outcome.status != RowStatus::ok || !is_of_known_distribution(request)) return;
  outcome = walk(request, fault);
}

constexpr Entry kDraftedTrees[] = {
    {"residual-not-updated", "every child of a node is tested against the target",
     walk_with<TreeFault::residual_not_updated>},
    {"residual-not-renormalised", "what the first child leaves is tested as if it summed to 1",
     walk_with<TreeFault::residual_not_normalised>},
    {"q-not-renormalised", "a drawn sibling is taken out of q, and the rest of q is not scaled up",
     walk_with<TreeFault::q_not_normalised>},
    {"same-token-not-again",
     "a sibling drawn with replacement whose token was tested before is passed over",
     walk_with<TreeFault::same_token_not_again>},
    {"recovers-from-target", "where no child stands the token is drawn from the target",
     walk_with<TreeFault::recovers_from_target>},
    {"recovers-from-first-residual",
     "where no child stands the token is drawn from what the first child leaves",
     walk_with<TreeFault::recovers_from_first_residual>},
    {"last-child-first", "siblings without replacement are tested backwards",
     walk_with<TreeFault::last_child_first>},
    {"q-behind-the-child", "q is taken from the row of the child, not its parent",
     walk_with<TreeFault::distribution_behind_the_child>},
    {"bonus-from-the-parent", "a leaf's bonus token comes from its parent's row",
     walk_with<TreeFault::bonus_from_the_parent>},
    // All siblings use the random word of the first sibling.
    {"siblings-share-words", "all children of a node are tested with one word",
     [](DraftedTokens& request) {
       for (reference::PositionWords& words : request.words) {
         std::fill(words.accept_next.begin(), words.accept_next.end(), words.accept);
       }
     }},
    {"depths-share-words", "all depths of a tree use the words of the root",
     [](DraftedTokens& request) {
       if (!is_of_known_distribution(request)) return;
       for (reference::PositionWords& words : request.words) words = request.words.front();
     }},
    // If no child of the root is accepted, the token is drawn with the random word of the last
    // child's test.
    {"recovery-takes-the-last-coin",
     "the token where no child stands is drawn with the word of the last test",
     [](DraftedTokens& request) {
       if (!is_of_known_distribution(request)) return;
       const std::size_t children = children_of(request, -1).size();
       reference::PositionWords& words = request.words.front();
       words.recover = children < 2 ? words.accept : words.accept_next.at(children - 2);
     }},
    {"judged-with-replacement",
     "siblings drawn without replacement are judged as drawn from the whole distribution",
     [](DraftedTokens& request) { request.siblings = SiblingSampling::with_replacement; }},
    {"judged-without-replacement", "siblings drawn with replacement are judged as drawn without",
     [](DraftedTokens& request) { request.siblings = SiblingSampling::without_replacement; }},
    // Treats drafted tokens as given, as if each had a point mass as its distribution.
    {"q-ignored", "EAGLE issue #329", "drafts that were drawn are judged as given",
     [](DraftedTokens& request) {
       if (is_of_known_distribution(request)) request.draft.clear();
     }},
};

}  // namespace

std::vector<Mutant> drafted_tree_mutants() {
  std::vector<Mutant> list;
  for (const Entry& entry : kDraftedTrees) {
    list.push_back(
        mutant_of("speculative", "verify-tree-", entry, "verify/* tree_law/*", Base::integers));
    list.push_back(
        mutant_of("speculative", "verify-tree-law-", entry, "tree_law/*", Base::distribution));
  }
  return list;
}

}  // namespace fairdraw::suites
