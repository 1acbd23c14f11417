// The logits that benchmarks run on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"
#include "harness/inputs/processing_rows.h"

namespace fairdraw::suites {

/// The names that --logits takes: peaked, flat, equal, captured.
const std::vector<std::string>& logits_names();

/// The names that --dtype takes.
const std::vector<std::string>& dtype_names();

/// Rows of logits in a dtype, and as float32 for the floors and the peers.
struct Rows {
  std::vector<float> values;
  std::vector<std::uint16_t> narrow;
  DType dtype = DType::float32;
  std::int64_t batch = 0, vocab = 0;

  RowsView view() const {
    const void* data = narrow.empty() ? static_cast<const void*>(values.data()) : narrow.data();
    return {data, dtype, batch, vocab, vocab};
  }
  const float* row(std::int64_t i) const { return values.data() + i * vocab; }
};

/// `batch` different rows of the kind `logits`, generated on all cores. Captured ones have the
/// file's vocabulary and come again where it ends; a batch of 0 is all of them once.
Rows make_rows(const std::string& logits, std::int64_t batch, std::int64_t vocab,
               const std::string& dtype, const std::string& data_directory);

/// What an engine has of a request in the middle of its answer: three penalties over a prompt and
/// an output of 256 tokens each, 64 biases, and a bitmask that allows three tokens of four.
class ProcessedRows {
 public:
  ProcessedRows(std::int64_t batch, std::int64_t vocab);
  LogitsProcessing view() const { return arrays_.view(); }
  BitRows<const std::uint32_t> allowed_view() const;

 private:
  harness::ProcessingArrays arrays_;
  std::vector<std::uint32_t> allowed_;
};

/// Row `i` of rows, as a batch of one.
Rows single_row(const Rows& rows, std::int64_t i);

}  // namespace fairdraw::suites
