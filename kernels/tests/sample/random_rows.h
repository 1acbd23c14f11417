// A row and its parameters for differential tests, derived from a number
// (harness/inputs/random_rows.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/proposals.h"
#include "fairdraw/sample.h"
#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::suites {

/// A row of logits, with the filters that apply to it.
struct RandomRow {
  std::uint64_t number = 0;  ///< number from which the row was derived, for messages
  std::vector<float> logits;
  std::vector<std::uint32_t> allowed;  ///< packed bitmask; empty (no mask) in three rows of four
  reference::RowParameters parameters;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::uint64_t seed = 0, offset = 0;
};

/// Returns the row of this number; half of the rows have at least 128 tokens.
RandomRow random_row(std::uint64_t number);

/// Returns the row of this number over a given vocabulary.
RandomRow random_row_of(std::uint64_t number, std::size_t vocab);

/// Returns probabilities that do not sum to 1.
std::vector<float> random_probs(std::uint64_t number, std::size_t vocab);

/// Returns the request of `sample` for this row alone, as float32, with num_samples tokens. The
/// request refers to the row, which must outlive the call.
SampleRequest request_of(const RandomRow& row, std::int32_t num_samples);

/// Returns a sentence that names the row.
std::string describe(const RandomRow& row);

/// Returns the token that the model gives for a seeded draw.
std::int32_t token_of(const reference::IntegerRow& model, const DrawWords& words);

/// Returns the targets that this machine supports.
std::vector<CpuTarget> available_targets();

}  // namespace fairdraw::suites
