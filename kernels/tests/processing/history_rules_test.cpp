// The rules of histories are tested by hand, on histories of a few ids.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "common/processing_rules.h"
#include "fairdraw/sample.h"
#include "tests/processing/processed_row.h"

namespace fairdraw::suites {
namespace {

TEST(HistoryRules, APenaltyWindowEndsInTheOutputOrInThePrompt) {
  RowProcessing row;
  row.repetition_penalty = 2;
  row.frequency_penalty = 1;
  row.prompt = {0, 1};
  row.output = {2, 3, 3};
  row.penalty_window = 2;  // 3, 3
  expect({8, 8, 8, 8}, row, {8, 8, 8, 8 / 2.0F - 2});
  row.penalty_window = 4;  // 1, 2, 3, 3
  expect({8, 8, 8, 8}, row, {8, 8 / 2.0F, 8 / 2.0F - 1, 8 / 2.0F - 2});
  row.penalty_window = 0;
  expect({8, 8, 8, 8}, row, {8, 8, 8, 8});
  for (const std::int32_t all : {-1, 5, 1000}) {
    row.penalty_window = all;
    expect({8, 8, 8, 8}, row, {8 / 2.0F, 8 / 2.0F, 8 / 2.0F - 1, 8 / 2.0F - 2});
  }
  // The id in front of the window is no token, and is not read.
  row.prompt = {1000, 1};
  row.penalty_window = 4;
  expect({8, 8, 8, 8}, row, {8, 8 / 2.0F, 8 / 2.0F - 1, 8 / 2.0F - 2});
  row.penalty_window = 5;
  EXPECT_EQ(process({8, 8, 8, 8}, row).status, RowStatus::invalid_history);
  row.penalty_window = -2;
  EXPECT_EQ(process({8, 8, 8, 8}, row).status, RowStatus::invalid_history_rule);
}

TEST(HistoryRules, APromptIsCountedWhereTheRowAsksForIt) {
  RowProcessing row;
  row.frequency_penalty = 1;
  row.presence_penalty = 0.5F;
  row.prompt = {0, 1, 1};
  row.output = {1, 2};
  expect({8, 8, 8, 8}, row, {8, 8 - 1.5F, 8 - 1.5F, 8});
  row.counts_of_prompt = 1;
  expect({8, 8, 8, 8}, row, {8 - 1.5F, 8 - 3.5F, 8 - 1.5F, 8});
  row.penalty_window = 3;  // 1 of the prompt, and the output
  expect({8, 8, 8, 8}, row, {8, 8 - 2.5F, 8 - 1.5F, 8});
  row.counts_of_prompt = 2;
  EXPECT_EQ(process({8, 8, 8, 8}, row).status, RowStatus::invalid_history_rule);
}

TEST(HistoryRules, NoNgramIsRepeated) {
  RowProcessing row;
  row.prompt = {1, 2, 3, 1};
  row.output = {4, 1, 2};
  // 2 was followed by 3. The trigram 1, 2, 3 begins in the prompt.
  for (const std::int32_t n : {2, 3}) {
    row.no_repeat_ngram_size = n;
    expect({0, 0, 0, 0, 0, 0}, row, {0, 0, 0, kBanned, 0, 0});
  }
  row.no_repeat_ngram_size = 4;  // 4, 1, 2 occurs once, at the end
  expect({0, 0, 0, 0, 0, 0}, row, {0, 0, 0, 0, 0, 0});
  row.no_repeat_ngram_size = 1;
  expect({0, 0, 0, 0, 0, 0}, row, {0, kBanned, kBanned, kBanned, kBanned, 0});
  // 1 was followed by 2 and by 4, and this bigram spans prompt and output.
  row.output = {4, 1, 2, 1};
  row.no_repeat_ngram_size = 2;
  expect({0, 0, 0, 0, 0, 0}, row, {0, 0, kBanned, 0, kBanned, 0});
  row.output.back() = -1;  // a placeholder equals no id
  row.prompt.front() = -1;
  expect({0, 0, 0, 0, 0, 0}, row, {0, 0, 0, 0, 0, 0});
  row.no_repeat_ngram_size = std::numeric_limits<std::int32_t>::max();
  expect({0, 0, 0, 0, 0, 0}, row, {0, 0, 0, 0, 0, 0});
  row.no_repeat_ngram_size = -1;
  EXPECT_EQ(process({0}, row).status, RowStatus::invalid_history_rule);
}

// --- Penalty of repetitions ----------------------------------------------------------------------

RowProcessing repeating(std::vector<std::int32_t> history, float multiplier, float base,
                        std::int32_t allowed_length) {
  RowProcessing row;
  row.prompt.assign(history.begin(), history.begin() + 2);  // the rest is the output
  row.output.assign(history.begin() + 2, history.end());
  row.dry_multiplier = multiplier;
  row.dry_base = base;
  row.dry_allowed_length = allowed_length;
  return row;
}

TEST(HistoryRules, ATokenThatWouldRepeatIdsIsPenalised) {
  // Before the 3 stand 1 and 2, which are the last ids; nothing stands before them.
  RowProcessing row = repeating({1, 2, 3, 1, 2}, 0.5F, 2, 1);
  expect({8, 8, 8, 8}, row, {8, 8, 8, 8 - 0.5F * 2});
  row.dry_allowed_length = 2;
  expect({8, 8, 8, 8}, row, {8, 8, 8, 8 - 0.5F});
  row.dry_allowed_length = 3;
  expect({8, 8, 8, 8}, row, {8, 8, 8, 8});
}

TEST(HistoryRules, EachTokenHasThePenaltyOfItsLongestRepetition) {
  // Before the first 3 stands 2 alone, and before the 4 stand 1 and 2, which come after a 3.
  expect({8, 8, 8, 8, 8}, repeating({2, 3, 1, 2, 4, 1, 2}, 1, 4, 1), {8, 8, 8, 8 - 1, 8 - 4});
  // Before the second 3 stand 2, 3, 1, 2, as at the end: the ids may overlap.
  expect({8, 8, 8, 80}, repeating({2, 3, 1, 2, 3, 1, 2}, 1, 4, 1), {8, 8, 8, 80 - 64});
}

TEST(HistoryRules, BreakersEndRepetitionsAndHaveNoPenalty) {
  RowProcessing row = repeating({2, 3, 1, 2, 3, 1, 2}, 1, 4, 1);
  row.dry_breakers = {0, 1};  // one id comes after the last 1
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80 - 1});
  row.dry_breakers = {3};
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80});
  row.dry_breakers = {2};  // no id comes after the last 2
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80});
  row.dry_breakers = {-1, 1000};  // these equal no id
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80 - 64});
}

