#include "reference/speculation/speculation_model.h"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <stdexcept>

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;

// Returns the weight of a token in the filtered distribution of a row. In a greedy row only one
// token has a weight above 0.
cpp_int mass(const IntegerRow& row, std::size_t token) {
  return row.mask[token] != 0 ? row.speculation_weight[token] : 0;
}

// Returns floor(word * value / 2^64).
cpp_int scale(std::uint64_t word, const cpp_int& value) { return (value * word) >> 64; }

// Returns true for a share min(1, p / q) of the random words, where p and q are the token's
// probabilities under target and draft.
bool stands(const IntegerRow& target, const IntegerRow& draft, std::size_t token,
            std::uint64_t word) {
  const cpp_int p = mass(target, token) * cpp_int(draft.speculation_total());
  const cpp_int q = mass(draft, token) * cpp_int(target.speculation_total());
  if (p == 0) return false;
  return p >= q || scale(word, q) < p;
}

// Draws a token in proportion to the excess of the target's probability over the draft's.
std::int32_t recovered(const IntegerRow& target, const IntegerRow& draft, std::uint64_t word) {
  const cpp_int target_total = target.speculation_total();
  const cpp_int draft_total = draft.speculation_total();
  std::vector<cpp_int> prefix;
  cpp_int sum = 0;
  for (std::size_t token = 0; token < target.mask.size(); ++token) {
    const cpp_int more = mass(target, token) * draft_total - mass(draft, token) * target_total;
    if (more > 0) sum += more;
    prefix.push_back(sum);
  }
  const cpp_int t = scale(word, sum);
  const auto found =
      std::find_if(prefix.begin(), prefix.end(), [&t](const cpp_int& until) { return until > t; });
  return static_cast<std::int32_t>(found - prefix.begin());
}

bool outside(std::span<const std::int32_t> drafted, std::size_t vocab) {
  return std::any_of(drafted.begin(), drafted.end(), [vocab](std::int32_t token) {
    return token < 0 || static_cast<std::size_t>(token) >= vocab;
  });
}

SpeculationOutcome failed(RowStatus status) { return {status, {}, {}, 0}; }

// The weights max(share P Zq - 2^64 Q Zp, 0) of block verification, and their sum.
struct BlockResidual {
  std::vector<cpp_int> of;
  cpp_int sum = 0;

  BlockResidual(const IntegerRow& target, const IntegerRow& draft, const cpp_int& share) {
    const cpp_int target_total = target.speculation_total();
    const cpp_int draft_total = draft.speculation_total();
    for (std::size_t token = 0; token < target.mask.size(); ++token) {
      const cpp_int kept = share * mass(target, token) * draft_total;
      const cpp_int drafted = (mass(draft, token) * target_total) << 64;
      of.push_back(kept > drafted ? cpp_int(kept - drafted) : cpp_int(0));
      sum += of.back();
    }
  }
};

// Verifies a chain of known distribution by block (Sun et al. 2024, Algorithm 2).
SpeculationOutcome walk_by_block(std::span<const IntegerRow> target,
                                 std::span<const IntegerRow> draft,
                                 std::span<const std::int32_t> drafted,
                                 std::span<const PositionWords> words) {
  const std::size_t n = drafted.size();
  const cpp_int whole = cpp_int(1) << 64;
  std::vector<cpp_int> shares = {whole};
  for (std::size_t i = 0; i < n && shares[i] != 0; ++i) {
    if (target[i].status != RowStatus::ok) return failed(target[i].status);
    if (draft[i].status != RowStatus::ok) return failed(draft[i].status);
    const auto token = static_cast<std::size_t>(drafted[i]);
    const cpp_int below = mass(draft[i], token) * cpp_int(target[i].speculation_total());
    if (below == 0) return failed(RowStatus::impossible_draft);
    const cpp_int above =
        shares[i] * mass(target[i], token) * cpp_int(draft[i].speculation_total());
    const cpp_int quotient = (above + below - 1) / below;
    shares.push_back(quotient < whole ? quotient : whole);
  }
  shares.resize(n + 1, 0);
  SpeculationOutcome outcome;
  std::size_t accepted = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (shares[i] == 0) break;
    const BlockResidual left(target[i], draft[i], shares[i]);
    const cpp_int others =
        (whole - shares[i]) * target[i].speculation_total() * cpp_int(draft[i].speculation_total());
    if (words[i - 1].accept * (left.sum + others) < whole * left.sum) accepted = i;
  }
  if (words[n - 1].accept < shares[n]) accepted = n;
  outcome.accepted = static_cast<std::int32_t>(accepted);
  outcome.tokens.assign(drafted.begin(), drafted.begin() + outcome.accepted);
  if (accepted == n) {
    if (target[n].status != RowStatus::ok) return failed(target[n].status);
    outcome.tokens.push_back(target[n].speculation_token_for(words[n].bonus));
    return outcome;
  }
  const BlockResidual left(target[accepted], draft[accepted], shares[accepted]);
  const cpp_int t = scale(words[accepted].recover, left.sum);
  cpp_int sum = 0;
  std::int32_t token = 0;
  while ((sum += left.of.at(static_cast<std::size_t>(token))) <= t) ++token;
  outcome.tokens.push_back(token);
  return outcome;
}

