#include "suites/gate/run/accumulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/statistics/statistics.h"
#include "suites/gate/run/one_run.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::CellCounts;
using harness::RunRecord;
using harness::UsageError;
using harness::Verdict;

constexpr double kLn10 = 2.302585092994046;  // ln 10
constexpr double kMissRate = 1e-6;

// Returns the options without "--night 7", which is not an option of the whole sequence of nightly
// runs.
std::string without_night(const std::string& options) {
  constexpr std::string_view kNight = " --night ";
  const std::size_t at = options.find(kNight);
  if (at == std::string::npos) return options;
  const std::size_t end = options.find(' ', at + kNight.size());
  return options.substr(0, at) + (end == std::string::npos ? "" : options.substr(end));
}

void expect_nights(const std::vector<NamedRecord>& nights) {
  if (nights.empty()) throw UsageError("there is no record to merge");
  std::map<std::uint64_t, const NamedRecord*> by_seed;
  const NamedRecord& first = nights.front();
  for (const NamedRecord& night : nights) {
    const RunRecord& record = night.record;
    const auto refuse = [&night](const std::string& what) {
      throw UsageError(fmt::format("{}: it is {}; a whole run is needed", night.name, what));
    };
    if (!record.incomplete.empty()) refuse("incomplete: " + record.incomplete);
    if (record.shard != "1/1") refuse("shard " + record.shard);
    if (!record.case_part.empty()) refuse("part " + record.case_part + " of cases");
    if (!record.nights.empty()) refuse("accumulated evidence itself");
    const auto [known, is_new] = by_seed.emplace(record.seed, &night);
    if (!is_new) {
      throw UsageError(fmt::format("{} and {} have the same seed, {}: the same draws count once",
                                   known->second->name, night.name, record.seed));
    }
    expect_same_run(first, night, {"seed", "commit", "options", "error budget"});
    if (without_night(first.record.options) != without_night(record.options)) {
      throw UsageError(fmt::format("{} and {} are not of one sequence: options '{}' and '{}'",
                                   first.name, night.name, first.record.options, record.options));
    }
  }
}

// Returns a valid p-value of one whole case in one nightly run. Pearson's p-value is only
// approximately valid.
std::optional<double> p_value_of(const CaseRecord& night) {
  if (night.check != "chi_squared" && night.p_value) return night.p_value;
  double smallest = 1, number = 0;
  for (const auto& [name, value] : night.measures) {
    if (!name.ends_with("_p_value") || name == "chi_squared_p_value" || name == "too_good_p_value")
      continue;
    smallest = std::min(smallest, value);
    ++number;
  }
  return number > 0 ? std::optional(std::min(1.0, smallest * number)) : std::nullopt;
}

// Returns the logarithm of a case's e-value in one nightly run, or nothing if the case has no
// e-value.
std::optional<double> log_e_of(const CaseRecord& night) {
  if (night.check == "bets") {
    const auto found = night.measures.find("log10_e");
    if (found == night.measures.end() || !std::isfinite(found->second)) return std::nullopt;
    return found->second * kLn10;  // valid, because the bets end at a stopping time
  }
  const std::optional<double> p_value = p_value_of(night);
  if (!p_value || !(*p_value >= 0 && *p_value <= 1)) return std::nullopt;
  return statistics::p_to_log_e(*p_value);
}

// Cells are computed from the oracle's probabilities, whose last digits may differ between
// machines.
bool same_cells(const CellCounts& a, const CellCounts& b) {
  constexpr double kSlack = 1e-12;
  return a.axis == b.axis &&
         std::ranges::equal(a.probability, b.probability,
                            [](double p, double q) { return std::abs(p - q) <= kSlack * p; });
}

