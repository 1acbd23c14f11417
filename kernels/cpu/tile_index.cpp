// Implementation of tile_index and of the functions that merge its results (fairdraw/tile_index.h).
// The passes are in tile_passes.h, and the definition is in common/tile_weights.h.
#include "fairdraw/tile_index.h"

#include <algorithm>

#include "common/arguments.h"
#include "common/parameters.h"
#include "cpu/batch.h"
#include "cpu/float_environment.h"
#include "cpu/passes/tile_passes.h"

namespace fairdraw {
namespace {

/// Returns the scale that converts the logits of a row to octaves. For greedy rows, weights are
/// computed at temperature 1, as for log-probabilities.
float scale_of(float temperature) { return logit_scale(temperature == 0.0F ? 1.0F : temperature); }

/// Rows of one call.
struct Batch {
  const TileIndexRequest& request;
  const TileIndexResult& result;
  const cpu::TilePasses& passes;

  RowStatus index_row(std::int64_t row, std::int32_t* keys, std::uint64_t* sums) const {
    const RowsView& rows = request.rows;
    cpu::WeightRule rule;
    rule.from_probs = request.input == TileInput::probs;
    if (!rule.from_probs) {
      const float temperature = request.temperature.at(row);
      const RowStatus status = check(RowParameters{temperature});
      if (status != RowStatus::ok) return status;
      rule.scale = scale_of(temperature);
    }
    cpu::RowInMemory values;
    values.data =
        static_cast<const std::uint8_t*>(rows.data) + row * rows.row_stride * bytes_of(rows.dtype);
    values.dtype = rows.dtype;
    values.vocab = rows.vocab;
    if (request.allowed.given()) {
      values.allowed = request.allowed.data + row * request.allowed.row_stride;
    }
    return passes.index(values, rule, keys, sums);
  }

  void run_row(std::int64_t row) const {
    RowStatus status = RowStatus::inactive;
    if (!request.active.given() || request.active.data[row] != 0) {
      std::int32_t* keys = result.keys.data + row * result.keys.row_stride;
      std::uint64_t* sums = result.sums.data + row * result.sums.row_stride;
      status = index_row(row, keys, sums);
      if (status != RowStatus::ok) {
        std::fill_n(keys, tiles_of(request.rows.vocab), kEmptyTileKey);
        std::fill_n(sums, tiles_of(request.rows.vocab), std::uint64_t{0});
      }
    }
    if (result.statuses.given()) result.statuses.data[row] = status;
  }
};

double octave_of(std::int32_t key, TileInput input, float scale) {
  const std::int32_t nothing = input == TileInput::probs ? 0 : kEmptyTileKey;
  if (key <= nothing) return -std::numeric_limits<double>::infinity();
  const float maximum = from_order_key(key);
  return input == TileInput::probs ? octaves_of_probability(maximum).whole
                                   : octaves_of(maximum, scale).whole;
}

double octave_at(std::int32_t key, TileInput input, float temperature) {
  return octave_of(key, input, scale_of(temperature));
}

std::int32_t largest_key(View<const TileIndexPart> parts) {
  std::int32_t largest = kEmptyTileKey;
  for (std::int64_t p = 0; p < parts.size; ++p) {
    const View<const std::int32_t>& keys = parts.data[p].keys;
    for (std::int64_t t = 0; t < keys.size; ++t) largest = std::max(largest, keys.data[t]);
  }
  return largest;
}

TileIndexTotal total_at(View<const TileIndexPart> parts, TileInput input, float temperature) {
  const float scale = scale_of(temperature);
  TileIndexTotal total;
  total.octave = octave_of(largest_key(parts), input, scale);
  uint128_t sum = 0;
  for (std::int64_t p = 0; p < parts.size; ++p) {
    const TileIndexPart& part = parts.data[p];
    for (std::int64_t t = 0; t < part.keys.size; ++t) {
      const double octave = octave_of(part.keys.data[t], input, scale);
      sum += row_weight(part.sums.data[t], row_shift(total.octave, octave));
    }
  }
  total.total = {static_cast<std::uint64_t>(sum), static_cast<std::uint64_t>(sum >> 64)};
  return total;
}

/// Calls `function` with round-to-nearest and subnormal numbers, whatever floating-point settings
/// the caller has. The pointer is volatile, so that the compiler does not move arithmetic out of
/// the call.
template <class Result, class... Arguments>
Result in_float_environment(Result (*function)(Arguments...), Arguments... arguments) {
  Result (*volatile opaque)(Arguments...) = function;
  const cpu::FloatEnvironment environment;
  return opaque(arguments...);
}

}  // namespace

Error tile_index(const TileIndexRequest& request, const TileIndexResult& result,
                 const Execution& execution) {
  if (Error error = cpu::check_execution(execution)) return error;
  if (Error error = check_tile_index(request, result)) return error;
  const Batch batch{request, result, cpu::tile_passes_for(execution.target)};
  cpu::for_each_row(request.rows.rows, execution,
                    [&batch](std::int64_t row, cpu::Worker&) { batch.run_row(row); });
  return {};
}

double tile_octave(std::int32_t key, TileInput input, float temperature) noexcept {
  return in_float_environment(octave_at, key, input, temperature);
}

TileTotal tile_weight_in_row(std::uint64_t sum, double octave, double row_octave) noexcept {
  if (octave > row_octave) return {};  // a row of this octave cannot have the tile
  // For two empty tiles, the difference is NaN, which gives the weight 0.
  const uint128_t weight = row_weight(sum, row_shift(row_octave, octave));
  return {static_cast<std::uint64_t>(weight), static_cast<std::uint64_t>(weight >> 64)};
}

TileIndexTotal total_of_tiles(View<const TileIndexPart> parts, TileInput input,
                              float temperature) noexcept {
  return in_float_environment(total_at, parts, input, temperature);
}

}  // namespace fairdraw
