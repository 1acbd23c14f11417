// Filtered row on the device: its values, the survivors of the filters, and log-probabilities.
//
// The row's record alone determines the survivors, so that nothing is filtered a second time. A
// banned token may have a value above the threshold, so the bits of `allowed` are tested here, too.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "common/log_mass.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"
#include "cuda/device/read_value.cuh"
#include "cuda/rows/filtered_rows.h"
#include "cuda/rows/tile_values.cuh"

namespace fairdraw::cuda {

inline constexpr float kSmallestProbability = 0x1p-149F;  ///< smallest positive float32, and so the
                                                          ///< smallest probability that an allowed
                                                          ///< token has

struct FilteredRow {
  RowValues values;
  std::int64_t vocab;
  const std::uint32_t* allowed;  ///< allowed bits, or null if all tokens are allowed
  float smallest;  ///< tokens with smaller values are not allowed (logits of -inf, probabilities of
                   ///< 0)
  float low;
  std::int64_t tie_end;
  std::int32_t greedy_token;
  const std::uint32_t* edit_bits;  ///< bits of the tokens whose value is in edited_values, or null
                                   ///< if the row has no edits
  const float* edited_values;

  /// Returns the value of a token, after logits processing if the row is processed. The result is
  /// meaningless for a banned token.
  __device__ float value(std::int64_t token) const { return edited(token, values[token]); }

  /// Reads the values of the tokens first, first + step, and so on. Tokens that are banned or
  /// beyond the row's end get a value below `smallest`. No load depends on the result of another
  /// load, so that all loads are in flight together.
  __device__ __forceinline__ void read(std::int64_t first, int step,
                                       float (&x)[kLaneValues]) const {
    values.load(first, step, vocab, nothing(), x);
    if (edit_bits != nullptr) put_edits(first, step, x);
    if (allowed != nullptr) drop_banned(first, step, x);
#pragma unroll
    for (float& value : x) value = value >= smallest ? value : nothing();
  }

  /// Reads the values of a tile in the order of ids, with kLaneValues consecutive ids per lane.
  __device__ __forceinline__ void read_in_order(int tile, float (&x)[kLaneValues]) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    read(std::int64_t{tile} * kTileSize + lane * kLaneValues, 1, x);
  }

  /// Returns the view of a filtered row whose status is ok.
  __device__ static FilteredRow of(const FilteredRows& filtered, std::int64_t row) {
    const RowRecord& record = filtered.records[row];
    FilteredRow result = whole(filtered.rows, row, filtered.from_probs);
    if (filtered.allowed.given()) {
      result.allowed = filtered.allowed.data + row * filtered.allowed.row_stride;
    }
    result.low = record.low;
    result.tie_end = record.tie_end;
    result.greedy_token = record.greedy_token;
    if (filtered.edits.given()) {
      const RowEdits edits = filtered.edits.of(row);
      result.allowed = edits.allowed;
      result.edit_bits = edits.edited;
      result.edited_values = edits.values;
    }
    return result;
  }

  /// Returns the view of an unfiltered row, in which every value above -inf (for probabilities,
  /// above 0) survives.
  __device__ static FilteredRow whole(const RowsView& rows, std::int64_t row, bool from_probs) {
    FilteredRow result{};
    result.values = RowValues::of(rows, row);
    result.vocab = rows.vocab;
    result.smallest = from_probs ? kSmallestProbability : -FLT_MAX;
    result.low = result.smallest;
    result.tie_end = rows.vocab;
    result.greedy_token = -1;
    return result;
  }

  __device__ bool is_allowed(std::int64_t token, float x) const {
    if (!(x >= smallest)) return false;
    return allowed == nullptr || is_set(allowed[token / 32], token);
  }

  /// Returns whether an allowed token survives the filters.
  __device__ bool survives(std::int64_t token, float x) const {
    if (greedy_token >= 0) return token == greedy_token;
    return x > low || (x == low && token < tie_end);
  }
  __device__ bool keeps(std::int64_t token, float x) const {
    return survives(token, x) && is_allowed(token, x);
  }
  /// Returns whether a token survives, given the value that read() gave for it.
  __device__ bool keeps_read(std::int64_t token, float x) const {
    return x >= smallest && survives(token, x);
  }

  /// Returns the value that read() gives for a token that is not allowed. This value weighs
  /// nothing.
  __device__ float nothing() const { return smallest > 0.0F ? 0.0F : -INFINITY; }

  /// Returns the bit of a token in the word that contains it.
  __device__ static bool is_set(std::uint32_t word, std::int64_t number) {
    return ((word >> (number % 32)) & 1U) != 0;
  }

 private:
  /// Loads the words of `bits` that contain the tokens first, first + step, and so on, with 0 for
  /// tokens beyond the row's end.
  __device__ __forceinline__ void load_words(const std::uint32_t* bits, std::int64_t first,
                                             int step, std::uint32_t (&words)[kLaneValues]) const {
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::int64_t token = first + i * step;
      words[i] = token < vocab ? bits[token / 32] : 0;
    }
  }
  __device__ __forceinline__ void put_edits(std::int64_t first, int step,
                                            float (&x)[kLaneValues]) const {
    std::uint32_t words[kLaneValues];
    load_words(edit_bits, first, step, words);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      const std::int64_t token = first + i * step;
      if (is_set(words[i], token)) x[i] = edited_values[token];
    }
  }
  __device__ __forceinline__ void drop_banned(std::int64_t first, int step,
                                              float (&x)[kLaneValues]) const {
    std::uint32_t words[kLaneValues];
    load_words(allowed, first, step, words);
#pragma unroll
    for (int i = 0; i < kLaneValues; ++i) {
      if (!is_set(words[i], first + i * step)) x[i] = nothing();
    }
  }
  __device__ __forceinline__ float edited(std::int64_t token, float x) const {
    if (edit_bits == nullptr) return x;
    return is_set(edit_bits[token / 32], token) ? edited_values[token] : x;
  }
};

/// Returns (x - max) / divisor - log_mass. The divisor is the temperature, or 1 if the temperature
/// is 0.
__device__ inline double log_probability(float x, float max, float divisor, double log_mass) {
  const double distance = static_cast<double>(x) - static_cast<double>(max);
  return __ddiv_rn(distance, static_cast<double>(divisor)) - log_mass;
}

}  // namespace fairdraw::cuda
