// Tests of failed cases that a right sampler answers in part.
#include "suites/gate/identify/case_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "harness/run/calls/forwarding_sampler.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

using harness::Condition;
using harness::Job;

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

// Returns the job of a case for the integer model that is wrong in the rows with a condition.
Job job_of(const std::string& case_id, const std::string& condition) {
  PlanOptions options;
  options.samplers = {"wrong in some rows"};
  options.make_sampler = [holds = asked_conditions()[index_of(condition)].holds](
                             const std::string&) -> std::unique_ptr<harness::Sampler> {
    return std::make_unique<harness::MixedSampler>(
        std::make_unique<NextTokens>(harness::make_builtin_sampler("model")),
        harness::make_builtin_sampler("model"), holds);
  };
  options.case_glob = case_id;
  options.seed = 1;
  return make_plan(options).jobs.front();
}

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

}  // namespace
}  // namespace fairdraw::suites
