// What becomes of cases whose sampler is slow call after call, and of a run that takes too long.
#include "harness/run/time_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "harness/adapters/model_sampler.h"
#include "harness/run/calls/request.h"
#include "harness/run/runner.h"

namespace fairdraw::harness {
namespace {

struct Slow : ModelSampler {
  std::string run(const fairdraw_batch& batch) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return ModelSampler::run(batch);
  }
};

Request one_row() {
  Request request;
  request.rows = 1;
  request.vocab = 2;
  request.logits = {0, 1};
  request.parameters.assign(1, {});
  request.seed = {1};
  request.offset = {0};
  return request;
}

// As checks do: calls until one does not run.
Job endless(std::atomic<int>& calls) {
  Job job;
  job.make_sampler = [] { return std::make_unique<Slow>(); };
  job.check = [&calls](Sampler& sampler) {
    CheckOutcome outcome;
    for (;; ++calls) {
      const Response response = run_request(sampler, one_row(), {});
      if (!response.ran()) return outcome.fail(response.trouble());
    }
  };
  return job;
}

TEST(TimeLimit, EndsACaseThatIsSlowCallAfterCall) {
  std::atomic<int> calls = 0;
  Job job = endless(calls);
  job.seconds = 0.1;
  const std::vector<CaseRecord> records = run_jobs({job}, 1, {});
  EXPECT_EQ(records[0].verdict, Verdict::failed);
  EXPECT_EQ(records[0].message.find("the case took more than 0.1 s (--case-timeout), in "), 0U)
      << records[0].message;
  EXPECT_LE(calls, 5);  // of 20 ms each
  EXPECT_GE(records[0].seconds, 0.1);
}

TEST(TimeLimit, EndsARunAndLeavesOutWhatIsLeft) {
  std::atomic<int> calls = 0;
  const Job job = endless(calls);
  const std::vector<CaseRecord> records = run_jobs({job, job, job}, 1, {}, 1);
  EXPECT_EQ(records[0].verdict, Verdict::error);
  EXPECT_EQ(records[0].message, "the run took more than 1 s (--run-timeout)");
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_EQ(records[i].verdict, Verdict::error);
    EXPECT_EQ(records[i].message, "not run: the run took more than 1 s (--run-timeout)");
  }
}

TEST(TimeLimit, NoneUnlessOneIsAskedFor) {
  EXPECT_FALSE(TimeLimit(0).is_over());
  EXPECT_EQ(TimeLimit(0).end(), TimeLimit::Clock::time_point::max());
}

}  // namespace
}  // namespace fairdraw::harness
