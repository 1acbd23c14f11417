#include "harness/run/calls/mixed_sampler.h"

#include <utility>

#include "harness/run/calls/mixed_call.h"

namespace fairdraw::harness {

MixedSampler::MixedSampler(std::unique_ptr<Sampler> sampler, std::unique_ptr<Sampler> right,
                           RowCondition where)
    : sampler_(std::move(sampler)), right_(std::move(right)), where_(std::move(where)) {}

std::string MixedSampler::run(const fairdraw_batch& batch) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    rows.push_back({{batch.temperature[row], batch.top_k[row], batch.top_p[row], batch.min_p[row]},
                    batch.vocab,
                    batch.dtype,
                    row,
                    batch.rows,
                    batch.processing.repetition_penalty != nullptr});
  }
  return mix(batch, rows, batch.outputs, batch.indices, false,
             [](Sampler& sampler, const fairdraw_batch& call) { return sampler.run(call); });
}

std::string MixedSampler::run_operation(const fairdraw_operation& operation) {
  std::vector<RowFacts> rows;
  for (std::int64_t row = 0; row < operation.rows; ++row) {
    const std::int64_t at = operation.parameter_is_scalar != 0 ? 0 : row;
    RowFacts facts = {{}, operation.vocab, operation.dtype, row, operation.rows, false};
    if (operation.temperature != nullptr) facts.parameters.temperature = operation.temperature[at];
    if (operation.top_k != nullptr) facts.parameters.top_k = operation.top_k[at];
    if (operation.top_p != nullptr) facts.parameters.top_p = operation.top_p[at];
    if (operation.min_p != nullptr) facts.parameters.min_p = operation.min_p[at];
    rows.push_back(facts);
  }
  return mix(
      operation, rows, operation.rows, nullptr, false,
      [](Sampler& sampler, const fairdraw_operation& call) { return sampler.run_operation(call); });
}

}  // namespace fairdraw::harness
