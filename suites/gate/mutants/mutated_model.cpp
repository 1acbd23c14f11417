#include "suites/gate/mutants/mutated_model.h"

#include <algorithm>
#include <random>
#include <utility>

namespace fairdraw::suites {
RowWeight DrawWeights::position(std::uint64_t word) const {
  return reference::position_of(word, total());
}

std::int32_t DrawWeights::token_at(RowWeight position) const {
  const auto found = std::upper_bound(prefix.begin(), prefix.end(), position);
  return static_cast<std::int32_t>(found - prefix.begin());
}

MutatedModel::MutatedModel(Claim claim, Mutation mutation)
    : claim_(claim), mutation_(std::move(mutation)) {
  if (claim == Claim::integers) return;
  description_.exact_integer = false;
  // Weights are truncated at 2^-48 of the largest weight. Without the claim of exact arithmetic,
  // reported probabilities may not lose that much; draws do not reveal the loss.
  description_.reports_probs = description_.reports_logprobs = false;
  if (claim == Claim::distribution) return;
  description_.per_request_seeds = description_.scripted_words = description_.chains = false;
  description_.speculation = description_.draft_trees = description_.draft_tree_laws = false;
  description_.speculation_processing = false;
  description_.randomness.replays = false;
  // The generator starts from entropy, as an engine's does, so that no two instances draw the same
  // tokens.
  std::random_device entropy;
  start_ = (std::uint64_t{entropy()} << 32) | entropy();
}

std::string MutatedModel::run(const fairdraw_batch& batch) {
  fairdraw_batch call = batch;
  storage_.clear();
  strays_.clear();
  drawn_row_ = nullptr;
  place_ = {&call, 0};
  if (mutation_.refuse) {
    if (std::string why = mutation_.refuse(call); !why.empty()) return why;
  }
  if (mutation_.call) mutation_.call(call, storage_);
  return ServingModel::run(call);
}

std::int64_t MutatedModel::parameters_row(const fairdraw_batch& batch, std::int64_t row) {
  place_.row = row;
  return mutation_.parameters_row ? mutation_.parameters_row(batch, row) : row;
}

reference::IntegerRow MutatedModel::model(const Row& row) {
  if (!mutation_.row && !mutation_.result) return ServingModel::model(row);
  Row changed = row;
  if (mutation_.row) mutation_.row(changed, place_);
  reference::IntegerRow result = ServingModel::model(changed);
  if (mutation_.result) mutation_.result(result, changed, place_);
  return result;
}

std::int64_t MutatedModel::seed_index(const fairdraw_batch& batch, std::int64_t output) {
  if (batch.seed_is_scalar != 0 || !mutation_.seed_index) {
    return ServingModel::seed_index(batch, output);
  }
  return mutation_.seed_index(batch, output);
}

std::uint64_t MutatedModel::word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                 std::uint32_t attempt) {
  if (claim_ == Claim::generator) seed = start_, offset = words_drawn_++, index = 0;
  return mutation_.word ? mutation_.word({seed, offset, index, attempt, output_, place_.call})
                        : ServingModel::word(seed, offset, index, attempt);
}

std::uint64_t MutatedModel::decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                          std::int32_t sample, std::uint32_t attempt) {
  output_ = output;
  at_ = output * batch.num_samples + sample;
  return ServingModel::decisive_word(batch, output, sample, attempt);
}

void MutatedModel::look_at(const reference::IntegerRow& row) {
  if (drawn_row_ == &row) return;
  drawn_row_ = &row;
  RowWeights weights(row.weight.size());
  for (std::size_t id = 0; id < weights.size(); ++id) {
    weights[id] = row.mask[id] != 0 ? row.weight[id] : 0;
  }
  if (mutation_.weights) mutation_.weights(weights, row);
  proposed_.prefix.clear();
  RowWeight drawn = 0, proposed = 0;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    const bool rejected = row.mask[id] == 0 && weights[id] == 0;
    const bool proposes = rejected && row.tiles[id / reference::kIdsOfATile].proposes;
    if (row.proposes) {
      proposed_.prefix.push_back(proposed += proposes ? row.weight[id] : weights[id]);
    }
    weights[id] = drawn += weights[id];
  }
  drawn_.prefix = std::move(weights);
}

std::int32_t MutatedModel::pick(const DrawWeights& sums, std::uint64_t word) {
  const std::int32_t token =
      mutation_.pick ? mutation_.pick(sums, word) : sums.token_at(sums.position(word));
  if (token >= 0 && token < sums.vocab()) return token;
  strays_.push_back({at_, token});
  return 0;
}

std::int32_t MutatedModel::propose(const reference::IntegerRow& row, std::uint64_t word) {
  look_at(row);
  return pick(proposed_, word);
}

bool MutatedModel::accepts(const reference::IntegerRow& row, std::int32_t token,
                           std::uint32_t attempt) {
  if (!strays_.empty() && strays_.back().at == at_) return true;
  if (mutation_.accepts) {
    const fairdraw_batch& call = *place_.call;
    const std::int64_t at = call.indices != nullptr ? call.indices[output_] : output_;
    return mutation_.accepts(
        {row,
         token,
         attempt,
         {call.temperature[at], call.top_k[at], call.top_p[at], call.min_p[at]}});
  }
  const auto id = static_cast<std::size_t>(token);
  return drawn_.prefix[id] > (id > 0 ? drawn_.prefix[id - 1] : 0);
}

