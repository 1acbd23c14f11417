#include "reports/tests/evidence_samples.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace fairdraw::reports {
namespace {

using harness::CaseRecord;
using harness::Evidence;
using harness::Profile;
using harness::Verdict;

/// Returns noise between -1 and 1 that is the same on every machine: fractional parts of multiples
/// of the golden ratio.
double noise(std::size_t i) {
  const double golden = 0.6180339887498949 * static_cast<double>(i + 1);
  return 2 * (golden - std::floor(golden)) - 1;
}

/// Returns a profile with `expected` counts per bin. The observed counts have noise of about one
/// standard deviation, and are multiplied by `wrong(bin)`.
template <class Wrong>
Profile made_profile(std::string axis, std::uint64_t modulus, std::vector<double> expected,
                     Wrong wrong) {
  Profile profile{std::move(axis), modulus, 1'000'000, {}};
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::uint64_t width = profile.axis == "rank" ? 1 + i * i / 8 : 1;
    const double observed =
        std::round((expected[i] + 1.2 * noise(i) * std::sqrt(expected[i])) * wrong(i));
    profile.bins.push_back({first, first + width - 1, expected[i], std::max(0.0, observed)});
    first += width;
  }
  return profile;
}

std::vector<double> falling(std::size_t bins) {
  std::vector<double> expected;
  for (std::size_t i = 0; i < bins; ++i)
    expected.push_back(200'000 * std::exp(-0.2 * static_cast<double>(i)));
  return expected;
}

std::vector<double> level(std::size_t bins) {
  return std::vector<double>(bins, 1e6 / static_cast<double>(bins));
}

std::vector<harness::PowerPoint> power_curve() {
  std::vector<harness::PowerPoint> curve;
  for (std::uint64_t draws = 10'000; draws <= 10'000'000; draws *= 10) {
    curve.push_back({draws, 6.43 / std::sqrt(static_cast<double>(draws))});
  }
  return curve;
}

Evidence lost_lane() {
  Evidence evidence;
  evidence.observed = "lane 31 of 32 drawn 0 times";
  evidence.expected = "31,250 times";
  evidence.smallest = "vocab 1000, 1 row, 20,000 draws";
  evidence.effect = {"probability of lane 31 of 32", 0, 0, 5.3e-6, 0.03125, 0.99};
  evidence.decisive = {"binomial", 2.5e-31, std::nullopt, 5e-13};
  evidence.suspects = {
      {"lost lane",
       "Residuals by lane are within noise except for one lane, which is never drawn."},
      {"lost token", "A token whose probability is that of the lane would look the same."}};
  const auto right = [](std::size_t) { return 1.0; };
  evidence.profiles = {
      made_profile("rank", 0, falling(28), [](std::size_t) { return 0.97; }),
      made_profile("id", 0, level(32), right),
      made_profile("lane", 32, level(32), [](std::size_t i) { return i == 31 ? 0.0 : 1.03; })};
  evidence.power = {"g", 31, 5e-13, 1e-6, 0.01, power_curve()};
  return evidence;
}

Evidence wrong_temperature(double strength, std::string observed) {
  Evidence evidence;
  evidence.observed = std::move(observed);
  evidence.expected = "within 0.0061 of the distribution";
  evidence.effect = {
      "total variation", 0.0021 + strength, 0.0010 + strength, 0.0033 + strength, 0.0, 0.99};
  evidence.decisive = {"bets", std::nullopt, 2.5 + 900 * strength, 1e-12};
  if (strength > 0) {
    evidence.suspects = {{"temperature: the distribution is too steep",
                          "The head is drawn too often, the tail too rarely, and the sign changes "
                          "once along the ranks."}};
  }
  harness::Growth growth{"tempered distributions", 12, {}};
  harness::PitEcdf pit{"by probability", 256'000, 0.0074, 0, {}};
  for (std::size_t i = 0; i <= 40; ++i) {
    const double share = static_cast<double>(i) / 40;
    growth.points.push_back({i * 25'000, 900 * strength * share - 0.4 * std::abs(noise(i))});
    pit.difference.push_back(strength * 2 * share * (1 - share) +
                             (i % 40 == 0 ? 0 : 0.0015 * noise(i)));
    pit.distance = std::max(pit.distance, std::abs(pit.difference.back()));
  }
  evidence.growth = {growth};
  harness::PitEcdf by_id = pit;
  by_id.name = "by id";
  for (std::size_t i = 0; i < by_id.difference.size(); ++i) {
    by_id.difference[i] = i % 40 == 0 ? 0 : 0.002 * noise(3 * i);
  }
  by_id.distance = 0.002;
  evidence.pit = {pit, by_id};
  return evidence;
}

Evidence shared_bits() {
  Evidence evidence;
  evidence.observed = "the tokens of requests 2 and 5 agree in 64 of 64 steps";
  evidence.expected = "in none of 64";
  evidence.suspects = {
      {"shared random bits", "Two requests with different seeds draw the same tokens."}};
  harness::Dependence matrix{"rows", {}, {}, {}, 6.4};
  for (int i = 0; i < 8; ++i) {
    matrix.rows.push_back(fmt::format("row {}", i));
    matrix.columns.push_back(fmt::format("row {}", i));
  }
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t row = i / 8, column = i % 8;
    const bool same = (row == 2 && column == 5) || (row == 5 && column == 2);
    matrix.z.push_back(row == column ? std::numeric_limits<double>::quiet_NaN()
                       : same        ? 31.0
                                     : 2.5 * noise(row * column + row + column));
  }
  evidence.dependence = {matrix};
  return evidence;
}

Evidence wrong_mask() {
  Evidence evidence;
  evidence.observed = "token 412 kept";
  evidence.expected = "token 412 dropped";
  evidence.smallest = "1 row of 31 tokens, temperature 1, top_p 0.5";
  evidence.suspects = {{"boundary of the mask: one token too many",
                        "The one wrong token is the first beyond the boundary."}};
  harness::Boundary boundary{3, "temperature 1, top_k 0, top_p 0.9, min_p 0", {}};
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto rank = static_cast<double>(i);
    harness::BoundaryToken token{400 + 3 * i,
                                 2.5 - 0.25 * rank,
                                 0.87 + 0.01 * rank,
                                 0.88 + 0.01 * rank,
                                 i < 3   ? harness::Oracle::in
                                 : i < 4 ? harness::Oracle::ambiguous
                                         : harness::Oracle::out,
                                 i < 5,
                                 std::nullopt};
    boundary.tokens.push_back(token);
  }
  evidence.boundary = boundary;
  return evidence;
}

CaseRecord made_case(std::string id, std::string check, std::string filter, Verdict verdict,
                     std::string message) {
  CaseRecord one = small_record().cases[0];
  one.id = std::move(id);
  one.check = std::move(check);
  one.filter = std::move(filter);
  one.verdict = verdict;
  one.message = std::move(message);
  one.replay = "./fairdraw replay " + one.id + " --sampler " + one.sampler + " --seed 7";
  return one;
}

/// Returns evidence in which every string is `text` and every number is NaN.
Evidence mutated(Evidence evidence, const std::string& text) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  evidence.observed = evidence.expected = evidence.smallest = text;
  evidence.effect = {text, kNan, -kInf, kInf, kNan, kNan};
  evidence.decisive = {text, kNan, std::nullopt, kNan};
  evidence.suspects.push_back({text, text});
  for (Profile& one : evidence.profiles) {
    for (std::size_t i = 0; i < one.bins.size(); ++i) {
      one.bins[i].expected = i % 2 == 0 ? kNan : -1;
      one.bins[i].observed = i % 3 == 0 ? kInf : 1e308;
    }
  }
  for (harness::PitEcdf& one : evidence.pit) {
    one.name = text;
    one.band = kNan;
    one.difference = {kNan, kInf, -kInf};
  }
  for (harness::Growth& one : evidence.growth) {
    one.name = text;
    one.decision = kInf;
    for (harness::GrowthPoint& point : one.points) point.log10_e = kInf;
  }
  for (harness::Dependence& one : evidence.dependence) {
    one.name = text;
    for (std::string& label : one.rows) label = text;
    one.columns.clear();
    one.bound = kNan;
  }
  if (evidence.boundary) {
    evidence.boundary->filters = text;
    for (harness::BoundaryToken& token : evidence.boundary->tokens) token.logit = kNan;
  }
  if (evidence.power) {
    evidence.power->statistic = text;
    evidence.power->declared = kNan;
    for (harness::PowerPoint& point : evidence.power->curve) point.min_discrepancy = kNan;
  }
  return evidence;
}

}  // namespace

