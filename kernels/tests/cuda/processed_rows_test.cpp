// A call with logits processing on the GPU must draw the same tokens as a call without processing
// on the rows that process_logits computes on the CPU.
//
// This test cannot detect errors of process_logits (kernels/tests/processing tests it), or errors
// that all rows have in common (filter_tiles_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/parameters.h"
#include "fairdraw/cuda.h"
#include "fairdraw/process_logits.h"
#include "harness/inputs/processing_rows.h"
#include "harness/inputs/random_calls.h"
#include "reference/probability_filters.h"
#include "tests/cuda/arrays.h"
#include "tests/sample/reduced.h"
#include "tests/sample/sample_calls.h"

namespace fairdraw::suites {
namespace {

struct Drawn {
  std::vector<std::int32_t> tokens;
  std::vector<RowStatus> statuses;
};

Drawn draw(const OwnedCall& call, cuda::Path path, DeviceArrays& arrays) {
  arrays.rewind();
  Drawn drawn{std::vector<std::int32_t>(static_cast<std::size_t>(call.rows), -77),
              std::vector<RowStatus>(static_cast<std::size_t>(call.rows), RowStatus::invalid_beam)};
  const SampleRequest request = request_in(call, arrays);
  SampleResult result;
  result.tokens = {arrays.out(drawn.tokens), call.rows};
  result.statuses = {arrays.out(drawn.statuses), call.rows};
  const Error error = cuda::sample(request, result, arrays.execution(request, path));
  EXPECT_FALSE(error) << error.message;
  arrays.fetch();
  return drawn;
}

/// A call on processed rows, and the statuses of their processing.
struct Processed {
  OwnedCall call;
  std::vector<RowStatus> statuses;

  explicit Processed(const OwnedCall& given)
      : call(given), statuses(static_cast<std::size_t>(given.rows)) {
    std::vector<float> values(static_cast<std::size_t>(given.rows * given.vocab));
    HostArrays arrays;
    const SampleRequest request = request_in(given, arrays);
    const Error error =
        process_logits({request.logits, request.processing, request.allowed, {}},
                       {{values.data(), given.rows, given.vocab}, {statuses.data(), given.rows}});
    EXPECT_FALSE(error) << error.message;
    call.top_p.make_array(given.rows);
    call.temperature.make_array(given.rows);
    for (std::int64_t row = 0; row < given.rows; ++row) {
      const float top_p = call.top_p.set(row) = given.top_p.at(row);
      const float temperature = call.temperature.set(row) = given.temperature.at(row);
      if (statuses[static_cast<std::size_t>(row)] != RowStatus::ok) continue;
      const auto vocab = static_cast<std::size_t>(given.vocab);
      const reference::RowProcessing of_row =
          reference::processing_of_row(request.processing, row, vocab);
      const auto first = values.begin() + row * given.vocab;
      call.temperature.set(row) =
          reference::dynamic_temperature({first, first + given.vocab}, of_row, temperature);
      if (top_p >= 0 && top_p <= 1) call.top_p.set(row) = reference::decayed_top_p(of_row, top_p);
    }
    call.processing = {};
    call.allowed.clear();
    call.allocate(DType::float32, given.rows, given.vocab, given.vocab, 0);
    for (std::int64_t row = 0; row < given.rows; ++row) {
      call.set_row(row, values.data() + row * given.vocab);
    }
  }

