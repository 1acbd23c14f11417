#include "common/arguments.h"

#include <array>
#include <cstdio>
#include <limits>

namespace fairdraw {
namespace {

Error check_allowed(const BitRows<const std::uint32_t>& allowed, std::int64_t rows,
                    std::int64_t words) {
  if (!allowed.given()) return {};
  return check_matrix("allowed", allowed.rows, allowed.row_stride, rows, words,
                      "words of a row, ceil(vocab / 32)");
}

/// Checks a choice between two rules, with the values 0 and 1. If the choice is an array with one
/// rule per row, only the length of the array is checked, and each row checks its own rule later.
template <class Rule>
Error check_rule(const PerRequest<Rule>& rule, const std::string& name, std::int64_t rows,
                 const char* range) {
  if (rule.is_array()) return check_per_request(rule, name, rows, "one per row");
  const auto value = static_cast<std::uint32_t>(rule.scalar);
  return value <= 1 ? Error{} : out_of_range(name, std::to_string(value), range);
}

/// Checks a matrix that has one value per tile.
template <class T>
Error check_tiles(const TileRows<T>& tiles, const std::string& name, const RowsView& rows) {
  if (!tiles.given() && rows.rows > 0) return out_of_range(name, "null", "a matrix");
  return check_matrix(name, tiles.rows, tiles.row_stride, rows.rows, tiles_of(rows.vocab),
                      "tiles of a row, ceil(vocab / 256)", sizeof(T));
}

}  // namespace

std::int64_t outputs_of(const SampleRequest& request) {
  return request.indices.given() ? request.indices.size : request.logits.rows;
}

std::string text_of(float value) {
  std::array<char, 32> text{};
  static_cast<void>(std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(value)));
  return text.data();
}

Error out_of_range(const std::string& field, const std::string& value, const std::string& range) {
  return {ErrorCode::invalid_argument, field + " is " + value + "; allowed: " + range};
}

Error check_length(const std::string& name, std::int64_t length, std::int64_t expected,
                   const std::string& meaning) {
  if (length == expected) return {};
  return out_of_range("length of " + name, std::to_string(length),
                      std::to_string(expected) + " (" + meaning + ")");
}

Error check_stride(const std::string& name, std::int64_t stride, std::int64_t smallest,
                   const std::string& meaning, std::int64_t rows, std::int64_t value_bytes) {
  if (stride < smallest) {
    return out_of_range(name, std::to_string(stride),
                        ">= " + std::to_string(smallest) + " (" + meaning + ")");
  }
  if (rows <= 0 || stride <= kMaxArrayBytes / (rows * value_bytes)) return {};
  return out_of_range(name, std::to_string(stride),
                      std::to_string(smallest) + " (" + meaning + ") to " +
                          std::to_string(kMaxArrayBytes / (rows * value_bytes)) + " (" +
                          std::to_string(rows) + " rows of values of " +
                          std::to_string(value_bytes) + " bytes span at most 2^48 bytes)");
}

Error check_matrix(const std::string& name, std::int64_t rows, std::int64_t stride,
                   std::int64_t expected_rows, std::int64_t smallest_stride,
                   const std::string& stride_meaning, std::int64_t value_bytes) {
  if (Error error = check_length(name + ".rows", rows, expected_rows, "one per row of logits")) {
    return error;
  }
  return check_stride(name + ".row_stride", stride, smallest_stride, stride_meaning, rows,
                      value_bytes);
}

Error check_size(const std::string& name, std::int64_t size, std::int64_t value_bytes) {
  if (size < 0) return out_of_range(name, std::to_string(size), ">= 0");
  if (size <= kMaxArrayBytes / value_bytes) return {};
  return out_of_range(name, std::to_string(size),
                      "0 to " + std::to_string(kMaxArrayBytes / value_bytes) + " (values of " +
                          std::to_string(value_bytes) + " bytes span at most 2^48 bytes)");
}

Error check_rows(const RowsView& rows, const std::string& name) {
  if (rows.vocab < 1 || rows.vocab > kMaxVocab) {
    return out_of_range(name + ".vocab", std::to_string(rows.vocab),
                        "1 to " + std::to_string(kMaxVocab));
  }
  if (rows.rows < 0 || rows.rows > std::numeric_limits<std::int32_t>::max()) {
    return out_of_range(name + ".rows", std::to_string(rows.rows), "0 to 2^31 - 1");
  }
  if (static_cast<std::uint32_t>(rows.dtype) > 2) {
    return out_of_range(name + ".dtype", std::to_string(static_cast<std::uint32_t>(rows.dtype)),
                        "0 (float32), 1 (float16) or 2 (bfloat16)");
  }
  if (rows.data == nullptr && rows.rows > 0) {
    return out_of_range(name + ".data", "null", "a pointer to rows of values");
  }
  return check_stride(name + ".row_stride", rows.row_stride, rows.vocab, "vocab", rows.rows,
                      bytes_of(rows.dtype));
}

