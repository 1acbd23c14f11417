// Compares both oracles with answers that scripts computed in exact fractions (known_answers/).
// These rows cannot show errors that need more than a dozen tokens; tests of larger rows compare
// the two oracles with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/integer_model.h"
#include "reference/real_oracle.h"
#include "reference/tests/compare_oracles.h"
#include "reference/tests/tile_answers.h"
#include "reference/tile_bound.h"

namespace fairdraw::reference {
namespace {

using nlohmann::json;

const json& known_answers() {
  static const json answers = json::parse(std::ifstream(FAIRDRAW_KNOWN_ANSWERS));
  return answers;
}

float to_float(const json& text) { return std::strtof(text.get<std::string>().c_str(), nullptr); }
double to_double(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

std::vector<float> to_floats(const json& texts) {
  std::vector<float> values;
  for (const json& text : texts) values.push_back(to_float(text));
  return values;
}

RowParameters parameters_of(const json& answer) {
  RowParameters parameters;
  parameters.top_k = answer["top_k"];
  parameters.top_p = to_float(answer["top_p"]);
  parameters.min_p = to_float(answer["min_p"]);
  if (answer.contains("temperature")) parameters.temperature = to_float(answer["temperature"]);
  return parameters;
}

FilterOrder order_of(const json& answer) {
  return answer["joint"].get<bool>() ? FilterOrder::joint : FilterOrder::top_k_first;
}

/// Returns the distance in octaves of a logit to the row's largest logit that is not banned.
double octaves_below(const json& answer, std::size_t id) {
  const std::vector<float> logits = to_floats(answer["logits"]);
  const auto banned = answer["banned"].get<std::vector<std::size_t>>();
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t other = 0; other < logits.size(); ++other) {
    if (std::ranges::find(banned, other) != banned.end()) continue;
    largest = std::max(largest, static_cast<double>(logits[other]));
  }
  const auto temperature = static_cast<double>(parameters_of(answer).temperature);
  return (largest - static_cast<double>(logits[id])) / temperature * 0x1.71547652b82fep0;
}

/// Returns half the distance between neighbouring float32 values at a probability.
double half_unit(double probability) { return std::max(probability * 0x1p-24, 0x1p-150); }

void expect_row(const IntegerRow& row, const json& answer) {
  ASSERT_EQ(row.status, RowStatus::ok);
  std::vector<std::size_t> kept;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    if (row.mask[id] != 0) kept.push_back(id);
  }
  EXPECT_EQ(kept, answer["kept"].get<std::vector<std::size_t>>());
  EXPECT_EQ(row.support_size, static_cast<std::int32_t>(kept.size()));
  ASSERT_EQ(row.weight.size(), answer["weights"].size());
  for (std::size_t id = 0; id < row.weight.size(); ++id) {
    EXPECT_EQ(to_string(row.weight[id]), answer["weights"][id].get<std::string>()) << id;
  }
  EXPECT_EQ(to_string(row.total), answer["total"].get<std::string>());
  EXPECT_EQ(row.greedy_token, answer["greedy"].get<std::int32_t>());
}

TEST(KnownAnswers, ProbabilityRows) {
  ASSERT_GE(known_answers()["probs"].size(), 40U);
  for (const json& answer : known_answers()["probs"]) {
    SCOPED_TRACE(answer["name"].get<std::string>());
    const std::vector<float> probs = to_floats(answer["probs"]);
    const RowParameters parameters = parameters_of(answer);
    const bool ties_at_1 = answer["top_k_1_keeps_ties"];
    const IntegerRow row = integer_model_from_probs(probs, parameters, order_of(answer), ties_at_1);
    expect_row(row, answer);
    Semantics semantics = fairdraw_semantics(TieRule::keep_all, order_of(answer));
    if (ties_at_1) semantics.top_k_one = TopKOne::filter;
    const RealDistribution distribution = real_oracle_from_probs(probs, parameters, semantics);
    EXPECT_EQ(contradiction(row, distribution), "");
  }
}

// A probability within 32 octaves of the maximum loses no bit, and a sum of a dozen such
// probabilities has at most 63 bits. The real-number oracle therefore decides every token, even if
// the mass equals the boundary.
TEST(KnownAnswers, ProbabilityRowsAreNeverAmbiguousWithin32Octaves) {
  int rows = 0;
  for (const json& answer : known_answers()["probs"]) {
    SCOPED_TRACE(answer["name"].get<std::string>());
    const std::vector<float> probs = to_floats(answer["probs"]);
    const float largest = *std::max_element(probs.begin(), probs.end());
    const bool near = std::all_of(probs.begin(), probs.end(), [largest](float p) {
      return p == 0 || static_cast<double>(p) * 0x1p32 >= static_cast<double>(largest);
    });
    if (!near) continue;
    ++rows;
    Semantics semantics = fairdraw_semantics(TieRule::keep_all, order_of(answer));
    if (answer["top_k_1_keeps_ties"].get<bool>()) semantics.top_k_one = TopKOne::filter;
    const RealDistribution distribution =
        real_oracle_from_probs(probs, parameters_of(answer), semantics);
    std::vector<std::size_t> kept;
    for (std::size_t id = 0; id < probs.size(); ++id) {
      ASSERT_NE(distribution.membership[id], Membership::ambiguous);
      if (distribution.membership[id] == Membership::in) kept.push_back(id);
    }
    EXPECT_EQ(kept, answer["kept"].get<std::vector<std::size_t>>());
  }
  EXPECT_GE(rows, 40);
}

TEST(KnownAnswers, LogitRows) {
  ASSERT_GE(known_answers()["logits"].size(), 40U);
  for (const json& answer : known_answers()["logits"]) {
    SCOPED_TRACE(answer["name"].get<std::string>());
    const std::vector<float> logits = to_floats(answer["logits"]);
    std::vector<std::uint32_t> allowed;
    if (!answer["banned"].empty()) {
      allowed.assign((logits.size() + 31) / 32, ~std::uint32_t{0});
      for (const std::size_t id : answer["banned"]) allowed[id / 32] &= ~(1U << (id % 32));
    }
    const TieRule ties = answer["lowest_id"].get<bool>() ? TieRule::lowest_id : TieRule::keep_all;
    const RowParameters parameters = parameters_of(answer);
    const IntegerRow row = integer_model(logits, allowed, parameters, ties, order_of(answer));
    expect_row(row, answer);
    const RealDistribution distribution =
        real_oracle(logits, allowed, parameters, fairdraw_semantics(ties, order_of(answer)));
    EXPECT_EQ(contradiction(row, distribution), "");

    // The oracle's probabilities are compared with a distribution computed in 60 digits over the
    // same support. float64 is off by a relative 2^-51 (|nats| + 4) per weight
    // (ranked_weights.cpp), and by the same amount again in the sum. The largest |nats| of a token
    // with a weight is 745, because float64 underflows below it.
    const double own = 2 * 0x1p-51 * (745 + 4);
    bool same_support = true;
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const bool in_distribution = distribution.membership[id] == Membership::in ||
                                   (distribution.membership[id] == Membership::ambiguous &&
                                    distribution.probability[id] > 0);
      same_support = same_support && in_distribution == (row.mask[id] != 0);
    }
    if (same_support) {
      for (std::size_t id = 0; id < logits.size(); ++id) {
        const double exact = to_double(answer["law"][id]);
        EXPECT_NEAR(distribution.probability[id], exact,
                    own * exact + std::numeric_limits<double>::min());
        if (row.greedy_token >= 0 || row.mask[id] == 0) continue;
        const double most = exact * (1 + written_error(octaves_below(answer, id), logits.size()));
        EXPECT_NEAR(static_cast<double>(row.probability(static_cast<std::int32_t>(id))), exact,
                    most - exact + half_unit(most))
            << id;
      }
    }
    const double normalizer = to_double(answer["log_normalizer"]);
    EXPECT_NEAR(distribution.log_normalizer, normalizer, own + 0x1p-52 * normalizer);
  }
}

