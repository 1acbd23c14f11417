// Verification in serving: which drafts stand, what comes instead, and whose rows they are.
#include <algorithm>
#include <cmath>

#include "suites/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using harness::DraftedRequest;
using harness::LawRow;
using reference::IntegerRow;
using reference::VerificationOutcome;
__extension__ typedef unsigned __int128 Wide;

const std::string kKind = "speculative";
const std::vector<std::string> kExact = {"verify/*"};
const std::vector<std::string> kLaw = {"verify_law/*"};

// A mutant of what is read of each request. `law`: it claims no more than the right law.
Mutant of_request(MutantText text, void (*change)(DraftedRequest&), bool law = false) {
  const auto spoil = [change](Spoil& steps) { steps.drafted = change; };
  return law ? spoiled_law(std::move(text), spoil) : spoiled_integers(std::move(text), spoil);
}

// A mutant of what comes out.
Mutant of_outcome(MutantText text, void (*change)(VerificationOutcome&, const DraftedRequest&),
                  bool law = false) {
  const auto spoil = [change](Spoil& steps) { steps.verified = change; };
  return law ? spoiled_law(std::move(text), spoil) : spoiled_integers(std::move(text), spoil);
}

// A mutant of the whole call.
Mutant of_call(MutantText text, void (*change)(fairdraw_verification&, Storage&)) {
  return spoiled_integers(std::move(text),
                          [change](Spoil& spoil) { spoil.verification_call = change; });
}

bool is_random(const DraftedRequest& request) {
  return !request.target.empty() && !harness::is_greedy(request.target.front().parameters);
}

bool is_token(const DraftedRequest& request, std::int32_t token) {
  return token >= 0 && static_cast<std::size_t>(token) < request.vocab;
}

// All mass of a row of a law on one token, where the row is right.
void make_certain(LawRow& row, std::int32_t token) {
  if (row.model().status != RowStatus::ok) return;
  row.from_probs = true;
  row.parameters = {};
  std::fill(row.values.begin(), row.values.end(), 0.0F);
  row.values[static_cast<std::size_t>(token)] = 1;
}

// The position of a chain whose draft was rejected by its law; -1 where none was.
std::int64_t rejected_position(const VerificationOutcome& outcome, const DraftedRequest& request) {
  const bool rejected = outcome.status == RowStatus::ok && !request.tree &&
                        !request.draft.empty() && is_random(request) &&
                        static_cast<std::size_t>(outcome.accepted) < request.drafted.size();
  return rejected ? outcome.accepted : -1;
}

