// The inputs of the golden tokens are one table, which is shared by the tool that runs it on a GPU
// and the test that replays its tokens on CPUs. This header also defines the file in which the tool
// stores the tokens.
//
// The harness generates a row's logits with the same bits on every machine, so the file stores the
// parameters of the generator, not the logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/families.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// Number of tokens per row: samples 0, 1 and 2 of an output with its own seed.
inline constexpr std::int32_t kGoldenSamples = 3;

struct GoldenInput {
  harness::Family family = harness::Family::gaussian;
  std::uint64_t stream = 0, row_number = 0;  ///< arguments of generate_row
  std::int64_t vocab = 0;
  DType dtype = DType::float32;
  float temperature = 1.0F;
  std::int32_t top_k = 0;
  float top_p = 1.0F, min_p = 0.0F;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::uint64_t seed = 0, offset = 0;

  bool operator==(const GoldenInput&) const = default;
};

/// The results of one backend for a row.
struct GoldenTokens {
  RowStatus status = RowStatus::inactive;
  std::vector<std::int32_t> tokens;
  std::int32_t support_size = 0;

  bool operator==(const GoldenTokens&) const = default;
};

struct GoldenRow {
  GoldenInput input;
  GoldenTokens given;
};

/// Contents of the file: the origin of the tokens, and the rows.
struct GoldenFile {
  std::string gpu, driver, date;
  std::vector<GoldenRow> rows;
};

/// Returns the table, which is always the same: every family in every dtype with every filter, four
/// times each, with vocabularies of 1 to 131072 tokens.
std::vector<GoldenInput> golden_inputs();

/// Returns the families to which the table's rows belong.
std::span<const harness::Family> golden_families();

/// Returns the call of `sample` for one row.
OwnedCall golden_call(const GoldenInput& input);

/// Extracts the results from the outputs of golden_call.
GoldenTokens tokens_of(const SampleOutputs& outputs);

std::string to_json(const GoldenFile& file);
/// Throws std::runtime_error if `text` is not a file of golden tokens.
GoldenFile golden_file_from_json(const std::string& text);

}  // namespace fairdraw::suites
