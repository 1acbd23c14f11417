// Tests draws by proposals. The tokens that the definition accepts must be those that the filters
// keep. The tests cover which words propose which token, and the result if no attempt is accepted.
// The probability of each token of a small row is found by counting every word.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "reference/integer_model.h"
#include "reference/tests/random_rows.h"

namespace fairdraw::reference {
namespace {

using boost::multiprecision::cpp_int;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kOctaves = 0x1.715476p0F;  // at this temperature integer logits are octaves
constexpr std::uint64_t kLastWord = ~std::uint64_t{0};

// A row that draws by proposals, with all inputs that the definition needs.
struct Case {
  std::vector<float> values;
  std::vector<std::uint32_t> allowed;
  RowParameters parameters;
  bool from_probs = false;

  IntegerRow row(FilterOrder order = FilterOrder::top_k_first) const {
    return from_probs ? integer_model_from_probs(values, parameters, order)
                      : integer_model(values, allowed, parameters, TieRule::keep_all, order);
  }

  bool is_allowed(std::size_t id) const {
    const bool bit = allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
    return bit && (from_probs ? values[id] > 0 : values[id] != -kInfinity);
  }

  // Returns the set F of tokens in the definition of proposals: those that min_p keeps.
  std::vector<std::uint8_t> kept_by_min_p() const {
    float largest = -kInfinity;
    for (std::size_t id = 0; id < values.size(); ++id) {
      if (is_allowed(id)) largest = std::max(largest, values[id]);
    }
    std::vector<std::uint8_t> kept;
    for (std::size_t id = 0; id < values.size(); ++id) {
      kept.push_back(is_allowed(id) && min_p_keeps(values[id], largest) ? 1 : 0);
    }
    return kept;
  }

  bool min_p_keeps(float value, float largest) const {
    if (parameters.min_p == 0) return true;
    if (from_probs) {
      return static_cast<double>(value) >=
             static_cast<double>(parameters.min_p) * static_cast<double>(largest);
    }
    const float distance = value - largest;
    return distance * octaves_per_logit(parameters.temperature) >=
           min_p_threshold(parameters.min_p);
  }

  // Returns for every token whether the definition accepts it: A < max(1, ceil(top_p Z_F)), where A
  // is computed over pairs of tokens in F.
  std::vector<std::uint8_t> accepted(const IntegerRow& row) const {
    const std::vector<std::uint8_t> kept = kept_by_min_p();
    cpp_int total = 0;
    for (std::size_t id = 0; id < kept.size(); ++id) {
      if (kept[id] != 0) total += cpp_int(row.weight[id]);
    }
    // The float top_p is an integer of 24 bits times 2^-s.
    int exponent = 0;
    const float significand = std::frexp(parameters.top_p, &exponent);
    const cpp_int product =
        cpp_int(static_cast<std::uint32_t>(std::ldexp(significand, 24))) * total;
    const cpp_int unit = cpp_int(1) << (24 - exponent);
    const cpp_int ceiling = (product + unit - 1) / unit;
    const cpp_int target = ceiling < 1 ? cpp_int(1) : ceiling;
    std::vector<std::uint8_t> answer;
    for (std::size_t id = 0; id < kept.size(); ++id) {
      cpp_int above = 0;
      for (std::size_t other = 0; other < kept.size(); ++other) {
        if (kept[other] != 0 && values[other] > values[id]) above += cpp_int(row.weight[other]);
      }
      answer.push_back(kept[id] != 0 && above < target ? 1 : 0);
    }
    return answer;
  }

