// Mutants of the filters of processed rows: top_n_sigma, the filters by probability and their
// chains. A mutant keeps other tokens by the bitmask, and removes the filter from the model's
// processing, or changes the filter's parameters.
#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "reference/probability_filters.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using reference::RowProcessing;

/// Statistics of the logits on which top_n_sigma is measured: number, mean, population sigma,
/// maximum.
struct Spread {
  double tokens = 0, mean = 0, sigma = 0, largest = 0;
};

Spread spread_of(const std::vector<float>& logits) {
  Spread spread;
  double squares = 0;
  spread.largest = *std::ranges::max_element(logits);
  for (const float x : logits) {
    if (std::isinf(x)) continue;
    ++spread.tokens;
    spread.mean += x;
  }
  spread.mean /= spread.tokens;
  for (const float x : logits) {
    if (!std::isinf(x)) squares += (x - spread.mean) * (x - spread.mean);
  }
  spread.sigma = std::sqrt(squares / spread.tokens);
  return spread;
}

/// Changes the n of a row with top_n_sigma; `change` gets the row, and the statistics of its
/// remaining logits.
void with_n(RowProcessing& processing, const Row& row,
            double (*change)(double n, const Row& row, const Spread& left)) {
  const float n = processing.top_n_sigma;
  if (!(n > 0) || std::isinf(n)) return;
  RowProcessing others = processing;
  others.top_n_sigma = 0;
  const reference::ProcessedRow left = reference::process_row(row.logits, row.allowed, others);
  const Spread spread = spread_of(left.logits);
  if (left.status != RowStatus::ok || !(spread.sigma > 0)) return;
  processing.top_n_sigma = static_cast<float>(std::max(0.0, change(n, row, spread)));
}

constexpr Entry kSigmas[] = {
    {"sigma-ignored", "top_n_sigma is ignored", [](RowProcessing& p) { p.top_n_sigma = 0; }},
    {"sigma-of-a-sample", "sigma divides by the number of tokens less one",
     [](RowProcessing& p, Row& row) {
       with_n(p, row, [](double n, const Row&, const Spread& left) {
         return left.tokens > 1 ? n * std::sqrt(left.tokens / (left.tokens - 1)) : n;
       });
     }},
    {"sigma-below-the-mean", "the threshold is n sigma below the mean, not below the largest logit",
     [](RowProcessing& p, Row& row) {
       with_n(p, row, [](double n, const Row&, const Spread& left) {
         return n + (left.largest - left.mean) / left.sigma;
       });
     }},
    {"sigma-after-temperature", "sigma is of divided logits, the threshold of those before",
     [](RowProcessing& p, Row& row) {
       with_n(p, row, [](double n, const Row& of, const Spread&) {
         return of.parameters.temperature > 0 ? n / of.parameters.temperature : n;
       });
     }},
    {"sigma-of-banned-tokens", "sigma is of all finite logits of the row, banned ones too",
     [](RowProcessing& p, Row& row) {
       with_n(p, row, [](double n, const Row& of, const Spread& left) {
         return n * spread_of(of.logits).sigma / left.sigma;
       });
     }},
};

/// Token that the steps before the filters by probability leave.
struct LeftToken {
  std::size_t id = 0;
  double probability = 0, surprise = 0;  ///< p and -ln p, at temperature 1
};

struct LeftTokens {
  std::vector<LeftToken> tokens;
  double entropy = 0;
};

LeftTokens left_by_steps(const RowProcessing& processing, const Row& row) {
  RowProcessing others = processing;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) others.name = neutral;
#include "fairdraw/processing_parameters.inc"
  const reference::ProcessedRow left = reference::process_row(row.logits, row.allowed, others);
  LeftTokens result;
  if (left.status != RowStatus::ok) return result;
  const double largest = *std::ranges::max_element(left.logits);
  double total = 0;
  for (std::size_t id = 0; id < left.logits.size(); ++id) {
    if (std::isinf(left.logits[id])) continue;
    const double distance = largest - left.logits[id];
    result.tokens.push_back({id, std::exp(-distance), distance});
    total += std::exp(-distance);
  }
  for (LeftToken& token : result.tokens) {
    token.probability /= total;
    token.surprise += std::log(total);
    result.entropy += token.probability * token.surprise;
  }
  return result;
}

