// Checks of the arguments of a call, which are the same for every backend. Each check returns no
// error, or an error that names the field, its value and the allowed range. The checks read no
// array, so they also accept arrays in device memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include "fairdraw/limits.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"
#include "fairdraw/tile_index.h"

namespace fairdraw {

/// Returns the number of 32-bit words in a row of bits.
constexpr std::int64_t words_of(std::int64_t vocab) { return (vocab + 31) / 32; }

/// Size of a value.
constexpr std::int64_t bytes_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

/// Returns the product of two counts, or the largest int64 if the product overflows; no array can
/// have that length.
constexpr std::int64_t product_of(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (a <= 0 || b <= 0) return 0;
  return a > kMax / b ? kMax : a * b;
}

/// Returns the number of outputs of a call: one per index if the caller gives indices, and
/// otherwise one per row.
std::int64_t outputs_of(const SampleRequest& request);

Error out_of_range(const std::string& field, const std::string& value, const std::string& range);

/// Returns the value as text with nine digits, which is different for any two floats.
std::string text_of(float value);
template <std::integral T>
std::string text_of(T value) {
  return std::to_string(value);
}
Error check_rows(const RowsView& rows, const std::string& name);
Error check_length(const std::string& name, std::int64_t length, std::int64_t expected,
                   const std::string& meaning);
/// Checks the stride of a matrix of `rows` rows (at most 2^32), whose rows are `stride` values of
/// `value_bytes` bytes apart. Rows of the matrix must not overlap, and the matrix must end within
/// kMaxArrayBytes, so that no offset in it overflows.
Error check_stride(const std::string& name, std::int64_t stride, std::int64_t smallest,
                   const std::string& meaning, std::int64_t rows, std::int64_t value_bytes);
/// Checks a matrix with one row per row of logits; by default, the values have 4 bytes (words of
/// bits or float32).
Error check_matrix(const std::string& name, std::int64_t rows, std::int64_t stride,
                   std::int64_t expected_rows, std::int64_t smallest_stride,
                   const std::string& stride_meaning, std::int64_t value_bytes = 4);
/// Checks the size of an array without a stride, which must have at least 0 values and fit into
/// kMaxArrayBytes.
Error check_size(const std::string& name, std::int64_t size, std::int64_t value_bytes);

/// Checks that an array has the expected length.
template <class T>
Error check_array(const View<T>& view, const std::string& name, std::int64_t expected,
                  const std::string& meaning) {
  if (Error error = check_length(name, view.size, expected, meaning)) return error;
  return check_size("length of " + name, view.size, sizeof(T));
}

/// Checks the length of an array with one value per row or per output; a scalar always passes.
template <class T>
Error check_per_request(const PerRequest<T>& parameter, const std::string& name,
                        std::int64_t expected, const std::string& meaning) {
  if (!parameter.is_array()) return {};
  return check_array(parameter.values, name, expected, meaning);
}

/// Checks that an array that the call requires is given and has the right length.
template <class T>
Error check_needed(const View<T>& view, const std::string& name, std::int64_t expected,
                   const std::string& meaning) {
  if (!view.given() && expected > 0) return out_of_range(name, "null", "an array");
  return check_array(view, name, expected, meaning);
}

/// Checks that an optional array is either absent or has the right length.
template <class T>
Error check_optional(const View<T>& view, const std::string& name, std::int64_t expected,
                     const std::string& meaning) {
  if (!view.given()) return {};
  return check_array(view, name, expected, meaning);
}

/// Checks that the lists are either absent for all rows, or have a begin and a length for each row.
Error check_token_lists(const TokenLists& lists, const std::string& name, std::int64_t rows,
                        const std::string& meaning);

// The following functions check the arguments of whole calls. Error messages use the name
// `rows_name` for `request.logits`.

Error check_request(const SampleRequest& request, const std::string& rows_name);

Error check_processing(const LogitsProcessing& processing, std::int64_t rows, std::int64_t vocab);

Error check_process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result);

/// Checks the results. The array of tokens may be absent if the caller wants only masks or
/// probabilities.
Error check_result(const SampleRequest& request, const SampleResult& result, bool wants_tokens);

Error check_logprobs(const SampleRequest& request, const LogprobsResult& result);

/// Removes logits processing and filters from a request, for the raw modes of log_probabilities.
void remove_filters(SampleRequest& request);
/// Checks that the caller gives one token for each sample of each output. Precondition: the request
/// has already been checked.
Error check_token_ids(const SampleRequest& request, const View<const std::int32_t>& token_ids);

/// Checks the matrix to which softmax and the renormalisations write.
Error check_renormalised(const FloatRows& renormalised, std::int64_t rows);

Error check_top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k,
                              const void* masked, std::int64_t masked_row_stride,
                              const View<RowStatus>& statuses);

Error check_tile_index(const TileIndexRequest& request, const TileIndexResult& result);

}  // namespace fairdraw
