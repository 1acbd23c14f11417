#include "harness/inputs/random_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "harness/inputs/families.h"
#include "harness/inputs/ieee_math.h"
#include "harness/inputs/narrow_floats.h"
#include "harness/inputs/special_floats.h"

namespace fairdraw::harness {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

float any_float(Dice& dice) {
  return dice.pick({0.0F, -0.0F, 1.0F, -1.0F, kSmallest, -kSmallest, 0x1p-126F, kLargest, -kLargest,
                    0x1p64F, 88.0F, -104.0F, 0.1F, 1e-6F, 65504.0F});
}

float rounded(DType dtype, float value) {
  if (dtype == DType::float32) return value;
  return dtype == DType::float16 ? from_float16(to_float16(value))
                                 : from_bfloat16(to_bfloat16(value));
}

using Fill = std::function<float(std::int64_t)>;

// Returns a pattern of logits, as a function of the token's id.
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
    case 2: {  // values on a coarse grid: many ties
      const float unit = dice.pick({1.0F, 0.5F, 0.693147182F, 0x1.715476p0F, 0.125F});
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
    case 4:  // values that bfloat16 represents exactly
      return [&dice, scale](std::int64_t) {
        return rounded(DType::bfloat16, static_cast<float>(dice.bell() * scale));
      };
    case 5: {  // values in octaves, whose weights are powers of two at temperature 1 / ln 2
      const std::int64_t deepest = dice.pick<std::int64_t>({3, 8, 39, 41, 64});
      return
          [&dice, deepest](std::int64_t) { return -static_cast<float>(dice.between(0, deepest)); };
    }
    case 6:  // any float, from subnormal to the largest finite
      return [&dice](std::int64_t) {
        const float value = std::bit_cast<float>(static_cast<std::uint32_t>(dice.bits()));
        return std::isfinite(value) ? value : 0.0F;
      };
    case 7: {  // a slope
      const float slope = dice.pick({1.0F, -1.0F, 0.01F, -0.01F, 0x1p-12F});
      return [slope, base](std::int64_t id) { return base + slope * static_cast<float>(id); };
    }
    case 8: {  // one token far above all others
      const auto top = static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(vocab)));
      const float gap = dice.pick({1.0F, 27.0F, 28.0F, 44.0F, 100.0F, 1e30F});
      return [base, top, gap](std::int64_t id) { return id == top ? base : base - gap; };
    }
    default:
      return [&dice, scale](std::int64_t) { return static_cast<float>(dice.bell() * scale); };
  }
}

// Writes runs of `value`, each of one token up to half of the row.
void write_runs(Dice& dice, std::vector<float>& row, float value) {
  for (std::uint64_t runs = dice.below(3) + 1; runs > 0; --runs) {
    const std::size_t first = dice.below(row.size());
    const std::size_t length = dice.below(row.size() / 2 + 1) + 1;
    for (std::size_t i = first; i < std::min(row.size(), first + length); ++i) row[i] = value;
  }
}

Fill probabilities_pattern(Dice& dice, std::int64_t vocab) {
  const float base = dice.pick({1.0F, 0.5F, 0.3F, kSmallest, 0x1p-126F, kLargest, 1e-20F});
  switch (dice.below(7)) {
    case 0:
      return [base](std::int64_t) { return base; };
    case 1: {  // probabilities in any scale, down to subnormals
      const auto scale = static_cast<int>(dice.between(-130, 69));
      const std::int64_t spread = dice.pick<std::int64_t>({2, 29});
      const bool dyadic = dice.once_in(2);
      return [&dice, scale, spread, dyadic](std::int64_t) {
        const auto mantissa = dyadic ? 1.0F : static_cast<float>(dice.bits() >> 40);
        const int exponent = scale - static_cast<int>(dice.between(0, spread)) - 24;
        return std::ldexp(mantissa, std::clamp(exponent, -149, 90));
      };
    }
    case 2: {  // dyadic probabilities, so that sums are exact
      const std::int64_t deepest = dice.pick<std::int64_t>({3, 10, 40, 41});
      return [&dice, deepest](std::int64_t) {
        return std::ldexp(1.0F, static_cast<int>(-dice.between(0, deepest)));
      };
    }
    case 3:  // adjacent floats
      return [&dice, base](std::int64_t) {
        return dice.once_in(2) ? base : std::nextafter(base, 0.0F);
      };
    case 4: {  // one token has nearly all of the mass
      const auto top = static_cast<std::int64_t>(dice.below(static_cast<std::uint64_t>(vocab)));
      return [&dice, top](std::int64_t id) {
        return id == top ? 1.0F : static_cast<float>(dice.unit() * 1e-9);
      };
    }
    case 5:  // any magnitude
      return [&dice](std::int64_t) {
        const auto bits = static_cast<std::uint32_t>(dice.bits()) & 0x7fffffffU;
        const float value = std::bit_cast<float>(bits);
        return std::isfinite(value) ? value : 0.25F;
      };
    default: {
      const double sum = static_cast<double>(vocab);
      return [&dice, sum](std::int64_t) {
        return static_cast<float>(-natural_log(1 - dice.unit()) / sum);
      };
    }
  }
}

