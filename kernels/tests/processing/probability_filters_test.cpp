// The filters by probability are tested by hand, on rows whose probabilities and entropies the
// comments have, and against a judgement in real numbers on random rows.
#include "reference/probability_filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/processing_arrays.h"
#include "tests/processing/kept_tokens.h"

namespace fairdraw::suites {
namespace {

using reference::Membership;

RowProcessing typical(float share) {
  RowProcessing row;
  row.typical_p = share;
  return row;
}
RowProcessing epsilon(float cutoff) {
  RowProcessing row;
  row.epsilon_cutoff = cutoff;
  return row;
}
RowProcessing eta(float cutoff) {
  RowProcessing row;
  row.eta_cutoff = cutoff;
  return row;
}
RowProcessing p_less() {
  RowProcessing row;
  row.p_less = 1;
  return row;
}

RowProcessing top_h(float share) {
  RowProcessing row;
  row.top_h = share;
  return row;
}
RowProcessing xtc(float threshold, float probability = 1) {
  RowProcessing row;
  row.xtc_probability = probability;
  row.xtc_threshold = threshold;
  return row;
}

// In bits, the surprises are 1, 2, 3 and 3, and H = 1/2 + 2/4 + 3/8 + 3/8 = 7/4. So |-log p - H| is
// 3/4, 1/4, 5/4 and 5/4, and the masses in this order are 1/4, 3/4, 1 and 1.
TEST(ProbabilityFilters, TypicalPKeepsWhatIsNearestToTheEntropy) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  EXPECT_EQ(kept(logits, typical(0)), Ids({1}));
  EXPECT_EQ(kept(logits, typical(-0.0F)), Ids({1}));
  EXPECT_EQ(kept(logits, typical(0.24F)), Ids({1}));
  EXPECT_EQ(kept(logits, typical(0.26F)), Ids({0, 1})) << "the token that reaches the mass stays";
  EXPECT_EQ(kept(logits, typical(0.74F)), Ids({0, 1}));
  EXPECT_EQ(kept(logits, typical(0.76F)), Ids({0, 1, 2, 3})) << "ties stay";
  EXPECT_EQ(kept(logits, typical(1)), Ids({0, 1, 2, 3}));
}

TEST(ProbabilityFilters, EpsilonCutoffKeepsProbabilitiesThatReachIt) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  EXPECT_EQ(kept(logits, epsilon(0.12F)), Ids({0, 1, 2, 3}));
  EXPECT_EQ(kept(logits, epsilon(0.13F)), Ids({0, 1}));
  EXPECT_EQ(kept(logits, epsilon(0.26F)), Ids({0}));
  EXPECT_EQ(kept(logits, epsilon(0.51F)), Ids({0})) << "the largest stays";
  EXPECT_EQ(kept(logits, epsilon(1)), Ids({0}));
  EXPECT_EQ(kept({5, 5, 1}, epsilon(1)), Ids({0, 1})) << "and its ties";
}

TEST(ProbabilityFilters, EpsilonCutoffKeepsWhatLiesAtTheThreshold) {
  const std::vector<float> logits = {0, kLn2, 0};  // 1/4, 1/2, 1/4
  EXPECT_EQ(kept(logits, epsilon(0.25F)), Ids({0, 1, 2}));
  EXPECT_EQ(kept(logits, epsilon(std::nextafter(0.25F, 1.0F))), Ids({1}));
}

// exp(-104) is 6.8e-46, and exp(-100) 3.7e-44; 2^-149 is 1.4e-45.
TEST(ProbabilityFilters, EpsilonCutoffReachesTheSmallestFloat) {
  EXPECT_EQ(kept({0, -100, -104, -1e38F}, epsilon(0x1p-149F)), Ids({0, 1}));
}

// H is 7/4 bits, so exp(-H) = 2^(-7/4) = 0.29730. The square roots of 0.2 and 0.17 are 0.44721 and
// 0.41231, so the products are 0.13296 and 0.12258.
TEST(ProbabilityFilters, EtaCutoffFallsWithTheEntropy) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  EXPECT_EQ(kept(logits, eta(0.2F)), Ids({0, 1}));
  EXPECT_EQ(kept(logits, eta(0.17F)), Ids({0, 1, 2, 3}));
  EXPECT_EQ(kept(logits, eta(1)), Ids({0})) << "0.297 is more than 1/4";
  // H = 0.15383 and exp(-H) = 0.85742, so that 0.015 is smaller than 0.12247 * 0.85742.
  EXPECT_EQ(kept(logits_of({0.97, 0.02, 0.01}), eta(0.015F)), Ids({0, 1}));
  EXPECT_EQ(kept(logits_of({0.97, 0.02, 0.01}), eta(0.009F)), Ids({0, 1, 2}));
}

