// Bad rows under the profiles of engines: what a profile says of one is not done, or what it leaves
// open reaches other rows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Order = FloatSampler::Order;

const std::string kEngineBadRows = "engine-bad-rows";

Mutant of_engine(const char* name, const char* source, const char* wrong, Order order,
                 void (*call)(fairdraw_batch&, Storage&)) {
  return mutated_float({name, source, kEngineBadRows, wrong, {"status/*"}}, order,
                       FloatSampler::Draw::inverse_cdf,
                       [call](FloatMutation& mutation) { mutation.call = call; });
}

template <class Change>
void change_temperatures(fairdraw_batch& batch, Storage& storage, Change change) {
  std::vector<float> temperature(batch.temperature, batch.temperature + batch.rows);
  for (float& value : temperature) value = change(value);
  batch.temperature = storage.keep(std::move(temperature));
}

bool holds_nan(const fairdraw_batch& batch) {
  const auto* const bytes = static_cast<const std::byte*>(batch.logits);
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    for (std::int64_t id = 0; id < batch.vocab; ++id) {
      float logit = 0;  // rows may lie at any alignment
      std::memcpy(&logit, bytes + (row * batch.row_stride + id) * std::int64_t{sizeof(float)},
                  sizeof(float));
      if (std::isnan(logit)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Mutant> engine_bad_row_mutants() {
  return {
      of_engine(
          "engine-negative-temperature-is-greedy", "vLLM issue #22180",
          "a negative temperature, which the engine refuses, is taken for 0", Order::vllm_torch,
          [](fairdraw_batch& batch, Storage& storage) {
            change_temperatures(batch, storage, [](float value) { return value < 0 ? 0 : value; });
          }),
      of_engine("engine-negative-temperature-draws", "systematic",
                "a temperature of -1, which is greedy in the engine, draws at 1", Order::rosellm,
                [](fairdraw_batch& batch, Storage& storage) {
                  change_temperatures(batch, storage,
                                      [](float value) { return value == -1 ? 1 : value; });
                }),
      // The profile promises nothing for the row with NaN: only its neighbours tell.
      of_engine("engine-nan-makes-the-call-greedy", "systematic",
                "a flag for NaN belongs to the call: all of its rows take their largest logit",
                Order::vllm_torch,
                [](fairdraw_batch& batch, Storage& storage) {
                  if (!holds_nan(batch)) return;
                  change_temperatures(batch, storage, [](float) { return 0.0F; });
                }),
      of_engine("engine-negative-top-k-is-off", "systematic",
                "every negative top_k is off, where the engine refuses them", Order::hf,
                [](fairdraw_batch& batch, Storage& storage) {
                  std::vector<std::int32_t> top_k(batch.top_k, batch.top_k + batch.rows);
                  for (std::int32_t& k : top_k) {
                    if (k < 0) k = static_cast<std::int32_t>(batch.vocab);
                  }
                  batch.top_k = storage.keep(std::move(top_k));
                }),
      of_engine("engine-padding-is-sampled", "systematic", "rows of padding are sampled",
                Order::rosellm, [](fairdraw_batch& batch, Storage&) { batch.active = nullptr; }),
      of_engine("engine-index-clamped", "systematic",
                "an index outside of the rows is clamped to them", Order::hf,
                [](fairdraw_batch& batch, Storage& storage) {
                  if (batch.indices == nullptr || batch.rows == 0) return;
                  std::vector<std::int32_t> clamped(batch.indices, batch.indices + batch.outputs);
                  for (std::int32_t& index : clamped) {
                    index = std::clamp(index, 0, static_cast<std::int32_t>(batch.rows - 1));
                  }
                  batch.indices = storage.keep(std::move(clamped));
                }),
  };
}

}  // namespace fairdraw::suites
