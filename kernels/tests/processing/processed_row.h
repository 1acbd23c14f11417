// A row of logits, and what logits processing on the CPU makes of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fairdraw/process_logits.h"
#include "harness/inputs/processing_arrays.h"

namespace fairdraw::suites {

using reference::RowProcessing;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kBanned = -kInfinity;

struct Processed {
  RowStatus status = RowStatus::inactive;
  std::vector<float> logits;
  bool operator==(const Processed&) const = default;
};

/// Returns what process_logits makes of a row.
inline Processed process(std::vector<float> logits, const RowProcessing& row,
                         const harness::HistoryArrays& form = {},
                         CpuTarget target = CpuTarget::best) {
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), vocab, form);
  Processed processed;
  processed.logits.assign(logits.size(), -7.0F);
  ProcessLogitsRequest request;
  request.logits = {logits.data(), DType::float32, 1, vocab, vocab};
  request.processing = arrays.view();
  const Error error = process_logits(
      request, {{processed.logits.data(), 1, vocab}, {&processed.status, 1}}, {target, 1});
  EXPECT_FALSE(error) << error.message;
  return processed;
}

/// Expects that the row is processed without a fault to these logits.
inline void expect(const std::vector<float>& logits, const RowProcessing& row,
                   const std::vector<float>& expected) {
  const Processed processed = process(logits, row);
  EXPECT_EQ(processed.status, RowStatus::ok) << to_string(processed.status);
  EXPECT_EQ(processed.logits, expected);
}

}  // namespace fairdraw::suites
