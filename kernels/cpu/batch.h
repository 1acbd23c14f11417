// A batch of rows: rows in parallel, results of each output.
#pragma once

#include <cstdint>
#include <functional>

#include "cpu/indexed_row.h"
#include "cpu/row_logprobs.h"
#include "cpu/row_reader.h"
#include "fairdraw/sample.h"

namespace fairdraw::cpu {

/// What one thread works with. Its buffers are kept between calls.
struct Worker {
  const Passes* passes = nullptr;
  const TilePasses* tile_passes = nullptr;
  RowReader reader;
  IndexedRow sampler;
  RowReader raw_reader;  ///< of rows that processing or bans changed in `reader`
  RowLogprobs logprobs;
};

/// Calls `work` for every row in [0, rows), in parallel, with round-to-nearest and subnormals
/// whatever the caller had set. Rows are handed out one by one, because their costs differ.
void for_each_row(std::int64_t rows, const Execution& execution,
                  const std::function<void(std::int64_t row, Worker& worker)>& work);

/// The rules of a call of `sample`.
inline FilterOptions filter_options_of(const SampleRequest& request) {
  FilterOptions options;
  options.tie_rule = request.tie_rule;
  options.filter_order = request.filter_order;
  return options;
}

/// Reads row `logit_row` of the request's logits, processed and with the bans of row `row`, and
/// filters it with `parameters`, those of the request that the row belongs to: where the status is
/// ok worker.sampler has the row's distribution, and `values` is the row that was filtered.
RowStatus filter_row(const SampleRequest& request, std::int64_t row, std::int64_t logit_row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker,
                     const float*& values);
/// The same of the logits' own row.
RowStatus filter_row(const SampleRequest& request, std::int64_t row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker);

/// What is done with a row whose filters ran and that some output draws from.
using RowSurvivors = std::function<void(std::int64_t row, IndexedRow& sampler)>;

/// The operations that `sample` and its relatives share. `rows_name` is what errors call
/// `request.logits`. Tokens may be left out when the caller wants masks or probabilities only.
/// `given_tokens`, [outputs, num_samples], replace those that would be drawn: their
/// log-probabilities are reported. With `logit_rows` [rows] the values of row i are read at row
/// logit_rows[i], which is not checked. `survivors` is called for each row that is ok.
Error run_batch(const SampleRequest& request, const SampleResult& result,
                const Execution& execution, const char* rows_name, const FilterOptions& options,
                bool wants_tokens, View<const std::int32_t> given_tokens = {},
                const std::int64_t* logit_rows = nullptr, const RowSurvivors* survivors = nullptr);

/// The check of what only the CPU path takes; the others are in kernels/common/arguments.h.
Error check_execution(const Execution& execution);

}  // namespace fairdraw::cpu
