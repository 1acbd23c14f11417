// Tests, for each family, the property for which the family exists.

#include "harness/inputs/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <boost/math/distributions/normal.hpp>
#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "fairdraw/types.h"
#include "harness/contract/usage_error.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fairdraw::harness {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> generated(Family family, std::size_t vocab, std::uint64_t seed = 1,
                             std::uint64_t row_number = 0) {
  std::vector<float> row(vocab, std::numeric_limits<float>::quiet_NaN());
  generate_row(family, seed, row_number, row);
  return row;
}

std::vector<float> sorted_descending(std::vector<float> row) {
  std::sort(row.begin(), row.end(), std::greater<>());
  return row;
}

std::size_t number_of_values(const std::vector<float>& row) {
  return std::set<float>(row.begin(), row.end()).size();
}

/// Returns the bits of the values of a row, so that comparisons distinguish -0 from +0 and
/// different NaNs.
std::vector<std::uint32_t> bits_of(const std::vector<float>& row) {
  std::vector<std::uint32_t> bits;
  for (const float value : row) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

constexpr std::size_t kVocabs[] = {1, 2, 3, 4, 5, 7, 16, 17, 255, 256, 257, 1000, 32000};

TEST(Families, names_are_found_again_and_unknown_ones_get_a_suggestion) {
  EXPECT_EQ(all_families().size(), 19u);
  for (const Family family : all_families()) {
    EXPECT_EQ(family_from_name(to_string(family)), family);
    EXPECT_STRNE(description(family), "");
  }
  try {
    family_from_name("gausian");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("unknown family 'gausian'; did you mean 'gaussian'?"),
              std::string::npos)
        << error.what();
  }
}

TEST(Families, a_vocabulary_out_of_range_is_refused) {
  EXPECT_THROW(generate_row(Family::gaussian, 1, 0, {}), UsageError);
  std::vector<float> row(static_cast<std::size_t>(kMaxVocab) + 1);
  EXPECT_THROW(generate_row(Family::gaussian, 1, 0, row), UsageError);
}

TEST(Families, every_element_is_written_and_none_is_nan_or_plus_infinity) {
  for (const Family family : all_families()) {
    for (const std::size_t vocab : kVocabs) {
      for (const float value : generated(family, vocab)) {
        ASSERT_LT(value, kInf) << to_string(family) << " " << vocab;
      }
    }
  }
}

TEST(Families, the_maximum_is_never_at_id_0_where_there_are_two_values) {
  for (const Family family : all_families()) {
    for (const std::size_t vocab : kVocabs) {
      for (std::uint64_t row_number = 0; row_number < 20; ++row_number) {
        const std::vector<float> row = generated(family, vocab, 3, row_number);
        const auto [smallest, largest] = std::minmax_element(row.begin(), row.end());
        if (*smallest == *largest) {
          // In rows of fewer than five tokens all values may be equal, by design or by chance
          // (dyadic); in wider rows only those of all_equal are.
          EXPECT_TRUE(vocab < 5 || family == Family::all_equal)
              << to_string(family) << " " << vocab;
        } else {
          EXPECT_LT(row[0], *largest) << to_string(family) << " " << vocab << " " << row_number;
        }
      }
    }
  }
}

TEST(Families, rows_seeds_and_families_differ_and_a_repeat_is_equal) {
  for (const Family family : all_families()) {
    const auto row = bits_of(generated(family, 1000, 1, 0));
    EXPECT_EQ(bits_of(generated(family, 1000, 1, 0)), row);
    // The family has only 17 different values, so rows may be equal.
    if (family == Family::all_equal) continue;
    EXPECT_NE(bits_of(generated(family, 1000, 1, 1)), row) << to_string(family);
    EXPECT_NE(bits_of(generated(family, 1000, 2, 0)), row) << to_string(family);
    EXPECT_NE(bits_of(generated(family, 1000, 1, std::uint64_t{1} << 63)), row)
        << to_string(family);
    EXPECT_NE(bits_of(generated(family, 1000, ~std::uint64_t{0}, 0)), row) << to_string(family);
  }
  EXPECT_NE(generated(Family::gaussian, 1000), generated(Family::gaussian_wide, 1000));
}

