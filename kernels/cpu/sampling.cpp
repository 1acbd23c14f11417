// Operations of fairdraw/sampling.h on the CPU. Most are calls of the batch engine (batch.h);
// top_k_mask_logits processes rows itself.
#include "fairdraw/sampling.h"

#include <cstring>
#include <vector>

#include "common/arguments.h"
#include "common/minus_infinity.h"
#include "common/operation_calls.h"
#include "cpu/batch.h"

namespace fairdraw {

Error run_operation(const OperationCall& call, const Execution& execution) {
  const SampleRequest& request = call.request;
  if (!call.wants_tokens) {
    if (Error error = check_renormalised(call.result.probs, request.logits.rows)) return error;
  }
  cpu::FilterOptions options;
  options.from_probs = call.from_probs;
  options.top_k_1_keeps_ties = call.top_k_1_keeps_ties;
  return cpu::run_batch(request, call.result, execution, call.rows_name(), options,
                        call.wants_tokens);
}

Error top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k, void* masked,
                        std::int64_t masked_row_stride, View<RowStatus> statuses,
                        const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_top_k_mask_logits(logits, top_k, masked, masked_row_stride, statuses)) {
    return error;
  }
  const auto value_size = static_cast<std::size_t>(bytes_of(logits.dtype));
  const std::uint32_t dropped = minus_infinity_bits(logits.dtype);

  cpu::for_each_row(logits.rows, execution, [&](std::int64_t row, cpu::Worker& worker) {
    const auto vocab = static_cast<std::size_t>(logits.vocab);
    RowParameters parameters;
    parameters.top_k = top_k.at(row);
    cpu::FilterOptions options;
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
      // On a little-endian machine, the low bytes of the pattern are the 16-bit value.
      if (!kept) std::memcpy(out + i * value_size, &dropped, value_size);
    }
    if (statuses.given()) statuses.data[row] = status;
  });
  return {};
}

}  // namespace fairdraw