  // Returns the weights of the tokens in tiles that propose, and 0 for all other tokens.
  std::vector<RowWeight> proposed(const IntegerRow& row) const {
    const std::vector<std::uint8_t> kept = kept_by_min_p();
    std::vector<RowWeight> weight(values.size(), 0);
    for (std::size_t id = 0; id < values.size(); ++id) {
      const auto first = kept.begin() + static_cast<std::ptrdiff_t>(id / 256 * 256);
      const auto last = kept.end() - first > 256 ? first + 256 : kept.end();
      if (std::find(first, last, 1) != last) weight[id] = row.weight[id];
    }
    return weight;
  }
};

// The random words that propose a token: `count` consecutive words, the first of which is `first`.
struct WordsOfAToken {
  std::int32_t token;
  cpp_int first, count;
};

std::vector<WordsOfAToken> words_of(const std::vector<RowWeight>& weight) {
  cpp_int total = 0;
  for (const RowWeight w : weight) total += cpp_int(w);
  const cpp_int all = cpp_int(1) << 64;
  const auto min_word = [&](const cpp_int& position) -> cpp_int {
    return (position * all + total - 1) / total;
  };
  std::vector<WordsOfAToken> words;
  cpp_int before = 0;
  for (std::size_t id = 0; id < weight.size(); ++id) {
    const cpp_int first = min_word(before);
    before += cpp_int(weight[id]);
    const cpp_int count = min_word(before) - first;
    if (count > 0) words.push_back({static_cast<std::int32_t>(id), first, count});
  }
  return words;
}

std::vector<Case> random_cases() {
  RandomRows random(5);
  std::vector<Case> cases;
  for (const std::size_t vocab : {1U, 2U, 9U, 40U, 300U, 700U}) {
    for (int kind = 0; kind < kRowKinds; ++kind) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        Case one;
        one.from_probs = repeat == 3;
        one.values = one.from_probs ? random.probs(vocab, kind % 2 == 0)
                                    : random.logits(static_cast<RowKind>(kind), vocab);
        if (repeat == 2) one.allowed = random.allowed(vocab);
        one.parameters = random.parameters(vocab);
        // Turns top_k off in one of several ways.
        one.parameters.top_k = repeat == 0 ? static_cast<std::int32_t>(vocab) : -(repeat % 2);
        cases.push_back(one);
      }
    }
  }
  return cases;
}

TEST(Proposals, AreAskedOfRowsWithTopPAlone) {
  const std::vector<float> logits = {0, -1, -2, -3};
  const auto asks = [&](RowParameters parameters) {
    return integer_model(logits, {}, parameters).proposes;
  };
  EXPECT_TRUE(asks({.top_p = 0.5F}));
  EXPECT_TRUE(asks({.top_p = 0.5F, .min_p = 0.25F}));
  EXPECT_TRUE(asks({.top_p = 1 - 0x1p-24F}));
  for (const std::int32_t off : {0, -1, 4, 5}) EXPECT_TRUE(asks({.top_k = off, .top_p = 0.5F}));
  EXPECT_FALSE(asks({}));
  EXPECT_FALSE(asks({.min_p = 0.25F}));
  EXPECT_FALSE(asks({.top_k = 2}));
  EXPECT_FALSE(asks({.top_k = 3, .top_p = 0.5F}));
  EXPECT_FALSE(asks({.top_k = 3, .top_p = 0.5F, .min_p = 0.25F}));
  EXPECT_FALSE(asks({.temperature = 0, .top_p = 0.5F}));
  EXPECT_FALSE(asks({.top_k = 1, .top_p = 0.5F}));
  EXPECT_FALSE(asks({.top_p = 0}));
  // The same holds for rows of probabilities, where top_k = 1 may keep tied tokens.
  const std::vector<float> probs = {0.5F, 0.5F};
  EXPECT_TRUE(integer_model_from_probs(probs, {.top_p = 0.5F}).proposes);
  EXPECT_FALSE(integer_model_from_probs(probs, {.top_k = 1, .top_p = 0.5F},
                                        FilterOrder::top_k_first, /*top_k_1_keeps_ties=*/true)
                   .proposes);
}

