// Tests of the cases by which a failed run learns in which rows a sampler is wrong: failed cases
// that a right sampler answers in part, and neighbours whose rows lack a parameter.
#include "suites/gate/identify/neighbours.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/run/calls/forwarding_sampler.h"
#include "harness/run/calls/logits_source.h"
#include "suites/gate/identify/case_rows.h"
#include "suites/gate/identify/conditions_seen.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using harness::Condition;
using harness::Job;
using harness::Verdict;

/// A sampler whose tokens are all the next ones of the right tokens.
class NextTokens final : public harness::ForwardingSampler {
 public:
  explicit NextTokens(std::unique_ptr<harness::Sampler> right)
      : ForwardingSampler(*right), right_(std::move(right)) {}

  std::string run(const fairdraw_batch& batch) override {
    std::string refused = right_->run(batch);
    for (std::int64_t i = 0; i < batch.outputs * batch.num_samples; ++i) {
      if (batch.tokens[i] >= 0) {
        batch.tokens[i] = static_cast<std::int32_t>((batch.tokens[i] + 1) % batch.vocab);
      }
    }
    return refused;
  }

 private:
  std::unique_ptr<harness::Sampler> right_;
};

std::size_t index_of(const std::string& text) {
  const std::vector<Condition>& all = asked_conditions();
  const auto found = std::ranges::find(all, text, &Condition::text);
  EXPECT_NE(found, all.end()) << text;
  return static_cast<std::size_t>(found - all.begin());
}

// Returns a plan of cases for the integer model that is wrong in the rows with a condition.
PlanOptions options_of(const std::string& cases, const std::string& condition) {
  PlanOptions options;
  options.suite = Suite::smoke;
  options.samplers = {"wrong in some rows"};
  options.make_sampler = [holds = asked_conditions()[index_of(condition)].holds](
                             const std::string&) -> std::unique_ptr<harness::Sampler> {
    return std::make_unique<harness::MixedSampler>(
        std::make_unique<NextTokens>(harness::make_builtin_sampler("model")),
        harness::make_builtin_sampler("model"), holds);
  };
  options.case_glob = cases;
  options.seed = 1;
  return options;
}

Job job_of(const std::string& case_id, const std::string& condition) {
  return make_plan(options_of(case_id, condition)).jobs.front();
}

Verdict verdict_of(const Job& job) { return harness::run_jobs({job}, 1, {}).front().verdict; }

// Each boundary row has a call of its own, and the first one has top_p. So the judged sampler fails
// in the first call, and only the right sampler makes all calls.
TEST(Question, KnowsTheRowsBehindTheFirstFailure) {
  const std::string condition = "rows with top_p";
  const std::size_t at = index_of(condition);
  const Job job = job_of("boundaries/gaussian/v16/heavy", condition);
  const Question question(job, "fairdraw");
  EXPECT_TRUE(question.is_fair());
  const auto has = [at](const CaseRows::Kind& kind) { return kind.held[at]; };
  EXPECT_TRUE(std::ranges::any_of(question.kinds(), has));
  EXPECT_FALSE(std::ranges::all_of(question.kinds(), has));
  EXPECT_TRUE(question.is_right_without(at));
  EXPECT_FALSE(question.is_right_without(index_of("rows with min_p")));
}

struct Resaid {
  const char *subject, *condition, *case_id;
};

class ResaidRows : public testing::TestWithParam<Resaid> {};

// Rows without the parameter are right, and rows with other logits stay wrong.
TEST_P(ResaidRows, LackTheParameter) {
  const auto [subject, condition, case_id] = GetParam();
  const Job job = job_of(case_id, condition);
  ASSERT_EQ(verdict_of(job), Verdict::failed);
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    EXPECT_EQ(verdict_of(resaid(job, seed, "")), Verdict::failed) << seed;
    EXPECT_EQ(verdict_of(resaid(job, seed, subject)), Verdict::passed) << seed;
  }
  // Rows without another parameter stay wrong.
  for (const char* const other :
       {"dtype", "top_k", "temperature", "top_p", "min_p", "processing"}) {
    if (other != std::string(subject)) {
      EXPECT_EQ(verdict_of(resaid(job, 1, other)), Verdict::failed) << other;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Neighbours, ResaidRows,
    testing::Values(Resaid{"dtype", "rows of 16 bits", "tokens/gaussian_wide/v1000/bfloat16/edges"},
                    Resaid{"top_k", "rows with a top_k of the vocabulary",
                           "tokens/gaussian_wide/v1000/edges"},
                    Resaid{"top_p", "rows with top_p", "tokens/gaussian_wide/v1000/edges"},
                    Resaid{"min_p", "rows with min_p", "tokens/gaussian_wide/v1000/edges"},
                    Resaid{"processing", "calls with logits processing",
                           "logprobs/gaussian_wide/v1000/edges/processed"},
                    Resaid{"temperature", "rows at temperatures other than 1",
                           "chi_squared/gaussian_wide/v1000/none/t0.7/*"}),
    [](const testing::TestParamInfo<Resaid>& of) { return std::string(of.param.subject); });

struct OneFailure {
  const char *subject, *condition, *cases;
};

class FewFailures : public testing::TestWithParam<OneFailure> {};

// One case alone fails. Its rows have several things in common, and its pairs tell what matters.
TEST_P(FewFailures, ShowTheirCondition) {
  const auto [subject, condition, cases] = GetParam();
  const PlanOptions options = options_of(cases, condition);
  const Plan plan = make_plan(options);
  harness::RunRecord record = run_plan(plan, options, 1, {});
  ASSERT_EQ(std::ranges::count(record.cases, Verdict::failed, &harness::CaseRecord::verdict), 1);
  constexpr double kSeconds = 600;  // a loaded machine takes longer, and changes no result
  note_conditions(plan.jobs, kSeconds, record);
  const std::vector<harness::SharedCondition>& found = record.samplers.front().conditions;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.front().subject, subject);
  EXPECT_EQ(found.front().text, condition);
}

