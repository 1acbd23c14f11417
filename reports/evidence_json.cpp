#include "reports/evidence_json.h"

#include <fmt/format.h>

#include <algorithm>

namespace fairdraw::reports {
namespace {

constexpr std::int64_t kMaxVocab = std::int64_t{1} << 20;
// The maximum is small enough that the counts of 2^20 tokens add up within 64 bits.
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 43;

void suspect_fields(JsonObject& json, harness::Suspect& suspect) {
  json("bug", suspect.bug);
  json("reason", suspect.reason);
}

void profile_fields(JsonObject& json, harness::Profile& profile) {
  using harness::ProfileBin;
  constexpr const char* kAxes[] = {"rank", "id", "lane"};
  json("axis", profile.axis, OneOf{kAxes});
  json("modulus", profile.modulus);
  json("draws", profile.draws);
  json.points("bins", profile.bins, &ProfileBin::first, &ProfileBin::last, &ProfileBin::expected,
              &ProfileBin::observed);
}

void pit_fields(JsonObject& json, harness::PitEcdf& pit) {
  json("name", pit.name);
  json("draws", pit.draws);
  json("band", pit.band, kNotNegative);
  json("distance", pit.distance, kProbability);
  json("difference", pit.difference);
}

void growth_fields(JsonObject& json, harness::Growth& growth) {
  json("name", growth.name);
  json("decision", growth.decision);
  json.points("points", growth.points, &harness::GrowthPoint::draws,
              &harness::GrowthPoint::log10_e);
}

void dependence_fields(JsonObject& json, harness::Dependence& dependence) {
  json("name", dependence.name);
  json("rows", dependence.rows);
  json("columns", dependence.columns);
  json("z", dependence.z);
  json("bound", dependence.bound, kNotNegative);
  if (json.reading() && dependence.z.size() != dependence.rows.size() * dependence.columns.size()) {
    json.fail("z", fmt::format("has {} values; expected {} rows of {}", dependence.z.size(),
                               dependence.rows.size(), dependence.columns.size()));
  }
}

void token_fields(JsonObject& json, harness::BoundaryToken& token) {
  json("token", token.token);
  json("logit", token.logit);
  json("cumulative_low", token.cumulative_low);
  json("cumulative_high", token.cumulative_high);
  json.choice("oracle", token.oracle, {"in", "out", "ambiguous"});
  json("kept", token.kept);
  json("drawn", token.drawn);
}

void boundary_fields(JsonObject& json, harness::Boundary& boundary) {
  json("row", boundary.row);
  json("filters", boundary.filters);
  json.list("tokens", boundary.tokens, token_fields);
}

void power_fields(JsonObject& json, harness::Power& power) {
  json("statistic", power.statistic);
  json("cells", power.cells);
  json("level", power.level, kProbability);
  json("miss_rate", power.miss_rate, kProbability);
  json("declared", power.declared, kNotNegative);
  json.points("curve", power.curve, &harness::PowerPoint::draws,
              &harness::PowerPoint::min_discrepancy);
}

void decisive_fields(JsonObject& json, harness::Decisive& decisive) {
  json("statistic", decisive.statistic);
  json("p_value", decisive.p_value, kProbability);
  json("log10_e", decisive.log10_e);
  json("level", decisive.level, kProbability);
}

/// Counts per token. The counts are stored as gaps between the ids of drawn tokens, alternating
/// with counts, because most tokens of a vocabulary are drawn rarely or never.
struct TokenCounts {
  std::vector<std::uint64_t>& of_token;  ///< counts of the tokens, [vocab], allocated before
                                         ///< reading
};

Json written(const TokenCounts& counts) {
  Json json = Json::array();
  std::size_t next = 0;
  for (std::size_t token = 0; token < counts.of_token.size(); ++token) {
    if (counts.of_token[token] == 0) continue;
    json.push_back(token - next);
    json.push_back(counts.of_token[token]);
    next = token + 1;
  }
  return json;
}

void read(const Value& value, const TokenCounts& to) {
  std::vector<std::uint64_t> pairs;
  read_by(value, pairs);
  const std::uint64_t vocab = to.of_token.size();
  std::uint64_t next = 0;
  bool right = pairs.size() % 2 == 0;
  for (std::size_t i = 0; right && i + 1 < pairs.size(); i += 2) {
    right = pairs[i] < vocab - next && pairs[i + 1] <= kMaxCount;
    if (!right) break;
    to.of_token[next + pairs[i]] = pairs[i + 1];
    next += pairs[i] + 1;
  }
  if (right) return;
  value.fail(value.path(),
             fmt::format("is wrong; expected gaps and counts in turn, of {} tokens", vocab));
}

}  // namespace

void effect_fields(JsonObject& json, harness::Effect& effect) {
  json("name", effect.name);
  json("value", effect.value);
  json("low", effect.low);
  json("high", effect.high);
  json("expected", effect.expected);
  json("confidence", effect.confidence, kProbability);
}

void evidence_fields(JsonObject& json, harness::Evidence& evidence) {
  json.optional("observed", evidence.observed);
  json.optional("expected", evidence.expected);
  json.optional("smallest", evidence.smallest);
  json.object("effect", evidence.effect, effect_fields);
  json.object("decisive", evidence.decisive, decisive_fields);
  json.optional_list("suspects", evidence.suspects, suspect_fields);
  json.optional_list("profiles", evidence.profiles, profile_fields);
  json.optional_list("pit", evidence.pit, pit_fields);
  json.optional_list("growth", evidence.growth, growth_fields);
  json.optional_list("dependence", evidence.dependence, dependence_fields);
  json.object("boundary", evidence.boundary, boundary_fields);
  json.object("power", evidence.power, power_fields);
}

void cell_fields(JsonObject& json, harness::CellCounts& cells) {
  json("axis", cells.axis, named);
  json("probability", cells.probability);
  json("counts", cells.counts);
  json("relative_error", cells.relative_error, kFiniteNotNegative);
  json("chi_squared_error", cells.chi_squared_error, kFiniteNotNegative);
  const bool right =
      cells.counts.size() == cells.probability.size() && !cells.counts.empty() &&
      std::ranges::all_of(cells.probability, [](double p) { return p > 0 && p <= 1; }) &&
      std::ranges::all_of(cells.counts, [](std::uint64_t count) { return count <= kMaxCount; });
  if (json.reading() && !right) {
    json.fail("counts", "is wrong; expected a count for each probability, all of these above 0");
  }
}

void counted_fields(JsonObject& json, harness::CountedDraws& counted) {
  harness::Counts& counts = counted.counts;
  json("seed", Decimal{counted.seed});
  json("asked", counted.asked);
  json("draws", counts.draws);
  std::uint64_t vocab = counts.of_token.size();
  json("vocab", vocab, Whole{0, kMaxVocab});
  counts.of_token.resize(vocab);
  json("of_token", TokenCounts{counts.of_token});
  json.optional("no_token", counts.no_token);
  json.optional("trouble", counts.trouble);
  if (!json.reading()) return;
  std::uint64_t all = counts.no_token;
  for (const std::uint64_t count : counts.of_token) all += count;
  if (all != counts.draws || counts.draws > kMaxCount) {
    json.fail("draws", fmt::format("is {}, but the counts add up to {}", counts.draws, all));
  }
}

}  // namespace fairdraw::reports
