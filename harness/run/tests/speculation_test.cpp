// Self-tests of the checks of speculation: right samplers pass, and wrong samplers fail in the
// check that is made for their mistake.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>

#include "harness/adapters/serving_model.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/speculation/emitted_sequences.h"
#include "harness/run/tests/case_share.h"

namespace fairdraw::harness {
namespace {

CheckOutcome judge(Sampler& sampler, CheckOutcome (*check)(const CheckInput&),
                   bool processed = false) {
  const bool exact = check == check_speculation;
  const auto logits = family_source(Family::gaussian, 4, 5, DType::float32);
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = logits.get();
  input.parameters = {{}};
  if (exact) {
    input.parameters = {{}, {0.7F, 3, 1, 0}, {0, 0, 1, 0}, {1.5F, 0, 0.8F, 0}, {1, 0, 1, 0.3F}};
  }
  input.rows = 1200;  // 100 rows for each of twelve shapes of calls
  input.draws = 150'000;
  input.declared_discrepancy = 0.06;
  input.banned_tokens = exact;
  input.seed = 9;
  input.false_fail_rate = kShare;
  for (std::int64_t row = 0; processed && row < input.rows; ++row) {
    input.processing.push_back(exact ? processing_for_row(input.seed, row, logits->vocab())
                                     : processing_for_distribution(logits->vocab()));
  }
  return check(input);
}

TEST(Speculation, PassesWhereItIsRight) {
  for (const std::string& name : builtin_sampler_names()) {
    const auto sampler = make_builtin_sampler(name);
    if (!sampler->description().speculation) continue;
    // Each sampler takes 30 s under the sanitizers, so there only one instruction set and the model
    // are tested.
    const bool is_reduced = std::getenv("FAIRDRAW_REDUCED") != nullptr;
    if (is_reduced && name != "cpu" && name != "model") continue;
    for (const auto check :
         {check_speculation, check_speculation_distribution, check_tree_distribution}) {
      for (const bool processed : {false, true}) {
        if (processed && check == check_tree_distribution)
          continue;  // the rows of this check have
                     // no processing
        const CheckOutcome outcome = judge(*sampler, check, processed);
        const bool takes_it = !processed || sampler->description().speculation_processing;
        EXPECT_STREQ(to_string(outcome.verdict), takes_it ? "passed" : "skipped")
            << name << ": " << outcome.message;
        EXPECT_LE(outcome.spent(), kShare * (1 + 32 * 0x1p-53));  // a sum of 18 levels
      }
    }
  }
}

// The exact check covers accepted drafts, and requests of every status that drafts can have.
TEST(Speculation, RequestsMeetEveryStatus) {
  const auto sampler = make_builtin_sampler("model");
  const CheckOutcome outcome = judge(*sampler, check_speculation);
  for (const char* status :
       {"status_ok", "status_inactive", "status_nan_input", "status_index_out_of_range",
        "status_invalid_draft_length", "status_impossible_draft", "status_invalid_draft_tree",
        "drafts_that_stand"}) {
    EXPECT_GT(outcome.measures.count(status), 0U) << status;
  }
}

TEST(Speculation, ProcessedRequestsMeetItsStatuses) {
  const auto sampler = make_builtin_sampler("model");
  const CheckOutcome outcome = judge(*sampler, check_speculation, true);
  for (const char* status :
       {"status_invalid_history", "status_invalid_penalty", "status_invalid_logit_bias",
        "status_invalid_min_tokens", "status_invalid_bad_words", "status_invalid_allowed_ids",
        "drafts_that_stand"}) {
    EXPECT_GT(outcome.measures.count(status), 0U) << status;
  }
}

struct Mutated : ServingModel {
  using Change = std::function<void(DraftedTokens&)>;
  Mutated(Change change, bool exact) : change_(std::move(change)) {
    description_.exact_integer = exact;
  }
  reference::SpeculationOutcome accept_drafts(DraftedTokens& request) override {
    change_(request);
    return ServingModel::accept_drafts(request);
  }

 private:
  Change change_;
};

struct Wrong {
  const char* name;
  Mutated::Change change;
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

const Wrong kWrong[] = {
    {"every coin is 0",
     [](DraftedTokens& request) {
       for (auto& words : request.words) words.accept = 0;
     }},
    {"recovery takes the coin",
     [](DraftedTokens& request) {
       for (auto& words : request.words) words.recover = words.accept;
     }},
    {"positions share words",
     [](DraftedTokens& request) {
       for (auto& words : request.words) words = request.words.front();
     }},
    {"the bonus takes the last coin",
     [](DraftedTokens& request) {
       for (std::size_t i = 1; i < request.words.size(); ++i) {
         request.words[i].bonus = request.words[i - 1].accept;
       }
     }},
};

class WrongSpeculation : public testing::TestWithParam<Wrong> {};

TEST_P(WrongSpeculation, IsRed) {
  Mutated exact(GetParam().change, true);
  EXPECT_TRUE(judge(exact, check_speculation).failed());
  Mutated distribution(GetParam().change, false);
  for (const auto check : {check_speculation_distribution, check_tree_distribution}) {
    const CheckOutcome outcome = judge(distribution, check);
    EXPECT_TRUE(outcome.failed()) << outcome.message;
  }
}

const Wrong kWrongProcessing[] = {
    {"no processing",
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.target) row.processing.reset();
     }},
    {"drafts leave no history",
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.target)
         row.processing = request.target.front().processing;
     }},
    {"drafts after a row count too",
     [](DraftedTokens& request) {
       for (DistributionRow& row : request.target)
         row.processing = request.target.back().processing;
     }},
};

