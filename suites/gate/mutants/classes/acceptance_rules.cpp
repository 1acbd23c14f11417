// Right and wrong acceptance rules besides the token-wise rule: block verification, matching with a
// token that was drawn beforehand, several candidates at once, typical acceptance. This file also
// has the token-wise rule in 16 bits.
#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/mutants/rule_sampler.h"

namespace fairdraw::suites {
namespace {

using harness::AcceptanceRule;
using Rules = RuleSampler::Rules;

// --- Block verification (Sun et al. 2024, Algorithm 2) ------------------------------------------

enum class BlockFault {
  none,
  unweighted_residual,    // p - q instead of r p - q
  unweighted_sum,         // draws from r p - q divided by the sum of p - q; the last token gets the
                          // rest
  weights_shifted,        // the test of a position uses the previous r
  uncapped,               // r is the product of all ratios, which may exceed 1
  ends_at_first_failure,  // ends at the first drafted token that is rejected, as the token-wise
                          // rule does
  bonus_row_before,       // draws the bonus token from the row of the last drafted token
};

double sum_of(const Weights& weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  return sum;
}

Rule block(BlockFault fault) {
  return [fault](const Drafts& drafts) {
    const std::size_t n = drafts.drafted.size();
    std::vector<double> r = {1};  // r[i]: after i drafts
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t x = drafts.drafted[i];
      const double product = r[i] * drafts.p[i][x] / drafts.q[i][x];
      r.push_back(fault == BlockFault::uncapped ? product : std::min(1.0, product));
    }
    std::size_t accepted = 0;
    for (std::size_t i = 1; i <= n; ++i) {
      const double weight = r[fault == BlockFault::weights_shifted ? i - 1 : i];
      double h = weight;
      if (i < n) {
        const double left = sum_of(difference(drafts.p[i], drafts.q[i], weight));
        // Without the cap, the denominator may not be positive; then the position passes.
        const double whole = left + 1 - weight;
        h = left <= 0 ? 0 : whole > 0 ? left / whole : 1;
      }
      if (drafts.accept[i - 1] < h) {
        accepted = i;
      } else if (fault == BlockFault::ends_at_first_failure) {
        break;
      }
    }
    Decision decision;
    for (std::size_t i = 0; i < accepted; ++i) decision.nodes.push_back(i);
    const double u = drafts.recover[accepted];
    if (accepted == n) {
      const bool before = fault == BlockFault::bonus_row_before && n > 0;
      decision.token = draw_from(drafts.p[before ? n - 1 : n], u);
      return decision;
    }
    const Weights &p = drafts.p[accepted], &q = drafts.q[accepted];
    const Weights weighted = difference(p, q, r[accepted]), plain = difference(p, q);
    if (fault == BlockFault::unweighted_residual) {
      decision.token = draw_from(plain, u);
    } else if (fault == BlockFault::unweighted_sum) {
      decision.token = draw_from(weighted, std::min(1.0, u * sum_of(plain) / sum_of(weighted)));
    } else {
      decision.token = draw_from(weighted, u);
    }
    return decision;
  };
}

// --- Matching: a draft is accepted if it equals the token drawn from the target -----------------

enum class MatchFault {
  none,
  draws_again,  // replaces a drafted token that did not match by the token of another draw
  sibling_row,  // after a match, reads the row of the first sibling of the matching node
};

Rule matching(MatchFault fault) {
  return [fault](const Drafts& drafts) {
    Decision decision;
    std::int64_t node = -1, row = -1;
    for (std::size_t depth = 0;; ++depth) {
      const Weights& p = drafts.target_after(row);
      const std::size_t drawn = draw_from(p, drafts.recover[depth]);
      const std::vector<std::size_t> children = drafts.children(node);
      const auto match = std::find_if(children.begin(), children.end(), [&](std::size_t child) {
        return drafts.drafted[child] == drawn;
      });
      if (match == children.end()) {
        const bool again = fault == MatchFault::draws_again && !children.empty();
        decision.token = again ? draw_from(p, drafts.accept[depth]) : drawn;
        return decision;
      }
      decision.nodes.push_back(*match);
      node = static_cast<std::int64_t>(*match);
      row = fault == MatchFault::sibling_row ? static_cast<std::int64_t>(children.front()) : node;
    }
  };
}

// Accepts tokens that are typical of the target, as Medusa does: p(x) > min(0.3, 0.5 exp(-H(p))).
Decision typical(const Drafts& drafts) {
  Decision decision;
  std::int64_t node = -1;
  for (std::size_t depth = 0;; ++depth) {
    const Weights& p = drafts.target_after(node);
    double entropy = 0;
    for (const double weight : p) entropy -= weight > 0 ? weight * std::log(weight) : 0;
    const double least = std::min(0.3, 0.5 * std::exp(-entropy));
    const std::vector<std::size_t> children = drafts.children(node);
    const auto taken = std::find_if(children.begin(), children.end(), [&](std::size_t child) {
      return p[drafts.drafted[child]] > least;
    });
    if (taken == children.end()) {
      decision.token = draw_from(p, drafts.recover[depth]);
      return decision;
    }
    decision.nodes.push_back(*taken);
    node = static_cast<std::int64_t>(*taken);
  }
}

// --- Several candidates at once (k-SEQ of SpecTr, Sun et al. 2023) -------------------------------

enum class CandidatesFault {
  none,
  residual_of_one,  // the residual is always that after one rejected candidate
  full_tests,       // the tests accept with p instead of p divided by the number of candidates
};

// Returns the rule for K siblings, each of which was drawn from q. With rho = K, which is always
// large enough, each sibling is accepted with probability min(1, p / (rho q)), whose mean is b.
// After K rejections, the residual is p - min(p / rho, q) (1 - (1 - b)^K) / b.
Rule candidates(CandidatesFault fault) {
  return [fault](const Drafts& drafts) {
    Decision decision;
    std::int64_t node = -1;
    for (std::size_t depth = 0;; ++depth) {
      const Weights& p = drafts.target_after(node);
      const std::vector<std::size_t> children = drafts.children(node);
      const auto number = static_cast<double>(children.size());
      if (children.empty()) {
        decision.token = draw_from(p, drafts.recover[depth]);
        return decision;
      }
      const Weights& q = drafts.q[static_cast<std::size_t>(node + 1)];
      const double rho = fault == CandidatesFault::full_tests ? 1 : number;
      std::int64_t next = -1;
      for (std::size_t k = 0; k < children.size() && next < 0; ++k) {
        const std::size_t x = drafts.drafted[children[k]];
        const double u = k == 0 ? drafts.accept[depth] : drafts.accept_next[depth].at(k - 1);
        if (u < p[x] / (rho * q[x])) next = static_cast<std::int64_t>(children[k]);
      }
      if (next < 0) {
        double accepted = 0;
        for (std::size_t id = 0; id < p.size(); ++id) accepted += std::min(p[id] / rho, q[id]);
        const double rounds = fault == CandidatesFault::residual_of_one ? 1 : number;
        const double taken =
            accepted > 0 ? (1 - std::pow(1 - accepted, rounds)) / accepted : rounds;
        Weights residual = p;
        for (std::size_t id = 0; id < p.size(); ++id) {
          residual[id] = std::max(p[id] - taken * std::min(p[id] / rho, q[id]), 0.0);
        }
        decision.token = draw_from(residual, drafts.recover[depth]);
        return decision;
      }
      decision.nodes.push_back(static_cast<std::size_t>(next));
      node = next;
    }
  };
}

// --- The token-wise rule in floating point -------------------------------------------------------

struct TokenWise {
  // True if ratio and uniform number have the dtype of the call's probabilities, and if the
  // residual is in bfloat16.
  bool narrow_ratio = false, narrow_uniform = false, narrow_residual = false;
};

double narrowed(DType dtype, double value) {
  return static_cast<double>(harness::rounded_to(dtype, static_cast<float>(value)));
}

Rule token_wise(TokenWise how) {
  return [how](const Drafts& drafts) {
    const auto passes = [&](std::size_t i) {
      const std::size_t x = drafts.drafted[i];
      double ratio = drafts.p[i][x] / drafts.q[i][x], u = drafts.accept[i];
      if (how.narrow_ratio) ratio = narrowed(drafts.dtype, std::min(ratio, 2.0));
      if (how.narrow_uniform) u = narrowed(drafts.dtype, u);
      return u < ratio;
    };
    const std::size_t n = drafts.drafted.size();
    Decision decision;
    std::size_t passed = 0, at = n;  // position at which the chain ends
    for (std::size_t i = 0; i < n; ++i) {
      if (passes(i)) {
        ++passed;
      } else {
        at = std::min(at, i);
      }
    }
    decision.passed = passed;
    for (std::size_t i = 0; i < at; ++i) decision.nodes.push_back(i);
    const Weights& p = drafts.p[at];
    if (at == n) {
      decision.token = draw_from(p, drafts.recover[at]);
      return decision;
    }
    Weights residual = difference(p, drafts.q[at]);
    if (how.narrow_residual) {
      const auto narrow = [](double value) { return narrowed(DType::bfloat16, value); };
      for (std::size_t id = 0; id < p.size(); ++id) {
        residual[id] = std::max(narrow(narrow(p[id]) - narrow(drafts.q[at][id])), 0.0);
      }
    }
    decision.token = draw_from(residual, drafts.recover[at]);
    return decision;
  };
}

// --- The tables ----------------------------------------------------------------------------------

Maker maker(AcceptanceRule declared, const Rules& rules) {
  return [declared, rules] { return std::make_unique<RuleSampler>(declared, rules); };
}

constexpr const char* kTokenWise = "rule:token_wise";
constexpr const char* kBlock = "rule:block";
constexpr const char* kBlockNotStated = "rule:block_not_stated";
constexpr const char* kMatching = "rule:matching";
constexpr const char* kCandidates = "rule:candidates";

template <BlockFault fault>
Rules block_rules() {
  return {.chain = block(fault), .tree = {}};
}

template <MatchFault fault>
Rules matching_rules() {
  return {.chain = matching(fault), .tree = matching(fault), .unknown_too = true};
}

Rules typical_rules() { return {.chain = typical, .tree = typical, .unknown_too = true}; }

template <CandidatesFault fault>
Rules candidates_rules() {
  return {.chain = {}, .tree = candidates(fault), .with_replacement_only = true};
}

template <TokenWise how>
Rules token_wise_rules() {
  return {.chain = token_wise(how), .tree = {}};
}

constexpr auto kUnstated = AcceptanceRule::none_stated;
constexpr const char* kChainLaw = "chain_law/*";
constexpr const char* kTreeLaw = "tree_law/*";
constexpr const char* kBfloat16Law = "chain_law/*/bfloat16/*";
constexpr const char* kFloat16Law = "chain_law/*/float16/*";

struct Wrong {
  const char *name, *wrong, *expected, *twin;
  Rules (*rules)();
  AcceptanceRule declared = kUnstated;
  const char* source = "systematic";
};
constexpr Wrong kWrong[] = {
    {"block-residual-unweighted",
     "block verification draws from p - q, not from what the accepted block left of p", kChainLaw,
     kBlockNotStated, block_rules<BlockFault::unweighted_residual>},
    {"block-residual-not-renormalised",
     "the residual of a block is scaled by the sum of p - q, and its last token gets the rest",
     kChainLaw, kBlockNotStated, block_rules<BlockFault::unweighted_sum>},
    {"block-weights-off-by-one", "the test of a position takes the block that ends before it",
     kChainLaw, kBlockNotStated, block_rules<BlockFault::weights_shifted>},
    {"block-ratios-not-capped",
     "the ratios of a block are multiplied without a cap at 1, so that one likely token pays for "
     "others",
     kChainLaw, kBlockNotStated, block_rules<BlockFault::uncapped>},
    {"block-ends-at-first-failure",
     "a block ends at the first position that fails, not at the last that passes", kChainLaw,
     kBlockNotStated, block_rules<BlockFault::ends_at_first_failure>},
    {"block-bonus-from-last-draft-row",
     "after a whole block the bonus token comes from the row of its last draft", kChainLaw,
     kBlockNotStated, block_rules<BlockFault::bonus_row_before>},
    {"declares-block-is-token-wise",
     "declares block verification, and tests token by token: accepts less", kChainLaw, kBlock,
     token_wise_rules<{}>, AcceptanceRule::block},
    {"declares-token-wise-is-block",
     "declares token-wise acceptance, and verifies by block: other drafts are accepted", kChainLaw,
     kTokenWise, block_rules<BlockFault::none>, AcceptanceRule::token_wise},
    {"match-draws-again", "what comes instead of a draft that did not match is drawn a second time",
     "chain_law/* verify_law/*", kMatching, matching_rules<MatchFault::draws_again>},
    {"match-reads-siblings-row",
     "behind a draft that matched, the row of its first sibling is read", kTreeLaw, kMatching,
     matching_rules<MatchFault::sibling_row>},
    {"typical-acceptance",
     "drafts that the target calls typical are accepted, whatever their probability",
     "verify_law/* chain_law/*", kMatching, typical_rules, kUnstated,
     "Medusa (Cai et al. 2024), typical acceptance"},
    {"candidates-residual-of-one", "two candidates are rejected, and the residual is that of one",
     kTreeLaw, kCandidates, candidates_rules<CandidatesFault::residual_of_one>},
    {"candidates-tested-in-full",
     "each of two candidates is accepted with min(1, p / q), as if it were alone", kTreeLaw,
     kCandidates, candidates_rules<CandidatesFault::full_tests>},
    {"narrow-accept-ratio", "the ratio p / q is rounded to the 16-bit dtype of the probabilities",
     kBfloat16Law, kTokenWise, token_wise_rules<TokenWise{.narrow_ratio = true}>,
     AcceptanceRule::token_wise},
    {"narrow-accept-uniform",
     "the uniform of the acceptance test is rounded to the dtype of the probabilities",
     kBfloat16Law, kTokenWise, token_wise_rules<TokenWise{.narrow_uniform = true}>,
     AcceptanceRule::token_wise},
    {"bfloat16-residual", "the residual of a rejection is taken in bfloat16", kFloat16Law,
     kTokenWise, token_wise_rules<TokenWise{.narrow_residual = true}>, AcceptanceRule::token_wise},
    {"narrow-accept-ratio-unstated", "the same ratio of a sampler that states no rule",
     kBfloat16Law, kTokenWise, token_wise_rules<TokenWise{.narrow_ratio = true}>},
    {"bfloat16-residual-unstated", "the same residual of a sampler that states no rule",
     kFloat16Law, kTokenWise, token_wise_rules<TokenWise{.narrow_residual = true}>},
};

}  // namespace

std::vector<Twin> acceptance_rule_twins() {
  return {{kTokenWise, maker(AcceptanceRule::token_wise, token_wise_rules<{}>())},
          {kBlock, maker(AcceptanceRule::block, block_rules<BlockFault::none>())},
          {kBlockNotStated, maker(kUnstated, block_rules<BlockFault::none>())},
          {kMatching, maker(kUnstated, matching_rules<MatchFault::none>())},
          {kCandidates, maker(kUnstated, candidates_rules<CandidatesFault::none>())}};
}

std::vector<Mutant> acceptance_rule_mutants() {
  std::vector<Mutant> mutants;
  for (const Wrong& row : kWrong) {
    mutants.push_back({row.name, row.source, "speculative", row.wrong, names_of(row.expected),
                       row.twin, maker(row.declared, row.rules())});
  }
  return mutants;
}

}  // namespace fairdraw::suites
