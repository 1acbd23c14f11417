// Rows filtered by min_p, top_k and top_p through their tiles on the GPU. Survivors, their weight
// and the token must equal those of a stable sort by the definitions (common/tile_weights.h,
// common/proposals.h), on every spread of a row. Tokens are drawn by a random word, and by a seed.
//
// This test cannot detect an error in the index of a tile, which both sides share;
// tile_index_test.cpp compares that index.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/float_order.h"
#include "common/min_p.h"
#include "common/parameters.h"
#include "common/proposals.h"
#include "common/tile_weights.h"
#include "common/wide_integers.h"
#include "cuda/tiles/filter_rows.h"
#include "harness/inputs/dice.h"
#include "tests/cuda/tile_rows_on_device.h"

namespace fairdraw::suites {
namespace {

constexpr std::uint64_t kLargestWord = std::numeric_limits<std::uint64_t>::max();

struct Filters {
  std::int32_t top_k = 0;
  float top_p = 1.0F;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  float min_p = 0.0F;
};

std::string describe(const Filters& filters) {
  return "top_k " + std::to_string(filters.top_k) + ", top_p " + std::to_string(filters.top_p) +
         ", min_p " + std::to_string(filters.min_p) +
         (filters.tie_rule == TieRule::lowest_id ? ", lowest_id" : "") +
         (filters.filter_order == FilterOrder::joint ? ", joint" : "");
}

/// The tokens of a row that survive its filters, found by a stable sort.
struct Survivors {
  RowStatus status = RowStatus::ok;
  std::int32_t greedy_token = -1;
  float max = 0.0F;
  float low = 0.0F;
  std::int32_t tie_end = 0;
  std::vector<std::size_t> ids;   ///< in order
  std::vector<uint128_t> weight;  ///< weights of all tokens of the row
  uint128_t total = 0;
  bool by_proposals = false;
  std::vector<std::size_t> proposed;  ///< ids of the tiles from which proposals are drawn

  Survivors(const RandomTileRow& row, const Filters& filters) {
    const ExpectedIndex index = expected_index(row);
    const float temperature = row.input == TileInput::probs ? 1.0F : row.temperature;
    const RowParameters parameters{temperature, filters.top_k, filters.top_p, filters.min_p};
    status = index.status == RowStatus::ok ? check(parameters) : index.status;
    if (status != RowStatus::ok) return;
    weigh(row, index);
    std::vector<std::size_t> order = allowed_by_value(row);
    max = row.values[order.front()];
    if (is_greedy(parameters)) {
      greedy_token = static_cast<std::int32_t>(order.front());
      return;
    }
    by_proposals = proposes(top_k_is_on(filters.top_k, row.vocab()), filters.top_p);
    if (by_proposals) note_proposed(row, index, filters.min_p);
    std::erase_if(order, [&](std::size_t id) {
      return !min_p_keeps(row, row.values[id], max, filters.min_p);
    });
    const auto value = [&](std::size_t place) { return row.values[order[place]]; };
    std::size_t kept = order.size();
    const auto k = static_cast<std::size_t>(filters.top_k);
    if (top_k_is_on(filters.top_k, row.vocab()) && k < kept) {
      kept = k;
      if (filters.tie_rule == TieRule::keep_all) {
        while (kept < order.size() && value(kept) == value(k - 1)) ++kept;
      }
    }
    if (filters.top_p < 1.0F) {
      const std::size_t measured = filters.filter_order == FilterOrder::joint ? order.size() : kept;
      const uint128_t target = nucleus_target(filters.top_p, weight_of(order, 0, measured));
      std::size_t nucleus = 0;
      for (uint128_t above = 0; nucleus < kept && above < target;) {
        std::size_t end = nucleus;
        while (end < kept && value(end) == value(nucleus)) ++end;
        above += weight_of(order, nucleus, end);
        nucleus = end;
      }
      kept = nucleus;
    }
    note(row, order, kept);
  }

  /// Returns the first survivor whose inclusive prefix sum exceeds R.
  std::int32_t token_for(std::uint64_t word) const { return token_of(ids, total, word); }

