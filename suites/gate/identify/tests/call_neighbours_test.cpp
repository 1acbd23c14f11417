// Tests of the neighbours of cases whose checks choose the number of requests of a call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "harness/contract/serving.h"
#include "harness/run/calls/forwarding_sampler.h"
#include "suites/gate/identify/neighbours.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using harness::Job;

/// A right sampler that keeps the largest number of rows or of requests of a call. It does not
/// offer several outputs of one row, so that checks give it a row for each output.
class LargestCall final : public harness::ForwardingSampler {
 public:
  LargestCall(std::unique_ptr<harness::Sampler> right, std::int64_t& largest)
      : ForwardingSampler(*right),
        right_(std::move(right)),
        description_(right_->description()),
        largest_(largest) {
    description_.indices = false;
  }
  const harness::SamplerDescription& description() const override { return description_; }

  std::string run(const fairdraw_batch& batch) override {
    largest_ = std::max(largest_, batch.rows);
    return right_->run(batch);
  }
  std::string run_serving(const harness::ServingCall& call) override {
    if (const auto* const* of = std::get_if<const fairdraw_verification*>(&call.call)) {
      largest_ = std::max<std::int64_t>(largest_, (*of)->batch);
    }
    return right_->run_serving(call);
  }

 private:
  std::unique_ptr<harness::Sampler> right_;
  harness::SamplerDescription description_;
  std::int64_t& largest_;
};

/// A pattern of the ids of cases.
class CasesOfOwnCalls : public testing::TestWithParam<const char*> {};

TEST_P(CasesOfOwnCalls, HaveNeighboursOfSmallCalls) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {"model"};
  options.make_sampler = harness::make_builtin_sampler;
  options.case_glob = GetParam();
  options.seed = 1;
  const Job job = make_plan(options).jobs.front();
  ASSERT_TRUE(chooses_calls(job));
  const auto largest_of = [](Job one) {
    std::int64_t largest = 0;
    one.make_sampler = [&largest] {
      return std::make_unique<LargestCall>(harness::make_builtin_sampler("model"), largest);
    };
    EXPECT_EQ(harness::run_jobs({one}, 1, {}).front().verdict, harness::Verdict::passed);
    return largest;
  };
  EXPECT_GT(largest_of(job), 16);
  EXPECT_EQ(largest_of(job.neighbour({.requests_of_call = 16})), 16);
}

INSTANTIATE_TEST_SUITE_P(Checks, CasesOfOwnCalls,
                         testing::Values("verify_law/*", "boundaries/*/v31/*",
                                         "chi_squared/*/v31/*", "streams/*/v1000/*"));

}  // namespace
}  // namespace fairdraw::suites
