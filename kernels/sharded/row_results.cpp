#include "sharded/row_results.h"

#include <algorithm>
#include <limits>

#include "common/arguments.h"
#include "common/log_mass.h"
#include "cpu/batch_logprobs.h"

namespace fairdraw::sharded {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

void write_failed_output(const SampleRequest& request, const SampleResult& result,
                         std::int64_t output, RowStatus status) {
  const std::int64_t samples = request.num_samples;
  if (result.tokens.given()) std::fill_n(result.tokens.data + output * samples, samples, -1);
  if (result.statuses.given()) result.statuses.data[output] = status;
  if (result.support_size.given()) result.support_size.data[output] = 0;
  if (result.logprob.given()) std::fill_n(result.logprob.data + output * samples, samples, kNone);
  if (result.logprob_filtered.given()) {
    std::fill_n(result.logprob_filtered.data + output * samples, samples, kNone);
  }
  cpu::BatchLogprobs(request, result.logprobs).write_failed_output(output);
}

}  // namespace

void write_failures(const SampleRequest& request, const SampleResult& result) {
  for (std::int64_t i = 0; i < request.indices.size; ++i) {
    const std::int32_t row = request.indices.data[i];
    if (row >= 0 && row < request.logits.rows) continue;
    write_failed_output(request, result, i, RowStatus::index_out_of_range);
  }
}

void RowResults::write_failure(RowStatus status) const {
  for (std::int64_t i = 0; i < outputs_.count(row_); ++i) {
    write_failed_output(request_, result_, outputs_.at(row_, i), status);
  }
}

void RowResults::write_failed_columns() const {
  const std::int64_t columns = request_.logits.vocab;
  if (columns == 0) return;
  if (result_.mask.given()) {
    std::fill_n(result_.mask.data + row_ * result_.mask.row_stride, words_of(columns), 0U);
  }
  if (result_.probs.given()) {
    std::fill_n(result_.probs.data + row_ * result_.probs.row_stride, columns, 0.0F);
  }
  if (result_.logprobs.all.given()) {
    std::fill_n(result_.logprobs.all.data + row_ * result_.logprobs.all.row_stride, columns, kNone);
  }
}

void RowResults::write(const MergedRow& row, cpu::Worker& worker) const {
  const double temperature = row.parameters().temperature == 0.0F
                                 ? 1.0
                                 : static_cast<double>(row.parameters().temperature);
  const auto log_mass = [&](const auto& wanted, uint128_t weight) {
    return wanted.given() ? log_mass_of(weight, row.max(), row.rule().scale) : 0.0;
  };
  const double unfiltered = log_mass(result_.logprob, row.unfiltered_weight());
  const double filtered =
      row.is_greedy_row() ? 0.0 : log_mass(result_.logprob_filtered, row.survivors_weight());
  const LogprobsResult& reports = result_.logprobs;
  const bool wants_top =
      reports.top_n > 0 && (reports.top_ids.given() || reports.top_values.given());
  const std::vector<KnownToken> largest =
      wants_top ? row.largest(static_cast<std::size_t>(reports.top_n)) : std::vector<KnownToken>();
  const std::int64_t samples = request_.num_samples;
  std::size_t t = 0;
  for (std::int64_t i = 0; i < outputs_.count(row_); ++i) {
    const std::int64_t output = outputs_.at(row_, i);
    const std::size_t first = t;
    if (result_.statuses.given()) result_.statuses.data[output] = RowStatus::ok;
    if (result_.support_size.given()) {
      result_.support_size.data[output] = static_cast<std::int32_t>(row.support_size());
    }
    for (std::int64_t s = 0; s < samples && result_.tokens.given(); ++s, ++t) {
      const KnownToken& token = row.tokens()[t];
      const std::int64_t at = output * samples + s;
      result_.tokens.data[at] = token.id;
      if (result_.logprob.given()) {
        result_.logprob.data[at] =
            static_cast<float>(cpu::log_probability(token.x, row.max(), temperature, unfiltered));
      }
      if (result_.logprob_filtered.given()) {
        result_.logprob_filtered.data[at] =
            static_cast<float>(cpu::log_probability(token.x, row.max(), temperature, filtered));
      }
    }
    write_reports(row, output, first, largest, worker);
  }
}

