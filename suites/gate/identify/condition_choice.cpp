#include "suites/gate/identify/condition_choice.h"

#include <algorithm>
#include <map>
#include <set>

namespace fairdraw::suites {
namespace {

using harness::Condition;

// Probability that a search names a condition although none matters, as 3 of 60 first sentences
// may mislead.
constexpr double kMaxChance = 0.05;

bool has_all(const Held& held, const Held& conditions) { return (held & conditions) == conditions; }

}  // namespace

Held of_subject(std::string_view subject) {
  return conditions_where([=](const Condition& one) { return one.subject == subject; });
}

Held of_parameters() { return ~of_subject("row") & ~of_subject("batch"); }

double chance_that_all_have(std::size_t units, std::size_t with, std::size_t wrong) {
  double chance = 1;
  for (std::size_t i = 0; i < wrong; ++i) {
    if (i >= with) return 0;
    chance *= static_cast<double>(with - i) / static_cast<double>(units - i);
  }
  return chance;
}

double max_chance(std::string_view subject) {
  std::set<std::string_view> subjects = {kVocabulary};
  for (const Condition& one : asked_conditions()) subjects.insert(one.subject);
  const auto of_subject = std::ranges::count(asked_conditions(), subject, &Condition::subject);
  return kMaxChance / static_cast<double>(subjects.size()) /
         static_cast<double>(std::max<std::ptrdiff_t>(of_subject, 1));
}

Held ConditionChoice::shared() const {
  Held shared;
  for (std::size_t i = 0; i < asked_conditions().size(); ++i) {
    shared[i] = std::ranges::all_of(strata_, [i](const Stratum& stratum) {
      return !stratum.told[i] || std::ranges::all_of(stratum.units, [i](const Unit& unit) {
        return !unit.wrong ||
               std::ranges::any_of(unit.kinds, [i](const Held& held) { return held[i]; });
      });
    });
  }
  return shared;
}

Held ConditionChoice::undecided() const {
  const Held of_all = shared() & left_;
  Held undecided;
  for (std::size_t i = 0; i < asked_conditions().size(); ++i) {
    const bool some_lack = std::ranges::any_of(strata_, [i](const Stratum& stratum) {
      return stratum.told[i] && std::ranges::any_of(stratum.units, [i](const Unit& unit) {
               return std::ranges::none_of(unit.kinds, [i](const Held& held) { return held[i]; });
             });
    });
    undecided[i] = of_all[i] && some_lack && is_by_chance(i, {});
  }
  return undecided;
}

std::optional<std::size_t> ConditionChoice::least_by_chance(const Held& given,
                                                            const Held& but) const {
  std::map<std::string_view, std::size_t> by_subject;
  const std::vector<Condition>& all = asked_conditions();
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!left_[i] || but[i] || is_by_chance(i, given)) continue;
    const auto [known, is_new] = by_subject.try_emplace(all[i].subject, i);
    if (is_new) continue;
    const std::size_t wider = known->second;
    bool is_better = true;
    if (all[i].subject == "batch") {
      is_better = chance_of(i, given) < chance_of(wider, given);
    } else if (all[i].subject != "row") {
      is_better = chance_of(i, Held(given).set(wider)) <= kMaxChance;
    }
    if (is_better) known->second = i;
  }
  std::optional<std::size_t> best;
  for (const auto& [subject, i] : by_subject) {
    if (!best || chance_of(i, given) < chance_of(*best, given)) best = i;
  }
  return best;
}

std::vector<std::size_t> ConditionChoice::found_in_rows(const Held& given, Held but) const {
  const std::optional<std::size_t> first = least_by_chance(given, but);
  if (!first) return {};
  const auto with = [&given](std::size_t condition) { return Held(given).set(condition); };
  but |= of_subject(asked_conditions()[*first].subject);
  if (const auto second = least_by_chance(with(*first), but)) {
    if (is_by_chance(*first, with(*second))) return {*second};
    return {*first, *second};
  }
  const auto other = least_by_chance(given, but);
  if (!other || !is_by_chance(*first, with(*other))) return {*first};
  if (chance_of(*first, given) <= kMaxChance * chance_of(*other, given)) return {*first};
  return {};
}

// Returns the probability that all wrong units have a condition by chance, among the units with
// rows that have the conditions `given`. It is 1 if a wrong unit lacks the condition.
double ConditionChoice::chance_of(std::size_t condition, const Held& given) const {
  double chance = 1;
  for (const Stratum& stratum : strata_) {
    if (!stratum.told[condition]) continue;
    std::size_t units = 0, with = 0, wrong = 0;
    for (const Unit& unit : stratum.units) {
      const auto counts = [&](const Held& held) { return has_all(held, given & stratum.told); };
      if (std::ranges::none_of(unit.kinds, counts)) continue;
      const bool is_with = std::ranges::any_of(
          unit.kinds, [&](const Held& held) { return counts(held) && held[condition]; });
      if (unit.wrong && !is_with) return 1;
      ++units;
      with += is_with ? 1 : 0;
      wrong += unit.wrong ? 1 : 0;
    }
    chance *= chance_that_all_have(units, with, wrong);
  }
  return chance;
}

// If a row is right at one place of a call and wrong at another, some condition on places holds.
// It is one of those that no case refuted, and chance need not be excluded.
bool ConditionChoice::is_by_chance(std::size_t condition, const Held& given) const {
  const std::string_view subject = asked_conditions()[condition].subject;
  const bool is_of_places = subject == "row" && paired_[condition];
  const double chance = chance_of(condition, given);
  return is_of_places ? chance >= 1 : chance > max_chance(subject);
}

}  // namespace fairdraw::suites
