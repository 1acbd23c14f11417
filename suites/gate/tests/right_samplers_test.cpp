// The tests require that correct samplers pass. Samplers from which mutants are made must pass the
// checks of tokens and of all batch sizes with every seed. Others, which draw in unusual ways, must
// pass the checks of draws. A false alarm on such a sampler would also be a false alarm for an
// engine.
#include "suites/gate/mutants/right_samplers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "suites/gate/mutants/catalogue.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

// The functions below print the parameter by its name, for the names of tests.
void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.name; }
void PrintTo(const RightWay& way, std::ostream* out) { *out << way.name; }

namespace {

class RightSampler : public testing::TestWithParam<Twin> {};

TEST_P(RightSampler, PassesByTokensAndInEveryBatch) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {GetParam().name};
  options.make_sampler = [](const std::string&) { return GetParam().make(); };
  // Each seed gives the sampler fresh rows and draws.
  const std::pair<std::string, std::uint64_t> globs[] = {
      {"boundaries/*/v1[06]*/heavy*", 3},    {"boundaries/*/v1000/typed", 1},
      {"boundaries/*/v31/next_to_vocab", 1}, {"status/*/v31/*", 3},
      {"batches/*/unfiltered", 1},           {"sequences/*", 10}};
  for (const auto& [glob, most] : globs) {
    options.case_glob = glob;
    // Samplers without per-request seeds need a separate row for each draw, which takes minutes.
    const std::uint64_t seeds = GetParam().name.ends_with(":generator") ? 1 : most;
    for (options.seed = 1; options.seed <= seeds; ++options.seed) {
      const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
      std::size_t judged = 0;
      for (const harness::CaseRecord& one : record.cases) {
        EXPECT_NE(one.verdict, harness::Verdict::failed) << one.id << ": " << one.message;
        EXPECT_NE(one.verdict, harness::Verdict::error) << one.id << ": " << one.message;
        judged += one.verdict == harness::Verdict::passed ? 1U : 0U;
      }
      const bool keeps =
          !GetParam().name.starts_with("float");  // float32 samplers keep no requests
      const bool judges = keeps || !glob.starts_with("sequences");
      EXPECT_EQ(judged >= 1, judges) << glob;
    }
  }
}

// The batch has a medium size; `verify` tests the other sizes on the kernels.
TEST_P(RightSampler, PassesOtherChecksInABatchOf33) {
  PlanOptions options;
  options.samplers = {GetParam().name};
  options.make_sampler = [](const std::string&) { return GetParam().make(); };
  options.case_glob = "*/b33";
  options.seed = 1;
  const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
  std::size_t judged = 0;
  for (const harness::CaseRecord& one : record.cases) {
    EXPECT_NE(one.verdict, harness::Verdict::failed) << one.id << ": " << one.message;
    EXPECT_NE(one.verdict, harness::Verdict::error) << one.id << ": " << one.message;
    judged += one.verdict == harness::Verdict::passed ? 1U : 0U;
  }
  // The cases belong to seven checks, six of which have a second list. Samplers without seeds and
  // reports skip all of these cases.
  EXPECT_EQ(record.cases.size(), 13U);
  if (!GetParam().name.ends_with(":generator")) {
    EXPECT_GE(judged, 2U);
  }
}

// Returns the correct samplers that draw tokens; row_operations_test.cpp tests the others.
std::vector<Twin> samplers() {
  std::vector<Twin> all = twins();
  std::erase_if(all, [](const Twin& twin) { return !twin.make()->description().samples; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Twins, RightSampler, testing::ValuesIn(samplers()), [](const auto& one) {
  std::string name = one.param.name;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// Judges a sampler by the drawing cases of suite smoke, or, in nightly runs, by the whole suite
// that FAIRDRAW_RIGHT_SUITE names.
class UnusualRightSampler : public testing::TestWithParam<RightWay> {};

TEST_P(UnusualRightSampler, IsGreen) {
  const char* const suite = std::getenv("FAIRDRAW_RIGHT_SUITE");
  PlanOptions options;
  options.suite = suite_from_name(suite == nullptr ? "smoke" : suite);
  options.samplers = {GetParam().name};
  options.make_sampler = [](const std::string&) { return GetParam().make(); };
  options.seed = 20261128;
  std::vector<const char*> globs = {"*"};
  if (suite == nullptr) {
    globs = {"chi_squared/*",     "binomial/*",       "pit/*",
             "streams/*/v1000/*", "replay/*/v1000/*", "chain_law/*/v5/*"};
  }
  std::size_t judged = 0;
  for (const char* const glob : globs) {
    options.case_glob = glob;
    const harness::RunRecord record = run_plan(make_plan(options), options, 1, {});
    for (const harness::CaseRecord& one : record.cases) {
      EXPECT_TRUE(one.verdict == harness::Verdict::passed ||
                  one.verdict == harness::Verdict::skipped)
          << one.id << " " << to_string(one.verdict) << ": " << one.message;
      judged += one.verdict == harness::Verdict::passed ? 1U : 0U;
    }
  }
  EXPECT_GE(judged, 5U) << "because " << GetParam().why;
}

INSTANTIATE_TEST_SUITE_P(Ways, UnusualRightSampler, testing::ValuesIn(right_samplers()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace fairdraw::suites