// The sums of squares are 0.16 + 0.1225 + 0.0625 = 0.345 and 0.16 + 0.09 + 0.09 = 0.34.
TEST(ProbabilityFilters, PLessKeepsWhatReachesTheCollisionProbability) {
  EXPECT_EQ(kept(logits_of({0.4, 0.35, 0.25}), p_less()), Ids({0, 1}));
  EXPECT_EQ(kept(logits_of({0.3, 0.4, 0.3}), p_less()), Ids({1}));
}

// H is 7/4 bits. Alone, the first two tokens have 2/3 and 1/3, with log2(3) - 2/3 = 0.91830 bits,
// which is 0.52474 H.
TEST(ProbabilityFilters, TopHLimitsTheEntropyOfWhatStays) {
  const std::vector<float> logits = logits_of({0.125, 0.5, 0.125, 0.25});
  EXPECT_EQ(kept(logits, top_h(0)), Ids({1}));
  EXPECT_EQ(kept(logits, top_h(0.52F)), Ids({1}));
  EXPECT_EQ(kept(logits, top_h(0.53F)), Ids({1, 3}));
  EXPECT_EQ(kept(logits, top_h(std::nextafter(1.0F, 0.0F))), Ids({1, 3})) << "ties go together";
  EXPECT_EQ(kept(logits, top_h(1)), Ids({0, 1, 2, 3}));
  EXPECT_EQ(kept({5, 5, 1}, top_h(0)), Ids({0, 1})) << "the largest stays, and its ties";
  EXPECT_EQ(kept({5}, top_h(0)), Ids({0}));
  EXPECT_EQ(kept({0, -1e30F}, top_h(0)), Ids({0, 1})) << "the second token has no entropy";
}

TEST(ProbabilityFilters, XtcExcludesTheTopChoicesButTheLeastProbable) {
  const std::vector<float> logits = logits_of({0.125, 0.5, 0.125, 0.25});
  EXPECT_EQ(kept(logits, xtc(0.6F)), Ids({0, 1, 2, 3})) << "none reaches the threshold";
  EXPECT_EQ(kept(logits, xtc(0.4F)), Ids({0, 1, 2, 3})) << "one reaches it";
  EXPECT_EQ(kept(logits, xtc(0.2F)), Ids({0, 2, 3}));
  EXPECT_EQ(kept(logits, xtc(0.12F)), Ids({0, 2})) << "ties stay";
  EXPECT_EQ(kept(logits, xtc(0)), Ids({0, 2}));
  EXPECT_EQ(kept(logits, xtc(0.2F, 0)), Ids({0, 1, 2, 3}));
  EXPECT_EQ(kept({0, 0, kLn2}, xtc(0.25F)), Ids({0, 1})) << "1/4 reaches 1/4";
}

// reference/known_answers/philox.py has the coins: the upper halves of the words with the counter
// {length, 0, 5, 0}, divided by 2^32.
TEST(ProbabilityFilters, TheCoinOfXtcFollowsSeedAndLength) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.25});
  const std::vector<std::pair<std::uint64_t, std::vector<double>>> coins = {
      {0, {0.665, 0.107, 0.954, 0.315, 0.932, 0.146, 0.546, 0.971}},
      {7, {0.891, 0.068, 0.939, 0.818, 0.332, 0.347, 0.473, 0.762}},
      {(std::uint64_t{1} << 63) + 5, {0.219, 0.927, 0.979, 0.927, 0.349, 0.325, 0.196, 0.478}}};
  for (const auto& [seed, of_length] : coins) {
    for (std::size_t length = 0; length < of_length.size(); ++length) {
      for (const double aside : {-0.001, 0.001}) {  // three digits of the coin are known
        RowProcessing row = xtc(0.2F, static_cast<float>(of_length[length] + aside));
        row.xtc_seed = seed;
        row.output_length = static_cast<std::int32_t>(length);
        EXPECT_EQ(kept(logits, row), aside < 0 ? Ids({0, 1, 2}) : Ids({1, 2})) << length;
      }
    }
  }
}

