// The caller's floating-point environment must not change a result, and a call must restore it.
#include <gtest/gtest.h>

#include <cfenv>
#include <functional>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "fairdraw/sample.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

/// Returns tokens, statuses and masks of rows to which every kind of filter is applied.
std::vector<std::int64_t> outcomes(const std::vector<RandomRow>& rows, CpuTarget target,
                                   int threads) {
  std::vector<std::int64_t> all;
  for (const RandomRow& row : rows) {
    const auto vocab = static_cast<std::int64_t>(row.logits.size());
    std::int32_t token = -7;
    RowStatus status = RowStatus::inactive;
    std::vector<std::uint32_t> mask(static_cast<std::size_t>((vocab + 31) / 32));
    SampleResult result;
    result.tokens = {&token, 1};
    result.statuses = {&status, 1};
    result.mask = {mask.data(), 1, static_cast<std::int64_t>(mask.size())};
    if (sample(request_of(row, 1), result, {target, threads})) return {};
    all.push_back(token);
    all.push_back(static_cast<std::int64_t>(status));
    all.insert(all.end(), mask.begin(), mask.end());
  }
  return all;
}

/// Returns rows that contain subnormals and neighbouring values.
std::vector<RandomRow> rows() {
  std::vector<RandomRow> made;
  for (std::uint64_t number = 0; number < 400; ++number)
    made.push_back(random_row(6000000 + number));
  return made;
}

#if defined(__x86_64__)
TEST(FloatEnvironment, FlushingAndRoundingOfTheCallerChangeNothing) {
  const std::vector<RandomRow> inputs = rows();
  const unsigned original = _mm_getcsr();
  constexpr unsigned kFlushToZero = 0x8000;
  constexpr unsigned kDenormalsAreZero = 0x0040;
  constexpr unsigned kRoundDown = 0x2000;
  constexpr unsigned kRoundUp = 0x4000;
  constexpr unsigned kRoundToZero = 0x6000;
  for (const CpuTarget target : available_targets()) {
    const std::vector<std::int64_t> expected = outcomes(inputs, target, 1);
    ASSERT_FALSE(expected.empty());
    for (const unsigned bits :
         {kFlushToZero, kDenormalsAreZero, kFlushToZero | kDenormalsAreZero, kRoundDown, kRoundUp,
          kRoundToZero, kRoundUp | kFlushToZero | kDenormalsAreZero}) {
      constexpr unsigned kExceptionFlags = 0x3f;
      const unsigned set = (original | bits) & ~kExceptionFlags;
      _mm_setcsr(set);
      const std::vector<std::int64_t> got = outcomes(inputs, target, 1);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(original);
      EXPECT_EQ(got, expected) << to_string(target) << " with " << std::hex << bits;
      EXPECT_EQ(after, set) << to_string(target);
    }
  }
}
#endif

TEST(FloatEnvironment, TheFourRoundingModesOfTheCallerChangeNothing) {
  const std::vector<RandomRow> inputs = rows();
  for (const CpuTarget target : available_targets()) {
    const std::vector<std::int64_t> expected = outcomes(inputs, target, 1);
    for (const int mode : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
      ASSERT_EQ(std::fesetround(mode), 0);
      const std::vector<std::int64_t> got = outcomes(inputs, target, 1);
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      EXPECT_EQ(got, expected) << to_string(target) << " mode " << mode;
      EXPECT_EQ(after, mode);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
