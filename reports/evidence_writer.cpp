#include <cmath>

#include "reports/evidence_json.h"

namespace fairdraw::reports {
namespace {

Json profile_json(const harness::Profile& profile) {
  Json json = {{"axis", profile.axis}, {"modulus", profile.modulus}, {"draws", profile.draws}};
  Json bins = Json::array();
  for (const harness::ProfileBin& bin : profile.bins) {
    bins.push_back(
        Json::array({bin.first, bin.last, number_json(bin.expected), number_json(bin.observed)}));
  }
  json["bins"] = std::move(bins);
  return json;
}

Json numbers_json(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(number_json(value));
  return json;
}

Json pit_json(const harness::PitEcdf& pit) {
  return {{"name", pit.name},
          {"draws", pit.draws},
          {"band", number_json(pit.band)},
          {"distance", number_json(pit.distance)},
          {"difference", numbers_json(pit.difference)}};
}

Json growth_json(const harness::Growth& growth) {
  Json points = Json::array();
  for (const harness::GrowthPoint& point : growth.points) {
    points.push_back(Json::array({point.draws, number_json(point.log10_e)}));
  }
  return {{"name", growth.name},
          {"decision", number_json(growth.decision)},
          {"points", std::move(points)}};
}

Json dependence_json(const harness::Dependence& dependence) {
  return {{"name", dependence.name},
          {"rows", dependence.rows},
          {"columns", dependence.columns},
          {"z", numbers_json(dependence.z)},
          {"bound", number_json(dependence.bound)}};
}

Json boundary_json(const harness::Boundary& boundary) {
  Json tokens = Json::array();
  for (const harness::BoundaryToken& token : boundary.tokens) {
    tokens.push_back({{"token", token.token},
                      {"logit", number_json(token.logit)},
                      {"cumulative_low", number_json(token.cumulative_low)},
                      {"cumulative_high", number_json(token.cumulative_high)},
                      {"oracle", to_string(token.oracle)},
                      {"kept", token.kept ? Json(*token.kept) : Json()},
                      {"drawn", token.drawn ? Json(*token.drawn) : Json()}});
  }
  return {{"row", boundary.row}, {"filters", boundary.filters}, {"tokens", std::move(tokens)}};
}

Json power_json(const harness::Power& power) {
  Json curve = Json::array();
  for (const harness::PowerPoint& point : power.curve) {
    curve.push_back(Json::array({point.draws, number_json(point.min_discrepancy)}));
  }
  return {{"statistic", power.statistic},
          {"cells", power.cells},
          {"level", number_json(power.level)},
          {"miss_rate", number_json(power.miss_rate)},
          {"declared", number_json(power.declared)},
          {"curve", std::move(curve)}};
}

Json decisive_json(const harness::Decisive& decisive) {
  return {{"statistic", decisive.statistic},
          {"p_value", number_json(decisive.p_value)},
          {"log10_e", number_json(decisive.log10_e)},
          {"level", number_json(decisive.level)}};
}

template <class Value, class Function>
void add_list(Json& json, const char* key, const std::vector<Value>& values,
              const Function& to_value) {
  if (values.empty()) return;
  Json list = Json::array();
  for (const Value& value : values) list.push_back(to_value(value));
  json[key] = std::move(list);
}

}  // namespace

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json number_json(const std::optional<double>& value) {
  return value ? number_json(*value) : Json(nullptr);
}

Json effect_json(const harness::Effect& effect) {
  return {{"name", effect.name},
          {"value", number_json(effect.value)},
          {"low", number_json(effect.low)},
          {"high", number_json(effect.high)},
          {"expected", number_json(effect.expected)},
          {"confidence", number_json(effect.confidence)}};
}

Json evidence_json(const harness::Evidence& evidence) {
  Json json = Json::object();
  if (!evidence.observed.empty()) json["observed"] = evidence.observed;
  if (!evidence.expected.empty()) json["expected"] = evidence.expected;
  if (!evidence.smallest.empty()) json["smallest"] = evidence.smallest;
  if (evidence.effect) json["effect"] = effect_json(*evidence.effect);
  if (evidence.decisive) json["decisive"] = decisive_json(*evidence.decisive);
  add_list(json, "suspects", evidence.suspects, [](const harness::Suspect& suspect) {
    return Json{{"bug", suspect.bug}, {"reason", suspect.reason}};
  });
  add_list(json, "profiles", evidence.profiles, profile_json);
  add_list(json, "pit", evidence.pit, pit_json);
  add_list(json, "growth", evidence.growth, growth_json);
  add_list(json, "dependence", evidence.dependence, dependence_json);
  if (evidence.boundary) json["boundary"] = boundary_json(*evidence.boundary);
  if (evidence.power) json["power"] = power_json(*evidence.power);
  return json;
}

}  // namespace fairdraw::reports