  /// Returns the status that follows from a row's parameters and processing; if the status is ok,
  /// the call that draws decides.
  RowStatus status(std::int64_t row) const {
    if (!call.active.empty() && call.active[static_cast<std::size_t>(row)] == 0) {
      return RowStatus::inactive;
    }
    const RowStatus parameters = check(RowParameters{call.temperature.at(row), call.top_k.at(row),
                                                     call.top_p.at(row), call.min_p.at(row)});
    return parameters != RowStatus::ok ? parameters : statuses[static_cast<std::size_t>(row)];
  }
};

/// Turns on filters by probability in about half of the rows.
void add_random_filters(harness::ProcessingArrays& arrays, std::uint64_t number,
                        std::int64_t rows) {
  std::mt19937_64 random(number);
  for (std::int64_t i = 0; i < rows; ++i) {
    reference::RowProcessing row;
    if (random() % 2 == 0) harness::add_random_filters(row, random);
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) arrays.name.push_back(row.name);
#include "fairdraw/processing_parameters.inc"
  }
}

OwnedCall random_processed_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call = random_call(number, rows, vocab);
  call.indices.clear();
  call.num_samples = 1;
  for (auto* parameter : {&call.seed, &call.offset}) {
    if (parameter->is_array) parameter->make_array(rows);
  }
  call.processing = harness::random_processing(number, rows, vocab);
  if (number % 5 == 0 || number % 5 == 4) add_random_filters(call.processing, number, rows);
  if (number % 5 < 3) return call;
  constexpr std::array<float, 7> kSigmas = {0.5F, 1, 2.5F, 4, 0, -1, -3};
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto which = static_cast<std::size_t>(number + static_cast<std::uint64_t>(row));
    call.processing.top_n_sigma.push_back(kSigmas[which % kSigmas.size()]);
  }
  return call;
}

/// Some calls have one block per row, others many blocks; their numbers choose all dtypes and
/// alignments.
TEST(CudaProcessedRows, AreDrawnFromAsTheRowsThatProcessingGives) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::array<std::int64_t, 12> kVocabs = {1,    31,    256,   257,   1003,   4096,
                                                    5000, 20001, 32000, 50257, 128256, 262144};
  const std::int64_t max_values = is_reduced() ? 20000 : 4000000;
  DeviceArrays arrays;
  std::array<std::int64_t, 64> met{};
  for (std::uint64_t number = 0; number < 240; ++number) {
    std::mt19937_64 random(number);
    const std::int64_t vocab = kVocabs[number % kVocabs.size()];
    if (vocab > max_values) continue;
    const auto most = static_cast<std::uint64_t>(std::min<std::int64_t>(200, max_values / vocab));
    const auto rows = static_cast<std::int64_t>(1 + random() % most);
    const OwnedCall call = random_processed_call(8200000 + number, rows, vocab);
    const cuda::Path path = number % 3 == 0 ? cuda::Path::block : cuda::Path::best;
    const Drawn got = draw(call, path, arrays);
    const Processed processed(call);
    const Drawn expected = draw(processed.call, path, arrays);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto i = static_cast<std::size_t>(row);
      const std::string context = "call " + std::to_string(number) + ", " +
                                  describe_row(call, row) + ", vocab " + std::to_string(vocab);
      const RowStatus decided = processed.status(row);
      const RowStatus status = decided == RowStatus::ok ? expected.statuses[i] : decided;
      ASSERT_EQ(got.statuses[i], status) << context;
      ++met[static_cast<std::size_t>(status)];
      const bool drawn = status == RowStatus::ok || status == RowStatus::inactive;
      ASSERT_EQ(got.tokens[i], drawn ? expected.tokens[i] : -1) << context;
    }
  }
  if (is_reduced()) return;
  for (const RowStatus status :
       {RowStatus::ok, RowStatus::nan_input, RowStatus::infinite_input, RowStatus::invalid_history,
        RowStatus::invalid_penalty, RowStatus::invalid_logit_bias, RowStatus::invalid_min_tokens,
        RowStatus::invalid_bad_words, RowStatus::invalid_allowed_ids,
        RowStatus::processing_overflow, RowStatus::no_allowed_token, RowStatus::invalid_top_n_sigma,
        RowStatus::invalid_probability_filter}) {
    EXPECT_GT(met[static_cast<std::size_t>(status)], 0) << to_string(status);
  }
}

}  // namespace
}  // namespace fairdraw::suites
