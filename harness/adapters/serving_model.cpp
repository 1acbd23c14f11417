#include "harness/adapters/serving_model.h"

#include <algorithm>

#include "harness/adapters/decode.h"
#include "harness/adapters/default_float_environment.h"
#include "harness/adapters/describe.h"
#include "harness/adapters/sample_view.h"
#include "harness/adapters/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

template <class T>
std::vector<T> copied(const T* values, std::int64_t size) {
  if (values == nullptr) return {};
  return {values, values + size};
}

std::vector<float> decoded(const void* values, std::uint32_t dtype, std::int64_t size) {
  std::vector<float> result;
  for (std::int64_t i = 0; values != nullptr && i < size; ++i) {
    result.push_back(decode(values, dtype, i));
  }
  return result;
}

std::vector<reference::RowParameters> parameters(const float* temperature,
                                                 const std::int32_t* top_k, const float* top_p,
                                                 const float* min_p, std::int64_t batch) {
  std::vector<reference::RowParameters> result;
  for (std::int64_t b = 0; temperature != nullptr && b < batch; ++b) {
    result.push_back({temperature[b], top_k[b], top_p[b], min_p[b]});
  }
  return result;
}

SpeculationRequest owned(const fairdraw_verification& call) {
  SpeculationRequest request;
  request.dtype = static_cast<DType>(call.dtype);
  request.batch = call.batch;
  request.max_draft = call.max_draft;
  request.max_depth = call.max_depth;
  request.vocab = call.vocab;
  request.trees = call.parents != nullptr;
  // Copies those inputs of the call that the request has under the same names.
  CallArrays<fairdraw_verification>::each(call, [&](auto field, const CallArray& array) {
    if constexpr (!is_result<decltype(field(call))> && requires { field(request); }) {
      if constexpr (std::is_same_v<decltype(field(call)), const void* const&>) {
        field(request) = decoded(field(call), call.dtype, array.width);
      } else {
        field(request) = copied(field(call), array.width);
      }
    }
  });
  request.parameters = parameters(call.temperature, call.top_k, call.top_p, call.min_p, call.batch);
  request.tie_rule = static_cast<TieRule>(call.tie_rule);
  request.filter_order = static_cast<FilterOrder>(call.filter_order);
  request.seed_is_scalar = call.seed_is_scalar != 0;
  request.draft_law = static_cast<DraftLaw>(call.draft_law);
  request.siblings = static_cast<SiblingSampling>(call.siblings);
  request.draft_parameters = parameters(call.draft_temperature, call.draft_top_k, call.draft_top_p,
                                        call.draft_min_p, call.batch);
  const LogitsProcessing processing = processing_of(call.processing, call.rows, call.vocab);
  for (std::int64_t row = 0; processing.given() && row < call.rows; ++row) {
    request.processing.push_back(
        reference::processing_of_row(processing, row, static_cast<std::size_t>(call.vocab)));
  }
  return request;
}

}  // namespace

std::unique_ptr<Sampler> make_model_sampler() { return std::make_unique<ServingModel>(); }

ServingModel::ServingModel() {
  declare_drafts(description_);
  description_.keeps_state = true;
  description_.marks_by_key = description_.marks_by_key_and_seed = true;
  description_.marks_green_lists = true;
}

std::uint64_t ServingModel::chain_word(std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                       std::uint32_t index) {
  return random_word(seed, offset, purpose, index);
}

reference::ChainOutcome ServingModel::accept_chain(std::span<const float> draft_probs,
                                                   std::span<const std::int32_t> draft_tokens,
                                                   std::span<const float> target_probs,
                                                   std::size_t vocab,
                                                   std::span<const std::uint64_t> accept_words,
                                                   std::span<const std::uint64_t> recover_words,
                                                   std::uint64_t bonus_word) {
  return reference::chain_speculative_model(draft_probs, draft_tokens, target_probs, vocab,
                                            accept_words, recover_words, bonus_word);
}

std::string ServingModel::run_chain(const fairdraw_chain& chain) {
  const DefaultFloatEnvironment scope;
  const auto n = static_cast<std::size_t>(chain.num_draft_tokens);
  const auto vocab = static_cast<std::size_t>(chain.vocab);
  const auto matrix = [&chain, vocab](const void* values, std::size_t first, std::size_t rows) {
    std::vector<float> result(rows * vocab);
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = decode(values, chain.dtype, static_cast<std::int64_t>(first * vocab + i));
    }
    return result;
  };
  for (std::size_t b = 0; b < static_cast<std::size_t>(chain.batch); ++b) {
    const std::vector<float> draft = matrix(chain.draft_probs, b * n, n);
    const std::vector<float> target = matrix(chain.target_probs, b * (n + 1), n + 1);
    const std::size_t s = chain.seed_is_scalar != 0 ? 0 : b;
    const auto index = static_cast<std::uint32_t>(chain.seed_is_scalar != 0 ? b : 0);
    const auto word = [&](const std::uint64_t* given, std::size_t at, std::size_t position,
                          Purpose purpose) {
      if (given != nullptr) return given[at];
      return chain_word(chain.seed[s], chain.offset[s] + position, purpose, index);
    };
    std::vector<std::uint64_t> accept(n), recover(n);
    for (std::size_t i = 0; i < n; ++i) {
      accept[i] = word(chain.accept_words, b * n + i, i, Purpose::accept);
      recover[i] = word(chain.recover_words, b * n + i, i, Purpose::recover);
    }
    const reference::ChainOutcome outcome =
        accept_chain(draft, std::span(chain.draft_tokens + b * n, n), target, vocab, accept,
                     recover, word(chain.bonus_words, b, n, Purpose::bonus));
    std::copy(outcome.tokens.begin(), outcome.tokens.end(), chain.tokens + b * (n + 1));
    if (chain.accepted != nullptr) chain.accepted[b] = outcome.accepted;
    if (chain.emitted != nullptr) chain.emitted[b] = outcome.emitted;
    if (chain.statuses != nullptr) chain.statuses[b] = report_status(outcome.status);
  }
  return {};
}

reference::SpeculationOutcome ServingModel::accept_drafts(DraftedTokens& request) {
  return outcome_of(request);
}

std::string ServingModel::run_speculation(const fairdraw_verification& speculation) {
  const DefaultFloatEnvironment scope;
  const SpeculationRequest request = owned(speculation);
  const std::int64_t width = request.width();
  for (std::int64_t b = 0; b < request.batch; ++b) {
    DraftedTokens taken = split_request(request, b);
    const reference::SpeculationOutcome outcome = accept_drafts(taken);
    const auto write = [](const std::vector<std::int32_t>& values, std::int64_t size,
                          std::int32_t* to) {
      if (to == nullptr) return;
      std::fill_n(to, size, -1);
      std::copy_n(values.begin(), std::min(size, static_cast<std::int64_t>(values.size())), to);
    };
    write(outcome.tokens, width + 1, speculation.tokens + b * (width + 1));
    write(outcome.nodes, width,
          speculation.nodes == nullptr ? nullptr : speculation.nodes + b * width);
    if (speculation.accepted != nullptr) speculation.accepted[b] = outcome.accepted;
    if (speculation.statuses != nullptr) {
      speculation.statuses[b] = report_status(outcome.status);
    }
  }
  return {};
}

}  // namespace fairdraw::harness
