// All results of a filtered row on the GPU are tested on rows that are hard for tiles
// (tile_rows.h): octaves that change from tile to tile, empty tiles, any dtype, address and
// temperature. The results must equal the CPU's, which tests/tiles/indexed_row_test.cpp compares
// with the reference. The results are equal bit for bit, except that log-probabilities may differ
// by one unit in the last place, because the device has its own logarithm.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/float_order.h"
#include "fairdraw/cuda.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/owned_call.h"
#include "tests/cuda/tile_rows_on_device.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;
using harness::HostArrays;

/// The results and filters that a call requests.
struct Asked {
  SampleRequest request;  ///< all fields of a request except the row
  LogprobsMode mode;
  RankRule rank_rule;
  std::int32_t top_n;
};

Asked random_filters(std::uint64_t number) {
  Dice dice(~number);
  Asked asked{};
  asked.request.top_k = dice.pick({0, 0, 1, 5, 50, 300});
  asked.request.top_p = dice.pick({1.0F, 1.0F, 0.9F, 0.3F, 0.9999F, 0.0F});
  asked.request.min_p = dice.pick({0.0F, 0.0F, 0.01F, 0x1p-40F});
  asked.request.tie_rule = dice.once_in(2) ? TieRule::lowest_id : TieRule::keep_all;
  asked.request.filter_order = dice.once_in(3) ? FilterOrder::joint : FilterOrder::top_k_first;
  asked.request.num_samples = dice.pick({1, 7});
  asked.request.seed = number;
  asked.mode = static_cast<LogprobsMode>(number % 4);
  asked.rank_rule = dice.once_in(2) ? RankRule::at_least : RankRule::position;
  asked.top_n = dice.pick({0, 1, 20, 128});
  return asked;
}

/// The results of a call, which are filled beforehand with a pattern that no call writes.
struct Written {
  std::vector<std::int32_t> tokens, support_size, ranks, top_ids;
  std::vector<RowStatus> statuses;
  std::vector<std::uint32_t> mask;
  std::vector<float> probs;
  std::vector<float> logprob, logprob_filtered, values, top_values, all;  ///< logarithms

  Written(const Asked& asked, std::int64_t vocab) {
    const auto samples = static_cast<std::size_t>(asked.request.num_samples);
    const auto top_n = static_cast<std::size_t>(asked.top_n);
    const auto size = static_cast<std::size_t>(vocab);
    tokens.assign(samples, -7);
    ranks.assign(samples, -7);
    for (auto* array : {&logprob, &logprob_filtered, &values}) array->assign(samples, 77.0F);
    support_size.assign(1, -7);
    statuses.assign(1, RowStatus::impossible_draft);
    top_ids.assign(top_n, -7);
    top_values.assign(top_n, 77.0F);
    mask.assign((size + 31) / 32, 0xcacacacaU);
    probs.assign(size, 77.0F);
    all.assign(size, 77.0F);
  }

  template <class Arrays>
  SampleResult result_in(const Asked& asked, Arrays& arrays) {
    const auto view = [&arrays](auto& array) {
      return View(arrays.out(array), static_cast<std::int64_t>(array.size()));
    };
    SampleResult result;
    result.tokens = view(tokens);
    result.statuses = view(statuses);
    result.support_size = view(support_size);
    result.logprob = view(logprob);
    result.logprob_filtered = view(logprob_filtered);
    result.mask = {arrays.out(mask), 1, static_cast<std::int64_t>(mask.size())};
    result.probs = {arrays.out(probs), 1, static_cast<std::int64_t>(probs.size())};
    LogprobsResult& report = result.logprobs;
    report.mode = asked.mode;
    report.rank_rule = asked.rank_rule;
    report.top_n = asked.top_n;
    report.values = view(values);
    report.ranks = view(ranks);
    report.top_ids = view(top_ids);
    report.top_values = view(top_values);
    report.all = {arrays.out(all), 1, static_cast<std::int64_t>(all.size())};
    return result;
  }
};

void expect_close(const std::vector<float>& expected, const std::vector<float>& got,
                  const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const float a = expected[i];
    const float b = got[i];
    const std::int64_t apart = std::int64_t{order_key(a)} - std::int64_t{order_key(b)};
    const bool close = std::isfinite(a) && std::isfinite(b) ? std::llabs(apart) <= 1 : a == b;
    ASSERT_TRUE(close) << what << " " << i << ": " << a << " expected, got " << b;
  }
}

