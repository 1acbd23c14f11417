// Reads the rows of known_answers/tile_answers.json for all tests that use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::reference {

/// A row and its answers; make_tile_answers.py describes the fields.
struct TileAnswer {
  std::string name;
  bool from_probs = false;
  std::vector<float> values;
  std::vector<std::uint32_t> allowed;  ///< packed bits of the allowed tokens; if empty, all
  RowParameters parameters;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  bool top_k_1_keeps_ties = false;

  std::vector<std::optional<float>> maxima;    ///< [tiles] empty if no token of the tile is allowed
  std::vector<std::optional<double>> octaves;  ///< [tiles]
  std::vector<std::uint64_t> sums;             ///< [tiles]
  double octave = 0;
  RowWeight total_unfiltered = 0, total = 0;
  std::int32_t greedy_token = -1;
  std::int32_t support_size = 0;
  std::vector<std::pair<std::uint64_t, std::int32_t>> draws;  ///< word, token
  /// Draws by seed, for rows that propose: the words of the attempts up to the last one used, and
  /// the token.
  std::vector<std::pair<std::vector<std::uint64_t>, std::int32_t>> draws_by_attempts;
  std::vector<std::pair<std::int32_t, float>> probabilities;  ///< token, probability
  std::vector<RowWeight> weights;  ///< [vocab] for rows of at most 16 tokens, otherwise empty
  std::vector<std::int32_t> kept;  ///< [vocab] surviving tokens, for the same rows

  bool is_allowed(std::size_t id) const {
    return allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
  }
};

const std::vector<TileAnswer>& tile_answers();

/// Returns a weight in decimal digits, for messages.
std::string to_string(RowWeight weight);

}  // namespace fairdraw::reference