// The weights of a distribution, some of which may have been reduced.
struct Masses {
  std::vector<cpp_int> of;

  explicit Masses(const IntegerRow& row) {
    for (std::size_t token = 0; token < row.mask.size(); ++token) of.push_back(mass(row, token));
  }
  cpp_int sum() const {
    cpp_int total = 0;
    for (const cpp_int& value : of) total += value;
    return total;
  }
};

// The weights of the target that remain after some children of a node have been rejected.
class Residual {
 public:
  Residual(const IntegerRow& target, const IntegerRow& draft) : left_(target), draft_(draft) {}

  bool can_be_drafted(std::size_t token) const { return draft_.of[token] != 0; }

  bool stands(std::size_t token, std::uint64_t word) const {
    const cpp_int p = left_.of[token] * draft_.sum(), q = draft_.of[token] * left_.sum();
    return p != 0 && scale(word, q) < p;
  }

  void take_away(std::size_t token, SiblingSampling siblings) {
    const cpp_int left = left_.sum(), drawn = draft_.sum();
    for (std::size_t j = 0; j < left_.of.size(); ++j) {
      const cpp_int more = left_.of[j] * drawn - draft_.of[j] * left;
      left_.of[j] = more > 0 ? more : cpp_int(0);
    }
    if (siblings == SiblingSampling::without_replacement) draft_.of[token] = 0;
  }

  std::int32_t token_for(std::uint64_t word) const {
    const cpp_int t = scale(word, left_.sum());
    cpp_int sum = 0;
    std::size_t token = 0;
    while ((sum += left_.of[token]) <= t) ++token;
    return static_cast<std::int32_t>(token);
  }

 private:
  Masses left_, draft_;
};

// Walks a tree of drafted tokens whose distribution is known. Precondition: the parents of the tree
// are valid.
SpeculationOutcome walk_by_distribution(std::span<const IntegerRow> target,
                                        std::span<const std::int32_t> drafted,
                                        std::span<const std::int32_t> parents,
                                        std::span<const PositionWords> words,
                                        const TreeDraft& draft) {
  SpeculationOutcome outcome;
  for (std::int32_t node = -1;;) {
    const IntegerRow& row = target[static_cast<std::size_t>(node) + 1];
    const IntegerRow& draft_row = draft.rows[static_cast<std::size_t>(node) + 1];
    const PositionWords& here = words[outcome.tokens.size()];
    std::vector<std::size_t> children;
    for (std::size_t j = 0; j < drafted.size(); ++j) {
      if (parents[j] == node) children.push_back(j);
    }
    if (row.status != RowStatus::ok) return failed(row.status);
    if (children.empty()) {
      outcome.tokens.push_back(row.speculation_token_for(here.bonus));
      return outcome;
    }
    if (draft_row.status != RowStatus::ok) return failed(draft_row.status);
    Residual residual(row, draft_row);
    node = -1;
    for (std::size_t k = 0; k < children.size() && node < 0; ++k) {
      const auto token = static_cast<std::size_t>(drafted[children[k]]);
      if (!residual.can_be_drafted(token)) return failed(RowStatus::impossible_draft);
      if (residual.stands(token, k == 0 ? here.accept : here.accept_next.at(k - 1))) {
        node = static_cast<std::int32_t>(children[k]);
      } else {
        residual.take_away(token, draft.siblings);
      }
    }
    if (node < 0) {
      outcome.tokens.push_back(residual.token_for(here.recover));
      return outcome;
    }
    outcome.tokens.push_back(drafted[static_cast<std::size_t>(node)]);
    outcome.nodes.push_back(node);
    ++outcome.accepted;
  }
}

}  // namespace