TEST(HistoryRules, RepetitionsBeforeTheWindowDoNotCount) {
  RowProcessing row = repeating({2, 3, 1, 2, 3, 1, 2}, 1, 4, 1);
  row.dry_window = 6;  // 3, 1, 2, 3, 1, 2: three ids stand before the second 3
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80 - 16});
  row.dry_window = 3;  // 3, 1, 2
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80});
  row.dry_window = 0;
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80});
  row.dry_window = 100;
  expect({8, 8, 8, 80}, row, {8, 8, 8, 80 - 64});
}

TEST(HistoryRules, ThePenaltyOfRepetitionsComesAfterTheBiasAndEndsAtItsLargestValue) {
  RowProcessing row = repeating({1, 2, 3, 1, 2}, 0x1p40F, 0x1p40F, 1);
  row.presence_penalty = 1;
  row.biases = {{3, 0x1p64F}, {0, kBanned}};
  // 2^40 2^40 is more than 2^64, and (8 - 1 + 2^64) - 2^64 is 0 in float32.
  expect({8, 8, 8, 8}, row, {kBanned, 8 - 1, 8 - 1, 0});
  row.biases = {{3, kBanned}};
  expect({8, 8, 8, 8}, row, {8, 8 - 1, 8 - 1, kBanned});
}

TEST(HistoryRules, BreakersOutsideTheirBufferFailTheRowWithoutAnyRule) {
  const RowProcessing row;
  harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), 2);
  arrays.dry_breakers.data = {1};
  arrays.dry_breakers.begins = {1};
  arrays.dry_breakers.lengths = {1};
  const std::vector<float> logits = {0, 1};
  std::vector<float> processed(2);
  RowStatus status = RowStatus::ok;
  ProcessLogitsRequest request;
  request.logits = {logits.data(), DType::float32, 1, 2, 2};
  request.processing = arrays.view();
  EXPECT_TRUE(request.processing.given());
  ASSERT_FALSE(process_logits(request, {{processed.data(), 1, 2}, {&status, 1}}));
  EXPECT_EQ(status, RowStatus::invalid_history);
}

TEST(HistoryRules, APlaceholderRepeatsNothing) {
  expect({8, 8, 8, 8}, repeating({-1, 3, 0, -1}, 1, 2, 1), {8, 8, 8, 8});
}

