// Sharded calls in device memory must have the same first blocks and answers as the CPU's, bit for
// bit. So must the tokens, statuses, supports and masks of every shard. All shards share one GPU
// here; each shard's data is copied to the others, or written to memory that all shards can
// address.
#include "harness/adapters/sharded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/float_order.h"
#include "fairdraw/cuda_sharded.h"
#include "fairdraw/tile_index.h"
#include "harness/inputs/dice.h"
#include "harness/inputs/random_calls.h"
#include "sharded/exchange.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/graphs.h"
#include "tests/cuda/serving/device_shards.h"
#include "tests/operations/operation_calls.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/sharded/sharded_outputs.h"

namespace fairdraw::suites {
namespace {

using cuda::ShardedExchange;
using harness::Dice;
using harness::HostArrays;
using harness::OwnedCall;

/// The blocks that the shards of a call exchange on the CPU, and the same call in device memory.
struct Comparison {
  std::vector<std::vector<std::byte>> gathered;  ///< blocks of all shards on the CPU, one entry per
                                                 ///< exchange
  std::vector<std::int64_t> block_bytes;
  std::int64_t host_gathered = 0;  ///< number of rows
  DeviceShards device;

  /// Runs a sharded call on the CPU, and copies the arrays of its shards while these exist.
  Error run_on_host(const ShardedRequest& request, const SampleResult& result, bool wants_mask) {
    harness::ShardFaults look;
    const ShardWants wants =
        result.support_size.given() ? ShardWants::survivors : ShardWants::tokens;
    look.request = [&](ShardedRequest& part) {
      device.add(part, wants_mask, result.logprobs, wants);
    };
    look.blocks = [&](const ShardedRequest& part, int, std::byte* blocks, std::int64_t bytes) {
      if (part.shard > 0) return;
      gathered.emplace_back(blocks, blocks + (part.boundaries.size - 1) * bytes);
      block_bytes.push_back(bytes);
    };
    harness::ShardTraffic traffic;
    const Error error =
        harness::sample_in_shards(request, result, {CpuTarget::best, 1}, &traffic, look);
    host_gathered = traffic.gathered_rows;
    return error;
  }
};

constexpr std::size_t kHeaderBytes = sizeof(sharded::BlockHeader);
/// Size of the part of a block's header that the test compares. The fingerprint after this part
/// includes arrays only if they are on the host.
constexpr std::size_t kComparedOfHeader = offsetof(sharded::BlockHeader, fingerprint);

/// Returns the byte offset of the first word in which two blocks differ, or -1.
std::int64_t first_difference(const std::byte* a, const std::byte* b, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 4) {
    if (std::memcmp(a + at, b + at, std::min<std::size_t>(4, bytes - at)) != 0) {
      return static_cast<std::int64_t>(at);
    }
  }
  return -1;
}

void expect_block(const Comparison& call, DeviceShards& device, std::size_t number,
                  ShardedExchange exchange, const std::string& where) {
  const auto bytes = static_cast<std::size_t>(call.block_bytes[number]);
  for (int shard = 0; shard < device.size(); ++shard) {
    const std::vector<std::byte> mine = device.at(shard).block(exchange);
    const std::byte* theirs =
        call.gathered[number].data() + static_cast<std::size_t>(shard) * bytes;
    ASSERT_GE(mine.size(), bytes) << where;
    // In this test, the number of an exchange is also its kind.
    EXPECT_EQ(first_difference(mine.data(), theirs, number == 0 ? kComparedOfHeader : 4), -1)
        << where;
    ASSERT_EQ(
        first_difference(mine.data() + kHeaderBytes, theirs + kHeaderBytes, bytes - kHeaderBytes),
        -1)
        << "byte of the block of shard " << shard << ", exchange " << number << ", " << where;
  }
}

/// Returns whether two floats are equal or neighbours, because log-probabilities of the GPU may
/// differ in the last place (fairdraw/cuda.h).
bool is_near(float a, float b) { return a == b || std::abs(order_key(a) - order_key(b)) <= 1; }

void expect_results(DeviceShards& device, const OwnedCall& call, const EveryOutput& expected,
                    const SampleResult& wanted, const std::vector<std::int64_t>& boundaries,
                    const std::string& where) {
  const std::int64_t vocab = boundaries.back();
  const std::int64_t words = (vocab + 31) / 32;
  for (int shard = 0; shard < device.size(); ++shard) {
    const DeviceShard& mine = device.at(shard);
    ASSERT_EQ(mine.statuses, expected.statuses) << "shard " << shard << ", " << where;
    ASSERT_EQ(mine.tokens, expected.tokens) << "shard " << shard << ", " << where;
    ASSERT_EQ(mine.support_size, expected.support_size) << "shard " << shard << ", " << where;
    for (std::size_t i = 0; i < expected.logprob.size(); ++i) {
      ASSERT_TRUE(is_near(mine.logprob[i], expected.logprob[i])) << i << ", " << where;
      ASSERT_TRUE(is_near(mine.logprob_filtered[i], expected.logprob_filtered[i]))
          << i << ", " << where;
      // A value that no call reports keeps the same pattern on both sides.
      ASSERT_TRUE(is_near(mine.values[i], expected.values[i]))
          << mine.values[i] << " is not " << expected.values[i] << ", " << where;
    }
    ASSERT_EQ(mine.ranks, expected.ranks) << "shard " << shard << ", " << where;
    ASSERT_EQ(mine.top_ids.size(), wanted.logprobs.top_n == 0 ? 0 : expected.top_ids.size());
    for (std::size_t i = 0; i < mine.top_ids.size(); ++i) {
      ASSERT_EQ(mine.top_ids[i], expected.top_ids[i]) << i << ", " << where;
      ASSERT_TRUE(is_near(mine.top_values[i], expected.top_values[i])) << i << ", " << where;
    }
    const std::int64_t begin = boundaries[static_cast<std::size_t>(shard)];
    const std::int64_t end = boundaries[static_cast<std::size_t>(shard) + 1];
    for (std::size_t row = 0; row < static_cast<std::size_t>(call.rows); ++row) {
      if (!call.active.empty() && call.active[row] == 0) continue;
      const std::uint32_t* all = expected.mask.data() + row * static_cast<std::size_t>(words);
      const std::uint32_t* part =
          mine.mask.data() + row * static_cast<std::size_t>(mine.mask_words);
      for (std::int64_t id = begin; id < end; ++id) {
        const std::int64_t column = id - begin;
        const auto whole = static_cast<std::int64_t>(row) * vocab + id;
        const auto here = static_cast<std::int64_t>(row) * mine.all_stride + column;
        ASSERT_TRUE(is_near(mine.all[static_cast<std::size_t>(here)],
                            expected.all[static_cast<std::size_t>(whole)]))
            << "token " << id << ", row " << row << ", shard " << shard << ", " << where;
        if (!wanted.mask.given()) continue;
        ASSERT_EQ((part[column / 32] >> (column % 32)) & 1U, (all[id / 32] >> (id % 32)) & 1U)
            << "mask of token " << id << ", row " << row << ", shard " << shard << ", " << where;
      }
    }
  }
}

/// Returns a call that the GPU supports. A call of a single row has one output, so that the size of
/// a block tells which exchange it belongs to.
OwnedCall supported_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call = harness::random_call(number, rows, vocab);
  if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
  if (call.indices.empty() || rows > 1) return call;
  call.indices.clear();
  for (auto* parameter : {&call.seed, &call.offset}) {
    if (parameter->is_array) parameter->values.resize(static_cast<std::size_t>(rows));
  }
  return call;
}

