// Batch of rows: computes the rows in parallel, and writes the results of each output.
#pragma once

#include <cstdint>
#include <functional>

#include "cpu/indexed_row.h"
#include "cpu/row_logprobs.h"
#include "cpu/row_reader.h"
#include "fairdraw/sample.h"

namespace fairdraw::cpu {

/// State of one thread that computes rows of a batch. The buffers of a thread are kept between
/// calls.
struct Worker {
  const Passes* passes = nullptr;
  const TilePasses* tile_passes = nullptr;
  RowReader reader;
  IndexedRow sampler;
  RowReader raw_reader;  ///< reader for the caller's row, if processing or bans have changed the
                         ///< row in `reader`
  RowLogprobs logprobs;
};

/// Calls `work` for every row in [0, rows), in parallel, with round-to-nearest and subnormal
/// numbers, whatever floating-point settings the caller has. Each thread takes one row after
/// another, because the costs of rows differ.
void for_each_row(std::int64_t rows, const Execution& execution,
                  const std::function<void(std::int64_t row, Worker& worker)>& work);

/// Reads row `logit_row` of the logits, applies the processing and the bans of the request's row
/// `row`, and filters the result with `parameters`. If the status is ok, worker.sampler has the
/// distribution of the row, and `values` points to the filtered row.
RowStatus filter_row(const SampleRequest& request, std::int64_t row, std::int64_t logit_row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker,
                     const float*& values);
/// Filters row `row` of the logits with the parameters of the request itself.
RowStatus filter_row(const SampleRequest& request, std::int64_t row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker);

/// Callback for each row whose filters have run and from which some output draws; returns the row's
/// status.
using RowSurvivors = std::function<RowStatus(std::int64_t row, IndexedRow& sampler)>;

/// Runs the operation that `sample` and related functions share. Each row has the tie rule and the
/// filter order of the request, whatever `options` say. Error messages use the name `rows_name` for
/// `request.logits`. The array of tokens may be absent if the caller wants only masks or
/// probabilities. The tokens `given_tokens` [outputs, num_samples] take the place of drawn tokens,
/// so that their log-probabilities are reported. If `logit_rows` [rows] is given, the values of row
/// i are read from row logit_rows[i], which is not checked. The function `survivors` is called for
/// each row whose status is ok.
Error run_batch(const SampleRequest& request, const SampleResult& result,
                const Execution& execution, const char* rows_name, const FilterOptions& options,
                bool wants_tokens, View<const std::int32_t> given_tokens = {},
                const std::int64_t* logit_rows = nullptr, const RowSurvivors* survivors = nullptr);

/// Checks the arguments that only the CPU path has; kernels/common/arguments.h checks all others.
Error check_execution(const Execution& execution);

}  // namespace fairdraw::cpu
