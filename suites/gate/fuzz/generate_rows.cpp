// Rows of logits and of probabilities, and the parameters that meet them where it hurts.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "harness/run/calls/logits_source.h"
#include "suites/gate/fuzz/generate.h"

namespace fairdraw::suites::fuzz {
namespace {

using reference::RowParameters;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr float kLargest = std::numeric_limits<float>::max();
/// The temperature at which one unit of logit is one octave: c of the specification is 1.
constexpr float kOctave = 0x1.715476p0F;

float any_float(Dice& dice) {
  return dice.pick({0.0F, -0.0F, 1.0F, -1.0F, kSmallest, -kSmallest, 0x1p-126F, kLargest, -kLargest,
                    0x1p64F, 88.0F, -104.0F, 0.1F, 1e-6F, 65504.0F});
}

using Fill = std::function<float(std::int64_t)>;

// What the row looks like: a function of the token's id.
Fill logits_pattern(Dice& dice, std::int64_t vocab) {
  const float base = dice.once_in(3) ? any_float(dice) : static_cast<float>(dice.between(-20, 20));
  const double scale = dice.pick({0.1, 1.0, 1.0, 3.0, 10.0, 100.0});
  switch (dice.below(10)) {
    case 0:  // all equal
      return [base](std::int64_t) { return base; };
    case 1: {  // two levels
      const float step = dice.pick({1.0F, 0x1p-20F, 16.0F, 40.0F, 1000.0F});
      const std::uint64_t share = dice.below(5) + 1;
      return [&dice, base, step, share](std::int64_t) {
        return dice.once_in(share) ? base : base - step;
      };
    }
    case 2: {  // a coarse grid: ties everywhere
      const float unit = dice.pick({1.0F, 0.5F, 0.693147182F, kOctave, 0.125F});
      return [&dice, unit](std::int64_t) { return unit * static_cast<float>(dice.between(-4, 3)); };
    }
    case 3:  // adjacent floats
      return [&dice, base](std::int64_t) {
        float value = base;
        for (std::uint64_t steps = dice.below(4); steps > 0; --steps) {
          value = std::nextafter(value, -kInfinity);
        }
        return std::isinf(value) ? base : value;
      };
    case 4:  // the grid of bfloat16
      return [&dice, scale](std::int64_t) {
        return harness::rounded_to(DType::bfloat16, static_cast<float>(dice.bell() * scale));
      };
    case 5: {  // octaves: weights are powers of two at temperature kOctave
      const std::int64_t deepest = dice.pick<std::int64_t>({3, 8, 39, 41, 64});
      return
          [&dice, deepest](std::int64_t) { return -static_cast<float>(dice.between(0, deepest)); };
    }
    case 6:  // every float alike: sizes from denormal to the largest
      return [&dice](std::int64_t) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(dice.bits()));
        return std::isfinite(value) ? value : 0.0F;
      };
    case 7: {  // a slope
      const float slope = dice.pick({1.0F, -1.0F, 0.01F, -0.01F, 0x1p-12F});
      return [slope, base](std::int64_t id) { return base + slope * static_cast<float>(id); };
    }
    case 8: {  // one token far above
      const auto top = static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(vocab)));
      const float gap = dice.pick({1.0F, 27.0F, 28.0F, 44.0F, 100.0F, 1e30F});
      return [base, top, gap](std::int64_t id) { return id == top ? base : base - gap; };
    }
    default:
      return [&dice, scale](std::int64_t) { return static_cast<float>(dice.bell() * scale); };
  }
}

// Runs of `value`, one token to half of the row.
void write_runs(Dice& dice, std::vector<float>& row, float value) {
  for (std::uint64_t runs = dice.below(3) + 1; runs > 0; --runs) {
    const std::size_t first = dice.below(row.size());
    const std::size_t length = dice.below(row.size() / 2 + 1) + 1;
    for (std::size_t i = first; i < std::min(row.size(), first + length); ++i) row[i] = value;
  }
}

