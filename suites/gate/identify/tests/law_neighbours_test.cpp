// Tests of the neighbours of cases that verify drafts in calls of their own size.
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

/// A right sampler that keeps the largest number of requests of a verification.
class LargestCall final : public harness::ForwardingSampler {
 public:
  LargestCall(std::unique_ptr<harness::Sampler> right, std::int64_t& largest)
      : ForwardingSampler(*right), right_(std::move(right)), largest_(largest) {}

  std::string run_serving(const harness::ServingCall& call) override {
    if (const auto* const* of = std::get_if<const fairdraw_verification*>(&call.call)) {
      largest_ = std::max<std::int64_t>(largest_, (*of)->batch);
    }
    return right_->run_serving(call);
  }

 private:
  std::unique_ptr<harness::Sampler> right_;
  std::int64_t& largest_;
};

TEST(Neighbours, OfALawHaveSmallCalls) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {"model"};
  options.make_sampler = harness::make_builtin_sampler;
  options.case_glob = "verify_law/*";
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
  EXPECT_GT(largest_of(job), 4);
  EXPECT_EQ(largest_of(job.neighbour({.requests_of_call = 4})), 4);
}

}  // namespace
}  // namespace fairdraw::suites