/// Lets a row keep only some of its tokens, and turns off its other filters.
void keep_only(RowProcessing& processing, Row& row, const std::vector<std::size_t>& ids) {
  if (ids.empty()) return;
  row.allowed.assign((row.logits.size() + 31) / 32, 0);
  for (const std::size_t id : ids) row.allowed[id / 32] |= 1U << (id % 32);
  processing.top_n_sigma = 0;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) processing.name = neutral;
#include "fairdraw/processing_parameters.inc"
}

/// Applies typical_p with another order of the tokens, and without the last of the tokens if
/// `drops_last`.
void keep_typical(RowProcessing& processing, Row& row, bool drops_last,
                  double (*key)(const LeftToken& token, double entropy)) {
  if (processing.typical_p == 1) return;
  LeftTokens left = left_by_steps(processing, row);
  std::ranges::stable_sort(
      left.tokens, {}, [&left, key](const LeftToken& token) { return key(token, left.entropy); });
  std::vector<std::size_t> ids;
  double mass = 0;
  for (const LeftToken& token : left.tokens) {
    mass += token.probability;
    const bool reaches = mass >= processing.typical_p;
    if (!reaches || !drops_last || ids.empty()) ids.push_back(token.id);
    if (reaches) break;
  }
  keep_only(processing, row, ids);
}

/// Keeps the tokens of at least a probability, and the first of the largest.
void keep_probable(RowProcessing& processing, Row& row, const LeftTokens& left, double threshold) {
  const auto largest = std::ranges::max_element(left.tokens, {}, &LeftToken::probability);
  std::vector<std::size_t> ids;
  for (auto token = left.tokens.begin(); token != left.tokens.end(); ++token) {
    if (token == largest || token->probability >= threshold) ids.push_back(token->id);
  }
  keep_only(processing, row, ids);
}

/// Returns the ids that a row keeps, most probable first.
std::vector<std::size_t> kept_by(const RowProcessing& processing, const Row& row) {
  const reference::ProcessedRow kept = reference::process_row(row.logits, row.allowed, processing);
  std::vector<std::size_t> ids;
  for (std::size_t id = 0; id < kept.logits.size(); ++id) {
    if (!std::isinf(kept.logits[id])) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, std::greater(), [&](std::size_t id) { return kept.logits[id]; });
  return ids;
}

/// Returns the ids that a row would keep if one filter were off.
std::vector<std::size_t> kept_without(float RowProcessing::*filter, float off,
                                      RowProcessing processing, const Row& row) {
  processing.*filter = off;
  return kept_by(processing, row);
}

