// A language model of four tokens, for loops of serving whose distribution can be written out.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fairdraw::suites {

constexpr std::int64_t kSmallVocab = 4;
using Logits = std::array<float, kSmallVocab>;

/// A model: logits after a prefix, from an affine walk over its tokens. The last three count,
/// which is all that triples see.
inline Logits logits_behind(const std::vector<std::int32_t>& prefix, std::uint32_t model) {
  std::uint32_t state = model;
  for (const std::int32_t token : prefix) {
    state = state * 1664525U + 1013904223U + static_cast<std::uint32_t>(token) * 69069U;
  }
  Logits logits{};
  for (float& x : logits) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 24) / 80;  // [0, 3.2)
  }
  return logits;
}

}  // namespace fairdraw::suites