std::int32_t MutatedModel::choose(const reference::IntegerRow& row, std::uint64_t word) {
  look_at(row);
  return pick(drawn_, word);
}

std::uint64_t MutatedModel::word_of_mark(std::uint64_t word) {
  return mutation_.word_of_mark ? mutation_.word_of_mark(word) : word;
}

std::int32_t MutatedModel::report_status(RowStatus status) {
  return mutation_.status ? mutation_.status(status) : ServingModel::report_status(status);
}

float MutatedModel::report_probability(const reference::IntegerRow& row, std::int32_t token) {
  return mutation_.probability ? mutation_.probability(row, token)
                               : ServingModel::report_probability(row, token);
}

std::string MutatedModel::run_chain(const fairdraw_chain& chain) {
  fairdraw_chain call = chain;
  storage_.clear();
  if (mutation_.chain_call) mutation_.chain_call(call, storage_);
  return ServingModel::run_chain(call);
}

reference::RealLogprobs MutatedModel::report_values(const Row& row,
                                                    const reference::IntegerRow& result,
                                                    LogprobsMode mode) {
  return mutation_.report_values ? mutation_.report_values(row, result, mode)
                                 : ServingModel::report_values(row, result, mode);
}

std::string MutatedModel::run_speculation(const fairdraw_verification& speculation) {
  fairdraw_verification call = speculation;
  storage_.clear();
  if (mutation_.speculation_call) mutation_.speculation_call(call, storage_);
  return ServingModel::run_speculation(call);
}

reference::SpeculationOutcome MutatedModel::accept_drafts(harness::DraftedTokens& request) {
  if (mutation_.drafted && request.status == RowStatus::ok) mutation_.drafted(request);
  reference::SpeculationOutcome outcome = ServingModel::accept_drafts(request);
  if (mutation_.accepted) mutation_.accepted(outcome, request);
  return outcome;
}

std::uint64_t MutatedModel::chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                       std::uint32_t index) {
  return mutation_.chain_word ? mutation_.chain_word(seed, offset, purpose, index)
                              : ServingModel::chain_word(seed, offset, purpose, index);
}

reference::ChainOutcome MutatedModel::accept_chain(std::span<const float> draft_probs,
                                                   std::span<const std::int32_t> draft_tokens,
                                                   std::span<const float> target_probs,
                                                   std::size_t vocab,
                                                   std::span<const std::uint64_t> accept_words,
                                                   std::span<const std::uint64_t> recover_words,
                                                   std::uint64_t bonus_word) {
  Chain chain;
  chain.draft_probs.assign(draft_probs.begin(), draft_probs.end());
  chain.target_probs.assign(target_probs.begin(), target_probs.end());
  chain.draft_tokens.assign(draft_tokens.begin(), draft_tokens.end());
  chain.vocab = vocab;
  chain.accept_words.assign(accept_words.begin(), accept_words.end());
  chain.recover_words.assign(recover_words.begin(), recover_words.end());
  chain.bonus_word = bonus_word;
  if (mutation_.chain) mutation_.chain(chain);
  reference::ChainOutcome outcome =
      ServingModel::accept_chain(chain.draft_probs, chain.draft_tokens, chain.target_probs, vocab,
                                 chain.accept_words, chain.recover_words, chain.bonus_word);
  if (mutation_.chain_accepted) mutation_.chain_accepted(outcome, chain);
  return outcome;
}

void MutatedModel::finish(const fairdraw_batch& batch) {
  for (const Stray& stray : strays_) batch.tokens[stray.at] = stray.token;
  if (mutation_.finish) mutation_.finish(batch);
}

std::vector<Candidate> ranked(const MutatedModel::Result& result, const MutatedModel::Row& row) {
  std::vector<Candidate> list;
  for (std::size_t id = 0; id < result.mask.size(); ++id) {
    if (result.mask[id] == 0) continue;
    list.push_back({static_cast<std::int32_t>(id), row.logits[id], result.weight[id]});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  return list;
}

void keep_only(MutatedModel::Result& result, const std::vector<Candidate>& kept) {
  std::fill(result.mask.begin(), result.mask.end(), std::uint8_t{0});
  result.total = 0;
  const auto keep = [&result](std::size_t id) {
    result.mask[id] = 1;
    result.total += result.weight[id];
  };
  for (const Candidate& candidate : kept) keep(static_cast<std::size_t>(candidate.id));
  result.support_size = static_cast<std::int32_t>(std::max<std::size_t>(kept.size(), 1));
  if (!kept.empty()) return;
  result.weight[0] = std::max<RowWeight>(result.weight[0], 1);
  keep(0);
}

MutatedModel::Result result_of(MutatedModel::Row row, const reference::RowParameters& parameters) {
  row.parameters = parameters;
  if (row.from_probs) {
    return reference::integer_model_from_probs(row.logits, parameters, row.filter_order);
  }
  return reference::integer_model(row.logits, row.allowed, parameters, row.tie_rule,
                                  row.filter_order);
}

}  // namespace fairdraw::suites
