// The tests cover the design of statistical cases, without draws: each case must have the power to
// detect its declared discrepancy. The sampler rejects every call, so that a case with enough power
// fails at its first draw.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/contract/sampler.h"
#include "harness/inputs/npy.h"
#include "suites/gate/run/plan.h"

namespace fairdraw::suites {
namespace {

class Refusing : public harness::Sampler {
 public:
  explicit Refusing(harness::AcceptanceRule rule, bool seeds = true) {
    description_.name = "refusing";
    description_.semantics = "fairdraw";
    description_.exact_integer = description_.per_request_seeds = seeds;
    description_.bfloat16 = description_.float16 = true;
    description_.lowest_id_ties = description_.joint_order = true;
    description_.num_samples = description_.indices = true;
    description_.from_probs = description_.chains = description_.allowed_mask = true;
    description_.speculation = description_.draft_tree_laws = true;
    description_.speculation_processing = true;
    description_.marks_by_key = description_.marks_by_key_and_seed = true;
    description_.acceptance_rule = rule;
  }
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch&) override { return "by design"; }
  std::string run_serving(const harness::ServingCall&) override { return "by design"; }

 private:
  harness::SamplerDescription description_;
};

TEST(Design, EveryStatisticalCaseHasThePowerThatItStates) {
  PlanOptions options;
  options.suite = Suite::nightly;
  options.samplers = {"refusing"};
  harness::AcceptanceRule rule = harness::AcceptanceRule::token_wise;
  options.make_sampler = [&rule](const std::string&) { return std::make_unique<Refusing>(rule); };
  const std::filesystem::path data = FAIRDRAW_DATA_DIR;
  options.captured = {std::make_shared<harness::CapturedLogits>(
                          harness::load_npy(data / "lm_logits_f32.npy", false)),
                      std::make_shared<harness::CapturedLogits>(
                          harness::load_npy(data / "lm_logits_bf16_as_u16.npy", true))};
  std::size_t judged = 0;
  const auto judge = [&](const char* check) {
    options.case_glob = check;
    const Plan plan = make_plan(options);
    EXPECT_EQ(plan.statistical_cases, kStatisticalCases);
    const harness::RunRecord record = run_plan(plan, options, 2, {});
    EXPECT_FALSE(record.cases.empty()) << check;
    for (const harness::CaseRecord& entry : record.cases) {
      ++judged;
      EXPECT_STREQ(to_string(entry.verdict), "failed") << entry.id << ": " << entry.message;
      EXPECT_TRUE(entry.message.starts_with("call refused: by design")) << entry.id;
    }
  };
  for (const char* check : {"chi_squared/*", "bets/*", "binomial/*", "pit/*", "streams/*"}) {
    judge(check);
  }
  for (const auto declared : {harness::AcceptanceRule::token_wise, harness::AcceptanceRule::block,
                              harness::AcceptanceRule::none_stated}) {
    rule = declared;
    for (const char* check : {"chain_law/*", "verify_law/*", "tree_law/*"}) judge(check);
  }
  EXPECT_GE(judged, 30U);

  // These cases are for samplers without per-request seeds.
  options.case_glob = "batches_law/*";
  options.make_sampler = [](const std::string&) {
    return std::make_unique<Refusing>(harness::AcceptanceRule::none_stated, false);
  };
  const harness::RunRecord record = run_plan(make_plan(options), options, 2, {});
  EXPECT_GE(record.cases.size(), 3U);
  for (const harness::CaseRecord& entry : record.cases) {
    EXPECT_STREQ(to_string(entry.verdict), "failed") << entry.id << ": " << entry.message;
    EXPECT_EQ(entry.message, "a batch of 1 rows: call refused: by design") << entry.id;
  }
}

}  // namespace
}  // namespace fairdraw::suites