Error check_request(const SampleRequest& request, const std::string& rows_name) {
  if (Error error = check_rows(request.logits, rows_name)) return error;
  const std::int64_t rows = request.logits.rows;
  const std::int64_t outputs = outputs_of(request);
  const std::int64_t words = words_of(request.logits.vocab);
  const char* a_row = "one per row";
  const char* an_output = "one per output";
  if (Error e = check_per_request(request.temperature, "temperature", rows, a_row)) return e;
  if (Error e = check_per_request(request.top_k, "top_k", rows, a_row)) return e;
  if (Error e = check_per_request(request.top_p, "top_p", rows, a_row)) return e;
  if (Error e = check_per_request(request.min_p, "min_p", rows, a_row)) return e;
  if (Error e = check_per_request(request.seed, "seed", outputs, an_output)) return e;
  if (Error e = check_per_request(request.offset, "offset", outputs, an_output)) return e;
  if (Error e = check_optional(request.active, "active", rows, a_row)) return e;
  if (Error e = check_size("indices.size", request.indices.size, sizeof(std::int32_t))) return e;
  if (request.num_samples < 1) {
    return out_of_range("num_samples", std::to_string(request.num_samples), ">= 1");
  }
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 32;  // the index in the counter has 32
                                                              // bits
  if (outputs > kMaxTokens / request.num_samples) {
    return out_of_range("outputs * num_samples",
                        std::to_string(outputs) + " * " + std::to_string(request.num_samples),
                        "<= 2^32");
  }
  if (Error e = check_rule(request.tie_rule, "tie_rule", rows, "0 (keep_all) or 1 (lowest_id)")) {
    return e;
  }
  if (Error e =
          check_rule(request.filter_order, "filter_order", rows, "0 (top_k_first) or 1 (joint)")) {
    return e;
  }
  if (static_cast<std::uint32_t>(request.purpose) > 4) {
    return out_of_range("purpose", std::to_string(static_cast<std::uint32_t>(request.purpose)),
                        "0 (draw), 1 (draft), 2 (accept), 3 (recover) or 4 (bonus)");
  }
  if (Error e = check_processing(request.processing, rows, request.logits.vocab)) return e;
  return check_allowed(request.allowed, rows, words);
}

Error check_process_logits(const ProcessLogitsRequest& request, const ProcessLogitsResult& result) {
  if (Error e = check_rows(request.logits, "logits")) return e;
  const std::int64_t rows = request.logits.rows;
  const std::int64_t vocab = request.logits.vocab;
  if (Error e = check_optional(request.active, "active", rows, "one per row")) return e;
  if (Error e = check_processing(request.processing, rows, vocab)) return e;
  if (Error e = check_allowed(request.allowed, rows, words_of(vocab))) return e;
  if (!result.processed.given() && rows > 0) {
    return out_of_range("processed", "null", "a matrix of float32");
  }
  if (Error e = check_optional(result.statuses, "statuses", rows, "one per row")) return e;
  return check_matrix("processed", result.processed.rows, result.processed.row_stride, rows, vocab,
                      "vocab");
}

Error check_tile_index(const TileIndexRequest& request, const TileIndexResult& result) {
  if (Error e = check_rows(request.rows, "rows")) return e;
  const std::int64_t rows = request.rows.rows;
  if (static_cast<std::uint32_t>(request.input) > 1) {
    return out_of_range("input", std::to_string(static_cast<std::uint32_t>(request.input)),
                        "0 (logits) or 1 (probs)");
  }
  if (Error e = check_per_request(request.temperature, "temperature", rows, "one per row")) {
    return e;
  }
  if (Error e = check_allowed(request.allowed, rows, words_of(request.rows.vocab))) return e;
  if (Error e = check_optional(request.active, "active", rows, "one per row")) return e;
  if (Error e = check_tiles(result.keys, "keys", request.rows)) return e;
  if (Error e = check_tiles(result.sums, "sums", request.rows)) return e;
  return check_optional(result.statuses, "statuses", rows, "one per row");
}

