#include "harness/inputs/families.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cstddef>
#include <limits>

#include "fairdraw/types.h"
#include "harness/contract/usage_error.h"
#include "harness/inputs/counter_random.h"
#include "harness/inputs/ieee_math.h"

namespace fairdraw::harness {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

/// Numbers of substreams. The random words of a row's elements come from the row's stream itself,
/// and all other words from these substreams.
constexpr std::uint64_t kOrderStream = 1, kAmountStream = 2, kOffsetStream = 3,
                        kReplacementStream = 4;

struct FamilyName {
  Family family;
  const char* name;
  const char* description;
};

// The descriptions are in the order of the enum Family, because to_string indexes them.
constexpr auto kFamilies = std::to_array<FamilyName>({
    {Family::gaussian, "gaussian", "flat: many tokens near every cut, a large nucleus"},
    {Family::gaussian_wide, "gaussian_wide", "the spread of a trained model, without its head"},
    {Family::zipf, "zipf", "a long tail: half of the mass lies beyond rank sqrt(V)"},
    {Family::peaked, "peaked", "a few raised tokens over a wide body, as a trained model gives"},
    {Family::flat, "flat", "nearly equal, all different: thresholds must resolve single ulps"},
    {Family::all_equal, "all_equal", "one tie as large as the vocabulary"},
    {Family::ties_at_k, "ties_at_k",
     "every usual cut of top-k falls inside a tie, of top-p at one"},
    {Family::mass_exactly_p, "mass_exactly_p",
     "partial sums that equal 1/2, 3/4, 7/8, ... exactly"},
    {Family::dyadic, "dyadic", "every weight a power of two: all sums exact, ties everywhere"},
    {Family::subnormal, "subnormal", "a sampler that flushes subnormals loses the order"},
    {Family::masked, "masked", "fifteen of sixteen tokens are -inf: they are never drawn"},
    {Family::single_support, "single_support", "one token can be drawn: no other, at any uniform"},
    {Family::huge_range, "huge_range",
     "differences overflow float32; nearly every weight vanishes"},
    {Family::all_negative, "all_negative",
     "an accumulator or a padding of 0 wins over every logit"},
    {Family::bf16_rounded, "bf16_rounded", "ties everywhere, as engines with bfloat16 logits see"},
    {Family::head_and_tail, "head_and_tail",
     "tail weights below half an ulp of the head: float32 sums drop a mass of V e^-18"},
    {Family::tile_ends, "tile_ends",
     "mass and maximum where loops over vectors, tiles and warps begin and end"},
    {Family::signed_zeros, "signed_zeros",
     "a tie of +0 and -0: keys made of the bits tell them apart"},
    {Family::few_allowed, "few_allowed",
     "as a grammar leaves it: filters that keep every token, the smallest one too"},
});

/// A guard that sets the default rounding mode, without flush to zero, until the end of the scope.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

/// Sets row[i] = (float)(mean + deviation * z_i). 95 of 100 values are in the central range of the
/// quantile function, whose code runs without branches over a block; the other values are computed
/// again.
void fill_gaussian(const CounterRandom& random, double mean, double deviation,
                   std::span<float> row) {
  constexpr std::size_t kBlock = 256;
  std::array<double, kBlock> uniform;
  for (std::size_t start = 0; start < row.size(); start += kBlock) {
    const std::size_t count = std::min(kBlock, row.size() - start);
    float* values = row.data() + start;
    for (std::size_t i = 0; i < count; ++i) uniform[i] = open_uniform(random.word(start + i));
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(mean + deviation * normal_quantile_central(uniform[i]));
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (uniform[i] < kQuantileTail || uniform[i] > 1.0 - kQuantileTail) {
        values[i] = static_cast<float>(mean + deviation * normal_quantile(uniform[i]));
      }
    }
  }
}

/// Returns an integer in [-8, 8] to add to the whole row, so that rows differ even if their shape
/// does not.
float row_offset(const CounterRandom& random) {
  return static_cast<float>(random.substream(kOffsetStream).below(17, 0)) - 8.0f;
}

void fill_zipf(const CounterRandom& random, std::span<float> row) {
  const Permutation rank(random.substream(kOrderStream), row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(-natural_log(static_cast<double>(rank(i) + 1)));
  }
}

