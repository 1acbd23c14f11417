// Block verification must equal the model bit for bit, on every target, also in batches in which
// other requests have the token-wise rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "serving/rules/block_share.h"
#include "serving/rules/sibling_scales.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/speculation/speculation_calls.h"

namespace fairdraw::suites {
namespace {

using boost::multiprecision::cpp_int;

// --- Arithmetic ----------------------------------------------------------------------------------

constexpr std::uint64_t kWeight = std::uint64_t{1} << 40;  // the largest weight
constexpr std::uint64_t kSum = std::uint64_t{1} << 60;

cpp_int wide(uint128_t value) {
  return (cpp_int(static_cast<std::uint64_t>(value >> 64)) << 64) +
         static_cast<std::uint64_t>(value);
}

/// Returns a number from 1 to `most`; all lengths are equally likely.
std::uint64_t number_up_to(std::mt19937_64& random, std::uint64_t most) {
  return std::min((random() >> (random() % 64)) % most + 1, most);
}

uint128_t random_share(std::mt19937_64& random) {
  const uint128_t shares[] = {kWholeShare, kWholeShare - 1, 1, random() | 1U,
                              number_up_to(random, kSum)};
  return shares[random() % 5];
}

TEST(BlockShare, IsTheQuotientRoundedUp) {
  std::mt19937_64 random(41);
  std::array<int, 3> seen{};  // counts of shares that are 0, whole, and in between
  for (std::uint64_t i = 0; i < budget(100000); ++i) {
    const uint128_t share = random_share(random);
    const std::uint64_t zp = number_up_to(random, kSum), zq = number_up_to(random, kSum);
    const std::uint64_t p = number_up_to(random, std::min(zp, kWeight)) - random() % 2;
    const std::uint64_t q = number_up_to(random, std::min(zq, kWeight));
    const cpp_int below = cpp_int(q) * zp;
    const cpp_int quotient = (wide(share) * p * zq + below - 1) / below;
    const cpp_int expected = std::min(quotient, cpp_int(cpp_int(1) << 64));
    ASSERT_EQ(wide(next_share(share, p, zp, q, zq)), expected)
        << wide(share) << " " << p << "/" << zp << " " << q << "/" << zq;
    ++seen.at(expected == 0 ? 0 : expected == wide(kWholeShare) ? 1 : 2);
  }
  for (const int count : seen) EXPECT_GT(count, 20);
}

TEST(BlockShare, PrefixesPassByTheIntegersOfTheRule) {
  std::mt19937_64 random(42);
  const auto scales = std::make_unique<SiblingScales>();
  std::array<int, 2> seen{};
  for (std::uint64_t i = 0; i < budget(100000); ++i) {
    const uint128_t share = random_share(random);
    // Two tokens: the first is in the residual, and the second is not.
    const std::uint64_t zp = number_up_to(random, kSum), zq = number_up_to(random, kSum);
    const std::uint64_t p = number_up_to(random, zp), q = number_up_to(random, zq) - 1;
    const cpp_int a = wide(share) * zq, b = cpp_int(zp) << 64;
    const cpp_int left = a * p - b * q;
    if (left <= 0 || a * (zp - p) > b * (zq - q)) continue;
    scales->start(share, zp, zq);
    const cpp_int all = left + (wide(kWholeShare) - wide(share)) * zp * zq;
    const cpp_int edge = ((left << 64) - 1) / all;  // the largest word that passes
    const cpp_int largest = (cpp_int(1) << 64) - 1;
    for (const cpp_int& word : {cpp_int(0), cpp_int(random()), largest, std::min(edge, largest),
                                std::min(cpp_int(edge + 1), largest)}) {
      const bool expected = word * all < left << 64;
      ASSERT_EQ(scales->passes(static_cast<std::uint64_t>(word), zp, zq, p, q), expected)
          << word << " " << wide(share) << " " << p << "/" << zp << " " << q << "/" << zq;
      ++seen.at(expected ? 1 : 0);
    }
    if (std::max(p, q) > kWeight) continue;
    EXPECT_TRUE(scales->is_left(p, q, scales->leading()));
    if (std::max(zp - p, zq - q) > kWeight) continue;
    EXPECT_FALSE(scales->is_left(zp - p, zq - q, scales->leading()));
  }
  for (const int count : seen) EXPECT_GT(count, 20);
}

// --- Calls ---------------------------------------------------------------------------------------

SpeculationOutputs run(const SpeculationCall& call, const Execution& how = {CpuTarget::best, 1}) {
  HostArrays arrays;
  SpeculationOutputs got(call, call.max_draft);
  const Error error = accept_chain(chain_in(call, arrays),
                                   speculation_result_in<AcceptChainResult>(got, arrays), how);
  EXPECT_FALSE(error) << error.message;
  return got;
}

void expect_the_model(const SpeculationCall& call, std::uint64_t number) {
  const SpeculationOutputs expected = expected_chain_outputs(call);
  for (const CpuTarget target : available_targets()) {
    SpeculationOutputs got = run(call, {target, number % 16 == 0 ? 2 : 1});
    got.nodes = expected.nodes;  // chains have no nodes
    ASSERT_EQ(difference(expected, got), "") << "call " << number << ", " << to_string(target);
  }
}

/// Returns random chains of known distribution. In every second call, some requests have the
/// token-wise rule.
SpeculationCall random_blocks(std::uint64_t number) {
  constexpr std::array<std::int64_t, 8> kVocabs = {1, 2, 5, 31, 33, 64, 130, 257};
  // Calls whose number is 0 modulo 3 do not know the distribution.
  SpeculationCall call =
      random_speculation_call(number / 2 * 3 + 1 + number % 2, kVocabs.at(number / 2 % 8));
  set_block_rules(call, number);
  return call;
}

TEST(BlockVerification, EqualsTheModelOnEveryTarget) {
  std::int64_t more = 0, fewer = 0, ends = 0;
  for (std::uint64_t number = 0; number < budget(4000) && !HasFailure(); ++number) {
    const SpeculationCall call = random_blocks(number);
    expect_the_model(call, number);
    SpeculationCall by_token = call;
    by_token.accept_rule = AcceptRule::token_wise;
    const SpeculationOutputs block = run(call), token = run(by_token);
    for (std::size_t b = 0; b < block.accepted.size(); ++b) {
      if (block.statuses[b] != RowStatus::ok) continue;
      more += block.accepted[b] > token.accepted[b] ? 1 : 0;
      fewer += block.accepted[b] < token.accepted[b] ? 1 : 0;
      ends += block.accepted[b] > 0 && block.accepted[b] < call.max_draft ? 1 : 0;
    }
  }
  // Both rules use the same words, and each accepts more drafted tokens in some requests.
  const auto few = static_cast<std::int64_t>(budget(20));
  EXPECT_GT(more, few);
  EXPECT_GT(fewer, few);
  EXPECT_GT(ends, few);
}

TEST(BlockVerification, EqualsTheModelWhereWeightsTie) {
  for (std::uint64_t number = 0; number < budget(100) && !HasFailure(); ++number) {
    SpeculationCall call = exchanged_speculation_call(number, 200);
    call.accept_rule = AcceptRule::block;
    expect_the_model(call, number);
    call = open_speculation_call(number, 1000, false);
    call.accept_rule = AcceptRule::block;
    expect_the_model(call, number);
  }
}

// Each request of a mixed batch gets what it gets if all requests have its rule.
TEST(BlockVerification, RulesOfOtherRequestsChangeNothing) {
  std::int64_t compared = 0;
  for (std::uint64_t number = 2; number < budget(2000); number += 4) {
    SpeculationCall call = random_blocks(number);
    ASSERT_TRUE(call.accept_rule.is_array);
    const SpeculationOutputs mixed = run(call);
    const harness::CallParameter<AcceptRule> rules = call.accept_rule;
    for (const AcceptRule rule : {AcceptRule::token_wise, AcceptRule::block}) {
      call.accept_rule = rule;
      const SpeculationOutputs alike = run(call);
      for (std::int64_t b = 0; b < call.batch; ++b) {
        if (rules.at(b) != rule) continue;
        const std::int64_t width = call.max_draft + 1;
        EXPECT_TRUE(std::equal(mixed.tokens.begin() + b * width,
                               mixed.tokens.begin() + (b + 1) * width,
                               alike.tokens.begin() + b * width))
            << "call " << number << ", request " << b;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, static_cast<std::int64_t>(budget(1000)));
}

TEST(BlockVerification, OfOneDraftedTokenIsTheTokenWiseRule) {
  std::int64_t compared = 0;
  for (std::uint64_t number = 0; number < budget(6000); ++number) {
    SpeculationCall call = random_blocks(number);
    if (call.max_draft != 1) continue;
    call.accept_rule = AcceptRule::block;
    const SpeculationOutputs block = run(call);
    call.accept_rule = AcceptRule::token_wise;
    EXPECT_EQ(difference(run(call), block), "") << "call " << number;
    ++compared;
  }
  EXPECT_GT(compared, static_cast<std::int64_t>(budget(500)));
}

// Without a distribution there is one rule, whatever the request says.
TEST(BlockVerification, ChangesNothingWithoutADistribution) {
  for (std::uint64_t number = 0; number < 300; number += 3) {
    SpeculationCall call = random_speculation_call(number, 33);
    ASSERT_EQ(call.draft_law, DraftLaw::none);
    const SpeculationOutputs token = run(call);
    call.accept_rule = AcceptRule::block;
    EXPECT_EQ(difference(token, run(call)), "") << "call " << number;
  }
}

TEST(BlockVerification, NamesARuleThatDoesNotExist) {
  HostArrays arrays;
  SpeculationCall call = exchanged_speculation_call(1, 20);
  call.accept_rule.make_array(call.batch);
  call.accept_rule.set(2) = static_cast<AcceptRule>(7);
  SpeculationOutputs got(call, call.max_draft);
  const SpeculationOutputs untouched = got;
  const Error error =
      accept_chain(chain_in(call, arrays), speculation_result_in<AcceptChainResult>(got, arrays));
  EXPECT_EQ(error.code, ErrorCode::invalid_argument);
  EXPECT_EQ(error.message, "accept_rule[2] is 7; allowed: 0 (token_wise) or 1 (block)");
  EXPECT_EQ(got, untouched);
}

}  // namespace
}  // namespace fairdraw::suites
