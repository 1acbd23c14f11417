// Generates rows for the property tests from raw random bits and IEEE operations, so that rows are
// the same on every machine.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "reference/integer_model.h"

namespace fairdraw::reference {

/// Kinds of rows, each of which is difficult in another way. The kinds are: nothing special, many
/// ties, a few values far above the rest, half of the row -inf, subnormal values, the whole range
/// of float32, nearly equal values, and integer octaves. Values a few ulps apart make ties when
/// they are divided by a temperature, and values far from zero are rounded when they are scaled.
enum class RowKind { smooth, tied, peaked, masked, subnormal, huge, flat, octaves, close, shifted };
inline constexpr int kRowKinds = 10;

class RandomRows {
 public:
  explicit RandomRows(std::uint64_t seed) : bits_(seed) {}

  std::uint64_t word() { return bits_(); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits_() % n); }
  float unit() { return static_cast<float>(bits_() >> 40) * 0x1p-24F; }  // [0, 1)
  bool chance(double p) { return unit() < p; }

  std::vector<float> logits(RowKind kind, std::size_t vocab) {
    std::vector<float> row(vocab);
    for (float& x : row) x = value(kind);
    return row;
  }

  /// Returns nonnegative values that are not normalised; with `dyadic`, dyadic fractions.
  std::vector<float> probs(std::size_t vocab, bool dyadic) {
    std::vector<float> row(vocab);
    for (float& p : row) {
      p = dyadic ? static_cast<float>(below(9)) / 64 : std::exp(4 * bell());
      if (chance(0.1)) p = 0;
    }
    row[below(vocab)] = 1;  // so that at least one token is allowed
    return row;
  }

  std::vector<std::uint32_t> allowed(std::size_t vocab) {
    std::vector<std::uint32_t> words((vocab + 31) / 32);
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(bits_());
    return words;
  }

  /// Returns parameters, each of which is off, at an end of its range, or anywhere in its range.
  RowParameters parameters(std::size_t vocab) {
    RowParameters parameters;
    const float temperatures[] = {1, 0, 0.1F, 0.7F, 1.3F, 30, 0x1.715476p0F, 0x1p-126F, 0x1p64F};
    parameters.temperature = temperatures[below(std::size(temperatures))];
    const auto v = static_cast<std::int32_t>(vocab);
    const std::int32_t ks[] = {0, -1, 1, 2, v - 1, v, v + 1, v / 2};
    parameters.top_k =
        chance(0.5) ? ks[below(std::size(ks))] : static_cast<std::int32_t>(below(vocab)) + 1;
    const float edges[] = {0, 1, 0.5F, 0x1p-149F, 1 - 0x1p-24F, 0.75F, 0x1p-20F, 0.9F};
    parameters.top_p = chance(0.5) ? edges[below(std::size(edges))] : unit();
    parameters.min_p = chance(0.5) ? 0 : chance(0.4) ? edges[below(std::size(edges))] : unit();
    if (chance(0.3)) parameters.min_p *= 0.01F;
    return parameters;
  }

 private:
  float bell() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += unit();
    return sum - 6;
  }

  float value(RowKind kind) {
    switch (kind) {
      case RowKind::smooth:
        return 2 * bell();
      case RowKind::tied:
        return static_cast<float>(below(4)) * 0.5F;
      case RowKind::peaked:
        return bell() + (chance(0.03) ? 8 + 4 * unit() : 0);
      case RowKind::masked:
        return chance(0.5) ? -std::numeric_limits<float>::infinity() : 2 * bell();
      case RowKind::subnormal:
        return std::ldexp(static_cast<float>(below(64)) - 32, -149);
      case RowKind::huge:
        return std::ldexp(bell(), static_cast<int>(below(250)) - 125);
      case RowKind::flat:
        return 0.01F * bell();
      case RowKind::octaves:
        return -static_cast<float>(below(45));
      case RowKind::close:
        return 1.95F + static_cast<float>(below(6)) * 0x1p-23F;
      case RowKind::shifted:
        return 2 * bell() - 30000;
    }
    return 0;
  }

  std::mt19937_64 bits_;
};

}  // namespace fairdraw::reference
