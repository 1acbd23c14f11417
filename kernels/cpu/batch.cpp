#include "cpu/batch.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "common/arguments.h"
#include "common/dynamic_temperature.h"
#include "common/processing_rules.h"
#include "common/proposals.h"
#include "cpu/batch_logprobs.h"
#include "cpu/float_environment.h"
#include "cpu/outputs_by_row.h"

namespace fairdraw::cpu {
namespace {

/// Single call of the batch engine: the request, its results, and the outputs of each row.
struct Batch {
  const SampleRequest& request;
  const SampleResult& result;
  FilterOptions options;
  bool wants_tokens;
  View<const std::int32_t> given_tokens;  // tokens for which values are reported instead of drawn
                                          // tokens, if given
  BatchLogprobs logprobs;
  OutputsByRow grouped;
  const std::int64_t* logit_rows;  // row of the logits for each row of the call; null means that
                                   // row i of the call is row i of the logits
  const RowSurvivors* survivors;   // may be null

  /// Returns whether the only outputs are drawn tokens, so that no output needs the set of
  /// survivors. A callback that lists survivors finds them itself.
  bool asks_for_draws_alone() const {
    const bool asks_survivors = result.support_size.given() || result.logprob_filtered.given() ||
                                result.mask.given() || result.probs.given() ||
                                (result.logprobs.given() && !is_raw(result.logprobs.mode));
    return wants_tokens && !given_tokens.given() && !asks_survivors;
  }

  std::int64_t row_of_logits(std::int64_t row) const {
    return logit_rows == nullptr ? row : logit_rows[row];
  }

  void write_failure(std::int64_t output, RowStatus status) const {
    const std::int64_t samples = request.num_samples;
    const float none = -std::numeric_limits<float>::infinity();
    if (wants_tokens) std::fill_n(result.tokens.data + output * samples, samples, -1);
    if (result.statuses.given()) result.statuses.data[output] = status;
    if (result.support_size.given()) result.support_size.data[output] = 0;
    if (result.logprob.given()) std::fill_n(result.logprob.data + output * samples, samples, none);
    if (result.logprob_filtered.given()) {
      std::fill_n(result.logprob_filtered.data + output * samples, samples, none);
    }
    logprobs.write_failed_output(output);
  }

  void write_output(std::int64_t output, IndexedRow& sampler) const {
    const std::int64_t samples = request.num_samples;
    if (result.statuses.given()) result.statuses.data[output] = RowStatus::ok;
    if (result.support_size.given()) {
      result.support_size.data[output] = static_cast<std::int32_t>(sampler.support_size());
    }
    if (!wants_tokens) return;
    const std::uint64_t seed = request.seed.at(output);
    const std::uint64_t offset = request.offset.at(output);
    for (std::int64_t s = 0; s < samples; ++s) {
      const std::int64_t at = output * samples + s;
      const auto index = static_cast<std::uint32_t>(request.seed.is_array() ? s : at);
      const std::int32_t token = sampler.draw(DrawWords{seed, offset, request.purpose, index});
      result.tokens.data[at] = token;
      if (result.logprob.given()) result.logprob.data[at] = sampler.logprob(token);
      if (result.logprob_filtered.given()) {
        result.logprob_filtered.data[at] = sampler.logprob_filtered(token);
      }
    }
  }

  /// Writes the log-probabilities of the tokens of an output. Precondition: begin_row() has run for
  /// the row of the output.
  void write_logprobs(std::int64_t output, Worker& worker) const {
    const std::int64_t samples = request.num_samples;
    if (!given_tokens.given()) {
      logprobs.write_output(output, result.tokens.data + output * samples, worker);
      return;
    }
    const std::int32_t* tokens = given_tokens.data + output * samples;
    const std::int64_t vocab = request.logits.vocab;
    const bool known = std::all_of(tokens, tokens + samples, [vocab](std::int32_t token) {
      return token >= 0 && token < vocab;
    });
    known ? logprobs.write_output(output, tokens, worker)
          : write_failure(output, RowStatus::index_out_of_range);
  }

