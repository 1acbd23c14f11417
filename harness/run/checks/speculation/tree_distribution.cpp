// Judges the distribution of trees whose drafts have a known distribution. The root has the
// children 0 and 1, and child 1 has child 2; all requests have the same rows. The emitted tokens
// have the target's distribution, and each child is accepted or replaced as in multi-round
// rejection. The expected probabilities are computed in exact fractions, for these tables:
//   first       the first token: p_0;
//   step        the accepted child of the root and its token, or the replacement;
//   rejected    the first child and the replacement if both are rejected, otherwise a rest;
//   bonus       the first child, if accepted, and the bonus token after it, otherwise a rest;
//   behind      the second child, if accepted, and the token after it, drafted or not, otherwise
//               a rest: q(x) and then p_2;
//   neighbours  the first tokens of two neighbouring requests of the batch: p_0(x) p_0(y).
//
// Random words that siblings, purposes, depths or requests share change the counts of some of these
// tables. All tables except `first` and `neighbours` are for the token-wise rule. A sampler that
// does not declare this rule has the tables of emitted_sequences.h; then the rows of a node depend
// on its token alone, because rules that consider whole paths balance the same token at different
// places of the tree.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/run/calls/row_probabilities.h"
#include "harness/run/checks/speculation/speculation_distributions.h"
#include "reference/speculation/speculation_distribution.h"

namespace fairdraw::harness {
namespace {

using reference::Probability;
using Exact = std::vector<Probability>;

constexpr std::int32_t kParents[] = {-1, -1, 1};
constexpr std::int64_t kDraftsOfTree = 3, kDepth = 2, kRows = kDraftsOfTree + 1;

struct Kind {
  DraftLaw distribution;
  SiblingSampling siblings;
  const char* name;
};
constexpr Kind kKinds[] = {
    {DraftLaw::probs, SiblingSampling::with_replacement, "_with_replacement"},
    {DraftLaw::logits, SiblingSampling::without_replacement, "_without_replacement"}};

Exact exact_distribution(const reference::IntegerRow& row) {
  Exact distribution;
  const std::uint64_t total = row.speculation_total();
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    distribution.emplace_back(row.mask[id] != 0 ? row.speculation_weight[id] : 0, total);
  }
  return distribution;
}

// Returns the remaining mass of `p` after the rejection of a child that was drawn from `q`.
Exact left_of(const Exact& p, const Exact& q) {
  Exact left;
  Probability sum = 0;
  for (std::size_t id = 0; id < p.size(); ++id) {
    left.push_back(p[id] > q[id] ? Probability(p[id] - q[id]) : Probability(0));
    sum += left.back();
  }
  for (Probability& value : left) value /= sum;
  return left;
}

Exact without(Exact distribution, std::size_t token) {
  const Probability rest = 1 - distribution[token];
  distribution[token] = 0;
  for (Probability& value : distribution) value /= rest;
  return distribution;
}

double rounded(const Probability& value) { return value.convert_to<double>(); }

std::vector<double> rounded(const Exact& distribution) {
  std::vector<double> values;
  for (const Probability& value : distribution) values.push_back(rounded(value));
  return values;
}

class TreeDistribution : public DistributionTables {
 public:
  TreeDistribution(const CheckInput& input, const Kind& kind) : input_(input), kind_(kind) {
    width_ = static_cast<std::size_t>(input.logits->vocab());
    choose_rows();
    if (!is_token_wise(input)) {
      sequences_.emplace(kind.name, width_, [this](std::span<const std::int32_t> prefix) {
        const std::size_t depth = prefix.size();
        const auto row = static_cast<std::size_t>(
            depth == 0 ? 0 : row_of_token(static_cast<std::int64_t>(depth), prefix.back()));
        return distribution_of_row(target_model_[row]);
      });
      return;
    }
    for (const char* name : {"first", "step", "rejected", "bonus", "behind", "neighbours"}) {
      tables_.emplace_back(std::string(name) + kind.name, width_);
    }
    expect();
  }

