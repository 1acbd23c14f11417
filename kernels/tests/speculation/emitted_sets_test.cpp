// Kept sets of calls that accept drafts are the survivors of the rows at which tokens were emitted.
// The kept sets are compared with the masks that `sample` computes for those rows alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fairdraw/kept_sets.h"
#include "tests/sample/kept_calls.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

/// Returns the survivors of a row of the target under the filters of request b.
std::vector<std::int32_t> survivors(const SpeculationCall& call, std::int64_t b, std::int64_t row) {
  HostArrays arrays;
  SampleRequest request = request_in(call.target, arrays);
  request.temperature = call.target.temperature.at(b);
  request.top_k = call.target.top_k.at(b);
  request.top_p = call.target.top_p.at(b);
  request.min_p = call.target.min_p.at(b);
  request.seed = std::uint64_t{1};
  request.offset = std::uint64_t{0};
  request.active = {};
  const auto index = static_cast<std::int32_t>(row);
  request.indices = {&index, 1};
  const std::int64_t vocab = request.logits.vocab;
  const std::int64_t words = (vocab + 31) / 32;
  std::vector<std::uint32_t> mask(static_cast<std::size_t>(request.logits.rows * words));
  std::int32_t token = 0;
  SampleResult result;
  result.tokens = {&token, 1};
  result.mask = {mask.data(), request.logits.rows, words};
  EXPECT_FALSE(sample(request, result, {CpuTarget::best, 1}));
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocab; ++id) {
    const std::uint32_t word = mask[static_cast<std::size_t>(row * words + id / 32)];
    if (((word >> (id % 32)) & 1U) != 0) ids.push_back(id);
  }
  return ids;
}

class EmittedSets : public ::testing::TestWithParam<bool> {};

TEST_P(EmittedSets, AreTheSurvivorsOfTheirRows) {
  const bool tree = GetParam();
  std::int64_t accepted = 0, last = 0;
  for (std::uint64_t number = 0; number < budget(1500) && !HasFailure(); ++number) {
    const auto vocab = static_cast<std::int64_t>(1 + number * 7919 % 300);
    SpeculationCall call = random_speculation_call(number, vocab, tree);
    if (!tree && number % 2 == 0) call.accept_rule = AcceptRule::block;
    if (number % 4 == 0) {
      call.target.processing = harness::random_processing(number, call.target.rows, vocab);
    }
    const std::int64_t depth = tree ? call.max_depth : call.max_draft;
    const std::int64_t places = call.batch * (depth + 1);
    SpeculationOutputs got(call, depth), plain(call, depth);
    KeptArrays kept(places, places * vocab);
    HostArrays arrays;
    const Execution how{CpuTarget::best, 1};
    const Error error =
        tree ? accept_tree_with_kept_sets(tree_in(call, arrays),
                                          speculation_result_in<AcceptTreeResult>(got, arrays),
                                          kept.in(arrays), how)
             : accept_chain_with_kept_sets(chain_in(call, arrays),
                                           speculation_result_in<AcceptChainResult>(got, arrays),
                                           kept.in(arrays), how);
    ASSERT_FALSE(error) << error.message;
    const Error refused =
        tree ? accept_tree(tree_in(call, arrays),
                           speculation_result_in<AcceptTreeResult>(plain, arrays), how)
             : accept_chain(chain_in(call, arrays),
                            speculation_result_in<AcceptChainResult>(plain, arrays), how);
    ASSERT_FALSE(refused) << refused.message;
    ASSERT_EQ(difference(plain, got), "") << "call " << number;
    for (std::int64_t place = 0; place < places; ++place) {
      const auto at = static_cast<std::size_t>(place);
      const std::int64_t b = place / (depth + 1), i = place % (depth + 1);
      ASSERT_EQ(kept.overflow[at], 0);
      const std::vector<std::int32_t> set = kept.set(at);
      if (got.tokens[at] < 0) {
        EXPECT_TRUE(set.empty()) << "call " << number << ", place " << place;
        continue;
      }
      ++(i < got.accepted[static_cast<std::size_t>(b)] ? accepted : last);
      const std::int64_t first = call.row_begins.empty()
                                     ? b * (call.max_draft + 1)
                                     : call.row_begins[static_cast<std::size_t>(b)];
      const std::int64_t row =
          first + (tree && i > 0 ? got.nodes[static_cast<std::size_t>(b * depth + i - 1)] + 1 : i);
      EXPECT_EQ(set, survivors(call, b, row)) << "call " << number << ", place " << place;
      EXPECT_TRUE(std::binary_search(set.begin(), set.end(), got.tokens[at]))
          << "call " << number << ", place " << place << ", token " << got.tokens[at];
    }
  }
  EXPECT_GT(accepted, is_reduced() ? 1 : 300);
  EXPECT_GT(last, is_reduced() ? 1 : 300);
}

TEST_P(EmittedSets, OffsetsAreOnePlaceMoreThanTokens) {
  const bool tree = GetParam();
  const SpeculationCall call = random_speculation_call(1, 20, tree);
  const std::int64_t depth = tree ? call.max_depth : call.max_draft;
  SpeculationOutputs got(call, depth);
  KeptArrays kept(call.batch * (depth + 1) - 1, 10);
  HostArrays arrays;
  const Error error =
      tree ? accept_tree_with_kept_sets(tree_in(call, arrays),
                                        speculation_result_in<AcceptTreeResult>(got, arrays),
                                        kept.in(arrays))
           : accept_chain_with_kept_sets(chain_in(call, arrays),
                                         speculation_result_in<AcceptChainResult>(got, arrays),
                                         kept.in(arrays));
  EXPECT_NE(error.message.find("kept.offsets"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find(tree ? "max_depth" : "max_draft"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Of, EmittedSets, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "trees" : "chains"; });

}  // namespace
}  // namespace fairdraw::suites
