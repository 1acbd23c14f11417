#include "suites/mutants/spoiled_model.h"

#include <algorithm>
#include <utility>

namespace fairdraw::suites {
namespace {

__extension__ typedef unsigned __int128 Wide;

}  // namespace

std::uint64_t Drawn::position(std::uint64_t word) const {
  return static_cast<std::uint64_t>((static_cast<Wide>(word) * total()) >> 64);
}

std::int32_t Drawn::token_at(std::uint64_t position) const {
  const auto found = std::upper_bound(prefix.begin(), prefix.end(), position);
  return static_cast<std::int32_t>(found - prefix.begin());
}

SpoiledModel::SpoiledModel(Claim claim, Spoil spoil) : claim_(claim), spoil_(std::move(spoil)) {
  if (claim == Claim::integers) return;
  description_.exact_integer = false;
  // Weights are truncated at 2^-40 of the largest: more than what is judged without the claim
  // may lose, and not to be seen in draws.
  description_.reports_probs = description_.reports_logprobs = false;
  if (claim == Claim::law) return;
  description_.per_request_seeds = description_.scripted_words = description_.chains = false;
  description_.verification = description_.draft_trees = description_.draft_tree_laws = false;
  description_.verification_processing = false;
  description_.randomness.replays = false;
}

std::string SpoiledModel::run(const fairdraw_batch& batch) {
  fairdraw_batch call = batch;
  storage_.clear();
  strays_.clear();
  drawn_row_ = nullptr;
  place_ = {&call, 0};
  if (spoil_.refuse) {
    if (std::string why = spoil_.refuse(call); !why.empty()) return why;
  }
  if (spoil_.call) spoil_.call(call, storage_);
  return ModelSampler::run(call);
}

std::int64_t SpoiledModel::parameters_row(const fairdraw_batch& batch, std::int64_t row) {
  place_.row = row;
  return spoil_.parameters_row ? spoil_.parameters_row(batch, row) : row;
}

reference::IntegerRow SpoiledModel::model(const Row& row) {
  if (!spoil_.row && !spoil_.result) return ModelSampler::model(row);
  Row changed = row;
  if (spoil_.row) spoil_.row(changed, place_);
  reference::IntegerRow result = ModelSampler::model(changed);
  if (spoil_.result) spoil_.result(result, changed, place_);
  return result;
}

std::int64_t SpoiledModel::seed_index(const fairdraw_batch& batch, std::int64_t output) {
  if (batch.seed_is_scalar != 0 || !spoil_.seed_index) {
    return ModelSampler::seed_index(batch, output);
  }
  return spoil_.seed_index(batch, output);
}

std::uint64_t SpoiledModel::word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index) {
  if (claim_ == Claim::generator) seed = 0, offset = words_drawn_++, index = 0;
  return spoil_.word ? spoil_.word(seed, offset, index, output_)
                     : ModelSampler::word(seed, offset, index);
}

std::uint64_t SpoiledModel::decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                          std::int32_t sample) {
  output_ = output;
  at_ = output * batch.num_samples + sample;
  return ModelSampler::decisive_word(batch, output, sample);
}

std::int32_t SpoiledModel::choose(const reference::IntegerRow& row, std::uint64_t word) {
  if (drawn_row_ != &row) {
    drawn_row_ = &row;
    std::vector<std::uint64_t> weights(row.weight.size());
    for (std::size_t id = 0; id < weights.size(); ++id) {
      weights[id] = row.mask[id] != 0 ? row.weight[id] : 0;
    }
    if (spoil_.weights) spoil_.weights(weights, row);
    std::uint64_t sum = 0;
    for (std::uint64_t& weight : weights) weight = sum += weight;
    drawn_.prefix = std::move(weights);
  }
  const std::int32_t token =
      spoil_.pick ? spoil_.pick(drawn_, word) : drawn_.token_at(drawn_.position(word));
  const bool has_weight = token >= 0 && static_cast<std::size_t>(token) < row.weight.size();
  if (has_weight) return token;
  strays_.push_back({at_, token});
  return 0;
}