Fill probabilities_pattern(Dice& dice, std::int64_t vocab) {
  const float base = dice.pick({1.0F, 0.5F, 0.3F, kSmallest, 0x1p-126F, kLargest, 1e-20F});
  switch (dice.below(6)) {
    case 0:
      return [base](std::int64_t) { return base; };
    case 1: {  // dyadic: sums are exact
      const std::int64_t deepest = dice.pick<std::int64_t>({3, 10, 40, 41});
      return [&dice, deepest](std::int64_t) {
        return std::ldexp(1.0F, static_cast<int>(-dice.between(0, deepest)));
      };
    }
    case 2:  // adjacent floats
      return [&dice, base](std::int64_t) {
        return dice.once_in(2) ? base : std::nextafter(base, 0.0F);
      };
    case 3: {  // one token holds nearly everything
      const auto top = static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(vocab)));
      return [&dice, top](std::int64_t id) {
        return id == top ? 1.0F : static_cast<float>(dice.unit() * 1e-9);
      };
    }
    case 4:  // every size
      return [&dice](std::int64_t) {
        const auto bits = static_cast<std::uint32_t>(dice.bits()) & 0x7fffffffU;
        const float value = std::bit_cast<float>(bits);
        return std::isfinite(value) ? value : 0.25F;
      };
    default: {
      const double sum = static_cast<double>(vocab);
      return [&dice, sum](std::int64_t) {
        return static_cast<float>(-std::log1p(-dice.unit()) / sum);
      };
    }
  }
}

std::vector<float> fill(const Fill& pattern, std::int64_t vocab, DType dtype) {
  std::vector<float> row(static_cast<std::size_t>(vocab));
  for (std::int64_t id = 0; id < vocab; ++id) {
    row[static_cast<std::size_t>(id)] = harness::rounded_to(dtype, pattern(id));
  }
  return row;
}

// Sorted copy, largest first.
std::vector<float> ranked(const std::vector<float>& row) {
  std::vector<float> sorted = row;
  std::erase_if(sorted, [](float value) { return !std::isfinite(value); });
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  return sorted;
}

// Octaves of a row whose masses are powers of two and sum to 1: one token of mass 1, split in
// halves again and again. None is below 2^-20, so that every mass of a group is a float32.
std::vector<int> dyadic_octaves(Dice& dice, std::size_t vocab) {
  constexpr int kDeepest = 20;  // 2^20 tokens: no vocabulary is too large for it
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

// Makes the row dyadic, and top_p the mass above one of its values, or a float32 beside it.
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

std::int32_t any_top_k(Dice& dice, std::int64_t vocab) {
  const auto v = static_cast<std::int32_t>(vocab);
  if (dice.once_in(40)) return dice.pick({-2, -50, std::numeric_limits<std::int32_t>::min()});
  return dice.pick({0, -1, 1, 2, 3, v - 1, v, v + 1, std::numeric_limits<std::int32_t>::max(),
                    static_cast<std::int32_t>(dice.between(1, vocab)),
                    static_cast<std::int32_t>(dice.between(1, vocab))});
}

float any_unit_parameter(Dice& dice) {
  if (dice.once_in(40)) {
    return dice.pick(
        {-0.1F, -kSmallest, std::nextafter(1.0F, 2.0F), 90.0F, kInfinity, -kInfinity, kNan});
  }
  if (dice.once_in(4)) {
    return dice.pick({0.0F, -0.0F, kSmallest, 0x1p-126F, 0x1p-40F, 0x1p-24F, 1 - 0x1p-24F, 0.5F,
                      std::nextafter(0.5F, 1.0F)});
  }
  return static_cast<float>(dice.unit());
}

float any_temperature(Dice& dice) {
  if (dice.once_in(40)) {
    return dice.pick({-1.0F, -kSmallest, kSmallest, std::nextafter(0x1p-126F, 0.0F),
                      std::nextafter(0x1p64F, kInfinity), kInfinity, -kInfinity, kNan});
  }
  if (dice.once_in(8)) return dice.pick({0.0F, -0.0F, 0x1p-126F, 0x1p64F, 1e-20F, 1e10F});
  return dice.pick({1.0F, 1.0F, 0.7F, 0.1F, 2.0F, kOctave, static_cast<float>(dice.unit() * 3)});
}

}  // namespace

