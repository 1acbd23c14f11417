#include "reports/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "harness/run/evidence/coverage.h"

namespace fairdraw::reports {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::Verdict;
using Key = std::pair<std::string, std::string>;

std::map<Key, const CaseRecord*> by_key(const RunRecord& record) {
  std::map<Key, const CaseRecord*> cases;
  for (const CaseRecord& one : record.cases) cases.emplace(Key{one.id, one.sampler}, &one);
  return cases;
}

std::string title(const RunRecord& record) {
  std::string text = record.commit.empty() ? record.seed_source : "commit " + record.commit;
  text += fmt::format(", {}", record.suite);
  if (!record.selection.empty()) text += fmt::format(", cases {}", record.selection);
  if (record.shard != "1/1") text += fmt::format(", shard {}", record.shard);
  if (!record.incomplete.empty()) text += fmt::format(", incomplete: {}", record.incomplete);
  return text + fmt::format(", seed {}", record.seed);
}

std::set<std::string> samplers_of(const RunRecord& record) {
  std::set<std::string> names;
  for (const CaseRecord& one : record.cases) names.insert(one.sampler);
  return names;
}

// Returns the declared name of a plugin: "mine" for "mine 1.2". Built-in samplers and callables are
// known only by their own names.
std::string declared_name(const RunRecord& record, const std::string& name) {
  const auto found = std::ranges::find(record.samplers, name, &harness::SamplerRecord::name);
  if (found == record.samplers.end() || !name.starts_with("plugin:")) return name;
  return found->version.substr(0, found->version.rfind(' '));
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Pairs samplers of the base run with samplers of the head run if their cases have different names.
Pairs paired_samplers(const RunRecord& base, const RunRecord& head) {
  const std::set<std::string> all_before = samplers_of(base), all_after = samplers_of(head);
  std::vector<std::string> before, after;
  std::ranges::set_difference(all_before, all_after, std::back_inserter(before));
  std::ranges::set_difference(all_after, all_before, std::back_inserter(after));
  Pairs pairs;
  std::map<std::string, std::pair<std::vector<std::string>, std::vector<std::string>>> declared;
  for (const std::string& name : before) declared[declared_name(base, name)].first.push_back(name);
  for (const std::string& name : after) declared[declared_name(head, name)].second.push_back(name);
  for (const auto& [name, both] : declared) {
    if (both.first.size() == 1 && both.second.size() == 1) {
      pairs.emplace_back(both.first[0], both.second[0]);
    }
  }
  const bool one_each = all_before.size() == 1 && all_after.size() == 1;
  if (pairs.empty() && one_each && !before.empty()) pairs.emplace_back(before[0], after[0]);
  return pairs;
}

RunRecord with_names_of_head(RunRecord base, const Pairs& pairs) {
  const std::map<std::string, std::string> names(pairs.begin(), pairs.end());
  const auto rename = [&names](std::string& name) {
    const auto found = names.find(name);
    if (found != names.end()) name = found->second;
  };
  for (harness::SamplerRecord& sampler : base.samplers) rename(sampler.name);
  for (CaseRecord& one : base.cases) rename(one.sampler);
  return base;
}

std::string why_apart(const RunRecord& base, const RunRecord& head) {
  if (base.cases.empty() || head.cases.empty()) {
    return fmt::format("{} has no case", base.cases.empty() ? "base" : "head");
  }
  const std::set<std::string> before = samplers_of(base), after = samplers_of(head);
  const auto known = [&before](const std::string& name) { return before.contains(name); };
  if (std::ranges::any_of(after, known)) return {};
  return fmt::format("base judges {}, head judges {}", fmt::join(before, ", "),
                     fmt::join(after, ", "));
}

bool meet(const harness::Effect& one, const harness::Effect& other, double widened) {
  const auto low = [widened](const harness::Effect& effect) {
    return effect.value - widened * (effect.value - effect.low);
  };
  const auto high = [widened](const harness::Effect& effect) {
    return effect.value + widened * (effect.high - effect.value);
  };
  // An interval with a NaN overlaps with every other interval.
  return !(low(one) > high(other) || low(other) > high(one));
}

std::optional<EffectChange> effect_change(const CaseRecord& base, const CaseRecord& head) {
  const auto& one = base.evidence.effect;
  const auto& other = head.evidence.effect;
  if (!one || !other || one->name != other->name || meet(*one, *other, 1)) return std::nullopt;
  constexpr double kWidened = 3;
  const double before = std::abs(one->value - one->expected.value_or(0));
  const double after = std::abs(other->value - other->expected.value_or(0));
  return EffectChange{head.id, head.sampler, *one, *other,
                      after > before && !meet(*one, *other, kWidened)};
}

VerdictChange verdict_change(const CaseRecord* base, const CaseRecord* head, bool same_choice) {
  const CaseRecord& any = head != nullptr ? *head : *base;
  VerdictChange change{any.id, any.sampler, std::nullopt, std::nullopt, {}, {}};
  if (base != nullptr) change.base = base->verdict;
  if (head != nullptr) {
    change.head = head->verdict;
    change.message = head->message;
    change.replay = head->replay;
  }
  const bool passed = change.base == Verdict::passed;
  const auto is_red = [](const std::optional<Verdict>& verdict) {
    return verdict && *verdict != Verdict::passed && *verdict != Verdict::skipped;
  };
  if (head == nullptr) {
    change.regression = passed && same_choice;
  } else {
    // A new case that fails is a regression too, because it never passed.
    change.regression =
        passed || (is_red(change.head) && (!change.base || *change.base == Verdict::skipped));
    change.fixed = is_red(change.base) && change.head == Verdict::passed;
  }
  return change;
}

std::map<std::string, double> seconds_by_check(const RunRecord& record) {
  std::map<std::string, double> seconds;
  for (const CaseRecord& one : record.cases) {
    if (std::isfinite(one.seconds)) seconds[one.check] += one.seconds;
  }
  return seconds;
}

void compare_seconds(const RunRecord& base, const RunRecord& head, Comparison& comparison) {
  const auto cpu = [](const RunRecord& record) {
    const auto found = record.environment.find("cpu");
    return found == record.environment.end() ? std::string() : found->second;
  };
  if (cpu(base) != cpu(head)) return;
  constexpr double kFactor = 1.5, kSeconds = 1;
  const auto before = seconds_by_check(base);
  for (const auto& [check, after] : seconds_by_check(head)) {
    const auto found = before.find(check);
    if (found == before.end() || std::abs(after - found->second) < kSeconds) continue;
    if (after < kFactor * found->second && found->second < kFactor * after) continue;
    comparison.speeds.push_back({"check " + check, "s", found->second, after, false});
  }
}

const harness::Coverage* of_sampler(const std::vector<harness::Coverage>& all,
                                    const std::string& sampler) {
  const auto found = std::ranges::find(all, sampler, &harness::Coverage::sampler);
  return found == all.end() ? nullptr : &*found;
}

// Features are compared because a run may pass only because a sampler declares fewer abilities.
void compare_features(const RunRecord& base, const RunRecord& head, bool same_choice,
                      Comparison& comparison) {
  const std::vector<harness::Coverage> before = harness::coverage_of(base);
  for (const harness::Coverage& after : harness::coverage_of(head)) {
    const harness::Coverage* const known = of_sampler(before, after.sampler);
    if (known == nullptr) continue;
    for (const harness::FeatureCoverage& now : after.features) {
      const auto was =
          std::ranges::find(known->features, now.name, &harness::FeatureCoverage::name);
      if (was == known->features.end() || was->judged == now.judged) continue;
      comparison.features.push_back({now.name, after.sampler, was->ran, now.ran, now.judged,
                                     now.lacks, !now.judged && same_choice});
    }
  }
}

template <class Change>
void regressions_first(std::vector<Change>& changes) {
  std::stable_partition(changes.begin(), changes.end(),
                        [](const Change& change) { return change.regression; });
}

std::string row_name(const harness::BenchmarkRecord& row) {
  return fmt::format("{} {} {} x {} {} {}", row.backend, row.operation, row.batch, row.vocab,
                     row.dtype, row.logits);
}

std::string title(const std::vector<harness::BenchmarkRecord>& rows) {
  if (rows.empty()) return "no rows";
  return fmt::format("{} rows{}{}", rows.size(), rows.front().machine.empty() ? "" : ", ",
                     rows.front().machine);
}

}  // namespace

std::uint64_t Comparison::regressions() const {
  std::uint64_t count = 0;
  for (const VerdictChange& change : verdicts) count += change.regression ? 1U : 0U;
  for (const EffectChange& change : effects) count += change.regression ? 1U : 0U;
  for (const SpeedChange& change : speeds) count += change.regression ? 1U : 0U;
  for (const FeatureChange& change : features) count += change.regression ? 1U : 0U;
  return count;
}

std::uint64_t Comparison::fixed() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(verdicts, &VerdictChange::fixed));
}