// Returns, for each axis, the counts of all nightly runs over the cells of the last run. A nightly
// run adds no counts if its case has other cells (because the seed chose another row) or no cells.
std::vector<statistics::CellsOfNights> cells_of(const std::vector<const CaseRecord*>& nights) {
  std::vector<statistics::CellsOfNights> all;
  for (const CellCounts& last : nights.back()->cells) {
    statistics::CellsOfNights cells{.probability = last.probability,
                                    .counts = {},
                                    .relative_error = last.relative_error,
                                    .chi_squared_error = last.chi_squared_error};
    for (const CaseRecord* night : nights) {
      const auto found = std::ranges::find_if(
          night->cells, [&last](const CellCounts& one) { return same_cells(one, last); });
      if (found != night->cells.end()) cells.counts.push_back(found->counts);
    }
    all.push_back(std::move(cells));
  }
  return all;
}

// The joint evidence about a case in all nightly runs. Half of the error level is for Ville's
// bound, and the other half for gains by rounding.
class Evidence {
 public:
  Evidence(const std::vector<const CaseRecord*>& nights, double level)
      : cells_(cells_of(nights)),
        rate_(level / 2 / static_cast<double>(std::max<std::size_t>(1, cells_.size()))) {
    for (const CaseRecord* night : nights) {
      if (const std::optional<double> log_e = log_e_of(*night)) log_e_.push_back(*log_e);
    }
  }

  bool says_something() const { return !cells_.empty() || !log_e_.empty(); }

  double log_e() const {
    std::vector<double> parts;
    for (const statistics::CellsOfNights& cells : cells_) {
      parts.push_back(statistics::log_e_of_nights(cells, rate_));
    }
    if (!log_e_.empty()) parts.push_back(statistics::log_e_of_nights(log_e_));
    const std::vector<double> weights(parts.size(), 1 / static_cast<double>(parts.size()));
    return statistics::mean_log_e(parts, weights);
  }

  std::optional<double> min_discrepancy(double needed) const {
    std::optional<double> smallest;
    const double parts = static_cast<double>(cells_.size() + (log_e_.empty() ? 0 : 1));
    for (const statistics::CellsOfNights& cells : cells_) {
      const double found =
          statistics::nights_min_discrepancy(cells, rate_, needed + std::log(parts), kMissRate);
      if (std::isfinite(found)) smallest = std::min(smallest.value_or(found), found);
    }
    return smallest;
  }

 private:
  std::vector<statistics::CellsOfNights> cells_;
  double rate_;
  std::vector<double> log_e_;
};

// Returns how the evidence has grown, at about 24 of the nightly runs.
harness::Growth growth_of(const std::vector<const CaseRecord*>& nights, double level,
                          double needed) {
  constexpr std::size_t kPoints = 24;
  harness::Growth growth{"all nights together", needed / kLn10, {}};
  std::uint64_t draws = 0;
  const std::size_t step = (nights.size() + kPoints - 1) / kPoints;
  for (std::size_t i = 1; i <= nights.size(); ++i) {
    draws += nights[i - 1]->draws;
    if (i % step != 0 && i != nights.size()) continue;
    const Evidence evidence({nights.begin(), nights.begin() + static_cast<std::ptrdiff_t>(i)},
                            level);
    if (evidence.says_something()) growth.points.push_back({draws, evidence.log_e() / kLn10});
  }
  return growth;
}