void fill_peaked(const CounterRandom& random, std::span<float> row) {
  constexpr std::size_t kRaised = 64;
  constexpr double kMeanRaise = 4.0;
  fill_gaussian(random, 0.0, 2.0, row);
  const Permutation place(random.substream(kOrderStream), row.size());
  const CounterRandom raise = random.substream(kAmountStream);
  for (std::size_t j = 0; j < std::min(kRaised, row.size()); ++j) {
    float& value = row[place(j)];
    value = static_cast<float>(static_cast<double>(value) -
                               kMeanRaise * natural_log(open_uniform(raise.word(j))));
  }
}

void fill_flat(const CounterRandom& random, std::span<float> row) {
  // The values are stratified quantiles: the token of rank r takes its quantile from the middle
  // half of [r, r + 1] / V, so that neighbours are at least 0.01 sqrt(2 pi) / (2 V) >= 1.1e-8
  // apart. All values are below 2^-4, where neighbouring float32 values are 3.8e-9 apart, so no two
  // values are equal.
  const Permutation rank(random.substream(kOrderStream), row.size());
  const auto vocab = static_cast<double>(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double within = 0.25 + 0.5 * open_uniform(random.word(i));
    const double p = (static_cast<double>(rank(i)) + within) / vocab;
    row[i] = static_cast<float>(0.01 * normal_quantile(p));
  }
}

/// Assigns one value to each group of ids, in a pseudorandom order of the ids.
class GroupFiller {
 public:
  GroupFiller(const CounterRandom& random, std::span<float> row)
      : place_(random.substream(kOrderStream), row.size()), row_(row) {}

  std::size_t left() const { return row_.size() - filled_; }

  void add(std::size_t size, float value) {
    for (const std::size_t end = filled_ + size; filled_ < end; ++filled_) {
      row_[place_(filled_)] = value;
    }
  }

 private:
  Permutation place_;
  std::span<float> row_;
  std::size_t filled_ = 0;
};

void fill_ties_at_k(const CounterRandom& random, std::span<float> row) {
  // Groups end at the ranks 3, 12, 48, 192, ..., which users do not choose as k. From the third
  // group on, each group has four times as many tokens as the one before. The step of 1.25 between
  // values is a little less than ln 4, so that all groups keep some mass and the token that crosses
  // p is tied too.
  GroupFiller groups(random, row);
  float value = row_offset(random);
  for (std::size_t size = 3; groups.left() > 0; value -= 1.25f) {
    groups.add(std::min(size, groups.left()), value);
    size = size == 3 ? 9 : 4 * size;
  }
}

void fill_mass_exactly_p(const CounterRandom& random, std::span<float> row) {
  // Group j = 1, 2, ... has the mass 2^-j, and its number of tokens is a power of two. The last
  // group has the same mass as the group before it, so that all masses add up to 1. Group sizes
  // never decrease, so that groups are ordered by logit: first come up to four single tokens, then
  // one group per bit of the remaining vocabulary size. The smallest weight is 2^-40 of the largest
  // (for a vocabulary of 2^20 - 1 tokens). Weights by tiles represent powers of two exactly within
  // 48 octaves.
  constexpr std::size_t kSingles = 4;
  GroupFiller groups(random, row);
  const float largest = row_offset(random);
  int exponent = 0;  // exponent of the previous group's mass
  // The first logit is `largest`, whatever its weight is; in rows of two tokens or more its weight
  // is 1/2.
  const int first = row.size() > 1 ? 1 : 0;
  const auto add = [&](std::size_t size) {
    const bool last = groups.left() == size;
    if (!last) ++exponent;
    const int halvings = exponent + static_cast<int>(std::bit_width(size)) - 1;
    groups.add(size, largest - static_cast<float>(halvings - first));
  };
  for (std::size_t single = 0; single < kSingles && groups.left() > 1; ++single) add(1);
  while (groups.left() > 0) add(std::size_t{1} << std::countr_zero(groups.left()));
}