/// Removes the results that GPUs do not report and those that probabilities lack; in half of the
/// pairs of calls, also the results of survivors.
void keep_supported(std::uint64_t number, TileInput input, SampleResult& result) {
  result.probs = {};
  if (number / 2 % 2 != 0) EveryOutput::leave_out_survivors(result);
  if (input == TileInput::logits) return;
  result.logprob = result.logprob_filtered = {};
  result.logprobs = {};
}

/// Returns the request over whole rows, before they are split into shards.
ShardedRequest whole_call(const OwnedCall& call, TileInput input,
                          const std::vector<std::int64_t>& boundaries, HostArrays& host) {
  ShardedRequest whole;
  whole.rows = harness::request_in(call, host);
  whole.input = input;
  if (input == TileInput::probs) whole.rows.temperature = 1.0F;
  whole.boundaries = {boundaries.data(), static_cast<std::int64_t>(boundaries.size())};
  return whole;
}

/// Returns a call with rows of probabilities; some calls have a mask.
OwnedCall probabilities(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  OwnedCall call =
      random_operation_call(Operation::top_k_top_p_sampling_from_probs, number, rows, vocab);
  if (rows == 1 && !call.indices.empty()) {
    call.indices.clear();
    for (auto* parameter : {&call.seed, &call.offset}) {
      if (parameter->is_array) parameter->values.resize(1);
    }
  }
  const OwnedCall other = harness::random_call(number, rows, vocab);
  call.allowed = other.allowed;
  call.allowed_stride = other.allowed_stride;
  call.active = other.active;
  call.tie_rule = other.tie_rule;
  call.filter_order = other.filter_order;
  return call;
}