TEST(Proposals, AreAcceptedWhereTheFiltersKeepThem) {
  int proposing = 0, with_min_p = 0, with_fewer_tiles = 0;
  for (const Case& one : random_cases()) {
    const IntegerRow row = one.row();
    if (!row.proposes) continue;
    ++proposing;
    EXPECT_EQ(row.mask, one.accepted(row));
    EXPECT_EQ(one.row(FilterOrder::joint).mask, row.mask);
    with_min_p += one.parameters.min_p > 0 ? 1 : 0;
    const auto out = [](const TileOfRow& tile) { return !tile.proposes && tile.sum > 0; };
    with_fewer_tiles += std::ranges::any_of(row.tiles, out) ? 1 : 0;
  }
  EXPECT_GE(proposing, 100);
  EXPECT_GE(with_min_p, 50);
  EXPECT_GE(with_fewer_tiles, 5);
}

TEST(Proposals, FollowTheWordOverTheTilesThatMinPReaches) {
  for (const Case& one : random_cases()) {
    const IntegerRow row = one.row();
    if (!row.proposes) continue;
    const std::vector<RowWeight> weight = one.proposed(row);
    cpp_int total = 0;
    for (const RowWeight w : weight) total += cpp_int(w);
    cpp_int words = 0;
    for (const auto& [token, first, count] : words_of(weight)) {
      words += count;
      EXPECT_EQ(row.proposal_for(static_cast<std::uint64_t>(first)), token);
      EXPECT_EQ(row.proposal_for(static_cast<std::uint64_t>(first + count - 1)), token);
      // The counted share of words is within one word of W 2^64 / Z'.
      const cpp_int share = cpp_int(weight[static_cast<std::size_t>(token)]) << 64;
      const cpp_int off = count * total - share;
      EXPECT_LT(off, total);
      EXPECT_GT(off, -total);
    }
    EXPECT_EQ(words, cpp_int(1) << 64);
  }
}

// Returns a row whose weights are 2, 2 and four times 1, in eighths. With top_p = 1/2 the first two
// tokens stay, and the mass above the other tokens equals the target.
IntegerRow eighths() {
  const std::vector<float> logits = {-1, 0, -1, 0, -1, -1};
  return integer_model(logits, {}, {.temperature = kOctaves, .top_p = 0.5F});
}

TEST(Proposals, ArePassedOverUntilOneIsAccepted) {
  const IntegerRow row = eighths();
  ASSERT_EQ(row.mask, (std::vector<std::uint8_t>{0, 1, 0, 1, 0, 0}));
  for (std::uint32_t accepted = 0; accepted <= kAttemptsOfADraw; ++accepted) {
    std::uint32_t asked = 0;
    const std::int32_t token = row.token_by_attempts([&](std::uint32_t attempt) {
      EXPECT_EQ(attempt, asked++);                              // each attempt is asked for once
      return attempt == accepted ? std::uint64_t{1} << 61 : 0;  // tokens 1 and 0
    });
    EXPECT_EQ(token, 1);
    EXPECT_EQ(asked, accepted + 1);
  }
}

TEST(Proposals, EndAfter64WithADrawAmongTheSurvivors) {
  const IntegerRow row = eighths();
  const auto last = [&](std::uint64_t word) {
    return row.token_by_attempts(
        [word](std::uint32_t attempt) { return attempt < 64 ? kLastWord : word; });
  };
  const std::uint64_t half = std::uint64_t{1} << 63;
  EXPECT_EQ(row.proposal_for(kLastWord), 5);
  EXPECT_EQ(last(0), 1);
  EXPECT_EQ(last(half - 1), 1);
  EXPECT_EQ(last(half), 3);
  EXPECT_EQ(last(kLastWord), 3);
}