Comparison compare(const RunRecord& given_base, const RunRecord& head) {
  Comparison comparison;
  comparison.paired = paired_samplers(given_base, head);
  const RunRecord base = with_names_of_head(given_base, comparison.paired);
  comparison.base = title(base);
  comparison.head = title(head);
  comparison.incomplete = !head.incomplete.empty();
  const bool same_choice =
      base.suite == head.suite && base.selection == head.selection && base.shard == head.shard;
  const auto before = by_key(base), after = by_key(head);
  for (const CaseRecord& one : head.cases) {
    const auto found = before.find({one.id, one.sampler});
    const CaseRecord* const known = found == before.end() ? nullptr : found->second;
    if (known != nullptr) ++comparison.compared;
    const bool same = known != nullptr && known->verdict == one.verdict;
    // New cases that passed are not reported.
    const bool news = known != nullptr || one.verdict != Verdict::passed;
    if (!same && news) comparison.verdicts.push_back(verdict_change(known, &one, same_choice));
    if (known == nullptr) continue;
    if (auto change = effect_change(*known, one)) comparison.effects.push_back(std::move(*change));
  }
  for (const CaseRecord& one : base.cases) {
    if (after.contains({one.id, one.sampler})) continue;
    comparison.verdicts.push_back(verdict_change(&one, nullptr, same_choice));
  }
  if (comparison.compared == 0) comparison.apart = why_apart(base, head);
  compare_seconds(base, head, comparison);
  compare_features(base, head, same_choice, comparison);
  regressions_first(comparison.verdicts);
  regressions_first(comparison.effects);
  regressions_first(comparison.features);
  return comparison;
}

