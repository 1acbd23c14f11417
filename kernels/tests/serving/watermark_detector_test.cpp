// The detector: scores and p-values against other arithmetic, their distribution on text that a key
// has not marked, and marked text, which is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <bitset>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "fairdraw/watermark.h"
#include "harness/inputs/dice.h"
#include "harness/statistics/binomial.h"
#include "harness/statistics/pit.h"
#include "reference/watermark_model.h"
#include "tests/sample/reduced.h"
#include "tests/serving/marked_rows.h"

namespace fairdraw::suites {
namespace {

using reference::RowMark;
using Real = boost::multiprecision::cpp_bin_float_100;

/// False alarms of this file's statistics together: below 1e-9.
constexpr double kFalseFailRate = 1e-10;

WatermarkEvidence evidence_of(const Ids& text, const std::vector<std::uint64_t>& keys,
                              const WatermarkRule& rule = {}) {
  WatermarkEvidence evidence;
  const Error error = detect_watermark({{text.data(), static_cast<std::int64_t>(text.size())},
                                        {keys.data(), static_cast<std::int64_t>(keys.size())},
                                        rule},
                                       evidence);
  EXPECT_FALSE(error) << error.message;
  return evidence;
}

Ids random_text(harness::Dice& dice, std::size_t length, std::uint64_t vocab) {
  Ids text;
  for (std::size_t i = 0; i < length; ++i) {
    text.push_back(static_cast<std::int32_t>(dice.below(vocab)));
  }
  return text;
}

/// Returns texts of a small model: rows that depend on the last token, with `spread` of its logits.
std::vector<Ids> marked_texts(std::size_t texts, std::size_t length, std::size_t vocab,
                              double spread, const std::vector<std::uint64_t>& keys,
                              RowMark mark = {.window = 4}) {
  std::vector<Ids> outputs(texts);
  std::vector<RowMark> marks;
  for (std::size_t i = 0; i < texts; ++i) {
    mark.key = keys[i % keys.size()];
    marks.push_back(mark);
  }
  const std::vector<std::uint64_t> seeds = keys_from(3, texts);
  for (std::size_t step = 0; step < length; ++step) {
    std::vector<float> logits;
    for (std::size_t i = 0; i < texts; ++i) {
      harness::Dice dice(outputs[i].empty() ? i : static_cast<std::uint64_t>(outputs[i].back()));
      for (std::size_t id = 0; id < vocab; ++id) {
        logits.push_back(static_cast<float>(dice.bell() * spread));
      }
    }
    append_marked(logits, marks, seeds, outputs);
  }
  return outputs;
}

/// Returns P(Gamma(shape, 1) >= x), as a sum of Poisson probabilities.
Real gamma_tail(std::int64_t shape, const Real& x) {
  Real term = boost::multiprecision::exp(-x), sum = 0;
  for (std::int64_t k = 0; k < shape; ++k) {
    sum += term;
    term *= x / Real(k + 1);
  }
  return sum;
}

/// Doubles have relative errors of 2^-53 per step: a score of T terms has at most T + 4 of them,
/// the logarithm and the e-value's exponents a few. Boost states 1e-13 or better for gamma_q of
/// these arguments; S times its error moves p by a factor of at most 1 + S * error.
constexpr double kStep = 0x1p-53;

TEST(WatermarkDetector, GivesTheValuesOfLongArithmetic) {
  harness::Dice dice(41);
  for (int round = 0; round < 60; ++round) {
    const auto window = static_cast<std::int32_t>(1 + dice.below(5));
    const Ids text = random_text(dice, 1 + dice.below(300), round % 2 == 0 ? 3 : 5000);
    const std::vector<std::uint64_t> keys = keys_from(dice.bits(), 1 + dice.below(3));
    const WatermarkEvidence found = evidence_of(text, keys, {window});
    Real best = -1, mean_e = 0;
    std::size_t best_key = 0, scored = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const std::vector<std::uint64_t> words =
          reference::scored_words(text, keys[k], static_cast<std::size_t>(window));
      scored = words.size();
      Real score = 0;
      for (const std::uint64_t word : words) {
        const Real u = (Real(word) + Real(0.5)) * boost::multiprecision::ldexp(Real(1), -64);
        score -= boost::multiprecision::log(1 - u);
      }
      for (int i = 1; i < 16; ++i) {
        mean_e += boost::multiprecision::pow(Real(16 - i) / 16, Real(scored)) *
                  boost::multiprecision::exp(score * i / 16) / Real(15 * keys.size());
      }
      if (score > best) {
        best = score;
        best_key = k;
      }
    }
    const double steps = static_cast<double>(scored) + 8;
    const auto score = static_cast<double>(best);
    EXPECT_EQ(found.scored, static_cast<std::int64_t>(scored));
    EXPECT_EQ(found.key, static_cast<std::int64_t>(best_key));
    // Each term is a difference of numbers up to 64 ln2 = 44.4, off by 3 roundings of these.
    const double score_error = kStep * (steps * score + 3 * 45 * steps);
    EXPECT_NEAR(found.score, score, score_error);
    const Real p = std::min<Real>(Real(1), gamma_tail(found.scored, best) * Real(keys.size()));
    EXPECT_NEAR(found.p_value / static_cast<double>(p), 1, 2 * score_error + 1e-12);
    EXPECT_NEAR(found.log_e_value, static_cast<double>(boost::multiprecision::log(mean_e)),
                score_error + kStep * 16 * (score + steps));
  }
}

TEST(WatermarkDetector, ScoresARepeatedPairOnce) {
  const std::vector<std::uint64_t> key = {5};
  EXPECT_EQ(evidence_of({}, key).scored, 0);
  EXPECT_EQ(evidence_of({}, key).p_value, 1);
  EXPECT_EQ(evidence_of({}, key).log_e_value, 0);
  EXPECT_EQ(evidence_of({1, 1, 1, 1, 1, 1}, key, {1}).scored, 2);  // (-1, 1), (1, 1)
  EXPECT_EQ(evidence_of({1, 1, 1, 1, 1, 1}, key, {4}).scored, 5);  // padded contexts differ
  EXPECT_EQ(evidence_of({1, 2, 1, 2, 1, 3}, key, {1}).scored, 4);  // 1, 12, 21, 13
  const WatermarkEvidence once = evidence_of({7, 1, 2, 7, 1, 2}, key, {1});
  EXPECT_EQ(once.score, evidence_of({7, 1, 2, 7}, key, {1}).score);
}

/// Texts that know nothing of the key: p-values are uniform, also if the text repeats itself, and
/// if another key marked it.
TEST(WatermarkDetector, PValuesAreUniformOnTextThatTheKeyHasNotMarked) {
  harness::Dice dice(43);
  std::vector<double> plain, repetitive, other, two_keys;
  std::uint64_t above = 0;
  const std::size_t texts = budget(20000);
  const std::vector<std::uint64_t> keys = keys_from(1000, texts);
  const double limit = std::log(20.0);
  for (const std::uint64_t key : keys) {
    plain.push_back(evidence_of(random_text(dice, 60, 1000), {key}).p_value);
    repetitive.push_back(evidence_of(random_text(dice, 200, 2), {key}, {2}).p_value);
    two_keys.push_back(evidence_of(random_text(dice, 60, 1000), {key, ~key}).p_value);
    // A stream is tested after each of its tokens.
    const Ids text = random_text(dice, 40, 1000);
    bool crosses = false;
    for (std::size_t length = 1; length <= text.size() && !crosses; ++length) {
      const Ids begun(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
      crosses = evidence_of(begun, {key}).log_e_value >= limit;
    }
    above += crosses ? 1 : 0;
  }
  // Each pair of a text and a key has a key of its own, so these p-values are independent.
  const std::vector<Ids> marked = marked_texts(200, 50, 40, 1, keys_from(5, 200));
  for (std::size_t i = 0; i < budget(20000); ++i) {
    other.push_back(evidence_of(marked[i % marked.size()], keys_from(50000 + i, 1)).p_value);
  }
  EXPECT_GE(statistics::uniformity_p_value(plain), kFalseFailRate);
  EXPECT_GE(statistics::uniformity_p_value(repetitive), kFalseFailRate);
  EXPECT_GE(statistics::uniformity_p_value(other), kFalseFailRate);
  // P(e-value ever >= 20) <= 1/20 (Ville).
  EXPECT_GE(statistics::binomial_upper_tail(above, texts, 1.0 / 20), kFalseFailRate);
  // Bonferroni: P(p <= a) <= a.
  for (const double a : {0.001, 0.01, 0.1, 0.5}) {
    const auto below = static_cast<std::uint64_t>(
        std::count_if(two_keys.begin(), two_keys.end(), [a](double p) { return p <= a; }));
    EXPECT_GE(statistics::binomial_upper_tail(below, texts, a), kFalseFailRate) << a;
  }
}

TEST(WatermarkDetector, FindsMarkedTextAndItsKey) {
  const std::vector<std::uint64_t> keys = keys_from(9, 3);
  // Spread 1 on 40 tokens: about 4.6 bits of entropy a token.
  const std::vector<Ids> texts = marked_texts(30, 120, 40, 1, keys);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const WatermarkEvidence found = evidence_of(texts[i], keys);
    EXPECT_LE(found.p_value, 1e-6) << i;
    EXPECT_GE(found.log_e_value, std::log(1e6)) << i;
    EXPECT_EQ(found.key, static_cast<std::int64_t>(i % 3)) << i;
    // A part from the middle is found, too.
    const Ids part(texts[i].begin() + 20, texts[i].end());
    EXPECT_LE(evidence_of(part, keys).p_value, 1e-6) << i;
  }
}

/// Two bits a token suffice for 1e-6 within 200 tokens: 4 equal tokens of 400, others at each step.
TEST(WatermarkDetector, TwoBitsATokenAreFoundWithin200Tokens) {
  constexpr std::size_t kTexts = 100, kTokens = 200, kVocab = 400;
  const std::vector<std::uint64_t> keys = keys_from(17, kTexts);
  std::vector<RowMark> marks;
  for (const std::uint64_t key : keys) marks.push_back({.key = key, .window = 4});
  std::vector<Ids> texts(kTexts);
  for (std::size_t step = 0; step < kTokens; ++step) {
    std::vector<float> row(kVocab, -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < 4; ++i) row[(step * 7 + i * 100) % kVocab] = 0;
    std::vector<float> logits;
    for (std::size_t i = 0; i < kTexts; ++i) logits.insert(logits.end(), row.begin(), row.end());
    append_marked(logits, marks, keys, texts);
  }
  for (std::size_t i = 0; i < kTexts; ++i) {
    EXPECT_LE(evidence_of(texts[i], {keys[i]}).p_value, 1e-6);
  }
}

TEST(WatermarkDetector, ThresholdsHaveTheStatedRate) {
  for (const std::int64_t scored : {1, 2, 50, 200, 10000}) {
    for (const std::int64_t keys : {1, 7}) {
      for (const double rate : {0.5, 0.01, 1e-6, 1e-12}) {
        double score = -1;
        ASSERT_FALSE(watermark_threshold({}, scored, keys, rate, score));
        const Real tail = gamma_tail(scored, Real(score)) * Real(keys);
        EXPECT_LE(static_cast<double>(tail), rate * (1 + 1e-11)) << scored << " " << keys;
        EXPECT_GE(static_cast<double>(gamma_tail(scored, Real(score) * (1 - 1e-9)) * Real(keys)),
                  rate)
            << scored << " " << keys;
      }
    }
  }
}

// --- Scores that are counts ----------------------------------------------------------------------

/// A rule whose score counts, with the number of trials per position and their probability.
struct CountingRule {
  WatermarkRule rule;
  std::int64_t trials;
  double success;
};

std::vector<CountingRule> counting_rules() {
  std::vector<CountingRule> rules;
  for (const std::int32_t layers : {1, 30, 64}) {
    rules.push_back({{3, WatermarkScheme::tournament, layers}, layers, 0.5});
  }
  for (const float share : {0.25F, 0.9F, 0x1p-20F}) {
    rules.push_back({{3, WatermarkScheme::green_list, 30, share}, 1, share});
  }
  return rules;
}

/// Returns P(Binomial(trials, success) >= count).
Real binomial_tail(std::int64_t trials, double success, std::int64_t count) {
  using boost::multiprecision::pow;
  const Real odds = Real(success) / (1 - Real(success));
  Real term = pow(1 - Real(success), Real(trials)), sum = 0;
  for (std::int64_t k = 0; k <= trials; ++k) {
    if (k >= count) sum += term;
    term *= odds * Real(trials - k) / Real(k + 1);
  }
  return sum;
}

TEST(WatermarkDetector, CountsHaveTheValuesOfLongArithmetic) {
  using boost::multiprecision::pow;
  harness::Dice dice(46);
  for (const CountingRule& counting : counting_rules()) {
    const Ids text = random_text(dice, 1 + dice.below(100), 50);
    const std::vector<std::uint64_t> keys = keys_from(dice.bits(), 2);
    const WatermarkEvidence found = evidence_of(text, keys, counting.rule);
    const std::int64_t trials = found.scored * counting.trials;
    const Real success(counting.success);
    Real mean_e = 0;
    std::int64_t best = -1;
    for (const std::uint64_t key : keys) {
      std::int64_t count = 0;
      for (const std::uint64_t word : reference::scored_words(text, key, 3)) {
        const std::string digits = std::bitset<64>(word).to_string();
        const auto ones = std::count(digits.begin(), digits.begin() + counting.rule.layers, '1');
        const bool is_green = Real(word) < Real(counting.rule.green_share) *
                                               boost::multiprecision::ldexp(Real(1), 64);
        const bool plays = counting.rule.scheme == WatermarkScheme::tournament;
        count += plays ? static_cast<std::int64_t>(ones) : static_cast<std::int64_t>(is_green);
      }
      for (int i = 1; i < 16; ++i) {
        const Real tilted = success + (1 - success) * i / 16;
        mean_e += pow(tilted / success, Real(count)) *
                  pow((1 - tilted) / (1 - success), Real(trials - count)) / Real(15 * keys.size());
      }
      best = std::max(best, count);
    }
    EXPECT_EQ(found.score, static_cast<double>(best));
    const Real p =
        std::min<Real>(Real(1), binomial_tail(trials, counting.success, best) * Real(keys.size()));
    // Boost states 1e-13 or better for ibeta of these arguments.
    EXPECT_NEAR(found.p_value / static_cast<double>(p), 1, 1e-12);
    // The exponents have a few roundings of numbers up to 45 per trial, the logarithm of 2^64.
    EXPECT_NEAR(found.log_e_value, static_cast<double>(boost::multiprecision::log(mean_e)),
                kStep * 8 * 45 * (static_cast<double>(trials) + 8));
  }
}

TEST(WatermarkDetector, CountsOfUnmarkedTextExceedNoStatedRate) {
  harness::Dice dice(47);
  const std::size_t texts = budget(5000);
  for (const CountingRule& counting : counting_rules()) {
    std::vector<double> p_values;
    std::uint64_t above = 0;
    for (const std::uint64_t key : keys_from(3000, texts)) {
      const WatermarkEvidence found =
          evidence_of(random_text(dice, 40, 1000), {key}, counting.rule);
      p_values.push_back(found.p_value);
      above += found.log_e_value >= std::log(20.0) ? 1U : 0U;
    }
    for (const double a : {0.001, 0.01, 0.1, 0.5}) {
      const auto below = static_cast<std::uint64_t>(
          std::count_if(p_values.begin(), p_values.end(), [a](double p) { return p <= a; }));
      EXPECT_GE(statistics::binomial_upper_tail(below, texts, a), kFalseFailRate) << a;
    }
    EXPECT_GE(statistics::binomial_upper_tail(above, texts, 1.0 / 20), kFalseFailRate);
  }
}

TEST(WatermarkDetector, TournamentsAndGreenListsAreFound) {
  const std::vector<std::uint64_t> keys = keys_from(9, 3);
  const std::vector<RowMark> kinds = {
      {.window = 4, .scheme = WatermarkScheme::tournament},
      {.window = 4, .scheme = WatermarkScheme::green_list, .green_bias = 4}};
  for (const RowMark& kind : kinds) {
    const std::vector<Ids> texts = marked_texts(30, 120, 40, 1, keys, kind);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const WatermarkEvidence found = evidence_of(texts[i], keys, rule_of(kind));
      EXPECT_LE(found.p_value, 1e-6) << i;
      EXPECT_GE(found.log_e_value, std::log(1e6)) << i;
      EXPECT_EQ(found.key, static_cast<std::int64_t>(i % 3)) << i;
      // Without the key, a text looks like any other.
      EXPECT_GE(evidence_of(texts[i], keys_from(500, 1), rule_of(kind)).p_value, kFalseFailRate);
    }
  }
}