CaseRecord accumulated(const std::vector<const CaseRecord*>& nights,
                       const std::vector<std::string>& names, double level) {
  CaseRecord whole = *nights.back();
  whole.draws = 0;
  whole.seconds = 0;
  double spent = 0;
  std::size_t passed = 0;
  const CaseRecord* red = nullptr;
  for (std::size_t i = 0; i < nights.size(); ++i) {
    whole.draws += nights[i]->draws;
    whole.seconds += nights[i]->seconds;
    spent += nights[i]->spent();
    if (nights[i]->verdict == Verdict::passed) ++passed;
    const bool is_red =
        nights[i]->verdict == Verdict::failed || nights[i]->verdict == Verdict::error;
    if (!is_red || red != nullptr) continue;
    red = nights[i];
    whole.verdict = red->verdict;
    whole.message = fmt::format("{}: {}", names[i], red->message);
    whole.evidence = red->evidence;
    whole.replay = red->replay;
  }
  const Evidence evidence(nights, level);
  whole.cells.clear();
  if (!evidence.says_something()) return whole;

  const double needed = std::log(2 / level);
  harness::Growth growth = growth_of(nights, level, needed);
  double most = 0;
  for (const harness::GrowthPoint& point : growth.points) most = std::max(most, point.log10_e);
  const double now = growth.points.back().log10_e;
  whole.statistic = most;
  whole.dof.reset();
  whole.p_value = statistics::e_to_p_value(most * kLn10);
  whole.measures = {{"alpha", level},
                    {"log10_e", now},
                    {"max_log10_e", most},
                    {"nights", static_cast<double>(nights.size())},
                    {"spent", spent + level}};
  if (const auto found = evidence.min_discrepancy(needed)) {
    whole.min_discrepancy = std::min(whole.min_discrepancy.value_or(*found), *found);
  }
  whole.evidence.growth = {std::move(growth)};
  if (red != nullptr) return whole;
  whole.evidence.decisive = {"nights", std::nullopt, most, level / 2};
  const std::string of_all =
      fmt::format("evidence 10^{:.1f} to 1 in {} draws of {} nights, 10^{:.1f} is enough", most,
                  whole.draws, nights.size(), needed / kLn10);
  if (most * kLn10 >= needed) {
    whole.fail(of_all + ": too little for any of them");
  } else if (passed > 0) {
    whole.verdict = Verdict::passed;
    whole.message = of_all;
  }
  return whole;
}

}  // namespace

RunRecord accumulate_nights(const std::vector<NamedRecord>& nights) {
  using statistics::ErrorLedger;
  expect_nights(nights);
  const NamedRecord& last = nights.back();
  RunRecord whole = last.record;
  whole.cases.clear();
  whole.seed_source =
      fmt::format("the last of {} nights: {}", nights.size(), last.record.seed_source);
  whole.options = without_night(last.record.options);
  std::vector<const NamedRecord*> all;
  std::map<std::pair<std::string, std::string>, std::vector<const CaseRecord*>> by_case;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> names;
  whole.seconds = 0;
  whole.draws = 0;
  whole.error_budget.false_alarm_rate = ErrorLedger::kReserve;
  for (const NamedRecord& night : nights) {
    const RunRecord& record = night.record;
    all.push_back(&night);
    whole.seconds += record.seconds;
    whole.error_budget.false_alarm_rate += record.error_budget.false_alarm_rate;
    whole.nights.push_back(
        {record.seed, record.seed_source, record.commit, record.error_budget.false_alarm_rate});
    for (const CaseRecord& one : record.cases) {
      by_case[{one.id, one.sampler}].push_back(&one);
      names[{one.id, one.sampler}].push_back(
          fmt::format("night {} (seed {})", whole.nights.size(), record.seed));
    }
  }
  whole.environment = joined_environments(all);
  const double level =
      ErrorLedger::kReserve / static_cast<double>(whole.error_budget.statistical_cases +
                                                  whole.samplers.size());  // a global case each
  whole.error_budget.spent = 0;
  if (by_case.size() != last.record.cases.size()) {
    throw UsageError(
        fmt::format("{} holds {} of {} cases: the records are of different case tables", last.name,
                    last.record.cases.size(), by_case.size()));
  }
  for (const CaseRecord& one : last.record.cases) {
    const std::pair key(one.id, one.sampler);
    if (by_case[key].size() != nights.size()) {
      throw UsageError(
          fmt::format("case '{}' of {} is in {} of {} records: they are of different "
                      "case tables",
                      one.id, one.sampler, by_case[key].size(), nights.size()));
    }
    whole.cases.push_back(accumulated(by_case[key], names[key], level));
    whole.draws += whole.cases.back().draws;
    whole.error_budget.spent += whole.cases.back().spent();
  }
  harness::keep_evidence_within_bounds(whole.cases);
  return whole;
}

}  // namespace fairdraw::suites