TEST(Families, the_callers_float_environment_changes_nothing_and_is_kept) {
  for (const Family family : all_families()) {
    const auto expected = bits_of(generated(family, 1000));
    for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST}) {
      ASSERT_EQ(std::fesetround(mode), 0);
#if defined(__SSE2__)
      constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
      const unsigned saved = _mm_getcsr();
      _mm_setcsr(saved | kFlushToZero | kDenormalsAreZero);
#endif
      std::vector<float> row(1000);
      generate_row(family, 1, 0, row);
      const int mode_after = std::fegetround();
#if defined(__SSE2__)
      const unsigned csr_after = _mm_getcsr();
      _mm_setcsr(saved);
      EXPECT_EQ(csr_after & (kFlushToZero | kDenormalsAreZero), kFlushToZero | kDenormalsAreZero);
#endif
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(mode_after, mode);
      EXPECT_EQ(bits_of(row), expected) << to_string(family) << " mode " << mode;
    }
  }
}

/// Returns the largest distance between the empirical distribution function of `values` and that of
/// N(mean, deviation^2).
double kolmogorov_distance(std::vector<float> values, double mean, double deviation) {
  std::sort(values.begin(), values.end());
  const boost::math::normal normal(mean, deviation);
  const auto n = static_cast<double>(values.size());
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double p = cdf(normal, static_cast<double>(values[i]));
    const auto rank = static_cast<double>(i);
    largest = std::max({largest, p - rank / n, (rank + 1) / n - p});
  }
  return largest;
}

TEST(Families, gaussian_families_have_their_distribution) {
  constexpr std::size_t kVocab = 200'000;
  // The bound is that of Dvoretzky, Kiefer, Wolfowitz and Massart: P(distance > t) <= 2 exp(-2 n
  // t^2), here 1e-9. Rounding to float32 moves the distribution function by less than 2^-24.
  const double bound = std::sqrt(std::log(2 / 1e-9) / (2.0 * kVocab)) + 0x1p-24;
  EXPECT_LT(kolmogorov_distance(generated(Family::gaussian, kVocab), 0, 1), bound);
  EXPECT_LT(kolmogorov_distance(generated(Family::gaussian_wide, kVocab), 0, 2), bound);
  EXPECT_LT(kolmogorov_distance(generated(Family::flat, kVocab), 0, 0.01), bound);
  // Near -100 a float32 rounds by up to 2^-18 (half of 2^-17), where the density is at most 0.4.
  EXPECT_LT(kolmogorov_distance(generated(Family::all_negative, kVocab), -100, 1),
            bound + 0.4 * 0x1p-18);
  // The same bound must distinguish a deviation of 2 from one of 1.97: the distribution functions
  // differ by 0.0036 at 2.
  EXPECT_GT(kolmogorov_distance(generated(Family::gaussian_wide, kVocab), 0, 1.9), bound);
}

TEST(Families, flat_values_are_all_different_and_nearly_equal) {
  for (const std::size_t vocab : {2u, 1000u, 128256u, 1u << 20}) {
    const std::vector<float> row = sorted_descending(generated(Family::flat, vocab));
    EXPECT_EQ(std::adjacent_find(row.begin(), row.end()), row.end()) << vocab;
    // The largest value is 0.01 times the quantile of 1 - 2^-22, which is 5.2, so the value is
    // below 2^-4.
    EXPECT_LT(row.front(), 0x1p-4f);
    EXPECT_GT(row.back(), -0x1p-4f);
  }
}

TEST(Families, zipf_holds_minus_ln_of_every_rank) {
  const std::vector<float> row = sorted_descending(generated(Family::zipf, 128256));
  for (std::size_t i = 0; i < row.size(); ++i) {
    // An error of 2 ulps in double, before rounding to float32, moves the result by at most one
    // place.
    const auto expected = static_cast<float>(-std::log(static_cast<double>(i + 1)));
    ASSERT_LE(std::abs(row[i] - expected),
              std::nextafter(std::abs(expected), kInf) - std::abs(expected))
        << i;
  }
  EXPECT_NE(generated(Family::zipf, 1000, 1, 0), generated(Family::zipf, 1000, 1, 1));
}