// --- Reports -------------------------------------------------------------------------------------

/// Returns n reported values as a ScannedRow with the row's maximum and threshold. Tied values are
/// not cut.
cpu::ScannedRow RowResults::reported_row(const MergedRow& row, const float* x,
                                         std::size_t n) const {
  const bool raw = is_raw(rules_.mode);
  cpu::ScannedRow scanned;
  scanned.x = x;
  scanned.n = n;
  scanned.max = rules_.layout.raw_summary && raw ? row.raw_max() : row.max();
  scanned.low = raw ? -std::numeric_limits<float>::max() : row.low();
  scanned.tie_end = n;
  return scanned;
}

void RowResults::begin_reports(const MergedRow& row, const float* x, std::size_t n,
                               cpu::Worker& worker) const {
  const cpu::ScannedRow scanned = reported_row(row, x, n);
  double log_mass = 0;
  if (rules_.mode == LogprobsMode::raw_logprobs) {
    log_mass = log_mass_of(row.raw_weight(), row.raw_max(), logit_scale(1.0F));
  } else if (rules_.mode == LogprobsMode::processed_logprobs && !row.is_greedy_row()) {
    log_mass = log_mass_of(row.survivors_weight(), row.max(), row.rule().scale);
  }
  worker.logprobs.begin(scanned, rules_.mode, rules_.rank_rule,
                        is_raw(rules_.mode) ? 1.0F : row.parameters().temperature, log_mass);
}

/// Returns the log-probability or the logit that is reported for a value.
float RowResults::reported_value(const MergedRow& row, float x, cpu::Worker& worker) const {
  begin_reports(row, &x, 1, worker);
  return worker.logprobs.value(0);
}

void RowResults::write_reports(const MergedRow& row, std::int64_t output, std::size_t first_token,
                               const std::vector<KnownToken>& largest, cpu::Worker& worker) const {
  const LogprobsResult& reports = result_.logprobs;
  if (!reports.given()) return;
  const std::int64_t samples = request_.num_samples;
  for (std::int64_t s = 0; s < samples && result_.tokens.given(); ++s) {
    const std::size_t t = first_token + static_cast<std::size_t>(s);
    const std::int64_t at = output * samples + s;
    if (reports.values.given()) {
      const KnownToken& token = row.tokens()[t];
      reports.values.data[at] =
          reported_value(row, rules_.reports_raw_values() ? token.raw : token.x, worker);
    }
    if (reports.ranks.given()) reports.ranks.data[at] = row.ranks()[t];
  }
  for (std::int64_t i = 0; i < reports.top_n; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const bool there = place < largest.size();
    const std::int64_t at = output * reports.top_n + i;
    if (reports.top_ids.given()) reports.top_ids.data[at] = there ? largest[place].id : -1;
    if (reports.top_values.given()) {
      reports.top_values.data[at] = there ? reported_value(row, largest[place].x, worker) : kNone;
    }
  }
}

// --- Columns -------------------------------------------------------------------------------------

void RowResults::write_columns(const MergedRow& row, ShardRow& shard, cpu::Worker& worker) const {
  if (result_.mask.given()) {
    shard.write_mask(row, result_.mask.data + row_ * result_.mask.row_stride);
  }
  if (result_.probs.given()) {
    shard.write_probabilities(row, result_.probs.data + row_ * result_.probs.row_stride);
  }
  if (!result_.logprobs.all.given()) return;
  const auto n = static_cast<std::size_t>(request_.logits.vocab);
  const float* x = is_raw(rules_.mode) ? shard.raw_values() : shard.values();
  begin_reports(row, x, n, worker);
  float* values = result_.logprobs.all.data + row_ * result_.logprobs.all.row_stride;
  worker.logprobs.write_all(values);
  if (is_raw(rules_.mode)) return;
  for (std::size_t i = shard.ids_in_front(row.tie_end()); i < n; ++i) {
    if (x[i] == row.low()) values[i] = kNone;
  }
}

}  // namespace fairdraw::sharded