// --- Forced tokens -------------------------------------------------------------------------------

/// Returns the only id that stays, or -1 if all stay.
int forced_by(RowProcessing row, std::vector<std::int32_t> output) {
  row.output = std::move(output);
  row.output_length = static_cast<std::int32_t>(row.output.size());
  const Processed processed = process({1, 2, 3, 4, 5, 6}, row);
  EXPECT_EQ(processed.status, RowStatus::ok);
  int forced = -1;
  int kept = 0;
  for (int id = 0; id < 6; ++id) {
    if (processed.logits[static_cast<std::size_t>(id)] == kBanned) continue;
    forced = id;
    ++kept;
  }
  return kept == 1 ? forced : -1;
}

TEST(HistoryRules, AnOutputBeginsWithItsForcedTokens) {
  RowProcessing row;
  row.prompt = {4, 4};
  row.forced_tokens = {5, 0};
  EXPECT_EQ(forced_by(row, {}), 5);
  EXPECT_EQ(forced_by(row, {5}), 0);
  EXPECT_EQ(forced_by(row, {5, 0}), -1);
  row.forced_delay = 1;
  EXPECT_EQ(forced_by(row, {}), -1);
  EXPECT_EQ(forced_by(row, {3}), 5);
  EXPECT_EQ(forced_by(row, {0}), -1) << "the end came by itself";
}

TEST(HistoryRules, ABudgetOfThinkingEndsWhereverItBegan) {
  RowProcessing row;  // 1 begins, and 2, 3 ends
  row.forced_after = 1;
  row.forced_delay = 2;
  row.forced_tokens = {2, 3};
  row.prompt = {1, 4, 1};
  EXPECT_EQ(forced_by(row, {}), -1);
  EXPECT_EQ(forced_by(row, {4, 4}), 2);
  EXPECT_EQ(forced_by(row, {4, 4, 2}), 3);
  EXPECT_EQ(forced_by(row, {4, 4, 2, 3}), -1);
  EXPECT_EQ(forced_by(row, {4, 3}), -1) << "the thinking has ended";
  EXPECT_EQ(forced_by(row, {4, 3, 4, 1, 4, 4}), 2) << "it begins again";
  EXPECT_EQ(forced_by(row, {4, 1}), -1) << "it has begun again";
  row.prompt = {4};
  EXPECT_EQ(forced_by(row, {4, 4}), -1) << "it has not begun";
}

TEST(HistoryRules, AForcedTokenStandsInPlaceOfTheAllowedIds) {
  RowProcessing row;
  row.allowed_ids = {4, 1000};
  row.forced_tokens = {5};
  EXPECT_EQ(forced_by(row, {}), 5);
  row.output = {5};
  EXPECT_EQ(process({1, 2, 3, 4, 5, 6}, row).status, RowStatus::invalid_allowed_ids);
  row.output.clear();
  row.bad_words = {5};
  row.bad_word_lengths = {1};
  EXPECT_EQ(process({1, 2, 3, 4, 5, 6}, row).status, RowStatus::no_allowed_token);
  row.forced_tokens = {5, 6};
  EXPECT_EQ(process({1, 2, 3, 4, 5, 6}, row).status, RowStatus::invalid_allowed_ids);
}

/// Returns the number of tokens that a row with the probabilities 1/2, 1/4, 1/8, 1/16, 1/16 keeps.
std::int32_t kept_at(float top_p, const RowProcessing& row) {
  const std::array<float, 5> logits = {std::log(16.0F), std::log(8.0F), std::log(4.0F),
                                       std::log(2.0F), std::log(2.0F)};
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), 5, {});
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, 1, 5, 5};
  request.processing = arrays.view();
  request.top_p = top_p;
  std::int32_t token = -7, kept = -7;
  SampleResult result;
  result.tokens = {&token, 1};
  result.support_size = {&kept, 1};
  const Error error = sample(request, result);
  EXPECT_FALSE(error) << error.message;
  return kept;
}