constexpr Entry kProbabilityFilters[] = {
    {"top-h-keeps-the-crossing-token", "top_h keeps the token whose entropy is beyond the limit",
     [](RowProcessing& p, Row& row) {
       if (p.top_h == 1) return;
       std::vector<std::size_t> ids = kept_by(p, row);
       const std::vector<std::size_t> all = kept_without(&RowProcessing::top_h, 1, p, row);
       if (ids.size() < all.size()) ids.push_back(all[ids.size()]);
       keep_only(p, row, ids);
     }},
    {"top-h-of-a-uniform-row", "top_h is a share of ln n, the entropy of n equal tokens",
     [](RowProcessing& p, Row& row) {
       if (p.top_h == 1) return;
       const LeftTokens left = left_by_steps(p, row);
       if (left.entropy <= 0) return;
       const double of_uniform = std::log(static_cast<double>(left.tokens.size()));
       p.top_h = std::min(1.0F, static_cast<float>(p.top_h * of_uniform / left.entropy));
     }},
    {"xtc-spares-none", "xtc excludes the least probable of the top choices, too",
     [](RowProcessing& p, Row& row) {
       if (p.xtc_probability == 0) return;
       std::vector<std::size_t> ids = kept_by(p, row);
       const std::vector<std::size_t> all =
           kept_without(&RowProcessing::xtc_probability, 0, p, row);
       if (ids.size() == all.size() || ids.size() < 2) return;
       ids.erase(ids.begin());
       keep_only(p, row, ids);
     }},
    {"xtc-index-typos", "exllamav2 xtc_cpu(), at 617d697",
     "xtc compares the next token's probability with the threshold, and excludes one token less",
     [](RowProcessing& p, Row& row) {
       if (p.xtc_probability == 0) return;
       std::vector<std::size_t> ids = kept_by(p, row);
       const std::vector<std::size_t> all =
           kept_without(&RowProcessing::xtc_probability, 0, p, row);
       if (ids.size() == all.size()) return;
       ids.push_back(all[all.size() - ids.size() - 1]);
       keep_only(p, row, ids);
     }},
    {"xtc-coin-of-the-batch", "all requests of a batch toss the coin of the seed 0 for xtc",
     [](RowProcessing& p) { p.xtc_seed = 0; }},
    {"xtc-always", "xtc excludes in every step, whatever its probability is",
     [](RowProcessing& p) {
       if (p.xtc_probability > 0) p.xtc_probability = 1;
     }},
    {"typicalp-drops-last", "HF transformers PR #26579, fixed in PR #27165",
     "typical_p drops the token that reaches the mass",
     [](RowProcessing& p, Row& row) {
       keep_typical(p, row, true, [](const LeftToken& token, double entropy) {
         return std::abs(token.surprise - entropy);
       });
     }},
    {"typical-entropy-nan", "llama.cpp llama_sampler_typical_apply, with a logit of -inf",
     "a token of probability 0 makes the entropy NaN, so that typical_p keeps the likeliest",
     [](RowProcessing& p, Row& row) {
       keep_typical(p, row, false, [](const LeftToken& token, double) { return token.surprise; });
     }},
    {"typical-entropy-in-bits", "typical_p compares surprises in nats with an entropy in bits",
     [](RowProcessing& p, Row& row) {
       keep_typical(p, row, false, [](const LeftToken& token, double entropy) {
         return std::abs(token.surprise - entropy / std::log(2.0));
       });
     }},
    {"typical-ignored", "typical_p is ignored", [](RowProcessing& p) { p.typical_p = 1; }},
    {"epsilon-of-the-largest", "epsilon_cutoff is a fraction of the largest probability, as min_p",
     [](RowProcessing& p, Row& row) {
       if (p.epsilon_cutoff == 0) return;
       const LeftTokens left = left_by_steps(p, row);
       double largest = 0;
       for (const LeftToken& token : left.tokens) largest = std::max(largest, token.probability);
       keep_probable(p, row, left, p.epsilon_cutoff * largest);
     }},
    {"eta-root-of-the-product", "HF transformers EtaLogitsWarper, as its documentation says",
     "eta_cutoff takes the root of eta exp(-H), and not of eta alone",
     [](RowProcessing& p, Row& row) {
       if (p.eta_cutoff == 0) return;
       const LeftTokens left = left_by_steps(p, row);
       const double root = std::sqrt(p.eta_cutoff * std::exp(-left.entropy));
       keep_probable(p, row, left, std::min<double>(p.eta_cutoff, root));
     }},
    {"eta-is-epsilon", "eta_cutoff compares with eta, whatever the entropy is",
     [](RowProcessing& p) { p.epsilon_cutoff = std::max(p.epsilon_cutoff, p.eta_cutoff); }},
    {"p-less-without-squares", "p_less compares with the mean of the probabilities",
     [](RowProcessing& p, Row& row) {
       if (p.p_less == 0) return;
       const LeftTokens left = left_by_steps(p, row);
       keep_probable(p, row, left, 1 / static_cast<double>(left.tokens.size()));
     }},
};

