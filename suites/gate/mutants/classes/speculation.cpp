// Mutants of verification in serving: wrong acceptance of drafted tokens, wrong replacement tokens,
// wrong rows.
#include <algorithm>

#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

using harness::DistributionRow;
using harness::DraftedTokens;
using reference::IntegerRow;
using reference::SpeculationOutcome;
__extension__ typedef unsigned __int128 Wide;

bool is_random(const DraftedTokens& request) {
  return !request.target.empty() && !harness::is_greedy(request.target.front().parameters);
}

bool is_token(const DraftedTokens& request, std::int32_t token) {
  return token >= 0 && static_cast<std::size_t>(token) < request.vocab;
}

// Puts the whole mass of a valid row on one token.
void make_certain(DistributionRow& row, std::int32_t token) {
  if (row.model().status != RowStatus::ok) return;
  row.from_probs = true;
  row.parameters = {};
  std::fill(row.values.begin(), row.values.end(), 0.0F);
  row.values[static_cast<std::size_t>(token)] = 1;
}

// Returns the position of a chain at which a drafted token was rejected by its own distribution, or
// -1.
std::int64_t rejected_position(const SpeculationOutcome& outcome, const DraftedTokens& request) {
  const bool rejected = outcome.status == RowStatus::ok && !request.tree &&
                        !request.draft.empty() && is_random(request) &&
                        static_cast<std::size_t>(outcome.accepted) < request.drafted.size();
  return rejected ? outcome.accepted : -1;
}

std::vector<Wide> masses(const DistributionRow& row) {
  const IntegerRow model = row.model();
  std::vector<Wide> result;
  for (std::size_t id = 0; id < model.mask.size(); ++id) {
    result.push_back(model.mask[id] != 0 ? model.speculation_weight[id] : 0);
  }
  return result;
}

Wide sum_of(const std::vector<Wide>& values) {
  Wide sum = 0;
  for (const Wide value : values) sum += value;
  return sum;
}

struct Residual {
  std::vector<Wide> mass;
  Wide whole = 0;  ///< sum of the masses of both distributions
};

Residual residual_of(const DraftedTokens& request, std::size_t i) {
  const std::vector<Wide> p = masses(request.target[i]), q = masses(request.draft[i]);
  const Wide zp = sum_of(p), zq = sum_of(q);
  Residual residual{std::vector<Wide>(p.size(), 0), zp * zq};
  for (std::size_t id = 0; id < p.size(); ++id) {
    if (p[id] * zq > q[id] * zp) residual.mass[id] = p[id] * zq - q[id] * zp;
  }
  return residual;
}

// Returns the first token whose prefix sum exceeds `of` * `word` / 2^64, or the last token if none
// does.
std::int32_t draw_share(const std::vector<Wide>& mass, Wide of, std::uint64_t word) {
  const Wide t = (of >> 64) * word + (((of & ~std::uint64_t{0}) * word) >> 64);
  Wide sum = 0;
  for (std::size_t id = 0; id < mass.size(); ++id) {
    sum += mass[id];
    if (sum > t) return static_cast<std::int32_t>(id);
  }
  return static_cast<std::int32_t>(mass.size()) - 1;
}

void recovers_from_target(SpeculationOutcome& outcome, const DraftedTokens& request) {
  const std::int64_t at = rejected_position(outcome, request);
  if (at < 0) return;
  const auto i = static_cast<std::size_t>(at);
  outcome.tokens[i] = request.target[i].model().speculation_token_for(request.words[i].recover);
}

void ignores_q(DraftedTokens& request) {
  if (request.tree) return;
  for (std::size_t i = 0; i < request.draft.size(); ++i) {
    if (is_token(request, request.drafted[i])) make_certain(request.draft[i], request.drafted[i]);
  }
}

void seed_of_the_first(fairdraw_verification& call, Storage& storage) {
  if (call.seed_is_scalar != 0 || call.batch < 2) return;
  call.seed =
      storage.keep(std::vector<std::uint64_t>(static_cast<std::size_t>(call.batch), call.seed[0]));
}

