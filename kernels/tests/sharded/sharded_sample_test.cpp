// A sharded call must give, on every shard, the results of the call over whole rows, bit for bit:
// for random calls, every number of shards, and any boundaries.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "common/proposals.h"
#include "fairdraw/sharded.h"
#include "fairdraw/tile_index.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/random_calls.h"
#include "reference/integer_model.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/sharded/sharded_outputs.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;
using harness::HostArrays;
using harness::OwnedCall;
using harness::sample_in_shards;
using harness::ShardTraffic;

struct Seen {
  std::array<std::int64_t, kRowStatuses> statuses{};
  std::array<std::int64_t, 6> exchanges{};
  std::int64_t rows = 0, gathered = 0;
};

/// Compares calls number first, first + 1, and so on, until `rows` rows have been compared.
void compare_calls(std::uint64_t first, std::int64_t rows, Seen& seen) {
  for (std::uint64_t number = first; seen.rows < rows && !testing::Test::HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const auto count = static_cast<std::int64_t>(1 + number % 13);
    OwnedCall call = harness::random_call(number, count, vocab);
    if (number % 3 == 0) call.processing = harness::random_processing(number, count, vocab);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    HostArrays host;
    const SampleRequest request = harness::request_in(call, host);
    EveryOutput expected(call, number), got(call, number);
    SampleResult wanted = expected.result(call), given = got.result(call);
    if (number / 4 % 2 != 0) {
      EveryOutput::leave_out_survivors(wanted);
      EveryOutput::leave_out_survivors(given);
    }
    const Error refused = sample(request, wanted, {CpuTarget::best, 1});
    ASSERT_FALSE(refused) << "call " << number << ": " << refused.message;
    ShardTraffic traffic;
    // The outputs come from each shard in turn; tokens and statuses are compared on all shards.
    harness::ShardFaults look;
    look.result = [&](const ShardedRequest& part, const SampleResult& result) {
      for (std::int64_t i = 0; i < result.tokens.size; ++i) {
        ASSERT_EQ(result.tokens.data[i], expected.tokens[static_cast<std::size_t>(i)])
            << "call " << number << ", token " << i << " on shard " << part.shard;
      }
      for (std::int64_t i = 0; i < result.statuses.size; ++i) {
        ASSERT_EQ(result.statuses.data[i], expected.statuses[static_cast<std::size_t>(i)])
            << "call " << number << ", output " << i << " on shard " << part.shard;
      }
    };
    const Error error =
        sample_in_shards(request, given, boundaries, {CpuTarget::best, 1}, &traffic, look);
    ASSERT_FALSE(error) << "call " << number << ": " << error.message;
    EXPECT_EQ(got.difference_from(expected), "")
        << "call " << number << " of " << count << " rows, boundaries" << describe(boundaries);
    seen.rows += count;
    ASSERT_LT(traffic.exchanges, 6) << "call " << number;
    ++seen.exchanges[static_cast<std::size_t>(traffic.exchanges)];
    seen.gathered += traffic.gathered_rows;
    for (const RowStatus status : expected.statuses) {
      ++seen.statuses[static_cast<std::size_t>(status)];
    }
  }
}

void expect_all_kinds(const Seen& seen) {
  EXPECT_GE(seen.statuses[0], seen.rows / 4) << "the comparison says little";
  for (std::size_t status = 0; status < seen.statuses.size(); ++status) {
    const auto name = static_cast<RowStatus>(status);
    // The other statuses belong to probabilities, drafts, stops and beams.
    if (name == RowStatus::negative_probability || name > RowStatus::processing_overflow) continue;
    EXPECT_GT(seen.statuses[status], is_reduced() ? -1 : 0) << to_string(name);
  }
  // Calls in which one row needs all exchanges (summary, tokens, sums, a gathered row, ranks) are
  // rare, so the test does not require one.
  for (std::size_t exchanges = 1; exchanges + 1 < seen.exchanges.size(); ++exchanges) {
    EXPECT_GT(seen.exchanges[exchanges], is_reduced() ? -1 : 0) << exchanges << " exchanges";
  }
  EXPECT_GT(50 * seen.gathered, is_reduced() ? -1 : seen.rows) << "few rows are gathered";
}

/// Returns the number of rows to compare; FAIRDRAW_SHARDED_ROWS=1000000 sets a larger number for
/// nightly runs.
std::int64_t rows_to_compare() {
  const char* asked = std::getenv("FAIRDRAW_SHARDED_ROWS");
  return asked != nullptr ? std::atoll(asked) : static_cast<std::int64_t>(budget(20000));
}