SpeculationOutcome accept_chain_model(std::span<const IntegerRow> target,
                                      std::span<const IntegerRow> draft,
                                      std::span<const std::int32_t> drafted,
                                      std::span<const PositionWords> words, std::size_t vocab,
                                      bool greedy, AcceptRule rule) {
  const std::size_t n = drafted.size();
  if (target.size() != n + 1 || words.size() != n + 1 || (!draft.empty() && draft.size() != n)) {
    throw std::invalid_argument("accept_chain_model: an array has the wrong length");
  }
  if (outside(drafted, vocab)) return failed(RowStatus::index_out_of_range);
  const bool by_distribution = !draft.empty() && !greedy;
  if (by_distribution && rule == AcceptRule::block) {
    return walk_by_block(target, draft, drafted, words);
  }
  SpeculationOutcome outcome;
  for (std::size_t i = 0; i <= n; ++i) {
    if (target[i].status != RowStatus::ok) return failed(target[i].status);
    if (!by_distribution || i == n) {
      outcome.tokens.push_back(by_distribution ? target[i].speculation_token_for(words[i].bonus)
                                               : words[i].drawn_from(target[i]));
      if (i == n || outcome.tokens[i] != drafted[i]) break;
      ++outcome.accepted;
      continue;
    }
    const auto token = static_cast<std::size_t>(drafted[i]);
    if (draft[i].status != RowStatus::ok) return failed(draft[i].status);
    if (mass(draft[i], token) == 0) return failed(RowStatus::impossible_draft);
    if (!stands(target[i], draft[i], token, words[i].accept)) {
      outcome.tokens.push_back(recovered(target[i], draft[i], words[i].recover));
      break;
    }
    outcome.tokens.push_back(drafted[i]);
    ++outcome.accepted;
  }
  return outcome;
}

SpeculationOutcome accept_tree_model(std::span<const IntegerRow> target,
                                     std::span<const std::int32_t> drafted,
                                     std::span<const std::int32_t> parents,
                                     std::span<const PositionWords> words, std::size_t vocab,
                                     std::size_t max_depth, const TreeDraft& draft) {
  const std::size_t n = drafted.size();
  if (target.size() != n + 1 || parents.size() != n || words.size() < std::min(n, max_depth) + 1 ||
      (!draft.rows.empty() && draft.rows.size() != n + 1)) {
    throw std::invalid_argument("accept_tree_model: an array has the wrong length");
  }
  if (outside(drafted, vocab)) return failed(RowStatus::index_out_of_range);
  std::size_t deepest = 0;
  for (std::size_t j = 0; j < n; ++j) {
    if (parents[j] < -1 || parents[j] >= static_cast<std::int32_t>(j)) {
      return failed(RowStatus::invalid_draft_tree);
    }
    const auto siblings = std::count(parents.begin(), parents.end(), parents[j]);
    if (!draft.rows.empty() && siblings > kMaxSiblings) {
      return failed(RowStatus::invalid_draft_tree);
    }
    std::size_t depth = 0;
    for (auto at = static_cast<std::int32_t>(j); at >= 0;
         at = parents[static_cast<std::size_t>(at)]) {
      ++depth;
    }
    deepest = std::max(deepest, depth);
  }
  if (deepest > max_depth) return failed(RowStatus::invalid_draft_length);

  if (!draft.rows.empty() && n > 0 && !draft.greedy) {
    return walk_by_distribution(target, drafted, parents, words, draft);
  }
  SpeculationOutcome outcome;
  for (std::int32_t node = -1;;) {
    const IntegerRow& row = target[static_cast<std::size_t>(node) + 1];
    if (row.status != RowStatus::ok) return failed(row.status);
    const std::int32_t token = words[outcome.tokens.size()].drawn_from(row);
    outcome.tokens.push_back(token);
    std::int32_t next = -1;
    for (std::size_t j = n; j-- > 0;) {
      if (parents[j] == node && drafted[j] == token) next = static_cast<std::int32_t>(j);
    }
    if (next < 0) return outcome;
    outcome.nodes.push_back(next);
    ++outcome.accepted;
    node = next;
  }
}

}  // namespace fairdraw::reference
