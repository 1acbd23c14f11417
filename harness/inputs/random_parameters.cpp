// Generates filter parameters that are critical for a random row, such as cuts inside ties.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "harness/inputs/random_rows.h"
#include "harness/inputs/special_floats.h"

namespace fairdraw::harness {
namespace {

using reference::RowParameters;

/// At this temperature one unit of logit is one octave, so that the scale c of the specification
/// is 1.
constexpr float kOctave = 0x1.715476p0F;
/// Maximum vocabulary size of dyadic rows. Dyadic rows have no mass below 2^-20, so wider rows
/// would consist almost only of tokens with this mass.
constexpr std::size_t kMaxDyadicVocab = 1 << 15;

// Returns a row's finite values in descending order.
std::vector<float> ranked(const std::vector<float>& row) {
  std::vector<float> sorted = row;
  std::erase_if(sorted, [](float value) { return !std::isfinite(value); });
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return sorted;
}

// Returns the octaves of a row whose masses are powers of two and sum to 1: the function starts
// with one token of mass 1 and halves masses again and again. No mass is below 2^-20, so that the
// mass of every group is a float32.
std::vector<int> dyadic_octaves(Dice& dice, std::size_t vocab) {
  constexpr int kDeepest = 20;  // 2^20 tokens suffice for every vocabulary
  std::vector<int> octaves = {0};
  while (octaves.size() < vocab) {
    std::size_t place = dice.below(octaves.size());
    while (octaves[place] == kDeepest) place = (place + 1) % octaves.size();
    ++octaves[place];
    octaves.push_back(octaves[place]);
  }
  for (std::size_t i = octaves.size(); i > 1; --i) {
    std::swap(octaves[i - 1], octaves[dice.below(i)]);
  }
  return octaves;
}

// Makes the row dyadic, and sets top_p to the mass above one of its values or to a neighbouring
// float32.
void meet_top_p(Dice& dice, std::vector<float>& row, bool probabilities,
                RowParameters& parameters) {
  const std::vector<int> octaves = dyadic_octaves(dice, row.size());
  const int cut = dice.pick(octaves);
  double above = 0;
  for (std::size_t id = 0; id < row.size(); ++id) {
    row[id] = probabilities ? std::ldexp(1.0F, -octaves[id]) : -static_cast<float>(octaves[id]);
    if (octaves[id] < cut) above += std::ldexp(1.0, -octaves[id]);
  }
  const auto exact = static_cast<float>(above);
  parameters = {.temperature = kOctave};
  parameters.top_p =
      dice.pick({exact, exact, exact, std::nextafter(exact, 0.0F), std::nextafter(exact, 1.0F)});
}

std::int32_t any_top_k(Dice& dice, std::int64_t vocab, bool faults) {
  const auto v = static_cast<std::int32_t>(vocab);
  if (faults && dice.once_in(40))
    return dice.pick({-2, -50, std::numeric_limits<std::int32_t>::min()});
  return dice.pick({0, -1, 1, 2, 3, 50, v / 2, v - 1, v, v + 1,
                    std::numeric_limits<std::int32_t>::max(),
                    static_cast<std::int32_t>(dice.between(1, vocab)),
                    static_cast<std::int32_t>(dice.between(1, vocab))});
}

float any_unit_parameter(Dice& dice, bool faults) {
  if (faults && dice.once_in(40)) {
    return dice.pick(
        {-0.1F, -kSmallest, std::nextafter(1.0F, 2.0F), 90.0F, kInfinity, -kInfinity, kNan});
  }
  if (dice.once_in(4)) {
    return dice.pick({0.0F, -0.0F, kSmallest, 0x1p-126F, 0x1p-40F, 0x1p-24F, 1 - 0x1p-24F, 0.05F,
                      0.5F, 0.9F, std::nextafter(0.5F, 1.0F), 1.0F});
  }
  return static_cast<float>(dice.unit());
}

float any_temperature(Dice& dice, bool faults) {
  if (faults && dice.once_in(40)) {
    return dice.pick({-1.0F, -kSmallest, kSmallest, std::nextafter(0x1p-126F, 0.0F),
                      std::nextafter(0x1p64F, kInfinity), kInfinity, -kInfinity, kNan});
  }
  if (dice.once_in(8)) return dice.pick({0.0F, -0.0F, 0x1p-126F, 0x1p64F, 1e-20F, 1e-4F, 1e10F});
  return dice.pick(
      {1.0F, 1.0F, 0.7F, 0.1F, 2.0F, 5.0F, kOctave, static_cast<float>(dice.unit() * 3)});
}

}  // namespace

RowParameters random_parameters(Dice& dice, std::vector<float>& row,
                                const ParameterOptions& options) {
  const bool probabilities = options.probabilities;
  const auto vocab = static_cast<std::int64_t>(row.size());
  RowParameters parameters;
  if (!dice.once_in(3)) parameters.temperature = any_temperature(dice, options.faults);
  // In dense rows a filter is missing in one of `left_out` rows; in other rows it is present in one
  // of `given` rows. A third of the values of any_top_k turn the filter off.
  const auto is_on = [&](std::uint64_t left_out, std::uint64_t given) {
    return options.dense ? !dice.once_in(left_out) : dice.once_in(given);
  };
  if (is_on(16, 2)) parameters.top_k = any_top_k(dice, vocab, options.faults);
  if (is_on(4, 2)) parameters.top_p = any_unit_parameter(dice, options.faults);
  if (is_on(3, 3)) parameters.min_p = any_unit_parameter(dice, options.faults);
  const std::vector<float> sorted = ranked(row);
  if (sorted.empty() || dice.once_in(2)) return parameters;

  // These cases make parameters that exactly match a tie, a mass or a ratio of the row.
  switch (dice.below(4)) {
    case 0: {  // k is at the edge of a group of ties
      const float value = dice.pick(sorted);
      const auto above =
          std::count_if(sorted.begin(), sorted.end(), [value](float x) { return x > value; });
      const auto with =
          std::count_if(sorted.begin(), sorted.end(), [value](float x) { return x >= value; });
      parameters.top_k =
          static_cast<std::int32_t>(dice.pick({above, above + 1, with - 1, with, with + 1}));
      break;
    }
    case 1:  // the mass before a token is exactly p
      if (row.size() <= kMaxDyadicVocab) meet_top_p(dice, row, probabilities, parameters);
      break;
    case 2: {  // min_p is the ratio of a token to the maximum
      const double largest = sorted.front(), value = dice.pick(sorted);
      if (!probabilities) parameters.temperature = kOctave;
      const double ratio = probabilities ? value / largest : std::exp2(value - largest);
      const auto exact = static_cast<float>(std::clamp(ratio, 0.0, 1.0));
      parameters.min_p = dice.pick(
          {exact, std::nextafter(exact, 0.0F), std::min(1.0F, std::nextafter(exact, 2.0F))});
      if (std::isnan(parameters.min_p)) parameters.min_p = 0;
      break;
    }
    default: {  // the row has copies of one value, so that the cut falls among them
      const float value = dice.pick(sorted);
      for (std::uint64_t i = dice.below(4) + 1; i > 0; --i) row[dice.below(row.size())] = value;
    }
  }
  return parameters;
}

}  // namespace fairdraw::harness
