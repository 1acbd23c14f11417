// Tests that under every profile a slightly wrong parameter shows in a mask: the slack of a profile
// covers only float32 and its engine's arithmetic, and hides no such change. A sampler with the
// engine's distribution stands in for the engine, and gets parameters that differ from the call's.
//
// The test cannot see smaller changes, which the slack of a profile explains.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "reference/profiles.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using Parameters = reference::RowParameters;

struct Change {
  const char* name;
  void (*apply)(Parameters&);
};

// Profiles allow sums an error of up to 1.2e-4 in a row of 1000 tokens (999 sequential additions),
// 3.2e-5 for sums made by torch, and weights less. Each of these changes is at least eight times
// larger.
constexpr Change kChanges[] = {
    {"top_k one more", [](Parameters& row) { row.top_k += row.top_k > 1 ? 1 : 0; }},
    {"top_k one less", [](Parameters& row) { row.top_k -= row.top_k > 2 ? 1 : 0; }},
    {"top_p one percent less", [](Parameters& row) { row.top_p *= row.top_p < 1 ? 0.99F : 1.0F; }},
    {"top_p half of the rest more",
     [](Parameters& row) { row.top_p = row.top_p > 0 ? (1 + row.top_p) / 2 : 0; }},
    {"top_p 1 a thousandth less", [](Parameters& row) { row.top_p = std::min(row.top_p, 0.999F); }},
    {"min_p five percent less", [](Parameters& row) { row.min_p *= 0.95F; }},
    {"min_p five percent more",
     [](Parameters& row) { row.min_p *= row.min_p < 0.9F ? 1.05F : 1.0F; }},
    {"temperature two percent more", [](Parameters& row) { row.temperature *= 1.02F; }},
};

// A profile's sampler with changed parameters. The sampler sets `in_masks` if a mask changes.
class Changed final : public harness::Sampler {
 public:
  Changed(const std::string& profile, const Change& change, std::atomic<bool>& in_masks)
      : right_(*reference::find_profile(profile)), change_(change), in_masks_(in_masks) {}

  const harness::SamplerDescription& description() const override { return right_.description(); }

  std::string run(const fairdraw_batch& batch) override {
    if (std::string error = right_.run(batch); !error.empty()) return error;
    const std::vector<std::uint32_t> before = mask_of(batch);
    const auto rows = static_cast<std::size_t>(batch.rows);
    std::vector<float> temperature(batch.temperature, batch.temperature + rows);
    std::vector<std::int32_t> top_k(batch.top_k, batch.top_k + rows);
    std::vector<float> top_p(batch.top_p, batch.top_p + rows);
    std::vector<float> min_p(batch.min_p, batch.min_p + rows);
    for (std::size_t row = 0; row < rows; ++row) {
      Parameters parameters{temperature[row], top_k[row], top_p[row], min_p[row]};
      change_.apply(parameters);
      temperature[row] = parameters.temperature;
      top_k[row] = parameters.top_k;
      top_p[row] = parameters.top_p;
      min_p[row] = parameters.min_p;
    }
    fairdraw_batch other = batch;
    other.temperature = temperature.data();
    other.top_k = top_k.data();
    other.top_p = top_p.data();
    other.min_p = min_p.data();
    std::string error = right_.run(other);
    if (mask_of(batch) != before) in_masks_ = true;
    return error;
  }

 private:
  static std::vector<std::uint32_t> mask_of(const fairdraw_batch& batch) {
    if (batch.mask == nullptr) return {};
    return {batch.mask, batch.mask + batch.rows * batch.mask_stride};
  }

  ProfileSampler right_;
  const Change& change_;
  std::atomic<bool>& in_masks_;
};

class ParametersSeen : public testing::TestWithParam<std::string> {};

TEST_P(ParametersSeen, WhereTheyAreALittleOff) {
  if (reference::find_profile(GetParam())->masked_probability_floor > 0) {
    GTEST_SKIP() << "filters leave every token a probability, and so in the mask";
  }
  std::size_t seen = 0;
  for (const Change& change : kChanges) {
    std::atomic<bool> in_masks = false;
    bool red = false;
    for (const char* glob :
         {"mask/gaussian/v1000/edges", "mask/peaked/v1000/edges", "mask/few_allowed/v1000/everyday",
          "mask/gaussian_wide/v1000/top_k_and_top_p"}) {
      PlanOptions options;
      options.suite = Suite::smoke;
      options.samplers = {"changed"};
      options.make_sampler = [&](const std::string&) {
        return std::make_unique<Changed>(GetParam(), change, in_masks);
      };
      options.case_glob = glob;
      options.seed = 1;
      const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
      for (const harness::CaseRecord& one : record.cases) {
        EXPECT_NE(one.verdict, harness::Verdict::error) << one.id << ": " << one.message;
        red = red || one.verdict == harness::Verdict::failed;
      }
      if (red) break;
    }
    // A profile may lack the parameter, or not support these calls.
    EXPECT_EQ(red, in_masks) << change.name;
    seen += red ? 1 : 0;
  }
  EXPECT_GE(seen, 2U);
}

INSTANTIATE_TEST_SUITE_P(Profiles, ParametersSeen,
                         testing::ValuesIn(reference::profile_names().begin(),
                                           reference::profile_names().end()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace fairdraw::suites