std::int64_t generate_vocab(Dice& dice, std::int64_t max_vocab) {
  static constexpr std::int64_t kWidths[] = {15,   16,   17,   31,   32,   33,   63,   64,   65,
                                             127,  128,  129,  255,  256,  257,  511,  513,  1023,
                                             1024, 1025, 2047, 2049, 4095, 4096, 4097, 8193, 16385};
  std::int64_t vocab = 0;
  if (dice.once_in(3)) {
    vocab = dice.between(1, 12);
  } else {
    // Half of those within the limit that come first: wide rows are dear, and seldom the point.
    const auto within = std::upper_bound(std::begin(kWidths), std::end(kWidths), max_vocab);
    const auto count = static_cast<std::uint64_t>(within - std::begin(kWidths));
    if (count == 0) return dice.between(1, max_vocab);
    const std::uint64_t reach = dice.once_in(8) ? count : std::min<std::uint64_t>(count, 9);
    vocab = kWidths[dice.below(reach)];
  }
  return std::min(vocab, max_vocab);
}

std::vector<float> generate_logits(Dice& dice, std::int64_t vocab, DType dtype) {
  std::vector<float> row = fill(logits_pattern(dice, vocab), vocab, dtype);
  if (dice.once_in(4)) write_runs(dice, row, -kInfinity);
  if (dice.once_in(16)) {
    const float bad = dice.pick({kNan, -kNan, kInfinity, -kInfinity});
    if (bad == -kInfinity) {
      std::fill(row.begin(), row.end(), bad);  // no allowed token
    } else {
      row[dice.below(row.size())] = bad;
    }
  }
  return row;
}

std::vector<float> generate_probabilities(Dice& dice, std::int64_t vocab, DType dtype) {
  std::vector<float> row = fill(probabilities_pattern(dice, vocab), vocab, dtype);
  if (dice.once_in(3)) write_runs(dice, row, dice.once_in(4) ? -0.0F : 0.0F);
  if (dice.once_in(16)) {
    const float bad = dice.pick({kNan, kInfinity, -kInfinity, -1.0F, -kSmallest, 0.0F});
    if (bad == 0) {
      std::fill(row.begin(), row.end(), bad);
    } else {
      row[dice.below(row.size())] = harness::rounded_to(dtype, bad);
    }
  }
  return row;
}

RowParameters generate_parameters(Dice& dice, std::vector<float>& row, harness::RowInput input,
                                  DType dtype) {
  const bool probabilities = input == harness::RowInput::probabilities;
  const auto vocab = static_cast<std::int64_t>(row.size());
  RowParameters parameters;
  if (!dice.once_in(3)) parameters.temperature = any_temperature(dice);
  if (dice.once_in(2)) parameters.top_k = any_top_k(dice, vocab);
  if (dice.once_in(2)) parameters.top_p = any_unit_parameter(dice);
  if (dice.once_in(3)) parameters.min_p = any_unit_parameter(dice);
  const std::vector<float> sorted = ranked(row);
  if (sorted.empty() || dice.once_in(2)) return parameters;

  // Aim at the row.
  switch (dice.below(4)) {
    case 0: {  // k at the edge of a group of ties
      const float value = dice.pick(sorted);
      const auto above =
          std::count_if(sorted.begin(), sorted.end(), [value](float x) { return x > value; });
      const auto with =
          std::count_if(sorted.begin(), sorted.end(), [value](float x) { return x >= value; });
      parameters.top_k =
          static_cast<std::int32_t>(dice.pick({above, above + 1, with - 1, with, with + 1}));
      break;
    }
    case 1:  // the mass in front of a token is exactly p
      meet_top_p(dice, row, probabilities, parameters);
      break;
    case 2: {  // min_p at a token's distance to the maximum
      const double largest = sorted.front(), value = dice.pick(sorted);
      if (!probabilities) parameters.temperature = kOctave;
      const double ratio = probabilities ? value / largest : std::exp2(value - largest);
      const auto exact = static_cast<float>(std::clamp(ratio, 0.0, 1.0));
      parameters.min_p = dice.pick(
          {exact, std::nextafter(exact, 0.0F), std::min(1.0F, std::nextafter(exact, 2.0F))});
      if (std::isnan(parameters.min_p)) parameters.min_p = 0;
      break;
    }
    default:  // copies of one value, so that the cut meets them
      if (!sorted.empty()) {
        const float value = dice.pick(sorted);
        for (std::uint64_t i = dice.below(4) + 1; i > 0; --i) {
          row[dice.below(row.size())] = harness::rounded_to(dtype, value);
        }
      }
  }
  return parameters;
}

}  // namespace fairdraw::suites::fuzz
