#include "harness/run/tests/model_sampler.h"

#include <cfenv>
#include <cmath>
#include <cstring>

#include "harness/run/random_words.h"

namespace fairdraw::harness {
namespace {

float decode(const fairdraw_batch& batch, std::int64_t row, std::int64_t token) {
  const bool wide = batch.dtype == 0;
  const auto at = static_cast<std::size_t>(row * batch.row_stride + token) * (wide ? 4 : 2);
  const std::byte* const source = static_cast<const std::byte*>(batch.logits) + at;
  if (wide) {
    float value = 0;
    std::memcpy(&value, source, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, source, sizeof(bits));
  return batch.dtype == 1 ? reference::float_from_half(bits) : reference::float_from_bfloat16(bits);
}

// The oracles compute in the float environment that they find, so the caller's is put aside.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&callers_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t callers_{};
};

// ln of the share of a token among weights that sum to `total`.
float log_share(std::uint64_t weight, std::uint64_t total) {
  return static_cast<float>(std::log(static_cast<double>(weight)) -
                            std::log(static_cast<double>(total)));
}

}  // namespace

ModelSampler::ModelSampler() {
  description_.name = "model";
  description_.version = "test";
  description_.semantics = "fairdraw";
  description_.exact_integer = description_.per_request_seeds = true;
  description_.float16 = description_.bfloat16 = true;
  description_.allowed_mask = description_.active_rows = description_.indices = true;
  description_.num_samples = description_.lowest_id_ties = description_.joint_order = true;
  description_.reports_status = description_.reports_support = true;
  description_.reports_mask = description_.reports_probs = description_.reports_logprobs = true;
}

reference::IntegerRow ModelSampler::model(const Row& row) {
  return reference::integer_model(row.logits, row.allowed, row.parameters, row.tie_rule,
                                  row.filter_order);
}

std::int64_t ModelSampler::seed_index(const fairdraw_batch& batch, std::int64_t output) {
  return batch.seed_is_scalar != 0 ? 0 : output;
}

std::uint64_t ModelSampler::word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index) {
  return random_word(seed, offset, Purpose::draw, index);
}

std::int32_t ModelSampler::choose(const reference::IntegerRow& row, std::uint64_t word) {
  return row.token_for(word);
}

float ModelSampler::report_probability(const reference::IntegerRow& row, std::int32_t token) {
  return row.probability(token);
}

std::string ModelSampler::run(const fairdraw_batch& batch) {
  sample(batch);
  finish(batch);
  return {};
}

void ModelSampler::sample(const fairdraw_batch& batch) {
  const DefaultFloatEnvironment scope;
  std::vector<reference::IntegerRow> rows;
  const auto vocab = static_cast<std::size_t>(batch.vocab);
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    const bool active = batch.active == nullptr || batch.active[r] != 0;
    if (!active) {
      rows.emplace_back();
      rows.back().status = RowStatus::inactive;
      continue;
    }
    Row row;
    for (std::size_t token = 0; token < vocab; ++token) {
      row.logits.push_back(decode(batch, r, static_cast<std::int64_t>(token)));
    }
    if (batch.allowed != nullptr) {
      const std::uint32_t* const first = batch.allowed + r * batch.allowed_stride;
      row.allowed.assign(first, first + (batch.vocab + 31) / 32);
    }
    const std::int64_t p = parameters_row(batch, r);
    row.parameters = {batch.temperature[p], batch.top_k[p], batch.top_p[p], batch.min_p[p]};
    row.tie_rule = static_cast<TieRule>(batch.tie_rule);
    row.filter_order = static_cast<FilterOrder>(batch.filter_order);
    rows.push_back(model(row));
    const reference::IntegerRow& result = rows.back();
    const bool ok = result.status == RowStatus::ok;
    for (std::size_t i = 0; batch.mask != nullptr && i < (vocab + 31) / 32; ++i) {
      batch.mask[r * batch.mask_stride + static_cast<std::int64_t>(i)] = 0;
    }
    for (std::size_t token = 0; token < vocab; ++token) {
      const bool kept = ok && result.mask[token] != 0;
      if (batch.mask != nullptr && kept) {
        batch.mask[r * batch.mask_stride + static_cast<std::int64_t>(token / 32)] |=
            1U << (token % 32);
      }
      if (batch.probs != nullptr) {
        batch.probs[r * batch.probs_stride + static_cast<std::int64_t>(token)] =
            kept ? report_probability(result, static_cast<std::int32_t>(token)) : 0.0F;
      }
    }
  }

  for (std::int64_t output = 0; output < batch.outputs; ++output) {
    const std::int64_t r = batch.indices != nullptr ? batch.indices[output] : output;
    const bool in_range = r >= 0 && r < batch.rows;
    const reference::IntegerRow* const row =
        in_range ? &rows[static_cast<std::size_t>(r)] : nullptr;
    const RowStatus status = in_range ? row->status : RowStatus::index_out_of_range;
    const bool ok = status == RowStatus::ok;
    if (batch.statuses != nullptr) batch.statuses[output] = report_status(status);
    if (batch.support_size != nullptr) batch.support_size[output] = ok ? row->support_size : 0;
    const std::int64_t s = seed_index(batch, output);
    for (std::int32_t sample = 0; sample < batch.num_samples; ++sample) {
      const std::int64_t at = output * batch.num_samples + sample;
      const std::int64_t index = batch.seed_is_scalar != 0 ? at : sample;
      const std::int32_t token =
          ok ? choose(*row, word(batch.seed[s], batch.offset[s], static_cast<std::uint32_t>(index)))
             : -1;
      batch.tokens[at] = token;
      if (batch.logprob == nullptr || token < 0) continue;
      const std::uint64_t weight = row->weight[static_cast<std::size_t>(token)];
      batch.logprob[at] = log_share(weight, row->total_unfiltered);
      batch.logprob_filtered[at] = log_share(weight, row->total);
    }
  }
}

}  // namespace fairdraw::harness
