// Checks of a call's arguments, the same for every backend: no error, or one that names the
// field, its value and the allowed range. They read no array, so they hold for device memory too.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "fairdraw/limits.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/tile_index.h"

namespace fairdraw {

/// Words of a row of bits.
constexpr std::int64_t words_of(std::int64_t vocab) { return (vocab + 31) / 32; }

/// Bytes of a value.
constexpr std::int64_t bytes_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

/// a * b of two counts, and the largest int64 where it does not fit: then it is no array's length.
constexpr std::int64_t product_of(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (a <= 0 || b <= 0) return 0;
  return a > kMost / b ? kMost : a * b;
}

/// Outputs of a call: one a row, or one an index.
std::int64_t outputs_of(const SampleRequest& request);

Error out_of_range(const std::string& field, const std::string& value, const std::string& range);
Error check_rows(const RowsView& rows, const std::string& name);
Error check_length(const std::string& name, std::int64_t length, std::int64_t expected,
                   const std::string& meaning);
/// A matrix of `rows` rows (at most 2^32) that are `stride` values of `value_bytes` apart: rows do
/// not overlap, and the matrix ends within kMaxArrayBytes, so that no place in it overflows.
Error check_stride(const std::string& name, std::int64_t stride, std::int64_t smallest,
                   const std::string& meaning, std::int64_t rows, std::int64_t value_bytes);
/// A matrix, one row a row of logits; of words of bits or of float32, if not said otherwise.
Error check_matrix(const std::string& name, std::int64_t rows, std::int64_t stride,
                   std::int64_t expected_rows, std::int64_t smallest_stride,
                   const std::string& stride_meaning, std::int64_t value_bytes = 4);
/// An array of `size` values without a stride: 0 or more of them, within kMaxArrayBytes.
Error check_size(const std::string& name, std::int64_t size, std::int64_t value_bytes);

/// An array of a given length.
template <class T>
Error check_array(const View<T>& view, const std::string& name, std::int64_t expected,
                  const std::string& meaning) {
  if (Error error = check_length(name, view.size, expected, meaning)) return error;
  return check_size("length of " + name, view.size, sizeof(T));
}

/// Checks an array of one value a row (or output) by its length; a scalar always passes.
template <class T>
Error check_per_request(const PerRequest<T>& parameter, const std::string& name,
                        std::int64_t expected, const std::string& meaning) {
  if (!parameter.is_array()) return {};
  return check_array(parameter.values, name, expected, meaning);
}

/// An array that is needed must be there, and have the right length.
template <class T>
Error check_needed(const View<T>& view, const std::string& name, std::int64_t expected,
                   const std::string& meaning) {
  if (!view.given() && expected > 0) return out_of_range(name, "null", "an array");
  return check_array(view, name, expected, meaning);
}

/// An optional array must be absent or have the right length.
template <class T>
Error check_optional(const View<T>& view, const std::string& name, std::int64_t expected,
                     const std::string& meaning) {
  if (!view.given()) return {};
  return check_array(view, name, expected, meaning);
}

/// Lists must be absent altogether, or have a begin and a length for each row.
Error check_token_lists(const TokenLists& lists, const std::string& name, std::int64_t rows,
                        const std::string& meaning);

// Whole calls. `rows_name` is what errors call `request.logits`.

Error check_request(const SampleRequest& request, const std::string& rows_name);

Error check_processing(const LogitsProcessing& processing, std::int64_t rows, std::int64_t vocab);

Error check_process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result);

/// Tokens may be left out when the caller wants masks or probabilities only.
Error check_result(const SampleRequest& request, const SampleResult& result, bool wants_tokens);

Error check_logprobs(const SampleRequest& request, const LogprobsResult& result);

/// A request as raw modes of log_probabilities see it: nothing to process, nothing to filter.
void remove_filters(SampleRequest& request);
/// Of a request that is checked: one token a sample of each output.
Error check_token_ids(const SampleRequest& request, const View<const std::int32_t>& token_ids);

/// The matrix that softmax and the renormalisations write.
Error check_renormalised(const FloatRows& renormalised, std::int64_t rows);

Error check_top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k,
                              const void* masked, std::int64_t masked_row_stride,
                              const View<RowStatus>& statuses);

Error check_tile_index(const TileIndexRequest& request, const TileIndexResult& result);

}  // namespace fairdraw
