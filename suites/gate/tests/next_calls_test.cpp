// The tests cover two successive calls of one request. Every correct acceptance rule must pass for
// all seeds, and a random word that both calls use must make the smallest case fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/tests/judged.h"

namespace fairdraw::suites {
namespace {

constexpr const char* kChain = "chain_law/gaussian/v5/*";
constexpr const char* kVerify = "verify_law/gaussian/v5/none/*";

TEST(NextCalls, OfRightSamplersAreGreen) {
  std::vector<Twin> right = acceptance_rule_twins();
  std::ranges::copy_if(twins(), std::back_inserter(right),
                       [](const Twin& twin) { return twin.name == "model:law"; });
  EXPECT_EQ(right.size(), acceptance_rule_twins().size() + 1);
  for (const Twin& twin : right) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      const harness::CaseRecord record = judged_case(twin.name, twin.make, kChain, seed);
      EXPECT_STREQ(to_string(record.verdict), "passed") << twin.name << ": " << record.message;
    }
    const harness::CaseRecord record = judged_case(twin.name, twin.make, kVerify, 1);
    EXPECT_STREQ(to_string(record.verdict), "passed") << twin.name << ": " << record.message;
  }
}

TEST(NextCalls, ThatShareAWordAreRed) {
  for (const Mutant& mutant : next_call_mutants()) {
    const bool of_chains = mutant.expected.front().starts_with("chain");
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const harness::CaseRecord record =
          judged_case(mutant.name, mutant.make, of_chains ? kChain : kVerify, seed);
      EXPECT_STREQ(to_string(record.verdict), "failed") << mutant.name << ": " << record.message;
      EXPECT_NE(record.message.find("next_call"), std::string::npos) << record.message;
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