  /// Returns the token that the random words of a seed draw. A proposed token is accepted if it
  /// survives the filters.
  std::int32_t token_for(const DrawWords& words) const {
    if (!by_proposals) return token_for(words.of_attempt(0));
    uint128_t all = 0;
    for (const std::size_t id : proposed) all += weight[id];
    for (std::uint32_t i = 0; i < kAttempts; ++i) {
      const std::int32_t token = token_of(proposed, all, words.of_attempt(i));
      if (std::binary_search(ids.begin(), ids.end(), static_cast<std::size_t>(token))) return token;
    }
    return token_for(words.of_survivors());
  }

 private:
  std::int32_t token_of(const std::vector<std::size_t>& from, uint128_t of_all,
                        std::uint64_t word) const {
    const uint128_t position = multiply_high(word, of_all);
    uint128_t upto = 0;
    for (const std::size_t id : from) {
      upto += weight[id];
      if (upto > position) return static_cast<std::int32_t>(id);
    }
    return -1;
  }

  void note_proposed(const RandomTileRow& row, const ExpectedIndex& index, float min_p) {
    for (std::size_t id = 0; id < weight.size(); ++id) {
      const std::int32_t key = index.keys[id / kTileSize];
      if (index.sums[id / kTileSize] == 0) continue;
      if (min_p_keeps(row, from_order_key(key), max, min_p)) proposed.push_back(id);
    }
  }

  void weigh(const RandomTileRow& row, const ExpectedIndex& index) {
    const auto octave = [&](std::int32_t key) {
      return tile_octave(key, row.input, row.temperature == 0 ? 1.0F : row.temperature);
    };
    const double top = octave(*std::max_element(index.keys.begin(), index.keys.end()));
    weight.assign(row.values.size(), 0);
    for (std::size_t tile = 0; tile < index.keys.size(); ++tile) {
      if (index.sums[tile] == 0) continue;
      const int shift = row_shift(top, octave(index.keys[tile]));
      const std::vector<std::uint64_t> weights =
          expected_weights(row, static_cast<std::int64_t>(tile));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] != 0) weight[tile * kTileSize + i] = row_weight(weights[i], shift);
      }
    }
  }

  static bool min_p_keeps(const RandomTileRow& row, float x, float max, float min_p) {
    if (min_p == 0) return true;
    if (row.input == TileInput::probs) {  // both products below are exact in double
      return static_cast<double>(x) >= static_cast<double>(min_p) * static_cast<double>(max);
    }
    const float distance = x - max;
    return distance * logit_scale(row.temperature) >= min_p_octaves(min_p);
  }

  static std::vector<std::size_t> allowed_by_value(const RandomTileRow& row) {
    std::vector<std::size_t> order;
    const bool probs = row.input == TileInput::probs;
    for (std::size_t id = 0; id < row.values.size(); ++id) {
      const float x = row.values[id];
      if (row.is_allowed(id) && (probs ? x > 0 : !std::isinf(x))) order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return row.values[a] > row.values[b]; });
    return order;
  }

  uint128_t weight_of(const std::vector<std::size_t>& order, std::size_t begin,
                      std::size_t end) const {
    uint128_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += weight[order[i]];
    return sum;
  }

  void note(const RandomTileRow& row, const std::vector<std::size_t>& order, std::size_t kept) {
    low = row.values[order[kept - 1]];
    const bool cuts_ties = kept < order.size() && row.values[order[kept]] == low;
    tie_end = static_cast<std::int32_t>(cuts_ties ? order[kept - 1] + 1 : row.values.size());
    ids.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept));
    std::sort(ids.begin(), ids.end());
    total = weight_of(ids, 0, ids.size());
  }
};

/// Expects that the survivors by `record` are exactly the expected survivors. Compares the kept
/// tokens, not the threshold, because every float between two logits keeps the same tokens.
void expect_same_support(const RandomTileRow& row, const Survivors& expected,
                         const cuda::RowRecord& record, const std::string& context) {
  std::vector<std::size_t> ids;
  const bool probs = row.input == TileInput::probs;
  for (std::size_t id = 0; id < row.values.size(); ++id) {
    const float x = row.values[id];
    if (!row.is_allowed(id) || (probs ? x <= 0 : std::isinf(x))) continue;
    const bool before_end = static_cast<std::int32_t>(id) < record.tie_end;
    if (x > record.low || (x == record.low && before_end)) ids.push_back(id);
  }
  ASSERT_EQ(ids, expected.ids) << context;
  const uint128_t total = (static_cast<uint128_t>(record.total_high) << 64) | record.total_low;
  ASSERT_TRUE(total == expected.total) << context;
}