struct Seen {
  std::array<std::int64_t, kRowStatuses> statuses{};
  std::int64_t calls = 0, blocks = 0, gathered = 0, answers = 0, sums = 0, indices = 0;
};

/// Compares one call on CPU and GPU: the first block and the results; for a single row also all
/// other blocks.
void compare(std::uint64_t number, OwnedCall call, TileInput input, Seen& seen) {
  const std::int64_t rows = call.rows, vocab = call.vocab;
  if (rows == 1)
    call.num_samples = 1;  // so that the size of a block tells which exchange it
                           // belongs to
  Dice dice(number);
  const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
  const std::string where = "call " + std::to_string(number) + " of " + std::to_string(rows) +
                            " rows, boundaries" + describe(boundaries);
  HostArrays host;
  const ShardedRequest whole = whole_call(call, input, boundaries, host);
  EveryOutput expected(call, number);
  SampleResult wanted = expected.result(call);
  keep_supported(number, input, wanted);
  if (input == TileInput::logits) {
    ASSERT_FALSE(sample(whole.rows, wanted, {CpuTarget::best, 1}));
  } else {
    const std::vector<std::int64_t> of_one = {0, vocab};
    ASSERT_FALSE(harness::sample_in_shards(whole_call(call, input, of_one, host), wanted,
                                           {CpuTarget::best, 1}));
  }
  EveryOutput on_host(call, number);
  SampleResult of_host = on_host.result(call);
  keep_supported(number, input, of_host);
  Comparison both;
  const Error host_error = both.run_on_host(whole, of_host, of_host.mask.given());
  ASSERT_FALSE(host_error) << host_error.message;

  DeviceShards& device = both.device;
  Error error = device.begin();
  ASSERT_FALSE(error) << error.message << ", " << where;
  // Every second call exchanges its blocks through peer memory, which has room for more rows than
  // the call has.
  if (number % 2 != 0) {
    error = device.use_peers(rows + 2);
    ASSERT_FALSE(error) << error.message << ", " << where;
  }
  ASSERT_FALSE(device.send(ShardedExchange::summary));
  // A per-request array may turn filters on, so candidates are always sent.
  if (both.block_bytes[0] == device.at(0).call.bytes(ShardedExchange::summary)) {
    expect_block(both, device, 0, ShardedExchange::summary, where);
    if (testing::Test::HasFatalFailure()) return;
    ++seen.blocks;
  }
  device.gather(ShardedExchange::summary);
  ASSERT_FALSE(device.receive(ShardedExchange::summary));
  std::size_t blocks = both.block_bytes.size();
  const auto bytes_of = [&](std::size_t block) {
    return static_cast<std::size_t>(both.block_bytes[block]) - kHeaderBytes;
  };
  // The exchange of ranks comes last, and in this test the exchange has all rows. No earlier
  // exchange has as many bytes as an exchange of ranks, except for a gathered row of one column.
  const bool ends_with_row =
      both.host_gathered > 0 &&
      both.block_bytes[blocks - 1] == device.at(0).call.bytes(ShardedExchange::gather) &&
      both.block_bytes[blocks - 2] != both.block_bytes[blocks - 1];
  if (blocks > 1 && bytes_of(blocks - 1) == sizeof(std::int32_t) && !ends_with_row) --blocks;
  for (std::size_t next = 1; rows == 1 && next < blocks; ++next) {
    const bool is_gather = both.host_gathered > 0 && next == blocks - 1;
    const ShardedExchange exchange = is_gather   ? ShardedExchange::gather
                                     : next == 1 ? ShardedExchange::tokens
                                                 : ShardedExchange::sums;
    if (exchange == ShardedExchange::sums) ++seen.sums;
    ASSERT_EQ(device.undecided(), 1) << where;
    ASSERT_FALSE(device.send(exchange));
    expect_block(both, device, next, exchange, where);
    if (testing::Test::HasFatalFailure()) return;
    ++seen.answers;
    device.gather(exchange);
    ASSERT_FALSE(device.receive(exchange));
  }
  std::int32_t undecided = 0;
  if (rows > 1) {
    ASSERT_FALSE(device.exchange_tokens());
    undecided = device.undecided();
    EXPECT_EQ(undecided, both.host_gathered) << where;
  }
  ASSERT_FALSE(device.go_on(undecided));
  EXPECT_EQ(device.undecided(), 0) << where;
  seen.gathered += both.host_gathered;
  device.fetch();
  expect_results(device, call, expected, wanted, boundaries, where);
  ++seen.calls;
  if (!call.indices.empty()) ++seen.indices;
  for (const RowStatus status : expected.statuses) {
    ++seen.statuses[static_cast<std::size_t>(status)];
  }
}

