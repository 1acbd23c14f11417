// What the steps of shrinking are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "suites/gate/fuzz/shrink_steps.h"

namespace fairdraw::suites::fuzz {

/// Above this many tokens values are simplified in chunks, not one by one.
inline constexpr std::int64_t kSingleTokens = 96;

/// Sets a field; false where it has that value already.
template <class T>
bool set_to(T& field, const T& value) {
  if (field == value) return false;
  field = value;
  return true;
}

/// The same by bits.
bool set_float(float& field, float value);

/// Keeps slices of `width` values.
template <class T>
void keep_slices(std::vector<T>& values, std::span<const std::int64_t> slices, std::int64_t width) {
  if (values.empty()) return;
  std::vector<T> kept;
  for (const std::int64_t slice : slices) {
    const auto first = values.begin() + slice * width;
    kept.insert(kept.end(), first, first + width);
  }
  values = std::move(kept);
}

/// [0, count) without [first, first + length).
std::vector<std::int64_t> all_but(std::int64_t count, std::int64_t first, std::int64_t length);

/// Stretches to leave out of `count` things: lengths are powers of two, from the largest below
/// `count` down, as the lanes that a failure may depend on are. `singles`: the largest count of
/// which single ones are left out.
struct Stretch {
  std::int64_t first, length;
};
std::vector<Stretch> stretches(std::int64_t count, std::int64_t singles);

/// A 64-bit number, to 0, 1, 2 or 3: seeds, offsets, words, salt.
void add_number_steps(std::vector<Step>& steps, const std::function<std::uint64_t*(FuzzCase&)>& at);
/// The first 16 of `count` such numbers.
void add_numbers_steps(std::vector<Step>& steps, std::size_t count,
                       std::vector<std::uint64_t>& (*numbers)(FuzzCase&));

/// Filters to their defaults: of all rows at once, then of each by itself.
void add_parameter_steps(std::int64_t rows, std::vector<Step>& steps,
                         std::vector<reference::RowParameters>& (*parameters)(FuzzCase&));

/// Values to 0, or to integers, or to one fraction bit less. `row_length`: values simplified
/// together at first.
void add_value_steps(std::int64_t values, std::int64_t row_length, std::vector<Step>& steps,
                     std::vector<float>& (*array)(FuzzCase&));

/// Steps of calls with logits processing, and of requests with drafts.
void add_processing_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps);
void add_speculation_steps(const FuzzCase& fuzz_case, std::vector<Step>& steps);

}  // namespace fairdraw::suites::fuzz
