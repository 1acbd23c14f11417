#include "suites/gate/mutants/rule_sampler.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace fairdraw::suites {
namespace {

double uniform(std::uint64_t word) { return static_cast<double>(word >> 11) * 0x1p-53; }

// Returns the row scaled to a sum of 1, or nothing if the row is invalid.
std::optional<Weights> scaled(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) {
    if (!(value >= 0) || std::isinf(value)) return std::nullopt;
    sum += static_cast<double>(value);
  }
  if (sum == 0) return std::nullopt;
  Weights weights;
  for (const float value : row) weights.push_back(static_cast<double>(value) / sum);
  return weights;
}

std::optional<Weights> scaled(const reference::IntegerRow& row) {
  if (row.status != RowStatus::ok) return std::nullopt;
  Weights weights;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    weights.push_back(row.mask[id] == 0
                          ? 0
                          : static_cast<double>(row.weight[id]) / static_cast<double>(row.total));
  }
  return weights;
}

// Returns whether every drafted token is possible in its row, and whether all paths are valid.
bool well_formed(const Drafts& drafts) {
  std::vector<std::size_t> depth;
  for (std::size_t i = 0; i < drafts.drafted.size(); ++i) {
    const std::int64_t parent = drafts.parents[i];
    if (parent < -1 || parent >= static_cast<std::int64_t>(i)) return false;
    depth.push_back(parent < 0 ? 1 : depth[static_cast<std::size_t>(parent)] + 1);
    if (depth.back() > drafts.max_depth) return false;
    if (drafts.drafted[i] >= drafts.p.front().size()) return false;
    const bool known = !drafts.q.empty();
    if (known && drafts.q[static_cast<std::size_t>(parent + 1)][drafts.drafted[i]] == 0)
      return false;
  }
  return true;
}

std::size_t index(std::int32_t token) {  // negative tokens are outside every vocabulary
  return token < 0 ? ~std::size_t{0} : static_cast<std::size_t>(token);
}

}  // namespace

std::vector<std::size_t> Drafts::children(std::int64_t node) const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (parents[i] == node) result.push_back(i);
  }
  return result;
}

std::size_t draw_from(const Weights& weights, double u) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  double rest = u * sum;
  std::size_t last = 0;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    if (weights[id] <= 0) continue;
    last = id;
    if (rest < weights[id]) return id;
    rest -= weights[id];
  }
  return last;
}

Weights difference(const Weights& p, const Weights& q, double scale) {
  Weights result;
  for (std::size_t id = 0; id < p.size(); ++id) {
    result.push_back(std::max(scale * p[id] - q[id], 0.0));
  }
  return result;
}

RuleSampler::RuleSampler(harness::AcceptanceRule declared, Rules rules) : rules_(std::move(rules)) {
  description_.exact_integer = description_.scripted_words = false;
  // The sampler reports no probabilities, as mutants of the distribution do not, because weights of
  // the model end at 2^-48 of the largest.
  description_.reports_probs = description_.reports_logprobs = false;
  description_.acceptance_rule = declared;
}

std::string RuleSampler::run_chain(const fairdraw_chain& chain) {
  dtype_ = static_cast<DType>(chain.dtype);
  return ServingModel::run_chain(chain);
}