TEST(Families, peaked_raises_64_ids_of_a_gaussian_of_deviation_2) {
  // The body is N(0, 2^2). Without the 64 largest values, the distribution lacks at most the tail
  // above 2 * 6. A Gaussian row of 128256 tokens has a value above 12 with probability 128256 *
  // 1e-9 < 1.3e-4, and the row is fixed. An exponential of mean 4 exceeds 12 - 2 * 2 with
  // probability e^-2.
  const std::vector<float> row = sorted_descending(generated(Family::peaked, 128256));
  EXPECT_GT(row[0], 12.0f);
  EXPECT_LT(row[64], 12.0f);
  const double distance = kolmogorov_distance(std::vector<float>(row.begin(), row.end()), 0, 2);
  const auto n = static_cast<double>(row.size());
  EXPECT_LT(distance, std::sqrt(std::log(2 / 1e-9) / (2 * n)) + 64 / n);
}

TEST(Families, all_equal_has_one_value) {
  for (const std::size_t vocab : kVocabs) {
    EXPECT_EQ(number_of_values(generated(Family::all_equal, vocab)), 1u);
  }
}

TEST(Families, ties_at_k_cuts_usual_k_inside_a_tie_and_top_p_at_one) {
  for (const std::size_t vocab : {64u, 1000u, 32000u, 128256u, 262144u, 1u << 20}) {
    const std::vector<float> row = sorted_descending(generated(Family::ties_at_k, vocab));
    for (const std::size_t k : std::initializer_list<std::size_t>{
             1,   2,   5,   8,   10,   16,   20,   32,   40,   50,   64,   100,   128,  200,
             250, 256, 500, 512, 1000, 1024, 2000, 2048, 4096, 5000, 8192, 10000, 20000}) {
      if (k < vocab) {
        EXPECT_EQ(row[k - 1], row[k]) << vocab << " k " << k;
      }
    }
    double total = 0;
    for (const float value : row) total += std::exp(static_cast<double>(value - row[0]));
    for (const double p : {0.1, 0.5, 0.8, 0.9, 0.95, 0.99}) {
      double above = 0;
      std::size_t kept = 0;
      while (above < p * total) above += std::exp(static_cast<double>(row[kept++] - row[0]));
      // The token at which the cumulative mass crosses p is one of several equal tokens.
      EXPECT_GT(std::count(row.begin(), row.end(), row[kept - 1]), 1) << vocab << " p " << p;
    }
  }
}

/// Returns 2^(value - largest) * 2^40, the weight at T = 0x1.715476p0, as an integer; the
/// difference must be an integer.
std::uint64_t dyadic_weight(float value, float largest) {
  const float difference = largest - value;
  EXPECT_EQ(difference, std::floor(difference));
  EXPECT_LE(difference, 40.0f);
  return std::uint64_t{1} << (40 - static_cast<int>(difference));
}

TEST(Families, at_the_temperature_of_c_1_the_scale_is_exactly_1) {
  EXPECT_EQ(static_cast<float>(0x1.71547652b82fep0 / 0x1.715476p0), 1.0f);
}

TEST(Families, mass_exactly_p_has_partial_sums_of_1_2_3_4_7_8_exactly) {
  std::vector<std::size_t> vocabs(600);
  std::iota(vocabs.begin(), vocabs.end(), 1);
  for (const std::size_t vocab :
       {1000u, 32000u, 50304u, 128256u, (1u << 20) - 2, (1u << 20) - 1, 1u << 20}) {
    vocabs.push_back(vocab);
  }
  for (const std::size_t vocab : vocabs) {
    const std::vector<float> row = sorted_descending(generated(Family::mass_exactly_p, vocab));
    std::uint64_t total = 0;
    for (const float value : row) total += dyadic_weight(value, row[0]);
    ASSERT_TRUE(std::has_single_bit(total)) << vocab;
    std::uint64_t sum = 0, expected = total / 2, rest = total / 2;
    for (std::size_t i = 0; i < vocab && rest > 0; ++i) {
      ASSERT_LE(sum, expected) << vocab << " " << i;
      if (sum == expected) {
        rest /= 2;
        expected += rest;
      }
      sum += dyadic_weight(row[i], row[0]);
      if (vocab >= 2 && i < std::min(std::size_t{4}, vocab - 1)) {
        // Each of the first tokens completes the next partial sum by itself.
        ASSERT_EQ(sum, total - (total >> (i + 1))) << vocab << " " << i;
      }
    }
  }
}

