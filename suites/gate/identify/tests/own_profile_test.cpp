// Tests that a sampler made from a profile passes when it is judged by that profile. A failure is a
// bug of a check, of the oracle or of the profile, and would be a false alarm for the engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>

#include "harness/run/checks/checks.h"
#include "reference/semantic_choices.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {

// Prints the parameter by name, for the names of tests.
void PrintTo(ProfileSampler::Failing failing, std::ostream* out) {
  *out << (failing == ProfileSampler::Failing::rows ? "rows" : "calls");
}

namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;
using reference::Semantics;

// Judges by suite smoke, or in nightly runs by the suite that FAIRDRAW_RIGHT_SUITE names.
RunRecord judge(const Semantics& semantics, ProfileSampler::Failing failing,
                const std::string& judged_by, const std::string& glob) {
  const char* const suite = std::getenv("FAIRDRAW_RIGHT_SUITE");
  PlanOptions options;
  options.suite = suite_from_name(suite == nullptr ? "smoke" : suite);
  options.samplers = {"profile:" + semantics.name};
  options.make_sampler = [=](const std::string&) {
    return std::make_unique<ProfileSampler>(semantics, failing);
  };
  options.semantics = judged_by;
  options.seed = 20261121;
  options.case_glob = glob;
  return run_plan(make_plan(options), options, 1, {});
}

std::size_t count(const RunRecord& record, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(record.cases.begin(), record.cases.end(),
                    [verdict](const CaseRecord& one) { return one.verdict == verdict; }));
}

using Failing = ProfileSampler::Failing;

class OwnProfile : public testing::TestWithParam<std::tuple<std::string, Failing>> {};

TEST_P(OwnProfile, Passes) {
  const auto& [name, failing] = GetParam();
  // Samplers that refuse calls are judged on lists that contain parameters to refuse.
  const std::string glob = failing == Failing::rows ? "*" : "[msr]*/v1000/e*";
  const RunRecord record = judge(*reference::find_profile(name), failing, name, glob);
  for (const CaseRecord& one : record.cases) {
    EXPECT_TRUE(one.verdict == Verdict::passed || one.verdict == Verdict::skipped)
        << one.id << " " << to_string(one.verdict) << ": " << one.message;
  }
  EXPECT_EQ(record.exit_code(), 0);
  // At least the masks of a dozen families, support, replay, relations, and the checks of draws
  // must pass.
  EXPECT_GE(count(record, Verdict::passed), failing == Failing::rows ? 30U : 15U);
}

std::vector<std::string> names() {
  return {reference::profile_names().begin(), reference::profile_names().end()};
}

INSTANTIATE_TEST_SUITE_P(Profiles, OwnProfile,
                         testing::Combine(testing::ValuesIn(names()),
                                          testing::Values(Failing::rows, Failing::calls)),
                         [](const auto& one) {
                           const bool rows = std::get<1>(one.param) == Failing::rows;
                           return std::get<0>(one.param) + (rows ? "" : "_refusing");
                         });

}  // namespace
}  // namespace fairdraw::suites
