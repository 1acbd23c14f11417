// The inputs of the golden tokens: one table, for the tool that runs it on a GPU and for the test
// that replays its tokens on CPUs. And the file between the two.
//
// A row's logits are the harness's own, the same bits on every machine, so the file holds what they
// are made from, not the logits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/families.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {

/// Tokens of a row: samples 0, 1, 2 of an output with its own seed.
inline constexpr std::int32_t kGoldenSamples = 3;

struct GoldenInput {
  harness::Family family = harness::Family::gaussian;
  std::uint64_t stream = 0, row_number = 0;  ///< of generate_row
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

/// What a backend gave for a row.
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

/// The file: where the tokens come from, and the rows.
struct GoldenFile {
  std::string gpu, driver, date;
  std::vector<GoldenRow> rows;
};

/// The table: every family in every dtype with every filter, four times, in vocabularies from 1 to
/// 131072. Always the same.
std::vector<GoldenInput> golden_inputs();

/// The families of these rows.
std::span<const harness::Family> golden_families();

/// The call of one row.
OwnedCall golden_call(const GoldenInput& input);

/// What the outputs of golden_call say.
GoldenTokens tokens_of(const SampleOutputs& outputs);

std::string to_json(const GoldenFile& file);
/// Throws std::runtime_error where `text` is no such file.
GoldenFile golden_file_from_json(const std::string& text);

}  // namespace fairdraw::suites
