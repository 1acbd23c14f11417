// The operations of fairdraw/sampling.h, as views of the batch engine (batch.h).
#include "fairdraw/sampling.h"

#include <cstring>
#include <vector>

#include "common/arguments.h"
#include "common/draw_calls.h"
#include "common/minus_infinity.h"
#include "cpu/batch.h"
#include "fairdraw/sample.h"

namespace fairdraw {
namespace {

using cpu::FilterOptions;

Error draw_from_probs(SampleRequest request, FilterOrder filter_order, const DrawResult& draws,
                      const Execution& execution) {
  request.filter_order = filter_order;
  FilterOptions options;
  options.from_probs = true;
  options.filter_order = filter_order;
  return cpu::run_batch(request, result_of(draws), execution, "probs", options,
                        /*wants_tokens=*/true);
}

Error renormalise(const SampleRequest& request, const char* rows_name, const FloatRows& probs,
                  View<RowStatus> statuses, const FilterOptions& options,
                  const Execution& execution) {
  if (Error error = check_renormalised(probs, request.logits.rows)) return error;
  SampleResult result;
  result.probs = probs;
  result.statuses = statuses;
  return cpu::run_batch(request, result, execution, rows_name, options, /*wants_tokens=*/false);
}

}  // namespace

Error softmax(const RowsView& logits, const PerRequest<float>& temperature, const FloatRows& probs,
              View<RowStatus> statuses, const Execution& execution) {
  SampleRequest request;
  request.logits = logits;
  request.temperature = temperature;
  return renormalise(request, "logits", probs, statuses, {}, execution);
}

Error sampling_from_logits(const RowsView& logits, const DrawOptions& options,
                           const DrawResult& result, const Execution& execution) {
  return sample(request_of(logits, options), result_of(result), execution);
}

Error sampling_from_probs(const RowsView& probs, const DrawOptions& options,
                          const DrawResult& result, const Execution& execution) {
  return draw_from_probs(request_of(probs, options), FilterOrder::top_k_first, result, execution);
}

Error top_k_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_k = top_k;
  return draw_from_probs(request, FilterOrder::top_k_first, result, execution);
}

Error top_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& top_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_p = top_p;
  return draw_from_probs(request, FilterOrder::top_k_first, result, execution);
}

Error min_p_sampling_from_probs(const RowsView& probs, const PerRequest<float>& min_p,
                                const DrawOptions& options, const DrawResult& result,
                                const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.min_p = min_p;
  return draw_from_probs(request, FilterOrder::top_k_first, result, execution);
}

Error top_k_top_p_sampling_from_logits(const RowsView& logits,
                                       const PerRequest<std::int32_t>& top_k,
                                       const PerRequest<float>& top_p, FilterOrder filter_order,
                                       const DrawOptions& options, const DrawResult& result,
                                       const Execution& execution) {
  SampleRequest request = request_of(logits, options);
  request.top_k = top_k;
  request.top_p = top_p;
  request.filter_order = filter_order;
  return sample(request, result_of(result), execution);
}

Error top_k_top_p_sampling_from_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                                      const PerRequest<float>& top_p, FilterOrder filter_order,
                                      const DrawOptions& options, const DrawResult& result,
                                      const Execution& execution) {
  SampleRequest request = request_of(probs, options);
  request.top_k = top_k;
  request.top_p = top_p;
  return draw_from_probs(request, filter_order, result, execution);
}

Error top_k_renorm_probs(const RowsView& probs, const PerRequest<std::int32_t>& top_k,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution) {
  SampleRequest request;
  request.logits = probs;
  request.top_k = top_k;
  FilterOptions options;
  options.from_probs = true;
  options.top_k_1_keeps_ties = true;
  return renormalise(request, "probs", renormalised, statuses, options, execution);
}

Error top_p_renorm_probs(const RowsView& probs, const PerRequest<float>& top_p,
                         const FloatRows& renormalised, View<RowStatus> statuses,
                         const Execution& execution) {
  SampleRequest request;
  request.logits = probs;
  request.top_p = top_p;
  FilterOptions options;
  options.from_probs = true;
  return renormalise(request, "probs", renormalised, statuses, options, execution);
}

Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses,
                        const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_top_k_mask_logits(logits, top_k, masked, masked_row_stride, statuses)) {
    return error;
  }
  const auto value_size = static_cast<std::size_t>(cpu::size_of(logits.dtype));
  const std::uint32_t dropped = minus_infinity_bits(logits.dtype);

  cpu::for_each_row(logits.rows, execution, [&](std::int64_t row, cpu::Worker& worker) {
    const auto vocab = static_cast<std::size_t>(logits.vocab);
    RowParameters parameters;
    parameters.top_k = top_k.at(row);
    FilterOptions options;
    options.top_k_1_keeps_ties = true;
    RowStatus status = check(parameters);
    if (status == RowStatus::ok) {
      const float* values = worker.reader.read(*worker.passes, logits, row, nullptr, false, status);
      status = worker.sampler.filter(values, vocab, parameters, options);
    }
    const auto byte_of = [&](std::int64_t stride) {
      return static_cast<std::size_t>(row * stride) * value_size;
    };
    std::vector<std::uint32_t> words((vocab + 31) / 32, 0U);
    if (status == RowStatus::ok) worker.sampler.write_mask(words.data());
    auto* out = static_cast<std::uint8_t*>(masked) + byte_of(masked_row_stride);
    const auto* in = static_cast<const std::uint8_t*>(logits.data) + byte_of(logits.row_stride);
    if (out != in) std::memcpy(out, in, vocab * value_size);
    for (std::size_t i = 0; i < vocab; ++i) {
      const bool kept = ((words[i / 32] >> (i % 32)) & 1U) != 0;
      // Little endian: the low bytes of the pattern are those of a 16-bit value.
      if (!kept) std::memcpy(out + i * value_size, &dropped, value_size);
    }
    if (statuses.given()) statuses.data[row] = status;
  });
  return {};
}

}  // namespace fairdraw