TEST(ShardedSample, IsTheUnshardedCall) {
  Seen seen;
  compare_calls(0, rows_to_compare(), seen);
  expect_all_kinds(seen);
  RecordProperty("rows", static_cast<int>(seen.rows));
  RecordProperty("gathered", static_cast<int>(seen.gathered));
}

// --- What is exchanged ---------------------------------------------------------------------------

constexpr std::int64_t kVocab = 128256;

/// Returns rows of a language model's size. The logits are N(0, 2^2), except for 64 raised tokens
/// that have 19/20 of the mass, 64 exp(13) against 128256 exp(2). So a nucleus of 0.9 lies among
/// the raised tokens.
std::vector<float> peaked_rows(std::int64_t rows) {
  Dice dice(7);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < rows * kVocab; ++i) {
    logits.push_back(static_cast<float>(2 * dice.bell()));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (int raised = 0; raised < 64; ++raised) {
      logits[static_cast<std::size_t>(row * kVocab) + dice.below(kVocab)] +=
          static_cast<float>(10 + 6 * dice.unit());
    }
  }
  return logits;
}

struct Exchanged {
  std::int64_t bytes_a_row = 0;
  std::int32_t exchanges = 0;
  std::int64_t gathered_rows = 0;
};

/// Runs a call with these filters, split into two shards, and expects the tokens of the unsplit
/// call.
Exchanged exchanged(std::int32_t top_k, float top_p, float min_p, float temperature = 1.0F) {
  constexpr std::int64_t kRows = 8;
  static const std::vector<float> logits = peaked_rows(kRows);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t row = 0; row < kRows; ++row) seeds.push_back(row);
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, kRows, kVocab, kVocab};
  request.temperature = temperature;
  request.top_k = top_k;
  request.top_p = top_p;
  request.min_p = min_p;
  request.seed = {seeds.data(), kRows};
  std::vector<std::int32_t> expected(kRows), got(kRows);
  SampleResult result;
  result.tokens = {expected.data(), kRows};
  EXPECT_FALSE(sample(request, result, {CpuTarget::best, 1}));
  result.tokens = {got.data(), kRows};
  ShardTraffic traffic;
  EXPECT_FALSE(sample_in_shards(request, result, harness::equal_boundaries(kVocab, 2),
                                {CpuTarget::best, 1}, &traffic));
  EXPECT_EQ(got, expected);
  return {(traffic.bytes + kRows - 1) / kRows, traffic.exchanges, traffic.gathered_rows};
}

TEST(ShardedExchange, TakesAtMost8KilobytesARow) {
  // A summary has 816 bytes, 4 for each of a shard's 128 values in the tile that the boundary cuts
  // (64128 ids are 250.5 tiles), and 8 for each of 256 candidates. So a row takes 3376 bytes per
  // shard, and each block has a header of 16 bytes for 8 rows.
  for (const auto& [top_k, top_p, min_p] :
       {std::tuple{50, 0.9F, 0.0F}, {50, 1.0F, 0.0F}, {0, 1.0F, 0.05F}}) {
    const Exchanged seen = exchanged(top_k, top_p, min_p);
    EXPECT_EQ(seen.exchanges, 1) << top_k << " " << top_p << " " << min_p;
    EXPECT_EQ(seen.gathered_rows, 0) << top_k << " " << top_p << " " << min_p;
    EXPECT_EQ(seen.bytes_a_row, 2 * (816 + 512 + 2048) + 4);
    EXPECT_LE(seen.bytes_a_row, 8192);
  }
  // Proposals need 4 attempts of 16 bytes from each shard; without filters there is one attempt,
  // and the summary has no candidates.
  const Exchanged nucleus = exchanged(0, 0.9F, 0.0F);
  EXPECT_EQ(nucleus.exchanges, 2);
  EXPECT_EQ(nucleus.gathered_rows, 0);
  EXPECT_EQ(nucleus.bytes_a_row, 2 * (816 + 512 + 2048 + 64) + 8);
  const Exchanged seen = exchanged(0, 1.0F, 0.0F);
  EXPECT_EQ(seen.exchanges, 2);
  EXPECT_EQ(seen.bytes_a_row, 2 * (816 + 512 + 16) + 8);
}

