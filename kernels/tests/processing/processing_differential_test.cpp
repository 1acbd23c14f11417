// Logits processing on every instruction set is compared with the reference's independent
// implementation, bit for bit: processed rows, statuses, tokens, masks and probabilities. The calls
// have every mixture of steps, every dtype, odd addresses and strides, and valid and invalid rows
// side by side.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/philox.h"
#include "fairdraw/process_logits.h"
#include "fairdraw/sample.h"
#include "harness/inputs/owned_call.h"
#include "harness/inputs/processing_rows.h"
#include "harness/run/calls/logits_source.h"
#include "reference/processing_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"

namespace fairdraw::suites {
namespace {

using harness::ProcessingFault;
using reference::RowProcessing;

constexpr std::size_t kRows = 5;

/// A batch of rows with logits processing.
struct ProcessedBatch {
  std::vector<RandomRow> rows;
  std::vector<RowProcessing> given;  // before packing
  harness::OwnedCall call;

  std::int64_t words() const { return (call.vocab + 31) / 32; }

  std::span<const std::uint32_t> allowed_of(std::size_t row) const {
    if (call.allowed.empty()) return {};
    return std::span(call.allowed)
        .subspan(row * static_cast<std::size_t>(words()), static_cast<std::size_t>(words()));
  }
};

void write_logits(ProcessedBatch& batch, std::int64_t stride, std::size_t shift) {
  harness::OwnedCall& call = batch.call;
  call.allocate(call.dtype, static_cast<std::int64_t>(kRows), call.vocab, stride, shift);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (float& x : batch.rows[r].logits) x = harness::rounded_to(call.dtype, x);
    call.set_row(static_cast<std::int64_t>(r), batch.rows[r].logits.data());
  }
}

ProcessedBatch random_batch(std::uint64_t number, std::size_t vocab) {
  std::mt19937_64 random(number);
  ProcessedBatch batch;
  harness::OwnedCall& call = batch.call;
  call.vocab = static_cast<std::int64_t>(vocab);
  call.dtype = static_cast<DType>(random() % 3);
  const std::int64_t stride =
      call.vocab + (random() % 2 == 0 ? 0 : static_cast<std::int64_t>(random() % 9));
  const bool banned = random() % 3 == 0;
  // The number selects each mixture of steps in turn.
  const harness::ProcessingSteps steps{(number & 1U) == 0 || number % 5 == 0, (number & 2U) == 0,
                                       (number & 4U) == 0, (number & 8U) == 0, (number & 16U) == 0};
  call.make_parameter_arrays(kRows);
  for (auto* parameter : {&call.seed, &call.offset}) parameter->make_array(kRows);
  call.allowed_stride = batch.words();
  for (std::size_t r = 0; r < kRows; ++r) {
    batch.rows.push_back(random_row_of(number * kRows + r, vocab));
    RandomRow& row = batch.rows.back();
    batch.given.push_back(harness::random_processing(random, call.vocab, steps));
    if (random() % 4 == 0) {
      constexpr std::array<float, 8> kSigmas = {
          0.5F, 1, 2.5F, 4, std::numeric_limits<float>::infinity(), -1, 0x1p-30F, -3};
      batch.given.back().top_n_sigma = kSigmas[random() % kSigmas.size()];
    }
    if (random() % 4 == 0) harness::add_random_filters(batch.given.back(), random);
    if (number % 4 == 1) {
      harness::add_random_rules(batch.given.back(), random, call.vocab);
      if (random() % 64 == 0) batch.given.back().penalty_window = -2;
    }
    if (random() % 8 == 0) {
      harness::mutate(batch.given.back(),
                      static_cast<ProcessingFault>(random() % harness::kProcessingFaults),
                      row.logits);
    }
    const auto i = static_cast<std::int64_t>(r);
    call.set_parameters(i, row.parameters);
    call.seed.set(i) = row.seed;
    call.offset.set(i) = row.offset;
    for (std::int64_t w = 0; banned && w < batch.words(); ++w) {
      const std::uint64_t either = random();
      call.allowed.push_back(static_cast<std::uint32_t>(either | random()));
    }
  }
  call.tie_rule = batch.rows[0].tie_rule;
  call.filter_order = batch.rows[0].filter_order;
  const bool masked = random() % 4 == 0;
  const bool counted = random() % 4 == 0;
  const bool listed = number % 4 == 1;  // the rules of histories read lists
  call.processing = harness::pack(batch.given, call.vocab, {masked && !listed, counted && !listed});
  write_logits(batch, stride, random() % 64);
  return batch;
}

/// All results of a call on a batch.
struct Outcome {
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(kRows, -7);
  std::array<RowStatus, kRows> statuses{};
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
  std::array<RowStatus, kRows> processed_statuses{};
  std::vector<float> processed;
};

Outcome run(const ProcessedBatch& batch, CpuTarget target) {
  constexpr auto kCount = static_cast<std::int64_t>(kRows);
  const auto cells = kRows * static_cast<std::size_t>(batch.call.vocab);
  Outcome outcome;
  outcome.mask.assign(kRows * static_cast<std::size_t>(batch.words()), 0xcacacacaU);
  outcome.probs.assign(cells, -7.0F);
  outcome.processed.assign(cells, -7.0F);
  harness::HostArrays arrays;
  const SampleRequest request = request_in(batch.call, arrays);
  SampleResult result;
  result.tokens = {outcome.tokens.data(), kCount};
  result.statuses = {outcome.statuses.data(), kCount};
  result.mask = {outcome.mask.data(), kCount, batch.words()};
  result.probs = {outcome.probs.data(), kCount, batch.call.vocab};
  const Error error = sample(request, result, {target, 1});
  EXPECT_FALSE(error) << error.message;
  ProcessLogitsRequest process{request.logits, request.processing, request.allowed, {}};
  const Error process_error = process_logits(process,
                                             {{outcome.processed.data(), kCount, batch.call.vocab},
                                              {outcome.processed_statuses.data(), kCount}},
                                             {target, 1});
  EXPECT_FALSE(process_error) << process_error.message;
  return outcome;
}

/// Returns the first difference between the results of a row, or an empty string.
std::string compare(const ProcessedBatch& batch, std::size_t r,
                    const reference::ProcessedRow& processed, const reference::IntegerRow& expected,
                    const Outcome& got) {
  const RandomRow& row = batch.rows[r];
  const auto vocab = static_cast<std::size_t>(batch.call.vocab);
  if (got.processed_statuses[r] != processed.status) {
    return fmt::format("process_logits: status {} instead of {}",
                       to_string(got.processed_statuses[r]), to_string(processed.status));
  }
  for (std::size_t t = 0; t < vocab; ++t) {
    const float logit = got.processed[r * vocab + t];
    if (std::bit_cast<std::uint32_t>(logit) != std::bit_cast<std::uint32_t>(processed.logits[t])) {
      return fmt::format("processed logit of {}: {:a} instead of {:a} (from {:a})", t, logit,
                         processed.logits[t], row.logits[t]);
    }
  }
  if (got.statuses[r] != expected.status) {
    return fmt::format("status {} instead of {}", to_string(got.statuses[r]),
                       to_string(expected.status));
  }
  const std::int32_t must = token_of(expected, {row.seed, row.offset, Purpose::draw, 0});
  if (got.tokens[r] != must) return fmt::format("token {} instead of {}", got.tokens[r], must);
  const bool ok = expected.status == RowStatus::ok;
  for (std::size_t t = 0; t < vocab; ++t) {
    const std::size_t at = r * static_cast<std::size_t>(batch.words()) + t / 32;
    const bool kept = ((got.mask[at] >> (t % 32)) & 1U) != 0;
    if (kept != (ok && expected.mask[t] != 0)) return fmt::format("mask of {}: {}", t, kept);
    const float probability = ok ? expected.probability(static_cast<std::int32_t>(t)) : 0.0F;
    if (std::bit_cast<std::uint32_t>(got.probs[r * vocab + t]) !=
        std::bit_cast<std::uint32_t>(probability)) {
      return fmt::format("probability of {}: {:a} instead of {:a}", t, got.probs[r * vocab + t],
                         probability);
    }
  }
  return {};
}

/// Numbers of rows with each status.
using StatusCounts = std::array<std::atomic<std::uint64_t>, kRowStatuses>;

void compare_many(std::uint64_t first, std::uint64_t batches, std::size_t fixed_vocab,
                  StatusCounts& counts) {
  const std::vector<CpuTarget> targets = available_targets();
  std::atomic<int> reported{0};
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 4)
  for (std::uint64_t i = 0; i < batches; ++i) {
    const std::uint64_t number = first + i;
    const std::size_t vocab =
        fixed_vocab != 0 ? fixed_vocab : 1 + (number * 7919) % (number % 4 == 0 ? 1200 : 70);
    const ProcessedBatch batch = random_batch(number, vocab);
    std::vector<reference::ProcessedRow> processed;
    std::vector<reference::IntegerRow> expected;
    for (std::size_t r = 0; r < kRows; ++r) {
      const RowProcessing row = reference::processing_of_row(batch.call.processing.view(),
                                                             static_cast<std::int64_t>(r), vocab);
      processed.push_back(reference::process_row(batch.rows[r].logits, batch.allowed_of(r), row));
      expected.push_back(reference::integer_model(batch.rows[r].logits, batch.allowed_of(r), row,
                                                  batch.rows[r].parameters, batch.rows[0].tie_rule,
                                                  batch.rows[0].filter_order));
      ++counts[static_cast<std::size_t>(expected.back().status)];
    }
    for (const CpuTarget target : targets) {
      const Outcome got = run(batch, target);
      for (std::size_t r = 0; r < kRows; ++r) {
        const std::string difference = compare(batch, r, processed[r], expected[r], got);
        if (!difference.empty() && reported++ < 20) {
          const std::lock_guard<std::mutex> lock(mutex);
          ADD_FAILURE() << "batch " << number << " row " << r << " of " << vocab << " "
                        << to_string(batch.call.dtype) << " on " << to_string(target) << ": "
                        << difference;
        }
      }
    }
  }
}

