#include "harness/run/evidence/coverage.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
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

// Returns whether the case ended and ran the feature: either the feature needs no ability, or at
// least one of its abilities was not left out.
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
  std::uint64_t wanting = 0;     // cases skipped because the feature's abilities are missing
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

// --- Sizes and types -----------------------------------------------------------------------------

// Kernels use different methods for one tile, one block and rows of many blocks, and for different
// types.
constexpr std::array<std::uint64_t, 2> kLastOfSize = {4096, 65'536};
constexpr std::array kSizes = {"up to 4,096 ids", "of 4,097 to 65,536 ids", "above 65,536 ids"};
constexpr std::array<std::string_view, 3> kTypes = {"float32", "bfloat16", "float16"};

std::size_t size_of(const CaseRecord& one) {
  const auto* const last = std::ranges::find_if(
      kLastOfSize, [&one](std::uint64_t largest) { return one.vocab <= largest; });
  return static_cast<std::size_t>(last - kLastOfSize.begin());
}

std::size_t type_of(const CaseRecord& one) {
  for (std::size_t type = 1; type < kTypes.size(); ++type) {
    if (holds(one.features, kTypes[type])) return type;
  }
  return 0;
}

// The cases of a feature, or of all features, by vocabulary size and type of rows.
class Grid {
 public:
  void add(const CaseRecord& one, bool ran) {
    Cell& cell = cells_[size_of(one)][type_of(one)];
    cell.asked = true;
    cell.ran |= ran;
  }

  void leave_out_type(std::size_t type) {
    for (auto& of_size : cells_) of_size[type] = {};
  }

  // Leaves out the cells in which no case of `all` ran.
  void leave_out_gaps_of(const Grid& all) {
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      for (std::size_t type = 0; type < kTypes.size(); ++type) {
        if (all.cells_[size][type].is_gap()) cells_[size][type] = {};
      }
    }
  }

  // Returns the places for which cases were requested and none ran: whole types, whole sizes, and
  // single cells, each with a key for their order.
  std::map<std::size_t, std::string> gaps() const {
    std::map<std::size_t, std::string> list;
    Grid rest = *this;
    for (std::size_t type = 0; type < kTypes.size(); ++type) {
      Cell whole;
      for (const auto& of_size : cells_) whole.add(of_size[type]);
      if (!whole.is_gap()) continue;
      list[type] = "in " + std::string(kTypes[type]);
      rest.leave_out_type(type);
    }
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      Cell whole;
      for (const Cell& cell : rest.cells_[size]) whole.add(cell);
      if (whole.is_gap()) list[kTypes.size() + size] = kSizes[size];
      for (std::size_t type = 0; type < kTypes.size() && !whole.is_gap(); ++type) {
        if (!rest.cells_[size][type].is_gap()) continue;
        list[(size + 2) * kTypes.size() + type] =
            "in " + std::string(kTypes[type]) + " " + kSizes[size];
      }
    }
    return list;
  }

 private:
  struct Cell {
    bool asked = false, ran = false;
    bool is_gap() const { return asked && !ran; }
    void add(const Cell& other) {
      asked |= other.asked;
      ran |= other.ran;
    }
  };
  std::array<std::array<Cell, kTypes.size()>, kSizes.size()> cells_;
};

// Features that were not judged at all have no places, and neither has a type that was not judged
// at all.
std::vector<UnjudgedPlace> places_of(const Coverage& coverage,
                                     const std::vector<const CaseRecord*>& cases) {
  Grid all;
  for (const CaseRecord* const one : cases) all.add(*one, ran_with(*one, {}));
  const std::vector<std::string> nowhere = coverage.not_judged();
  std::vector<std::size_t> left_out;
  for (std::size_t type = 1; type < kTypes.size(); ++type) {
    if (holds(nowhere, kTypes[type])) left_out.push_back(type);
  }
  for (const std::size_t type : left_out) all.leave_out_type(type);
  std::map<std::size_t, UnjudgedPlace> places;
  for (const auto& [key, where] : all.gaps()) places[key].where = where;
  for (const FeatureCoverage& feature : coverage.features) {
    if (!feature.judged || std::ranges::find(kTypes, feature.name) != kTypes.end()) continue;
    const std::vector<std::string_view> abilities = abilities_of(feature.name);
    Grid grid;
    for (const CaseRecord* const one : cases) {
      if (holds(one->features, feature.name)) grid.add(*one, ran_with(*one, abilities));
    }
    for (const std::size_t type : left_out) grid.leave_out_type(type);
    grid.leave_out_gaps_of(all);
    for (const auto& [key, where] : grid.gaps()) {
      places[key].where = where;
      places[key].features.push_back(feature.name);
    }
  }
  std::vector<UnjudgedPlace> list;
  for (auto& [key, place] : places) list.push_back(std::move(place));
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

// Returns what is missing for a required feature, or an empty string if the feature was judged.
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
    coverage.places = places_of(coverage, cases);
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