// The sum of squares of n equal probabilities is 1 / n, which is the probability itself.
TEST(ProbabilityFilters, EqualLogitsStay) {
  for (const std::size_t n : {1U, 3U, 7U, 100U, 1000U, 77777U}) {
    for (const float x : {0.0F, -3.7F, 0.3F, 1e30F}) {
      const std::vector<float> logits(n, x);
      for (const RowProcessing& row :
           {typical(0.5F), epsilon(0.9F), eta(0.9F), p_less(), top_h(0.9F), xtc(0)}) {
        EXPECT_EQ(kept(logits, row).size(), n) << x;
      }
    }
  }
}

// A banned token has the probability 0, and 0 ln 0 is 0. The rest is as in the tests above.
TEST(ProbabilityFilters, BannedTokensDoNotCount) {
  std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  logits.insert(logits.begin() + 1, kBanned);
  logits.push_back(100);
  for (auto& [row, expected] : std::vector<std::pair<RowProcessing, Ids>>{{typical(0.24F), {2}},
                                                                          {epsilon(0.13F), {0, 2}},
                                                                          {eta(0.2F), {0, 2}},
                                                                          {p_less(), {0}},
                                                                          {top_h(0.53F), {0, 2}},
                                                                          {xtc(0.2F), {2, 3, 4}}}) {
    row.biases = {{5, kBanned}};
    EXPECT_EQ(kept(logits, row), expected);
  }
}

TEST(ProbabilityFilters, EachFilterSeesWhatTheOneBeforeLeft) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  RowProcessing row = typical(0.26F);  // leaves 2/3 and 1/3
  row.epsilon_cutoff = 0.3F;
  EXPECT_EQ(kept(logits, row), Ids({0, 1}));
  row.epsilon_cutoff = 0.34F;
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row.epsilon_cutoff = 0;
  row.p_less = 1;  // 4/9 + 1/9 is more than 1/3
  EXPECT_EQ(kept(logits, row), Ids({0}));
  row.typical_p = 0.24F;  // leaves one token, which is not the largest
  row.eta_cutoff = 1;
  EXPECT_EQ(kept(logits, row), Ids({1}));
  // Distances of 0, ln 2, ln 4 and ln 4 have the mean 0.866 and sigma 0.574, so that one sigma
  // leaves token 0 alone, and 1.3 sigma the first two.
  row = typical(0.5F);
  row.top_n_sigma = 1.3F;  // 2/3 and 1/3: H is 0.918 bits, token 0 is nearer with 0.585
  EXPECT_EQ(kept(logits, row), Ids({0}));
}

TEST(ProbabilityFilters, TheTemperatureComesLater) {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.125, 0.125});
  const RowProcessing row = typical(0.24F);
  SampleRequest request;
  for (const float temperature : {0.0F, 0.1F, 100.0F}) {
    request.temperature = temperature;
    const OneDraw drawn = draw_from(logits, row, request);
    EXPECT_EQ(drawn.token, 1);
    EXPECT_EQ(drawn.support, 1);
  }
}

TEST(ProbabilityFilters, ValuesBeyondTheirRangesFail) {
  const float below = -std::numeric_limits<float>::denorm_min();
  for (const float bad : {std::nanf(""), below, -1.0F, std::nextafter(1.0F, 2.0F), kInfinity}) {
    for (const RowProcessing& row :
         {typical(bad), epsilon(bad), eta(bad), top_h(bad), xtc(bad), xtc(0.1F, bad)}) {
      EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter) << bad;
    }
  }
  for (const std::int32_t bad : {-1, 2}) {
    RowProcessing row;
    row.p_less = bad;
    EXPECT_EQ(process({0, 1}, row).status, RowStatus::invalid_probability_filter) << bad;
  }
}