TEST(ProcessingDifferential, RandomBatchesEqualTheReference) {
  StatusCounts counts{};
  const std::uint64_t batches = budget(20000);
  compare_many(0, batches, 0, counts);
  // Most rows must be valid, and each status must occur, otherwise the comparison says little.
  EXPECT_GT(counts[static_cast<std::size_t>(RowStatus::ok)].load(), batches * kRows / 2);
  for (const RowStatus status :
       {RowStatus::nan_input, RowStatus::infinite_input, RowStatus::no_allowed_token,
        RowStatus::invalid_history, RowStatus::invalid_penalty, RowStatus::invalid_logit_bias,
        RowStatus::invalid_min_tokens, RowStatus::invalid_bad_words, RowStatus::invalid_allowed_ids,
        RowStatus::processing_overflow, RowStatus::invalid_top_n_sigma,
        RowStatus::invalid_probability_filter, RowStatus::invalid_history_rule}) {
    EXPECT_GT(counts[static_cast<std::size_t>(status)].load(), 0U) << to_string(status);
  }
}

TEST(ProcessingDifferential, SizesAroundTheWordAndTheVectorEqualTheReference) {
  StatusCounts counts{};
  for (const std::size_t vocab : {1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 513U, 4097U}) {
    compare_many(5000000 + vocab * 1000, std::max<std::uint64_t>(4, budget(100)), vocab, counts);
  }
}