void fill_dyadic(const CounterRandom& random, std::span<float> row) {
  // The values are integers within [-19, 19], so weights span 38 octaves and no weight is rounded.
  constexpr float kToInteger = 0x1.8p23f;  // adding this constant rounds to nearest even
  fill_gaussian(random, 0.0, 3.0, row);
  for (float& value : row) {
    value = std::clamp(value + kToInteger - kToInteger, -19.0f, 19.0f);
  }
}

void fill_subnormal(const CounterRandom& random, std::span<float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(random.word(i) >> 32);
    row[i] = std::bit_cast<float>((bits & 0x807fffff) | 1);  // never zero
  }
}

// Fills a row with N(0, 1) at `allowed` ids in pseudorandom places, and with -inf elsewhere.
void fill_some(const CounterRandom& random, std::size_t allowed, std::span<float> row) {
  fill_gaussian(random, 0.0, 1.0, row);
  const Permutation rank(random.substream(kOrderStream), row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (rank(i) >= allowed) row[i] = kMinusInfinity;
  }
}

void fill_masked(const CounterRandom& random, std::span<float> row) {
  fill_some(random, std::max<std::size_t>(1, row.size() / 16), row);
}

void fill_few_allowed(const CounterRandom& random, std::span<float> row) {
  fill_some(random, 2 + random.substream(kAmountStream).below(8, 0), row);
}

void fill_single_support(const CounterRandom& random, std::span<float> row) {
  std::fill(row.begin(), row.end(), kMinusInfinity);
  row[random.below(row.size(), 0)] = row_offset(random);
}

void fill_huge_range(const CounterRandom& random, std::span<float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::uint64_t word = random.word(i);
    const std::uint64_t exponent = ((word >> 32) * 255) >> 32;  // 0 (subnormal) to 254
    const std::uint64_t sign_and_fraction = word & 0x807fffff;
    row[i] = std::bit_cast<float>(static_cast<std::uint32_t>(sign_and_fraction | exponent << 23));
  }
}

void fill_head_and_tail(const CounterRandom& random, std::span<float> row) {
  constexpr float kGap = 18.0f;  // e^-18 = 1.5e-8, below 2^-25 = 3.0e-8
  const float head = row_offset(random);
  std::fill(row.begin(), row.end(), head - kGap);
  row[random.below(row.size(), 0)] = head;
}

bool is_at_an_end(std::size_t id, std::size_t vocab) {
  constexpr std::size_t kTile = 256, kMargin = 40;  // the margin exceeds a vector of 32 values
  return id % kTile == 0 || id % kTile == kTile - 1 || id < kMargin || id + kMargin >= vocab;
}

// Returns the id for the row's maximum: the first or last id of a block of 2^2 to 2^16 ids, or one
// of the last four ids of the row. All 34 kinds of ids are equally likely.
std::size_t end_of_a_block(const CounterRandom& random, std::size_t vocab) {
  constexpr std::uint64_t kSizes = 15, kLast = 4;
  const std::uint64_t kind = random.below(2 * kSizes + kLast, 0);
  const std::size_t block = std::size_t{4} << kind / 2;
  if (kind >= 2 * kSizes || block >= vocab) {
    return vocab - 1 - std::min<std::size_t>(random.below(kLast, 1), vocab - 1);
  }
  const std::size_t start = block * (1 + random.below((vocab - 1) / block, 2));  // > 0, < vocab
  return kind % 2 == 0 ? start : start - 1;
}

void fill_tile_ends(const CounterRandom& random, std::span<float> row) {
  constexpr float kGap = 12.0f;  // 2^20 ids at this gap have a total weight of 6
  fill_gaussian(random, 0.0, 1.0, row);
  for (std::size_t id = 0; id < row.size(); ++id) {
    if (!is_at_an_end(id, row.size())) row[id] -= kGap;
  }
  const std::size_t best = end_of_a_block(random.substream(kOrderStream), row.size());
  row[best] = *std::max_element(row.begin(), row.end()) + 1.0f;
}

void fill_signed_zeros(const CounterRandom& random, std::span<float> row) {
  fill_gaussian(random, 0.0, 1.0, row);
  const CounterRandom kind = random.substream(kAmountStream);
  for (std::size_t id = 0; id < row.size(); ++id) {
    const std::uint64_t word = kind.word(id);
    // This keeps values out of (-2^-10, 0), so that no dtype rounds them to zero.
    const float below = -0x1p-10f - std::max(row[id], -row[id]);
    const float zero = (word >> 32 & 1) != 0 ? -0.0f : 0.0f;
    row[id] = id > 0 && word % 3 == 0 ? zero : below;
  }
}

