// Logits in benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::suites {

/// Number of different rows in a large batch, which repeats these rows, because generating a row
/// takes longer than measuring it.
inline constexpr std::int64_t kDistinctRows = 64;

/// Returns the values of --logits: peaked, flat, equal, captured.
const std::vector<std::string>& logits_names();

const std::vector<std::string>& dtype_names();

/// Rows of logits in a dtype, and the same rows in float32 for the floors and the peer samplers.
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

/// Makes `batch` different rows of the kind `logits`, generated on all cores. Captured rows have
/// the vocabulary of their file, and begin again after the last row of the file; a batch of 0 means
/// all rows of the file once.
Rows make_rows(const std::string& logits, std::int64_t batch, std::int64_t vocab,
               const std::string& dtype, const std::string& data_directory);

/// Returns softmax(x / temperature) of all rows in float32.
std::vector<float> probabilities(const Rows& rows, float temperature);

/// Returns the softmax at temperature 1, as rows.
Rows probability_rows(const Rows& rows);

/// Returns row `i` as a batch of one row.
Rows single_row(const Rows& rows, std::int64_t i);

}  // namespace fairdraw::suites
