// Computes the distributions of tokens that speculation emits, by enumerating its decisions. Each
// decision of speculation (accept, or redraw a token) is a step function of its random word.
// Bisection finds the end of each step, so that the probability of a decision is the number of
// words that lead to it over 2^64.
#include "reference/speculation/speculation_distribution.h"

#include <algorithm>

#include "reference/speculation/speculation_model.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;

struct Step {
  std::int32_t decision;
  std::uint64_t word;  ///< one of the words that lead to the decision
  Probability probability;
};

// Returns the steps of a decision; each step covers one interval of random words.
std::vector<Step> steps_of(const std::function<std::int32_t(std::uint64_t)>& decide) {
  const std::uint64_t last = ~std::uint64_t{0};
  const cpp_int all = cpp_int(1) << 64;
  std::vector<Step> steps;
  for (std::uint64_t begin = 0;;) {
    const std::int32_t decision = decide(begin);
    std::uint64_t low = begin, high = last;  // the step's last word is in [low, high]
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2 + 1;
      if (decide(middle) == decision) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    steps.push_back({decision, begin, Probability(cpp_int(low) - begin + 1, all)});
    if (low == last) return steps;
    begin = low + 1;
  }
}

std::vector<Step> draws_of(const IntegerRow& row) {
  return steps_of([&row](std::uint64_t word) { return row.speculation_token_for(word); });
}

std::vector<std::int32_t> with(std::vector<std::int32_t> tokens, std::int32_t token) {
  tokens.push_back(token);
  return tokens;
}

// A position of a chain, whose decisions the integer model makes.
class Position {
 public:
  Position(const IntegerRow& target, const IntegerRow& draft, std::int32_t drafted)
      : target_{target, target}, draft_{draft}, drafted_{drafted} {}

  // Returns the token that is redrawn, or -1 if the draft is accepted.
  std::int32_t decide(std::uint64_t accept, std::uint64_t recover) const {
    const std::vector<PositionWords> words = {{0, accept, recover, 0}, {}};
    const SpeculationOutcome outcome =
        accept_chain_model(target_, draft_, drafted_, words, target_[0].mask.size(), false);
    return outcome.accepted == 1 ? -1 : outcome.tokens.at(0);
  }

 private:
  std::vector<IntegerRow> target_, draft_;
  std::vector<std::int32_t> drafted_;
};

void extend_chain(const RowBehind& target, const RowBehind& draft, const RowBehind& drawn_from,
                  std::size_t n, const std::vector<std::int32_t>& prefix,
                  const Probability& probability, SequenceDistribution& distribution) {
  const IntegerRow row = target(prefix);
  if (prefix.size() == n) {
    for (const Step& bonus : draws_of(row)) {
      distribution[with(prefix, bonus.decision)] += probability * bonus.probability;
    }
    return;
  }
  const IntegerRow draft_row = draft(prefix);
  for (const Step& drafted : draws_of(drawn_from(prefix))) {
    const Position position(row, draft_row, drafted.decision);
    const Probability drawn = probability * drafted.probability;
    for (const Step& accept : steps_of(
             [&position](std::uint64_t word) { return position.decide(word, 0) == -1 ? 1 : 0; })) {
      const Probability reached = drawn * accept.probability;
      if (accept.decision == 1) {
        extend_chain(target, draft, drawn_from, n, with(prefix, drafted.decision), reached,
                     distribution);
        continue;
      }
      for (const Step& recover :
           steps_of([&](std::uint64_t word) { return position.decide(accept.word, word); })) {
        distribution[with(prefix, recover.decision)] += reached * recover.probability;
      }
    }
  }
}

// Enumerates block verification. A prefix of the chain passes by a word of its own, so the prefixes
// are decided from the longest to the shortest: given the words with which the longer ones fail,
// the steps of a prefix's word lead either to this prefix or to a shorter one.
class Block {
 public:
  Block(const RowBehind& target, const RowBehind& draft, const RowBehind& drawn_from, std::size_t n,
        SequenceDistribution& distribution)
      : target_(target),
        draft_(draft),
        drawn_from_(drawn_from),
        n_(n),
        distribution_(distribution) {}