TEST(WatermarkDetector, ThresholdsOfCountsAreTheSmallest) {
  for (const CountingRule& counting : counting_rules()) {
    for (const std::int64_t scored : {1, 2, 50}) {
      for (const double rate : {1.0, 0.5, 0.01, 1e-6}) {
        double score = -1;
        ASSERT_FALSE(watermark_threshold(counting.rule, scored, 1, rate, score));
        const std::int64_t trials = scored * counting.trials;
        const auto count = static_cast<std::int64_t>(score);
        EXPECT_EQ(static_cast<double>(count), score);
        EXPECT_LE(static_cast<double>(binomial_tail(trials, counting.success, count)),
                  rate * (1 + 1e-12));
        if (count > 0) {
          EXPECT_GT(static_cast<double>(binomial_tail(trials, counting.success, count - 1)),
                    rate * (1 - 1e-12));
        }
        EXPECT_LE(count, trials + 1);
        double of_two_keys = -1;
        ASSERT_FALSE(watermark_threshold(counting.rule, scored, 2, rate, of_two_keys));
        EXPECT_GE(of_two_keys, rate < 1 ? score : 0);
        if (rate < 1) {
          const Real tail =
              binomial_tail(trials, counting.success, static_cast<std::int64_t>(of_two_keys));
          EXPECT_LE(static_cast<double>(tail * 2), rate * (1 + 1e-12));
        }
      }
    }
  }
}

