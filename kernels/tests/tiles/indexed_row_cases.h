// Rows for the differential tests of what a row keeps and draws (cpu/indexed_row.h): the generator
// that all differential tests share, and rows made for weights by tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu/indexed_row.h"
#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::suites {

/// One row as the filters see it: banned tokens are -inf (probabilities: 0) already.
struct IndexedRowCase {
  std::string name;
  std::vector<float> values;
  reference::RowParameters parameters;
  cpu::FilterOptions options;
};

/// From the shared generator, any length.
IndexedRowCase random_logits_case(std::uint64_t number, std::size_t vocab);
IndexedRowCase random_probs_case(std::uint64_t number, std::size_t vocab);

/// Tiles whose maxima lie 0 to 70 octaves apart, at temperatures from 2^-126 to 2^64; some tiles
/// are empty, some are of one value, values lie 0 to 70 octaves below their tile's maximum, at the
/// edges of kTileBits, kTileOctaves and kRowBits mostly.
IndexedRowCase wide_gaps_case(std::uint64_t number, std::size_t vocab);

/// Rows whose values are others where IndexedRow takes its sample (32 pieces of 32 values, spread
/// evenly), higher or lower: the guesses from it are wrong. More than half of the row is kept, too
/// much to list.
IndexedRowCase deceiving_case(std::uint64_t number, std::size_t vocab);

reference::IntegerRow model_of(const IndexedRowCase& row);

/// Words at which the model's token changes, and their neighbours: for up to `tokens` of those that
/// can be drawn, evenly spread; and 0, 1, 2^64 - 1 and some from `number`.
std::vector<std::uint64_t> directed_words(const reference::IntegerRow& row, std::uint64_t number,
                                          std::size_t tokens);

}  // namespace fairdraw::suites
