// Calls of sample_marked over rows of one vocabulary, each with its own mark and output, and texts
// that such calls write.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/watermark.h"
#include "reference/watermark_model.h"
#include "tests/serving/token_list_rows.h"

namespace fairdraw::suites {

using Ids = std::vector<std::int32_t>;

inline WatermarkRule rule_of(const reference::RowMark& mark) {
  return {static_cast<std::int32_t>(mark.window), mark.scheme, mark.layers, mark.green_share};
}

/// The arrays of the marks of a call.
struct MarkArrays {
  std::vector<std::uint64_t> keys, second_keys;
  std::vector<std::uint8_t> mask_repeated;
  Watermark watermark;

  /// The rule, the bias and the share are the first mark's, because a call has one of each.
  explicit MarkArrays(const std::vector<reference::RowMark>& marks) {
    for (const reference::RowMark& mark : marks) {
      keys.push_back(mark.key);
      second_keys.push_back(mark.second_key);
      mask_repeated.push_back(mark.mask_repeated ? 1 : 0);
    }
    const auto rows = static_cast<std::int64_t>(marks.size());
    watermark.key = {keys.data(), rows};
    watermark.second_key = {second_keys.data(), rows};
    watermark.mask_repeated = {mask_repeated.data(), rows};
    watermark.rule = rule_of(marks.front());
    watermark.green_bias = marks.front().green_bias;
    watermark.second_share = marks.front().second_share;
  }
  MarkArrays(const MarkArrays&) = delete;  // views point into it
  MarkArrays& operator=(const MarkArrays&) = delete;
};

/// Adds one marked token to each output. logits: [outputs, vocab].
inline void append_marked(const std::vector<float>& logits,
                          const std::vector<reference::RowMark>& marks,
                          const std::vector<std::uint64_t>& seeds, std::vector<Ids>& outputs,
                          const SampleRequest& filters = {}) {
  const auto rows = static_cast<std::int64_t>(outputs.size());
  const std::int64_t vocab = static_cast<std::int64_t>(logits.size()) / rows;
  const MarkArrays arrays(marks);
  const TokenListRows histories(outputs);
  SampleRequest request = filters;
  request.logits = {logits.data(), DType::float32, rows, vocab, vocab};
  request.seed = {seeds.data(), rows};
  request.offset = static_cast<std::uint64_t>(outputs.front().size());
  request.processing.output = histories.lists();
  Ids tokens(outputs.size(), -7);
  SampleResult result;
  result.tokens = {tokens.data(), rows};
  const Error error = sample_marked(request, arrays.watermark, result, {CpuTarget::best, 1});
  ASSERT_FALSE(error) << error.message;
  for (std::size_t row = 0; row < outputs.size(); ++row) {
    ASSERT_GE(tokens[row], 0);
    outputs[row].push_back(tokens[row]);
  }
}

/// Returns keys that are different and not 0.
inline std::vector<std::uint64_t> keys_from(std::uint64_t first, std::size_t count) {
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back((first + i) * 0x9e3779b97f4a7c15U | 1U);
  return keys;
}

}  // namespace fairdraw::suites