TEST(CudaSharded, BlocksAndResultsAreTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const char* asked = std::getenv("FAIRDRAW_SHARDED_CALLS");
  const std::uint64_t first = 0;
  const std::uint64_t calls = asked != nullptr ? std::strtoull(asked, nullptr, 10) : budget(300);
  Seen seen;
  for (std::uint64_t number = first; number < first + calls && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const auto rows = static_cast<std::int64_t>(1 + number % 3);
    compare(number, supported_call(number, rows, vocab), TileInput::logits, seen);
  }
  EXPECT_GT(seen.blocks, seen.calls / 2) << "the comparison says little";
  EXPECT_GT(seen.statuses[0], seen.calls / 4) << "the comparison says little";
  EXPECT_GT(seen.indices, is_reduced() ? -1 : seen.calls / 20) << "few calls have indices";
  EXPECT_GT(30 * seen.answers, is_reduced() ? -1 : seen.calls) << "few rows ask anything";
  EXPECT_GT(50 * seen.gathered, is_reduced() ? -1 : seen.calls) << "few rows are gathered";
  EXPECT_GT(seen.sums, is_reduced() ? -1 : 0) << "no row is decided by sums";
  RecordProperty("gathered", static_cast<int>(seen.gathered));
  RecordProperty("answers", static_cast<int>(seen.answers));
}

/// Rows of probabilities have all filters, masks and indices, and are split into 1 to 8 shards.
TEST(CudaSharded, OfProbabilitiesBlocksAndResultsAreTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const char* asked = std::getenv("FAIRDRAW_SHARDED_CALLS");
  const std::uint64_t calls = asked != nullptr ? std::strtoull(asked, nullptr, 10) : budget(300);
  Seen seen;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const auto rows = static_cast<std::int64_t>(1 + number % 3);
    compare(number, probabilities(number, rows, vocab), TileInput::probs, seen);
  }
  EXPECT_GT(seen.blocks, seen.calls / 2) << "the comparison says little";
  for (const RowStatus status :
       {RowStatus::ok, RowStatus::nan_input, RowStatus::infinite_input,
        RowStatus::negative_probability, RowStatus::no_allowed_token, RowStatus::invalid_top_k,
        RowStatus::invalid_top_p, RowStatus::invalid_min_p, RowStatus::index_out_of_range}) {
    EXPECT_GT(seen.statuses.at(static_cast<std::size_t>(status)), is_reduced() ? -1 : 0)
        << to_string(status);
  }
  EXPECT_GT(30 * seen.answers, is_reduced() ? -1 : seen.calls) << "few rows ask anything";
}