TEST(ShardedExchange, GathersRowsThatCandidatesDoNotDecide) {
  // If more tokens survive than are listed, the row takes 4 bytes per column, and one more header.
  // Rows that draw by proposals are gathered if min_p might drop one of their tiles.
  for (const auto& [top_k, top_p, min_p] :
       {std::tuple{1000, 1.0F, 0.0F}, {0, 1.0F, 1e-8F}, {0, 0.9F, 1e-8F}}) {
    const Exchanged wide = exchanged(top_k, top_p, min_p);
    EXPECT_EQ(wide.exchanges, 2) << top_k << " " << top_p << " " << min_p;
    EXPECT_EQ(wide.gathered_rows, 8) << top_k << " " << top_p << " " << min_p;
    EXPECT_EQ(wide.bytes_a_row, 2 * (816 + 512 + 2048 + 4 * kVocab / 2) + 8);
  }
}

TEST(ShardedExchange, DecidesWideNucleiBySums) {
  // At temperature 8 the candidates have one hundredth of the mass. Each shard sends 64 bytes of
  // attempts, and 64 bytes of masses above the proposed tokens.
  const Exchanged wide = exchanged(0, 0.9F, 0.0F, 8.0F);
  EXPECT_EQ(wide.exchanges, 3);
  EXPECT_EQ(wide.gathered_rows, 0);
  EXPECT_EQ(wide.bytes_a_row, 2 * (816 + 512 + 2048 + 64 + 64) + 12);
}

/// Tokens of rows that draw by proposals must equal the model's. The tokens lie among the
/// candidates and beyond them, and support sizes are requested or not (if they are, rows beyond the
/// candidates are gathered).
TEST(ShardedProposals, AreTheModels) {
  constexpr std::int32_t kSamples = 9;
  const std::uint64_t rows = budget(240);
  std::array<std::int64_t, 5> exchanges{};
  std::int64_t gathered = 0, gathered_by_tokens = 0, wide = 0;
  for (std::uint64_t number = 0; number < rows && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = dice.between(1500, 6000);
    const float spread = dice.pick({0.0F, 0.3F, 1.0F, 4.0F});
    std::vector<float> row;
    for (std::int64_t id = 0; id < vocab; ++id) {
      const auto x = static_cast<float>(static_cast<double>(spread) * dice.bell());
      row.push_back(dice.once_in(9) ? -std::numeric_limits<float>::infinity() : x);
    }
    row[dice.below(static_cast<std::uint64_t>(vocab))] = 0;
    const reference::RowParameters parameters{dice.pick({1.0F, 0.5F}), 0,
                                              dice.pick({0.999F, 0.9F, 0.9F, 0.5F, 0.1F, 0.02F}),
                                              dice.pick({0.0F, 0.0F, 0.0F, 0.05F})};
    const bool wants_support = number % 3 == 0;
    SampleRequest request;
    request.logits = {row.data(), DType::float32, 1, vocab, vocab};
    request.temperature = parameters.temperature;
    request.top_p = parameters.top_p;
    request.min_p = parameters.min_p;
    request.seed = number;
    request.num_samples = kSamples;
    std::vector<std::int32_t> tokens(kSamples, -7);
    std::int32_t support = -7;
    SampleResult result;
    result.tokens = {tokens.data(), kSamples};
    if (wants_support) result.support_size = {&support, 1};
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    ShardTraffic traffic;
    ASSERT_FALSE(sample_in_shards(request, result, boundaries, {CpuTarget::best, 1}, &traffic));
    const reference::IntegerRow model = reference::integer_model(row, {}, parameters);
    for (std::int32_t sample = 0; sample < kSamples; ++sample) {
      const DrawWords words{number, 0, Purpose::draw, static_cast<std::uint32_t>(sample)};
      EXPECT_EQ(tokens[static_cast<std::size_t>(sample)],
                model.token_by_attempts([&](std::uint32_t i) { return words.of_attempt(i); }))
          << "row " << number << ", sample " << sample << ", boundaries" << describe(boundaries);
    }
    ++exchanges.at(static_cast<std::size_t>(traffic.exchanges));
    gathered += traffic.gathered_rows;
    if (parameters.min_p > 0) continue;
    gathered_by_tokens += wants_support ? 0 : traffic.gathered_rows;
    wide += !wants_support && traffic.exchanges > 2 ? 1 : 0;
  }
  EXPECT_GT(exchanges[2], is_reduced() ? -1 : 20);
  EXPECT_GT(exchanges[3], is_reduced() ? -1 : 20);
  EXPECT_GT(gathered, is_reduced() ? -1 : 20);
  EXPECT_GT(wide - gathered_by_tokens, is_reduced() ? -1 : 20) << "few rows are decided by sums";
}