TEST(ProbabilityFilters, ExtremeLogitsAreFiltered) {
  const float largest = std::numeric_limits<float>::max();
  for (const RowProcessing& row : {typical(0.6F), epsilon(0.5F), eta(0.5F), p_less()}) {
    EXPECT_EQ(kept({-largest, largest}, row), Ids({1}));
    EXPECT_EQ(kept({0x1p-149F, 0}, row).size(), 2U) << "the probabilities are equal";
  }
  RowProcessing row = p_less();
  row.biases = {{0, kBanned}, {1, kBanned}};
  EXPECT_EQ(process({0, 1}, row).status, RowStatus::no_allowed_token);
}

// --- Other arithmetics ---------------------------------------------------------------------------

bool is_undecided(const std::vector<float>& probabilities, const RowProcessing& row) {
  std::vector<float> logits;
  for (const float p : probabilities) logits.push_back(std::log(p));
  const reference::FilterBound bound = reference::float32_filter_bound(logits.size());
  return reference::process_row(logits, {}, row, &bound).undecided;
}

RowProcessing chain(std::initializer_list<FilterStep> steps) {
  RowProcessing row;
  row.filter_chain = filter_chain_of(steps);
  row.chain_top_k = 2;
  row.chain_top_p = 0.65F;
  row.chain_min_p = 0.3F;
  row.xtc_probability = 1;
  return row;
}

TEST(ProbabilityFilters, RowsThatRoundingMayDecideAreNamed) {
  const std::vector<float> falling = {0.4F, 0.3F, 0.2F, 0.1F};
  for (const RowProcessing& row :
       {RowProcessing{}, epsilon(0.15F), xtc(0.15F), top_h(0.7F), typical(0.55F)}) {
    EXPECT_FALSE(is_undecided(falling, row));
  }
  // The cutoff is the probability of a token, or the share of the mass of some.
  EXPECT_TRUE(is_undecided(falling, epsilon(0.2F)));
  EXPECT_TRUE(is_undecided(falling, xtc(0.2F)));
  RowProcessing at_the_mass = chain({FilterStep::top_p});
  at_the_mass.chain_top_p = 0.7F;
  EXPECT_TRUE(is_undecided(falling, at_the_mass));
}

TEST(ProbabilityFilters, RowsWhoseTiesASortMaySplitAreNamed) {
  const std::vector<float> ties = {0.4F, 0.2F, 0.2F, 0.2F};
  EXPECT_TRUE(is_undecided(ties, chain({FilterStep::top_k})));
  EXPECT_TRUE(is_undecided(ties, chain({FilterStep::top_p})));
  EXPECT_TRUE(is_undecided(ties, typical(0.3F)));
  EXPECT_TRUE(is_undecided({0.4F, 0.4F, 0.2F}, xtc(0.3F)));
  // All others keep or drop ties together, and the first step leaves no ties to the second.
  EXPECT_FALSE(is_undecided(ties, chain({FilterStep::min_p})));
  EXPECT_FALSE(is_undecided(ties, epsilon(0.3F)));
  RowProcessing one = chain({FilterStep::top_k, FilterStep::typical_p});
  one.chain_top_k = 1;
  one.typical_p = 0.3F;
  EXPECT_FALSE(is_undecided(ties, one));
}

// --- Random rows ---------------------------------------------------------------------------------

std::string tokens_that_differ(const std::vector<float>& logits, const RowProcessing& row,
                               std::size_t& decided, std::size_t& ambiguous) {
  const std::vector<Membership> memberships = reference::judge_filter(logits, row);
  const Processed processed = process(logits, row);
  std::string differ;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == kBanned) continue;
    ++(memberships[id] == Membership::ambiguous ? ambiguous : decided);
    if (memberships[id] == Membership::ambiguous) continue;
    const bool stays = processed.logits[id] != kBanned;
    if (stays != (memberships[id] == Membership::in)) {
      differ += " " + std::to_string(id) + (stays ? " stays" : " is banned");
    }
  }
  return differ;
}