/// The calls request only a mask, for rows whose survivors are known at once and for gathered rows.
/// The first call also draws tokens by supplied random words.
TEST(CudaSharded, MasksNeedNoTokensAndWordsNoSeeds) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kRows = 3, kVocab = 9000;
  Dice dice(5);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < kRows * kVocab; ++i) {
    logits.push_back(static_cast<float>(2 * dice.bell()));
  }
  const std::vector<std::int32_t> top_k = {50, 1000, 1};
  const std::vector<std::uint64_t> words = {dice.bits(), dice.bits(), dice.bits()};
  const std::vector<std::int64_t> boundaries = {0, 4100, kVocab};
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(kRows * ((kVocab + 31) / 32)));
  std::vector<std::int32_t> tokens(kRows);
  ShardedRequest whole;
  whole.rows.logits = {logits.data(), DType::float32, kRows, kVocab, kVocab};
  whole.rows.top_k = {top_k.data(), kRows};
  whole.rows.seed = std::uint64_t{1};  // the seed is not read, because random words are supplied
  whole.boundaries = {boundaries.data(), 3};
  whole.words = {words.data(), kRows};
  SampleResult wanted;
  wanted.tokens = {tokens.data(), kRows};
  wanted.mask = {mask.data(), kRows, (kVocab + 31) / 32};
  for (const bool with_tokens : {true, false}) {
    DeviceShards shards;
    harness::ShardFaults look;
    look.request = [&](ShardedRequest& part) {
      shards.add(part, /*wants_mask=*/true, {},
                 with_tokens ? ShardWants::survivors : ShardWants::columns);
    };
    ASSERT_FALSE(harness::sample_in_shards(whole, wanted, {CpuTarget::best, 1}, nullptr, look));
    ASSERT_FALSE(shards.begin());
    ASSERT_FALSE(shards.run());
    EXPECT_EQ(shards.undecided(), 0);
    shards.fetch();
    for (int shard = 0; shard < 2; ++shard) {
      const DeviceShard& mine = shards.at(shard);
      if (with_tokens) {
        EXPECT_EQ(mine.tokens, tokens) << "shard " << shard;
      }
      const std::int64_t begin = boundaries[static_cast<std::size_t>(shard)];
      const std::int64_t end = boundaries[static_cast<std::size_t>(shard) + 1];
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::uint32_t* all = mask.data() + row * wanted.mask.row_stride;
        const std::uint32_t* part = mine.mask.data() + row * mine.mask_words;
        for (std::int64_t id = begin; id < end; ++id) {
          ASSERT_EQ((part[(id - begin) / 32] >> ((id - begin) % 32)) & 1U,
                    (all[id / 32] >> (id % 32)) & 1U)
              << "token " << id << ", row " << row;
        }
      }
    }
  }
}

/// These rows have so many columns that candidates are found by groups of tokens, and only some of
/// the candidates are listed.
TEST(CudaSharded, WideRowsAreTheCpus) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  Seen seen;
  const std::uint64_t calls = is_reduced() ? 4 : 12;
  for (std::uint64_t number = 0; number < calls && !HasFailure(); ++number) {
    Dice dice(number);
    const std::uint64_t wide = 7700000 + number;
    const std::int64_t vocab = dice.between(20000, 40000);
    compare(wide, supported_call(wide, 1, vocab), TileInput::logits, seen);
    compare(wide, probabilities(wide, 1, vocab), TileInput::probs, seen);
  }
  EXPECT_GT(seen.blocks, 0);
}