harness::RunRecord evidence_record() {
  harness::RunRecord record = small_record();
  record.commit = "0123abc89d5022fc85eca09589903726f9ec7dc2";
  record.error_budget.statistical_cases = 4;
  CaseRecord lane = made_case("binomial/gaussian/v1000/none/t1", "binomial", "none",
                              Verdict::failed, "lane 31 of 32 was drawn 0 times; expected 31250");
  lane.p_value = 2.5e-31;
  lane.evidence = lost_lane();
  CaseRecord hot = made_case("bets/zipf/v32000/top_p_0.9/t0.7", "bets", "top_p", Verdict::failed,
                             "a bet on a tempered distribution won 10^20.6; 10^12 ends the case");
  hot.p_value = 4e-21;
  hot.evidence = wrong_temperature(0.02, "total variation 0.0221");
  CaseRecord streams = made_case("streams/flat/v131072/none", "streams", "none", Verdict::failed,
                                 "requests 2 and 5 draw the same 64 tokens");
  streams.p_value = std::nullopt;
  streams.min_discrepancy = std::nullopt;
  streams.evidence = shared_bits();
  CaseRecord mask =
      made_case("mask/mass_exactly_p/v31/partial_sums", "mask", "top_p", Verdict::failed,
                "row 3 (temperature 1, top_p 0.9): support size 5, expected 3 to 4");
  mask.p_value = mask.min_discrepancy = std::nullopt;
  mask.evidence = wrong_mask();
  CaseRecord calm = made_case("pit/gaussian/v32000/none/t1", "pit", "none", Verdict::passed,
                              "256000 draws of 25600 rows are uniform through their distributions");
  calm.evidence = wrong_temperature(0, "total variation 0.0021");
  record.cases.insert(record.cases.end(), {lane, hot, streams, mask, calm});
  return record;
}

