// The tests cover acceptance rules. Every lossless rule must pass if it is declared correctly or
// not at all. A rule that is declared wrongly, or that loses the target's distribution, must fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/tests/judged.h"

namespace fairdraw::suites {
namespace {

constexpr const char* kCases[] = {"chain_law/gaussian/v5/*", "verify_law/gaussian/v5/none/*",
                                  "tree_law/gaussian/v5/*"};

TEST(AcceptanceRules, LosslessOnesAreGreen) {
  std::size_t green = 0;
  for (const Twin& twin : acceptance_rule_twins()) {
    for (const char* cases : kCases) {
      const harness::RunRecord record = judged(twin.name, twin.make, cases, 5, Suite::gate);
      for (const harness::CaseRecord& entry : record.cases) {
        if (entry.check == "global") continue;
        EXPECT_STREQ(to_string(entry.verdict), "passed")
            << twin.name << ", " << entry.id << ": " << entry.message;
        ++green;
      }
    }
  }
  EXPECT_EQ(green, 3 * acceptance_rule_twins().size());
}

// Block verification is tested on rows of every shape, also on rows whose share of the residual is
// too small for float32. Nightly runs use ten seeds and all cases of drafted tokens. Block
// verification defines nothing for trees, so only the emitted tokens of trees are judged, not which
// drafted tokens are accepted.
TEST(AcceptanceRules, BlockVerificationIsGreenOnAllRows) {
  const std::vector<Twin> twins = acceptance_rule_twins();
  const auto block = std::find_if(twins.begin(), twins.end(),
                                  [](const Twin& twin) { return twin.name == "rule:block"; });
  ASSERT_NE(block, twins.end());
  const bool is_night = std::getenv("FAIRDRAW_RIGHT_SUITE") != nullptr;
  std::vector<std::string> globs = {"chain_law/*"};
  if (is_night) globs = {"chain_law/*", "chain/*", "verify/*", "verify_law/*", "tree_law/*"};
  for (std::uint64_t seed = 1; seed <= (is_night ? 10 : 1); ++seed) {
    for (const std::string& glob : globs) {
      for (const harness::CaseRecord& entry :
           judged(block->name, block->make, glob, seed, Suite::gate).cases) {
        const bool may_skip = glob != "chain_law/*";  // true for cases of the exact arithmetic
        EXPECT_TRUE(entry.verdict == harness::Verdict::passed ||
                    (may_skip && entry.verdict == harness::Verdict::skipped))
            << entry.id << ", seed " << seed << " " << to_string(entry.verdict) << ": "
            << entry.message;
      }
    }
  }
}

// The tables of the token-wise rule must find block verification wrong only if it is declared as
// token-wise.
TEST(AcceptanceRules, OneThatIsDeclaredWronglyIsRed) {
  std::size_t found = 0;
  for (const Mutant& mutant : acceptance_rule_mutants()) {
    if (!mutant.name.starts_with("declares-")) continue;
    ++found;
    const harness::RunRecord record = judged(mutant.name, mutant.make, kCases[0], 5, Suite::gate);
    EXPECT_STREQ(to_string(record.cases.front().verdict), "failed") << mutant.name;
  }
  EXPECT_EQ(found, 2U);
}

TEST(AcceptanceRules, LossyOnesAreRed) {
  for (const char* name :
       {"block-residual-not-renormalised", "block-weights-off-by-one", "block-ratios-not-capped",
        "match-draws-again", "typical-acceptance", "candidates-tested-in-full"}) {
    const std::vector<Mutant> mutants = acceptance_rule_mutants();
    const auto mutant = std::find_if(mutants.begin(), mutants.end(),
                                     [name](const Mutant& entry) { return entry.name == name; });
    ASSERT_NE(mutant, mutants.end()) << name;
    const bool of_trees = mutant->name.starts_with("candidates");
    const harness::RunRecord record =
        judged(name, mutant->make, of_trees ? kCases[2] : kCases[0], 5, Suite::gate);
    EXPECT_STREQ(to_string(record.cases.front().verdict), "failed")
        << name << ": " << record.cases.front().message;
  }
}

}  // namespace
}  // namespace fairdraw::suites