  // Adds the outcomes of all chains that begin with the drafted tokens `drafted`.
  void draw_next(const std::vector<std::int32_t>& drafted, const Probability& probability) {
    rows_.push_back(target_(drafted));
    if (drafted.size() == n_) {
      std::vector<PositionWords> words(n_ + 1);
      decide(drafted, n_, words, probability);
    } else {
      draft_rows_.push_back(draft_(drafted));
      for (const Step& next : draws_of(drawn_from_(drafted))) {
        draw_next(with(drafted, next.decision), probability * next.probability);
      }
      draft_rows_.pop_back();
    }
    rows_.pop_back();
  }

 private:
  SpeculationOutcome judge(const std::vector<std::int32_t>& drafted,
                           const std::vector<PositionWords>& words) const {
    return accept_chain_model(rows_, draft_rows_, drafted, words, rows_[0].mask.size(), false,
                              AcceptRule::block);
  }

  // Adds the outcomes in which at most `prefix` drafted tokens are accepted; `words` decide against
  // all longer prefixes.
  void decide(const std::vector<std::int32_t>& drafted, std::size_t prefix,
              std::vector<PositionWords>& words, const Probability& probability) {
    if (prefix == 0) {
      draw_end(drafted, prefix, words, probability);
      return;
    }
    std::uint64_t& word = words[prefix - 1].accept;
    for (const Step& step : steps_of([&](std::uint64_t each) {
           word = each;
           return judge(drafted, words).accepted == static_cast<std::int32_t>(prefix) ? 1 : 0;
         })) {
      word = step.word;
      const Probability reached = probability * step.probability;
      if (step.decision == 1) {
        draw_end(drafted, prefix, words, reached);
      } else {
        decide(drafted, prefix - 1, words, reached);
      }
    }
  }

  // Adds the tokens that may follow the accepted prefix.
  void draw_end(const std::vector<std::int32_t>& drafted, std::size_t prefix,
                std::vector<PositionWords>& words, const Probability& probability) {
    const std::vector<std::int32_t> accepted(drafted.begin(),
                                             drafted.begin() + static_cast<std::ptrdiff_t>(prefix));
    PositionWords& end = words[prefix];
    for (const Step& last : steps_of([&](std::uint64_t each) {
           (prefix == n_ ? end.bonus : end.recover) = each;
           return judge(drafted, words).tokens.at(prefix);
         })) {
      distribution_[with(accepted, last.decision)] += probability * last.probability;
    }
  }

  const RowBehind& target_;
  const RowBehind& draft_;
  const RowBehind& drawn_from_;
  std::size_t n_;
  SequenceDistribution& distribution_;
  std::vector<IntegerRow> rows_, draft_rows_;  // rows after the drafted tokens so far
};

void extend_tree(const RowBehind& target, std::span<const std::int32_t> drafted,
                 std::span<const std::int32_t> parents, std::int32_t node,
                 const std::vector<std::int32_t>& prefix, const Probability& probability,
                 SequenceDistribution& distribution) {
  const IntegerRow row = target(prefix);
  // The node's children are passed as a tree of one level, so that the model decides which child is
  // accepted.
  std::vector<std::int32_t> children, tokens, roots;
  for (std::size_t j = 0; j < drafted.size(); ++j) {
    if (parents[j] != node) continue;
    children.push_back(static_cast<std::int32_t>(j));
    tokens.push_back(drafted[j]);
    roots.push_back(-1);
  }
  const std::vector<IntegerRow> rows(children.size() + 1, row);
  const auto outcome_of = [&](std::uint64_t word) {
    const std::vector<PositionWords> words = {{word, 0, 0, 0}, {}};
    return accept_tree_model(rows, tokens, roots, words, row.mask.size(), 1);
  };
  for (const Step& step :
       steps_of([&](std::uint64_t word) { return outcome_of(word).tokens.at(0); })) {
    const SpeculationOutcome outcome = outcome_of(step.word);
    const Probability reached = probability * step.probability;
    if (outcome.nodes.empty()) {
      distribution[with(prefix, step.decision)] += reached;
    } else {
      extend_tree(target, drafted, parents, children[static_cast<std::size_t>(outcome.nodes[0])],
                  with(prefix, step.decision), reached, distribution);
    }
  }
}

