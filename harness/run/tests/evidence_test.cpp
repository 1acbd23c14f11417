// Tests the evidence of cases: the numbers behind pictures add up, and the suspected class of bugs
// is that of the sampler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/run/checks/checks.h"
#include "harness/run/evidence/mask_suspects.h"
#include "harness/run/evidence/pictures.h"
#include "harness/run/evidence/suspects.h"
#include "harness/run/tests/case_share.h"
#include "harness/run/tests/mutants.h"

namespace fairdraw::harness {
namespace {

CheckInput input_of(Sampler& sampler, const LogitsSource& logits) {
  CheckInput input;
  input.sampler = &sampler;
  input.semantics = *reference::find_profile("fairdraw");
  input.logits = &logits;
  input.parameters = {{}};
  input.draws = 200'000;
  input.declared_discrepancy = 0.1;
  input.seed = 12;
  input.false_fail_rate = kShare;
  return input;
}

TEST(Profiles, hold_every_draw_once_along_each_axis) {
  CertainDistribution distribution;
  CertainCounts drawn;
  for (int token = 0; token < 1000; ++token) {
    distribution.probability.push_back(token % 3 == 0 ? 0 : (token % 7 + 1) / 1024.0);
    drawn.of_token.push_back(token % 3 == 0 ? 0 : static_cast<std::uint64_t>(token % 5));
    drawn.draws += drawn.of_token.back();
    distribution.support += token % 3 == 0 ? 0U : 1U;
  }
  double sum = 0;
  for (const double probability : distribution.probability) sum += probability;
  for (double& probability : distribution.probability) probability /= sum;
  const std::vector<Profile> profiles = profiles_of(distribution, drawn);
  ASSERT_EQ(profiles.size(), 3u);
  for (const Profile& profile : profiles) {
    double expected = 0, observed = 0;
    std::uint64_t next = 0;
    for (const ProfileBin& bin : profile.bins) {
      EXPECT_GE(bin.first, next) << profile.axis;
      EXPECT_GE(bin.last, bin.first);
      next = bin.last + 1;
      expected += bin.expected;
      observed += bin.observed;
    }
    EXPECT_EQ(observed, static_cast<double>(drawn.draws)) << profile.axis;
    // The number of each bin is rounded to six digits, by at most half a millionth of its value.
    const auto draws = static_cast<double>(drawn.draws);
    EXPECT_NEAR(expected, draws, draws * 5e-6) << profile.axis;
    EXPECT_LE(profile.bins.size(), kMaxPoints);
  }
  EXPECT_EQ(profiles[0].bins.front().first, 0u);
  EXPECT_EQ(profiles[0].bins.back().last, distribution.support - 1);
}

TEST(Profiles, of_one_token_and_of_none) {
  EXPECT_TRUE(profiles_of({{1.0}, 0, 0}, {{0}, 0}).empty());
  const std::vector<Profile> one = profiles_of({{1.0}, 1, 0}, {{7}, 7});
  ASSERT_FALSE(one.empty());
  for (const Profile& profile : one) {
    ASSERT_EQ(profile.bins.size(), 1u);
    EXPECT_EQ(profile.bins[0].observed, 7);
  }
}

TEST(PitEcdf, is_the_distance_from_the_diagonal) {
  // The values are 1/8, 3/8, 5/8, 7/8, so the empirical distribution function is off by 1/8 at each
  // of them.
  const PitEcdf pit = pit_ecdf("x", {0.875, 0.125, 0.625, 0.375}, 2 * std::exp(-8.0));
  EXPECT_EQ(pit.draws, 4u);
  EXPECT_EQ(pit.band, 1);  // sqrt(8 / (2 * 4))
  EXPECT_EQ(pit.distance, 0.125);
  EXPECT_EQ(pit.difference.front(), 0);
  EXPECT_EQ(pit.difference.back(), 0);
  EXPECT_EQ(pit.difference[pit.difference.size() / 2], 0);
  // The first value counts from grid point 8 of 64 on: 1/4 - 1/8.
  EXPECT_EQ(pit.difference[8], 0.125);
}

TEST(Scores, are_normal_and_end) {
  EXPECT_EQ(score_of(1), 0);
  EXPECT_NEAR(score_of(0.05), 1.959964, 5e-6);  // the two-sided 5 % point, to six digits
  EXPECT_GT(score_of(0), 37);
  EXPECT_LT(score_of(0), 38);
}

struct Clue {
  const char* mutant;
  CheckOutcome (*check)(const CheckInput&);
  Family family;
  std::int64_t vocab;
  reference::RowParameters parameters;
  std::int64_t rows;
  const char* bug;  ///< the bug that the first suspected cause must name
};

void PrintTo(const Clue& clue, std::ostream* out) { *out << clue.mutant; }

class EveryClue : public testing::TestWithParam<Clue> {};

TEST_P(EveryClue, PointsToTheBug) {
  const Clue& clue = GetParam();
  const auto sampler = make_mutant(clue.mutant);
  const auto logits = family_source(clue.family, 20, clue.vocab, DType::float32);
  CheckInput input = input_of(*sampler, *logits);
  input.parameters = {clue.parameters};
  input.rows = clue.rows;
  CheckOutcome outcome = clue.check(input);
  ASSERT_TRUE(outcome.failed()) << outcome.message;
  add_suspects("chi_squared", outcome);
  ASSERT_FALSE(outcome.evidence.suspects.empty());
  EXPECT_EQ(outcome.evidence.suspects.front().bug, clue.bug)
      << outcome.evidence.suspects.front().reason;
  EXPECT_FALSE(outcome.evidence.observed.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Mutants, EveryClue,
    testing::Values(Clue{"one lane of 16 never drawn",
                         check_chi_squared,
                         Family::gaussian,
                         200,
                         {},
                         1,
                         "lost tokens: a lane is never drawn"},
                    Clue{"one lane of 16 never drawn",
                         check_bets,
                         Family::gaussian,
                         200,
                         {},
                         1,
                         "lost tokens: a lane is never drawn"},
                    Clue{"temperature 1.05 times too high",
                         check_chi_squared,
                         Family::gaussian,
                         200,
                         {},
                         1,
                         "temperature: the distribution is too flat"},
                    Clue{"tail beyond rank 1000 never drawn",
                         check_chi_squared,
                         Family::zipf,
                         4096,
                         {},
                         1,
                         "truncation: the tail is cut off"},
                    Clue{"crossing token dropped",
                         check_mask,
                         Family::gaussian_wide,
                         500,
                         {.top_p = 0.9F},
                         4,
                         "definition of mass exactly at top_p: inclusive_mass_at_most_p"},
                    Clue{"ties at k dropped",
                         check_mask,
                         Family::ties_at_k,
                         500,
                         {.top_k = 50},
                         4,
                         "definition of ties with the k-th largest: lowest_id"}));

TEST(Suspects, a_wrong_token_is_explained_by_the_seed_that_gives_it) {
  const auto sampler = make_mutant("first seed for all outputs");
  const auto logits = family_source(Family::gaussian, 20, 500, DType::float32);
  CheckInput input = input_of(*sampler, *logits);
  input.rows = 8;
  input.draws = 8;
  CheckOutcome outcome = check_tokens(input);
  ASSERT_TRUE(outcome.failed());
  add_suspects("tokens", outcome);
  EXPECT_EQ(outcome.evidence.suspects.front().bug, "shared random bits");
  EXPECT_NE(outcome.evidence.suspects.front().reason.find("seed of the first one"),
            std::string::npos);
  EXPECT_NE(outcome.evidence.smallest.find("alone in a call the token is right"),
            std::string::npos);
  EXPECT_TRUE(outcome.evidence.observed.starts_with("token "));
}

// Returns the right masks for a request.
Response masks_of(const Request& request, const CheckInput& input) {
  Response response;
  const auto words = static_cast<std::size_t>(words_for(request.vocab));
  response.mask.assign(static_cast<std::size_t>(request.rows) * words, 0);
  for (std::int64_t row = 0; row < request.rows; ++row) {
    const reference::RealDistribution distribution = distribution_of(input, request, row);
    for (std::size_t id = 0; id < distribution.membership.size(); ++id) {
      if (distribution.membership[id] != reference::Membership::in) continue;
      response.mask[static_cast<std::size_t>(row) * words + id / 32] |= 1U << (id % 32);
    }
  }
  return response;
}

TEST(Suspects, wrong_masks_are_explained_by_the_parameter_that_gives_them) {
  ModelSampler sampler;
  const auto logits = family_source(Family::gaussian, 20, 1000, DType::float32);
  CheckInput input = input_of(sampler, *logits);
  input.rows = 16;
  input.parameters = {{.temperature = 0.7F, .top_p = 0.9F}, {.temperature = 0.7F, .top_k = 50}};
  struct {
    const char* bug;
    void (*change)(reference::RowParameters&);
  } const mistakes[] = {
      {"temperature: 1 % larger", [](reference::RowParameters& one) { one.temperature *= 1.01F; }},
      {"temperature: ignored", [](reference::RowParameters& one) { one.temperature = 1; }},
      {"top_k: one more", [](reference::RowParameters& one) { one.top_k += one.top_k > 0; }},
      {"top_p: 1 % smaller", [](reference::RowParameters& one) { one.top_p *= 1 / 1.01F; }},
  };
  const Request asked = make_request(input, 0, input.rows);
  for (const auto& mistake : mistakes) {
    Request read = asked;
    for (reference::RowParameters& one : read.parameters) mistake.change(one);
    CheckOutcome outcome;
    EXPECT_TRUE(note_mask_mistakes(input, asked, masks_of(read, input), outcome));
    ASSERT_FALSE(outcome.evidence.suspects.empty()) << mistake.bug;
    EXPECT_EQ(outcome.evidence.suspects.front().bug, mistake.bug);
  }
  CheckOutcome right;
  EXPECT_FALSE(note_mask_mistakes(input, asked, masks_of(asked, input), right));
  EXPECT_TRUE(right.evidence.suspects.empty());
}

TEST(Suspects, nobody_is_suspected_where_nothing_failed) {
  ModelSampler sampler;
  const auto logits = family_source(Family::gaussian, 20, 200, DType::float32);
  CheckOutcome outcome = check_chi_squared(input_of(sampler, *logits));
  ASSERT_STREQ(to_string(outcome.verdict), "passed");
  add_suspects("chi_squared", outcome);
  EXPECT_TRUE(outcome.evidence.suspects.empty());
  EXPECT_EQ(outcome.evidence.profiles.size(), 3u);
  ASSERT_TRUE(outcome.evidence.effect.has_value());
  EXPECT_LE(outcome.evidence.effect->low, outcome.evidence.effect->value);
  ASSERT_TRUE(outcome.evidence.power.has_value());
  // The power curve decreases, and passes through the case's own discrepancy, rounded to six
  // digits.
  const std::vector<PowerPoint>& curve = outcome.evidence.power->curve;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    EXPECT_LT(curve[i].min_discrepancy, curve[i - 1].min_discrepancy);
  }
  EXPECT_GE(curve[curve.size() / 2].min_discrepancy, *outcome.min_discrepancy * (1 - 5e-6));
}

TEST(Bounds, red_cases_keep_their_pictures_first) {
  std::vector<CaseRecord> cases(4);
  for (CaseRecord& one : cases) {
    one.verdict = Verdict::passed;
    one.evidence.pit.resize(1);
    one.evidence.pit[0].difference.resize(kMaxRunPoints / 2);
    one.evidence.observed = "kept";
  }
  cases[3].verdict = Verdict::failed;
  keep_evidence_within_bounds(cases);
  EXPECT_EQ(cases[0].evidence.pit.size(), 1u);
  EXPECT_TRUE(cases[1].evidence.pit.empty());
  EXPECT_TRUE(cases[2].evidence.pit.empty());
  EXPECT_EQ(cases[3].evidence.pit.size(), 1u);
  EXPECT_EQ(cases[2].evidence.observed, "kept");
}

}  // namespace
}  // namespace fairdraw::harness
