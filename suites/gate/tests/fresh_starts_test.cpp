// The tests cover samplers with a generator of their own. A sampler that starts differently in each
// instance must pass. A sampler that always starts alike must fail after its first draws, unless it
// declares a default seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "harness/run/checks/statistical/fresh_instances.h"
#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/tests/judged.h"

namespace fairdraw::suites {
namespace {

constexpr const char* kFlat = "streams/all_equal/v131072/none/t1";

const Twin& twin_named(const std::string& name) {
  const auto found = std::ranges::find(twins(), name, &Twin::name);
  EXPECT_NE(found, twins().end()) << name;
  return *found;
}

TEST(FreshStarts, OfEntropyAreGreen) {
  // The second sampler computes a row for each token, so that fewer draws already take seconds.
  const std::pair<const char*, std::uint64_t> names[] = {{"model:generator", 10},
                                                         {"tokens:generator", 2}};
  for (const auto& [name, seeds] : names) {
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      const harness::CaseRecord record = judged_case(name, twin_named(name).make, kFlat, seed);
      EXPECT_STREQ(to_string(record.verdict), "passed") << name << ": " << record.message;
      EXPECT_EQ(record.measures.at("fresh_instances"), 3) << name;
      EXPECT_LE(record.spent(), record.measures.at("alpha") * (1 + 0x1p-9)) << name;
    }
  }
}

TEST(FreshStarts, ThatAreAlikeAreRedByTheFirstDraws) {
  for (const Mutant& mutant : fresh_start_mutants()) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const harness::CaseRecord record = judged_case(mutant.name, mutant.make, kFlat, seed);
      EXPECT_STREQ(to_string(record.verdict), "failed") << mutant.name << ": " << record.message;
      EXPECT_NE(record.message.find("start alike"), std::string::npos) << record.message;
      EXPECT_LE(record.draws, 24U) << mutant.name;  // 3 instances, 8 draws each
    }
  }
}

// Samplers whose tokens are a function of supplied seeds are not compared between instances.
TEST(FreshStarts, OfSamplersThatTakeSeedsAreNotCompared) {
  const harness::CaseRecord record =
      judged_case("model:law", twin_named("model:law").make, kFlat, 1);
  EXPECT_STREQ(to_string(record.verdict), "passed") << record.message;
  EXPECT_EQ(record.measures.count("fresh_instances"), 0U);
  harness::SamplerDescription description;
  description.randomness.replays = false;
  EXPECT_TRUE(harness::draws_from_own_generator(description));
  description.randomness.replays = true;
  EXPECT_FALSE(harness::draws_from_own_generator(description));
}

}  // namespace
}  // namespace fairdraw::suites
