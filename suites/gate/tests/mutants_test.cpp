// The tests require that the catalogue of mutants is complete, that its cases exist, and that the
// gate detects one mutant of each class. (`fairdraw mutants` runs all mutants.)
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "reference/semantics.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::suites {
namespace {

const Mutant& named(const std::string& name) {
  const auto found = std::find_if(catalogue().begin(), catalogue().end(),
                                  [&name](const Mutant& mutant) { return mutant.name == name; });
  EXPECT_NE(found, catalogue().end()) << name;
  return *found;
}

TEST(Catalogue, NamesAreUniqueAndEveryMutantIsDescribed) {
  std::set<std::string> names;
  for (const Mutant& mutant : catalogue()) {
    EXPECT_TRUE(names.insert(mutant.name).second) << mutant.name << " comes twice";
    EXPECT_FALSE(mutant.source.empty()) << mutant.name;
    EXPECT_FALSE(mutant.kind.empty()) << mutant.name;
    EXPECT_FALSE(mutant.wrong.empty()) << mutant.name;
    EXPECT_FALSE(mutant.expected.empty()) << mutant.name;
    const auto sampler = mutant.make();
    EXPECT_NE(reference::find_profile(sampler->description().semantics), nullptr) << mutant.name;
    EXPECT_TRUE(std::any_of(twins().begin(), twins().end(), [&](const Twin& twin) {
      return twin.name == mutant.twin;
    })) << mutant.name;
  }
}

TEST(Catalogue, EveryExpectedKillerIsACaseOfTheGate) {
  const std::vector<Case> table = case_table(Suite::gate);
  for (const Mutant& mutant : catalogue()) {
    for (const std::string& glob : mutant.expected) {
      EXPECT_TRUE(std::any_of(
          table.begin(), table.end(),
          [&glob](const Case& entry) { return fnmatch(glob.c_str(), entry.id.c_str(), 0) == 0; }))
          << mutant.name << " expects " << glob << ", which is no case";
    }
  }
}

// A single mutant can be detected by luck. So each class of blind spots (sizes, values and calls
// that the case table does not have) must have three mutants.
TEST(Catalogue, ClassesOfBlindSpotsHaveThreeMutantsEach) {
  std::map<std::string, int> mutants;
  for (const Mutant& mutant : catalogue()) ++mutants[mutant.kind];
  for (const char* kind : {"bands", "batch-size", "degrades", "large-ids", "memorised-cases",
                           "narrow-draws", "own-generator", "running-batches", "sequences",
                           "shared-words", "tokens-only", "typed-values", "vocabularies"}) {
    EXPECT_GE(mutants[kind], 3) << kind;
  }
}

TEST(Catalogue, AccountsForEveryDocumentedBug) {
  std::map<std::string, const Mutant*> mutants;
  std::size_t systematic = 0;
  for (const Mutant& mutant : catalogue()) {
    mutants[mutant.name] = &mutant;
    systematic += mutant.source == "systematic" ? 1U : 0U;
  }
  std::set<std::string> names;
  std::size_t built = 0;
  for (const KnownBug& bug : known_bugs()) {
    EXPECT_TRUE(names.insert(bug.name).second) << bug.name << " comes twice";
    const auto found = mutants.find(bug.name);
    EXPECT_EQ(found != mutants.end(), bug.state != EntryState::later) << bug.name;
    EXPECT_EQ(bug.reason.empty(), bug.state == EntryState::mutant) << bug.name;
    if (found == mutants.end()) continue;
    ++built;
    EXPECT_EQ(found->second->unreachable_reason.empty(), bug.state == EntryState::mutant)
        << bug.name;
  }
  EXPECT_EQ(names.size(), 104U);
  EXPECT_GE(built, 60U);
  EXPECT_GE(systematic, 15U);
  for (const char* name : {"rosellm-drops-crossing", "rosellm-clamp-after-masking"}) {
    EXPECT_EQ(mutants.count(name), 1U) << name;
  }
}

// Returns one mutant of each class that is detected quickly. The correct samplers of these mutants
// are judged by the same cases.
std::vector<const Mutant*> one_a_class() {
  std::vector<const Mutant*> mutants;
  for (const char* name : {"topp-drops-crossing",
                           "n-samples-without-replacement",
                           "rng-offset-not-advanced",
                           "attempts-by-row",
                           "dp-ranks-same-seed",
                           "only-seed0-read",
                           "topk-zero-is-greedy",
                           "topk-threshold-keeps-ties-by-batch",
                           "nan-to-zero-logit",
                           "engine-nan-makes-the-call-greedy",
                           "bf16-cumsum-topp",
                           "always-accept",
                           "row-stride-assumed",
                           "logprobs-after-filters",
                           "writes-behind-tokens",
                           "lane-of-32-lost",
                           "k-plus-one",
                           "sample-number-ignored",
                           "neighbours-parameters",
                           "chain-target-zeroed-in-place",
                           "sample-number-added-to-offset",
                           "sample-1-is-next-offset",
                           "counts-wrap-at-256",
                           "generator-indices-ignored",
                           "temperature-at-most-2",
                           "support-size-by-row",
                           "tile-of-one-lost",
                           "greedy-temperature-patched",
                           "top-p-of-0.63-wrong",
                           "right-on-known-sizes",
                           "coarse-after-1000-draws",
                           "uniform-in-float16",
                           "ids-from-2-17-drawn-less",
                           "prefilter-above-3000",
                           "reppen-negative-logits",
                           "step-counts-who-does-not-run",
                           "tokens-last-tile-from-64-rows",
                           "engine-no-token-is-zero",
                           "tokens-k-of-vocab-keeps-half",
                           "mark-context-off-by-one",
                           "shard-drops-cut-tiles",
                           "operation-k-plus-one"}) {
    mutants.push_back(&named(name));
  }
  return mutants;
}

TEST(KillMatrix, OneMutantOfEachClassIsKilledAndItsTwinIsNot) {
  const std::vector<const Mutant*> mutants = one_a_class();
  std::set<std::string> classes, covered;
  for (const Mutant& mutant : catalogue()) classes.insert(mutant.kind);
  for (const Mutant* mutant : mutants) covered.insert(mutant->kind);
  EXPECT_EQ(covered, classes);

  KillOptions options;
  options.seed = 4;
  const KillMatrix matrix = run_kill_matrix(mutants, options, {});
  for (const MutantOutcome& outcome : matrix.mutants) {
    EXPECT_EQ(outcome.complaint(), "") << outcome.mutant->name;
    EXPECT_FALSE(outcome.message.empty()) << outcome.mutant->name;
  }
  for (const TwinOutcome& outcome : matrix.twins) {
    EXPECT_EQ(outcome.red, "") << outcome.twin->name;
    EXPECT_GT(outcome.cases, 0U) << outcome.twin->name;
  }
  EXPECT_TRUE(matrix.complete());
}

TEST(KillMatrix, IsTheSameOnAnyNumberOfThreads) {
  const std::vector<const Mutant*> mutants = {
      &named("only-seed0-read"), &named("pinned-buffer-race"), &named("single-nan-means-token0")};
  KillOptions options;
  options.seed = 4;
  const KillMatrix one = run_kill_matrix(mutants, options, {});
  options.threads = 3;
  const KillMatrix three = run_kill_matrix(mutants, options, {});
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    EXPECT_EQ(one.mutants[i].by, three.mutants[i].by);
    EXPECT_EQ(one.mutants[i].draws, three.mutants[i].draws);
    EXPECT_EQ(one.mutants[i].message, three.mutants[i].message);
  }
}

TEST(KillMatrix, SaysWhereAMutantListedAsUnreachableIsKilled) {
  Mutant wrong = named("row-stride-assumed");
  wrong.unreachable_reason = "not so";
  const KillMatrix matrix = run_kill_matrix({&wrong}, {}, {});
  EXPECT_NE(matrix.mutants.front().complaint().find("listed as unreachable"), std::string::npos);
  EXPECT_FALSE(matrix.complete());
}

TEST(KillMatrix, IsNotCompleteWithASurvivorATooDearKillOrARedTwin) {
  KillMatrix matrix;
  matrix.mutants.resize(1);
  MutantOutcome& outcome = matrix.mutants.front();
  outcome.mutant = &named("only-seed0-read");
  EXPECT_FALSE(matrix.complete());
  outcome.killed = true;
  outcome.draws = kMaxDraws;
  EXPECT_TRUE(matrix.complete());
  ++outcome.draws;
  EXPECT_FALSE(matrix.complete());
  outcome.draws = 0;
  matrix.twins.push_back({&twins().front(), "fairdraw", 1, 0, "mask/x: wrong"});
  EXPECT_FALSE(matrix.complete());
}

}  // namespace
}  // namespace fairdraw::suites