class WrongProcessing : public testing::TestWithParam<Wrong> {};

TEST_P(WrongProcessing, IsRed) {
  Mutated exact(GetParam().change, true);
  EXPECT_FALSE(judge(exact, check_speculation).failed());
  EXPECT_TRUE(judge(exact, check_speculation, true).failed());
  Mutated distribution(GetParam().change, false);
  const CheckOutcome outcome = judge(distribution, check_speculation_distribution, true);
  EXPECT_TRUE(outcome.failed()) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Mutants, WrongProcessing, testing::ValuesIn(kWrongProcessing));

INSTANTIATE_TEST_SUITE_P(Mutants, WrongSpeculation, testing::ValuesIn(kWrong));

TEST(Speculation, IsSkippedWhereThereIsNone) {
  struct None : ServingModel {
    None() { description_.speculation = false; }
  } sampler;
  EXPECT_STREQ(to_string(judge(sampler, check_speculation).verdict), "skipped");
  EXPECT_STREQ(to_string(judge(sampler, check_speculation_distribution).verdict), "skipped");
  EXPECT_STREQ(to_string(judge(sampler, check_tree_distribution).verdict), "skipped");
  struct ChainsAlone : ServingModel {
    ChainsAlone() { description_.draft_trees = description_.draft_tree_laws = false; }
  } chains;
  EXPECT_STREQ(to_string(judge(chains, check_speculation).verdict), "passed");
  EXPECT_STREQ(to_string(judge(chains, check_tree_distribution).verdict), "skipped");
}

// A sampler that takes two kinds of drafts, and no faulty requests.
struct Picky : ServingModel {
  Picky() {
    description_.draft_trees = description_.draft_tree_laws = false;
    description_.drafts = {.unknown = true, .probs = false, .logits = true, .faults = false};
    description_.reports_status = false;
  }
  std::string run_speculation(const fairdraw_verification& call) override {
    asked.insert(call.draft_law);
    for (std::int64_t b = 0; b < call.batch; ++b) {
      const bool packed = call.row_begins != nullptr;
      const std::int64_t row = packed ? call.row_begins[b] : b * (call.max_draft + 1);
      const std::int64_t room = packed ? call.row_begins[b + 1] - row - 1 : call.max_draft;
      const std::int64_t drafts = call.draft_lengths != nullptr ? call.draft_lengths[b] : room;
      EXPECT_GE(drafts, 0);
      EXPECT_LE(drafts, call.max_draft);
      for (std::int64_t i = 0; i < drafts; ++i) {
        const std::int32_t token = call.draft_tokens[row - b + i];
        EXPECT_TRUE(token >= 0 && token < call.vocab);
        if (call.draft_law == 0 || call.dtype != 0) continue;
        const float q = static_cast<const float*>(call.draft)[(row - b + i) * call.vocab + token];
        EXPECT_GT(q, -INFINITY);  // because the draft can give the token
      }
    }
    return ServingModel::run_speculation(call);
  }
  std::set<std::uint32_t> asked;
};

TEST(Speculation, OnlyWhatASamplerTakesIsAskedOfIt) {
  for (const auto check : {check_speculation, check_speculation_distribution}) {
    Picky sampler;
    const CheckOutcome outcome = judge(sampler, check);
    EXPECT_STREQ(to_string(outcome.verdict), "passed") << outcome.message;
    EXPECT_EQ(sampler.asked, (std::set<std::uint32_t>{0, 2}));
  }
}

// If r_1 is 1 - 2^-20 and the rows after the first draft are equal, s is 0 in real arithmetic, and
// a few units of 2^-25 in float32. Then h_1 is about 2^-5 in float32, and the draft may be
// accepted.
TEST(Speculation, WhatABlockLeavesMayBeTooLittleForFloat32) {
  const Distribution draft = {0.5, 0.5}, target = {0.5 - 0x1p-21, 0.5 + 0x1p-21};
  const auto judged = [&](std::size_t accepted, std::int32_t drafted) {
    BlockAcceptance block(
        "block", target, [&](std::size_t) { return Distribution(draft); }, draft, draft);
    for (int i = 0; i < 500; ++i) {
      for (const std::int32_t token : {0, 1}) block.count(2, token);
    }
    block.count(accepted, drafted);
    CheckOutcome outcome;
    block.table().judge(1e-12, outcome);
    return outcome;
  };
  // One such draw in 1001 draws has probability 1001 * 2^-21 = 5e-4, far above the level.
  EXPECT_STREQ(to_string(judged(1, 0).verdict), "passed") << judged(1, 0).message;
  // The other draft is always accepted.
  EXPECT_STREQ(to_string(judged(1, 1).verdict), "failed");
}

}  // namespace
}  // namespace fairdraw::harness