/// These rows are hard for candidates. All values are tied over all shards; all, half or one of the
/// values are above -inf; k is above the number of candidates; or all but one of eight shards are
/// masked out.
TEST(ShardedSample, OfTiesAndMaskedShardsIsTheUnshardedCall) {
  constexpr std::int64_t kColumns = 4000;
  std::int64_t gathered = 0;
  for (const float spread : {0.0F, 1e-3F}) {
    for (const std::int64_t allowed : {kColumns, kColumns / 2, kColumns / 8, std::int64_t{1}}) {
      for (const std::int32_t top_k : {0, 300, 3999}) {
        for (const TieRule ties : {TieRule::keep_all, TieRule::lowest_id}) {
          for (const float top_p : {1.0F, 0.7F}) {
            std::vector<float> logits(kColumns, -std::numeric_limits<float>::infinity());
            for (std::int64_t id = kColumns - allowed; id < kColumns; ++id) {
              logits[static_cast<std::size_t>(id)] = spread * static_cast<float>(id % 7);
            }
            SampleRequest request;
            request.logits = {logits.data(), DType::float32, 1, kColumns, kColumns};
            request.top_k = top_k;
            request.top_p = top_p;
            request.tie_rule = ties;
            request.seed = std::uint64_t{9};
            request.num_samples = 5;
            std::vector<std::int32_t> expected(5), got(5);
            std::int32_t support[2] = {};
            SampleResult result;
            result.tokens = {expected.data(), 5};
            result.support_size = {support, 1};
            ASSERT_FALSE(sample(request, result, {CpuTarget::best, 1}));
            result.tokens = {got.data(), 5};
            result.support_size = {support + 1, 1};
            ShardTraffic traffic;
            ASSERT_FALSE(sample_in_shards(request, result, harness::equal_boundaries(kColumns, 8),
                                          {CpuTarget::best, 1}, &traffic));
            EXPECT_EQ(got, expected) << allowed << " allowed, top_k " << top_k << ", " << top_p;
            EXPECT_EQ(support[1], support[0]) << allowed << " allowed, top_k " << top_k;
            gathered += traffic.gathered_rows;
          }
        }
      }
    }
  }
  EXPECT_GT(gathered, 20);
}

// --- What is refused -----------------------------------------------------------------------------

/// A call on one row of 300 tokens in two shards.
struct SmallCall {
  std::vector<float> logits = std::vector<float>(300, 0.5F);
  std::vector<std::int64_t> boundaries = {0, 140, 300};
  std::int32_t token = -7;
  ShardedRequest request;
  SampleResult result;

  explicit SmallCall(std::int32_t shard) {
    request.rows.logits = {logits.data(), DType::float32, 1, shard == 0 ? 140 : 160, 160};
    request.boundaries = {boundaries.data(), 3};
    request.shard = shard;
    result.tokens = {&token, 1};
  }
};

TEST(ShardedSample, RefusesBlocksOfAnotherCall) {
  SmallCall first(0), second(1);
  ShardedSample one, other;
  ASSERT_FALSE(one.begin(first.request, first.result));
  second.request.rows.seed = std::uint64_t{1};  // a seed that differs between the ranks
  ASSERT_FALSE(other.begin(second.request, second.result));
  ASSERT_EQ(one.block_bytes(), other.block_bytes());
  std::vector<std::byte> blocks(one.block(), one.block() + one.block_bytes());
  blocks.insert(blocks.end(), other.block(), other.block() + other.block_bytes());
  const Error error = one.receive(blocks.data());
  EXPECT_NE(error.message.find("block of shard 1 is of another call"), std::string::npos)
      << error.message;
  EXPECT_EQ(first.token, -7);
  EXPECT_EQ(one.block_bytes(), 0) << "the call has ended";
  EXPECT_TRUE(one.receive(blocks.data()));
}