  void run_row(std::int64_t row, Worker& worker) const {
    const std::int64_t first = 0;
    const std::int64_t last = grouped.count(row);
    const auto output_at = [&](std::int64_t i) { return grouped.at(row, i); };
    if (request.active.given() && request.active.data[row] == 0) {
      for (std::int64_t i = first; i < last; ++i) write_failure(output_at(i), RowStatus::inactive);
      return;
    }
    const bool wants_row =
        result.mask.given() || result.probs.given() || result.logprobs.all.given();
    if (first == last && !wants_row) return;
    const float* values = nullptr;
    const RowParameters parameters{request.temperature.at(row), request.top_k.at(row),
                                   request.top_p.at(row), request.min_p.at(row)};
    FilterOptions of_row = options;
    of_row.tie_rule = request.tie_rule.at(row);
    of_row.filter_order = request.filter_order.at(row);
    RowStatus status =
        filter_row(request, row, row_of_logits(row), parameters, of_row, worker, values);
    if (status == RowStatus::ok && survivors != nullptr && first != last) {
      status = (*survivors)(row, worker.sampler);
    }
    const bool ok = status == RowStatus::ok;
    for (std::int64_t i = first; i < last; ++i) {
      ok ? write_output(output_at(i), worker.sampler) : write_failure(output_at(i), status);
    }
    if (result.logprobs.given() || given_tokens.given()) {
      if (ok) {
        logprobs.begin_row(row_of_logits(row), values,
                           request.allowed.given() || request.processing.given(), worker);
        for (std::int64_t i = first; i < last; ++i) write_logprobs(output_at(i), worker);
        logprobs.write_row(row, worker);
      } else {
        logprobs.write_failed_row(row);
      }
    }
    const std::int64_t vocab = request.logits.vocab;
    if (result.mask.given()) {
      std::uint32_t* words = result.mask.data + row * result.mask.row_stride;
      ok ? worker.sampler.write_mask(words)
         : static_cast<void>(std::fill_n(words, words_of(vocab), 0U));
    }
    if (result.probs.given()) {
      float* probs = result.probs.data + row * result.probs.row_stride;
      ok ? worker.sampler.write_probabilities(probs)
         : static_cast<void>(std::fill_n(probs, vocab, 0.0F));
    }
  }
};

}  // namespace

void for_each_row(std::int64_t rows, const Execution& execution,
                  const std::function<void(std::int64_t, Worker&)>& work) {
  const CpuTarget target = execution.target == CpuTarget::best ? best_target() : execution.target;
  const int most =
      execution.threads > 0 ? execution.threads : std::min(omp_get_max_threads(), kMaxThreads);
  const int threads = static_cast<int>(std::clamp<std::int64_t>(rows, 1, most));
  const auto run = [&](std::int64_t row) {
    thread_local Worker worker;
    const FloatEnvironment environment;
    worker.passes = &passes_for(target);
    worker.tile_passes = &tile_passes_for(target);
    worker.sampler.use(target);
    worker.logprobs.use(*worker.passes, *worker.tile_passes);
    work(row, worker);
  };
  if (threads == 1) {
    for (std::int64_t row = 0; row < rows; ++row) run(row);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t row = 0; row < rows; ++row) run(row);
}

RowStatus filter_row(const SampleRequest& request, std::int64_t row, std::int64_t logit_row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker,
                     const float*& values) {
  RowStatus status = check(parameters, options.tie_rule, options.filter_order);
  if (status == RowStatus::ok) status = check(parameters_of(request.processing, row));
  if (status != RowStatus::ok) return status;
  RowParameters now = parameters;
  now.top_p = top_p_now(request.processing, row, parameters.top_p);
  const std::uint32_t* allowed =
      request.allowed.given() ? request.allowed.data + row * request.allowed.row_stride : nullptr;
  const RowsView& logits = request.logits;
  values = request.processing.given()
               ? worker.reader.read_processed(*worker.passes, logits, logit_row, request.processing,
                                              row, allowed, status)
               : worker.reader.read(*worker.passes, logits, logit_row, allowed, options.from_probs,
                                    status);
  if (status != RowStatus::ok) return status;
  if (follows_entropy(request.processing)) {
    now.temperature = worker.reader.temperature_now(parameters.temperature);
  }
  return worker.sampler.filter(values, static_cast<std::size_t>(logits.vocab), now, options);
}

RowStatus filter_row(const SampleRequest& request, std::int64_t row,
                     const RowParameters& parameters, const FilterOptions& options,
                     Worker& worker) {
  const float* values = nullptr;
  return filter_row(request, row, row, parameters, options, worker, values);
}

Error run_batch(const SampleRequest& request, const SampleResult& result,
                const Execution& execution, const char* rows_name, const FilterOptions& options,
                bool wants_tokens, View<const std::int32_t> given_tokens,
                const std::int64_t* logit_rows, const RowSurvivors* survivors) {
  if (Error error = check_execution(execution)) return error;
  if (Error error = check_request(request, rows_name)) return error;
  if (Error error = check_result(request, result, wants_tokens)) return error;
  if (Error error = check_logprobs(request, result.logprobs)) return error;

  Batch batch{request,
              result,
              options,
              wants_tokens,
              given_tokens,
              {request, result.logprobs},
              OutputsByRow(request),
              logit_rows,
              survivors};
  batch.options.draws_alone = batch.asks_for_draws_alone();
  if (request.indices.given()) {
    for (std::int64_t i = 0; i < request.indices.size; ++i) {
      const std::int32_t row = request.indices.data[i];
      if (row < 0 || row >= request.logits.rows) {
        batch.write_failure(i, RowStatus::index_out_of_range);
      }
    }
  }
  for_each_row(request.logits.rows, execution,
               [&batch](std::int64_t row, Worker& worker) { batch.run_row(row, worker); });
  return {};
}

Error check_execution(const Execution& execution) {
  if (execution.threads < 0 || execution.threads > kMaxThreads) {
    return out_of_range("threads", std::to_string(execution.threads),
                        "0 to " + std::to_string(kMaxThreads) + " (0: as OpenMP takes)");
  }
  if (static_cast<std::uint32_t>(execution.target) > 4) {
    return out_of_range("target", std::to_string(static_cast<std::uint32_t>(execution.target)),
                        "0 (best), 1 (scalar), 2 (avx2), 3 (avx512) or 4 (neon)");
  }
  if (!is_available(execution.target)) {
    std::string known;
    for (const CpuTarget target : {CpuTarget::best, CpuTarget::scalar, CpuTarget::avx2,
                                   CpuTarget::avx512, CpuTarget::neon}) {
      if (is_available(target)) known += std::string(known.empty() ? "" : ", ") + to_string(target);
    }
    return {ErrorCode::unsupported,
            std::string("target is ") + to_string(execution.target) + "; available here: " + known};
  }
  return {};
}

}  // namespace fairdraw::cpu
