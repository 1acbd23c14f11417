// The tests check which arguments a call rejects, and that the messages name the field, its value
// and the allowed range.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fairdraw/limits.h"
#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"

namespace fairdraw::suites {
namespace {

/// A valid call on two rows of four logits; each test then makes one part of it invalid.
struct Call {
  std::vector<float> logits = {0, 1, 2, 3, 3, 2, 1, 0};
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(2, -7);
  SampleRequest request;
  SampleResult result;
  Execution execution;

  Call() {
    request.logits = {logits.data(), DType::float32, 2, 4, 4};
    result.tokens = {tokens.data(), 2};
  }

  /// Expects that the call is rejected, that its message contains all of `parts`, and that it
  /// writes nothing.
  void expect_refused(const std::vector<std::string>& parts) {
    const Error error = sample(request, result, execution);
    EXPECT_TRUE(error);
    for (const std::string& part : parts) {
      EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
    }
    EXPECT_EQ(tokens, std::vector<std::int32_t>(2, -7)) << error.message;
  }
};

template <class Change>
void refuse(Change change, const std::vector<std::string>& parts) {
  Call call;
  change(call);
  call.expect_refused(parts);
}

TEST(Arguments, AValidCallIsTaken) {
  Call call;
  EXPECT_FALSE(sample(call.request, call.result));
  for (const std::int32_t token : call.tokens) EXPECT_TRUE(token >= 0 && token < 4);
}

TEST(Arguments, ShapeOfTheLogits) {
  for (const std::int64_t vocab : {std::int64_t{0}, std::int64_t{-3}, kMaxVocab + 1}) {
    Call call;
    call.request.logits.vocab = vocab;
    call.request.logits.row_stride = std::max<std::int64_t>(4, vocab);
    call.expect_refused({"logits.vocab", std::to_string(vocab), "1 to 1048576"});
  }
  refuse([&](Call& c) { c.request.logits.row_stride = 3; }, {"logits.row_stride is 3", ">= 4"});
  refuse([&](Call& c) { c.request.logits.rows = -1; }, {"logits.rows is -1"});
  refuse([&](Call& c) { c.request.logits.data = nullptr; }, {"logits.data is null"});
  refuse([&](Call& c) { c.request.logits.dtype = static_cast<DType>(3); },
         {"logits.dtype is 3", "float32", "bfloat16"});
}

TEST(Arguments, ArraysOfTheWrongLength) {
  const std::vector<float> three(3, 1.0F);
  const std::vector<std::int32_t> ints(3, 1);
  const std::vector<std::uint64_t> words(3, 1);
  const std::vector<std::uint8_t> bytes(3, 1);
  const auto refuse_length = [](const char* field, auto change) {
    refuse(change, {std::string("length of ") + field, "is 3", "allowed: 2"});
  };
  refuse_length("temperature", [&](Call& c) { c.request.temperature = {three.data(), 3}; });
  refuse_length("top_k", [&](Call& c) { c.request.top_k = {ints.data(), 3}; });
  refuse_length("top_p", [&](Call& c) { c.request.top_p = {three.data(), 3}; });
  refuse_length("min_p", [&](Call& c) { c.request.min_p = {three.data(), 3}; });
  refuse_length("seed", [&](Call& c) { c.request.seed = {words.data(), 3}; });
  refuse_length("offset", [&](Call& c) { c.request.offset = {words.data(), 3}; });
  refuse_length("active", [&](Call& c) { c.request.active = {bytes.data(), 3}; });
  refuse_length("tokens", [&](Call& c) { c.result.tokens.size = 3; });
  std::vector<RowStatus> statuses(3);
  refuse_length("statuses", [&](Call& c) { c.result.statuses = {statuses.data(), 3}; });
  std::vector<float> logprobs(3);
  refuse_length("logprob", [&](Call& c) { c.result.logprob = {logprobs.data(), 3}; });
}

TEST(Arguments, OptionalMatrices) {
  std::vector<std::uint32_t> words(8);
  std::vector<float> probs(8);
  refuse([&](Call& c) { c.result.mask = {words.data(), 2, 0}; }, {"mask.row_stride is 0", ">= 1"});
  refuse([&](Call& c) { c.result.mask = {words.data(), 1, 1}; }, {"mask.rows is 1", "allowed: 2"});
  refuse([&](Call& c) { c.result.probs = {probs.data(), 2, 3}; },
         {"probs.row_stride is 3", ">= 4"});
  refuse([&](Call& c) { c.request.allowed = {words.data(), 3, 1}; },
         {"allowed.rows is 3", "allowed: 2"});
}

TEST(Arguments, Numbers) {
  refuse([&](Call& c) { c.request.num_samples = 0; }, {"num_samples is 0", ">= 1"});
  for (const int threads : {-1, kMaxThreads + 1, 100000}) {
    refuse([&](Call& c) { c.execution.threads = threads; },
           {"threads is " + std::to_string(threads), "0 to 1024"});
  }
  refuse([&](Call& c) { c.request.purpose = static_cast<Purpose>(5); },
         {"purpose is 5", "0 (draw)", "4 (bonus)"});
  refuse([&](Call& c) { c.request.tie_rule = static_cast<TieRule>(2); },
         {"tie_rule is 2", "keep_all"});
  refuse([&](Call& c) { c.request.filter_order = static_cast<FilterOrder>(9); },
         {"filter_order is 9", "joint"});
  const std::vector<TieRule> rules(3);
  refuse([&](Call& c) { c.request.tie_rule = {rules.data(), 3}; },
         {"length of tie_rule is 3", "2 (one per row)"});
  const std::vector<FilterOrder> orders(3);
  refuse([&](Call& c) { c.request.filter_order = {orders.data(), 1}; },
         {"length of filter_order is 1", "2 (one per row)"});
  const auto foreign = is_available(CpuTarget::neon) ? CpuTarget::avx2 : CpuTarget::neon;
  refuse([&](Call& c) { c.execution.target = foreign; },
         {"target is", "available here: best, scalar"});
  refuse([&](Call& c) { c.execution.target = static_cast<CpuTarget>(5); },
         {"target is 5", "4 (neon)"});
}

TEST(Arguments, BadParametersFailTheirRowAloneWithAStatusOfTheirOwn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  struct Bad {
    RowStatus status;
    float temperature, top_p, min_p;
    std::int32_t top_k;
    std::uint32_t tie_rule = 0, filter_order = 0;
  };
  const std::vector<Bad> all = {
      {RowStatus::invalid_temperature, -1, 1, 0, 0},
      {RowStatus::invalid_temperature, nan, 1, 0, 0},
      {RowStatus::invalid_temperature, inf, 1, 0, 0},
      {RowStatus::invalid_temperature, 0x1.fffffcp-127F, 1, 0, 0},
      {RowStatus::invalid_temperature, 0x1.000002p64F, 1, 0, 0},
      {RowStatus::invalid_top_k, 1, 1, 0, -2},
      {RowStatus::invalid_top_k, 1, 1, 0, std::numeric_limits<std::int32_t>::min()},
      {RowStatus::invalid_top_p, 1, -0x1p-149F, 0, 0},
      {RowStatus::invalid_top_p, 1, 0x1.000002p0F, 0, 0},
      {RowStatus::invalid_top_p, 1, nan, 0, 0},
      {RowStatus::invalid_min_p, 1, 1, -0x1p-149F, 0},
      {RowStatus::invalid_min_p, 1, 1, 0x1.000002p0F, 0},
      {RowStatus::invalid_min_p, 1, 1, nan, 0},
      {RowStatus::invalid_tie_rule, 1, 1, 0, 0, 2, 0},
      {RowStatus::invalid_tie_rule, 1, 1, 0, 0, ~0U, 7},
      {RowStatus::invalid_filter_order, 1, 1, 0, 0, 1, 2},
      {RowStatus::invalid_filter_order, 1, 1, 0, 0, 0, ~0U},
      {RowStatus::invalid_min_p, 1, 1, 2, 0, 2, 2},
  };
  Call alone;
  const std::uint64_t seeds[] = {5, 6};
  alone.request.seed = {seeds, 2};
  ASSERT_FALSE(sample(alone.request, alone.result));
  for (const Bad& bad : all) {
    for (const std::size_t row : {0U, 1U}) {
      Call call;
      std::vector<float> temperature(2, 1.0F);
      std::vector<float> top_p(2, 1.0F);
      std::vector<float> min_p(2, 0.0F);
      std::vector<std::int32_t> top_k(2, 0);
      std::vector<TieRule> tie_rule(2, TieRule::keep_all);
      std::vector<FilterOrder> filter_order(2, FilterOrder::top_k_first);
      std::vector<RowStatus> statuses(2, RowStatus::inactive);
      temperature[row] = bad.temperature;
      top_p[row] = bad.top_p;
      min_p[row] = bad.min_p;
      top_k[row] = bad.top_k;
      tie_rule[row] = static_cast<TieRule>(bad.tie_rule);
      filter_order[row] = static_cast<FilterOrder>(bad.filter_order);
      call.request.seed = {seeds, 2};
      call.request.temperature = {temperature.data(), 2};
      call.request.top_p = {top_p.data(), 2};
      call.request.min_p = {min_p.data(), 2};
      call.request.top_k = {top_k.data(), 2};
      call.request.tie_rule = {tie_rule.data(), 2};
      call.request.filter_order = {filter_order.data(), 2};
      call.result.statuses = {statuses.data(), 2};
      ASSERT_FALSE(sample(call.request, call.result));
      EXPECT_EQ(statuses[row], bad.status);
      EXPECT_EQ(call.tokens[row], -1);
      EXPECT_EQ(statuses[1 - row], RowStatus::ok);
      EXPECT_EQ(call.tokens[1 - row], alone.tokens[1 - row]);
    }
  }
}

TEST(Arguments, StridesThatMemoryHasAreTakenAndOthersAreNot) {
  // The call has two rows of float32, so a limit of 2^48 bytes allows 2^45 values per row. The last
  // row is padding, which is not read.
  constexpr std::int64_t kMax = std::int64_t{1} << 45;
  refuse([&](Call& c) { c.request.logits.row_stride = kMax + 1; },
         {"logits.row_stride is 35184372088833", "4 (vocab) to 35184372088832"});
  Call call;
  std::vector<std::uint8_t> active = {1, 0};
  call.request.active = {active.data(), 2};
  call.request.logits.row_stride = kMax;
  EXPECT_FALSE(sample(call.request, call.result));
  EXPECT_GE(call.tokens[0], 0);
  EXPECT_EQ(call.tokens[1], -1);
  // A batch without rows occupies no memory, so that any stride is valid.
  Call empty;
  empty.request.logits = {nullptr, DType::float32, 0, 4, std::numeric_limits<std::int64_t>::max()};
  empty.result.tokens.size = 0;
  EXPECT_FALSE(sample(empty.request, empty.result));
}

TEST(Arguments, TheMostThreadsAreTaken) {
  constexpr std::int64_t kRows = 64;  // a call starts at most as many threads as it has rows
  const std::vector<float> logits(4 * kRows);
  std::vector<std::int32_t> one(kRows), many(kRows);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, kRows, 4, 4};
  Execution execution;
  execution.threads = 1;
  ASSERT_FALSE(sample(request, {{one.data(), kRows}, {}, {}, {}, {}, {}, {}, {}}, execution));
  execution.threads = kMaxThreads;
  ASSERT_FALSE(sample(request, {{many.data(), kRows}, {}, {}, {}, {}, {}, {}, {}}, execution));
  EXPECT_EQ(one, many);
}

TEST(Arguments, EmptyBatchWritesNothing) {
  Call call;
  call.request.logits.rows = 0;
  call.request.logits.data = nullptr;
  call.result.tokens.size = 0;
  EXPECT_FALSE(sample(call.request, call.result));
  EXPECT_EQ(call.tokens, std::vector<std::int32_t>(2, -7));
}

TEST(Arguments, OtherOperationsNameTheirOwnFields) {
  std::vector<float> probs = {0.5F, 0.5F};
  std::vector<std::int32_t> tokens(1, -7);
  const RowsView narrow{probs.data(), DType::float32, 1, 2, 1};
  const Error from_probs = sampling_from_probs(narrow, {}, {{tokens.data(), 1}, {}});
  EXPECT_NE(from_probs.message.find("probs.row_stride is 1"), std::string::npos);
  const RowsView rows{probs.data(), DType::float32, 1, 2, 2};
  const Error masked = top_k_mask_logits(rows, 1, probs.data(), 1);
  EXPECT_NE(masked.message.find("masked_row_stride is 1"), std::string::npos);
  const Error nothing = softmax(rows, 1.0F, {});
  EXPECT_NE(nothing.message.find("null"), std::string::npos);
}

}  // namespace
}  // namespace fairdraw::suites