TEST(Families, dyadic_logits_are_integers_within_38) {
  const std::vector<float> row = sorted_descending(generated(Family::dyadic, 128256));
  for (const float value : row) ASSERT_EQ(value, std::nearbyint(value));
  EXPECT_LE(row.front() - row.back(), 38.0f);
  EXPECT_GE(dyadic_weight(row.back(), row.front()), 4u);  // 2^40 / 2^38
  // The values of N(0, 3^2) must at least contain the integers within two deviations.
  EXPECT_GE(number_of_values(row), 13u);
}

TEST(Families, subnormal_values_are_subnormal_and_of_both_signs) {
  const std::vector<float> row = generated(Family::subnormal, 1000);
  for (const float value : row) ASSERT_EQ(std::fpclassify(value), FP_SUBNORMAL);
  EXPECT_TRUE(std::any_of(row.begin(), row.end(), [](float value) { return value < 0; }));
  EXPECT_TRUE(std::any_of(row.begin(), row.end(), [](float value) { return value > 0; }));
}

TEST(Families, masked_leaves_one_token_in_sixteen) {
  for (const std::size_t vocab : kVocabs) {
    const std::vector<float> row = generated(Family::masked, vocab);
    const auto finite = static_cast<std::size_t>(
        std::count_if(row.begin(), row.end(), [](float value) { return value > -kInf; }));
    EXPECT_EQ(finite, std::max<std::size_t>(1, vocab / 16)) << vocab;
  }
}

TEST(Families, single_support_has_one_finite_value) {
  for (const std::size_t vocab : kVocabs) {
    const std::vector<float> row = generated(Family::single_support, vocab);
    EXPECT_EQ(std::count(row.begin(), row.end(), -kInf), static_cast<std::ptrdiff_t>(vocab) - 1);
  }
}

TEST(Families, few_allowed_leaves_two_to_nine_tokens_and_each_number_of_them) {
  for (const std::size_t vocab : kVocabs) {
    std::set<std::ptrdiff_t> numbers;
    // The probability that one of the 8 counts is missing from 200 rows is (7/8)^200 = 3e-12 each.
    for (std::uint64_t row_number = 0; row_number < 200; ++row_number) {
      const std::vector<float> row = generated(Family::few_allowed, vocab, 1, row_number);
      numbers.insert(std::count_if(row.begin(), row.end(), [](float v) { return v > -kInf; }));
    }
    const auto most = static_cast<std::ptrdiff_t>(std::min<std::size_t>(vocab, 9));
    const auto least = std::min<std::ptrdiff_t>(most, 2);
    EXPECT_EQ(*numbers.begin(), least) << vocab;
    EXPECT_EQ(*numbers.rbegin(), most) << vocab;
    EXPECT_EQ(static_cast<std::ptrdiff_t>(numbers.size()), most - least + 1) << vocab;
  }
}

TEST(Families, huge_range_reaches_every_exponent_and_both_signs) {
  std::set<int> exponents;
  for (const float value : generated(Family::huge_range, 32000)) {
    ASSERT_TRUE(std::isfinite(value));
    exponents.insert(static_cast<int>(std::bit_cast<std::uint32_t>(value) >> 23));
  }
  // A pattern consists of the 9 bits of sign and exponent; the exponent of infinity does not occur.
  // Each of the 510 patterns is missing with probability (1 - 1/510)^32000 < 1e-27.
  EXPECT_EQ(exponents.size(), 510u);
}

TEST(Families, all_negative_is_negative) {
  const std::vector<float> row = generated(Family::all_negative, 128256);
  // The limit is 10 deviations above -100; a value exceeds it with probability 1e-23.
  EXPECT_LT(*std::max_element(row.begin(), row.end()), -90.0f);
}