TEST(HistoryRules, TopPDecaysAfterEachTokenOfTheOutput) {
  RowProcessing row;
  row.top_p_decay = 0.8F;  // 1, 0.8, 0.64, 0.512, 0.41
  row.top_p_min = 0.1F;
  row.prompt = {0, 1, 2};
  EXPECT_EQ(kept_at(1, row), 5);
  row.output = {3};
  EXPECT_EQ(kept_at(1, row), 3);
  row.output = {3, -1};  // a token that is not known yet
  EXPECT_EQ(kept_at(1, row), 2);
  row.output = {3, 3, 1};
  EXPECT_EQ(kept_at(1, row), 2);
  row.output = {3, 3, 1, 0};
  EXPECT_EQ(kept_at(1, row), 1);
  row.top_p_min = 0.6F;
  EXPECT_EQ(kept_at(1, row), 2);
  row.top_p_min = 0.9F;
  EXPECT_EQ(kept_at(0.3F, row), 5) << "a top_p below the minimum is raised to it";
  EXPECT_EQ(kept_at(0, row), 1) << "but a greedy request stays greedy";
  row.output.clear();
  EXPECT_EQ(kept_at(0.3F, row), 1);
  row.output = {3, 3, 1, 0};
  row.top_p_decay = 1;
  EXPECT_EQ(kept_at(0.3F, row), 1) << "without a decay there is no minimum";
}

/// The kernels compare one product in many with the minimum, and the reference each product.
TEST(HistoryRules, TopPHasTheBitsOfOneProductAfterAnother) {
  RowProcessing row;
  for (const float decay : {0x1p-149F, 0.3F, 0.9F, 0.999F, 0x1.fffffep-1F}) {
    for (const float least : {0x1p-149F, 1e-6F, 0.2F, 0.7F, 1.0F}) {
      row.top_p_decay = decay;
      row.top_p_min = least;
      HistoryRules rules;
      rules.top_p_decay = decay;
      rules.top_p_min = least;
      row.output.clear();
      for (std::int32_t tokens = 0; tokens < 300; ++tokens) {
        for (const float top_p : {1.0F, 0.9F, 0.2F, 0x1p-149F, 0.0F}) {
          EXPECT_EQ(decayed_top_p(top_p, rules, tokens), reference::decayed_top_p(row, top_p))
              << top_p << " after " << tokens << " tokens, by " << decay << " to " << least;
        }
        row.output.push_back(0);
      }
    }
  }
}

TEST(HistoryRules, ATokenOfTheOutputResetsTopP) {
  RowProcessing row;
  row.top_p_decay = 0.5F;
  row.top_p_reset_id = 2;
  row.prompt = {2};
  row.output = {0, 0};
  EXPECT_EQ(kept_at(1, row), 1);
  row.output = {0, 2};
  EXPECT_EQ(kept_at(1, row), 5);
  row.output = {2, 0, 2, 0};
  EXPECT_EQ(kept_at(1, row), 1);
  EXPECT_EQ(kept_at(0.75F, row), 1);
  row.output = {2, 0, 2};
  EXPECT_EQ(kept_at(0.75F, row), 2);
  row.top_p_reset_id = -1;
  row.output = {0, -1};  // no id resets
  EXPECT_EQ(kept_at(1, row), 1);
}

TEST(HistoryRules, ValuesBeyondTheirRangesFail) {
  const float nan = std::nanf("");
  const auto status = [](auto change) {
    RowProcessing row;
    change(row);
    return process({0}, row).status;
  };
  for (const float bad : {nan, -0x1p-149F, 0x1.000002p64F, kInfinity}) {
    EXPECT_EQ(status([bad](RowProcessing& row) { row.dry_multiplier = bad; }),
              RowStatus::invalid_history_rule);
  }
  for (const float bad : {nan, 0x1.fffffep-1F, 0x1.000002p64F, kInfinity}) {
    EXPECT_EQ(status([bad](RowProcessing& row) { row.dry_base = bad; }),
              RowStatus::invalid_history_rule);
  }
  EXPECT_EQ(status([](RowProcessing& row) { row.dry_allowed_length = 0; }),
            RowStatus::invalid_history_rule);
  for (const auto member : {&RowProcessing::dry_window, &RowProcessing::forced_after}) {
    EXPECT_EQ(status([member](RowProcessing& row) { row.*member = -2; }),
              RowStatus::invalid_history_rule);
  }
  EXPECT_EQ(status([](RowProcessing& row) { row.forced_delay = -1; }),
            RowStatus::invalid_history_rule);
  for (const auto member : {&RowProcessing::top_p_decay, &RowProcessing::top_p_min}) {
    for (const float bad : {nan, 0.0F, -0x1p-149F, 0x1.000002p0F}) {
      EXPECT_EQ(status([&](RowProcessing& row) { row.*member = bad; }),
                RowStatus::invalid_history_rule);
    }
  }
  EXPECT_EQ(status([](RowProcessing& row) { row.top_p_reset_id = -2; }),
            RowStatus::invalid_history_rule);
}

}  // namespace
}  // namespace fairdraw::suites
