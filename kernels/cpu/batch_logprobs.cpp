#include "cpu/batch_logprobs.h"

#include <algorithm>
#include <limits>

namespace fairdraw::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

template <class T>
void fill(const View<T>& view, std::int64_t begin, std::int64_t count, T value) {
  if (view.given()) std::fill_n(view.data + begin, count, value);
}

}  // namespace

void BatchLogprobs::begin_row(std::int64_t logit_row, const float* values, bool processed,
                              Worker& worker) const {
  if (!result_.given()) return;
  IndexedRow& sampler = worker.sampler;
  RowLogprobs& logprobs = worker.logprobs;
  const LogprobsMode mode = result_.mode;
  const float temperature = sampler.temperature();
  if (!is_raw(mode)) {
    const bool needs_mass = mode == LogprobsMode::processed_logprobs;
    logprobs.begin(sampler.survivors_row(), mode, result_.rank_rule, temperature,
                   needs_mass ? sampler.survivors_log_mass() : 0.0);
    return;
  }
  const bool needs_mass = mode == LogprobsMode::raw_logprobs;
  const float* raw = values;
  if (processed) {
    RowStatus status = RowStatus::ok;
    raw =
        worker.raw_reader.read(*worker.passes, request_.logits, logit_row, nullptr, false, status);
  }
  if (raw == values) {
    // At temperature 0, the sampler uses the weights of temperature 1.
    const bool weights_fit = temperature == 1.0F || temperature == 0.0F;
    const ScannedRow unfiltered = sampler.unfiltered_row();
    const double log_mass = !needs_mass   ? 0.0
                            : weights_fit ? sampler.unfiltered_log_mass()
                                          : logprobs.log_mass_of(unfiltered);
    logprobs.begin(unfiltered, mode, result_.rank_rule, 1.0F, log_mass);
    return;
  }
  const ScannedRow scanned = logprobs.scan(raw, static_cast<std::size_t>(request_.logits.vocab));
  logprobs.begin(scanned, mode, result_.rank_rule, 1.0F,
                 needs_mass ? logprobs.log_mass_of(scanned) : 0.0);
}

void BatchLogprobs::write_output(std::int64_t output, const std::int32_t* tokens,
                                 Worker& worker) const {
  RowLogprobs& logprobs = worker.logprobs;
  // The n largest values are written first, because most ranks can be read from them.
  if (result_.top_n > 0 && (result_.top_ids.given() || result_.top_values.given())) {
    const std::int64_t begin = output * result_.top_n;
    logprobs.write_top(result_.top_n,
                       result_.top_ids.given() ? result_.top_ids.data + begin : nullptr,
                       result_.top_values.given() ? result_.top_values.data + begin : nullptr);
  }
  const std::int64_t samples = request_.num_samples;
  for (std::int64_t s = 0; s < samples; ++s) {
    const std::int64_t at = output * samples + s;
    if (result_.values.given()) result_.values.data[at] = logprobs.value(tokens[s]);
    if (result_.ranks.given()) result_.ranks.data[at] = logprobs.rank(tokens[s]);
  }
}

void BatchLogprobs::write_row(std::int64_t row, Worker& worker) const {
  if (!result_.all.given()) return;
  worker.logprobs.write_all(result_.all.data + row * result_.all.row_stride);
}

void BatchLogprobs::write_failed_output(std::int64_t output) const {
  const std::int64_t samples = request_.num_samples;
  fill(result_.values, output * samples, samples, kNone);
  fill(result_.ranks, output * samples, samples, 0);
  fill(result_.top_ids, output * result_.top_n, result_.top_n, -1);
  fill(result_.top_values, output * result_.top_n, result_.top_n, kNone);
}

void BatchLogprobs::write_failed_row(std::int64_t row) const {
  if (!result_.all.given()) return;
  std::fill_n(result_.all.data + row * result_.all.row_stride, request_.logits.vocab, kNone);
}

}  // namespace fairdraw::cpu
