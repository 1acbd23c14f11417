// Tests that samplers made from a profile, and real ones, are reported to follow exactly that
// profile.
#include "suites/gate/identify/identify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "reference/semantic_choices.h"
#include "suites/gate/identify/match.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/mutants/float_sampler.h"

namespace fairdraw::suites {
namespace {

using reference::find_profile;

constexpr std::uint64_t kSeed = 20261121;

const ChoiceFinding& finding(const Identification& found, const std::string& choice) {
  const auto at =
      std::find_if(found.choices.begin(), found.choices.end(),
                   [&choice](const ChoiceFinding& one) { return one.choice == choice; });
  EXPECT_NE(at, found.choices.end()) << choice;
  return *at;
}

class EveryProfile : public testing::TestWithParam<std::string> {};

TEST_P(EveryProfile, IsIdentifiedAsItself) {
  const std::string& name = GetParam();
  ProfileSampler sampler(*find_profile(name));
  const Identification found = identify(sampler, kSeed);
  const ProfileFinding& closest = found.profiles.front();
  EXPECT_EQ(closest.profile, name);
  EXPECT_TRUE(closest.contradictions.empty()) << closest.contradictions.front();
  EXPECT_TRUE(closest.differences.empty()) << closest.differences.front();
  // No other profile explains as much as the closest one.
  const ProfileFinding& next = found.profiles[1];
  EXPECT_TRUE(!next.contradictions.empty() || next.unsaid > closest.unsaid ||
              next.open > closest.open)
      << next.profile;
  for (const reference::Choice& choice : reference::semantic_choices()) {
    const ChoiceFinding& one = finding(found, choice.name);
    EXPECT_NE(one.verdict, ChoiceVerdict::mixed) << choice.name;
    EXPECT_TRUE(allows(one, choice.of(*find_profile(name)).name))
        << choice.name << ": " << one.value << ", " << to_string(one.verdict);
    EXPECT_FALSE(one.observations.empty()) << choice.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Identify, EveryProfile,
                         testing::ValuesIn(reference::profile_names().begin(),
                                           reference::profile_names().end()),
                         [](const auto& one) { return one.param; });

void expect_profile(harness::Sampler& sampler, const std::string& profile) {
  const Identification found = identify(sampler, kSeed);
  EXPECT_EQ(found.profiles.front().profile, profile);
}

TEST(Identify, TheSamplersOfThisProjectAreFairdraw) {
  for (const char* name : {"cpu", "model"}) {
    const auto sampler = harness::make_builtin_sampler(name);
    const Identification found = identify(*sampler, kSeed);
    EXPECT_EQ(found.profiles.front().profile, "fairdraw");
    EXPECT_TRUE(found.profiles.front().contradictions.empty())
        << found.profiles.front().contradictions.front();
    EXPECT_FALSE(found.profiles[1].contradictions.empty()) << found.profiles[1].profile;
    EXPECT_EQ(finding(found, "top_k_ties").value, "keep_all");
    EXPECT_EQ(finding(found, "nan_logit").value, "row_error");
    EXPECT_EQ(finding(found, "greedy_ties").value, "lowest_id");
    EXPECT_EQ(finding(found, "top_k_negative").verdict, ChoiceVerdict::follows);
    EXPECT_EQ(finding(found, "masked_probability_floor").value, "0");
    EXPECT_EQ(finding(found, "top_p_one").verdict, ChoiceVerdict::not_observable);
  }
}

TEST(Identify, Float32SamplersAreTheEngineThatTheyFollow) {
  using Order = FloatSampler::Order;
  FloatSampler vllm(Order::vllm_torch, FloatSampler::Draw::race, {});
  expect_profile(vllm, "vllm_torch");
  FloatSampler hf(Order::hf, FloatSampler::Draw::inverse_cdf, {});
  expect_profile(hf, "hf");
  FloatSampler rosellm(Order::rosellm, FloatSampler::Draw::inverse_cdf, {});
  expect_profile(rosellm, "rosellm");
}

// An inconsistent sampler: small rows keep the lowest id of ties at k, and large rows keep all
// ties.
class TwoMinds final : public harness::Sampler {
 public:
  TwoMinds() : small_(lowest()), large_(*find_profile("fairdraw")) {}
  const harness::SamplerDescription& description() const override { return small_.description(); }
  std::string run(const fairdraw_batch& batch) override {
    return batch.vocab < 100 ? small_.run(batch) : large_.run(batch);
  }

 private:
  static reference::Semantics lowest() {
    reference::Semantics semantics = *find_profile("fairdraw");
    semantics.top_k_ties = reference::TopKTies::lowest_id;
    return semantics;
  }
  ProfileSampler small_, large_;
};

TEST(Identify, SaysMixedWhereNoValueExplainsAllRows) {
  TwoMinds sampler;
  const Identification found = identify(sampler, kSeed);
  const ChoiceFinding& ties = finding(found, "top_k_ties");
  EXPECT_EQ(ties.verdict, ChoiceVerdict::mixed);
  ASSERT_EQ(ties.evidence.size(), 2U);
  EXPECT_NE(ties.evidence[0].find("ties at k"), std::string::npos);
  // All other choices are still reported.
  EXPECT_EQ(found.profiles.front().profile, "fairdraw");
  const auto& differences = found.profiles.front().differences;
  EXPECT_NE(std::find(differences.begin(), differences.end(), "top_k_ties"), differences.end());
  EXPECT_EQ(finding(found, "top_p_base").value, "renormalised");
}

TEST(Identify, SaysNotObservableWhereNothingCanBeSeen) {
  // A sampler without min_p cannot show the place of min_p, nor its boundary or its value 1.
  ProfileSampler sampler(*find_profile("max_cpu"));
  const Identification found = identify(sampler, kSeed);
  EXPECT_EQ(finding(found, "min_p_place").value, "none");
  EXPECT_EQ(finding(found, "min_p_boundary").verdict, ChoiceVerdict::not_observable);
  EXPECT_EQ(finding(found, "min_p_one").verdict, ChoiceVerdict::not_observable);
}

TEST(Identify, OneChangedChoiceIsNamed) {
  // Each value of each choice, set alone in a profile, must never be reported as another value or
  // as mixed. The profile has no special case of k = 1 or p = 0 that would hide the value.
  for (const reference::Choice& choice : reference::semantic_choices()) {
    for (const reference::ChoiceValue& value : choice.values) {
      reference::Semantics changed = *find_profile("fairdraw");
      changed.top_k_one = reference::TopKOne::filter;
      value.set(changed);
      ProfileSampler sampler(changed);
      const Identification found = identify(sampler, kSeed);
      const ChoiceFinding& one = finding(found, choice.name);
      EXPECT_NE(one.verdict, ChoiceVerdict::mixed) << choice.name << " " << value.name;
      EXPECT_TRUE(allows(one, value.name))
          << choice.name << " is " << value.name << ", found " << one.value;
    }
  }
}

TEST(Match, MissesNoTokenMoreOftenThanItSays) {
  const MatchLevels levels = match_levels();
  EXPECT_DOUBLE_EQ((levels.miss + levels.tail) * static_cast<double>(probes().size()),
                   kIdentifyErrorRate);
  const std::uint64_t draws = draws_to_see(0.125, 4, levels);
  EXPECT_LE(4 * std::pow(0.875, static_cast<double>(draws)), levels.miss);
  EXPECT_GT(4 * std::pow(0.875, static_cast<double>(draws - 1)), levels.miss);
}

TEST(Match, TellsWhatADistributionExcludes) {
  const Probe& probe = probes().front();  // no filter: shares 1/4, 1/8, 1/2, 1/8
  const reference::RealDistribution distribution =
      distribution_of_probe(probe, *find_profile("fairdraw"));
  Observation seen;
  seen.probe = &probe;
  seen.draws = kIdentifyDraws;
  seen.of_token = {2048, 1024, 4096, 1024};
  EXPECT_TRUE(match(seen, distribution).fits());
  Observation missing = seen;
  missing.of_token = {2048, 0, 5120, 1024};
  EXPECT_FALSE(match(missing, distribution).fits());
  Observation skewed = seen;
  skewed.of_token = {2848, 1024, 3296, 1024};
  EXPECT_FALSE(match(skewed, distribution).fits());
  Observation failing = seen;
  failing.no_token = 1;
  EXPECT_FALSE(match(failing, distribution).fits());
  Observation refused = seen;
  refused.refused = "no";
  EXPECT_FALSE(match(refused, distribution).fits());
  Observation masked = seen;
  masked.mask = {0b0111};
  EXPECT_FALSE(match(masked, distribution).fits());
  masked.mask = {0b1111};
  EXPECT_TRUE(match(masked, distribution).fits());
}

TEST(Probes, AreAboutEveryChoiceAndHaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const Probe& probe : probes()) {
    EXPECT_EQ(std::find(names.begin(), names.end(), probe.name), names.end()) << probe.name;
    names.push_back(probe.name);
    for (const std::string& about : probe.choices) {
      const auto choices = reference::semantic_choices();
      EXPECT_TRUE(std::any_of(choices.begin(), choices.end(), [&about](const auto& choice) {
        return choice.name == about;
      })) << about;
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
