// Tests cases whose sampler is slow in every call, and runs that take too long.
#include "harness/run/time_limit.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
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

// Returns a job that repeats a call until the call is refused, as checks do.
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

// Stops this process for a time; another process then continues it.
void stop_for(std::chrono::milliseconds time) {
  const pid_t stopped = getpid(), other = fork();
  if (other == 0) {
    const timespec rest{time.count() / 1000, time.count() % 1000 * 1'000'000};
    kill(stopped, SIGSTOP);
    nanosleep(&rest, nullptr);
    kill(stopped, SIGCONT);
    _exit(0);
  }
  waitpid(other, nullptr, 0);
}

TEST(TimeLimit, CountsNoTimeInWhichTheProcessIsStopped) {
  const TimeLimit limit(0.5);
  const auto start = std::chrono::steady_clock::now();
  stop_for(std::chrono::milliseconds(1500));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  EXPECT_FALSE(limit.is_over());
  // Afterwards the clock runs as fast as any other, and no faster.
  const auto steady = std::chrono::steady_clock::now();
  const RunningClock::time_point before = RunningClock::now();
  while (!limit.is_over()) std::this_thread::sleep_for(RunningClock::kBeat);
  const auto counted = RunningClock::now() - before;
  EXPECT_LE(counted, std::chrono::steady_clock::now() - steady);
  EXPECT_GT(counted, RunningClock::duration::zero());
}

TEST(TimeLimit, GoesOnInAForkOfAProcessWhoseClockRuns) {
  // More than two beats are counted only if the clock's thread beats. It must run before the fork:
  // in a process that was forked while a thread began, the address sanitizer of g++ lets no thread
  // begin.
  const RunningClock::time_point begin = RunningClock::now();
  while (RunningClock::now() - begin <= 2 * RunningClock::kBeat) {
    std::this_thread::sleep_for(RunningClock::kBeat);
  }
  const pid_t child = fork();
  if (child == 0) {
    const TimeLimit limit(0.1);
    for (int i = 0; i < 400 && !limit.is_over(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    _exit(limit.is_over() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(TimeLimit, NoneUnlessOneIsAskedFor) {
  EXPECT_FALSE(TimeLimit(0).is_over());
  EXPECT_EQ(TimeLimit(0).end(), TimeLimit::Clock::time_point::max());
}

}  // namespace
}  // namespace fairdraw::harness
