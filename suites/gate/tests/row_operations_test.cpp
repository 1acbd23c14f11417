// The tests require that correct operations on rows, those of the library among them, pass with
// every seed, and that every wrong operation fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/mutants/kill_matrix.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

const std::vector<std::string> kKinds = {
    "softmax",           "log_softmax",        "top_k_mask_logits",
    "min_p_mask_logits", "top_k_renorm_probs", "top_p_renorm_probs"};

/// Judges the samplers by the cases whose ids match, and returns the number of cases that passed.
std::size_t passed(const std::vector<std::string>& names, const SamplerMaker& make,
                   const std::string& glob, std::uint64_t seed) {
  PlanOptions options;
  options.samplers = names;
  options.make_sampler = make;
  options.case_glob = glob;
  options.seed = seed;
  std::size_t count = 0;
  for (const harness::CaseRecord& one : run_plan(make_plan(options), options, 1, {}).cases) {
    EXPECT_NE(one.verdict, harness::Verdict::failed)
        << one.sampler << ": " << one.id << ": " << one.message;
    EXPECT_NE(one.verdict, harness::Verdict::error)
        << one.sampler << ": " << one.id << ": " << one.message;
    count += one.verdict == harness::Verdict::passed ? 1 : 0;
  }
  return count;
}

SamplerMaker maker_of(const Twin& twin) {
  return [twin](const std::string&) { return twin.make(); };
}

TEST(RowOperations, RightOnesPassWithEverySeed) {
  for (const Twin& twin : row_operation_twins()) {
    for (const std::string& kind : kKinds) {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        EXPECT_GE(passed({twin.name}, maker_of(twin), kind + "/*/v1000/*", seed), 8U);
        EXPECT_GE(passed({twin.name}, maker_of(twin), kind + "/*/v31/*", seed), 1U);
        EXPECT_GE(passed({twin.name}, maker_of(twin), kind + "/*/v1/*", seed), 1U);
      }
      EXPECT_GE(passed({twin.name}, maker_of(twin), kind + "/*/v1003/*", 1), 6U);
      EXPECT_GE(passed({twin.name}, maker_of(twin), kind + "/*/v131072/*", 1), 3U);
    }
  }
}

TEST(RowOperations, ThoseOfTheLibraryPass) {
  std::vector<std::string> names;
  for (const std::string& name : harness::builtin_sampler_names()) {
    if (harness::make_builtin_sampler(name)->description().softmax) names.push_back(name);
  }  // neither the model nor shards have such operations
  EXPECT_GE(names.size(), 2U);  // at least cpu and cpu:scalar must be there
  for (const std::string& kind : kKinds) {
    // All samplers run together, so that the oracle computes each row only once.
    const std::size_t count = passed(names, harness::make_builtin_sampler, kind + "/*", /*seed=*/3);
    if (kind == "min_p_mask_logits") {
      EXPECT_EQ(count, 0U);  // the library does not have this operation
    } else {
      EXPECT_GT(count, 20 * names.size()) << kind;
    }
  }
}

TEST(RowOperations, OneThatHasNothingElseIsSkippedByAllOtherChecks) {
  const Twin twin = row_operation_twins().front();
  EXPECT_EQ(passed({twin.name}, maker_of(twin), "mask/gaussian/v1/*", 1), 0U);
  EXPECT_EQ(passed({twin.name}, maker_of(twin), "status/gaussian/v31/*", 1), 0U);
}

TEST(RowOperations, EveryMutantIsKilled) {
  std::vector<const Mutant*> mutants;
  for (const Mutant& mutant : catalogue()) {
    if (mutant.kind == "row-operations") mutants.push_back(&mutant);
  }
  EXPECT_GE(mutants.size(), 30U);
  const KillMatrix matrix = run_kill_matrix(mutants, {}, {});
  for (const MutantOutcome& outcome : matrix.mutants) {
    EXPECT_EQ(outcome.complaint(), "") << outcome.mutant->name;
  }
  for (const TwinOutcome& outcome : matrix.twins) EXPECT_EQ(outcome.red, "");
}

}  // namespace
}  // namespace fairdraw::suites