class FilterTilesRows {
 public:
  /// Runs one row on one spread with each of the random words, and with seeds derived from them,
  /// and compares the tokens with the expected ones.
  void compare(const RandomTileRow& row, const Filters& filters, const Survivors& expected,
               const std::vector<std::uint64_t>& words, const cuda::TileSpread& spread) {
    for (const std::uint64_t word : words) {
      // Without records the kernel does not compute the cut, so that it takes another path.
      for (const bool with_record : {true, false}) {
        for (const bool by_seed : {false, true}) {
          compare(row, filters, expected, word, by_seed, spread, with_record);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }

 private:
  void compare(const RandomTileRow& row, const Filters& filters, const Survivors& expected,
               std::uint64_t word, bool by_seed, const cuda::TileSpread& spread, bool with_record) {
    arrays_.rewind();
    cuda::RowsTask task;
    task.rows = {arrays_.in(row.memory) + row.shift, row.dtype, 1, row.vocab(), row.vocab()};
    task.from_probs = row.input == TileInput::probs;
    task.temperature = row.temperature;
    if (!row.allowed.empty()) {
      task.allowed = {arrays_.in(row.allowed), 1, static_cast<std::int64_t>(row.allowed.size())};
    }
    task.top_k = filters.top_k;
    task.top_p = filters.top_p;
    task.min_p = filters.min_p;
    task.tie_rule = filters.tie_rule;
    task.filter_order = filters.filter_order;
    const std::vector<std::uint64_t> words = {word};
    if (by_seed) {
      task.seed = word;
    } else {
      task.words = arrays_.in(words);
    }
    std::vector<std::int32_t> tokens = {-77};
    std::vector<RowStatus> statuses = {RowStatus::invalid_beam};
    std::vector<cuda::RowRecord> records(1);
    task.tokens = arrays_.out(tokens);
    task.statuses = arrays_.out(statuses);
    if (with_record) task.records = arrays_.out(records);
    require(cuda::filter_tiles(task, spread, nullptr), "filter_tiles");
    arrays_.fetch();
    const std::string context = describe(row) + ", " + describe(filters) + ", " +
                                suites::describe(spread) + (by_seed ? ", seed " : ", word ") +
                                std::to_string(word);
    ASSERT_EQ(statuses[0], expected.status) << context;
    const bool ok = expected.status == RowStatus::ok;
    std::int32_t drawn = expected.greedy_token;
    if (ok && drawn < 0) {
      drawn = by_seed ? expected.token_for(DrawWords{word, 0, Purpose::draw, 0})
                      : expected.token_for(word);
    }
    ASSERT_EQ(tokens[0], ok ? drawn : -1) << context;
    if (!with_record) return;
    ASSERT_EQ(records[0].status, expected.status) << context;
    if (!ok) return;
    ASSERT_EQ(records[0].greedy_token, expected.greedy_token) << context;
    ASSERT_EQ(records[0].max, expected.max) << context;
    if (expected.greedy_token < 0) expect_same_support(row, expected, records[0], context);
  }

  DeviceArrays arrays_;
};

Filters random_filters(harness::Dice& dice, std::int64_t vocab) {
  Filters filters;
  const auto any = static_cast<std::int32_t>(dice.between(1, vocab));
  const auto last = static_cast<std::int32_t>(vocab - 1);
  filters.top_k = dice.pick({0, 2, 50, 50, 200, 1000, last, any, 1, -1});
  filters.top_p = dice.pick({1.0F, 1.0F, 0.9F, 0.5F, 0.999999F, 0x1p-30F, 0x1p-149F, 0.0F});
  filters.min_p = dice.pick({0.0F, 0.0F, 0.0F, 0.05F, 0x1p-60F, 1.0F});
  filters.tie_rule = dice.pick({TieRule::keep_all, TieRule::lowest_id});
  filters.filter_order = dice.pick({FilterOrder::top_k_first, FilterOrder::joint});
  return filters;
}

TEST(CudaFilterTiles, SurvivorsAndTokensAreThoseOfTheSortOnEverySpread) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::int64_t kVocabs[] = {1,    2,    31,    255,   256,   257,   300,   504,
                                      1003, 4096, 10007, 20000, 32000, 50257, 66000, 128256};
  FilterTilesRows rows;
  for (std::uint64_t number = 0; number < 600; ++number) {
    const RandomTileRow row =
        random_tile_row(9400000 + number, kVocabs[number % std::size(kVocabs)]);
    harness::Dice dice(number);
    const Filters filters = random_filters(dice, row.vocab());
    const Survivors expected(row, filters);
    const std::vector<cuda::TileSpread> all = filter_spreads();
    for (std::size_t i = 0; i < 2; ++i) {
      const cuda::TileSpread& spread = all[(number + 3 * i) % all.size()];
      rows.compare(row, filters, expected, {dice.bits()}, spread);
      if (HasFatalFailure()) return;
    }
  }
}

/// Returns logits with `levels` distinct values, so that most tokens are tied.
std::vector<float> tied_logits(std::int64_t vocab, std::size_t levels) {
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(i * 7919 % levels) * 0.75F - 3.0F;
  }
  return logits;
}

TEST(CudaFilterTiles, TiesThatNoListHolds) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  for (const std::int64_t vocab : {std::int64_t{3000}, std::int64_t{32000}, kMaxVocab}) {
    for (const std::size_t levels : {std::size_t{1}, std::size_t{2}, std::size_t{23}}) {
      const RandomTileRow row = tile_row_of(tied_logits(vocab, levels), 1.0F);
      for (const TieRule rule : {TieRule::keep_all, TieRule::lowest_id}) {
        for (const Filters& filters :
             {Filters{50, 1.0F, rule}, Filters{1000, 0.9F, rule}, Filters{0, 0.5F, rule},
              Filters{static_cast<std::int32_t>(vocab - 1), 0.99F, rule, FilterOrder::joint}}) {
          const Survivors expected(row, filters);
          rows.compare(row, filters, expected, {kLargestWord / 3}, {1, 512});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Returns a row of the named kind, whose survivors no list of candidates can hold.
std::vector<float> wide_logits(const std::string& kind, std::int64_t vocab) {
  harness::Dice dice(77);
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  const std::size_t eighth = logits.size() / 8;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    auto x = static_cast<float>(dice.bell());
    if (kind == "far") x += 300.0F;
    if (kind == "spread") x *= 4.0F;
    if (kind == "crowded") x = i >= 3 * eighth && i < 4 * eighth ? 6.0F + x : 3.0F * x - 6.0F;
    if (kind == "two values") x = dice.below(3) == 0 ? 1.0F : 0.5F;
    if (kind == "bfloat16") {
      x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff0000U);
    }
    if (kind == "outlier" && i == logits.size() / 3) x = -1e30F;
    if (kind == "head" && i % 997 == 5) x += 9.0F;
    logits[i] = x;
  }
  return logits;
}

TEST(CudaFilterTiles, RowsWhoseSurvivorsNoListHolds) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  harness::Dice dice(6);
  const std::vector<cuda::TileSpread> all = filter_spreads();
  std::size_t number = 0;
  const auto compare = [&](const std::string& kind, std::int64_t vocab, const Filters& filters) {
    const RandomTileRow row = tile_row_of(wide_logits(kind, vocab), 0.9F);
    const Survivors expected(row, filters);
    rows.compare(row, filters, expected, {dice.bits()}, all[number++ % all.size()]);
    if (testing::Test::HasFatalFailure()) ADD_FAILURE() << kind;
  };
  constexpr std::int64_t kVocab = 128256;
  for (const char* kind :
       {"flat", "far", "spread", "crowded", "two values", "bfloat16", "outlier", "head"}) {
    for (const float top_p : {0.1F, 0.5F, 0.9F, 0.999F, 0x1.fffffep-1F}) {
      compare(kind, kVocab, {0, top_p});
      if (HasFatalFailure()) return;
    }
    for (const std::int32_t k : {2000, 30000, 128255}) {
      for (const TieRule rule : {TieRule::keep_all, TieRule::lowest_id}) {
        compare(kind, kVocab, {k, 1.0F, rule});
        compare(kind, kVocab, {k, 0.7F, rule, FilterOrder::joint});
        compare(kind, kVocab, {k, 0.9F, rule, FilterOrder::top_k_first, 0x1p-3F});
        if (HasFatalFailure()) return;
      }
    }
    compare(kind, kVocab, {0, 0.8F, TieRule::keep_all, FilterOrder::top_k_first, 0x1p-4F});
    compare(kind, kVocab, {0, 1.0F, TieRule::keep_all, FilterOrder::top_k_first, 0x1p-4F});
    if (HasFatalFailure()) return;
  }
  for (const float top_p : {0.1F, 0.9F}) compare("flat", kMaxVocab, {0, top_p});
  compare("flat", kMaxVocab, {500000, 0.5F, TieRule::lowest_id});
}

#ifdef FAIRDRAW_DEVICE_ASSERTS
/// Each call has filters for which one end of the row kernel (RowEndKind) finishes every row.
TEST(CudaFilterTiles, EachEndFinishesTheRowsThatItIsFor) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  const RandomTileRow row = tile_row_of(wide_logits("flat", 60000), 1.0F);
  DeviceArrays arrays;
  const auto ends_of = [&](const Filters& filters) {
    arrays.rewind();
    cuda::RowsTask task;
    task.rows = rows_on_device(row, arrays);
    task.top_k = filters.top_k;
    task.top_p = filters.top_p;
    task.seed = std::uint64_t{5};
    std::vector<std::int32_t> tokens(1);
    std::vector<std::uint32_t> ends(cuda::kRowEnds);
    task.tokens = arrays.out(tokens);
    task.ends = arrays.out(ends);
    require(cuda::filter_tiles(task, {1, 512}, nullptr), "filter_tiles");
    arrays.fetch();
    return ends;
  };
  using Ends = std::vector<std::uint32_t>;
  EXPECT_EQ(ends_of({0, 1.0F}), (Ends{1, 0, 0, 0, 0}));
  EXPECT_EQ(ends_of({1, 1.0F}), (Ends{1, 0, 0, 0, 0}));
  EXPECT_EQ(ends_of({0, 0.9F}), (Ends{0, 1, 0, 0, 0}));
  EXPECT_EQ(ends_of({50, 0.9F}), (Ends{0, 0, 1, 0, 0}));
  EXPECT_EQ(ends_of({1000, 1.0F}), (Ends{0, 0, 0, 1, 0}));
  EXPECT_EQ(ends_of({10000, 0.9F}), (Ends{0, 0, 0, 0, 1}));
}
#endif

/// Returns a row of probabilities in which every token of logit 0 has the probability `scale`.
RandomTileRow probs_row_of(std::vector<float> logits, float scale) {
  for (float& x : logits) x = std::exp(x) * scale;
  RandomTileRow row = tile_row_of(std::move(logits), 1.0F);
  row.input = TileInput::probs;
  return row;
}

/// In these rows, a bin of the threshold search has up to 1500 values, and a list has room for
/// 1792. If the threshold is near the edge of a bin, the bracket has two bins, so the list holds
/// only a part of the bracket.
TEST(CudaFilterTiles, NucleiOfWhichAListHoldsAPart) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  harness::Dice dice(15);
  for (const char* kind : {"flat", "spread", "bfloat16"}) {
    const std::vector<float> logits = wide_logits(kind, 262144);
    const RandomTileRow of_logits = tile_row_of(logits, 1.0F);
    const RandomTileRow of_probs = probs_row_of(logits, 0x1p-20F);
    for (const float top_p : {0.4F, 0.7F, 0.8F, 0.9F, 0.95F}) {
      for (const RandomTileRow& row : {of_logits, of_probs}) {
        const Survivors expected(row, {0, top_p});
        for (const cuda::TileSpread& spread : {cuda::TileSpread{1, 512}, {2, 512}, {16, 512}}) {
          rows.compare(row, {0, top_p}, expected, {dice.bits()}, spread);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

/// Returns logits of which `raised` are far above the others; the others together weigh less than
/// 2^-30 of the largest. The raised logits are in few tiles (`crowded`) or in all tiles. The raised
/// logits have up to `distances` different distances below the largest logit, of at most 12
/// octaves.
std::vector<float> raised_logits(std::int64_t vocab, std::int64_t raised, bool crowded,
                                 std::uint64_t distances, harness::Dice& dice) {
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  for (float& logit : logits) logit = -40.0F - static_cast<float>(dice.unit());
  const std::int64_t step = crowded ? 1 : std::max<std::int64_t>(vocab / raised, 1);
  const std::int64_t first = dice.between(0, vocab - 1 - (raised - 1) * step);
  for (std::int64_t i = 0; i < raised; ++i) {
    const auto distance =
        static_cast<double>(dice.below(distances)) / static_cast<double>(distances);
    logits[static_cast<std::size_t>(first + i * step)] = static_cast<float>(-8.3 * distance);
  }
  return logits;
}

/// The nucleus of these rows is a few hundred tokens. Some lists are short enough for one warp,
/// others are longer or exceed the capacity, and some have more ties than are ranked. The tokens of
/// a list are in one tile or in all tiles, and rows have logits or probabilities.
TEST(CudaFilterTiles, SmallNucleiOfEveryLength) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  harness::Dice dice(21);
  const std::vector<cuda::TileSpread> all = filter_spreads();
  std::size_t number = 0;
  for (const std::int64_t vocab : {300, 4096, 50257, 128256, 262144, 300000}) {
    for (const std::int64_t raised : {1, 2, 31, 32, 33, 100, 255, 256, 257, 700, 1024, 1025}) {
      if (raised > vocab) continue;
      for (const std::uint64_t distances : {1U, 5U, 1U << 20}) {
        const bool crowded = number % 2 == 0;
        const std::vector<float> logits = raised_logits(vocab, raised, crowded, distances, dice);
        const RandomTileRow row =
            number % 3 == 2 ? probs_row_of(logits, 0x1p-12F) : tile_row_of(logits, 1.0F);
        const Filters filters{0, dice.pick({0.3F, 0.9F, 0.99F, 0.9999F})};
        rows.compare(row, filters, Survivors(row, filters), {0, dice.bits(), kLargestWord},
                     all[number++ % all.size()]);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// The k or p of these rows gives candidate lists of every length; tokens are drawn with the first
/// and the last random words.
TEST(CudaFilterTiles, ListsOfEveryLengthAndTheFirstAndLastWords) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  harness::Dice dice(5);
  std::vector<float> logits(static_cast<std::size_t>(128256));
  for (float& logit : logits) logit = static_cast<float>(2 * dice.bell());
  for (int i = 0; i < 64; ++i)
    logits[dice.below(logits.size())] += static_cast<float>(8 * dice.unit());
  const RandomTileRow row = tile_row_of(logits, 0.8F);
  for (const std::int32_t k : {0,   2,   3,   31,  32,  33,  63,  64,   65,   127, 128,
                               129, 255, 256, 257, 300, 500, 700, 1000, 1500, 2100}) {
    for (const Filters& filters : {Filters{k, 1.0F}, Filters{k, 0.9F},
                                   Filters{k, 0.9F, TieRule::lowest_id, FilterOrder::joint}}) {
      if (k == 0 && filters.top_p == 1.0F) continue;
      const Survivors expected(row, filters);
      rows.compare(row, filters, expected, {0, kLargestWord, dice.bits()}, {8, 512});
      if (HasFatalFailure()) return;
    }
  }
}

/// All these lists are shorter than the capacity, but their candidates crowd in a few tiles, their
/// groups have keys that are coarse relative to the row's spread, or ids decide their ties.
TEST(CudaFilterTiles, ListsOfCrowdedRowsOfRowsFarFromZeroAndOfTies) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::size_t kVocab = 50257;
  FilterTilesRows rows;
  harness::Dice dice(11);
  std::vector<float> crowded(kVocab);
  for (std::size_t i = 0; i < kVocab; ++i) {
    crowded[i] = static_cast<float>(dice.bell() + (i / 700 == 30 ? 9.0 : 0.0));
  }
  std::vector<float> above(kVocab);
  std::vector<float> below(kVocab);
  std::vector<float> tied(kVocab);
  for (std::size_t i = 0; i < kVocab; ++i) {
    const auto value = static_cast<float>(2 * dice.bell());
    above[i] = 300.0F + value;
    below[i] = -300.0F + value;
    tied[i] = std::floor(4 * value) / 4;  // each of the largest values has at least a dozen tokens
  }
  for (const std::vector<float>& logits : {crowded, above, below, tied}) {
    const RandomTileRow row = tile_row_of(logits, 1.0F);
    for (const std::int32_t k : {40, 200, 690, 1000}) {
      for (const Filters& filters : {Filters{k, 1.0F, TieRule::lowest_id}, Filters{k, 0.9F}}) {
        const Survivors expected(row, filters);
        rows.compare(row, filters, expected, {dice.bits()}, {4, 256});
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// Rows of more than 640 tiles have larger groups; they are tested in every dtype, read by vectors
/// and by values.
TEST(CudaFilterTiles, ListsOfLongRows) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  FilterTilesRows rows;
  for (std::uint64_t number = 0; number < 18; ++number) {
    const RandomTileRow row = random_tile_row(9600000 + number, number % 3 == 0 ? 200003 : 262144);
    const std::int32_t k = number % 2 == 0 ? 1000 : 300;
    for (const Filters& filters : {Filters{k}, Filters{k, 0.9F, TieRule::lowest_id}}) {
      const Survivors expected(row, filters);
      rows.compare(row, filters, expected, {harness::Dice(number).bits()}, {2, 512});
      if (HasFatalFailure()) return;
    }
  }
}

/// In a batch with failing, greedy and inactive rows, each row gives the same results as alone,
/// with its own seeds.
TEST(CudaFilterTiles, RowsOfABatchDoNotTouchOneAnother) {
  FAIRDRAW_SKIP_WITHOUT_GPU();
  constexpr std::size_t kRows = 7;
  constexpr std::int64_t kVocab = 5003;
  std::vector<std::vector<float>> logits(kRows, tied_logits(kVocab, 997));
  logits[1][4999] = std::numeric_limits<float>::quiet_NaN();
  logits[2].assign(logits[2].size(), -std::numeric_limits<float>::infinity());
  logits[3][0] = std::numeric_limits<float>::infinity();
  const std::vector<float> temperatures = {1.0F, 1.0F, 1.0F, 1.0F, 0.0F, 1.0F, -1.0F};
  const std::vector<std::int32_t> top_k = {50, 50, 50, 50, 50, 50, 50};
  const std::vector<float> top_p = {0.9F, 0.9F, 0.9F, 0.9F, 0.9F, 0.9F, 0.9F};
  const std::vector<std::uint8_t> active = {1, 1, 1, 1, 1, 0, 1};
  std::vector<std::uint64_t> seeds(kRows);
  std::iota(seeds.begin(), seeds.end(), std::uint64_t{100});
  std::vector<float> memory;
  for (const auto& row : logits) memory.insert(memory.end(), row.begin(), row.end());
  for (const cuda::TileSpread& spread : filter_spreads()) {
    DeviceArrays arrays;
    cuda::RowsTask task;
    task.rows = {arrays.in(memory), DType::float32, kRows, kVocab, kVocab};
    task.temperature = {arrays.in(temperatures), kRows};
    task.top_k = {arrays.in(top_k), kRows};
    task.top_p = {arrays.in(top_p), kRows};
    task.active = {arrays.in(active), kRows};
    task.seed = {arrays.in(seeds), kRows};
    task.offset = std::uint64_t{7};
    std::vector<std::int32_t> tokens(kRows, -77);
    std::vector<RowStatus> statuses(kRows, RowStatus::invalid_beam);
    task.tokens = arrays.out(tokens);
    task.statuses = arrays.out(statuses);
    require(cuda::filter_tiles(task, spread, nullptr), "filter_tiles");
    arrays.fetch();
    for (std::size_t i = 0; i < kRows; ++i) {
      RowStatus status = RowStatus::inactive;
      std::int32_t token = -1;
      if (temperatures[i] < 0) {
        status = RowStatus::invalid_temperature;
      } else if (active[i] != 0) {
        const Survivors expected(tile_row_of(logits[i], temperatures[i]), {50, 0.9F});
        status = expected.status;
        if (status == RowStatus::ok) {
          const std::uint64_t word = random_word(seeds[i], 7, Purpose::draw, 0);
          token = expected.greedy_token >= 0 ? expected.greedy_token : expected.token_for(word);
        }
      }
      EXPECT_EQ(statuses[i], status) << "row " << i << ", " << suites::describe(spread);
      EXPECT_EQ(tokens[i], token) << "row " << i << ", " << suites::describe(spread);
    }
  }
}

}  // namespace
}  // namespace fairdraw::suites
