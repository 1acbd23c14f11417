// Logits processing is tested by hand: each step on a row whose result the test computes, the
// statuses of invalid values, and changes that must have no effect.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/processing_arrays.h"
#include "harness/inputs/processing_rows.h"
#include "tests/processing/processed_row.h"

namespace fairdraw::suites {
namespace {

SampleResult tokens_to(std::int32_t* tokens, std::int64_t size) {
  SampleResult result;
  result.tokens = {tokens, size};
  return result;
}

using harness::ProcessingFault;

TEST(ProcessingAnswers, RepetitionDividesWhatIsPositiveAndMultipliesTheRest) {
  RowProcessing row;
  row.repetition_penalty = 2;
  row.prompt = {0, 1, 2, 2};
  row.output = {3, -1, 3};
  //      in the prompt: 4 / 2, -4 * 2, 0 * 2; in the output, penalised only once: 6 / 2; in
  //      neither: 8
  expect({4, -4, 0, 6, 8}, row, {2, -8, 0, 3, 8});
}

TEST(ProcessingAnswers, FrequencyAndPresenceCountTheOutputAlone) {
  RowProcessing row;
  row.frequency_penalty = 0.5F;
  row.presence_penalty = 0.25F;
  row.prompt = {0, 1};
  row.output = {1, 2, 2, 2, -1};
  // 1 - 0.5 - 0.25; 1 - 1.5 - 0.25. Negative penalties add.
  expect({1, 1, 1, 1}, row, {1, 0.25F, -0.75F, 1});
  row.frequency_penalty = -1;
  row.presence_penalty = 0;
  expect({1, 1, 1, 1}, row, {1, 2, 4, 1});
}

TEST(ProcessingAnswers, TheOrderIsRepetitionFrequencyPresenceBias) {
  RowProcessing row;
  row.repetition_penalty = 2;
  row.frequency_penalty = 1;
  row.presence_penalty = 0.5F;
  row.output = {0, 0, 1};
  row.biases = {{0, 10}, {2, -1}};
  // (8 / 2) - 2 * 1 - 0.5 + 10; (-3 * 2) - 1 - 0.5; 5 - 1. Any other order would change the first
  // value: with the bias before the division it is 6.5, with the penalties before the division 2.75
  // + 10.
  expect({8, -3, 5, 7}, row, {11.5F, -7.5F, 4, 7});
}

TEST(ProcessingAnswers, EachOperationRoundsOnce) {
  // The float32 next to 1 is 1 + 2^-23. 1 - (2^-24 * 2) is exactly 1 - 2^-23, and subtracting 2^-24
  // twice would give the same result. But 1 - 2^-25 * 2 = 1 - 2^-24 differs from subtracting twice,
  // because 1 - 2^-25 rounds to even, to 1, both times.
  RowProcessing row;
  row.output = {0, 0};
  row.frequency_penalty = 0x1p-25F;
  expect({1, 0}, row, {1 - 0x1p-24F, 0});
  // Rounding the product 0.1f * 3 before the subtraction gives another result than a fused
  // multiply-add. The exact value of 1 - 0x1.99999ap-4 * 3 is 0.69999999552965164, but the product
  // is first rounded to 0x1.333334p-2 = 0.3000000119.
  row.output = {0, 0, 0};
  row.frequency_penalty = 0.1F;
  expect({1, 0}, row, {1.0F - 0x1.333334p-2F, 0});
}

TEST(ProcessingAnswers, OfAnIdWithTwoBiasesTheLastCounts) {
  RowProcessing row;
  row.biases = {{1, kBanned}, {0, 1}, {2, kBanned}, {0, 2}, {1, 4}};
  expect({1, 1, 1}, row, {3, 5, kBanned});
}

TEST(ProcessingAnswers, StopIdsAreBannedWhileTheOutputIsTooShort) {
  RowProcessing row;
  row.stop_ids = {0, 3};
  row.min_tokens = 2;
  for (const std::int32_t length : {0, 1, 2, 3}) {
    row.output_length = length;
    const float stop = length < 2 ? kBanned : 1.0F;
    expect({1, 1, 1, 1}, row, {stop, 1, 1, stop});
  }
}

TEST(ProcessingAnswers, TheLastIdOfABadWordIsBannedBehindItsPrefix) {
  RowProcessing row;
  // Words: {4}; {1, 0}; {1, 2, 3}; {2, 1}; {2, 1, 2, 5}.
  row.bad_words = {4, 1, 0, 1, 2, 3, 2, 1, 2, 1, 2, 5};
  row.bad_word_lengths = {1, 2, 3, 2, 4};
  const std::vector<float> ones(6, 1.0F);
  expect(ones, row, {1, 1, 1, 1, kBanned, 1});  // without output, only words of one id are banned
  row.output = {1};
  expect(ones, row, {kBanned, 1, 1, 1, kBanned, 1});
  row.output = {1, 2};  // {1, 2, 3} and {2, 1}
  expect(ones, row, {1, kBanned, 1, kBanned, kBanned, 1});
  row.output = {2, 1, 2};  // also bans the last id of the word of four ids
  expect(ones, row, {1, kBanned, 1, kBanned, kBanned, kBanned});
  row.output = {1, 2, -1};  // an unknown token of the history completes no bad word
  expect(ones, row, {1, 1, 1, 1, kBanned, 1});
}

TEST(ProcessingAnswers, AllowedIdsBanTheOthersAndKeepTheirOwnValues) {
  RowProcessing row;
  row.allowed_ids = {3, 1, 3};
  row.biases = {{1, 2}, {0, 9}};
  expect({1, 1, 1, 1}, row, {kBanned, 3, kBanned, 1});
}

TEST(ProcessingAnswers, ARowWithoutATokenSaysSo) {
  RowProcessing row;
  row.allowed_ids = {1};
  row.biases = {{1, kBanned}};
  const Processed processed = process({1, 1}, row);
  EXPECT_EQ(processed.status, RowStatus::no_allowed_token);
  EXPECT_EQ(processed.logits, (std::vector<float>{kBanned, kBanned}));
}

TEST(ProcessingAnswers, EveryFaultHasItsStatus) {
  const auto status_of = [](ProcessingFault fault) {
    std::vector<float> logits(40, 0.5F);
    RowProcessing row;
    harness::mutate(row, fault, logits);
    return process(logits, row).status;
  };
  EXPECT_EQ(status_of(ProcessingFault::none), RowStatus::ok);
  EXPECT_EQ(status_of(ProcessingFault::nan_penalty), RowStatus::invalid_penalty);
  EXPECT_EQ(status_of(ProcessingFault::zero_repetition), RowStatus::invalid_penalty);
  EXPECT_EQ(status_of(ProcessingFault::negative_min_tokens), RowStatus::invalid_min_tokens);
  EXPECT_EQ(status_of(ProcessingFault::prompt_id), RowStatus::invalid_history);
  EXPECT_EQ(status_of(ProcessingFault::output_id), RowStatus::invalid_history);
  EXPECT_EQ(status_of(ProcessingFault::negative_output_length), RowStatus::invalid_history);
  EXPECT_EQ(status_of(ProcessingFault::nan_bias), RowStatus::invalid_logit_bias);
  EXPECT_EQ(status_of(ProcessingFault::infinite_bias), RowStatus::invalid_logit_bias);
  EXPECT_EQ(status_of(ProcessingFault::bias_id), RowStatus::invalid_logit_bias);
  EXPECT_EQ(status_of(ProcessingFault::stop_id), RowStatus::invalid_min_tokens);
  EXPECT_EQ(status_of(ProcessingFault::empty_word), RowStatus::invalid_bad_words);
  EXPECT_EQ(status_of(ProcessingFault::word_beyond_list), RowStatus::invalid_bad_words);
  EXPECT_EQ(status_of(ProcessingFault::word_id), RowStatus::invalid_bad_words);
  EXPECT_EQ(status_of(ProcessingFault::allowed_id), RowStatus::invalid_allowed_ids);
  EXPECT_EQ(status_of(ProcessingFault::overflow), RowStatus::processing_overflow);
}

TEST(ProcessingAnswers, PenaltiesHaveTheirRanges) {
  const auto status_of = [](float repetition, float frequency, float presence) {
    RowProcessing row;
    row.repetition_penalty = repetition;
    row.frequency_penalty = frequency;
    row.presence_penalty = presence;
    return process({0, 0}, row).status;
  };
  const float nan = std::nanf("");
  const float above = std::nextafter(0x1p64F, kInfinity);
  for (const float good : {0x1p-64F, 1.0F, 0x1p64F}) {
    EXPECT_EQ(status_of(good, 0, 0), RowStatus::ok) << good;
  }
  for (const float bad : {nan, 0.0F, -1.0F, kInfinity, above, std::nextafter(0x1p-64F, 0.0F)}) {
    EXPECT_EQ(status_of(bad, 0, 0), RowStatus::invalid_penalty) << bad;
  }
  for (const float good : {-0x1p64F, -1.0F, 0x1p64F}) {
    EXPECT_EQ(status_of(1, good, good), RowStatus::ok) << good;
  }
  for (const float bad : {nan, kInfinity, -kInfinity, above, -above}) {
    EXPECT_EQ(status_of(1, bad, 0), RowStatus::invalid_penalty) << bad;
    EXPECT_EQ(status_of(1, 0, bad), RowStatus::invalid_penalty) << bad;
  }
}

// Distances of 0, 2, 2 and 2 have the mean 3/2. The variance of these distances is 3/4 as a
// population, and 1 as a sample, so that 2.2 standard deviations are 1.9 for the population,
// and 2.2 for the sample.
TEST(ProcessingAnswers, TopNSigmaDividesByTheNumberOfTokens) {
  RowProcessing row;
  row.top_n_sigma = 2.2F;
  expect({-5, -3, -5, -5}, row, {kBanned, -3, kBanned, kBanned});
  row.top_n_sigma = 2.4F;  // 2.4 sqrt(3) / 2 = 2.08
  expect({-5, -3, -5, -5}, row, {-5, -3, -5, -5});
}

TEST(ProcessingAnswers, TopNSigmaKeepsWhatLiesAtItsThreshold) {
  RowProcessing row;
  row.top_n_sigma = 2;  // the distances are 0 and 2, so sigma is 1
  expect({1, -1}, row, {1, -1});
  row.top_n_sigma = std::nextafter(2.0F, 0.0F);
  expect({1, -1}, row, {1, kBanned});
  row.top_n_sigma = 0.01F;  // sigma is 0, so equal logits stay
  expect({3, 3, 3}, row, {3, 3, 3});
}

TEST(ProcessingAnswers, TopNSigmaIsOfTheTokensThatAreLeft) {
  RowProcessing row;
  row.top_n_sigma = 2;
  row.biases = {{2, kBanned}, {0, 4}};  // leaves logits 1 and -1, as above
  expect({-3, -1, -900, kBanned}, row, {1, -1, kBanned, kBanned});
}

TEST(ProcessingAnswers, TopNSigmaCountsDistancesUpTo2048) {
  RowProcessing row;
  row.top_n_sigma = 2;  // sigma of two tokens is half of the distance between them
  expect({0, -0x1p100F}, row, {0, -0x1p100F});
  row.top_n_sigma = 1.99F;
  expect({0, -0x1p100F}, row, {0, kBanned});
}

TEST(ProcessingAnswers, TopNSigmaIsOffAtMinusOneZeroAndInfinity) {
  const std::vector<float> logits = {0, -1, -100};
  RowProcessing row;
  for (const float off : {-1.0F, 0.0F, -0.0F, kInfinity}) {
    row.top_n_sigma = off;
    expect(logits, row, logits);
  }
  for (const float bad : {std::nanf(""), -0.5F, -2.0F, -kInfinity}) {
    row.top_n_sigma = bad;
    EXPECT_EQ(process(logits, row).status, RowStatus::invalid_top_n_sigma) << bad;
  }
}

// Tests the precedence of statuses (kernels/common/processing_rules.h): if a step and all steps
// after it have faults, the status is that of the first fault.
TEST(ProcessingAnswers, TheFirstFaultInTheStatedOrderCounts) {
  struct Step {
    ProcessingFault fault;
    RowStatus status;
  };
  const std::vector<Step> order = {
      {ProcessingFault::nan_penalty, RowStatus::invalid_penalty},
      {ProcessingFault::negative_min_tokens, RowStatus::invalid_min_tokens},
      {ProcessingFault::none, RowStatus::invalid_top_n_sigma},         // see below
      {ProcessingFault::none, RowStatus::invalid_probability_filter},  // see below
      {ProcessingFault::none, RowStatus::invalid_history_rule},        // see below
      {ProcessingFault::none, RowStatus::nan_input},                   // see below
      {ProcessingFault::prompt_id, RowStatus::invalid_history},
      {ProcessingFault::nan_bias, RowStatus::invalid_logit_bias},
      {ProcessingFault::stop_id, RowStatus::invalid_min_tokens},
      {ProcessingFault::word_id, RowStatus::invalid_bad_words},
      {ProcessingFault::allowed_id, RowStatus::invalid_allowed_ids},
      {ProcessingFault::overflow, RowStatus::processing_overflow}};
  for (std::size_t first = 0; first < order.size(); ++first) {
    std::vector<float> logits(20, 0.5F);
    RowProcessing row;
    for (std::size_t i = order.size(); i-- > first;) {
      harness::mutate(row, order[i].fault, logits);
      if (order[i].status == RowStatus::nan_input) logits[3] = std::nanf("");
      if (order[i].status == RowStatus::invalid_top_n_sigma) row.top_n_sigma = std::nanf("");
      if (order[i].status == RowStatus::invalid_probability_filter) row.p_less = -1;
      if (order[i].status == RowStatus::invalid_history_rule) row.no_repeat_ngram_size = -1;
    }
    EXPECT_EQ(process(logits, row).status, order[first].status) << "from " << first << " on";
  }
}

TEST(ProcessingAnswers, NanAndInfinityAreFoundWhereAStepBansThem) {
  for (const float bad : {std::nanf(""), kInfinity}) {
    const RowStatus expected = std::isnan(bad) ? RowStatus::nan_input : RowStatus::infinite_input;
    RowProcessing banned;
    banned.biases = {{1, kBanned}};
    EXPECT_EQ(process({0, bad, 0}, banned).status, expected);
    RowProcessing allowed;
    allowed.allowed_ids = {0};
    EXPECT_EQ(process({0, bad, 0}, allowed).status, expected);
  }
}

TEST(ProcessingAnswers, AnOverflowCountsWhereALaterStepBansTheToken) {
  RowProcessing row;
  row.repetition_penalty = 0.5F;
  row.prompt = {0};
  row.biases = {{0, kBanned}};
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(process({largest, 0}, row).status, RowStatus::processing_overflow);
  row.prompt = {1};  // token 0 is banned but not penalised, so that nothing overflows
  EXPECT_EQ(process({largest, 0}, row).status, RowStatus::ok);
}

TEST(ProcessingAnswers, HistoriesAreCheckedWhereAPenaltyReadsThem) {
  RowProcessing row;
  row.prompt = {99};
  row.output = {-5};
  EXPECT_EQ(process({0, 0}, row).status, RowStatus::ok);
  row.presence_penalty = 1;
  EXPECT_EQ(process({0, 0}, row).status, RowStatus::invalid_history);  // the output's
  row.output = {0};
  // only the repetition penalty reads the prompt
  EXPECT_EQ(process({0, 0}, row).status, RowStatus::ok);
  row.repetition_penalty = 2;
  EXPECT_EQ(process({0, 0}, row).status, RowStatus::invalid_history);
}

TEST(ProcessingAnswers, CountsBelowZeroFailAndLargeOnesRoundOnce) {
  const std::vector<float> logits = {0, 0};
  std::vector<std::int32_t> counts = {0, -1};
  ProcessLogitsRequest request;
  request.logits = {logits.data(), DType::float32, 1, 2, 2};
  request.processing.output_counts = {counts.data(), 1, 2};
  request.processing.frequency_penalty = 1.0F;
  std::vector<float> processed(2);
  RowStatus status = RowStatus::ok;
  const ProcessLogitsResult result{{processed.data(), 1, 2}, {&status, 1}};
  ASSERT_FALSE(process_logits(request, result));
  EXPECT_EQ(status, RowStatus::invalid_history);
  counts = {(1 << 24) + 1, std::numeric_limits<std::int32_t>::max()};
  ASSERT_FALSE(process_logits(request, result));
  EXPECT_EQ(status, RowStatus::ok);
  // Rounds to nearest even: 2^24 + 1 is halfway between two floats, and 2^31 - 1 is next to 2^31.
  EXPECT_EQ(processed, (std::vector<float>{-0x1p24F, -0x1p31F}));
  request.processing.frequency_penalty = 0.0F;  // without penalties, counts are not read
  counts = {0, -1};
  ASSERT_FALSE(process_logits(request, result));
  EXPECT_EQ(status, RowStatus::ok);
}

// --- Relations ---------------------------------------------------------------------------------

/// Expects that a change of random processing steps does not change the results of rows.
template <class Change>
void expect_same(const harness::ProcessingSteps& steps, const Change& change) {
  int differs_from_plain = 0;
  for (std::uint64_t number = 0; number < 2000; ++number) {
    std::mt19937_64 random(number);
    const auto vocab = static_cast<std::int64_t>(2 + random() % 80);
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    for (float& x : logits) x = static_cast<float>(random() % 1000) * 0.01F - 5.0F;
    RowProcessing row = harness::random_processing(random, vocab, steps);
    const Processed before = process(logits, row);
    if (before.logits != logits) ++differs_from_plain;
    harness::HistoryArrays form;
    change(row, form, random);
    ASSERT_EQ(process(logits, row, form), before) << "row " << number;
  }
  // For rows that processing does not change, the relation would hold trivially.
  EXPECT_GT(differs_from_plain, 500);
}

TEST(ProcessingRelations, TheOrderOfAHistoryOfStopsAndOfAllowedIdsDoesNotMatter) {
  harness::ProcessingSteps steps;
  steps.bad_words = false;  // excluded, because bad words depend on the order of the output
  expect_same(steps, [](RowProcessing& row, harness::HistoryArrays&, std::mt19937_64& random) {
    for (auto* ids : {&row.prompt, &row.output, &row.stop_ids, &row.allowed_ids}) {
      std::shuffle(ids->begin(), ids->end(), random);
    }
  });
}

TEST(ProcessingRelations, MasksAndCountsSayWhatListsSay) {
  expect_same({}, [](RowProcessing&, harness::HistoryArrays& form, std::mt19937_64& random) {
    form.prompt_mask = random() % 2 == 0;
    form.output_counts = !form.prompt_mask || random() % 2 == 0;
  });
}

TEST(ProcessingRelations, PlaceholdersAndNeutralEntriesChangeNothing) {
  harness::ProcessingSteps steps;
  steps.bad_words = false;  // excluded, because a placeholder at the end hides the prefix of a bad
                            // word
  expect_same(steps, [](RowProcessing& row, harness::HistoryArrays&, std::mt19937_64& random) {
    row.prompt.push_back(-1);
    row.output.insert(row.output.begin(), -1);  // no effect, because output_length is given
                                                // separately
    if (row.biases.empty()) row.biases.push_back({0, -0.0F});
    if (!row.allowed_ids.empty()) row.allowed_ids.push_back(row.allowed_ids[random() % 1]);
  });
}

TEST(ProcessingRelations, NeutralValuesEqualNoProcessing) {
  for (std::uint64_t number = 0; number < 500; ++number) {
    std::mt19937_64 random(number);
    std::vector<float> logits(1 + random() % 100);
    for (float& x : logits) x = random() % 8 == 0 ? -0.0F : static_cast<float>(random() % 100);
    const auto vocab = static_cast<std::int64_t>(logits.size());
    const RowProcessing row =
        harness::random_processing(random, vocab, {false, false, false, false, false});
    const Processed processed = process(logits, row);
    ASSERT_EQ(processed.status, RowStatus::ok);
    // Compares bits, because -0 would compare equal to 0.
    ASSERT_EQ(std::memcmp(processed.logits.data(), logits.data(), logits.size() * sizeof(float)),
              0);
  }
}

TEST(ProcessingRelations, ProcessedInPlaceAndBySampleIsTheSame) {
  std::mt19937_64 random(11);
  std::vector<float> logits(300);
  for (float& x : logits) x = static_cast<float>(random() % 1000) * 0.01F;
  const std::vector<float> before = logits;
  RowProcessing row = harness::random_processing(random, 300);
  row.output = {5, 5, 6};
  row.presence_penalty = 3;
  const harness::ProcessingArrays arrays = harness::pack(std::span(&row, 1), 300);
  std::int32_t token = -7;
  SampleRequest fused;
  fused.logits = {logits.data(), DType::float32, 1, 300, 300};
  fused.processing = arrays.view();
  fused.seed = std::uint64_t{3};
  ASSERT_FALSE(sample(fused, tokens_to(&token, 1)));
  EXPECT_EQ(logits, before);  // `sample` does not change the caller's logits
  ProcessLogitsRequest request{fused.logits, fused.processing, {}, {}};
  ASSERT_FALSE(process_logits(request, {{logits.data(), 1, 300}, {}}));
  EXPECT_EQ(logits, process(before, row).logits);
  std::int32_t again = -7;
  fused.processing = {};
  ASSERT_FALSE(sample(fused, tokens_to(&again, 1)));
  EXPECT_EQ(again, token);
}

// --- Arguments ---------------------------------------------------------------------------------

/// A valid call on two rows of four logits; each test then makes one part of it invalid.
struct Call {
  std::vector<float> logits = std::vector<float>(8, 0.0F);
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(2, -7);
  harness::ProcessingArrays arrays;
  std::vector<std::uint32_t> words = {1, 1};
  SampleRequest request;