void fill(Family family, const CounterRandom& random, std::span<float> row) {
  switch (family) {
    case Family::gaussian:
      return fill_gaussian(random, 0.0, 1.0, row);
    case Family::gaussian_wide:
      return fill_gaussian(random, 0.0, 2.0, row);
    case Family::zipf:
      return fill_zipf(random, row);
    case Family::peaked:
      return fill_peaked(random, row);
    case Family::flat:
      return fill_flat(random, row);
    case Family::all_equal:
      return std::fill(row.begin(), row.end(), row_offset(random));
    case Family::ties_at_k:
      return fill_ties_at_k(random, row);
    case Family::mass_exactly_p:
      return fill_mass_exactly_p(random, row);
    case Family::dyadic:
      return fill_dyadic(random, row);
    case Family::subnormal:
      return fill_subnormal(random, row);
    case Family::masked:
      return fill_masked(random, row);
    case Family::single_support:
      return fill_single_support(random, row);
    case Family::huge_range:
      return fill_huge_range(random, row);
    case Family::all_negative:
      return fill_gaussian(random, -100.0, 1.0, row);
    case Family::bf16_rounded:
      fill_gaussian(random, 0.0, 2.0, row);
      for (float& value : row) value = from_bfloat16(to_bfloat16(value));
      return;
    case Family::head_and_tail:
      return fill_head_and_tail(random, row);
    case Family::tile_ends:
      return fill_tile_ends(random, row);
    case Family::signed_zeros:
      return fill_signed_zeros(random, row);
    case Family::few_allowed:
      return fill_few_allowed(random, row);
  }
  throw UsageError("family " + std::to_string(static_cast<int>(family)) + " does not exist");
}

/// Moves the maximum away from id 0, so that a sampler that returns 0 when it has no answer is
/// always wrong. Id 0 swaps its value with the first smaller one that is found from a pseudorandom
/// id on.
void keep_maximum_off_id_0(const CounterRandom& random, std::span<float> row) {
  if (row[0] != *std::max_element(row.begin(), row.end())) return;
  const auto is_less = [largest = row[0]](float value) { return value < largest; };
  const auto start = row.begin() + static_cast<std::ptrdiff_t>(
                                       random.substream(kReplacementStream).below(row.size(), 0));
  auto other = std::find_if(start, row.end(), is_less);
  if (other == row.end()) other = std::find_if(row.begin(), row.end(), is_less);
  if (other != row.end()) std::iter_swap(row.begin(), other);
}

// The function is not inlined, so that the compiler moves no operation before the change of the
// floating-point environment.
[[gnu::noinline]] void generate(Family family, const CounterRandom& random, std::span<float> row) {
  fill(family, random, row);
  keep_maximum_off_id_0(random, row);
}

}  // namespace

std::span<const Family> all_families() {
  static constexpr auto kAll = [] {
    std::array<Family, kFamilies.size()> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = kFamilies[i].family;
    return all;
  }();
  return kAll;
}

const char* to_string(Family family) { return kFamilies.at(static_cast<std::size_t>(family)).name; }

const char* description(Family family) {
  return kFamilies.at(static_cast<std::size_t>(family)).description;
}

Family family_from_name(std::string_view name) {
  std::vector<std::string> names;
  for (const FamilyName& known : kFamilies) {
    if (known.name == name) return known.family;
    names.emplace_back(known.name);
  }
  throw UsageError(unknown_name_message("family", name, names));
}

void generate_row(Family family, std::uint64_t seed, std::uint64_t row_number,
                  std::span<float> row) {
  if (row.empty() || row.size() > static_cast<std::size_t>(kMaxVocab)) {
    throw UsageError("vocab is " + std::to_string(row.size()) + "; allowed: 1 to " +
                     std::to_string(kMaxVocab));
  }
  const DefaultFloatEnvironment environment;
  generate(family, CounterRandom::of(static_cast<std::uint64_t>(family), seed, row_number), row);
}

}  // namespace fairdraw::harness
