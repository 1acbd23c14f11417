// cpu::BracketPasses and the passes that collect values are compared with their scalar versions on
// every instruction set: bit for bit, including memory that must not change. indexed_row_test.cpp
// shows that the scalar passes are right.
#include "cpu/passes/bracket_passes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "cpu/passes/passes.h"
#include "harness/inputs/dice.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/tiles/indexed_row_cases.h"

namespace fairdraw::suites {
namespace {

/// A value that no pass writes: passes write weights, values of the row and 0.
constexpr float kUntouched = -0x1.abcdefp100F;
constexpr std::size_t kGuard = 8;

/// All results that the passes give for one row.
struct Outcome {
  std::vector<std::int32_t> keys;
  std::vector<std::uint64_t> sums, above;
  std::vector<std::uint32_t> run_begin;
  std::vector<float> list, many, few;
  std::vector<std::uint32_t> probabilities;  // as bits
  bool in_room = true;  // false if a pass wrote beyond the capacity of its list
};

/// Returns the name of the first difference, or an empty string.
std::string difference_of(const Outcome& got, const Outcome& expected) {
  if (!got.in_room) return "written beyond the room for a list";
  if (got.keys != expected.keys) return "keys";
  if (got.sums != expected.sums) return "sums";
  if (got.above != expected.above) return "sums above the bracket";
  if (got.run_begin != expected.run_begin) return "begins of runs";
  if (got.list != expected.list) return "list";
  if (got.many != expected.many) return "collect_many";
  if (got.few != expected.few) return "collect_few";
  return got.probabilities == expected.probabilities ? "" : "probabilities";
}

struct Call {
  IndexedRowCase row;
  cpu::WeightRule rule;
  cpu::BracketBounds bounds;
  std::size_t offset = 0;  // number of floats before the row, for its alignment
};

Call random_call(std::uint64_t number) {
  harness::Dice dice(number);
  const std::size_t vocab = 1 + dice.below(dice.once_in(4) ? 1300 : 300);
  Call call;
  call.row = number % 3 == 0   ? random_probs_case(number, vocab)
             : number % 3 == 1 ? random_logits_case(number, vocab)
                               : wide_gaps_case(number, vocab);
  const bool from_probs = call.row.options.from_probs;
  const float temperature = call.row.parameters.temperature;
  call.rule = {from_probs, logit_scale(temperature == 0 ? 1.0F : temperature)};
  const std::vector<float>& values = call.row.values;
  const float smallest = from_probs ? 0x1p-149F : -std::numeric_limits<float>::max();
  call.bounds.from = dice.once_in(2) ? smallest : std::max(smallest, dice.pick(values));
  call.bounds.low = std::max(call.bounds.from, dice.pick(values));
  call.bounds.high = std::max(call.bounds.from, dice.pick(values));
  call.offset = dice.below(16);
  return call;
}

Outcome run(CpuTarget target, const Call& call) {
  const cpu::BracketPasses& passes = cpu::bracket_passes_for(target);
  const cpu::Passes& plain = cpu::passes_for(target);
  const std::size_t n = call.row.values.size();
  const std::size_t tiles = (n + kTileSize - 1) / kTileSize;
  std::vector<float> row(call.offset + n);
  std::copy(call.row.values.begin(), call.row.values.end(),
            row.begin() + static_cast<std::ptrdiff_t>(call.offset));
  const float* x = row.data() + call.offset;
  Outcome outcome;
  // Lists have capacity for all values of the row, and for kSlack more.
  const auto listed = [&](const auto& pass) {
    std::vector<float> list(n + cpu::kSlack + kGuard, kUntouched);
    const std::size_t size = pass(list.data());
    outcome.in_room =
        outcome.in_room && std::all_of(list.end() - kGuard, list.end(),
                                       [](float value) { return value == kUntouched; });
    list.resize(size);
    return list;
  };
  outcome.keys.resize(tiles);
  outcome.sums.assign(tiles, 77);
  outcome.above.assign(tiles, 77);
  outcome.run_begin.assign(tiles, 77);
  outcome.list = listed([&](float* list) {
    return passes
        .measure(x, n, call.rule, call.bounds,
                 {outcome.keys.data(), outcome.sums.data(), outcome.above.data(),
                  outcome.run_begin.data(), list})
        .listed;
  });
  outcome.many = listed([&](float* list) {
    return plain.collect_many(x, n, call.bounds.low, call.bounds.high, list);
  });
  outcome.few = listed([&](float* list) { return plain.collect_few(x, n, call.bounds.low, list); });
  std::vector<float> probabilities(n + kGuard, kUntouched);
  // The sum of a row of probabilities is at least 2^103. Every larger sum tests the same.
  passes.probabilities(x, n, call.rule, *std::max_element(x, x + n), call.bounds.from,
                       0x1.23456789abcdep103, probabilities.data());
  for (const float value : probabilities) {
    outcome.probabilities.push_back(std::bit_cast<std::uint32_t>(value));
  }
  return outcome;
}

bool is_good(const Call& call) { return model_of(call.row).status == RowStatus::ok; }

TEST(BracketPasses, EveryTargetEqualsTheScalarPasses) {
  std::uint64_t compared = 0;
  const std::uint64_t calls = budget(20000);
  for (std::uint64_t number = 0; number < calls; ++number) {
    const Call call = random_call(number);
    if (!is_good(call)) continue;
    const Outcome expected = run(CpuTarget::scalar, call);
    ASSERT_TRUE(expected.in_room) << call.row.name;
    for (const CpuTarget target : available_targets()) {
      ASSERT_EQ(difference_of(run(target, call), expected), "")
          << call.row.name << " on " << to_string(target)
          << fmt::format(", bounds {:a} {:a} {:a}", call.bounds.from, call.bounds.low,
                         call.bounds.high);
    }
    ++compared;
  }
  EXPECT_GT(compared, calls / 2);  // most of the random rows must be valid
}

TEST(BracketPasses, MeasuringTellsNanAndInfinityAtEveryPlace) {
  constexpr std::size_t kLength = 600;  // two tiles, and a part of a third one
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const bool far : {false, true}) {  // true if tiles are weighed in 64-bit lanes
    for (std::size_t place = 0; place < kLength; ++place) {
      for (const float bad : {nan, -nan, infinity}) {
        std::vector<float> row(kLength, 0.5F);
        if (far) row[1] = row[301] = row[580] = -40.0F;
        row[place] = bad;
        const std::int32_t largest = order_key(bad == infinity ? infinity : 0.5F);
        for (const CpuTarget target : available_targets()) {
          std::vector<std::int32_t> keys(3);
          std::vector<std::uint64_t> sums(3), above(3);
          std::vector<std::uint32_t> run_begin(3);
          std::vector<float> list(kLength + cpu::kSlack);
          const cpu::Measured measured = cpu::bracket_passes_for(target).measure(
              row.data(), kLength, {false, logit_scale(1.0F)},
              {-std::numeric_limits<float>::max(), 0.25F, 0.75F},
              {keys.data(), sums.data(), above.data(), run_begin.data(), list.data()});
          ASSERT_EQ(measured.has_nan, bad != infinity) << to_string(target) << " at " << place;
          if (bad == infinity) {
            ASSERT_EQ(*std::max_element(keys.begin(), keys.end()), largest);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
