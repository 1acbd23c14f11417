// One row and its parameters for differential tests, from a number (harness/inputs/random_rows.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/proposals.h"
#include "fairdraw/sample.h"
#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::suites {

/// One row of logits with its filters.
struct RandomRow {
  std::uint64_t number = 0;  ///< number from which the row was made, for messages
  std::vector<float> logits;
  std::vector<std::uint32_t> allowed;  ///< packed; empty in three rows of four
  reference::RowParameters parameters;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::uint64_t seed = 0, offset = 0;
};

/// Returns a row; half of the rows have at least 128 tokens.
RandomRow random_row(std::uint64_t number);

/// Returns a row over a given vocabulary.
RandomRow random_row_of(std::uint64_t number, std::size_t vocab);

/// Returns probabilities that do not sum to 1.
std::vector<float> random_probs(std::uint64_t number, std::size_t vocab);

/// Returns the call of `sample` over the row alone, as float32, for num_samples tokens. It refers
/// to the row, which must outlive the call.
SampleRequest request_of(const RandomRow& row, std::int32_t num_samples);

/// Returns a sentence that names the row.
std::string describe(const RandomRow& row);

/// Returns the model's token of a seeded draw.
std::int32_t token_of(const reference::IntegerRow& model, const DrawWords& words);

/// Returns the targets that this machine supports.
std::vector<CpuTarget> available_targets();

}  // namespace fairdraw::suites
