// Tests requests, seeds and jobs, which all checks use.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/check.h"
#include "harness/run/parallel.h"
#include "harness/run/runner.h"
#include "harness/run/tests/mutants.h"

namespace fairdraw::harness {
namespace {

// These are known answers from the distribution of Random123 (kat_vectors, philox4x32 10).
TEST(RandomWord, MatchesKnownAnswers) {
  EXPECT_EQ(random_word(0, 0, Purpose::draw, 0), 0xe169c58d6627e8d5ULL);
  // If all bits of counter and key are one, the purpose is no enumerator, but it gives a word like
  // the others.
  EXPECT_EQ(random_word(~0ULL, ~0ULL, static_cast<Purpose>(0xffffffffU), 0xffffffffU),
            0x41c83b0e408f276dULL);
}

TEST(RandomWord, DependsOnEachArgument) {
  std::set<std::uint64_t> words;
  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const std::uint64_t offset : {0ULL, 1ULL, 1ULL << 32}) {
      for (const Purpose purpose : {Purpose::draw, Purpose::draft, Purpose::accept}) {
        for (const std::uint32_t index : {0U, 1U}) {
          words.insert(random_word(seed, offset, purpose, index));
        }
      }
    }
  }
  EXPECT_EQ(words.size(), 3U * 3U * 3U * 2U);
}

TEST(CaseSeed, DependsOnRunAndCase) {
  EXPECT_EQ(case_seed(7, "mask/gaussian"), case_seed(7, "mask/gaussian"));
  EXPECT_NE(case_seed(7, "mask/gaussian"), case_seed(8, "mask/gaussian"));
  EXPECT_NE(case_seed(7, "mask/gaussian"), case_seed(7, "mask/gaussiam"));
}

struct Recorder : ModelSampler {
  std::string run(const fairdraw_batch& batch) override {
    address = reinterpret_cast<std::uintptr_t>(batch.logits);
    stride = batch.row_stride;
    return ModelSampler::run(batch);
  }
  std::uintptr_t address = 0;
  std::int64_t stride = 0;
};

Request small_request() {
  Request request;
  request.rows = 2;
  request.vocab = 5;
  request.logits = {0, 1, 2, 1, 0, 3, 1, 0, -1, 2};
  request.parameters.assign(2, {});
  request.seed = {1, 2};
  request.offset = {0, 0};
  return request;
}

TEST(Request, LaysRowsOutAsAsked) {
  const Request plain = small_request();
  Recorder sampler;
  const Response expected = run_request(sampler, plain, {.mask = true});
  EXPECT_EQ(sampler.stride, 5);
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    for (const std::int64_t misalignment : {0, 1, 63}) {
      Request request = plain;
      request.dtype = dtype;
      request.misalignment = misalignment;
      request.row_stride = 9;
      const Response response = run_request(sampler, request, {.mask = true});
      EXPECT_EQ(sampler.stride, 9);
      EXPECT_EQ(sampler.address % 64, static_cast<std::uintptr_t>(misalignment));
      EXPECT_EQ(response.tokens, expected.tokens);  // small integers are the same in all dtypes
      EXPECT_EQ(response.mask, expected.mask);
    }
  }
}

TEST(Request, WhatIsNotWrittenIsNoToken) {
  struct Silent : ModelSampler {
    std::string run(const fairdraw_batch&) override { return {}; }
  };
  Silent sampler;
  const Response response = run_request(sampler, small_request(), {.statuses = true});
  EXPECT_EQ(response.tokens, std::vector<std::int32_t>(2, kUnwritten));
  EXPECT_EQ(response.statuses, std::vector<std::int32_t>(2, kUnwritten));
}

Job job(const std::string& id, std::function<CheckOutcome(Sampler&)> check) {
  Job result;
  result.record.id = id;
  result.make_sampler = [] { return std::make_unique<ModelSampler>(); };
  result.check = std::move(check);
  return result;
}

TEST(RunJobs, KeepsTheOrderOfTheJobs) {
  std::vector<Job> jobs;
  for (int i = 0; i < 50; ++i) {
    jobs.push_back(job(std::to_string(i), [i](Sampler&) {
      CheckOutcome outcome;
      outcome.draws = static_cast<std::uint64_t>(i);
      return outcome;
    }));
  }
  for (const unsigned threads : {1U, 4U}) {
    std::size_t calls = 0;
    const std::vector<CaseRecord> records =
        run_jobs(jobs, threads, [&calls](const CaseRecord&, std::size_t done, std::size_t all) {
          EXPECT_EQ(done, ++calls);
          EXPECT_EQ(all, 50U);
        });
    ASSERT_EQ(records.size(), jobs.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].id, std::to_string(i));
      EXPECT_EQ(records[i].draws, i);
    }
    EXPECT_EQ(calls, jobs.size());
  }
}

TEST(RunJobs, ExceptionsAreErrorsOfTheirCase) {
  const std::vector<Job> jobs = {
      job("bad", [](Sampler&) -> CheckOutcome { throw std::runtime_error("boom"); }),
      job("good", [](Sampler&) { return CheckOutcome(); })};
  const std::vector<CaseRecord> records = run_jobs(jobs, 2, {});
  EXPECT_EQ(records[0].verdict, Verdict::error);
  EXPECT_EQ(records[0].message, "boom");
  EXPECT_EQ(records[1].verdict, Verdict::passed);
}

TEST(InParallel, CallsOnceForEachNumber) {
  for (const unsigned threads : {0U, 1U, 4U}) {
    std::vector<std::atomic<int>> calls(100);
    in_parallel(calls.size(), threads, [&calls](std::size_t i) { ++calls[i]; });
    EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n == 1; }));
  }
}

TEST(InParallel, ThrowsWhatACallHasThrownAndBeginsNoMore) {
  std::size_t calls = 0;
  const auto work = [&calls](std::size_t i) {
    ++calls;
    if (i == 3) throw std::runtime_error("boom");
  };
  EXPECT_THROW(in_parallel(100, 1, work), std::runtime_error);
  EXPECT_EQ(calls, 4U);
}

}  // namespace
}  // namespace fairdraw::harness
