// cpu::IndexedRow on every instruction set is compared with the integer model, bit for bit:
// statuses, tokens of directed and of random words, masks, probabilities and weights.
// Log-probabilities are compared with their formula in long double.
//
// The test cannot detect errors that the model shares (reference/tests has known answers for the
// model).
#include "cpu/indexed_row.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "reference/integer_model.h"
#include "tests/sample/random_rows.h"
#include "tests/sample/reduced.h"
#include "tests/tiles/indexed_row_cases.h"

namespace fairdraw::suites {
namespace {

using cpu::IndexedRow;
using cpu::ScannedRow;
using reference::IntegerRow;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Largest number of tokens whose first and last words are tested.
constexpr std::size_t kBoundaries = 12;

std::string compare_draws(IndexedRow& got, const IntegerRow& expected, std::uint64_t number) {
  for (const std::uint64_t word : directed_words(expected, number, kBoundaries)) {
    const std::int32_t token = got.draw(word);
    if (token != expected.token_for(word)) {
      return fmt::format("word {:#x}: token {} instead of {}", word, token,
                         expected.token_for(word));
    }
  }
  return {};
}

/// Compares consecutive draws on one row, which share the index and the survivors of the row.
std::string compare_draws_by_seed(IndexedRow& got, const IntegerRow& expected,
                                  std::uint64_t number) {
  for (std::uint32_t s = 0; s < 12; ++s) {
    const DrawWords words{number, number % 5, Purpose::draw, s};
    const std::int32_t token = got.draw(words), must = token_of(expected, words);
    if (token != must) return fmt::format("draw {}: token {} instead of {}", s, token, must);
  }
  return {};
}

std::string compare_tokens(IndexedRow& got, const IntegerRow& expected) {
  const std::size_t vocab = expected.mask.size();
  std::vector<std::uint32_t> mask((vocab + 31) / 32, 0xcacacacaU);
  std::vector<float> probabilities(vocab, -7.0F);
  got.write_mask(mask.data());
  got.write_probabilities(probabilities.data());
  if (got.support_size() != expected.support_size) {
    return fmt::format("support {} instead of {}", got.support_size(), expected.support_size);
  }
  for (std::size_t i = 0; i < vocab; ++i) {
    const auto token = static_cast<std::int32_t>(i);
    const bool must = expected.mask[i] != 0;
    const bool kept = ((mask[i / 32] >> (i % 32)) & 1U) != 0;
    if (kept != must || got.keeps(token) != must) {
      return fmt::format("token {}: mask {}, keeps {}, must be {}", i, kept, got.keeps(token),
                         must);
    }
    const float probability = expected.probability(token);
    if (std::bit_cast<std::uint32_t>(probabilities[i]) !=
        std::bit_cast<std::uint32_t>(probability)) {
      return fmt::format("probability of {}: {:a} instead of {:a}", i, probabilities[i],
                         probability);
    }
  }
  if (vocab % 32 != 0 && (mask.back() >> (vocab % 32)) != 0) return "mask beyond the vocabulary";
  return {};
}

/// Compares the weights of the row, and the weights for speculation.
std::string compare_weights(IndexedRow& got, const IntegerRow& expected) {
  if (got.unfiltered_weight() != expected.total_unfiltered) return "weight before filtering";
  if (expected.greedy_token >= 0) return {};
  if (got.survivors_weight() != expected.total) return "weight of the survivors";
  const std::size_t vocab = expected.mask.size();
  std::vector<std::uint64_t> weights(vocab, 7);
  const std::uint64_t total = got.write_weights(weights.data());
  for (std::size_t i = 0; i < vocab; ++i) {
    const std::uint64_t must = expected.mask[i] != 0 ? expected.speculation_weight[i] : 0;
    if (weights[i] != must) {
      return fmt::format("weight of {} for speculation: {} instead of {}", i, weights[i], must);
    }
  }
  return total == expected.speculation_total() ? "" : "sum of weights for speculation";
}

/// Compares two log-probabilities in float32; two values beyond the range of float32 count as
/// equal.
bool within(float got, long double must, long double bound) {
  const bool overflows = must < -static_cast<long double>(std::numeric_limits<float>::max());
  return overflows ? got == -kInfinity : std::fabs(static_cast<long double>(got) - must) <= bound;
}

/// Compares with the formula (x - max) / T - ln(Z / W), where W is the weight of the maximum; for
/// survivors, Z' replaces Z.
std::string compare_logprobs(const IndexedRowCase& row, IndexedRow& got, const IntegerRow& expected,
                             std::uint64_t number) {
  if (row.options.from_probs) return {};
  const float given = row.parameters.temperature;
  const float temperature = given == 0 ? 1.0F : given;
  const auto top = std::max_element(row.values.begin(), row.values.end()) - row.values.begin();
  const auto max = static_cast<long double>(row.values[static_cast<std::size_t>(top)]);
  const std::int32_t token = got.draw(number * 0x9e3779b97f4a7c15U);
  const auto x = static_cast<long double>(row.values[static_cast<std::size_t>(token)]);
  const long double distance = (x - max) / static_cast<long double>(temperature);
  const auto largest = static_cast<long double>(expected.weight[static_cast<std::size_t>(top)]);
  const auto log_of = [&](reference::RowWeight total) {
    return std::log(static_cast<long double>(total) / largest);
  };
  // The bound covers one rounding to float32, and double arithmetic on numbers of this size.
  const auto bound_of = [&](long double value) {
    return 0x1p-24L * std::fabs(value) + 0x1p-50L * (std::fabs(distance) + 128) + 0x1p-149L;
  };
  const long double unfiltered = distance - log_of(expected.total_unfiltered);
  if (!within(got.logprob(token), unfiltered, bound_of(unfiltered))) {
    return fmt::format("log-probability {:a} instead of {}", got.logprob(token),
                       static_cast<double>(unfiltered));
  }
  const long double filtered =
      expected.greedy_token >= 0 ? 0.0L : distance - log_of(expected.total);
  if (!within(got.logprob_filtered(token), filtered, bound_of(filtered))) {
    return fmt::format("log-probability among survivors {:a} instead of {}",
                       got.logprob_filtered(token), static_cast<double>(filtered));
  }
  return {};
}

/// Compares the view of a row that row_logprobs.h reads: the bounds of its set, its list, and the
/// maxima of groups.
std::string compare_view(const ScannedRow& view, const IndexedRowCase& row,
                         const std::function<bool(std::size_t)>& counts) {
  const std::vector<float>& x = row.values;
  std::vector<float> group_max((x.size() + cpu::kBlock - 1) / cpu::kBlock * cpu::kGroups,
                               -kInfinity);
  std::vector<float> listed;
  for (std::size_t i = 0; i < x.size(); ++i) {
    float& group = group_max[i / cpu::kBlock * cpu::kGroups + i % cpu::kGroups];
    group = std::max(group, x[i]);
    if (x[i] >= view.list_low) listed.push_back(x[i]);
    if (counts(i) != (x[i] > view.low || (x[i] == view.low && i < view.tie_end))) {
      return fmt::format("view: token {}", i);
    }
  }
  if (!std::equal(group_max.begin(), group_max.end(), view.group_max)) return "view: group maxima";
  if (view.max != *std::max_element(x.begin(), x.end())) return "view: maximum";
  if (view.list != nullptr &&
      !std::equal(listed.begin(), listed.end(), view.list, view.list + view.list_size)) {
    return "view: list";
  }
  return {};
}

std::string compare_views(const IndexedRowCase& row, IndexedRow& got, const IntegerRow& expected) {
  const float smallest = row.options.from_probs ? 0x1p-149F : -std::numeric_limits<float>::max();
  std::string difference = compare_view(got.unfiltered_row(), row,
                                        [&](std::size_t i) { return row.values[i] >= smallest; });
  if (!difference.empty()) return "unfiltered " + difference;
  difference =
      compare_view(got.survivors_row(), row, [&](std::size_t i) { return expected.mask[i] != 0; });
  return difference.empty() ? "" : "survivors " + difference;
}

/// Returns the first difference from the model, or an empty string.
std::string compare(const IndexedRowCase& row, const IntegerRow& expected, IndexedRow& got,
                    std::uint64_t number) {
  const RowParameters parameters{row.parameters.temperature, row.parameters.top_k,
                                 row.parameters.top_p, row.parameters.min_p};
  const RowStatus status =
      got.filter(row.values.data(), row.values.size(), parameters, row.options);
  if (status != expected.status) {
    return fmt::format("status {} instead of {}", to_string(status), to_string(expected.status));
  }
  if (status != RowStatus::ok) return {};
  // The steps run in one of two orders, because an output must not depend on earlier queries.
  std::vector<std::function<std::string()>> steps = {
      [&] { return compare_draws(got, expected, number); },
      [&] { return compare_draws_by_seed(got, expected, number); },
      [&] { return compare_tokens(got, expected); },
      [&] { return compare_weights(got, expected); },
      [&] { return compare_logprobs(row, got, expected, number); },
      [&] { return compare_views(row, got, expected); }};
  if (number % 2 == 1) std::reverse(steps.begin(), steps.end());
  for (const auto& step : steps) {
    if (std::string difference = step(); !difference.empty()) return difference;
  }
  cpu::FilterOptions draws_alone = row.options;
  draws_alone.draws_alone = true;
  if (got.filter(row.values.data(), row.values.size(), parameters, draws_alone) != status) {
    return "another status for draws alone";
  }
  const std::string difference = compare_draws_by_seed(got, expected, number);
  return difference.empty() ? difference : "draws alone: " + difference;
}

using MakeCase = std::function<IndexedRowCase(std::uint64_t number)>;

void compare_many(std::uint64_t first, std::uint64_t rows, const MakeCase& make) {
  const std::vector<CpuTarget> targets = available_targets();
  std::atomic<std::uint64_t> ok_rows{0};
  std::atomic<int> reported{0};
#pragma omp parallel
  {
    // One object serves all rows of a thread, because no state of the previous row may remain.
    std::vector<IndexedRow> samplers(targets.size());
    for (std::size_t t = 0; t < targets.size(); ++t) samplers[t].use(targets[t]);
#pragma omp for schedule(dynamic, 4)
    for (std::uint64_t i = 0; i < rows; ++i) {
      const IndexedRowCase row = make(first + i);
      const IntegerRow expected = model_of(row);
      if (expected.status == RowStatus::ok) ++ok_rows;
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::string difference = compare(row, expected, samplers[t], first + i);
        if (difference.empty() || reported++ >= 20) continue;
#pragma omp critical
        ADD_FAILURE() << row.name << " on " << to_string(targets[t]) << ": " << difference;
      }
    }
  }
  EXPECT_EQ(reported.load(), 0);
  // Most rows must be valid, otherwise the comparison says little.
  EXPECT_GT(ok_rows.load(), rows / 2);
}

/// Returns a length: around tiles, blocks and short rows, or any length up to 20000; most are
/// small.
std::size_t vocab_of(std::uint64_t number) {
  constexpr std::size_t kEdges[] = {1, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 4609, 8193};
  const std::uint64_t hash = number * 0x9e3779b97f4a7c15U >> 40;
  if (number % 4 == 0) return kEdges[hash % std::size(kEdges)];
  if (number % 16 == 1) return 1 + hash % 20000;
  return 1 + hash % (number % 2 == 0 ? 3000 : 300);
}

TEST(IndexedRow, LogitsEqualTheIntegerModel) {
  compare_many(0, budget(4000), [](std::uint64_t i) { return random_logits_case(i, vocab_of(i)); });
}

TEST(IndexedRow, ProbabilitiesEqualTheIntegerModel) {
  compare_many(1000000, budget(4000),
               [](std::uint64_t i) { return random_probs_case(i, vocab_of(i)); });
}

TEST(IndexedRow, WideGapsEqualTheIntegerModel) {
  compare_many(2000000, budget(4000),
               [](std::uint64_t i) { return wide_gaps_case(i, vocab_of(i)); });
}

TEST(IndexedRow, RowsThatDeceiveTheSampleEqualTheIntegerModel) {
  compare_many(5000000, std::max<std::uint64_t>(8, budget(200)),
               [](std::uint64_t i) { return deceiving_case(i, 4097 + i % 7919); });
}

TEST(IndexedRow, EngineVocabulariesEqualTheIntegerModel) {
  const auto make = [](std::uint64_t i) {
    return i % 4 == 3   ? wide_gaps_case(i, 131072)
           : i % 4 == 2 ? random_probs_case(i, 131072)
                        : random_logits_case(i, i % 2 == 0 ? 131072 : 32000);
  };
  compare_many(3000000, std::max<std::uint64_t>(4, budget(40)), make);
}

TEST(IndexedRow, ANucleusOfBadRowsIsRefusedWhereverTheFaultIs) {
  // The pass that searches for the nucleus is tested on long rows with top_p alone: on even and
  // uneven rows, in 32-bit and in 64-bit lanes.
  IndexedRowCase row;
  row.parameters.top_p = 0.9F;
  for (const float step : {0x1p-14F, 0x1p-8F, 0x1p-6F}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      for (const std::size_t place : {0U, 31U, 100U, 255U, 256U, 4000U, 8191U, 8192U}) {
        row.values.assign(8193, 0);
        for (std::size_t i = 0; i < row.values.size(); ++i) {
          row.values[i] = step * static_cast<float>(i * 2654435761U % 8193);
        }
        row.values[place] = bad;
        row.name = fmt::format("step {:a}, {} at {}", step, bad, place);
        const IntegerRow expected = model_of(row);
        for (const CpuTarget target : available_targets()) {
          IndexedRow got;
          got.use(target);
          EXPECT_EQ(compare(row, expected, got, place), "") << row.name << to_string(target);
        }
      }
    }
    row.name = "nothing is allowed";
    row.values.assign(8193, -kInfinity);
    ASSERT_EQ(model_of(row).status, RowStatus::no_allowed_token);
    for (const CpuTarget target : available_targets()) {
      IndexedRow got;
      got.use(target);
      EXPECT_EQ(compare(row, model_of(row), got, 0), "") << to_string(target);
    }
  }
}

TEST(IndexedRow, TheLargestVocabularyEqualsTheIntegerModel) {
  const auto make = [](std::uint64_t i) { return random_logits_case(i, std::size_t{1} << 20); };
  compare_many(4000000, std::max<std::uint64_t>(2, budget(4)), make);
}

}  // namespace
}  // namespace fairdraw::suites
