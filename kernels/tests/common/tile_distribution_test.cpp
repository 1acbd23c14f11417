// The distance of tile weights from softmax is measured on the logits of a language model, and
// compared with the bound of reference/tile_bound.h, token by token. The integer model replaces the
// kernels here, because its weights equal theirs bit for bit.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "harness/inputs/npy.h"
#include "reference/tests/tile_distance.h"
#include "reference/tile_bound.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

void expect_within(const harness::CapturedLogits& logits) {
  const std::int64_t step = is_reduced() ? 8 : 1;
  for (std::int64_t index = 0; index < logits.rows; index += step) {
    const std::vector<float> row = logits.row(index);
    for (const float temperature : {0.2F, 0.7F, 1.0F}) {
      const reference::TileDistance seen = reference::distance_to_softmax(row, temperature);
      ASSERT_EQ(seen.out_of_band, 0U) << index << ": " << describe(seen);
      ASSERT_LE(seen.distance, seen.bound) << index << ": " << describe(seen);
      ASSERT_LE(seen.bound, reference::largest_tile_distribution_error(row.size()));
      ASSERT_GT(seen.distance, 0) << "nothing was compared";
    }
  }
}

TEST(TileDistribution, OfALanguageModelIsWithinTheBound) {
  expect_within(harness::load_npy(FAIRDRAW_SUITE_DATA "/lm_logits_f32.npy", false));
}

TEST(TileDistribution, OfALanguageModelInBfloat16IsWithinTheBound) {
  expect_within(harness::load_npy(FAIRDRAW_SUITE_DATA "/lm_logits_bf16_as_u16.npy", true));
}

}  // namespace
}  // namespace fairdraw::suites