TEST(KnownAnswers, Chains) {
  ASSERT_GE(known_answers()["chains"].size(), 10U);
  for (const json& answer : known_answers()["chains"]) {
    SCOPED_TRACE(answer["name"].get<std::string>());
    const ChainOutcome outcome = chain_speculative_model(
        to_floats(answer["draft"]), answer["draft_tokens"].get<std::vector<std::int32_t>>(),
        to_floats(answer["target"]), answer["vocab"].get<std::size_t>(),
        answer["accept_words"].get<std::vector<std::uint64_t>>(),
        answer["recover_words"].get<std::vector<std::uint64_t>>(),
        answer["bonus_word"].get<std::uint64_t>());
    EXPECT_EQ(outcome.status, RowStatus::ok);
    EXPECT_EQ(outcome.tokens, answer["tokens"].get<std::vector<std::int32_t>>());
    EXPECT_EQ(outcome.accepted, answer["accepted"].get<std::int32_t>());
    EXPECT_EQ(outcome.emitted, answer["emitted"].get<std::int32_t>());
  }
}

TEST(KnownAnswers, MinPThreshold) {
  ASSERT_GE(known_answers()["min_p_threshold"].size(), 30U);
  for (const json& answer : known_answers()["min_p_threshold"]) {
    SCOPED_TRACE(answer["min_p"].get<std::string>());
    EXPECT_EQ(min_p_threshold(to_float(answer["min_p"])), to_float(answer["threshold"]));
  }
}

}  // namespace
}  // namespace fairdraw::reference