INSTANTIATE_TEST_SUITE_P(
    Neighbours, FewFailures,
    testing::Values(OneFailure{"dtype", "rows of 16 bits", "chi_squared/*/none/t0.6/*"},
                    OneFailure{"temperature", "rows at temperatures other than 1",
                               "chi_squared/gaussian_wide/v1000/none/*"}),
    [](const testing::TestParamInfo<OneFailure>& of) { return std::string(of.param.subject); });

/// The integer model, which is wrong after a number of outputs.
class WrongLater final : public harness::ForwardingSampler {
 public:
  using Outputs = std::array<std::int64_t, 2>;  ///< of calls of up to 16 and of more rows
  /// The model is right for the first `after` outputs. `outputs` receives their numbers, if it is
  /// not null.
  WrongLater(std::unique_ptr<harness::Sampler> right, std::int64_t after, Outputs* outputs)
      : ForwardingSampler(*right), wrong_(std::move(right)), left_(after), outputs_(outputs) {}

  std::string run(const fairdraw_batch& batch) override {
    left_ -= batch.outputs;
    if (outputs_ != nullptr) (*outputs_)[batch.rows > 16 ? 1 : 0] += batch.outputs;
    return left_ < 0 ? wrong_.run(batch) : forwarded().run(batch);
  }

 private:
  NextTokens wrong_;
  std::int64_t left_;
  Outputs* outputs_;
};

// The sampler is right in fewer calls, whichever calls these are.
TEST(Conditions, AreNotWhatAMistakeAfterManyCallsNeeds) {
  PlanOptions options = options_of("replay/gaussian_wide/v1000/unfiltered", "rows with top_k");
  const auto wrong_after = [](std::int64_t after, WrongLater::Outputs* outputs) {
    return std::make_unique<WrongLater>(harness::make_builtin_sampler("model"), after, outputs);
  };
  Job right = make_plan(options).jobs.front();
  WrongLater::Outputs outputs = {};
  right.make_sampler = [&] { return wrong_after(std::int64_t{1} << 40, &outputs); };
  ASSERT_EQ(verdict_of(right), Verdict::passed);
  // The sampler is right as long as it answers calls of one kind alone.
  const std::int64_t right_ones = std::max(outputs[0], outputs[1]);
  options.make_sampler = [=](const std::string&) { return wrong_after(right_ones, nullptr); };
  const Plan plan = make_plan(options);
  harness::RunRecord record = run_plan(plan, options, 1, {});
  ASSERT_EQ(record.cases.front().verdict, Verdict::failed);
  const Question question(plan.jobs.front(), "fairdraw");
  const std::size_t large = index_of("calls of more than 16 rows");
  EXPECT_TRUE(question.is_right_without(large));
  EXPECT_FALSE(question.is_wrong_with(large));
  constexpr double kSeconds = 600;  // a loaded machine takes longer, and changes no result
  note_conditions(plan.jobs, kSeconds, record);
  EXPECT_TRUE(record.samplers.front().conditions.empty());
}

// The sizes 31, 45, 62, 90, 125 and 180 are right. The sizes 250, which is the case's own, 350, 500
// and 700 are wrong. By chance all of 4 wrong sizes among 10 are the largest with probability
// 1/210, which is below 0.005.
TEST(Neighbours, OfASmallVocabularyAreLarger) {
  Job job = job_of("marks/gaussian/v250/everyday", "rows with top_k");
  const auto wrong_above = [&job](std::int64_t vocab) {
    const Job own = job;
    job.neighbour = [own, vocab](const harness::Variation& given) {
      Job other = own.neighbour(given);
      other.make_sampler = [vocab] {
        return std::make_unique<harness::MixedSampler>(
            std::make_unique<NextTokens>(harness::make_builtin_sampler("model")),
            harness::make_builtin_sampler("model"), harness::vocab_above(vocab).holds);
      };
      return other;
    };
  };
  wrong_above(200);
  const harness::TimeLimit limit(600);
  EXPECT_EQ(largest_right_vocab({&job}, 0.005, limit), 180);
  EXPECT_EQ(largest_right_vocab({&job}, 0.004, limit), 0);
}

TEST(Float32Source, HasTheValuesOfTheNarrowType) {
  const auto source = [] {
    return harness::family_source(harness::Family::gaussian, 1, 31, DType::bfloat16);
  };
  std::vector<float> narrow(31), wide(31), halved(31);
  source()->fill(5, narrow);
  const auto same = harness::float32_source(source());
  EXPECT_EQ(same->dtype(), DType::float32);
  same->fill(5, wide);
  EXPECT_EQ(wide, narrow);
  harness::float32_source(source(), 2)->fill(5, halved);
  for (std::size_t i = 0; i < narrow.size(); ++i) EXPECT_EQ(2 * halved[i], narrow[i]);
}

}  // namespace
}  // namespace fairdraw::suites