reference::ChainOutcome RuleSampler::accept_chain(std::span<const float> draft_probs,
                                                  std::span<const std::int32_t> draft_tokens,
                                                  std::span<const float> target_probs,
                                                  std::size_t vocab,
                                                  std::span<const std::uint64_t> accept_words,
                                                  std::span<const std::uint64_t> recover_words,
                                                  std::uint64_t bonus_word) {
  const auto as_the_model = [&] {
    return ServingModel::accept_chain(draft_probs, draft_tokens, target_probs, vocab, accept_words,
                                      recover_words, bonus_word);
  };
  const std::size_t n = draft_tokens.size();
  if (!rules_.chain || n == 0) return as_the_model();
  Drafts drafts;
  drafts.dtype = dtype_;
  drafts.max_depth = n;
  for (std::size_t i = 0; i <= n; ++i) {
    std::optional<Weights> p = scaled(target_probs.subspan(i * vocab, vocab));
    if (!p) return as_the_model();
    drafts.p.push_back(std::move(*p));
    drafts.accept.push_back(i < n ? uniform(accept_words[i]) : 0);
    drafts.recover.push_back(uniform(i < n ? recover_words[i] : bonus_word));
    if (i == n) break;
    std::optional<Weights> q = scaled(draft_probs.subspan(i * vocab, vocab));
    if (!q) return as_the_model();
    drafts.q.push_back(std::move(*q));
    drafts.drafted.push_back(index(draft_tokens[i]));
    drafts.parents.push_back(static_cast<std::int64_t>(i) - 1);
  }
  if (!well_formed(drafts)) return as_the_model();
  const Decision decision = rules_.chain(drafts);
  reference::ChainOutcome outcome;
  outcome.tokens.assign(n + 1, -1);
  for (std::size_t i = 0; i < decision.nodes.size(); ++i) outcome.tokens[i] = draft_tokens[i];
  outcome.tokens[decision.nodes.size()] = static_cast<std::int32_t>(decision.token);
  outcome.emitted = static_cast<std::int32_t>(decision.nodes.size());
  outcome.accepted = static_cast<std::int32_t>(decision.passed.value_or(decision.nodes.size()));
  return outcome;
}

reference::SpeculationOutcome RuleSampler::accept_drafts(harness::DraftedTokens& request) {
  const Rule& rule = request.tree ? rules_.tree : rules_.chain;
  const bool is_plain = request.status != RowStatus::ok || request.drafted.empty() ||
                        harness::is_greedy(request.target.front().parameters);
  const bool is_other = request.tree && rules_.with_replacement_only &&
                        request.siblings != SiblingSampling::with_replacement;
  if (!rule || is_plain || is_other || (request.draft.empty() && !rules_.unknown_too)) {
    return ServingModel::accept_drafts(request);
  }
  Drafts drafts;
  drafts.tree = request.tree;
  drafts.max_depth = request.tree ? request.max_depth : request.drafted.size();
  for (const auto& [from, to] :
       {std::pair(&request.target, &drafts.p), std::pair(&request.draft, &drafts.q)}) {
    for (const harness::DistributionRow& row : *from) {
      std::optional<Weights> weights = scaled(row.model());
      if (!weights) return ServingModel::accept_drafts(request);
      to->push_back(std::move(*weights));
    }
  }
  for (std::size_t i = 0; i < request.drafted.size(); ++i) {
    drafts.drafted.push_back(index(request.drafted[i]));
    drafts.parents.push_back(request.tree ? request.parents[i] : static_cast<std::int64_t>(i) - 1);
  }
  for (std::size_t i = 0; i <= request.drafted.size(); ++i) {
    const reference::PositionWords& words = request.words[i];
    const bool is_bonus = !request.tree && i == request.drafted.size();
    drafts.accept.push_back(uniform(words.accept));
    drafts.recover.push_back(uniform(is_bonus ? words.bonus : words.recover));
    drafts.accept_next.emplace_back();
    for (const std::uint64_t word : words.accept_next) {
      drafts.accept_next.back().push_back(uniform(word));
    }
  }
  if (!well_formed(drafts)) return ServingModel::accept_drafts(request);
  const Decision decision = rule(drafts);
  reference::SpeculationOutcome outcome;
  for (const std::size_t node : decision.nodes) {
    outcome.tokens.push_back(request.drafted[node]);
    if (request.tree) outcome.nodes.push_back(static_cast<std::int32_t>(node));
  }
  outcome.tokens.push_back(static_cast<std::int32_t>(decision.token));
  outcome.accepted = static_cast<std::int32_t>(decision.nodes.size());
  return outcome;
}

}  // namespace fairdraw::suites
