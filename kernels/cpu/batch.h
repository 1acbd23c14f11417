// A batch of rows: checks of a call's arguments, rows in parallel, results of each output.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

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

/// The operations that `sample` and its relatives share. `rows_name` is what errors call
/// `request.logits`. Tokens may be left out when the caller wants masks or probabilities only.
Error run_batch(const SampleRequest& request, const SampleResult& result,
                const Execution& execution, const char* rows_name, const FilterOptions& options,
                bool wants_tokens);

// Checks of arguments: no error, or one that names the field, its value and the range.
Error out_of_range(const std::string& field, const std::string& value, const std::string& range);
Error check_rows(const RowsView& rows, const std::string& name);
Error check_length(const std::string& name, std::int64_t length, std::int64_t expected,
                   const std::string& meaning);
Error check_stride(const std::string& name, std::int64_t stride, std::int64_t smallest,
                   const std::string& meaning);
Error check_execution(const Execution& execution);

/// Checks an array of one value a row (or output) by its length; a scalar always passes.
template <class T>
Error check_per_request(const PerRequest<T>& parameter, const std::string& name,
                        std::int64_t expected, const std::string& meaning) {
  if (!parameter.is_array()) return {};
  return check_length(name, parameter.values.size, expected, meaning);
}

/// An optional array must be absent or have the right length.
template <class T>
Error check_optional(const View<T>& view, const std::string& name, std::int64_t expected,
                     const std::string& meaning) {
  if (!view.given()) return {};
  return check_length(name, view.size, expected, meaning);
}

}  // namespace fairdraw::cpu