harness::RunRecord red_record(std::uint64_t failures) {
  harness::RunRecord record = evidence_record();
  std::vector<CaseRecord> kinds;
  for (const CaseRecord& one : record.cases) {
    if (one.verdict == Verdict::failed) kinds.push_back(one);
  }
  record.cases = green_record(failures).cases;
  // Later causes explain fewer cases, as is usual for the faults of a real sampler.
  for (std::uint64_t i = 0; i < failures; ++i) {
    std::size_t kind = 0;
    while (kind + 1 < kinds.size() && noise(i) > 2.0 * static_cast<double>(kind) / 5 - 0.4) ++kind;
    CaseRecord one = kinds[kinds.size() - 1 - kind];
    one.id += fmt::format("/n{}", i);
    one.sampler = record.cases[i].sampler;
    one.replay = fmt::format("./fairdraw replay {} --sampler {} --seed 7", one.id, one.sampler);
    record.cases.push_back(std::move(one));
  }
  record.samplers = {{"cpu", "0.1.0", "fairdraw"}, {"cpu:avx512", "0.1.0", "fairdraw"}};
  record.draws = 0;
  for (const CaseRecord& one : record.cases) record.draws += one.draws;
  return record;
}

harness::RunRecord green_record(std::uint64_t cases) {
  harness::RunRecord record = small_record();
  record.suite = "gate";
  record.cases.clear();
  record.samplers = {{"cpu", "0.1.0", "fairdraw"}, {"cpu:avx512", "0.1.0", "fairdraw"}};
  const char* checks[] = {"tokens", "mask", "metamorphic", "replay", "support"};
  const char* filters[] = {"none", "top_k", "top_p", "min_p", "top_k+top_p", "mixed"};
  for (std::uint64_t i = 0; i < cases; ++i) {
    CaseRecord one;
    const bool statistical = i % 10 == 0;
    one.check = statistical ? "chi_squared" : checks[i % 5];
    one.filter = filters[i % 6];
    one.id = fmt::format("{}/gaussian_wide/v{}/{}/t1/n{}", one.check, 1000 + i % 7, one.filter, i);
    one.suite = "gate";
    one.sampler = record.samplers[i % 2].name;
    one.semantics = "fairdraw";
    one.verdict = Verdict::passed;
    one.rows = 1 + i % 40;
    one.vocab = 1000 + i % 7;
    one.draws = statistical ? 1'000'000 : 1230;
    if (statistical) {
      one.p_value = (noise(i / 10) + 1) / 2;
      one.total_variation = 0.004 + 0.001 * noise(i);
      one.min_discrepancy = 0.0085 + 0.002 * noise(i + 1);
      one.measures = {{"alpha", 5e-13}, {"cells", 105}, {"g", 101.5 + noise(i)}};
    }
    one.message = fmt::format("{} tokens of {} rows agree", one.draws, one.rows);
    one.replay = fmt::format("./fairdraw replay {} --sampler {} --seed 7", one.id, one.sampler);
    record.draws += one.draws;
    record.cases.push_back(std::move(one));
  }
  return record;
}

ReportExtras sample_extras() {
  ReportExtras extras;
  extras.benchmark = benchmark_rows();
  extras.mutants = {
      {"topp-drops-crossing", true, {{"mask", "mask/gaussian/v1000/edges"}}},
      {"lost-lane", true, {{"binomial", "binomial/tile_ends/v4097/none"}, {"mask", ""}}},
      {"too-subtle", false, {{"mask", ""}}}};
  extras.conformance = {green_record(30)};
  harness::RunRecord green = evidence_record(), red = evidence_record();
  green.commit = "89abcdef0123";
  green.environment["started"] = "2026-11-21T22:00:00Z";
  red.environment["started"] = "2026-11-22T22:00:00Z";
  for (CaseRecord& one : green.cases) {
    if (one.verdict != Verdict::skipped) one.verdict = Verdict::passed;
  }
  red.cases.back().verdict = Verdict::failed;
  extras.history = {{"monday", "../monday/index.html", green}, {"tuesday", "", red}};
  return extras;
}

harness::RunRecord nasty_evidence_record() {
  harness::RunRecord record = evidence_record();
  const std::string text = nasty_text();
  for (CaseRecord& one : record.cases) {
    one.filter = text;
    one.p_value = std::numeric_limits<double>::quiet_NaN();
    if (one.min_discrepancy) one.min_discrepancy = std::numeric_limits<double>::infinity();
    if (has_something(one.evidence)) one.evidence = mutated(one.evidence, text);
  }
  record.commit = record.selection = record.options = text;
  return record;
}

}  // namespace fairdraw::reports
