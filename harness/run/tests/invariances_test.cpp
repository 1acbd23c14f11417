// Tests the relations that are compared exactly, and those that are judged within an error band.
#include "harness/run/checks/exact/invariances.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "harness/adapters/model_sampler.h"
#include "harness/run/checks/checks.h"

namespace fairdraw::harness {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

CheckInput input_of(Sampler& sampler) {
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  return input;
}

// Returns a request with a row to draw from, and a row that must fail.
Request two_rows() {
  Request request;
  request.rows = 2;
  request.vocab = 3;
  request.logits = {0, 1, 2, -kInfinity, -kInfinity, -kInfinity};
  request.parameters.assign(2, {});
  request.seed = {1, 2};
  request.offset = {0, 0};
  return request;
}

TEST(OutsideOfBand, IsNoAnswerOfTheModel) {
  ModelSampler sampler;
  const Request request = two_rows();
  const Response right = run_request(sampler, request, {.statuses = true, .mask = true});
  ASSERT_TRUE(right.ran());
  EXPECT_EQ(outside_of_band(input_of(sampler), request, right, right), "");
}

TEST(OutsideOfBand, IsATokenOfARowThatMustFail) {
  ModelSampler sampler;
  const Request request = two_rows();
  const Response right = run_request(sampler, request, {.statuses = true});
  Response sampled = right;
  sampled.tokens[1] = 0;
  EXPECT_EQ(outside_of_band(input_of(sampler), request, sampled, right),
            "row 1, which must fail: token 0");
  // The response `bare` equals `sampled`, but has no statuses.
  Response bare = sampled;
  bare.statuses.clear();
  EXPECT_EQ(outside_of_band(input_of(sampler), request, bare, right),
            "row 1, which must fail: token 0");
  // A row of padding is not judged.
  Request padding = request;
  padding.active = {1, 0};
  EXPECT_EQ(outside_of_band(input_of(sampler), padding, bare, right), "");
}

TEST(OutsideOfBand, IsAStatusThatTheRowDidNotHave) {
  ModelSampler sampler;
  const Request request = two_rows();
  const Response right = run_request(sampler, request, {.statuses = true});
  Response lost = right;
  lost.statuses[1] = static_cast<std::int32_t>(RowStatus::ok);
  EXPECT_EQ(outside_of_band(input_of(sampler), request, lost, right),
            "output 1: status 0, was " + std::to_string(right.statuses[1]) + ",");
}

TEST(ScaledExactly, GivesNothingForSubnormals) {
  EXPECT_EQ(scaled_exactly(0, -20), 0.0F);
  EXPECT_EQ(scaled_exactly(0.75F, -20), 0x1.8p-21F);
  EXPECT_EQ(scaled_exactly(0x1p-126F, 1), 0x1p-125F);
  EXPECT_EQ(scaled_exactly(0x1p127F, 1), std::nullopt);
  EXPECT_EQ(scaled_exactly(0x1p-149F, -1), std::nullopt);  // because no bit would be left
  EXPECT_EQ(scaled_exactly(0x1p-126F, -1), std::nullopt);
  EXPECT_EQ(scaled_exactly(0x1p-127F, 1), std::nullopt);
}

// Subnormals are excluded, because a tile of subnormals has the octave of the smallest normal
// number at any scale.
TEST(ScaledExactly, LeavesOutWhatChangesWeights) {
  std::vector<float> probs(257, 0.0F);
  probs[0] = 0x1p-80F;
  probs[256] = 0x1p-130F;
  EXPECT_TRUE(reference::integer_model_from_probs(probs, {}).weight[256] != 0);
  for (float& probability : probs) probability *= 0x1p20F;
  EXPECT_TRUE(reference::integer_model_from_probs(probs, {}).weight[256] == 0);
}

// Logits in octaves at temperature 1, where the scale c is not a power of two, so that every shift
// is judged within the error band.
struct Steps final : LogitsSource {
  std::string name() const override { return "steps"; }
  DType dtype() const override { return DType::float32; }
  std::int64_t vocab() const override { return 100; }
  std::int64_t rows() const override { return 4; }
  void fill(std::int64_t row, std::span<float> out) const override {
    for (std::size_t id = 0; id < out.size(); ++id) {
      out[id] = -static_cast<float>((id + static_cast<std::size_t>(row)) % 7);
    }
  }
};

// A faulty sampler that reports rows with large logits as failed, but draws from them.
struct MisreportsLargeLogits final : ModelSampler {
  std::string run(const fairdraw_batch& batch) override {
    std::string refused = ModelSampler::run(batch);
    const auto* const logits = static_cast<const float*>(batch.logits);
    if (batch.rows > 0 && *std::max_element(logits, logits + batch.vocab) > 500) {
      batch.statuses[0] = static_cast<std::int32_t>(RowStatus::infinite_input);
    }
    return refused;
  }
};

TEST(Metamorphic, ComparesStatusesOfShiftsInTheBand) {
  const Steps steps;
  ModelSampler right;
  MisreportsLargeLogits wrong;
  for (ModelSampler* const sampler : {&right, static_cast<ModelSampler*>(&wrong)}) {
    CheckInput input = input_of(*sampler);
    input.logits = &steps;
    input.parameters = {{}};
    input.rows = steps.rows();
    const CheckOutcome outcome = check_metamorphic(input);
    if (sampler == &right) {
      EXPECT_FALSE(outcome.failed()) << outcome.message;
      EXPECT_EQ(outcome.measures.at("shifts_in_band"), 6);
      continue;
    }
    EXPECT_TRUE(outcome.failed());
    EXPECT_EQ(outcome.message,
              "shift of all logits: output 0: status 3, was 0, outside of the band");
  }
}

}  // namespace
}  // namespace fairdraw::harness
