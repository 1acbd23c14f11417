// Trees of drafts whose distribution is known: how siblings are tested one after the other, and
// what they leave. The walk of the reference, written again with one step wrong.
#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;
using harness::DraftedTokens;
using reference::IntegerRow;
using reference::SpeculationOutcome;

const std::string kSpeculative = "speculative";

enum class Fault {
  none,
  residual_not_updated,     // every child is tested against the target
  residual_not_normalised,  // what is left is tested as if it summed to 1
  q_not_normalised,         // a drawn token is taken out of q, and the rest not scaled up
  same_token_not_again,     // a child whose token was tested before is passed over
  recovers_from_target,
  recovers_from_first_residual,
  last_child_first,
  distribution_behind_the_child,  // q is looked for beside the child instead of its parent
  bonus_from_the_parent
};

// Weights of a distribution, and what they are taken to sum to.
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

// What `q` leaves of `p`.
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

SpeculationOutcome walk(const DraftedTokens& request, Fault fault) {
  const auto behind = [](std::int32_t node) {
    return static_cast<std::size_t>(std::int64_t{node} + 1);
  };
  SpeculationOutcome outcome;
  for (std::int32_t node = -1;;) {
    const reference::PositionWords& words = request.words[outcome.tokens.size()];
    std::vector<std::size_t> children = children_of(request, node);
    if (children.empty()) {
      const std::int32_t row = fault == Fault::bonus_from_the_parent && node >= 0
                                   ? request.parents[static_cast<std::size_t>(node)]
                                   : node;
      const IntegerRow target = request.target[behind(row)].model();
      if (target.status != RowStatus::ok) return {target.status, {}, {}, 0};
      outcome.tokens.push_back(target.speculation_token_for(words.bonus));
      return outcome;
    }
    if (fault == Fault::last_child_first) std::reverse(children.begin(), children.end());
    const bool beside = fault == Fault::distribution_behind_the_child;
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
      if (fault == Fault::same_token_not_again &&
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
      if (fault != Fault::residual_not_updated) left = left_of(left, q);
      if (fault == Fault::residual_not_normalised) left.sum = unscaled;
      if (k == 0) first = left;
      if (request.siblings == SiblingSampling::without_replacement) {
        if (fault != Fault::q_not_normalised) q.sum -= q.of[token];
        q.of[token] = 0;
      }
    }
    if (!stands) {
      const Weights& from = fault == Fault::recovers_from_target           ? whole
                            : fault == Fault::recovers_from_first_residual ? first
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

// Siblings share the word of the first.
void siblings_share_words(DraftedTokens& request) {
  for (reference::PositionWords& words : request.words) {
    std::fill(words.accept_next.begin(), words.accept_next.end(), words.accept);
  }
}

// The token where none stands takes the word of the last child's test, at the root.
void recovery_takes_the_last_coin(DraftedTokens& request) {
  if (!is_of_known_distribution(request)) return;
  const std::size_t children = children_of(request, -1).size();
  reference::PositionWords& words = request.words.front();
  words.recover = children < 2 ? words.accept : words.accept_next.at(children - 2);
}

void judged_with_replacement(DraftedTokens& request) {
  request.siblings = SiblingSampling::with_replacement;
}

void judged_without_replacement(DraftedTokens& request) {
  request.siblings = SiblingSampling::without_replacement;
}

void depths_share_words(DraftedTokens& request) {
  if (!is_of_known_distribution(request)) return;
  for (reference::PositionWords& words : request.words) words = request.words.front();
}

// The draft as if it were given: its distribution is a point mass.
void distribution_of_the_draft_is_ignored(DraftedTokens& request) {
  if (is_of_known_distribution(request)) request.draft.clear();
}

struct Entry {
  const char *name, *source, *wrong;
  Fault fault;
  void (*change)(DraftedTokens&);
};

}  // namespace

std::vector<Mutant> drafted_tree_mutants() {
  const char* const systematic = "systematic";
  const Entry entries[] = {
      {"residual-not-updated", systematic, "every child of a node is tested against the target",
       Fault::residual_not_updated, nullptr},
      {"residual-not-renormalised", systematic,
       "what the first child leaves is tested as if it summed to 1", Fault::residual_not_normalised,
       nullptr},
      {"q-not-renormalised", systematic,
       "a drawn sibling is taken out of q, and the rest of q is not scaled up",
       Fault::q_not_normalised, nullptr},
      {"same-token-not-again", systematic,
       "a sibling drawn with replacement whose token was tested before is passed over",
       Fault::same_token_not_again, nullptr},
      {"recovers-from-target", systematic,
       "where no child stands the token is drawn from the target", Fault::recovers_from_target,
       nullptr},
      {"recovers-from-first-residual", systematic,
       "where no child stands the token is drawn from what the first child leaves",
       Fault::recovers_from_first_residual, nullptr},
      {"last-child-first", systematic, "siblings without replacement are tested backwards",
       Fault::last_child_first, nullptr},
      {"q-behind-the-child", systematic, "q is taken from the row of the child, not its parent",
       Fault::distribution_behind_the_child, nullptr},
      {"bonus-from-the-parent", systematic, "a leaf's bonus token comes from its parent's row",
       Fault::bonus_from_the_parent, nullptr},
      {"siblings-share-words", systematic, "all children of a node are tested with one word",
       Fault::none, siblings_share_words},
      {"depths-share-words", systematic, "all depths of a tree use the words of the root",
       Fault::none, depths_share_words},
      {"recovery-takes-the-last-coin", systematic,
       "the token where no child stands is drawn with the word of the last test", Fault::none,
       recovery_takes_the_last_coin},
      {"judged-with-replacement", systematic,
       "siblings drawn without replacement are judged as drawn from the whole distribution",
       Fault::none, judged_with_replacement},
      {"judged-without-replacement", systematic,
       "siblings drawn with replacement are judged as drawn without", Fault::none,
       judged_without_replacement},
      {"q-ignored", "EAGLE issue #329", "drafts that were drawn are judged as given", Fault::none,
       distribution_of_the_draft_is_ignored},
  };
  std::vector<Mutant> list;
  for (const Entry& entry : entries) {
    const auto mutation = [fault = entry.fault, change = entry.change](Mutation& steps) {
      if (change != nullptr) steps.drafted = change;
      if (fault == Fault::none) return;
      steps.verified = [fault](SpeculationOutcome& outcome, const DraftedTokens& request) {
        if (outcome.status == RowStatus::ok && is_of_known_distribution(request)) {
          outcome = walk(request, fault);
        }
      };
    };
    const auto text = [&entry](const char* prefix, std::vector<std::string> expected) {
      return MutantText{prefix + std::string(entry.name), entry.source, kSpeculative, entry.wrong,
                        std::move(expected)};
    };
    list.push_back(
        mutated_integers(text("verify-tree-", {"verify/*", "verify_tree_law/*"}), mutation));
    list.push_back(mutated_distribution(text("verify-tree-law-", {"verify_tree_law/*"}), mutation));
  }
  return list;
}

}  // namespace fairdraw::suites