  void draw(std::int64_t count, std::uint64_t call, CheckOutcome& outcome) {
    SpeculationRequest request;
    request.dtype = input_.logits->dtype();
    request.batch = count;
    request.max_draft = kDraftsOfTree;
    request.max_depth = kDepth;
    request.vocab = static_cast<std::int64_t>(width_);
    request.trees = true;
    request.draft_law = kind_.distribution;
    request.siblings = kind_.siblings;
    const std::uint64_t seed = mixed(input_.seed, 2 * call + (&kind_ == kKinds ? 0 : 1));
    set_seeds(input_, seed, call, request);
    for (std::int64_t b = 0; b < count; ++b) {
      request.parameters.push_back(target_.front().parameters);
      if (kind_.distribution == DraftLaw::logits) {
        request.draft_parameters.push_back(draft_.front().parameters);
      }
      for (std::int64_t j = 0; j < kDraftsOfTree; ++j) {
        request.parents.push_back(kParents[j]);
        request.draft_tokens.push_back(drafted(request, b, j, call));
      }
      for (std::int64_t node = -1; node < kDraftsOfTree; ++node) {
        const auto [target, draft] = rows_of_node(request, node);
        append_row(target_[target].values, request.target);
        append_row(draft_[draft].values, request.draft);
      }
    }
    const SpeculationResponse response = run_speculation(*input_.sampler, request);
    if (!response.ran()) {
      outcome.fail(response.trouble());
      return;
    }
    classify(request, response, call, outcome);
  }

 private:
  // Returns the target's row after a token at depth 1 or 2.
  static std::int64_t row_of_token(std::int64_t depth, std::int32_t token) {
    return depth == 1 ? 1 + token % 2 : 3;
  }

  // Returns the indices of the target's and the draft's row of a node of the last request; -1 is
  // the root.
  std::pair<std::size_t, std::size_t> rows_of_node(const SpeculationRequest& request,
                                                   std::int64_t node) const {
    const auto own = static_cast<std::size_t>(node + 1);
    if (!sequences_ || node < 0) return {own, own};
    const std::int32_t token = request.draft_tokens[request.draft_tokens.size() - kDraftsOfTree +
                                                    static_cast<std::size_t>(node)];
    const std::int64_t depth = node < 2 ? 1 : 2;
    return {static_cast<std::size_t>(row_of_token(depth, token)), depth == 1 ? 2 : own};
  }

  // Chooses the rows. Only a test with a probability between 0 and 1 depends on its random word, so
  // that words that tests, depths or purposes share show only in rows with such tests. Rows in
  // which they are rare are replaced by the next rows of the source. Few tokens leave no row in
  // which all of these tests are frequent, so that each kind of siblings has its own.
  void choose_rows() {
    constexpr int kTrials = 32;
    constexpr double kEnough = 0.05;  // one request of 20 has such a test
    int best = 0;
    double most = -1;
    for (int trial = 0; trial < kTrials && most < 1 + kEnough; ++trial) {
      make_rows(trial);
      const OpenTests open = open_tests();
      const double shared = std::min({open.second, open.behind, kEnough});
      const double replaced = std::min(open.replaced, kEnough);
      const bool is_first_kind = &kind_ == kKinds;
      const double score =
          is_first_kind ? shared / kEnough + replaced : replaced / kEnough + shared;
      if (score > most) most = score, best = trial;
    }
    make_rows(best);
  }

  // Shares of requests in which a test has a probability between 0 and 1.
  struct OpenTests {
    double second = 0;    // that of the second child, and that of the first child, too
    double behind = 0;    // that of the child behind it
    double replaced = 0;  // that of the first child, if both children are rejected and the
                          // replacement is not the likeliest one
  };

  OpenTests open_tests() const {
    const std::vector<double> p = rounded(p_[0]), q = rounded(q_[0]),
                              left = rounded(left_of(p_[0], q_[0]));
    const auto is_open = [](double mass, double drawn) { return mass > 0 && mass < drawn; };
    OpenTests open;
    double stood = 0;
    for (std::size_t x = 0; x < width_; ++x) {
      if (q[x] <= p[x]) continue;
      const double none = q[x] - p[x];
      const std::vector<double> next = rounded(next_draft(q_[0], x));
      double rest = 0, likeliest = 0;
      for (std::size_t y = 0; y < width_; ++y) {
        if (is_open(p[x], q[x]) && is_open(left[y], next[y])) open.second += none * next[y];
        stood += none * std::min(left[y], next[y]);
        rest += std::max(left[y] - next[y], 0.0);
        likeliest = std::max(left[y] - next[y], likeliest);
      }
      if (is_open(p[x], q[x])) open.replaced += none * (rest - likeliest);
    }
    for (std::size_t z = 0; z < width_; ++z) {
      if (is_open(rounded(p_[2][z]), rounded(q_[2][z]))) open.behind += stood * rounded(q_[2][z]);
    }
    return open;
  }

  // Returns the distribution of the second child if the first child is `x`.
  Exact next_draft(const Exact& q, std::size_t x) const {
    return kind_.siblings == SiblingSampling::with_replacement ? q : without(q, x);
  }

