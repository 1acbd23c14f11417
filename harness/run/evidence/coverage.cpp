#include "harness/run/evidence/coverage.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>

#include "harness/run/evidence/abilities.h"

namespace fairdraw::harness {
namespace {

struct Row {
  std::string_view name, abilities, what;
};

constexpr Row kFeatures[] = {
#define FAIRDRAW_FEATURE(name, abilities, what) {#name, abilities, what},
#include "harness/run/evidence/features.inc"
};

const Row* row_of(std::string_view feature) {
  const Row* const found = std::ranges::find(kFeatures, feature, &Row::name);
  return found == std::end(kFeatures) ? nullptr : found;
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns whether the case ended and ran the feature: the feature needs no ability, or at least one
// of its abilities was not left out.
bool ran_with(const CaseRecord& one, const std::vector<std::string_view>& abilities) {
  if (one.verdict != Verdict::passed && one.verdict != Verdict::failed) return false;
  return abilities.empty() || !std::ranges::all_of(abilities, [&one](std::string_view ability) {
           return holds(one.lacks, ability);
         });
}

FeatureCoverage coverage_of_feature(const Row& row, const std::vector<const CaseRecord*>& cases) {
  const std::vector<std::string_view> abilities = abilities_of(row.name);
  FeatureCoverage feature;
  feature.name = row.name;
  const auto is_own = [&abilities](const std::string& ability) {
    return std::ranges::find(abilities, ability) != abilities.end();
  };
  std::vector<std::string> all;  // abilities lacking in cases that did not run the feature
  std::uint64_t wanting = 0;     // cases skipped for lack of the feature's own abilities
  for (const CaseRecord* const one : cases) {
    if (!holds(one->features, row.name)) continue;
    ++feature.cases;
    if (ran_with(*one, abilities)) {
      ++feature.ran;
      continue;
    }
    if (std::ranges::any_of(one->lacks, is_own)) ++wanting;
    for (const std::string& ability : one->lacks) {
      if (!holds(all, ability)) all.push_back(ability);
    }
  }
  const bool has_own = std::ranges::any_of(all, is_own);
  for (const std::string& ability : all) {
    if (!is_claim(ability) && (!has_own || is_own(ability))) feature.lacks.push_back(ability);
  }
  feature.judged = feature.ran > 0 && feature.ran >= wanting;
  feature.claim = !feature.judged && !abilities.empty() && std::ranges::all_of(abilities, is_claim);
  return feature;
}

std::vector<Undeclared> undeclared_of(const Coverage& coverage,
                                      const std::vector<const CaseRecord*>& cases) {
  const std::vector<std::string> gaps = coverage.not_judged();
  std::vector<Undeclared> list;
  for (const CaseRecord* const one : cases) {
    for (const std::string& ability : one->lacks) {
      if (is_claim(ability)) continue;
      auto known = std::ranges::find(list, ability, &Undeclared::ability);
      if (known == list.end()) known = list.insert(known, {.ability = ability});
      if (one->verdict != Verdict::skipped) {
        ++known->in_part;
        continue;
      }
      ++known->skipped;
      for (const std::string& feature : one->features) {
        const std::vector<std::string_view> own = abilities_of(feature);
        const bool brings = own.empty() || std::ranges::find(own, ability) != own.end();
        if (brings && holds(gaps, feature) && !holds(known->features, feature)) {
          known->features.push_back(feature);
        }
      }
    }
  }
  std::ranges::stable_sort(list, std::greater(), [](const Undeclared& one) {
    return std::pair(one.skipped, one.in_part);
  });
  return list;
}

std::string percent_text(double percent) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", percent);
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Returns what is missing of a required feature; empty if the feature was judged.
std::string unjudged(const Coverage& coverage, const std::string& name) {
  const auto found = std::ranges::find(coverage.features, name, &FeatureCoverage::name);
  if (found == coverage.features.end()) return "no case of this run exercises it";
  if (found->judged) return "";
  std::string why =
      "of its " + std::to_string(found->cases) + " cases " + std::to_string(found->ran) + " ran";
  std::vector<std::string> declarations;
  for (const std::string& ability : found->lacks) {
    declarations.push_back(declaration_of(ability, coverage.sampler));
  }
  if (!declarations.empty()) why += "; to be declared: " + joined(declarations);
  return why;
}

}  // namespace

std::string_view to_string(Feature feature) {
  return kFeatures[static_cast<std::size_t>(feature)].name;
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const Row& row : kFeatures) names.emplace_back(row.name);
  return names;
}

std::string_view what_is_judged(std::string_view feature) {
  const Row* const row = row_of(feature);
  return row == nullptr ? std::string_view() : row->what;
}

bool is_operation(std::string_view feature) {
  static constexpr std::string_view kOperations[] = {
#define FAIRDRAW_FEATURE(name, abilities, what)
#define FAIRDRAW_OPERATION_FEATURE(name) #name,
#include "harness/run/evidence/features.inc"
  };
  return std::ranges::find(kOperations, feature) != std::end(kOperations);
}

std::vector<std::string_view> abilities_of(std::string_view feature) {
  std::vector<std::string_view> abilities;
  const Row* const row = row_of(feature);
  std::string_view rest = row == nullptr ? std::string_view() : row->abilities;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    abilities.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return abilities;
}

std::vector<std::string> Coverage::not_judged() const {
  std::vector<std::string> names;
  for (const FeatureCoverage& feature : features) {
    if (!feature.judged && !feature.claim) names.push_back(feature.name);
  }
  return names;
}

std::vector<Coverage> coverage_of(const RunRecord& record) {
  const bool says_it = std::ranges::any_of(
      record.cases, [](const CaseRecord& one) { return !one.features.empty(); });
  if (!says_it) return {};
  std::vector<Coverage> list;
  for (const SamplerRecord& sampler : record.samplers) {
    std::vector<const CaseRecord*> cases;
    Coverage coverage;
    coverage.sampler = sampler.name;
    for (const CaseRecord& one : record.cases) {
      if (one.sampler != sampler.name || one.check == kGlobalCheck) continue;
      cases.push_back(&one);
      ++coverage.cases;
      coverage.ran += one.verdict == Verdict::passed || one.verdict == Verdict::failed;
      coverage.skipped += one.verdict == Verdict::skipped;
    }
    for (const Row& row : kFeatures) {
      FeatureCoverage feature = coverage_of_feature(row, cases);
      if (feature.cases > 0) coverage.features.push_back(std::move(feature));
    }
    coverage.undeclared = undeclared_of(coverage, cases);
    list.push_back(std::move(coverage));
  }
  return list;
}

std::vector<std::string> unmet_requirements(const RunRecord& record) {
  std::vector<std::string> unmet;
  if (record.required.empty() && !record.max_skipped) return unmet;
  for (const Coverage& coverage : coverage_of(record)) {
    for (const std::string& name : record.required) {
      const std::string why = unjudged(coverage, name);
      if (!why.empty()) unmet.push_back(coverage.sampler + ": " + name + " was not judged: " + why);
    }
    if (!record.max_skipped || coverage.cases == 0) continue;
    const double skipped =
        100 * static_cast<double>(coverage.skipped) / static_cast<double>(coverage.cases);
    if (skipped <= *record.max_skipped) continue;
    unmet.push_back(coverage.sampler + ": " + percent_text(skipped) +
                    " % of its cases were skipped; allowed: " + percent_text(*record.max_skipped) +
                    " %");
  }
  return unmet;
}

}  // namespace fairdraw::harness
