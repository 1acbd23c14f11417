// Each shard of a sharded call has the kept ids of its own columns, from its mask. In the order of
// the shards, these must equal the kept sets of the whole call.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fairdraw/kept_sets.h"
#include "harness/adapters/sharded.h"
#include "harness/inputs/dice.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/reduced.h"
#include "tests/sharded/sharded_calls.h"
#include "tests/sharded/sharded_outputs.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;

TEST(ShardedSets, OfAllShardsInTurnAreTheWholeCalls) {
  std::int64_t sets = 0, split = 0;
  for (std::uint64_t number = 0; number < budget(1200) && !HasFailure(); ++number) {
    Dice dice(number);
    const std::int64_t vocab = random_sharded_vocab(number, dice);
    const auto rows = static_cast<std::int64_t>(1 + number % 5);
    OwnedCall call = random_call(number, rows, vocab);
    if (number % 3 == 0) call.processing = harness::random_processing(number, rows, vocab);
    const std::vector<std::int64_t> boundaries = random_boundaries(dice, vocab);
    HostArrays host;
    const SampleRequest request = request_in(call, host);
    SampleOutputs whole(call, kEverything);
    KeptArrays expected(call.outputs(), call.outputs() * vocab);
    ASSERT_FALSE(sample_with_kept_sets(request, result_in(call, whole, host), expected.in(host),
                                       {CpuTarget::best, 1}));
    const auto outputs = static_cast<std::size_t>(call.outputs());
    std::vector<std::vector<std::int32_t>> joined(outputs);
    std::vector<int> parts(outputs);
    harness::ShardFaults look;
    look.result = [&](const ShardedRequest& part, const SampleResult& result) {
      KeptMask mask;
      mask.mask = {result.mask.data, result.mask.rows, result.mask.row_stride};
      mask.vocab = part.rows.logits.vocab;
      mask.first_id =
          static_cast<std::int32_t>(part.boundaries.data[static_cast<std::size_t>(part.shard)]);
      mask.indices = part.rows.indices;
      mask.statuses = {result.statuses.data, result.statuses.size};
      KeptArrays kept(call.outputs(), call.outputs() * mask.vocab);
      HostArrays arrays;
      const Error error = kept_sets_of_mask(mask, kept.in(arrays));
      ASSERT_FALSE(error) << error.message;
      for (std::size_t i = 0; i < outputs; ++i) {
        ASSERT_EQ(kept.overflow[i], 0);
        const std::vector<std::int32_t> set = kept.set(i);
        joined[i].insert(joined[i].end(), set.begin(), set.end());
        parts[i] += set.empty() ? 0 : 1;
      }
    };
    EveryOutput got(call, number);
    const Error error = harness::sample_in_shards(request, got.result(call), boundaries,
                                                  {CpuTarget::best, 1}, nullptr, look);
    ASSERT_FALSE(error) << error.message;
    for (std::size_t i = 0; i < outputs; ++i) {
      EXPECT_EQ(joined[i], expected.set(i))
          << "call " << number << ", output " << i << ", boundaries" << describe(boundaries);
      sets += joined[i].empty() ? 0 : 1;
      split += parts[i] > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(sets, is_reduced() ? 10 : 1000);
  EXPECT_GT(split, is_reduced() ? 1 : 300);
}

TEST(KeptSetsOfMask, TakeBitsOfTheVocabularyAlone) {
  const std::vector<std::uint32_t> words = {0xffffffffU, 0xffffffffU, 0U, 0x5U};
  KeptMask mask;
  mask.mask = {words.data(), 2, 2};
  mask.vocab = 34;
  mask.first_id = 100;
  const std::vector<std::int32_t> indices = {1, 0, 2, -1, 1};
  const std::vector<RowStatus> statuses = {RowStatus::ok, RowStatus::ok, RowStatus::ok,
                                           RowStatus::ok, RowStatus::nan_input};
  mask.indices = {indices.data(), 5};
  mask.statuses = {statuses.data(), 5};
  KeptArrays kept(5, 40);
  HostArrays arrays;
  const Error error = kept_sets_of_mask(mask, kept.in(arrays));
  ASSERT_FALSE(error) << error.message;
  EXPECT_EQ(kept.offsets, (std::vector<std::int64_t>{0, 1, 35, 35, 35, 35}));
  EXPECT_EQ(kept.set(0), std::vector<std::int32_t>{132});  // id 134 is beyond the row
  EXPECT_EQ(kept.set(1).front(), 100);
  EXPECT_EQ(kept.set(1).back(), 133);
  mask.first_id = static_cast<std::int32_t>(kMaxVocab) - 33;
  EXPECT_NE(kept_sets_of_mask(mask, kept.in(arrays)).message.find("first_id"), std::string::npos);
}

}  // namespace
}  // namespace fairdraw::suites
