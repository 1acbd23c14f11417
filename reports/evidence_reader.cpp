#include <fmt/format.h>

#include <cmath>

#include "reports/evidence_json.h"

namespace fairdraw::reports {
namespace {

/// A point of a list: numbers of a JSON array, named in messages by their place.
struct Point {
  const std::vector<double>& values;
  std::string path;

  std::uint64_t count(std::size_t at) const {
    constexpr double kLargest = 0x1p53;  // larger ones are no longer counts in a double
    const double value = values[at];
    if (!(value >= 0 && value <= kLargest) || std::trunc(value) != value) {
      fail_at(fmt::format("{}[{}]", path, at),
              fmt::format("is {}; expected an integer from 0 to 2^53", value));
    }
    return static_cast<std::uint64_t>(value);
  }
};

template <class Function>
void for_each_point(ObjectReader& reader, const std::string& key, std::size_t width,
                    const Function& use) {
  const std::vector<std::vector<double>> tuples = reader.tuples(key, width);
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    use(Point{tuples[i], fmt::format("{}[{}]", reader.path(key), i)});
  }
}

harness::Profile profile_of(ObjectReader& reader) {
  harness::Profile profile;
  profile.axis = reader.choice("axis", {"rank", "id", "lane"});
  profile.modulus = reader.count("modulus");
  profile.draws = reader.count("draws");
  for_each_point(reader, "bins", 4, [&profile](const Point& point) {
    profile.bins.push_back({point.count(0), point.count(1), point.values[2], point.values[3]});
  });
  return profile;
}

harness::PitEcdf pit_of(ObjectReader& reader) {
  harness::PitEcdf pit;
  pit.name = reader.text("name");
  pit.draws = reader.count("draws");
  pit.band = reader.number("band", kNotNegative);
  pit.distance = reader.number("distance", kProbability);
  pit.difference = reader.numbers("difference");
  return pit;
}

harness::Growth growth_of(ObjectReader& reader) {
  harness::Growth growth;
  growth.name = reader.text("name");
  growth.decision = reader.number("decision");
  for_each_point(reader, "points", 2, [&growth](const Point& point) {
    growth.points.push_back({point.count(0), point.values[1]});
  });
  return growth;
}

harness::Dependence dependence_of(ObjectReader& reader) {
  harness::Dependence dependence;
  dependence.name = reader.text("name");
  dependence.rows = reader.texts("rows");
  dependence.columns = reader.texts("columns");
  dependence.z = reader.numbers("z");
  dependence.bound = reader.number("bound", kNotNegative);
  if (dependence.z.size() != dependence.rows.size() * dependence.columns.size()) {
    fail_at(reader.path("z"),
            fmt::format("has {} values; expected {} rows of {}", dependence.z.size(),
                        dependence.rows.size(), dependence.columns.size()));
  }
  return dependence;
}

harness::Oracle oracle_of(ObjectReader& reader) {
  const std::string name = reader.text("oracle");
  for (const auto oracle :
       {harness::Oracle::in, harness::Oracle::out, harness::Oracle::ambiguous}) {
    if (name == to_string(oracle)) return oracle;
  }
  fail_at(reader.path("oracle"), "is " + shown(Json(name)) + "; allowed: in, out, ambiguous");
}

harness::Boundary boundary_of(ObjectReader reader) {
  harness::Boundary boundary;
  boundary.row = reader.count("row");
  boundary.filters = reader.text("filters");
  for (ObjectReader& one : reader.objects("tokens")) {
    harness::BoundaryToken token;
    token.token = one.count("token");
    token.logit = one.number("logit");
    token.cumulative_low = one.number("cumulative_low");
    token.cumulative_high = one.number("cumulative_high");
    token.oracle = oracle_of(one);
    if (!one.at("kept").is_null()) token.kept = one.boolean("kept");
    if (!one.at("drawn").is_null()) token.drawn = one.count("drawn");
    one.expect_no_other_field();
    boundary.tokens.push_back(token);
  }
  reader.expect_no_other_field();
  return boundary;
}

harness::Power power_of(ObjectReader reader) {
  harness::Power power;
  power.statistic = reader.text("statistic");
  power.cells = reader.count("cells");
  power.level = reader.number("level", kProbability);
  power.miss_rate = reader.number("miss_rate", kProbability);
  power.declared = reader.number("declared", kNotNegative);
  for_each_point(reader, "curve", 2, [&power](const Point& point) {
    power.curve.push_back({point.count(0), point.values[1]});
  });
  reader.expect_no_other_field();
  return power;
}

harness::Effect effect_of(ObjectReader reader) {
  harness::Effect effect;
  effect.name = reader.text("name");
  effect.value = reader.number("value");
  effect.low = reader.number("low");
  effect.high = reader.number("high");
  effect.expected = reader.optional_number("expected");
  effect.confidence = reader.number("confidence", kProbability);
  reader.expect_no_other_field();
  return effect;
}

harness::Decisive decisive_of(ObjectReader reader) {
  harness::Decisive decisive;
  decisive.statistic = reader.text("statistic");
  decisive.p_value = reader.optional_number("p_value", kProbability);
  decisive.log10_e = reader.optional_number("log10_e");
  decisive.level = reader.number("level", kProbability);
  reader.expect_no_other_field();
  return decisive;
}

harness::Suspect suspect_of(ObjectReader& reader) {
  return {reader.text("bug"), reader.text("reason")};
}

template <class Value>
void read_list(ObjectReader& reader, const std::string& key, Value (*read)(ObjectReader&),
               std::vector<Value>& values) {
  if (!reader.has(key)) return;
  for (ObjectReader& one : reader.objects(key)) {
    values.push_back(read(one));
    one.expect_no_other_field();
  }
}

}  // namespace

harness::Evidence evidence_of(ObjectReader reader) {
  harness::Evidence evidence;
  evidence.observed = reader.optional_text("observed");
  evidence.expected = reader.optional_text("expected");
  evidence.smallest = reader.optional_text("smallest");
  if (reader.has("effect")) evidence.effect = effect_of(reader.object("effect"));
  if (reader.has("decisive")) evidence.decisive = decisive_of(reader.object("decisive"));
  read_list(reader, "suspects", suspect_of, evidence.suspects);
  read_list(reader, "profiles", profile_of, evidence.profiles);
  read_list(reader, "pit", pit_of, evidence.pit);
  read_list(reader, "growth", growth_of, evidence.growth);
  read_list(reader, "dependence", dependence_of, evidence.dependence);
  if (reader.has("boundary")) evidence.boundary = boundary_of(reader.object("boundary"));
  if (reader.has("power")) evidence.power = power_of(reader.object("power"));
  reader.expect_no_other_field();
  return evidence;
}

}  // namespace fairdraw::reports
