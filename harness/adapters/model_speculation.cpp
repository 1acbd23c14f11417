// The model's speculation: the call as an owned request, taken apart, and put together again.
#include <algorithm>

#include "harness/adapters/decode.h"
#include "harness/adapters/default_float_environment.h"
#include "harness/adapters/model_sampler.h"
#include "harness/adapters/sample_view.h"
#include "harness/contract/serving_arrays.h"

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
  // The inputs that the request has under the same names.
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

reference::SpeculationOutcome ModelSampler::verify_request(DraftedTokens& request) {
  return outcome_of(request);
}

std::string ModelSampler::run_speculation(const fairdraw_verification& speculation) {
  const DefaultFloatEnvironment scope;
  const SpeculationRequest request = owned(speculation);
  const std::int64_t width = request.width();
  for (std::int64_t b = 0; b < request.batch; ++b) {
    DraftedTokens taken = split_request(request, b);
    const reference::SpeculationOutcome outcome = verify_request(taken);
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