/// Flat rows of a language model's size have survivors far beyond the candidates. The call has more
/// such rows than a group of gathered rows holds, with thresholds of each filter and of two
/// filters. Sums of weights alone decide the nuclei.
TEST(CudaSharded, FlatRowsAreGathered) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocab = 128256;
  const std::vector<std::int32_t> top_k = {0, 1000, 0, 2000, 20000, 50, 0, 1000, 0, 1000, 0, 0};
  const std::vector<float> top_p = {0.9F, 1.0F, 1.0F, 0.99F, 0.9F, 1.0F,
                                    0.9F, 1.0F, 1.0F, 1.0F,  0.9F, 0.7F};
  const std::vector<float> min_p = {0.001F, 0, 0.02F, 0, 0, 0, 0.001F, 0, 0.02F, 0, 0, 0};
  constexpr std::int32_t kGathered = 9;
  const auto rows = static_cast<std::int64_t>(top_k.size());
  Dice dice(3);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < rows * kVocab; ++i) {
    logits.push_back(static_cast<float>(2 * dice.bell()));
  }
  std::vector<std::uint64_t> seeds(top_k.size());
  for (std::uint64_t& seed : seeds) seed = dice.bits();
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, rows, kVocab, kVocab};
  request.top_p = {top_p.data(), rows};
  request.top_k = {top_k.data(), rows};
  request.min_p = {min_p.data(), rows};
  request.seed = {seeds.data(), rows};
  std::vector<std::int32_t> expected(top_k.size()), on_host(top_k.size());
  SampleResult result;
  result.tokens = {expected.data(), rows};
  ASSERT_FALSE(sample(request, result, {CpuTarget::best, 1}));
  result.tokens = {on_host.data(), rows};
  Comparison both;
  const std::vector<std::int64_t> boundaries = harness::equal_boundaries(kVocab, 2);
  ShardedRequest whole;
  whole.rows = request;
  whole.boundaries = {boundaries.data(), 3};
  ASSERT_FALSE(both.run_on_host(whole, result, /*wants_mask=*/false));
  EXPECT_EQ(both.host_gathered, kGathered);
  ASSERT_FALSE(both.device.begin());
  ASSERT_FALSE(both.device.decide_by_candidates());
  EXPECT_EQ(both.device.undecided(), kGathered);
  EXPECT_EQ(both.device.at(0).call.gathers(kGathered), 2);
  ASSERT_FALSE(both.device.go_on(kGathered));
  EXPECT_EQ(both.device.undecided(), 0);
  both.device.fetch();
  for (int shard = 0; shard < 2; ++shard) EXPECT_EQ(both.device.at(shard).tokens, expected);
}

// --- Graphs --------------------------------------------------------------------------------------

/// Replays two shards of a call on other logits; no state of the previous call may remain.
void replay_on_other_rows(bool through_peers) {
  constexpr std::int64_t kRows = 4, kVocab = 9000;
  const std::vector<std::int64_t> boundaries = {0, 4500, kVocab};
  Dice dice(11);
  std::vector<std::uint64_t> seeds = {1, 2, 3, 4};
  // Row 0 has no filter, row 1 has its survivors among the candidates, row 2 beyond them, and row 3
  // is greedy.
  std::vector<std::int32_t> top_k = {0, 50, 1000, 1};
  std::vector<float> logits(static_cast<std::size_t>(kRows * kVocab));
  SampleRequest request;
  request.logits = {logits.data(), DType::float32, kRows, kVocab, kVocab};
  request.top_k = {top_k.data(), kRows};
  request.seed = {seeds.data(), kRows};
  std::vector<std::int32_t> expected(kRows), on_host(kRows);
  SampleResult result;
  Comparison both;
  const auto draw = [&] {
    for (float& x : logits) x = static_cast<float>(2 * dice.bell());
    result.tokens = {expected.data(), kRows};
    ASSERT_FALSE(sample(request, result, {CpuTarget::best, 1}));
  };
  draw();
  result.tokens = {on_host.data(), kRows};
  ShardedRequest whole;
  whole.rows = request;
  whole.boundaries = {boundaries.data(), 3};
  ASSERT_FALSE(both.run_on_host(whole, result, /*wants_mask=*/false));
  Stream stream;
  ASSERT_FALSE(both.device.begin(stream.get()));
  if (through_peers) {
    ASSERT_FALSE(both.device.use_peers(kRows));
  }
  Graph phases, graph;
  Graph::begin(stream);
  for (const auto exchange :
       {ShardedExchange::summary, ShardedExchange::tokens, ShardedExchange::sums,
        ShardedExchange::gather, ShardedExchange::ranks}) {
    ASSERT_FALSE(both.device.send(exchange));
    ASSERT_FALSE(both.device.receive(exchange));
  }
  phases.end(stream);
  phases.expect_device_work_only("phases of a sharded call");
  Graph::begin(stream);
  ASSERT_FALSE(both.device.decide_by_candidates());
  graph.end(stream);
  for (int replay = 0; replay < 3; ++replay) {
    for (int shard = 0; shard < 2; ++shard) {
      require(cudaMemcpy2DAsync(both.device.at(shard).logits(), kVocab * sizeof(float),
                                logits.data() + boundaries[static_cast<std::size_t>(shard)],
                                kVocab * sizeof(float), 4500 * sizeof(float), kRows,
                                cudaMemcpyHostToDevice, nullptr),
              "cudaMemcpy2DAsync");
    }
    require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    graph.launch(stream);
    EXPECT_EQ(both.device.undecided(), 1);
    ASSERT_FALSE(both.device.go_on(1));
    EXPECT_EQ(both.device.undecided(), 0);
    both.device.fetch();
    for (int shard = 0; shard < 2; ++shard) {
      EXPECT_EQ(both.device.at(shard).tokens, expected) << "replay " << replay;
    }
    draw();
  }
}