Comparison compare(const std::vector<harness::BenchmarkRecord>& base,
                   const std::vector<harness::BenchmarkRecord>& head, double tolerance) {
  Comparison comparison;
  comparison.base = title(base);
  comparison.head = title(head);
  std::map<std::string, const harness::BenchmarkRecord*> after;
  for (const harness::BenchmarkRecord& row : head) after.emplace(row_name(row), &row);
  for (const harness::BenchmarkRecord& row : base) {
    const auto found = after.find(row_name(row));
    if (found == after.end()) {
      comparison.verdicts.push_back(
          {row_name(row), row.backend, Verdict::passed, std::nullopt, {}, {}, true});
      continue;
    }
    ++comparison.compared;
    const harness::BenchmarkRecord& now = *found->second;
    const bool floors = row.floor_microseconds > 0 && now.floor_microseconds > 0 &&
                        std::isfinite(row.ratio) && std::isfinite(now.ratio);
    const double one = floors ? row.ratio : row.microseconds;
    const double other = floors ? now.ratio : now.microseconds;
    if (!(std::abs(other - one) > tolerance * one)) continue;
    comparison.speeds.push_back(
        {row_name(row), floors ? "x floor" : "us", one, other, other > one});
  }
  regressions_first(comparison.speeds);
  return comparison;
}

}  // namespace fairdraw::reports
