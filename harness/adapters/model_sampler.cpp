#include "harness/adapters/model_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/adapters/decode.h"
#include "harness/adapters/default_float_environment.h"
#include "harness/adapters/sample_view.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

// Returns the logarithm of a token's share in the sum of weights, `total`.
float log_share(reference::RowWeight weight, reference::RowWeight total) {
  return static_cast<float>(std::log(static_cast<double>(weight)) -
                            std::log(static_cast<double>(total)));
}

}  // namespace

ModelSampler::ModelSampler() {
  description_.name = "model";
  description_.version = std::string("fairdraw ") + FAIRDRAW_VERSION;
  description_.semantics = "fairdraw";
  description_.exact_integer = description_.per_request_seeds = true;
  description_.float16 = description_.bfloat16 = true;
  description_.allowed_mask = description_.active_rows = description_.indices = true;
  description_.processing = description_.top_n_sigma = true;
  description_.probability_filters = description_.history_rules = true;
  description_.from_probs = description_.from_probs_all_filters = true;
  description_.scripted_words = true;
  description_.num_samples = description_.lowest_id_ties = description_.joint_order = true;
  description_.reports_status = description_.reports_support = true;
  description_.reports_mask = description_.reports_probs = description_.reports_logprobs = true;
  description_.reports_raw = description_.reports_processed = true;
  description_.ranks_position = description_.ranks_at_least = true;
}

reference::IntegerRow ModelSampler::model(const Row& row) {
  if (row.from_probs) {
    return reference::integer_model_from_probs(row.logits, row.parameters, row.filter_order);
  }
  if (row.processing) {
    return reference::integer_model(row.logits, row.allowed, *row.processing, row.parameters,
                                    row.tie_rule, row.filter_order);
  }
  return reference::integer_model(row.logits, row.allowed, row.parameters, row.tie_rule,
                                  row.filter_order);
}

std::int64_t ModelSampler::seed_index(const fairdraw_batch& batch, std::int64_t output) {
  return batch.seed_is_scalar != 0 ? 0 : output;
}

std::uint64_t ModelSampler::word(std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                 std::uint32_t attempt) {
  return random_word(seed, offset, Purpose::draw, index, attempt);
}

std::uint64_t ModelSampler::decisive_word(const fairdraw_batch& batch, std::int64_t output,
                                          std::int32_t sample, std::uint32_t attempt) {
  const std::int64_t at = output * batch.num_samples + sample;
  if (batch.words != nullptr) return batch.words[at];
  const std::int64_t s = seed_index(batch, output);
  const std::int64_t index = batch.seed_is_scalar != 0 ? at : sample;
  return word(batch.seed[s], batch.offset[s], static_cast<std::uint32_t>(index), attempt);
}

std::int32_t ModelSampler::Sums::token_for(std::uint64_t word) const {
  const reference::RowWeight position = reference::position_of(word, prefix.back());
  return static_cast<std::int32_t>(std::ranges::upper_bound(prefix, position) - prefix.begin());
}

std::int32_t ModelSampler::propose(const reference::IntegerRow& row, std::uint64_t word) {
  if (proposed_from_.row != &row) {
    proposed_from_ = {&row, {}};
    reference::RowWeight sum = 0;
    for (std::size_t id = 0; id < row.weight.size(); ++id) {
      const bool proposes = row.tiles[id / reference::kIdsOfATile].proposes;
      proposed_from_.prefix.push_back(sum += proposes ? row.weight[id] : 0);
    }
  }
  return proposed_from_.token_for(word);
}

bool ModelSampler::accepts(const reference::IntegerRow& row, std::int32_t token, std::uint32_t) {
  return row.mask[static_cast<std::size_t>(token)] != 0;
}

std::int32_t ModelSampler::choose(const reference::IntegerRow& row, std::uint64_t word) {
  if (chosen_from_.row != &row) {
    chosen_from_ = {&row, {}};
    reference::RowWeight sum = 0;
    for (std::size_t id = 0; id < row.mask.size(); ++id) {
      chosen_from_.prefix.push_back(sum += row.mask[id] != 0 ? row.weight[id] : 0);
    }
  }
  return chosen_from_.token_for(word);
}

std::int32_t ModelSampler::draw(const fairdraw_batch& batch, const reference::IntegerRow& row,
                                std::int64_t output, std::int32_t sample) {
  if (!row.proposes || batch.words != nullptr) {
    return choose(row, decisive_word(batch, output, sample, 0));
  }
  for (std::uint32_t attempt = 0; attempt < reference::kAttemptsOfADraw; ++attempt) {
    const std::int32_t token = propose(row, decisive_word(batch, output, sample, attempt));
    if (accepts(row, token, attempt)) return token;
  }
  return choose(row, decisive_word(batch, output, sample, reference::kAttemptsOfADraw));
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
  chosen_from_ = proposed_from_ = {};
  std::vector<reference::IntegerRow> rows;
  std::vector<Row> given;  // the same rows as the caller gave them, for reports
  const auto vocab = static_cast<std::size_t>(batch.vocab);
  for (std::int64_t r = 0; r < batch.rows; ++r) {
    const bool active = batch.active == nullptr || batch.active[r] != 0;
    if (!active) {
      rows.emplace_back();
      rows.back().status = RowStatus::inactive;
      given.emplace_back();
      continue;
    }
    Row row;
    row.from_probs = batch.input != 0;
    for (std::size_t token = 0; token < vocab; ++token) {
      row.logits.push_back(decode(batch.logits, batch.dtype,
                                  r * batch.row_stride + static_cast<std::int64_t>(token)));
    }
    if (batch.allowed != nullptr) {
      const std::uint32_t* const first = batch.allowed + r * batch.allowed_stride;
      row.allowed.assign(first, first + (batch.vocab + 31) / 32);
    }
    if (const LogitsProcessing processing = processing_of(batch); processing.given()) {
      row.processing = reference::processing_of_row(processing, r, vocab);
    }
    const std::int64_t p = parameters_row(batch, r);
    row.parameters = {batch.temperature[p], batch.top_k[p], batch.top_p[p], batch.min_p[p]};
    row.tie_rule = static_cast<TieRule>(batch.tie_rule);
    row.filter_order = static_cast<FilterOrder>(batch.filter_order);
    prepare(batch, r, row);
    rows.push_back(model(row));
    given.push_back(std::move(row));
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
    for (std::int32_t sample = 0; sample < batch.num_samples; ++sample) {
      const std::int64_t at = output * batch.num_samples + sample;
      const std::int32_t token = ok ? draw(batch, *row, output, sample) : -1;
      batch.tokens[at] = token;
      if (batch.logprob == nullptr) continue;
      const bool in_vocab = token >= 0 && token < batch.vocab;  // false for some mutants
      if (!in_vocab) {
        batch.logprob[at] = batch.logprob_filtered[at] = -std::numeric_limits<float>::infinity();
        continue;
      }
      const reference::RowWeight weight = row->weight[static_cast<std::size_t>(token)];
      batch.logprob[at] = log_share(weight, row->total_unfiltered);
      batch.logprob_filtered[at] = log_share(weight, row->total);
    }
  }
  report(batch, given, rows);
}

}  // namespace fairdraw::harness