  // Makes rows of target and draft from the source. Some tokens have probability 0 in one of the
  // two distributions, so that their supports differ. The draft keeps at least three tokens, so
  // that two of them can always be drawn.
  void make_rows(int trial) {
    target_.clear();
    draft_.clear();
    target_model_.clear();
    draft_model_.clear();
    p_.clear();
    q_.clear();
    const std::int64_t first = input_.first_row + 2 * kRows * trial;
    for (std::int64_t i = 0; i < kRows; ++i) {
      DistributionRow target;
      target.values.resize(width_);
      input_.logits->fill(first + 2 * i, target.values);
      for (auto id = static_cast<std::size_t>(i); id < width_; id += 4) {
        target.values[id] = -INFINITY;
      }
      target.parameters = input_.parameters.front();
      target.tie_rule = input_.tie_rule;
      target.filter_order = input_.filter_order;
      DistributionRow draft = target;
      input_.logits->fill(first + 2 * i + 1, draft.values);
      for (auto id = static_cast<std::size_t>(i + 1); id < width_; id += 3) {
        draft.values[id] = -INFINITY;
      }
      draft.parameters = {};
      draft.parameters.temperature = 1.5F;
      draft.parameters.top_k = 4;
      if (kind_.distribution == DraftLaw::probs) {
        to_probabilities(draft.values, 1, input_.logits->dtype());
        draft.from_probs = true;
        draft.parameters = {};
      }
      target_model_.push_back(target.model());
      p_.push_back(exact_distribution(target_model_.back()));
      draft_model_.push_back(draft.model());
      q_.push_back(exact_distribution(draft_model_.back()));
      draft_.push_back(std::move(draft));
      target_.push_back(std::move(target));
    }
  }

  void expect() {
    const Exact &p = p_[0], &q = q_[0];
    const Exact left = left_of(p, q);
    const auto stands = [](const Probability& mass, const Probability& drawn) {
      return mass >= drawn ? Probability(1) : Probability(mass / drawn);
    };
    Exact second(width_, 0), instead(width_, 0);  // the second child and the replacement
    for (std::size_t x = 0; x < width_; ++x) {
      if (q[x] == 0) continue;
      const Probability first = q[x] * stands(p[x], q[x]), none = q[x] - first;
      table(1).expect(table(1).pair(0, x), rounded(first));
      for (std::size_t y = 0; y < width_; ++y) {
        table(3).expect(table(3).pair(x, y), rounded(first * p_[1][y]));
      }
      if (none == 0) continue;
      const Exact next = next_draft(q, x);
      Probability neither = 0;
      for (std::size_t y = 0; y < width_; ++y) {
        if (next[y] == 0) continue;
        const Probability stood = none * next[y] * stands(left[y], next[y]);
        second[y] += stood;
        neither += none * next[y] - stood;
      }
      if (neither == 0) continue;
      const Exact rest = left_of(left, next);
      for (std::size_t y = 0; y < width_; ++y) {
        instead[y] += neither * rest[y];
        table(2).expect(table(2).pair(x, y), rounded(neither * rest[y]));
      }
    }
    for (std::size_t x = 0; x < width_; ++x) {
      table(0).expect(table(0).single(x), rounded(p[x]));
      table(1).expect(table(1).pair(1, x), rounded(second[x]));
      table(1).expect(table(1).pair(2, x), rounded(instead[x]));
      for (std::size_t y = 0; y < width_; ++y) {
        table(4).expect(table(4).pair(x, y), rounded(second[x] * p_[2][y]));
        table(5).expect(table(5).pair(x, y), rounded(p[x] * p[y]));
      }
    }
    for (const std::size_t open : {2U, 3U, 4U}) table(open).expect_rest();
  }