// Enumerates a tree of unknown tokens by drawing the children of each node one after another.
class SampledChildren {
 public:
  SampledChildren(const RowBehind& target, const RowBehind& draft, const SampledTree& tree,
                  SequenceDistribution& distribution)
      : target_(target), draft_(draft), tree_(tree), distribution_(distribution) {}

  // Adds the outcomes below a node that is reached with `probability`.
  void extend(std::int32_t number, const std::vector<std::int32_t>& prefix,
              const Probability& probability) {
    Node node;
    node.prefix = prefix;
    for (std::size_t j = 0; j < tree_.parents.size(); ++j) {
      if (tree_.parents[j] == number) node.children.push_back(static_cast<std::int32_t>(j));
    }
    const IntegerRow target = target_(prefix), draft = draft_(prefix);
    if (node.children.empty()) {
      for (const Step& bonus : draws_of(target)) {
        distribution_[with(prefix, bonus.decision)] += probability * bonus.probability;
      }
      return;
    }
    node.target.assign(node.children.size() + 1, target);
    node.draft.assign(node.children.size() + 1, draft);
    std::vector<std::uint64_t> left;
    for (std::size_t token = 0; token < draft.mask.size(); ++token) {
      left.push_back(draft.mask[token] != 0 ? draft.speculation_weight[token] : 0);
    }
    draw_next(node, left, {}, {}, probability);
  }

 private:
  struct Node {
    std::vector<std::int32_t> prefix, children;
    // The node's own rows, and a copy of them for each child.
    std::vector<IntegerRow> target, draft;
  };
  using Words = std::vector<std::uint64_t>;

  // Runs the model on the children that are drawn so far, as a tree of one level.
  SpeculationOutcome judge(const Node& node, const std::vector<std::int32_t>& drawn,
                           const Words& accept, std::uint64_t recover) const {
    const std::vector<std::int32_t> roots(drawn.size(), -1);
    std::vector<PositionWords> words(2);
    words[0].accept = accept.front();
    words[0].accept_next.assign(accept.begin() + 1, accept.end());
    words[0].recover = recover;
    const std::span target(node.target), draft(node.draft);
    return accept_tree_model(target.first(drawn.size() + 1), drawn, roots, words,
                             node.target[0].mask.size(), 1,
                             {draft.first(drawn.size() + 1), tree_.judged, false});
  }

  // Draws the next child from the remaining weights, `left`. The model rejected the children in
  // `drawn` with the words `accept`.
  void draw_next(const Node& node, const std::vector<std::uint64_t>& left,
                 const std::vector<std::int32_t>& drawn, const Words& accept,
                 const Probability& probability) {
    if (drawn.size() == node.children.size()) {
      for (const Step& recover : steps_of(
               [&](std::uint64_t word) { return judge(node, drawn, accept, word).tokens.at(0); })) {
        distribution_[with(node.prefix, recover.decision)] += probability * recover.probability;
      }
      return;
    }
    cpp_int total = 0;
    for (const std::uint64_t weight : left) total += weight;
    for (std::size_t token = 0; token < left.size(); ++token) {
      if (left[token] == 0) continue;
      const Probability reached = probability * Probability(cpp_int(left[token]), total);
      test(node, left, with(drawn, static_cast<std::int32_t>(token)), accept, reached);
    }
  }