TEST(ShardedSample, RefusesTopNSigmaByName) {
  SmallCall call(0);
  call.request.rows.processing.top_n_sigma = 1.0F;
  ShardedSample sharded;
  constexpr const char* kRefused =
      "top_n_sigma is on; allowed: off, of a split vocabulary: no rank has the whole row";
  EXPECT_EQ(sharded.begin(call.request, call.result).message, kRefused);
  // A running batch has one value per slot, which is neutral unless the request of the slot sets
  // it.
  std::vector<float> values(static_cast<std::size_t>(call.request.rows.logits.rows), -1.0F);
  call.request.rows.processing.top_n_sigma = {values.data(),
                                              static_cast<std::int64_t>(values.size())};
  EXPECT_EQ(sharded.begin(call.request, call.result).message, "");
  values.back() = 2.0F;
  EXPECT_EQ(sharded.begin(call.request, call.result).message, kRefused);
}

TEST(ShardedSample, RefusesFiltersByProbabilityByName) {
  ShardedSample sharded;
  const auto refused = [&sharded](const auto& change) {
    SmallCall call(0);
    change(call.request.rows.processing);
    return sharded.begin(call.request, call.result).message;
  };
  constexpr const char* kAllowed =
      " is on; allowed: off, of a split vocabulary: no rank has the whole row";
  EXPECT_EQ(refused([](LogitsProcessing& p) { p.typical_p = 0.5F; }),
            std::string("typical_p") + kAllowed);
  EXPECT_EQ(refused([](LogitsProcessing& p) { p.epsilon_cutoff = 0.5F; }),
            std::string("epsilon_cutoff") + kAllowed);
  EXPECT_EQ(refused([](LogitsProcessing& p) { p.eta_cutoff = 0.5F; }),
            std::string("eta_cutoff") + kAllowed);
  EXPECT_EQ(refused([](LogitsProcessing& p) { p.p_less = 1; }), std::string("p_less") + kAllowed);
  EXPECT_EQ(refused([](LogitsProcessing& p) { p.typical_p = 1; }), "");
}

TEST(ShardedSample, ReadsNoFiltersOfRowsThatAreNotActive) {
  ShardedSample sharded;
  SmallCall call(0);
  const std::vector<float> typical(static_cast<std::size_t>(call.request.rows.logits.rows));
  std::vector<std::uint8_t> active(typical.size());
  call.request.rows.processing.typical_p = {typical.data(), call.request.rows.logits.rows};
  call.request.rows.active = {active.data(), call.request.rows.logits.rows};
  EXPECT_EQ(sharded.begin(call.request, call.result).message, "");
  active[0] = 1;
  EXPECT_NE(sharded.begin(call.request, call.result).message, "");
}

TEST(ShardedSample, RefusesRulesOfRowsByName) {
  SmallCall call(0);
  const auto rows = static_cast<std::size_t>(call.request.rows.logits.rows);
  const std::vector<TieRule> rules(rows);
  const std::vector<FilterOrder> orders(rows);
  ShardedSample sharded;
  call.request.rows.tie_rule = {rules.data(), static_cast<std::int64_t>(rows)};
  EXPECT_EQ(sharded.begin(call.request, call.result).message,
            "tie_rule is an array; allowed: one value, of a split vocabulary");
  call.request.rows.tie_rule = TieRule::lowest_id;
  call.request.rows.filter_order = {orders.data(), static_cast<std::int64_t>(rows)};
  EXPECT_EQ(sharded.begin(call.request, call.result).message,
            "filter_order is an array; allowed: one value, of a split vocabulary");
}

TEST(ShardedSample, RefusesWrongBoundariesByName) {
  const auto message = [](std::vector<std::int64_t> boundaries, std::int32_t shard) {
    SmallCall call(0);
    call.request.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
    call.request.shard = shard;
    ShardedSample sharded;
    return sharded.begin(call.request, call.result).message;
  };
  EXPECT_EQ(message({0}, 0), "length of boundaries is 1; allowed: 2 to 257 (shards + 1)");
  EXPECT_EQ(message({1, 141}, 0), "boundaries[0] is 1; allowed: 0");
  EXPECT_EQ(message({0, 140, 139}, 0),
            "boundaries[2] is 139; allowed: 140 (the one before) to 1048576");
  EXPECT_EQ(message({0, 0}, 0), "boundaries[1] is 0; allowed: 1 to 1048576: the vocabulary");
  EXPECT_EQ(message({0, 140, 300}, 2), "shard is 2; allowed: 0 to 1");
  EXPECT_EQ(message({0, 139, 300}, 0), "logits.vocab is 140; allowed: 139, the columns of shard 0");
}

}  // namespace
}  // namespace fairdraw::suites
