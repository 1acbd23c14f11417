// A batch of rows: rows in parallel, results of each output.
#pragma once

#include <cstdint>
#include <functional>

#include "fairdraw/sample.h"
#include "row_reader.h"
#include "row_sampler.h"

namespace fairdraw::cpu {

/// What one thread works with. Its buffers are kept between calls.
struct Worker {
  const Passes* passes = nullptr;
  RowReader reader;
  RowSampler sampler;
};

/// Calls `work` for every row in [0, rows), in parallel, with round-to-nearest and subnormals
/// whatever the caller had set. Rows are handed out one by one, because their costs differ.
void for_each_row(std::int64_t rows, const Execution& execution,
                  const std::function<void(std::int64_t row, Worker& worker)>& work);

/// Reads row `row` of the request's logits with its bans, and filters it with `parameters`, those
/// of the request that the row belongs to: worker.sampler has the row's law where the status is ok.
RowStatus filter_row(const SampleRequest& request, std::int64_t row,
                     const RowParameters& parameters, const FilterOptions& options, Worker& worker);

/// The operations that `sample` and its relatives share. `rows_name` is what errors call
/// `request.logits`. Tokens may be left out when the caller wants masks or probabilities only.
Error run_batch(const SampleRequest& request, const SampleResult& result,
                const Execution& execution, const char* rows_name, const FilterOptions& options,
                bool wants_tokens);

/// The check of what only the CPU path takes; the others are in kernels/common/arguments.h.
Error check_execution(const Execution& execution);

}  // namespace fairdraw::cpu
