#include "reports/coverage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/run/evidence/abilities.h"
#include "reports/json_fields.h"
#include "reports/wording.h"

namespace fairdraw::reports {
namespace {

using harness::Coverage;

/// Returns the phrase for the cases that the share of coverage refers to, as a subject with its
/// verb.
std::string whole_of(const harness::RunRecord& record) {
  if (!record.incomplete.empty()) return "the cases that ran apply";
  if (!record.case_part.empty()) return "this part applies";
  if (record.shard != "1/1") return "this shard applies";
  if (!record.selection.empty()) return "the chosen cases apply";
  return "the suite applies";
}

/// Returns the first few names, and the number of further names.
std::vector<std::string> shortened(std::vector<std::string> names) {
  constexpr std::size_t kMax = 6;
  if (names.size() <= kMax + 1) return names;
  const std::size_t left = names.size() - kMax;
  names.resize(kMax);
  names.push_back(fmt::format("{} more", left));
  return names;
}

/// Returns the names of the features that were not judged. If no operation on rows was judged, all
/// of them count as one feature, because most samplers that draw tokens have no such operations.
std::vector<std::string> gaps_of(const Coverage& coverage) {
  using harness::is_operation;
  std::vector<std::string> gaps = coverage.not_judged();
  const auto operations = std::ranges::count_if(gaps, is_operation);
  const auto asked =
      std::ranges::count_if(coverage.features, is_operation, &harness::FeatureCoverage::name);
  if (operations < 2 || operations < asked) return gaps;
  std::erase_if(gaps, is_operation);
  gaps.emplace_back("operations on rows");
  return gaps;
}

}  // namespace

std::string listed(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string share_text(const Coverage& coverage) {
  if (coverage.cases == 0) return "0 %";
  const std::uint64_t percent = 100 * coverage.ran / coverage.cases;
  return percent == 0 && coverage.ran > 0 ? "less than 1 %" : fmt::format("{} %", percent);
}

std::string coverage_sentence(const Coverage& coverage, const harness::RunRecord& record) {
  const std::vector<std::string> gaps = gaps_of(coverage);
  std::vector<std::string> parts;
  if (!gaps.empty()) parts.push_back("not judged: " + listed(gaps));
  for (const harness::UnjudgedPlace& place : coverage.places) {
    parts.push_back(place.features.empty()
                        ? "nothing judged " + place.where
                        : "not judged " + place.where + ": " + listed(shortened(place.features)));
  }
  if (parts.empty()) parts.emplace_back("every feature of --require was judged");
  return fmt::format("{} of {} to this sampler ({} of {} case{}); {}", share_text(coverage),
                     whole_of(record), grouped(coverage.ran), grouped(coverage.cases),
                     coverage.cases == 1 ? "" : "s", fmt::join(parts, "; "));
}

std::string declare_sentence(const Coverage& coverage, std::size_t most) {
  std::vector<std::string> parts;
  std::size_t left = 0;
  for (const harness::Undeclared& one : coverage.undeclared) {
    if (one.skipped == 0)
      continue;  // no case was skipped, because only parts of cases need this ability
    if (parts.size() == most) {
      ++left;
      continue;
    }
    parts.push_back(fmt::format("{} for {} case{}{}",
                                harness::declaration_of(one.ability, coverage.sampler),
                                grouped(one.skipped), one.skipped == 1 ? "" : "s",
                                one.features.empty() ? "" : " (" + listed(one.features) + ")"));
  }
  std::string text = fmt::format("{}", fmt::join(parts, "; "));
  if (left > 0) text += fmt::format("; and {} more", left);
  return text;
}

Json coverage_json(const harness::RunRecord& record) {
  Json list;
  for (const Coverage& coverage : harness::coverage_of(record)) {
    Json features = Json::array(), undeclared = Json::array();
    for (const harness::FeatureCoverage& one : coverage.features) {
      features.push_back({{"name", one.name},
                          {"cases", one.cases},
                          {"ran", one.ran},
                          {"judged", one.judged},
                          {"claim", one.claim},
                          {"lacks", one.lacks}});
    }
    for (const harness::Undeclared& one : coverage.undeclared) {
      undeclared.push_back({{"ability", one.ability},
                            {"declare", harness::declaration_of(one.ability, coverage.sampler)},
                            {"skipped", one.skipped},
                            {"in_part", one.in_part},
                            {"features", one.features}});
    }
    list.push_back({{"sampler", coverage.sampler},
                    {"cases", coverage.cases},
                    {"ran", coverage.ran},
                    {"skipped", coverage.skipped},
                    {"features", std::move(features)},
                    {"undeclared", std::move(undeclared)}});
  }
  return list;
}

}  // namespace fairdraw::reports
