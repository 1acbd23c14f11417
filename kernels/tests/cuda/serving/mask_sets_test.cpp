// Kept sets from rows of bits, and kept sets of sharded calls, must equal the CPU's on the GPU,
// byte for byte.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_sharded.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "tests/cuda/arrays.h"
#include "tests/cuda/serving/device_shards.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"

namespace fairdraw::suites {
namespace {

TEST(CudaKeptSetsOfMask, MatchTheCpu) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  DeviceArrays arrays;
  std::int64_t overflows = 0;
  for (std::uint64_t number = 0; number < (is_reduced() ? 20U : 400U) && !HasFailure(); ++number) {
    std::mt19937_64 random(number);
    const auto rows = static_cast<std::int64_t>(1 + random() % (number % 5 == 0 ? 400 : 20));
    const auto vocab = static_cast<std::int64_t>(1 + random() % (number % 7 == 0 ? 40000 : 900));
    const std::int64_t stride = (vocab + 31) / 32 + static_cast<std::int64_t>(random() % 3);
    std::vector<std::uint32_t> words;
    for (std::int64_t i = 0; i < rows * stride; ++i) {
      // Some bits beyond the vocabulary are set, too.
      const bool sparse = number % 3 == 0 && random() % 8 != 0;
      words.push_back(sparse ? 0U : static_cast<std::uint32_t>(random()));
    }
    std::vector<std::int32_t> indices;
    std::vector<RowStatus> statuses;
    const std::int64_t outputs = number % 2 == 0 ? rows : static_cast<std::int64_t>(random() % 600);
    for (std::int64_t i = 0; i < outputs; ++i) {
      if (number % 2 != 0)
        indices.push_back(
            static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(rows + 2)) - 1);
      statuses.push_back(random() % 6 == 0 ? RowStatus::inactive : RowStatus::ok);
    }
    const std::int64_t room = outputs * vocab / static_cast<std::int64_t>(1 + number % 3 * 2);
    const auto mask_in = [&](auto& place) {
      KeptMask mask;
      mask.mask = {place.in(words), rows, stride};
      mask.vocab = vocab;
      mask.first_id = static_cast<std::int32_t>(number % 1000);
      // A list of indices with zero entries counts as given.
      if (number % 2 != 0) {
        mask.indices = {indices.empty() ? reinterpret_cast<const std::int32_t*>(mask.mask.data)
                                        : place.in(indices),
                        outputs};
      }
      if (number % 4 < 2) mask.statuses = {place.in(statuses), outputs};
      return mask;
    };
    KeptArrays expected(outputs, room), got(outputs, room);
    HostArrays host;
    ASSERT_FALSE(kept_sets_of_mask(mask_in(host), expected.in(host)));
    for (const std::uint8_t overflow : expected.overflow) overflows += overflow;
    arrays.rewind();
    const KeptMask mask = mask_in(arrays);
    const Error error = cuda::kept_sets_of_mask(
        mask, got.in(arrays), arrays.execution_with(cuda::workspace_bytes(mask), cuda::Path::best));
    ASSERT_FALSE(error) << error.message;
    arrays.fetch();
    EXPECT_TRUE(got == expected) << "call " << number;
  }
  EXPECT_GT(overflows, 0);
}

/// Kept sets are computed after the exchanges of a sharded call, on the call's stream.
TEST(CudaShardedSets, OfAllShardsInTurnAreTheWholeCalls) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  std::int64_t sets = 0, split = 0;
  for (std::uint64_t number = 0; number < (is_reduced() ? 12U : 300U) && !HasFailure(); ++number) {
    harness::Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const auto rows = static_cast<std::int64_t>(1 + number % 5);
    OwnedCall call = random_call(number, rows, vocab);
    if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
    call.indices.clear();
    call.seed = call.offset = {};
    call.num_samples = 1;
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    HostArrays host;
    const SampleRequest request = request_in(call, host);
    SampleOutputs whole(call, kTokensAndStatuses);
    KeptArrays expected(rows, rows * vocab);
    ASSERT_FALSE(
        sample_with_kept_sets(request, result_in(call, whole, host), expected.in(host), {}));
    DeviceShards shards;
    std::vector<std::int64_t> columns;
    harness::ShardFaults look;
    look.request = [&](ShardedRequest& part) {
      shards.add(part, /*wants_mask=*/true);
      columns.push_back(part.rows.logits.vocab);
    };
    SampleOutputs on_host(call, kTokensAndStatuses);
    ASSERT_FALSE(harness::sample_in_shards(request, result_in(call, on_host, host), boundaries,
                                           {CpuTarget::best, 1}, nullptr, look));
    Error error = shards.begin();
    ASSERT_FALSE(error) << error.message;
    error = shards.run();
    ASSERT_FALSE(error) << error.message;
    ASSERT_EQ(shards.undecided(), 0);
    std::vector<std::vector<std::int32_t>> joined(static_cast<std::size_t>(rows));
    std::vector<int> parts(static_cast<std::size_t>(rows));
    for (int shard = 0; shard < shards.size(); ++shard) {
      const SampleResult& result = shards.at(shard).result();
      const std::int64_t vocab_of_shard = columns[static_cast<std::size_t>(shard)];
      KeptMask mask;
      mask.mask = {result.mask.data, rows, result.mask.row_stride};
      mask.vocab = vocab_of_shard;
      mask.first_id = static_cast<std::int32_t>(boundaries[static_cast<std::size_t>(shard)]);
      mask.statuses = {result.statuses.data, rows};
      KeptArrays kept(rows, rows * vocab_of_shard);
      DeviceArrays arrays;
      error = cuda::kept_sets_of_mask(
          mask, kept.in(arrays),
          arrays.execution_with(cuda::workspace_bytes(mask), cuda::Path::best));
      ASSERT_FALSE(error) << error.message;
      arrays.fetch();
      for (std::size_t row = 0; row < joined.size(); ++row) {
        const std::vector<std::int32_t> set = kept.set(row);
        joined[row].insert(joined[row].end(), set.begin(), set.end());
        parts[row] += set.empty() ? 0 : 1;
      }
    }
    for (std::size_t row = 0; row < joined.size(); ++row) {
      EXPECT_EQ(joined[row], expected.set(row))
          << "call " << number << ", row " << row << ", boundaries" << describe(boundaries);
      sets += joined[row].empty() ? 0 : 1;
      split += parts[row] > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(sets, is_reduced() ? 3 : 300);
  EXPECT_GT(split, is_reduced() ? 0 : 100);
}

}  // namespace
}  // namespace fairdraw::suites