  // Draws a draft with the harness's own random words, or with those that the specification
  // reserves for drafts. Precondition: the last drafts of `request` are those before `node` of the
  // same request.
  std::int32_t drafted(const SpeculationRequest& request, std::int64_t b, std::int64_t node,
                       std::uint64_t call) const {
    const bool own = call % 2 != 0 || request.seed_is_scalar;
    const auto s = static_cast<std::size_t>(b);
    const std::uint64_t depth = node < 2 ? 0 : 1;
    const std::uint64_t word =
        own ? mixed(mixed(~input_.seed, call), static_cast<std::uint64_t>(b * kDraftsOfTree + node))
            : random_word(request.seed[s], request.offset[s] + depth, Purpose::draft,
                          static_cast<std::uint32_t>(node % 2));
    const reference::IntegerRow& whole =
        draft_model_[static_cast<std::size_t>(std::int64_t{kParents[node]} + 1)];
    if (node == 1 && kind_.siblings == SiblingSampling::without_replacement) {
      // The filter top_k applies to the whole distribution, before the first child is excluded.
      const auto gone = static_cast<std::size_t>(request.draft_tokens.back());
      const std::uint64_t left = whole.speculation_total() - whole.speculation_weight[gone];
      reference::RowWeight t = reference::position_of(word, left);
      for (std::size_t id = 0;; ++id) {
        if (id == gone || whole.mask[id] == 0) continue;
        if (t < whole.speculation_weight[id]) return static_cast<std::int32_t>(id);
        t -= whole.speculation_weight[id];
      }
    }
    return whole.token_for(word);
  }

  void classify(const SpeculationRequest& request, const SpeculationResponse& response,
                std::uint64_t call, CheckOutcome& outcome) {
    std::int64_t before = -1;
    for (std::int64_t b = 0; b < request.batch; ++b) {
      const std::int32_t* const tokens = response.tokens.data() + b * (kDepth + 1);
      const std::int32_t* const nodes = response.nodes.data() + b * kDepth;
      const std::int32_t* const drafted = request.draft_tokens.data() + b * kDraftsOfTree;
      const std::int32_t stand = response.accepted[static_cast<std::size_t>(b)];
      if (!well_formed(tokens, nodes, drafted, stand)) {
        outcome.fail(fmt::format(
            "a tree of {} {} and, after the second, {} got {} {} {}, nodes {} {}, {} accepted",
            drafted[0], drafted[1], drafted[2], tokens[0], tokens[1], tokens[2], nodes[0], nodes[1],
            stand));
        return;
      }
      ++outcome.draws;
      if (sequences_) {
        count_sequence(input_, emitted_tokens(tokens, stand), call, b);
        continue;
      }
      const auto at = [](std::int32_t token) { return static_cast<std::size_t>(token); };
      const std::size_t which = stand == 0 ? 2 : at(nodes[0]);
      table(0).count(table(0).single(at(tokens[0])));
      table(1).count(table(1).pair(which, at(tokens[0])));
      table(2).count(which == 2 ? table(2).pair(at(drafted[0]), at(tokens[0])) : table(2).rest());
      for (const std::size_t child : {0U, 1U}) {
        Table& behind = table(3 + child);
        behind.count(which == child ? behind.pair(at(tokens[0]), at(tokens[1])) : behind.rest());
      }
      if (before >= 0) {
        table(5).count(table(5).pair(static_cast<std::size_t>(before), at(tokens[0])));
        before = -1;
      } else {
        before = tokens[0];
      }
    }
    if (sequences_) sequences_->end_of_call();
  }

  bool well_formed(const std::int32_t* tokens, const std::int32_t* nodes,
                   const std::int32_t* drafted, std::int32_t stand) const {
    if (stand < 0 || stand > kDepth) return false;
    std::int32_t node = -1;
    for (std::int32_t i = 0; i <= kDepth; ++i) {
      if (i > stand) {
        if (tokens[i] != -1 || (i < kDepth && nodes[i] != -1)) return false;
        continue;
      }
      if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= width_) return false;
      if (i == stand) {
        if (i < kDepth && nodes[i] != -1) return false;
        continue;
      }
      if (nodes[i] < 0 || nodes[i] >= kDraftsOfTree || kParents[nodes[i]] != node) return false;
      if (tokens[i] != drafted[nodes[i]]) return false;
      node = nodes[i];
    }
    return true;
  }

  const CheckInput& input_;
  const Kind& kind_;
  std::size_t width_ = 0;
  std::vector<DistributionRow> target_, draft_;
  std::vector<reference::IntegerRow> target_model_, draft_model_;
  std::vector<Exact> p_, q_;
};

}  // namespace

CheckOutcome check_tree_distribution(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  if (const Lack lack = lack_of_distributions(input); !lack.empty()) {
    return skipped(lack);
  }
  if (!sampler.draft_tree_laws) return skipped(lack_of("draft_tree_laws"));
  std::vector<TreeDistribution> distributions;
  distributions.reserve(std::size(kKinds));
  for (const Kind& kind : kKinds) distributions.emplace_back(input, kind);
  return judge_distributions(
      input, distributions, 2 * kRows * std::ssize(kKinds),
      "{} trees have the target's distribution, child by child and in pairs");
}

}  // namespace fairdraw::harness