// Weights of a filtered row.
std::vector<Wide> masses(const LawRow& row) {
  const IntegerRow model = row.model();
  std::vector<Wide> result;
  for (std::size_t id = 0; id < model.weight.size(); ++id) {
    result.push_back(model.mask[id] != 0 ? model.weight[id] : 0);
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
  Wide whole = 0;  ///< what both laws sum to
};

Residual residual_of(const DraftedRequest& request, std::size_t i) {
  const std::vector<Wide> p = masses(request.target[i]), q = masses(request.draft[i]);
  const Wide zp = sum_of(p), zq = sum_of(q);
  Residual residual{std::vector<Wide>(p.size(), 0), zp * zq};
  for (std::size_t id = 0; id < p.size(); ++id) {
    if (p[id] * zq > q[id] * zp) residual.mass[id] = p[id] * zq - q[id] * zp;
  }
  return residual;
}

// The first token whose prefix sum exceeds a share of `of`; the last one where none does.
std::int32_t draw_share(const std::vector<Wide>& mass, Wide of, std::uint64_t word) {
  const Wide t = (of >> 64) * word + (((of & ~std::uint64_t{0}) * word) >> 64);
  Wide sum = 0;
  for (std::size_t id = 0; id < mass.size(); ++id) {
    sum += mass[id];
    if (sum > t) return static_cast<std::int32_t>(id);
  }
  return static_cast<std::int32_t>(mass.size()) - 1;
}

void residual_not_renormalised(VerificationOutcome& outcome, const DraftedRequest& request) {
  const std::int64_t at = rejected_position(outcome, request);
  if (at < 0) return;
  const auto i = static_cast<std::size_t>(at);
  const Residual residual = residual_of(request, i);
  outcome.tokens[i] = draw_share(residual.mass, residual.whole, request.words[i].recover);
}

void recovers_from_target(VerificationOutcome& outcome, const DraftedRequest& request) {
  const std::int64_t at = rejected_position(outcome, request);
  if (at < 0) return;
  const auto i = static_cast<std::size_t>(at);
  outcome.tokens[i] = request.target[i].model().token_for(request.words[i].recover);
}

void small_residual_is_token_0(VerificationOutcome& outcome, const DraftedRequest& request) {
  const std::int64_t at = rejected_position(outcome, request);
  if (at < 0) return;
  const auto i = static_cast<std::size_t>(at);
  const Residual residual = residual_of(request, i);
  if (sum_of(residual.mass) < residual.whole / 16) outcome.tokens[i] = 0;
}

void shares_words_of_position_0(DraftedRequest& request) {
  for (reference::PositionWords& words : request.words) words = request.words.front();
}

void bonus_takes_the_last_coin(DraftedRequest& request) {
  const std::size_t n = request.drafted.size();
  if (n > 0) request.words[n].bonus = request.words[n - 1].accept;
}

void recovery_takes_the_coin(DraftedRequest& request) {
  for (reference::PositionWords& words : request.words) words.recover = words.accept;
}

void coins_are_0(DraftedRequest& request) {
  for (reference::PositionWords& words : request.words) words.accept = 0;
}

// A coin of bfloat16's 8 bits that is 0 passes `coin <= p / q` where p is 0.
void coin_at_most(DraftedRequest& request) {
  if (request.tree) return;
  for (std::size_t i = 0; i < request.draft.size(); ++i) {
    const bool zero = request.words[i].accept >> 56 == 0;
    if (zero && is_token(request, request.drafted[i])) {
      make_certain(request.target[i], request.drafted[i]);
    }
  }
}

void ignores_q(DraftedRequest& request) {
  if (request.tree) return;
  for (std::size_t i = 0; i < request.draft.size(); ++i) {
    if (is_token(request, request.drafted[i])) make_certain(request.draft[i], request.drafted[i]);
  }
}

void takes_target_as_it_is(DraftedRequest& request) {
  for (LawRow& row : request.target) row.parameters = {};
}

void takes_draft_as_it_is(DraftedRequest& request) {
  for (LawRow& row : request.draft) row.parameters = {};
}

void greedy_draft_by_softmax(DraftedRequest& request) {
  for (LawRow& row : request.draft) {
    if (row.parameters.temperature == 0) row.parameters.temperature = 1;
  }
}

void bonus_from_the_row_before(DraftedRequest& request) {
  const std::size_t n = request.target.size();
  if (n > 1) request.target[n - 1].values = request.target[n - 2].values;
}

void mask_of_the_first_row(DraftedRequest& request) {
  for (LawRow& row : request.target) row.allowed = request.target.front().allowed;
}

void clamps_drafts(DraftedRequest& request) {
  for (std::int32_t& token : request.drafted) {
    token = std::clamp(token, 0, static_cast<std::int32_t>(request.vocab) - 1);
  }
}

void accepts_impossible_drafts(VerificationOutcome& outcome, const DraftedRequest& request) {
  if (outcome.status != RowStatus::impossible_draft) return;
  DraftedRequest changed = request;
  ignores_q(changed);
  outcome = harness::outcome_of(changed);
}

void greedy_without_drafts(DraftedRequest& request) {
  if (request.drafted.empty() && !request.target.empty()) {
    request.target.front().parameters.temperature = 0;
  }
}

void no_bonus(VerificationOutcome& outcome, const DraftedRequest& request) {
  const std::size_t n = request.drafted.size();
  if (n > 0 && static_cast<std::size_t>(outcome.accepted) == n) outcome.tokens.pop_back();
}

void goes_on_behind_a_rejection(VerificationOutcome& outcome, const DraftedRequest& request) {
  if (outcome.status != RowStatus::ok || request.tree) return;
  const auto next = static_cast<std::size_t>(outcome.accepted) + 1;
  if (next < request.drafted.size()) outcome.tokens.push_back(request.drafted[next]);
}

void words_by_node(VerificationOutcome& outcome, const DraftedRequest& request) {
  if (outcome.status != RowStatus::ok || !request.tree || outcome.nodes.empty()) return;
  if (!request.draft.empty()) return;
  const auto node = static_cast<std::size_t>(outcome.nodes.back()) + 1;  // its row
  outcome.tokens.back() = request.target[node].model().token_for(request.words[node].draw);
}

void first_child_alone(DraftedRequest& request) {
  for (std::size_t j = 0; request.tree && j < request.parents.size(); ++j) {
    const auto first =
        std::find(request.parents.begin(), request.parents.end(), request.parents[j]);
    if (first - request.parents.begin() != static_cast<std::ptrdiff_t>(j)) {
      request.drafted[j] =
          request.drafted[static_cast<std::size_t>(first - request.parents.begin())];
    }
  }
}

void rows_of_nodes_off_by_one(DraftedRequest& request) {
  if (!request.tree) return;
  for (std::size_t row = 1; row + 1 < request.target.size(); ++row) {
    request.target[row].values = request.target[row + 1].values;
  }
}

// Greedy requests compare their drafts up to the longest of the batch.
void greedy_compares_padding(fairdraw_verification& call, Storage& storage) {
  if (call.draft_lengths == nullptr || call.row_begins != nullptr) return;
  std::vector<std::int32_t> lengths(call.draft_lengths, call.draft_lengths + call.batch);
  for (std::int64_t b = 0; b < call.batch; ++b) {
    if (call.temperature[b] == 0) {
      lengths[static_cast<std::size_t>(b)] = static_cast<std::int32_t>(call.max_draft);
    }
  }
  call.draft_lengths = storage.keep(std::move(lengths));
}

void parameters_of_the_next(fairdraw_verification& call, Storage& storage) {
  if (call.batch < 2) return;
  std::vector<float> temperature(call.temperature, call.temperature + call.batch);
  std::rotate(temperature.begin(), temperature.begin() + 1, temperature.end());
  call.temperature = storage.keep(std::move(temperature));
}

void seed_of_the_first(fairdraw_verification& call, Storage& storage) {
  if (call.seed_is_scalar != 0 || call.batch < 2) return;
  call.seed =
      storage.keep(std::vector<std::uint64_t>(static_cast<std::size_t>(call.batch), call.seed[0]));
}

// Drafts of packed requests are looked for where their rows start: one place too far a request.
void drafts_at_row_begins(fairdraw_verification& call, Storage& storage) {
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
}

}  // namespace

