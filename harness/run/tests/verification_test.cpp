// The checks of verification on trial: right samplers pass, wrong ones are red in the check that is
// there for what is wrong with them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>

#include "harness/adapters/model_sampler.h"
#include "harness/run/verification_checks.h"

namespace fairdraw::harness {
namespace {

constexpr double kShare = 9e-13;  // 5e-10 over 512 cases, rounded down

CheckOutcome judge(Sampler& sampler, CheckOutcome (*check)(const CheckInput&),
                   bool processed = false) {
  const bool exact = check == check_verify;
  const auto logits = family_source(Family::gaussian, 4, 5, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{}};
  if (exact) {
    input.parameters = {{}, {0.7F, 3, 1, 0}, {0, 0, 1, 0}, {1.5F, 0, 0.8F, 0}, {1, 0, 1, 0.3F}};
  }
  input.rows = 1200;  // 100 for each of the exact check's twelve shapes of calls
  input.draws = 150'000;
  input.declared_discrepancy = 0.06;
  input.banned_tokens = exact;
  input.seed = 9;
  input.false_fail_rate = kShare;
  for (std::int64_t row = 0; processed && row < input.rows; ++row) {
    input.processing.push_back(exact ? processing_for_row(input.seed, row, logits->vocab())
                                     : processing_for_law(logits->vocab()));
  }
  return check(input);
}

TEST(Verification, PassesWhereItIsRight) {
  for (const std::string& name : builtin_sampler_names()) {
    const auto sampler = make_builtin_sampler(name);
    if (!sampler->description().verification) continue;
    // Under the sanitizers 30 s a sampler: there one instruction set and the model.
    const bool is_reduced = std::getenv("FAIRDRAW_REDUCED") != nullptr;
    if (is_reduced && name != "cpu" && name != "model") continue;
    for (const auto check : {check_verify, check_verify_law, check_verify_tree_law}) {
      for (const bool processed : {false, true}) {
        if (processed && check == check_verify_tree_law) continue;  // its rows are as they come
        const CheckOutcome outcome = judge(*sampler, check, processed);
        const bool takes_it = !processed || sampler->description().verification_processing;
        EXPECT_STREQ(to_string(outcome.verdict), takes_it ? "passed" : "skipped")
            << name << ": " << outcome.message;
        EXPECT_LE(outcome.spent, kShare * (1 + 32 * 0x1p-53));  // a sum of eighteen levels
      }
    }
  }
}

// The exact check meets what it is there for: drafts that stand, and requests of every status that
// drafts have.
TEST(Verification, RequestsMeetEveryStatus) {
  const auto sampler = make_builtin_sampler("model");
  const CheckOutcome outcome = judge(*sampler, check_verify);
  for (const char* status :
       {"status_ok", "status_inactive", "status_nan_input", "status_index_out_of_range",
        "status_invalid_draft_length", "status_impossible_draft", "status_invalid_draft_tree",
        "drafts_that_stand"}) {
    EXPECT_GT(outcome.measures.count(status), 0U) << status;
  }
}

TEST(Verification, ProcessedRequestsMeetItsStatuses) {
  const auto sampler = make_builtin_sampler("model");
  const CheckOutcome outcome = judge(*sampler, check_verify, true);
  for (const char* status :
       {"status_invalid_history", "status_invalid_penalty", "status_invalid_logit_bias",
        "status_invalid_min_tokens", "status_invalid_bad_words", "status_invalid_allowed_ids",
        "drafts_that_stand"}) {
    EXPECT_GT(outcome.measures.count(status), 0U) << status;
  }
}

struct Spoiled : ModelSampler {
  using Change = std::function<void(DraftedRequest&)>;
  Spoiled(Change change, bool exact) : change_(std::move(change)) {
    description_.exact_integer = exact;
  }
  reference::VerificationOutcome verify_request(DraftedRequest& request) override {
    change_(request);
    return ModelSampler::verify_request(request);
  }

 private:
  Change change_;
};

struct Wrong {
  const char* name;
  Spoiled::Change change;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const Wrong kWrong[] = {
    {"every coin is 0",
     [](DraftedRequest& request) {
       for (auto& words : request.words) words.accept = 0;
     }},
    {"recovery takes the coin",
     [](DraftedRequest& request) {
       for (auto& words : request.words) words.recover = words.accept;
     }},
    {"positions share words",
     [](DraftedRequest& request) {
       for (auto& words : request.words) words = request.words.front();
     }},
    {"the bonus takes the last coin",
     [](DraftedRequest& request) {
       for (std::size_t i = 1; i < request.words.size(); ++i) {
         request.words[i].bonus = request.words[i - 1].accept;
       }
     }},
};

class WrongVerification : public testing::TestWithParam<Wrong> {};

TEST_P(WrongVerification, IsRed) {
  Spoiled exact(GetParam().change, true);
  EXPECT_TRUE(judge(exact, check_verify).failed());
  Spoiled law(GetParam().change, false);
  for (const auto check : {check_verify_law, check_verify_tree_law}) {
    const CheckOutcome outcome = judge(law, check);
    EXPECT_TRUE(outcome.failed()) << outcome.message;
  }
}

const Wrong kWrongProcessing[] = {
    {"no processing",
     [](DraftedRequest& request) {
       for (LawRow& row : request.target) row.processing.reset();
     }},
    {"drafts leave no history",
     [](DraftedRequest& request) {
       for (LawRow& row : request.target) row.processing = request.target.front().processing;
     }},
    {"drafts behind a row count too",
     [](DraftedRequest& request) {
       for (LawRow& row : request.target) row.processing = request.target.back().processing;
     }},
};

class WrongProcessing : public testing::TestWithParam<Wrong> {};

TEST_P(WrongProcessing, IsRed) {
  Spoiled exact(GetParam().change, true);
  EXPECT_FALSE(judge(exact, check_verify).failed());
  EXPECT_TRUE(judge(exact, check_verify, true).failed());
  Spoiled law(GetParam().change, false);
  const CheckOutcome outcome = judge(law, check_verify_law, true);
  EXPECT_TRUE(outcome.failed()) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, WrongProcessing, testing::ValuesIn(kWrongProcessing));

INSTANTIATE_TEST_SUITE_P(Mutants, WrongVerification, testing::ValuesIn(kWrong));

TEST(Verification, IsSkippedWhereThereIsNone) {
  struct None : ModelSampler {
    None() { description_.verification = false; }
  } sampler;
  EXPECT_STREQ(to_string(judge(sampler, check_verify).verdict), "skipped");
  EXPECT_STREQ(to_string(judge(sampler, check_verify_law).verdict), "skipped");
  EXPECT_STREQ(to_string(judge(sampler, check_verify_tree_law).verdict), "skipped");
  struct ChainsAlone : ModelSampler {
    ChainsAlone() { description_.draft_trees = description_.draft_tree_laws = false; }
  } chains;
  EXPECT_STREQ(to_string(judge(chains, check_verify).verdict), "passed");
  EXPECT_STREQ(to_string(judge(chains, check_verify_tree_law).verdict), "skipped");
}

}  // namespace
}  // namespace fairdraw::harness