TEST(ProbabilityFilters, RandomRowsAreFilteredAsInRealNumbers) {
  constexpr std::array<float, 8> kShares = {0.05F, 0.2F, 0.5F, 0.6F, 0.9F, 0.95F, 0.99F, 0.999F};
  constexpr std::array<float, 8> kCutoffs = {3e-4F, 1e-3F, 6e-4F, 0.01F, 0.05F, 0.2F, 0.5F, 1e-10F};
  constexpr std::array<float, 4> kTemperatures = {0.5F, 0.7F, 1, 2};
  constexpr std::array<std::int32_t, 4> kTopK = {1, 3, 20, 100};
  std::mt19937_64 random(41);
  constexpr std::size_t kKinds = 9;
  std::array<std::size_t, kKinds> decided{}, ambiguous{}, dropped{};
  for (int number = 0; number < 12000; ++number) {
    const std::vector<float> logits = random_logits(random);
    const std::size_t kind = static_cast<std::size_t>(number) % kKinds;
    const float share = kShares[random() % kShares.size()];
    const float cutoff = kCutoffs[random() % kCutoffs.size()];
    RowProcessing row = kind == 0   ? typical(share)
                        : kind == 1 ? epsilon(cutoff)
                        : kind == 2 ? eta(cutoff)
                        : kind == 3 ? p_less()
                        : kind == 4 ? top_h(share)
                                    : xtc(cutoff, kind == 5 ? 1 : 0);
    constexpr std::array<FilterStep, kKinds> kSteps = {
        FilterStep::typical_p, FilterStep::epsilon_cutoff, FilterStep::eta_cutoff,
        FilterStep::p_less,    FilterStep::top_h,          FilterStep::xtc,
        FilterStep::top_k,     FilterStep::top_p,          FilterStep::min_p};
    if (kind > 5 || random() % 2 == 0) {
      row.filter_chain = filter_chain_of({FilterStep::temperature, kSteps[kind]});
      row.chain_temperature = kTemperatures[random() % kTemperatures.size()];
      row.chain_top_k = kTopK[random() % kTopK.size()];
      row.chain_top_p = share;
      row.chain_min_p = cutoff;
    }
    EXPECT_EQ(tokens_that_differ(logits, row, decided[kind], ambiguous[kind]), "")
        << "row " << number << ", filter " << kind << ", " << share << ", " << cutoff;
    dropped[kind] +=
        static_cast<std::size_t>(std::ranges::count(process(logits, row).logits, kBanned));
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    // One of six spreads is 40. Most of these rows have so little entropy that the steps of
    // weights, 2^-55 of the largest one, leave their tokens below the first ambiguous for top_h. At
    // the temperatures 0.5 and 0.7, the same is true of more rows.
    const std::size_t decided_at_least = kind == 4 ? 30 : 1000;
    EXPECT_GT(decided[kind], decided_at_least * ambiguous[kind]) << kind;
    EXPECT_GT(dropped[kind], 10000U) << kind;
  }
}

/// Returns a parameter that lies 2^-24 to 2^-17 beside a value at which a token changes sides: the
/// token's probability, or the mass that is nearer to the entropy.
float near_a_boundary(const std::vector<float>& logits, bool of_mass, std::mt19937_64& random) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<std::pair<double, double>> tokens;  // offsets from the mean logit, probabilities
  double total = 0, mean = 0;
  for (const float x : logits) {
    if (x == kBanned) continue;
    tokens.emplace_back(largest - x, std::exp(x - largest));
    total += tokens.back().second;
    mean += tokens.back().first * tokens.back().second;
  }
  for (auto& [offset, probability] : tokens) {
    offset = std::abs(offset - mean / total);
    probability /= total;
  }
  std::ranges::sort(tokens);
  const std::size_t chosen = random() % tokens.size();
  double value = tokens[chosen].second;
  for (std::size_t i = 0; of_mass && i < chosen; ++i) value += tokens[i].second;
  const double beside = std::ldexp(1, -17 - static_cast<int>(random() % 8));
  value *= random() % 2 == 0 ? 1 + beside : 1 - beside;
  return std::min(static_cast<float>(value), 1.0F);
}

TEST(ProbabilityFilters, TokensNearABoundaryAreFilteredAsInRealNumbers) {
  std::mt19937_64 random(42);
  std::size_t decided = 0, ambiguous = 0;
  for (int number = 0; number < 2000; ++number) {
    const std::vector<float> logits = random_logits(random);
    const bool of_mass = number % 2 == 0;
    const float value = near_a_boundary(logits, of_mass, random);
    EXPECT_EQ(
        tokens_that_differ(logits, of_mass ? typical(value) : epsilon(value), decided, ambiguous),
        "")
        << "row " << number << ", " << value;
  }
  EXPECT_GT(decided, 10 * ambiguous);
}

}  // namespace
}  // namespace fairdraw::suites