  // Tests whether the last child in `drawn` is accepted.
  void test(const Node& node, std::vector<std::uint64_t> left,
            const std::vector<std::int32_t>& drawn, const Words& accept,
            const Probability& probability) {
    const auto words_with = [&accept](std::uint64_t word) {
      Words words = accept;
      words.push_back(word);
      return words;
    };
    if (tree_.drawn == SiblingSampling::without_replacement) {
      left[static_cast<std::size_t>(drawn.back())] = 0;
    }
    for (const Step& step : steps_of([&](std::uint64_t word) {
           return judge(node, drawn, words_with(word), 0).accepted;
         })) {
      const Probability reached = probability * step.probability;
      if (step.decision == 1) {
        extend(node.children[drawn.size() - 1], with(node.prefix, drawn.back()), reached);
      } else {
        draw_next(node, left, drawn, words_with(step.word), reached);
      }
    }
  }

  const RowBehind& target_;
  const RowBehind& draft_;
  const SampledTree& tree_;
  SequenceDistribution& distribution_;
};

}  // namespace

SequenceDistribution chain_distribution(const RowBehind& target, const RowBehind& draft,
                                        const RowBehind& drawn_from, std::size_t n) {
  SequenceDistribution distribution;
  extend_chain(target, draft, drawn_from, n, {}, 1, distribution);
  return distribution;
}

SequenceDistribution block_distribution(const RowBehind& target, const RowBehind& draft,
                                        const RowBehind& drawn_from, std::size_t n) {
  SequenceDistribution distribution;
  Block(target, draft, drawn_from, n, distribution).draw_next({}, 1);
  return distribution;
}

SequenceDistribution given_chain_distribution(const RowBehind& target,
                                              std::span<const std::int32_t> drafted) {
  std::vector<std::int32_t> parents;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    parents.push_back(static_cast<std::int32_t>(i) - 1);
  }
  return tree_distribution(target, drafted, parents);
}

SequenceDistribution tree_distribution(const RowBehind& target,
                                       std::span<const std::int32_t> drafted,
                                       std::span<const std::int32_t> parents) {
  SequenceDistribution distribution;
  extend_tree(target, drafted, parents, -1, {}, 1, distribution);
  return distribution;
}

SequenceDistribution sampled_tree_distribution(const RowBehind& target, const RowBehind& draft,
                                               const SampledTree& tree) {
  SequenceDistribution distribution;
  SampledChildren(target, draft, tree, distribution).extend(-1, {}, 1);
  return distribution;
}

SequenceDistribution completed(const SequenceDistribution& distribution, const RowBehind& target,
                               std::size_t length) {
  SequenceDistribution whole;
  const std::function<void(const std::vector<std::int32_t>&, const Probability&)> extend =
      [&](const std::vector<std::int32_t>& prefix, const Probability& probability) {
        if (prefix.size() >= length) {
          whole[{prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(length)}] +=
              probability;
          return;
        }
        const IntegerRow row = target(prefix);
        for (std::size_t token = 0; token < row.mask.size(); ++token) {
          const std::uint64_t weight = row.mask[token] != 0 ? row.speculation_weight[token] : 0;
          if (weight == 0) continue;
          const Probability share = Probability(cpp_int(weight), cpp_int(row.speculation_total()));
          extend(with(prefix, static_cast<std::int32_t>(token)), probability * share);
        }
      };
  for (const auto& [tokens, probability] : distribution) extend(tokens, probability);
  return whole;
}

SequenceDistribution sequences_of(const RowBehind& target, std::size_t length) {
  return completed({{{}, Probability(1)}}, target, length);
}

Probability total_variation(const SequenceDistribution& a, const SequenceDistribution& b) {
  Probability sum = 0;
  for (const auto& [tokens, probability] : a) {
    const auto other = b.find(tokens);
    const Probability difference =
        other == b.end() ? probability : Probability(probability - other->second);
    sum += abs(difference);
  }
  for (const auto& [tokens, probability] : b) {
    if (a.find(tokens) == a.end()) sum += probability;
  }
  return sum / 2;
}

}  // namespace fairdraw::reference