// The test counts every random word of every attempt. The words form eight classes of 2^61 words,
// and each of the two survivors gets half of the accepted words, whatever the earlier attempts
// were.
TEST(Proposals, GiveEachSurvivorItsShareOfTheWords) {
  const IntegerRow row = eighths();
  constexpr std::uint64_t kClass = std::uint64_t{1} << 61;
  for (std::uint32_t attempt = 0; attempt <= kAttemptsOfADraw; ++attempt) {
    std::map<std::int32_t, int> accepted;
    int rejected = 0;
    for (std::uint64_t eighth = 0; eighth < 8; ++eighth) {
      for (const std::uint64_t word : {eighth * kClass, eighth * kClass + (kClass - 1)}) {
        std::uint32_t asked = 0;
        const std::int32_t token = row.token_by_attempts([&](std::uint32_t at) {
          asked = at;
          return at == attempt ? word : kLastWord;
        });
        if (asked == attempt) {
          ++accepted[token];
        } else {
          ++rejected;
        }
      }
    }
    const int share = attempt < kAttemptsOfADraw ? 4 : 8;
    EXPECT_EQ(accepted, (std::map<std::int32_t, int>{{1, share}, {3, share}})) << attempt;
    EXPECT_EQ(rejected, 16 - 2 * share);
  }
}

// The test computes the probability P of each token as an integer over 2^(64 * 65). The words of an
// attempt are counted for the case that all earlier attempts were rejected.
TEST(Proposals, HaveTheProbabilityOfTheSurvivorsWeight) {
  int rows = 0;
  for (const Case& one : random_cases()) {
    const IntegerRow row = one.row();
    if (!row.proposes || one.values.size() > 40) continue;
    ++rows;
    const std::vector<WordsOfAToken> words = words_of(one.proposed(row));
    cpp_int rejecting = 0;
    std::map<std::int32_t, cpp_int> accepting, surviving;
    for (const auto& [token, first, count] : words) {
      if (row.mask[static_cast<std::size_t>(token)] != 0) {
        accepting[token] = count;
      } else {
        rejecting += count;
      }
    }
    std::vector<RowWeight> survivors = row.weight;
    for (std::size_t id = 0; id < survivors.size(); ++id) survivors[id] *= row.mask[id];
    for (const auto& [token, first, count] : words_of(survivors)) surviving[token] = count;

    for (std::size_t id = 0; id < survivors.size(); ++id) {
      const auto token = static_cast<std::int32_t>(id);
      cpp_int way = 1, numerator = 0;  // number of words that lead to this attempt, over 2^(64 i)
      for (std::uint32_t attempt = 0; attempt < kAttemptsOfADraw; ++attempt) {
        numerator = (numerator << 64) + way * accepting[token];
        way *= rejecting;
      }
      numerator = (numerator << 64) + way * surviving[token];
      const cpp_int whole = cpp_int(1) << (64 * (kAttemptsOfADraw + 1));
      const cpp_int total(row.total);
      const cpp_int off = numerator * total - cpp_int(survivors[id]) * whole;
      // For each of 65 random words, the number of words that give the token is off by one, and the
      // number of words that are accepted is off by one per survivor.
      const cpp_int bound =
          (cpp_int(1 + row.support_size) * (kAttemptsOfADraw + 1) * total * whole) >> 64;
      EXPECT_LE(off, bound);
      EXPECT_GE(off, -bound);
    }
  }
  EXPECT_GE(rows, 60);
}

TEST(Proposals, OfRowsThatDoNotProposeAreTheFirstWord) {
  const std::vector<float> logits = {0, -1, -2, -3};
  for (const RowParameters parameters :
       {RowParameters{}, RowParameters{.min_p = 0.25F}, RowParameters{.top_k = 2, .top_p = 0.9F},
        RowParameters{.temperature = 0, .top_p = 0.9F}}) {
    const IntegerRow row = integer_model(logits, {}, parameters);
    for (const std::uint64_t word : {std::uint64_t{0}, kLastWord / 2, kLastWord}) {
      const std::int32_t token = row.token_by_attempts([&](std::uint32_t attempt) {
        EXPECT_EQ(attempt, 0U);
        return word;
      });
      EXPECT_EQ(token, row.token_for(word));
    }
  }
  const IntegerRow failed = integer_model(logits, {}, {.top_p = 2});
  EXPECT_EQ(failed.token_by_attempts([](std::uint32_t) { return 0; }), -1);
}

}  // namespace
}  // namespace fairdraw::reference