/// Gives a row another chain, made from the steps of its own. Only adaptive_p keeps its place,
/// since no other is allowed.
void with_steps(RowProcessing& processing, void (*change)(std::vector<FilterStep>& steps)) {
  if (processing.filter_chain == 0) return;
  std::vector<FilterStep> steps = reference::filter_steps(processing);
  const bool adapts = steps.back() == FilterStep::adaptive_p;
  if (adapts) steps.pop_back();
  change(steps);
  if (adapts) steps.push_back(FilterStep::adaptive_p);
  processing.filter_chain = 0;
  for (std::size_t place = 0; place < steps.size(); ++place) {
    processing.filter_chain |= static_cast<std::uint64_t>(steps[place])
                               << (kFilterStepBits * place);
  }
}

constexpr Entry kChains[] = {
    {"filter-chain-ignored", "rows with a chain have their filters in the order of the library",
     [](RowProcessing& p) { p.filter_chain = 0; }},
    {"filter-chain-in-the-order-of-the-filters",
     "a chain says which filters a row has, not their order",
     [](RowProcessing& p) {
       with_steps(p, [](std::vector<FilterStep>& steps) { std::ranges::sort(steps); });
     }},
    {"filter-chain-backwards", "a chain is read from its last step to its first",
     [](RowProcessing& p) {
       with_steps(p, [](std::vector<FilterStep>& steps) { std::ranges::reverse(steps); });
     }},
    {"filter-chain-temperature-first", "all steps of a chain see its temperature",
     [](RowProcessing& p) {
       with_steps(p, [](std::vector<FilterStep>& steps) {
         std::ranges::stable_partition(
             steps, [](FilterStep step) { return step == FilterStep::temperature; });
       });
     }},
    {"filter-chain-temperature-ignored", "no step of a chain sees its temperature",
     [](RowProcessing& p) { p.chain_temperature = 1; }},
    {"filter-chain-step-twice-is-once",
     "a step that stands in a chain twice is applied at its first place",
     [](RowProcessing& p) {
       with_steps(p, [](std::vector<FilterStep>& steps) {
         for (auto step = steps.begin(); step != steps.end(); ++step) {
           steps.erase(std::remove(step + 1, steps.end(), *step), steps.end());
         }
       });
     }},
    {"filter-chain-top-k-keeps-one-more", "top_k of a chain keeps the logit after the k-th, too",
     [](RowProcessing& p) {
       if (p.chain_top_k > 0) ++p.chain_top_k;
     }},
    {"filter-chain-min-p-is-epsilon",
     "min_p of a chain compares with min_p itself, not with a share",
     [](RowProcessing& p) {
       if (p.chain_min_p == 0) return;
       p.epsilon_cutoff = p.chain_min_p;
       with_steps(p, [](std::vector<FilterStep>& steps) {
         std::ranges::replace(steps, FilterStep::min_p, FilterStep::epsilon_cutoff);
       });
     }},
    {"filter-chain-top-p-ignored", "top_p of a chain keeps all tokens",
     [](RowProcessing& p) { p.chain_top_p = 1; }},
};

/// Gives the tokens of a row with adaptive_p other logits. `logit` gets a token's probability at
/// the temperature of the chain, of the tokens that the chain leaves or of those that come to it.
void with_adapted_logits(RowProcessing& processing, Row& row, bool of_filtered,
                         double (*logit)(double probability, double target)) {
  if (processing.filter_chain == 0 || !(processing.adaptive_target >= 0)) return;
  const std::vector<FilterStep> steps = reference::filter_steps(processing);
  if (steps.empty() || steps.back() != FilterStep::adaptive_p) return;
  const double temperature = std::ranges::find(steps, FilterStep::temperature) == steps.end()
                                 ? 1
                                 : processing.chain_temperature;
  RowProcessing others = processing;
  others.adaptive_target = -1;
  reference::ProcessedRow left = reference::process_row(row.logits, row.allowed, others);
  if (left.status != RowStatus::ok) return;
  if (!of_filtered) others.filter_chain = 0;
  const std::vector<float> all = reference::process_row(row.logits, row.allowed, others).logits;
  const double largest = *std::ranges::max_element(all);
  double total = 0;
  for (const float x : all) total += std::exp((x - largest) / temperature);
  for (float& x : left.logits) {
    if (std::isinf(x)) continue;
    const double probability = std::exp((x - largest) / temperature) / total;
    x = static_cast<float>(logit(probability, processing.adaptive_target));
  }
  row.logits = left.logits;
  row.allowed.clear();
  processing = {};
}

