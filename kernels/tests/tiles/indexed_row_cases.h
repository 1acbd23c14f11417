// Rows for the differential tests of a row's kept and drawn tokens (cpu/indexed_row.h). The rows
// come from the generator that all differential tests share, or are made for weights by tiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu/indexed_row.h"
#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::suites {

/// One row as the filters read it: banned tokens are already -inf (in rows of probabilities, 0).
struct IndexedRowCase {
  std::string name;
  std::vector<float> values;
  reference::RowParameters parameters;
  cpu::FilterOptions options;
};

/// The functions below return rows of the shared generator, of any length.
IndexedRowCase random_logits_case(std::uint64_t number, std::size_t vocab);
IndexedRowCase random_probs_case(std::uint64_t number, std::size_t vocab);

/// Returns a row whose tiles have maxima 0 to 70 octaves apart, at temperatures from 2^-126 to
/// 2^64. Some tiles are empty, and some have one value. Values are 0 to 70 octaves below their
/// tile's maximum, mostly at the edges of kTileBits, kTileOctaves and kRowBits.
IndexedRowCase wide_gaps_case(std::uint64_t number, std::size_t vocab);

/// Returns a row whose values are higher or lower at the places where IndexedRow takes its sample
/// (32 pieces of 32 values, spread evenly). Such a sample is not representative, so the guesses of
/// IndexedRow are wrong. More than half of the row is kept, which is too much for a list.
IndexedRowCase deceiving_case(std::uint64_t number, std::size_t vocab);

reference::IntegerRow model_of(const IndexedRowCase& row);

/// Returns the words at which the model's token changes, and the words next to these, for up to
/// `tokens` evenly spread tokens that can be drawn. Adds 0, 1, 2^64 - 1 and some random words
/// derived from `number`.
std::vector<std::uint64_t> directed_words(const reference::IntegerRow& row, std::uint64_t number,
                                          std::size_t tokens);

}  // namespace fairdraw::suites
