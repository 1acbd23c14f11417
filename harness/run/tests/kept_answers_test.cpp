#include "harness/run/calls/kept_answers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "harness/run/runner.h"
#include "reference/profiles.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 20;

const std::vector<float> kRow = {1, 2, 3, 4};

// A question of the tests to an oracle about the row.
struct Asked {
  std::vector<float> row = kRow;
  std::vector<std::uint32_t> allowed = {};
  reference::RowParameters parameters = {};
  TieRule tie_rule = TieRule::keep_all;
  reference::Semantics semantics = reference::fairdraw_profile();
};

int computed = 0;

reference::IntegerRow ask(const Asked& asked) {
  return kept_answer(
      "the row",
      [&] {
        ++computed;
        return reference::integer_model(asked.row, asked.allowed, asked.parameters, asked.tie_rule);
      },
      std::span<const float>(asked.row), std::span<const std::uint32_t>(asked.allowed),
      asked.parameters, asked.tie_rule, asked.semantics);
}

int times_computed(const std::vector<Asked>& all) {
  const int before = computed;
  for (const Asked& asked : all) ask(asked);
  return computed - before;
}

TEST(KeptAnswers, NothingIsKeptWithoutThem) { EXPECT_EQ(times_computed({{}, {}, {}}), 3); }

TEST(KeptAnswers, TheSameQuestionIsComputedOnce) {
  const reference::IntegerRow expected = ask({});
  const KeptAnswers kept(kPlenty);
  EXPECT_EQ(times_computed({{}, {}, {}}), 1);
  EXPECT_EQ(ask({}).weight, expected.weight);
  EXPECT_EQ(ask({}).mask, expected.mask);
}

TEST(KeptAnswers, EveryPartOfAQuestionCounts) {
  std::vector<Asked> all(9);
  all[1].row = {1, 2, 3};
  all[2].row[3] = std::nextafter(4.0F, 5.0F);
  all[3].allowed = {15};
  all[4].parameters.temperature = 2;
  all[5].parameters.top_k = 2;
  all[6].parameters.top_p = 0.5F;
  all[7].parameters.min_p = 0.5F;
  all[8].tie_rule = TieRule::lowest_id;
  // A comparison of semantics includes every choice, so that the same row under another profile is
  // another question.
  for (const std::string& name : reference::profile_names()) {
    if (name == all[0].semantics.name) continue;
    all.emplace_back().semantics = *reference::find_profile(name);
  }
  all.emplace_back().semantics.rounds_scaled_logits = !all[0].semantics.rounds_scaled_logits;
  const KeptAnswers kept(kPlenty);
  EXPECT_EQ(times_computed(all), static_cast<int>(all.size()));
  EXPECT_EQ(times_computed(all), 0);
}

TEST(KeptAnswers, AnotherFunctionIsAnotherQuestion) {
  const KeptAnswers kept(kPlenty);
  const std::vector<float> probs = {0.25F, 0.75F};
  const reference::IntegerRow from_logits =
      model_of_logits(probs, {}, {}, TieRule::keep_all, FilterOrder::top_k_first);
  EXPECT_NE(model_of_probs(probs, {}).weight, from_logits.weight);
  EXPECT_EQ(model_of_probs(probs, {}).weight,
            reference::integer_model_from_probs(probs, {}).weight);
}

TEST(KeptAnswers, WhatDoesNotFitIsComputedEachTime) {
  const std::size_t answer = bytes_of(ask({}));
  const KeptAnswers kept(answer);  // too few bytes for the answer with its question
  EXPECT_EQ(times_computed({{}, {}, {}}), 3);
}

TEST(KeptAnswers, TheyEndWithTheirScope) {
  {
    const KeptAnswers kept(kPlenty);
    const KeptAnswers inner(kPlenty);
    EXPECT_EQ(KeptAnswers::of_this_thread(), &inner);
  }
  EXPECT_EQ(KeptAnswers::of_this_thread(), nullptr);
  EXPECT_EQ(times_computed({{}, {}}), 2);
}

TEST(KeptAnswers, TheSamplersOfACaseShareThemAndNoOthers) {
  class Silent : public Sampler {
   public:
    const SamplerDescription& description() const override { return description_; }
    std::string run(const fairdraw_batch&) override { return {}; }

   private:
    SamplerDescription description_ = {};
  };
  std::vector<Job> jobs;
  for (const char* const id : {"one", "one", "one", "two", "two", "alone"}) {
    Job job;
    job.record.id = id;
    job.make_sampler = [] { return std::make_unique<Silent>(); };
    job.check = [](Sampler&) {
      CheckOutcome outcome;
      outcome.draws = static_cast<std::uint64_t>(times_computed({{}}));
      outcome.rows = KeptAnswers::of_this_thread() != nullptr ? 1 : 0;
      return outcome;
    };
    jobs.push_back(std::move(job));
  }
  std::vector<std::uint64_t> draws, kept;
  for (const CaseRecord& record : run_jobs(jobs, 1, {})) {
    draws.push_back(record.draws);
    kept.push_back(record.rows);
  }
  EXPECT_EQ(draws, (std::vector<std::uint64_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(kept, (std::vector<std::uint64_t>{1, 1, 1, 1, 1, 0}));
}

}  // namespace
}  // namespace fairdraw::harness