TEST(ProcessingDifferential, RowsAtEngineVocabulariesEqualTheReference) {
  StatusCounts counts{};
  for (const std::size_t vocab : {32000U, 128256U}) {
    compare_many(6000000 + vocab, std::max<std::uint64_t>(2, budget(20)), vocab, counts);
  }
}

// The steps work on subnormals and on halves of the last place, which the caller's rounding mode or
// flush to zero would change if these settings had an effect.
TEST(ProcessingDifferential, TheCallersFloatEnvironmentChangesNothing) {
  for (const CpuTarget target : available_targets()) {
    for (std::uint64_t number = 7000000; number < 7000100; ++number) {
      ProcessedBatch batch = random_batch(number, 40);
      for (RandomRow& row : batch.rows) {
        for (std::size_t t = 0; t < row.logits.size(); t += 3) row.logits[t] *= 0x1p-140F;
      }
      write_logits(batch, batch.call.row_stride, 0);
      const Outcome expected = run(batch, target);
      const auto expect_same = [&](const char* what) {
        const Outcome got = run(batch, target);
        std::fesetenv(FE_DFL_ENV);
        ASSERT_EQ(got.statuses, expected.statuses) << what;
        ASSERT_EQ(got.tokens, expected.tokens) << what;
        ASSERT_EQ(std::memcmp(got.processed.data(), expected.processed.data(),
                              expected.processed.size() * sizeof(float)),
                  0)
            << what << " on " << to_string(target) << ", batch " << number;
      };
      for (const int mode : {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
        ASSERT_EQ(std::fesetround(mode), 0);
        expect_same("rounding mode");
      }
#if defined(__x86_64__)
      constexpr unsigned kFlushToZeroAndDenormalsAreZero = 0x8040;
      _mm_setcsr(_mm_getcsr() | kFlushToZeroAndDenormalsAreZero);
      expect_same("flush to zero");
#endif
    }
  }
}

// A list outside its buffer fails its own row with the status of its step, and no other row. Begins
// and lengths at the ends of their types must not make a sum overflow.
TEST(ProcessingDifferential, AListOutsideItsBufferFailsItsRowAlone) {
  struct ListRange {
    std::int64_t begin;
    std::int32_t length;
  };
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  constexpr std::int32_t kLong = std::numeric_limits<std::int32_t>::max();
  const std::array<ListRange, 8> places = {{{-1, 1},
                                            {0, -1},
                                            {0, kLong},
                                            {kFar, 1},
                                            {kFar, kLong},
                                            {-kFar - 1, 0},
                                            {-kFar - 1, kLong},
                                            {kFar, 0}}};
  struct List {
    harness::OwnedLists harness::ProcessingArrays::*lists;
    RowStatus status;
  };
  using Arrays = harness::ProcessingArrays;
  const std::array<List, 7> all = {{{&Arrays::prompt, RowStatus::invalid_history},
                                    {&Arrays::output, RowStatus::invalid_history},
                                    {&Arrays::bias_ids, RowStatus::invalid_logit_bias},
                                    {&Arrays::stop_ids, RowStatus::invalid_min_tokens},
                                    {&Arrays::bad_words, RowStatus::invalid_bad_words},
                                    {&Arrays::bad_word_lengths, RowStatus::invalid_bad_words},
                                    {&Arrays::allowed_ids, RowStatus::invalid_allowed_ids}}};
  for (const CpuTarget target : available_targets()) {
    for (const List& list : all) {
      for (const ListRange& place : places) {
        ProcessedBatch batch = random_batch(64, 100);
        batch.given.assign(kRows, RowProcessing{});
        for (RandomRow& row : batch.rows) row.logits.assign(100, 0.5F);
        batch.call.temperature = {1.0F, {}};
        batch.call.allowed.clear();
        batch.call.processing = harness::pack(batch.given, 100);
        write_logits(batch, 100, 0);
        (batch.call.processing.*list.lists).begins[2] = place.begin;
        (batch.call.processing.*list.lists).lengths[2] = place.length;
        const Outcome got = run(batch, target);
        for (std::size_t r = 0; r < kRows; ++r) {
          EXPECT_EQ(got.statuses[r], r == 2 ? list.status : RowStatus::ok)
              << "begin " << place.begin << " length " << place.length;
          EXPECT_EQ(got.tokens[r] == -1, r == 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