TEST(Families, bf16_rounded_is_gaussian_wide_through_bfloat16_with_ties) {
  const std::vector<float> row = generated(Family::bf16_rounded, 128256);
  for (const float value : row) ASSERT_EQ(from_bfloat16(to_bfloat16(value)), value);
  // A binade has 128 values of each sign; |z| is below 16, and all values but about 2^-10 of them
  // are above 2^-11.
  EXPECT_LT(number_of_values(row), row.size() / 10);
  const double half_ulp = 0x1p-9;  // relative
  const double bound = std::sqrt(std::log(2 / 1e-9) / (2.0 * 128256));
  // Changing z by z half_ulp moves the distribution function by at most half_ulp max(z phi(z)) =
  // half_ulp 0.242.
  EXPECT_LT(kolmogorov_distance(row, 0, 2), bound + 0.242 * half_ulp);
}

TEST(Families, head_and_tail_has_one_head_at_a_gap_of_18) {
  for (const std::size_t vocab : {2u, 3u, 17u, 128256u}) {
    const std::vector<float> row = sorted_descending(generated(Family::head_and_tail, vocab));
    EXPECT_EQ(row[0] - row[1], 18.0f);
    EXPECT_EQ(row[1], row[vocab - 1]);
    // The family has a gap of 18, because 1 + e^-18 is 1 in float32.
    EXPECT_EQ(1.0f + static_cast<float>(std::exp(-18.0)), 1.0f);
  }
}

TEST(Families, tile_ends_has_its_mass_and_in_turn_its_maximum_at_ends_of_blocks) {
  constexpr std::size_t kVocab = 50257;
  const auto is_end = [](std::size_t id, std::size_t block) {
    return id % block == 0 || id % block == block - 1;
  };
  std::set<std::size_t> residues;  // ids at which the maximum was, modulo 4096
  std::size_t last_four = 0;
  for (std::uint64_t number = 0; number < 340; ++number) {
    const std::vector<float> row = generated(Family::tile_ends, kVocab, 1, number);
    const auto best =
        static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    EXPECT_TRUE(is_end(best, 4) || best + 4 >= kVocab) << best;
    residues.insert(best % 4096);
    if (best + 4 >= kVocab) ++last_four;
    if (number > 0) continue;
    double ends = 0, others = 0;
    for (std::size_t id = 0; id < kVocab; ++id) {
      const bool end = is_end(id, 256) || id < 40 || id + 40 >= kVocab || id == best;
      (end ? ends : others) += std::exp(static_cast<double>(row[id]));
    }
    // The ids in the middle have a total weight of about 50000 e^-12, and the ids at the ends have
    // 472; both sums are multiplied by the same mean of e^z.
    EXPECT_LT(others, 0.01 * ends);
  }
  // The last four ids are 4 of 34 kinds of rows, so 40 such rows are expected; 10 or fewer have
  // probability 1e-8 (binomial tail).
  EXPECT_GT(last_four, 10U);
  // Each end of a block of 4096 is expected to hold the maximum in 10 of 340 rows; it holds the
  // maximum of no row with probability 3e-5, and the rows are fixed.
  EXPECT_TRUE(residues.count(0) == 1 && residues.count(4095) == 1);
}

TEST(Families, signed_zeros_ties_both_zeros_at_the_maximum_and_no_dtype_adds_to_them) {
  const std::vector<float> row = generated(Family::signed_zeros, 32000);
  std::size_t zeros = 0, negative = 0;
  for (const float value : row) {
    ASSERT_LE(value, 0.0f);
    zeros += value == 0 ? 1U : 0U;
    negative += value == 0 && std::signbit(value) ? 1U : 0U;
    ASSERT_EQ(from_bfloat16(to_bfloat16(value)) == 0, value == 0);
  }
  // The limits are a third and a sixth of 32000, plus or minus 10 deviations (843 and 667).
  EXPECT_NEAR(static_cast<double>(zeros), 32000.0 / 3, 843);
  EXPECT_NEAR(static_cast<double>(negative), 32000.0 / 6, 667);
}

}  // namespace
}  // namespace fairdraw::harness
