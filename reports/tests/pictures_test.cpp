#include "reports/pictures/pictures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reports/tests/evidence_samples.h"

namespace fairdraw::reports::pictures {
namespace {

const std::string kDiamond = "<path class=\"outside\"";

harness::CaseRecord find_case(const std::string& check) {
  for (const harness::CaseRecord& one : evidence_record().cases) {
    if (one.check == check && has_something(one.evidence)) return one;
  }
  return {};
}

TEST(Residuals, one_picture_an_axis_and_the_bad_bin_in_words) {
  const std::string html = residuals(find_case("binomial").evidence.profiles);
  EXPECT_EQ(count_of(html, "<svg role=\"img\""), 3u);
  // Lane 31 is never drawn: 31250 draws are missing, whose deviation is sqrt(31250 * 31 / 32), 174.
  EXPECT_NE(html.find("Farthest off: lane (id modulo 32) 31: observed 0, expected 31250, -180 "
                      "standard deviations"),
            std::string::npos);
}

TEST(Residuals, a_draw_where_none_may_be_is_outside) {
  const harness::Profile profile{"id", 0, 200, {{0, 0, 100, 99}, {1, 1, 100, 100}, {2, 2, 0, 1}}};
  EXPECT_EQ(count_of(residuals({profile}), kDiamond), 1u);
}

TEST(Pit, a_curve_that_leaves_its_band_is_told) {
  harness::PitEcdf ecdf{"by id", 1000, 0.1, 0.05, {0, 0.05, 0}};
  EXPECT_NE(pit(ecdf).find("stays within"), std::string::npos);
  ecdf.distance = ecdf.difference[1] = 0.11;
  EXPECT_NE(pit(ecdf).find("leaves"), std::string::npos);
}

TEST(Growth, evidence_at_the_line_decides) {
  harness::Growth one{"tiles", 12, {{0, 0}, {1000, 11.9}}};
  EXPECT_NE(growth(one).find("stays below"), std::string::npos);
  one.points.push_back({2000, 12});
  EXPECT_NE(growth(one).find("reaches"), std::string::npos);
}

TEST(Qq, uniform_p_values_lie_within_the_band) {
  // Fractions of multiples of the golden ratio are spread more evenly than chance would.
  EXPECT_EQ(count_of(qq(green_record(2500)), kDiamond), 0u);
  EXPECT_NE(qq(green_record(2500)).find("No point lies above"), std::string::npos);
}

TEST(Qq, the_band_at_the_smallest_of_m_is_where_its_probability_says) {
  // Of one p value both edges solve KL = log(40): for the upper, i = 1 = m and log(1 / x) = log 40,
  // so x = 1/40, which is also exact: a uniform number is below it with probability 0.05 / 2.
  harness::RunRecord record = green_record(1);
  record.cases[0].p_value = 0.0251;
  EXPECT_EQ(count_of(qq(record), kDiamond), 0u);
  record.cases[0].p_value = 0.0249;
  EXPECT_EQ(count_of(qq(record), kDiamond), 1u);
}

TEST(Qq, without_a_p_value_there_is_no_picture) {
  EXPECT_EQ(qq(harness::RunRecord()), "");
  EXPECT_EQ(power(harness::RunRecord()), "");
  EXPECT_EQ(conformance({}), "");
}

TEST(Dependence, cells_beyond_the_bound_are_marked) {
  const std::string html = dependence(find_case("streams").evidence.dependence[0]);
  EXPECT_EQ(count_of(html, "<rect"), 64u);
  EXPECT_EQ(count_of(html, "beyond\" x="), 2u * 2);  // a cell and its sign, rows 2 and 5
  EXPECT_NE(html.find("Farthest: row 2 and row 5, z +31"), std::string::npos);
}

TEST(Boundary, what_contradicts_the_oracle_is_wrong) {
  harness::Boundary table{0, "top_p 0.9", {}};
  const auto add = [&table](harness::Oracle oracle, std::optional<bool> kept,
                            std::optional<std::uint64_t> drawn) {
    table.tokens.push_back({table.tokens.size(), 0, 0, 0, oracle, kept, drawn});
  };
  add(harness::Oracle::in, true, std::nullopt);
  add(harness::Oracle::ambiguous, true, 3);
  add(harness::Oracle::out, false, 0);
  add(harness::Oracle::in, std::nullopt, 0);  // not drawn: chance may do that
  EXPECT_EQ(count_of(boundary(table), "wrong"), 0u);
  add(harness::Oracle::in, false, std::nullopt);
  add(harness::Oracle::out, true, std::nullopt);
  add(harness::Oracle::out, std::nullopt, 1);
  EXPECT_EQ(count_of(boundary(table), "<tr class=\"wrong\">"), 3u);
}

TEST(KillMatrix, names_the_survivors) {
  const std::string html = kill_matrix(sample_extras().mutants);
  EXPECT_NE(html.find("2 of 3 wrong samplers were found. Survivors: too-subtle."),
            std::string::npos);
}

TEST(Conformance, a_red_case_makes_its_cell_red) {
  harness::RunRecord record = green_record(30);
  EXPECT_NE(conformance({&record}).find("2 of 2 samplers pass"), std::string::npos);
  record.cases[1].verdict = harness::Verdict::error;
  EXPECT_NE(conformance({&record}).find("1 of 2 samplers pass"), std::string::npos);
}

TEST(Benchmark, the_row_farthest_from_its_floor_is_named) {
  EXPECT_NE(
      benchmark_bars(benchmark_rows()).find("Farthest from it: softmax on scalar, 47.5 times"),
      std::string::npos);
}

harness::Boundary mask_of(std::string filters, const std::vector<double>& probabilities,
                          std::size_t must, std::size_t kept) {
  harness::Boundary boundary{3, std::move(filters), {}};
  double sum = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double before = sum;
    sum += probabilities[i];
    boundary.tokens.push_back({100 + i, -0.5 * static_cast<double>(i), before, sum,
                               i < must ? harness::Oracle::in : harness::Oracle::out, i < kept,
                               std::nullopt});
  }
  return boundary;
}

TEST(MaskBar, has_the_line_of_p_and_the_wrong_token) {
  const harness::Boundary dropped =
      mask_of("temperature 1, top_k 0, top_p 0.7, min_p 0", {0.4, 0.2, 0.2, 0.2}, 3, 2);
  // A fifth of the picture, of a quarter that is wide enough, and the line at 0.7 of it.
  EXPECT_NEAR(clarity_of_mask(dropped), 0.5 * 0.2 / 0.25 + 0.5 * 4 * 0.7 * 0.3, 1e-12);
  const std::string bar = mask_bar(dropped);
  EXPECT_NE(bar.find(">top_p 0.7</text>"), std::string::npos) << bar;
  EXPECT_NE(bar.find("3 must be kept; the sampler keeps 2. Wrong: token 102, of probability 0.2, "
                     "is dropped."),
            std::string::npos)
      << bar;
  EXPECT_EQ(count_of(bar, "<rect class=\"wrong\""), 1U);
  EXPECT_EQ(count_of(bar, "<rect class=\"in\""), 3U + 2U);
  const harness::Boundary right =
      mask_of("temperature 1, top_k 0, top_p 0.7, min_p 0", {0.4, 0.2, 0.2, 0.2}, 3, 3);
  EXPECT_EQ(clarity_of_mask(right), 0);
  EXPECT_NE(mask_bar(right).find("None is wrong."), std::string::npos);
}

TEST(MaskBar, where_other_filters_come_first_the_line_is_where_the_reference_cuts) {
  const std::string bar =
      mask_bar(mask_of("temperature 1, top_k 3, top_p 0.9, min_p 0", {0.4, 0.2, 0.2, 0.2}, 3, 3));
  EXPECT_EQ(bar.find("top_p 0.9</text>"), std::string::npos);
  EXPECT_NE(bar.find(">the filters cut here</text>"), std::string::npos) << bar;
}

TEST(MaskBar, a_wrong_token_beside_a_likely_one_is_not_a_sliver) {
  // A thousandth of the mass that is there, and a ninth without the likely token.
  const harness::Boundary boundary = mask_of("temperature 1, top_k 4, top_p 1, min_p 0",
                                             {0.99, 0.004, 0.003, 0.001, 0.001, 0.001}, 3, 4);
  const std::string bar = mask_bar(boundary);
  EXPECT_NE(bar.find("Wrong: token 103"), std::string::npos) << bar;
  EXPECT_EQ(bar.find("<title>token 100:"), std::string::npos) << bar;
  EXPECT_NE(bar.find("<title>token 102:"), std::string::npos) << bar;
}

TEST(MaskBar, without_a_width_there_is_none) {
  EXPECT_EQ(mask_bar(harness::Boundary()), "");
  EXPECT_EQ(mask_bar(mask_of("", {0, 0, 0}, 1, 2)), "");
  EXPECT_EQ(mask_bar(mask_of("", {NAN, INFINITY, -1e308}, 1, 2)), "");
}

}  // namespace
}  // namespace fairdraw::reports::pictures