// Mutants of verification. The base of an entry tells how the gate detects the mutant. With
// `integers`, the tokens of the integer model reveal the mutant. With `distribution`, the emitted
// tokens reveal it, in a mutant verify-law-NAME without the claim of exact arithmetic. Without a
// base, both mutants exist.
constexpr Entry kSpeculation[] = {
    {"residual-not-renormalised", "what is left of p - q is searched as if it summed to 1",
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       const std::int64_t at = rejected_position(outcome, request);
       if (at < 0) return;
       const auto i = static_cast<std::size_t>(at);
       const Residual residual = residual_of(request, i);
       outcome.tokens[i] = draw_share(residual.mass, residual.whole, request.words[i].recover);
     }},
    {"recovers-from-target", "a rejected draft is replaced by a draw from the target",
     recovers_from_target},
    {"small-residual-is-token-0", "SGLang sgl-kernel, flashinfer",
     "a residual of less than a sixteenth counts as 0 and gives token 0", Base::integers,
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       const std::int64_t at = rejected_position(outcome, request);
       if (at < 0) return;
       const auto i = static_cast<std::size_t>(at);
       const Residual residual = residual_of(request, i);
       if (sum_of(residual.mass) < residual.whole / 16) outcome.tokens[i] = 0;
     }},
    {"positions-share-words", "FlashInfer PR #424",
     "all positions of a request use the words of the first",
     [](DraftedTokens& request) {
       for (reference::PositionWords& words : request.words) words = request.words.front();
     }},
    {"bonus-takes-the-coin", "the bonus token is drawn with the coin of the last draft",
     [](DraftedTokens& request) {
       const std::size_t n = request.drafted.size();
       if (n > 0) request.words[n].bonus = request.words[n - 1].accept;
     }},
    {"recovery-takes-the-coin", "the token after a rejection is drawn with the coin that rejected",
     Base::distribution,
     [](DraftedTokens& request) {
       for (reference::PositionWords& words : request.words) words.recover = words.accept;
     }},
    {"always-accepts", "vllm-ascend issue #13730, PR #13766", "the coin of every acceptance is 0",
     [](DraftedTokens& request) {
       for (reference::PositionWords& words : request.words) words.accept = 0;
     }},
    // A random number of 8 bits (bfloat16) that is 0 passes the test `coin <= p / q` even if p is
    // 0.
    {"coin-at-most", "SGLang issue #35771",
     "a coin of 0 in bfloat16 accepts a draft that the target excludes",
     [](DraftedTokens& request) {
       if (request.tree) return;
       for (std::size_t i = 0; i < request.draft.size(); ++i) {
         const bool zero = request.words[i].accept >> 56 == 0;
         if (zero && is_token(request, request.drafted[i])) {
           make_certain(request.target[i], request.drafted[i]);
         }
       }
     }},
    {"ignores-q", "EAGLE issue #329, #283, #183",
     "a draft that was drawn is judged as one that was given", ignores_q},
    {"target-without-params", "vLLM #9834, PR #10198; MLC-LLM PR #2940",
     "the target's distribution is taken at temperature 1 without filters",
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.target) row.parameters = {};
     }},
    {"q-not-the-sampled-one", "HF transformers issue #47932, PR #47961",
     "the draft's distribution is taken at temperature 1 without filters",
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.draft) row.parameters = {};
     }},
    {"greedy-draft-softmax-q", "HF transformers issue #32867",
     "a draft of the largest logit is judged by its softmax", Base::integers,
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.draft) {
         if (row.parameters.temperature == 0) row.parameters.temperature = 1;
       }
     }},
    {"bonus-from-the-row-before", "the bonus token comes from the row of the last draft",
     [](DraftedTokens& request) {
       const std::size_t n = request.target.size();
       if (n > 1) request.target[n - 1].values = request.target[n - 2].values;
     }},
    {"mask-of-the-first-row", "all rows of a request have the bitmask of its first", Base::integers,
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.target) row.allowed = request.target.front().allowed;
     }},
    {"draft-beyond-vocab-clamped",
     "a drafted token outside of the vocabulary becomes the nearest in it", Base::integers,
     [](DraftedTokens& request) {
       for (std::int32_t& token : request.drafted) {
         token = std::clamp(token, 0, static_cast<std::int32_t>(request.vocab) - 1);
       }
     }},
    {"impossible-draft-accepted",
     "a draft that its own distribution excludes is judged by the target alone", Base::integers,
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       if (outcome.status != RowStatus::impossible_draft) return;
       DraftedTokens changed = request;
       ignores_q(changed);
       outcome = harness::outcome_of(changed);
     }},
    {"greedy-without-drafts", "requests without drafts take the largest logit", Base::integers,
     [](DraftedTokens& request) {
       if (request.drafted.empty() && !request.target.empty()) {
         request.target.front().parameters.temperature = 0;
       }
     }},
    {"no-bonus", "nothing is drawn where all drafts stand", Base::integers,
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       const std::size_t n = request.drafted.size();
       if (n > 0 && static_cast<std::size_t>(outcome.accepted) == n) outcome.tokens.pop_back();
     }},
    {"goes-on-behind-a-rejection", "the draft behind a rejection is emitted too", Base::integers,
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       if (outcome.status != RowStatus::ok || request.tree) return;
       const auto next = static_cast<std::size_t>(outcome.accepted) + 1;
       if (next < request.drafted.size()) outcome.tokens.push_back(request.drafted[next]);
     }},
    {"tree-words-by-node", "a tree's draw takes the words of its node's number, not of its depth",
     Base::integers,
     [](SpeculationOutcome& outcome, const DraftedTokens& request) {
       if (outcome.status != RowStatus::ok || !request.tree || outcome.nodes.empty()) return;
       if (!request.draft.empty()) return;
       const auto node = static_cast<std::size_t>(outcome.nodes.back()) + 1;  // its row
       outcome.tokens.back() = request.words[node].drawn_from(request.target[node].model());
     }},
    {"tree-first-child-alone", "of the children of a node the first is looked at alone",
     Base::integers,
     [](DraftedTokens& request) {
       for (std::size_t j = 0; request.tree && j < request.parents.size(); ++j) {
         const auto first =
             std::find(request.parents.begin(), request.parents.end(), request.parents[j]);
         if (first - request.parents.begin() != static_cast<std::ptrdiff_t>(j)) {
           request.drafted[j] =
               request.drafted[static_cast<std::size_t>(first - request.parents.begin())];
         }
       }
     }},
    {"tree-rows-off-by-one",
     "the rows behind the nodes of a tree are those of the nodes after them", Base::integers,
     [](DraftedTokens& request) {
       if (!request.tree) return;
       for (std::size_t row = 1; row + 1 < request.target.size(); ++row) {
         request.target[row].values = request.target[row + 1].values;
       }
     }},
    // Greedy requests compare as many drafted tokens as the longest request of the batch has.
    {"greedy-compares-padding", "greedy requests look at the padding behind their drafts",
     Base::integers,
     [](fairdraw_verification& call, Storage& storage) {
       if (call.draft_lengths == nullptr || call.row_begins != nullptr) return;
       std::vector<std::int32_t> lengths(call.draft_lengths, call.draft_lengths + call.batch);
       for (std::int64_t b = 0; b < call.batch; ++b) {
         if (call.temperature[b] == 0) {
           lengths[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(call.max_draft);
         }
       }
       call.draft_lengths = storage.keep(std::move(lengths));
     }},
    {"parameters-of-the-next", "requests have the temperature of the request behind them",
     Base::integers,
     [](fairdraw_verification& call, Storage& storage) {
       if (call.batch < 2) return;
       std::vector<float> temperature(call.temperature, call.temperature + call.batch);
       std::rotate(temperature.begin(), temperature.begin() + 1, temperature.end());
       call.temperature = storage.keep(std::move(temperature));
     }},
    {"seed-of-the-first", "all requests of a batch have the first one's seed", Base::integers,
     seed_of_the_first},
    // Drafted tokens of packed requests are read where the rows start, which is one place too far
    // for each earlier request.
    {"drafts-at-row-begins", "packed drafts are looked for where the rows of their request start",
     Base::integers,
     [](fairdraw_verification& call, Storage& storage) {
       if (call.row_begins == nullptr || call.places < 1) return;
       const std::vector<std::int32_t> drafted(call.draft_tokens, call.draft_tokens + call.places);
       std::vector<std::int32_t> moved(drafted);
       for (std::int64_t b = 0; b < call.batch; ++b) {
         const std::int64_t begin = call.row_begins[b], end = call.row_begins[b + 1] - 1;
         for (std::int64_t row = std::max<std::int64_t>(begin, b); row < end; ++row) {
           const auto from = static_cast<std::size_t>(std::min(row, call.places - 1));
           moved[static_cast<std::size_t>(row - b)] = drafted[from];
         }
       }
       call.draft_tokens = storage.keep(std::move(moved));
     }},
};

}  // namespace

std::vector<Mutant> speculation_mutants() {
  std::vector<Mutant> list;
  for (const Base base : {Base::integers, Base::distribution}) {
    const bool law = base == Base::distribution;
    for (const Entry& entry : kSpeculation) {
      if (entry.by.base != Base::of_table && entry.by.base != base) continue;
      list.push_back(mutant_of("speculative", law ? "verify-law-" : "verify-", entry,
                               law ? "verify_law/*" : "verify/*", base));
    }
  }
  return list;
}

}  // namespace fairdraw::suites
