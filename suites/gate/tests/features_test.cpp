// The tests cover the features that cases exercise, and the coverage of features given a sampler's
// abilities.
#include "suites/gate/cases/features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "harness/contract/usage_error.h"
#include "suites/gate/tests/judged.h"

namespace fairdraw::suites {
namespace {

using harness::Feature;

std::set<std::string> features_of_case(Suite suite, const std::string& id) {
  for (const Case& named : case_table(suite)) {
    if (named.id != id) continue;
    std::set<std::string> names;
    for (const Feature feature : features_of(with_values(named, 1))) {
      names.emplace(to_string(feature));
    }
    return names;
  }
  ADD_FAILURE() << "no case " << id;
  return {};
}

using Names = std::set<std::string>;

TEST(Features, AreThoseThatACaseAsksFor) {
  EXPECT_EQ(features_of_case(Suite::gate, "chi_squared/gaussian/v1000/none/t1/n1000000"),
            Names{"distribution"});
  EXPECT_EQ(
      features_of_case(Suite::gate, "chi_squared/ties_at_k/v1000/top_k_50+lowest_id/t1/n1000000"),
      (Names{"distribution", "top_k", "lowest_id_ties"}));
  EXPECT_EQ(
      features_of_case(Suite::gate,
                       "chi_squared/gaussian_wide/v1000/top_k_50+top_p_0.7+joint/t1/n1000000"),
      (Names{"distribution", "top_k", "top_p", "joint_order"}));
  EXPECT_EQ(features_of_case(Suite::smoke, "mask/gaussian_wide/v1000/bfloat16/top_p_alone"),
            (Names{"greedy", "temperature", "top_p", "masks", "bfloat16"}));
  EXPECT_EQ(features_of_case(Suite::smoke, "tokens/gaussian_wide/v1000/unfiltered/banned"),
            (Names{"greedy", "temperature", "allowed_mask", "exact_integer"}));
  // An operation on rows has parameters of its own, which are not the features of filters.
  EXPECT_TRUE(std::ranges::all_of(case_table(Suite::gate), [](const Case& entry) {
    if (entry.check != Check::top_k_renorm_probs) return true;
    const std::vector<Feature> features = features_of(entry);
    return std::ranges::find(features, Feature::top_k) == features.end() &&
           std::ranges::find(features, Feature::top_k_renorm_probs) != features.end();
  }));
}

TEST(Features, EveryOneIsExercisedByASuiteForCommits) {
  std::map<Feature, int> cases;
  for (const Case& named : case_table(Suite::gate)) {
    for (const Feature feature : features_of(with_values(named, 1))) ++cases[feature];
  }
  const std::vector<std::string> names = harness::feature_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_GT(cases[static_cast<Feature>(i)], 0) << names[i];
  }
}

// The integer model declares nearly all abilities. The model must lack exactly the features that it
// does not declare, and all other features must be judged.
TEST(Features, OfASamplerThatHasThemAreJudged) {
  const harness::RunRecord record = judged(
      "model", [] { return harness::make_builtin_sampler("model"); },
      "[mrs]*/gaussian_wide/v1000/top_p_alone", 1);
  const std::vector<harness::Coverage> all = harness::coverage_of(record);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.front().not_judged(), std::vector<std::string>());
  for (const harness::FeatureCoverage& feature : all.front().features) {
    EXPECT_TRUE(feature.judged) << feature.name;
  }
}

TEST(Features, ThatAreNoneAreRefusedWithWhatWasMeant) {
  expect_features("--require", {"top_p", "seeds"});
  try {
    expect_features("--require", {"top_p", "seedz"});
    ADD_FAILURE() << "it was taken";
  } catch (const harness::UsageError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(
        "--require: unknown feature 'seedz'; did you mean 'seeds'? Known: distribution "))
        << message;
  }
}

}  // namespace
}  // namespace fairdraw::suites