Error check_result(const SampleRequest& request, const SampleResult& result, bool wants_tokens) {
  const std::int64_t rows = request.logits.rows;
  const std::int64_t outputs = outputs_of(request);
  const std::int64_t tokens = outputs * request.num_samples;
  const char* a_token = "outputs * num_samples";
  const char* an_output = "one per output";
  if (wants_tokens) {
    if (Error e = check_needed(result.tokens, "tokens", tokens, a_token)) return e;
  }
  if (Error e = check_optional(result.statuses, "statuses", outputs, an_output)) return e;
  if (Error e = check_optional(result.support_size, "support_size", outputs, an_output)) return e;
  if (Error e = check_optional(result.logprob, "logprob", tokens, a_token)) return e;
  if (Error e = check_optional(result.logprob_filtered, "logprob_filtered", tokens, a_token)) {
    return e;
  }
  if (result.mask.given()) {
    if (Error e =
            check_matrix("mask", result.mask.rows, result.mask.row_stride, rows,
                         words_of(request.logits.vocab), "words of a row, ceil(vocab / 32)")) {
      return e;
    }
  }
  if (!result.probs.given()) return {};
  // An operation that writes only `probs` may write it over its input.
  return check_matrix(wants_tokens ? "probs" : "output", result.probs.rows, result.probs.row_stride,
                      rows, request.logits.vocab, "vocab");
}

Error check_logprobs(const SampleRequest& request, const LogprobsResult& result) {
  const std::int64_t outputs = outputs_of(request);
  const std::int64_t tokens = outputs * request.num_samples;
  const std::int64_t entries = outputs * result.top_n;
  if (static_cast<std::uint32_t>(result.mode) > 3) {
    return out_of_range("logprobs.mode", std::to_string(static_cast<std::uint32_t>(result.mode)),
                        "0 (raw_logits), 1 (raw_logprobs), 2 (processed_logits) or "
                        "3 (processed_logprobs)");
  }
  if (static_cast<std::uint32_t>(result.rank_rule) > 1) {
    return out_of_range("logprobs.rank_rule",
                        std::to_string(static_cast<std::uint32_t>(result.rank_rule)),
                        "0 (position) or 1 (at_least)");
  }
  if (result.top_n < 0 || result.top_n > kLargestTopN) {
    return out_of_range("logprobs.top_n", std::to_string(result.top_n),
                        "0 to " + std::to_string(kLargestTopN));
  }
  if (result.top_n > 0 && entries > 0 && !result.top_ids.given()) {
    return out_of_range("logprobs.top_ids", "null", "an array, where top_n is above 0");
  }
  const char* a_token = "outputs * num_samples";
  const char* an_entry = "outputs * top_n";
  if (Error e = check_optional(result.values, "logprobs.values", tokens, a_token)) return e;
  if (Error e = check_optional(result.ranks, "logprobs.ranks", tokens, a_token)) return e;
  if (Error e = check_optional(result.top_ids, "logprobs.top_ids", entries, an_entry)) return e;
  if (Error e = check_optional(result.top_values, "logprobs.top_values", entries, an_entry)) {
    return e;
  }
  if (!result.all.given()) return {};
  return check_matrix("logprobs.all", result.all.rows, result.all.row_stride, request.logits.rows,
                      request.logits.vocab, "vocab");
}

void remove_filters(SampleRequest& request) {
  request.processing = {};
  request.allowed = {};
  request.temperature = 1.0F;
  request.top_k = 0;
  request.top_p = 1.0F;
  request.min_p = 0.0F;
  request.tie_rule = TieRule::keep_all;
  request.filter_order = FilterOrder::top_k_first;
}

Error check_token_ids(const SampleRequest& request, const View<const std::int32_t>& token_ids) {
  return check_needed(token_ids, "token_ids", outputs_of(request) * request.num_samples,
                      "outputs * num_samples");
}

Error check_renormalised(const FloatRows& renormalised, std::int64_t rows) {
  if (renormalised.given() || rows <= 0) return {};
  return out_of_range("output", "null", "a matrix of float32");
}

Error check_top_k_mask_logits(const RowsView& logits, const PerRequest<std::int32_t>& top_k,
                              const void* masked, std::int64_t masked_row_stride,
                              const View<RowStatus>& statuses) {
  if (Error error = check_rows(logits, "logits")) return error;
  if (Error error = check_per_request(top_k, "top_k", logits.rows, "one per row")) return error;
  if (Error error = check_optional(statuses, "statuses", logits.rows, "one per row")) return error;
  if (Error error = check_stride("masked_row_stride", masked_row_stride, logits.vocab, "vocab",
                                 logits.rows, bytes_of(logits.dtype))) {
    return error;
  }
  if (masked == nullptr && logits.rows > 0) {
    return out_of_range("masked", "null", "a matrix of the dtype of logits");
  }
  return {};
}

}  // namespace fairdraw