  Call() {
    const std::vector<RowProcessing> rows(2);
    arrays = harness::pack(rows, 4);
    request.logits = {logits.data(), DType::float32, 2, 4, 4};
    request.processing = arrays.view();
  }

  Error run() { return sample(request, tokens_to(tokens.data(), 2)); }

  void expect_refused(const std::vector<std::string>& parts) {
    const Error error = run();
    EXPECT_EQ(error.code, ErrorCode::invalid_argument);
    for (const std::string& part : parts) {
      EXPECT_NE(error.message.find(part), std::string::npos) << part << ": " << error.message;
    }
    EXPECT_EQ(tokens, std::vector<std::int32_t>(2, -7)) << error.message;
  }
};

TEST(ProcessingArguments, AValidCallIsTaken) {
  Call call;
  const Error error = call.run();
  EXPECT_FALSE(error) << error.message;
}

TEST(ProcessingArguments, ArraysOfParametersHaveOneValueARow) {
  const auto refuse = [](const char* name, auto change) {
    Call call;
    change(call.request.processing);
    call.expect_refused({std::string("length of ") + name + " is 3", "2 (one per row of logits)"});
  };
  refuse("repetition_penalty", [](auto& p) { p.repetition_penalty.values.size = 3; });
  refuse("frequency_penalty", [](auto& p) { p.frequency_penalty.values.size = 3; });
  refuse("presence_penalty", [](auto& p) { p.presence_penalty.values.size = 3; });
  refuse("min_tokens", [](auto& p) { p.min_tokens.values.size = 3; });
  refuse("output_lengths", [](auto& p) { p.output_lengths.size = 3; });
}

TEST(ProcessingArguments, ListsAreWhole) {
  const std::vector<std::pair<const char*, TokenLists LogitsProcessing::*>> lists = {
      {"prompt", &LogitsProcessing::prompt},
      {"output", &LogitsProcessing::output},
      {"bias_ids", &LogitsProcessing::bias_ids},
      {"stop_ids", &LogitsProcessing::stop_ids},
      {"bad_words", &LogitsProcessing::bad_words},
      {"bad_word_lengths", &LogitsProcessing::bad_word_lengths},
      {"allowed_ids", &LogitsProcessing::allowed_ids}};
  for (const auto& [name, list] : lists) {
    const std::string field = name;
    Call begins;
    (begins.request.processing.*list).begins.size = 1;
    begins.expect_refused({"length of " + field + ".begins is 1"});
    Call lengths;
    (lengths.request.processing.*list).lengths.size = 3;
    lengths.expect_refused({"length of " + field + ".lengths is 3"});
    Call size;
    (size.request.processing.*list).size = -1;
    size.expect_refused({field + ".size is -1", ">= 0"});
    Call data;
    (data.request.processing.*list).size = 5;
    (data.request.processing.*list).data = nullptr;
    data.expect_refused({field + ".data is null"});
    Call no_begins;
    (no_begins.request.processing.*list).begins = {};
    no_begins.expect_refused({field + ".begins is null"});
    Call no_lengths;
    (no_lengths.request.processing.*list).lengths = {};
    no_lengths.expect_refused({field + ".lengths is null"});
  }
}

TEST(ProcessingArguments, WhatBelongsTogetherIsGivenTogether) {
  Call both;
  both.request.processing.prompt_mask = {both.words.data(), 2, 1};
  both.expect_refused({"prompt_mask", "null where prompt is given"});
  Call stride;
  stride.request.processing.prompt = {};
  stride.request.processing.prompt_mask = {stride.words.data(), 2, 0};
  stride.expect_refused({"prompt_mask.row_stride is 0", ">= 1"});
  Call mask_rows;
  mask_rows.request.processing.prompt = {};
  mask_rows.request.processing.prompt_mask = {mask_rows.words.data(), 1, 1};
  mask_rows.expect_refused({"prompt_mask.rows is 1"});
  Call counts;
  counts.request.processing.output_counts = {counts.tokens.data(), 2, 3};
  counts.expect_refused({"output_counts.row_stride is 3", ">= 4 (vocab)"});
  Call window;
  window.request.processing.prompt = {};
  window.request.processing.prompt_mask = {window.words.data(), 2, 1};
  window.request.processing.penalty_window = 8;
  window.expect_refused({"penalty_window is 8", "-1 where prompt_mask is given"});
  Call ngrams;
  const std::vector<std::int32_t> sizes = {3, 0};
  const std::vector<std::int32_t> many_counts(8);
  ngrams.request.processing.output_counts = {many_counts.data(), 2, 4};
  ngrams.request.processing.no_repeat_ngram_size = {sizes.data(), 2};
  ngrams.expect_refused({"no_repeat_ngram_size is an array", "0 where output_counts is given"});
  Call values;
  const float bias = 0;
  values.request.processing.bias_values = {&bias, 1};
  values.expect_refused({"length of bias_values is 1", "0 (bias_ids.size)"});
  Call ids;
  ids.request.processing.bias_values = {&bias, 1};
  ids.request.processing.bias_ids = {};
  ids.expect_refused({"bias_values", "null where bias_ids is not given"});
  Call word_lengths;
  word_lengths.request.processing.bad_word_lengths = {};
  word_lengths.expect_refused({"bad_word_lengths is null", "because bad_words is given"});
  Call words;
  words.request.processing.bad_words = {};
  words.expect_refused({"bad_words is null", "because bad_word_lengths is given"});
  Call output;
  output.request.processing.output = {};
  output.expect_refused({"output is null", "bad_words compares with their ends"});
  Call length;
  length.request.processing.output_lengths = {};
  length.request.processing.output = {};
  length.request.processing.bad_words = length.request.processing.bad_word_lengths = {};
  length.expect_refused({"output_lengths is null", "min_tokens counts their tokens"});
}

}  // namespace
}  // namespace fairdraw::suites