std::vector<Mutant> verification_mutants() {
  std::vector<Mutant> list;
  const auto add = [&list](Mutant mutant) { list.push_back(std::move(mutant)); };
  const auto text = [](const char* name, const char* source, const char* wrong,
                       const std::vector<std::string>& expected) {
    return MutantText{name, source, kKind, wrong, expected};
  };
  const char* const systematic = "systematic";

  // Found by the model's tokens.
  add(of_outcome(text("verify-residual-not-renormalised", systematic,
                      "what is left of p - q is searched as if it summed to 1", kExact),
                 residual_not_renormalised));
  add(of_outcome(text("verify-recovers-from-target", systematic,
                      "a rejected draft is replaced by a draw from the target", kExact),
                 recovers_from_target));
  add(of_outcome(text("verify-small-residual-is-token-0", "SGLang sgl-kernel, flashinfer",
                      "a residual of less than a sixteenth counts as 0 and gives token 0", kExact),
                 small_residual_is_token_0));
  add(of_request(text("verify-positions-share-words", "FlashInfer PR #424",
                      "all positions of a request use the words of the first", kExact),
                 shares_words_of_position_0));
  add(of_request(text("verify-bonus-takes-the-coin", systematic,
                      "the bonus token is drawn with the coin of the last draft", kExact),
                 bonus_takes_the_last_coin));
  add(of_request(text("verify-always-accepts", "vllm-ascend issue #13730, PR #13766",
                      "the coin of every acceptance is 0", kExact),
                 coins_are_0));
  add(of_request(text("verify-coin-at-most", "SGLang issue #35771",
                      "a coin of 0 in bfloat16 accepts a draft that the target excludes", kExact),
                 coin_at_most));
  add(of_request(text("verify-ignores-q", "EAGLE issue #329, #283, #183",
                      "a draft that was drawn is judged as one that was given", kExact),
                 ignores_q));
  add(of_request(text("verify-target-without-params", "vLLM #9834, PR #10198; MLC-LLM PR #2940",
                      "the target's law is taken at temperature 1 without filters", kExact),
                 takes_target_as_it_is));
  add(of_request(text("verify-q-not-the-sampled-one", "HF transformers issue #47932, PR #47961",
                      "the draft's law is taken at temperature 1 without filters", kExact),
                 takes_draft_as_it_is));
  add(of_request(text("verify-greedy-draft-softmax-q", "HF transformers issue #32867",
                      "a draft of the largest logit is judged by its softmax", kExact),
                 greedy_draft_by_softmax));
  add(of_request(text("verify-bonus-from-the-row-before", systematic,
                      "the bonus token comes from the row of the last draft", kExact),
                 bonus_from_the_row_before));
  add(of_request(text("verify-mask-of-the-first-row", systematic,
                      "all rows of a request have the bitmask of its first", kExact),
                 mask_of_the_first_row));
  add(of_request(
      text("verify-draft-beyond-vocab-clamped", systematic,
           "a drafted token outside of the vocabulary becomes the nearest in it", kExact),
      clamps_drafts));
  add(of_outcome(text("verify-impossible-draft-accepted", systematic,
                      "a draft that its own law excludes is judged by the target alone", kExact),
                 accepts_impossible_drafts));
  add(of_request(text("verify-greedy-without-drafts", systematic,
                      "requests without drafts take the largest logit", kExact),
                 greedy_without_drafts));
  add(of_outcome(
      text("verify-no-bonus", systematic, "nothing is drawn where all drafts stand", kExact),
      no_bonus));
  add(of_outcome(text("verify-goes-on-behind-a-rejection", systematic,
                      "the draft behind a rejection is emitted too", kExact),
                 goes_on_behind_a_rejection));
  add(of_outcome(
      text("verify-tree-words-by-node", systematic,
           "a tree's draw takes the words of its node's number, not of its depth", kExact),
      words_by_node));
  add(of_request(text("verify-tree-first-child-alone", systematic,
                      "of the children of a node the first is looked at alone", kExact),
                 first_child_alone));
  add(of_request(
      text("verify-tree-rows-off-by-one", systematic,
           "the rows behind the nodes of a tree are those of the nodes after them", kExact),
      rows_of_nodes_off_by_one));
  add(of_call(text("verify-greedy-compares-padding", systematic,
                   "greedy requests look at the padding behind their drafts", kExact),
              greedy_compares_padding));
  add(of_call(text("verify-parameters-of-the-next", systematic,
                   "requests have the temperature of the request behind them", kExact),
              parameters_of_the_next));
  add(of_call(text("verify-seed-of-the-first", systematic,
                   "all requests of a batch have the first one's seed", kExact),
              seed_of_the_first));
  add(of_call(text("verify-drafts-at-row-begins", systematic,
                   "packed drafts are looked for where the rows of their request start", kExact),
              drafts_at_row_begins));

  // The same without the claim of the arithmetic: found by the law of what is emitted.
  add(of_outcome(text("verify-law-residual-not-renormalised", systematic,
                      "what is left of p - q is searched as if it summed to 1", kLaw),
                 residual_not_renormalised, true));
  add(of_outcome(text("verify-law-recovers-from-target", systematic,
                      "a rejected draft is replaced by a draw from the target", kLaw),
                 recovers_from_target, true));
  add(of_request(text("verify-law-positions-share-words", "FlashInfer PR #424",
                      "all positions of a request use the words of the first", kLaw),
                 shares_words_of_position_0, true));
  add(of_request(text("verify-law-bonus-takes-the-coin", systematic,
                      "the bonus token is drawn with the coin of the last draft", kLaw),
                 bonus_takes_the_last_coin, true));
  add(of_request(text("verify-law-recovery-takes-the-coin", systematic,
                      "the token after a rejection is drawn with the coin that rejected", kLaw),
                 recovery_takes_the_coin, true));
  add(of_request(text("verify-law-always-accepts", "vllm-ascend issue #13730, PR #13766",
                      "the coin of every acceptance is 0", kLaw),
                 coins_are_0, true));
  add(of_request(text("verify-law-coin-at-most", "SGLang issue #35771",
                      "a coin of 0 in bfloat16 accepts a draft that the target excludes", kLaw),
                 coin_at_most, true));
  add(of_request(text("verify-law-ignores-q", "EAGLE issue #329, #283, #183",
                      "a draft that was drawn is judged as one that was given", kLaw),
                 ignores_q, true));
  add(of_request(text("verify-law-target-without-params", "vLLM #9834, PR #10198; MLC-LLM PR #2940",
                      "the target's law is taken at temperature 1 without filters", kLaw),
                 takes_target_as_it_is, true));
  add(of_request(text("verify-law-q-not-the-sampled-one", "HF transformers issue #47932",
                      "the draft's law is taken at temperature 1 without filters", kLaw),
                 takes_draft_as_it_is, true));
  add(of_request(text("verify-law-bonus-from-the-row-before", systematic,
                      "the bonus token comes from the row of the last draft", kLaw),
                 bonus_from_the_row_before, true));
  return list;
}

}  // namespace fairdraw::suites