constexpr Entry kAdaptiveP[] = {
    {"adaptive-p-ignored", "adaptive_p leaves the logits as they are",
     [](RowProcessing& p) { p.adaptive_target = -1; }},
    {"adaptive-p-of-the-whole-row", "adaptive_p reads the probabilities before the filters",
     [](RowProcessing& p, Row& row) {
       with_adapted_logits(p, row, false, [](double probability, double target) {
         const double d = std::abs(probability - target) / 0.3;
         return 5 - 10 * d * d / (1 + d);
       });
     }},
    {"adaptive-p-linear", "logits of adaptive_p fall in proportion to the distance",
     [](RowProcessing& p, Row& row) {
       with_adapted_logits(p, row, true, [](double probability, double target) {
         return 5 - 10 * std::abs(probability - target) / 0.3;
       });
     }},
    {"adaptive-p-quadratic", "logits of adaptive_p fall with the square of every distance",
     [](RowProcessing& p, Row& row) {
       with_adapted_logits(p, row, true, [](double probability, double target) {
         const double d = std::abs(probability - target) / 0.3;
         return 5 - 10 * d * d;
       });
     }},
    {"adaptive-p-of-one-side", "adaptive_p prefers all tokens above the target alike",
     [](RowProcessing& p, Row& row) {
       with_adapted_logits(p, row, true, [](double probability, double target) {
         const double d = std::max(target - probability, 0.0) / 0.3;
         return 5 - 10 * d * d / (1 + d);
       });
     }},
};

/// Gives a row whose temperature follows the entropy another temperature.
void with_temperature(RowProcessing& processing, Row& row,
                      float (*wrong)(const RowProcessing& processing, const Row& row)) {
  if (processing.dynatemp_range == 0 || row.parameters.temperature == 0) return;
  const float temperature = wrong(processing, row);
  if (!(temperature > 0)) return;
  row.parameters.temperature = temperature;
  processing.dynatemp_range = 0;
}

float following(const RowProcessing& processing, const Row& row, const std::vector<float>& logits) {
  return reference::dynamic_temperature(logits, processing, row.parameters.temperature);
}

constexpr Entry kTemperatures[] = {
    {"dynatemp-ignored", "the temperature does not follow the entropy",
     [](RowProcessing& p) { p.dynatemp_range = 0; }},
    {"dynatemp-of-the-whole-row", "the temperature follows the entropy before filters and bans",
     [](RowProcessing& p, Row& row) {
       with_temperature(p, row, [](const RowProcessing& given, const Row& of) {
         return following(given, of, of.logits);
       });
     }},
    {"dynatemp-exponent-ignored", "the temperature follows the entropy, and not a power of it",
     [](RowProcessing& p) { p.dynatemp_exponent = 1; }},
    {"dynatemp-upside-down", "rows with little entropy get the highest temperature",
     [](RowProcessing& p, Row& row) {
       with_temperature(p, row, [](const RowProcessing& given, const Row& of) {
         const auto left = reference::process_row(of.logits, of.allowed, given);
         const float center = of.parameters.temperature;
         return left.status == RowStatus::ok ? 2 * center - following(given, of, left.logits) : 0;
       });
     }},
    {"dynatemp-range-not-cut-at-0", "a range above the temperature is cut on both sides",
     [](RowProcessing& p, Row& row) {
       p.dynatemp_range = std::min(p.dynatemp_range, row.parameters.temperature);
     }},
};

}  // namespace

std::vector<Mutant> filter_mutants() {
  return joined({mutants_of("penalties", "processing/*", Base::integers, kSigmas),
                 mutants_of("penalties", "processing/*", Base::integers, kProbabilityFilters),
                 mutants_of("penalties", "processing/*", Base::integers, kChains),
                 mutants_of("penalties", "processing/*", Base::integers, kAdaptiveP),
                 mutants_of("penalties", "processing/*", Base::integers, kTemperatures)});
}

}  // namespace fairdraw::suites