void expect_equal(const Written& expected, const Written& got) {
  ASSERT_EQ(got.statuses, expected.statuses);
  ASSERT_EQ(got.tokens, expected.tokens);
  ASSERT_EQ(got.support_size, expected.support_size);
  ASSERT_EQ(got.mask, expected.mask);
  ASSERT_EQ(got.probs, expected.probs);
  ASSERT_EQ(got.ranks, expected.ranks);
  ASSERT_EQ(got.top_ids, expected.top_ids);
  expect_close(expected.logprob, got.logprob, "logprob");
  expect_close(expected.logprob_filtered, got.logprob_filtered, "logprob_filtered");
  expect_close(expected.values, got.values, "value");
  expect_close(expected.top_values, got.top_values, "top value");
  expect_close(expected.all, got.all, "value of the row");
}

TEST(CudaTileOutputs, OfLogitsAreTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  int ok = 0;
  for (std::uint64_t number = 0; number < 400; ++number) {
    const RandomTileRow row = random_tile_row(9300000 + number, tile_vocab(number));
    if (row.input == TileInput::probs) continue;
    Asked asked = random_filters(number);
    asked.request.temperature = row.temperature;
    Written expected(asked, row.vocab());
    HostArrays host;
    SampleRequest request = asked.request;
    request.logits = {row.data(), row.dtype, 1, row.vocab(), row.vocab()};
    if (!row.allowed.empty()) {
      request.allowed = {row.allowed.data(), 1, static_cast<std::int64_t>(row.allowed.size())};
    }
    const Error refused = sample(request, expected.result_in(asked, host));
    ASSERT_FALSE(refused) << refused.message;
    ok += expected.statuses[0] == RowStatus::ok ? 1 : 0;
    for (const cuda::Path path : available_paths()) {
      SCOPED_TRACE(describe(row) + ", " + std::to_string(asked.request.num_samples) +
                   " samples, top " + std::to_string(asked.top_n) + ", " + to_string(asked.mode) +
                   ", path " + cuda::to_string(path));
      arrays.rewind();
      Written got(asked, row.vocab());
      request.logits = rows_on_device(row, arrays);
      request.allowed = allowed_on_device(row, arrays);
      const SampleResult result = got.result_in(asked, arrays);
      const Error error =
          cuda::sample(request, result, arrays.execution(request, result.logprobs, path));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      expect_equal(expected, got);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(ok, 200) << "the comparison says little";
}

TEST(CudaTileOutputs, OfProbabilitiesAreTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  for (std::uint64_t number = 0; number < 400; ++number) {
    const RandomTileRow row = random_tile_row(9400000 + number, tile_vocab(number));
    if (row.input != TileInput::probs) continue;
    Dice dice(number);
    const bool by_top_k = dice.once_in(2);
    const std::int32_t top_k = dice.pick({0, 1, 5, 300});
    const float top_p = dice.pick({1.0F, 0.9F, 0.5F, 0.0F});
    const auto vocab = static_cast<std::size_t>(row.vocab());
    std::vector<float> expected(vocab, 77.0F);
    std::vector<RowStatus> expected_status(1, RowStatus::impossible_draft);
    const RowsView rows{row.data(), row.dtype, 1, row.vocab(), row.vocab()};
    const FloatRows probs{expected.data(), 1, row.vocab()};
    const View<RowStatus> status{expected_status.data(), 1};
    ASSERT_FALSE(by_top_k ? top_k_renorm_probs(rows, top_k, probs, status)
                          : top_p_renorm_probs(rows, top_p, probs, status));
    for (const cuda::Path path : available_paths()) {
      SCOPED_TRACE(describe(row) + (by_top_k ? ", top_k " + std::to_string(top_k)
                                             : ", top_p " + std::to_string(top_p)));
      arrays.rewind();
      std::vector<float> got(vocab, 77.0F);
      std::vector<RowStatus> got_status(1, RowStatus::impossible_draft);
      const RowsView on_device = rows_on_device(row, arrays);
      const FloatRows to{arrays.out(got), 1, row.vocab()};
      const View<RowStatus> status_to{arrays.out(got_status), 1};
      const cuda::Execution execution = arrays.execution(1, path);
      ASSERT_FALSE(by_top_k ? cuda::top_k_renorm_probs(on_device, top_k, to, status_to, execution)
                            : cuda::top_p_renorm_probs(on_device, top_p, to, status_to, execution));
      arrays.fetch();
      ASSERT_EQ(got_status, expected_status);
      ASSERT_EQ(got, expected);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
