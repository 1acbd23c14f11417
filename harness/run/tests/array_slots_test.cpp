// Tests that a sampler's accesses around its results are detected, for samplers in this process.
#include "harness/run/calls/array_slots.h"

#include <gtest/gtest.h>

#include <thread>

#include "harness/adapters/model_sampler.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {
namespace {

Request request_of(std::int64_t rows, std::int64_t vocab) {
  Request request;
  request.rows = rows;
  request.vocab = vocab;
  const auto count = static_cast<std::size_t>(rows);
  request.logits.assign(count * static_cast<std::size_t>(vocab), 0.0F);
  request.parameters.assign(count, {});
  request.seed.assign(count, 7);
  request.offset.assign(count, 0);
  return request;
}

constexpr WantedResults kWanted = {
    .statuses = true, .support_size = true, .mask = true, .probs = true, .logprobs = true};

// A faulty sampler that writes zeros, the value of unused memory, in place of some values from the
// first token on.
struct Stray : ModelSampler {
  explicit Stray(std::int64_t distance) : at(distance) {}
  std::string run(const fairdraw_batch& batch) override {
    ModelSampler::run(batch);
    if (at < 0 || at >= batch.outputs) batch.tokens[at] = 0;
    return {};
  }
  std::int64_t at;
};

constexpr std::int64_t kLongest = static_cast<std::int64_t>(ArraySlots::kGuard / sizeof(float));

TEST(Results, AWriteUpToTheLongestRowAwayIsSeen) {
  ASSERT_NE(result_slots(), nullptr);
  for (const std::int64_t rows : {1, 3, 700, 5000}) {
    for (const std::int64_t distance :
         {std::int64_t{1}, std::int64_t{17}, std::int64_t{500}, std::int64_t{5000},
          std::int64_t{100'000}, kLongest / 2, kLongest - 1}) {
      Stray behind(rows + distance - 1), in_front(-distance);
      // 16 values are compared one by one; writes farther away are detected by the touched pages.
      EXPECT_EQ(run_request(behind, request_of(rows, 4), kWanted).damage,
                distance <= 16 ? "wrote past the end of tokens" : "touched memory behind tokens")
          << rows << " rows, " << distance;
      EXPECT_EQ(run_request(in_front, request_of(rows, 4), kWanted).damage,
                distance <= 16 ? "wrote in front of tokens" : "touched memory in front of tokens")
          << rows << " rows, " << distance;
    }
  }
}

// A faulty sampler that changes one logit, which it may only read.
struct Meddler : ModelSampler {
  explicit Meddler(std::int64_t logit) : at(logit) {}
  std::string run(const fairdraw_batch& batch) override {
    std::string refused = ModelSampler::run(batch);
    static_cast<float*>(const_cast<void*>(batch.logits))[at] += 1;
    return refused;
  }
  std::int64_t at;
};

// The sizes of 1 to 35 logits include whole rounds of a hash with four states of 8 logits each, and
// all remainders.
TEST(Inputs, AChangeOfAnyLogitIsSeen) {
  for (std::int64_t vocab = 1; vocab <= 35; ++vocab) {
    for (std::int64_t logit = 0; logit < vocab; ++logit) {
      Meddler meddler(logit);
      EXPECT_EQ(run_request(meddler, request_of(1, vocab), {}).damage,
                "changed logits, which it may only read")
          << logit << " of " << vocab;
    }
  }
}

// If one call touched pages, the next call must not be blamed for this, for calls of any size.
TEST(Results, RightCallsOfAllSizesAreNotBlamed) {
  ModelSampler sampler;
  for (const std::int64_t rows : {1, 300, 2, 5000, 1, 40, 5000, 3}) {
    for (const std::int64_t vocab : {3, 1500, 1}) {
      if (rows * vocab > 500'000) continue;
      const Response response = run_request(sampler, request_of(rows, vocab), kWanted);
      EXPECT_TRUE(response.ran()) << rows << " rows of " << vocab << ": " << response.trouble();
    }
  }
}

TEST(Results, AfterAStrayWriteTheNextCallIsRight) {
  Stray wrong(-100'000);
  EXPECT_FALSE(run_request(wrong, request_of(3, 4), {}).ran());
  ModelSampler right;
  EXPECT_TRUE(run_request(right, request_of(3, 4), {}).ran());
}

// A callable in another language may keep a view of its results.
TEST(Results, WhatASamplerHasKeptCanBeReadWhenItsThreadIsGone) {
  struct Keeping : ModelSampler {
    std::string run(const fairdraw_batch& batch) override {
      kept = batch.tokens;
      return ModelSampler::run(batch);
    }
    const volatile std::int32_t* kept = nullptr;
  } sampler;
  const ArraySlots* slots = nullptr;
  std::thread([&] {
    run_request(sampler, request_of(3, 4), {});
    slots = result_slots();
  }).join();
  ASSERT_NE(sampler.kept, nullptr);
  EXPECT_GE(*sampler.kept, 0);
  // The next thread reuses the slots, so that there are never more slots than threads.
  std::thread([&] { EXPECT_EQ(result_slots(), slots); }).join();
}

// Arrays that are too long for a slot are on the heap, where surrounding pages are not watched.
TEST(Results, LongArraysHaveNoSlot) {
  ASSERT_NE(result_slots(), nullptr);
  EXPECT_TRUE(result_slots()->has_room(std::size_t{1} << 29));
  EXPECT_FALSE(result_slots()->has_room(std::size_t{1} << 30));
  EXPECT_EQ(result_slots()->around(this), ArraySlots::Touched::nothing);
}

}  // namespace
}  // namespace fairdraw::harness