TEST(WatermarkDetector, RefusesByNameValueAndRange) {
  const Ids text = {1, 2};
  const std::vector<std::uint64_t> keys = {5, 6};
  const auto message = [](const WatermarkText& wrong) {
    WatermarkEvidence evidence;
    evidence.scored = -7;
    const Error error = detect_watermark(wrong, evidence);
    EXPECT_EQ(evidence.scored, -7);
    return error.message;
  };
  EXPECT_EQ(message({{text.data(), 2}, {}, {}}),
            "keys is empty; allowed: an array of at least one key");
  EXPECT_EQ(message({{text.data(), 2}, {keys.data(), 2}, {0}}), "window is 0; allowed: 1 to 32");
  const std::vector<std::uint64_t> zero = {5, 0};
  EXPECT_EQ(message({{text.data(), 2}, {zero.data(), 2}, {}}),
            "keys[1] is 0; allowed: 1 to 2^64 - 1");
  for (const std::int32_t id : {-1, static_cast<std::int32_t>(kMaxVocab)}) {
    const Ids wrong = {1, id};
    EXPECT_EQ(message({{wrong.data(), 2}, {keys.data(), 2}, {}}),
              "tokens[1] is " + std::to_string(id) + "; allowed: 0 to 1048575");
  }
  double score = -7;
  EXPECT_EQ(watermark_threshold({}, 0, 1, 0.1, score).message, "scored is 0; allowed: 1 to 2^32");
  EXPECT_EQ(watermark_threshold({}, 1, 0, 0.1, score).message, "keys is 0; allowed: 1 to 2^32");
  for (const double rate : {0.0, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(watermark_threshold({}, 1, 1, rate, score));
  }
  EXPECT_EQ(score, -7);
}

}  // namespace
}  // namespace fairdraw::suites
