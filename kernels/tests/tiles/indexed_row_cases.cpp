#include "tests/tiles/indexed_row_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "harness/inputs/random_rows.h"
#include "tests/sample/random_rows.h"

namespace fairdraw::suites {
namespace {

using harness::Dice;
using reference::RowWeight;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns a number of octaves, often at an edge: a tile cuts bits off tokens from 33 octaves on
/// and drops them from 64 on, and a row drops a tile from 49 on.
double random_octaves(Dice& dice) {
  const auto edge = static_cast<double>(dice.pick({0, 1, 31, 32, 33, 47, 48, 49, 63, 64, 65}));
  return dice.once_in(3) ? dice.unit() * 70 : edge + (dice.unit() - 0.5) * 0.25;
}

std::string describe_filters(const reference::RowParameters& p, const cpu::FilterOptions& options) {
  return fmt::format("T {:a}, top_k {}, top_p {:a}, min_p {:a}{}{}{}", p.temperature, p.top_k,
                     p.top_p, p.min_p, options.tie_rule == TieRule::lowest_id ? ", lowest_id" : "",
                     options.filter_order == FilterOrder::joint ? ", joint" : "",
                     options.top_k_1_keeps_ties ? ", ties of top_k 1" : "");
}

}  // namespace

IndexedRowCase random_logits_case(std::uint64_t number, std::size_t vocab) {
  RandomRow random = random_row_of(number, vocab);
  IndexedRowCase row;
  row.values = std::move(random.logits);
  for (std::size_t i = 0; i < vocab && !random.allowed.empty(); ++i) {
    if (((random.allowed[i / 32] >> (i % 32)) & 1U) == 0) row.values[i] = -kInfinity;
  }
  row.parameters = random.parameters;
  row.options.tie_rule = random.tie_rule;
  row.options.filter_order = random.filter_order;
  row.name = fmt::format("logits {} of {}, {}", number, vocab,
                         describe_filters(row.parameters, row.options));
  return row;
}

IndexedRowCase random_probs_case(std::uint64_t number, std::size_t vocab) {
  Dice dice(number);
  IndexedRowCase row;
  row.values = harness::random_probabilities(dice, static_cast<std::int64_t>(vocab));
  row.parameters = harness::random_parameters(
      dice, row.values, {.probabilities = true, .faults = false, .dense = true});
  row.parameters.temperature = 1;
  row.options.from_probs = true;
  row.options.filter_order = dice.once_in(3) ? FilterOrder::joint : FilterOrder::top_k_first;
  if (dice.once_in(8)) row.parameters.top_k = 1;
  // The operations that mask or renormalise have only one filter.
  row.options.top_k_1_keeps_ties = row.parameters.top_p == 1 && dice.once_in(2);
  row.name = fmt::format("probabilities {} of {}, {}", number, vocab,
                         describe_filters(row.parameters, row.options));
  return row;
}

IndexedRowCase wide_gaps_case(std::uint64_t number, std::size_t vocab) {
  Dice dice(number);
  IndexedRowCase row;
  row.parameters = {1, 0, 1, 0};
  const int exponent = static_cast<int>(dice.once_in(3) ? dice.between(-126, 64) : 0);
  row.parameters.temperature = std::ldexp(1.0F, exponent);
  const double per_octave = std::log(2.0) * std::ldexp(1.0, exponent);  // logits per octave
  // The largest logit lies within float's range, and also where sums of octaves and of 2^23 lose
  // bits.
  const double largest = per_octave * dice.pick({0.0, 40.0, -40.0, 0x1p20, -0x1p21, 0x1p24});
  row.values.assign(vocab, -kInfinity);
  for (std::size_t begin = 0; begin < vocab; begin += reference::kIdsOfATile) {
    if (dice.once_in(5)) continue;  // an empty tile
    const double gap = random_octaves(dice);
    const bool one_value = dice.once_in(4);
    for (std::size_t i = begin; i < std::min(vocab, begin + reference::kIdsOfATile); ++i) {
      const double below = one_value || dice.once_in(16) ? 0 : random_octaves(dice);
      row.values[i] = static_cast<float>(largest - (gap + below) * per_octave);
      if (dice.once_in(50)) row.values[i] = -kInfinity;
    }
  }
  if (dice.once_in(3)) row.parameters.top_k = static_cast<std::int32_t>(dice.below(vocab + 1));
  if (dice.once_in(2)) row.parameters.top_p = dice.pick({0.1F, 0.5F, 0.9F, 0.999F, 0.99999994F});
  if (dice.once_in(3)) row.parameters.min_p = std::ldexp(1.0F, -static_cast<int>(dice.below(70)));
  if (dice.once_in(2)) row.options.tie_rule = TieRule::lowest_id;
  if (dice.once_in(3)) row.options.filter_order = FilterOrder::joint;
  row.name = fmt::format("wide gaps {} of {}, {}", number, vocab,
                         describe_filters(row.parameters, row.options));
  return row;
}

IndexedRowCase deceiving_case(std::uint64_t number, std::size_t vocab) {
  constexpr std::size_t kPieces = 32;
  constexpr std::size_t kPieceSize = 32;
  Dice dice(number);
  IndexedRowCase row;
  row.values.resize(vocab);
  for (float& x : row.values) x = static_cast<float>(dice.bell());
  const bool higher = number % 2 == 0;
  const double distance = dice.pick({1.0, 3.0, 10.0});
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const std::size_t begin = (vocab - kPieceSize) * piece / (kPieces - 1);
    for (std::size_t i = begin; i < begin + kPieceSize; ++i) {
      row.values[i] += static_cast<float>(higher ? distance : -distance);
    }
  }
  row.parameters = {1, 0, 1, 0};
  if (number % 4 < 2) {
    row.parameters.top_k = static_cast<std::int32_t>(vocab / 2 + dice.below(vocab / 4));
  } else {
    row.parameters.top_p = dice.pick({0.3F, 0.9F, 0.99F});
  }
  if (dice.once_in(2)) row.options.tie_rule = TieRule::lowest_id;
  row.name = fmt::format("deceiving {} of {}, {}", number, vocab,
                         describe_filters(row.parameters, row.options));
  return row;
}

reference::IntegerRow model_of(const IndexedRowCase& row) {
  return row.options.from_probs
             ? integer_model_from_probs(row.values, row.parameters, row.options.filter_order,
                                        row.options.top_k_1_keeps_ties)
             : integer_model(row.values, {}, row.parameters, row.options.tie_rule,
                             row.options.filter_order);
}

std::vector<std::uint64_t> directed_words(const reference::IntegerRow& row, std::uint64_t number,
                                          std::size_t tokens) {
  std::vector<std::uint64_t> words = {0, 1, ~std::uint64_t{0}};
  Dice dice(~number);
  for (int i = 0; i < 4; ++i) words.push_back(dice.bits());
  if (row.status != RowStatus::ok || row.greedy_token >= 0) return words;
  const std::size_t step = static_cast<std::size_t>(row.support_size) / tokens + 1;
  const std::size_t first = dice.below(step);
  std::size_t survivor = 0;
  RowWeight sum = 0;
  for (std::size_t i = 0; i < row.weight.size(); ++i) {
    if (row.mask[i] == 0) continue;
    sum += row.weight[i];
    const bool is_chosen = survivor++ % step == first;
    if (!is_chosen || row.weight[i] == 0 || sum == row.total) continue;
    const std::optional<std::uint64_t> word = row.first_word_at(sum);
    if (!word) break;
    for (const std::uint64_t near : {*word - 1, *word, *word + 1}) words.push_back(near);
  }
  return words;
}

}  // namespace fairdraw::suites