std::int32_t SpoiledModel::report_status(RowStatus status) {
  return spoil_.status ? spoil_.status(status) : ModelSampler::report_status(status);
}

float SpoiledModel::report_probability(const reference::IntegerRow& row, std::int32_t token) {
  return spoil_.probability ? spoil_.probability(row, token)
                            : ModelSampler::report_probability(row, token);
}

std::string SpoiledModel::run_chain(const fairdraw_chain& chain) {
  fairdraw_chain call = chain;
  storage_.clear();
  if (spoil_.chain_call) spoil_.chain_call(call, storage_);
  return ModelSampler::run_chain(call);
}

reference::RealLogprobs SpoiledModel::report_values(const Row& row,
                                                    const reference::IntegerRow& result,
                                                    LogprobsMode mode) {
  return spoil_.report_values ? spoil_.report_values(row, result, mode)
                              : ModelSampler::report_values(row, result, mode);
}

std::string SpoiledModel::run_verification(const fairdraw_verification& verification) {
  fairdraw_verification call = verification;
  storage_.clear();
  if (spoil_.verification_call) spoil_.verification_call(call, storage_);
  return ModelSampler::run_verification(call);
}

reference::VerificationOutcome SpoiledModel::verify_request(harness::DraftedRequest& request) {
  if (spoil_.drafted && request.status == RowStatus::ok) spoil_.drafted(request);
  reference::VerificationOutcome outcome = ModelSampler::verify_request(request);
  if (spoil_.verified) spoil_.verified(outcome, request);
  return outcome;
}

std::uint64_t SpoiledModel::chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                       std::uint32_t index) {
  return spoil_.chain_word ? spoil_.chain_word(seed, offset, purpose, index)
                           : ModelSampler::chain_word(seed, offset, purpose, index);
}

reference::ChainOutcome SpoiledModel::verify(std::span<const float> draft_probs,
                                             std::span<const std::int32_t> draft_tokens,
                                             std::span<const float> target_probs, std::size_t vocab,
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
  if (spoil_.chain) spoil_.chain(chain);
  return ModelSampler::verify(chain.draft_probs, chain.draft_tokens, chain.target_probs, vocab,
                              chain.accept_words, chain.recover_words, chain.bonus_word);
}

void SpoiledModel::finish(const fairdraw_batch& batch) {
  for (const Stray& stray : strays_) batch.tokens[stray.at] = stray.token;
  if (spoil_.finish) spoil_.finish(batch);
}

std::vector<Candidate> ranked(const SpoiledModel::Result& result, const SpoiledModel::Row& row) {
  std::vector<Candidate> list;
  for (std::size_t id = 0; id < result.mask.size(); ++id) {
    if (result.mask[id] == 0) continue;
    list.push_back({static_cast<std::int32_t>(id), row.logits[id], result.weight[id]});
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Candidate& a, const Candidate& b) { return a.value > b.value; });
  return list;
}

void keep_only(SpoiledModel::Result& result, const std::vector<Candidate>& kept) {
  std::fill(result.mask.begin(), result.mask.end(), std::uint8_t{0});
  result.total = 0;
  const auto keep = [&result](std::size_t id) {
    result.mask[id] = 1;
    result.total += result.weight[id];
  };
  for (const Candidate& candidate : kept) keep(static_cast<std::size_t>(candidate.id));
  result.support_size = static_cast<std::int32_t>(std::max<std::size_t>(kept.size(), 1));
  if (!kept.empty()) return;
  result.weight[0] = std::max<std::uint64_t>(result.weight[0], 1);
  keep(0);
}

SpoiledModel::Result result_of(SpoiledModel::Row row, const reference::RowParameters& parameters) {
  row.parameters = parameters;
  if (row.from_probs) {
    return reference::integer_model_from_probs(row.logits, parameters, row.filter_order);
  }
  return reference::integer_model(row.logits, row.allowed, parameters, row.tie_rule,
                                  row.filter_order);
}

}  // namespace fairdraw::suites