std::vector<float> fill(const Fill& pattern, std::int64_t vocab, DType dtype) {
  std::vector<float> row(static_cast<std::size_t>(vocab));
  for (std::int64_t id = 0; id < vocab; ++id) {
    row[static_cast<std::size_t>(id)] = rounded(dtype, pattern(id));
  }
  return row;
}

// Returns a row of a family; some rows are changed to have few distinct values, or zeros of both
// signs.
std::vector<float> family_row(Dice& dice, std::int64_t vocab, DType dtype) {
  std::vector<float> row(static_cast<std::size_t>(vocab));
  const Family family = dice.pick(all_families());
  const std::uint64_t stream = dice.bits();
  generate_row(family, stream, dice.below(1000), row);
  const std::uint64_t change = dice.below(8);
  for (float& x : row) {
    if (change == 0 && std::isfinite(x)) x = std::nearbyint(std::clamp(x, -9.0F, 9.0F));
    if (change == 1 && dice.once_in(3)) x = dice.pick({0.0F, -0.0F});
    x = rounded(dtype, x);
  }
  return row;
}

}  // namespace

std::int64_t random_vocab(Dice& dice, std::int64_t max_vocab) {
  static constexpr std::int64_t kWidths[] = {15,   16,   17,   31,   32,   33,   63,   64,   65,
                                             127,  128,  129,  255,  256,  257,  511,  513,  1023,
                                             1024, 1025, 2047, 2049, 4095, 4096, 4097, 8193, 16385};
  std::int64_t vocab = 0;
  if (dice.once_in(3)) {
    vocab = dice.between(1, 12);
  } else {
    // The size is mostly one of the first nine widths, because wide rows are expensive and seldom
    // needed.
    const auto within = std::upper_bound(std::begin(kWidths), std::end(kWidths), max_vocab);
    const auto count = static_cast<std::uint64_t>(within - std::begin(kWidths));
    if (count == 0) return dice.between(1, max_vocab);
    const std::uint64_t reach = dice.once_in(8) ? count : std::min<std::uint64_t>(count, 9);
    vocab = kWidths[dice.below(reach)];
  }
  return std::min(vocab, max_vocab);
}

std::vector<float> random_logits(Dice& dice, std::int64_t vocab, DType dtype) {
  std::vector<float> row = dice.once_in(2) ? family_row(dice, vocab, dtype)
                                           : fill(logits_pattern(dice, vocab), vocab, dtype);
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

std::vector<float> random_probabilities(Dice& dice, std::int64_t vocab, DType dtype) {
  std::vector<float> row = fill(probabilities_pattern(dice, vocab), vocab, dtype);
  if (dice.once_in(3)) write_runs(dice, row, dice.once_in(4) ? -0.0F : 0.0F);
  if (dice.once_in(16)) {
    const float bad = dice.pick({kNan, kInfinity, -kInfinity, -1.0F, -kSmallest, 0.0F});
    if (bad == 0) {
      std::fill(row.begin(), row.end(), bad);
    } else {
      row[dice.below(row.size())] = rounded(dtype, bad);
    }
  }
  return row;
}

std::vector<std::uint32_t> random_allowed(Dice& dice, std::int64_t vocab) {
  std::vector<std::uint32_t> allowed(static_cast<std::size_t>((vocab + 31) / 32));
  const std::uint64_t way = dice.below(6);
  for (std::uint32_t& word : allowed) {
    const auto a = static_cast<std::uint32_t>(dice.bits());
    const auto b = static_cast<std::uint32_t>(dice.bits());
    word = way == 0   ? ~0U
           : way == 1 ? (dice.once_in(2) ? ~0U : 0U)  // whole blocks
           : way == 2 ? 0U
           : way == 3 ? a & b
           : way == 4 ? a | b
                      : a;
  }
  if (way != 2) return allowed;
  const std::uint64_t only = dice.below(static_cast<std::uint64_t>(vocab));
  allowed[only / 32] = 1U << (only % 32);
  return allowed;
}

std::vector<std::int32_t> random_indices(Dice& dice, std::int64_t rows, std::uint64_t most,
                                         bool faults) {
  std::vector<std::int32_t> indices(dice.below(most) + 1);
  for (std::int32_t& index : indices) {
    index = static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(rows)));
    if (!faults || !dice.once_in(12)) continue;
    index =
        dice.pick({-1, static_cast<std::int32_t>(rows), std::numeric_limits<std::int32_t>::max(),
                   std::numeric_limits<std::int32_t>::min()});
  }
  return indices;
}

std::uint64_t random_seed(Dice& dice) {
  const std::uint64_t bits = dice.bits();
  return dice.pick<std::uint64_t>(
      {bits, bits, 0, 1, 2, ~std::uint64_t{0}, std::uint64_t{1} << 32, 0xffffffffU});
}

}  // namespace fairdraw::harness