// --- What is refused, and what is said -----------------------------------------------------------

TEST(CudaSharded, AReplayedGraphReadsRowsAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  replay_on_other_rows(/*through_peers=*/false);
}
TEST(CudaSharded, AReplayedGraphThroughPeersReadsRowsAnew) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  replay_on_other_rows(/*through_peers=*/true);
}

void expect_no_tokens_of_ranks_that_disagree(bool through_peers) {
  const std::vector<float> logits(600, 0.5F);
  const std::vector<std::int64_t> boundaries = {0, 300, 600};
  DeviceShards shards;
  for (std::int32_t shard = 0; shard < 2; ++shard) {
    ShardedRequest request;
    request.rows.logits = {logits.data(), DType::float32, 1, 300, 300};
    request.rows.seed = static_cast<std::uint64_t>(shard);  // a seed that differs between the ranks
    request.boundaries = {boundaries.data(), 3};
    request.shard = shard;
    shards.add(request, /*wants_mask=*/false);
  }
  ASSERT_FALSE(shards.begin());
  if (through_peers) {
    ASSERT_FALSE(shards.use_peers(1));
  }
  ASSERT_FALSE(shards.exchange(ShardedExchange::summary));
  EXPECT_EQ(shards.undecided(), -1);
  shards.fetch();
  EXPECT_EQ(shards.at(0).tokens[0], -77);
}

TEST(CudaSharded, RanksThatDisagreeGetNoTokens) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  expect_no_tokens_of_ranks_that_disagree(/*through_peers=*/false);
  expect_no_tokens_of_ranks_that_disagree(/*through_peers=*/true);
}

TEST(CudaSharded, WhatIsNotThereIsNamed) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const auto message = [](const auto& change) {
    static const std::vector<float> logits(20, 0.5F);
    std::vector<std::int64_t> boundaries = {0, 20};
    DeviceArrays arrays;
    std::vector<std::int32_t> tokens(100);
    ShardedRequest request;
    request.rows.logits = {arrays.in(logits), DType::float32, 1, 20, 20};
    request.boundaries = {boundaries.data(), 2};
    SampleResult result;
    result.tokens = {arrays.out(tokens), 1};
    change(request, result, boundaries, arrays);
    result.tokens.size = request.rows.num_samples;
    cuda::ShardedCall call;
    return cuda::make_sharded_call(request, result, {}, call).message;
  };
  using Boundaries = std::vector<std::int64_t>;
  EXPECT_NE(
      message([](ShardedRequest& request, SampleResult&, Boundaries& boundaries, DeviceArrays&) {
        boundaries = {0, 20, 20, 20, 20, 20, 20, 20, 20, 20};
        request.boundaries = {boundaries.data(), 10};
      }).find("shards is 9; allowed: 1 to 8 on GPUs"),
      std::string::npos);
  EXPECT_NE(message([](ShardedRequest&, SampleResult& result, Boundaries&, DeviceArrays& arrays) {
              static std::vector<float> probs(20);
              result.probs = {arrays.out(probs), 1, 20};
            }).find("probs is given"),
            std::string::npos);
  EXPECT_NE(
      message([](ShardedRequest&, SampleResult&, Boundaries&, DeviceArrays&) {}).find("workspace"),
      std::string::npos);
}

}  // namespace
}  // namespace fairdraw::suites
