#include "suites/gate/run/complete_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <stdexcept>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/run/checks/statistical/small_mistakes.h"
#include "harness/statistics/error_ledger.h"
#include "suites/gate/cases/global_case.h"
#include "suites/gate/run/one_run.h"
#include "suites/gate/run/shell_word.h"

namespace fairdraw::suites {
namespace {

using harness::RunRecord;
using harness::UsageError;

constexpr const char* kWhole = "1/1";

struct ShardCases {
  std::uint32_t part = 0, parts = 0;
};

ShardCases shard_of(const NamedRecord& named) {
  const std::string& text = named.record.shard;
  ShardCases shard;
  const char* const end = text.data() + text.size();
  const auto [slash, wrong] = std::from_chars(text.data(), end, shard.part);
  bool right = wrong == std::errc() && slash != end && *slash == '/';
  if (right) {
    const auto [stop, error] = std::from_chars(slash + 1, end, shard.parts);
    right = error == std::errc() && stop == end && shard.part >= 1 && shard.part <= shard.parts;
  }
  if (!right) throw UsageError(fmt::format("{}: shard '{}' is not I/N", named.name, text));
  return shard;
}

// Returns the shards in their order, and requires that none is missing.
std::vector<const NamedRecord*> in_order(const std::vector<NamedRecord>& records) {
  const std::uint32_t parts = shard_of(records.front()).parts;
  std::map<std::uint32_t, const NamedRecord*> by_part;
  for (const NamedRecord& named : records) {
    const ShardCases shard = shard_of(named);
    if (!named.record.incomplete.empty()) {
      throw UsageError(fmt::format("{} is incomplete: {}", named.name, named.record.incomplete));
    }
    if (shard.parts != parts) {
      throw UsageError(fmt::format("{} and {} are not of one run: shard '{}' and '{}'",
                                   records.front().name, named.name, records.front().record.shard,
                                   named.record.shard));
    }
    expect_same_run(records.front(), named);
    const auto [known, is_new] = by_part.emplace(shard.part, &named);
    if (!is_new) {
      throw UsageError(fmt::format("{} and {} are both shard {}", known->second->name, named.name,
                                   named.record.shard));
    }
  }
  if (by_part.size() < parts) {
    constexpr std::size_t kNamed = 16;
    std::vector<std::string> missing;
    for (std::uint32_t part = 1; part <= parts && missing.size() < kNamed; ++part) {
      if (!by_part.contains(part)) missing.push_back(fmt::format("{}/{}", part, parts));
    }
    throw UsageError(fmt::format("{} of {} shards are missing: {}{}", parts - by_part.size(), parts,
                                 fmt::join(missing, ", "),
                                 parts - by_part.size() > kNamed ? ", ..." : ""));
  }
  std::vector<const NamedRecord*> ordered;
  for (const auto& [part, named] : by_part) ordered.push_back(named);
  return ordered;
}

// Returns the cases in the order of their places in the whole run; shards record these places. Each
// place in the run must have exactly one case.
std::vector<harness::CaseRecord> in_places(const std::vector<const NamedRecord*>& shards) {
  const std::uint64_t planned = shards.front()->record.planned;
  std::map<std::uint64_t, std::pair<const NamedRecord*, const harness::CaseRecord*>> by_place;
  std::map<std::pair<std::string, std::string>, const NamedRecord*> seen;
  for (const NamedRecord* shard : shards) {
    for (std::size_t i = 0; i < shard->record.cases.size(); ++i) {
      const harness::CaseRecord& one = shard->record.cases[i];
      const auto [known, is_new] = seen.emplace(std::pair{one.id, one.sampler}, shard);
      if (!is_new) {
        throw UsageError(fmt::format(
            "case '{}' of {} is in {} and in {}: the shards were not made from the same times",
            one.id, one.sampler, known->second->name, shard->name));
      }
      by_place.emplace(shard->record.places[i], std::pair{shard, &one});
    }
  }
  if (by_place.size() != planned || seen.size() != planned || by_place.rbegin()->first >= planned) {
    throw UsageError(
        fmt::format("the shards hold {} of {} cases: shards are missing cases, or were made from "
                    "different times or case tables",
                    std::min(by_place.size(), seen.size()), planned));
  }
  std::vector<harness::CaseRecord> cases;
  cases.reserve(by_place.size());
  for (const auto& [place, found] : by_place) cases.push_back(*found.second);
  return cases;
}

// Returns the cases of records without places, in which case i of the run is in shard i % parts +
// 1.
std::vector<harness::CaseRecord> interleaved(const std::vector<const NamedRecord*>& shards) {
  std::size_t all = 0;
  for (const NamedRecord* shard : shards) all += shard->record.cases.size();
  std::map<std::pair<std::string, std::string>, const NamedRecord*> seen;
  std::vector<harness::CaseRecord> cases;
  cases.reserve(all);
  for (std::size_t i = 0; i < all; ++i) {
    const NamedRecord& shard = *shards[i % shards.size()];
    const std::size_t at = i / shards.size();
    if (at >= shard.record.cases.size()) {
      throw UsageError(
          fmt::format("{} holds {} cases; of {} in all shard {} has more: the shard is missing "
                      "cases, or the shards are of different case tables",
                      shard.name, shard.record.cases.size(), all, shard.record.shard));
    }
    const harness::CaseRecord& one = shard.record.cases[at];
    const auto [known, is_new] = seen.emplace(std::pair{one.id, one.sampler}, &shard);
    if (!is_new) {
      throw UsageError(fmt::format("case '{}' of {} is in {} and in {}", one.id, one.sampler,
                                   known->second->name, shard.name));
    }
    cases.push_back(one);
  }
  return cases;
}

// Returns whether supplied random words have excluded that the sampler uses words of few bits. If
// tokens are compared bit for bit (`tokens` judges only such samplers), a word at each end of an
// interval reveals words of few bits. A sampler that claims only the distribution may round to as
// few bits as float32 has.
bool words_were_given(const RunRecord& record, const std::string& sampler) {
  const auto passed = [&](const char* check) {
    return std::ranges::any_of(record.cases, [&](const harness::CaseRecord& one) {
      return one.check == check && one.sampler == sampler &&
             one.verdict == harness::Verdict::passed;
    });
  };
  return passed("scripted") && passed("tokens");
}

// Returns the number of draws of a case divided by the number that it needs; if this is at least 1,
// the case detects the mistake.
double share_made(const harness::SmallMistake& mistake) {
  return mistake.needed == 0
             ? 0
             : static_cast<double>(mistake.draws) / static_cast<double>(mistake.needed);
}

// Returns each small mistake for which passed cases tested, with the case that comes nearest to
// detecting it.
std::vector<harness::SmallMistake> small_mistakes(const RunRecord& record) {
  const std::string draws_to_find = harness::kDrawsToFind;
  std::vector<harness::SmallMistake> list;
  for (const harness::CaseRecord& one : record.cases) {
    if (one.verdict != harness::Verdict::passed) continue;
    for (const auto& [name, value] : one.measures) {
      // A record that is read from a file may contain any number.
      constexpr double kMax = 9007199254740992;  // 2^53
      if (!name.starts_with(draws_to_find) || !(value >= 0 && value <= kMax)) continue;
      const std::string mistake = name.substr(draws_to_find.size());
      if (mistake.starts_with("uniforms") && words_were_given(record, one.sampler)) continue;
      const auto difference = one.measures.find(harness::kDifference + mistake);
      const harness::SmallMistake here{mistake, one.id,
                                       difference == one.measures.end() ? 0 : difference->second,
                                       one.draws, static_cast<std::uint64_t>(value)};
      auto known = std::ranges::find(list, mistake, &harness::SmallMistake::mistake);
      if (known == list.end()) {
        list.push_back(here);
      } else if (share_made(here) > share_made(*known)) {
        *known = here;
      }
    }
  }
  return list;
}

// Returns the command that repeats all cases of a sampler in the run. For a Python callable, the
// command is the call of one case, without the choice of the case.
std::string replay_of_run(const RunRecord& record, const std::string& sampler) {
  for (const harness::CaseRecord& one : record.cases) {
    const std::string choice = fmt::format(", case=\"{}\"", one.id);
    const std::size_t at = one.replay.find(choice);
    if (one.sampler != sampler || at == std::string::npos) continue;
    return one.replay.substr(0, at) + one.replay.substr(at + choice.size());
  }
  return fmt::format("./fairdraw verify --suite {} --sampler {} --seed {}{}", record.suite,
                     shell_word(sampler), record.seed, record.options);
}

}  // namespace

void complete_record(RunRecord& record) {
  using statistics::ErrorLedger;
  if (record.error_budget.false_alarm_rate == 0) {
    record.error_budget.false_alarm_rate = ErrorLedger::kRunFalseAlarmRate;
  }
  const double share = record.error_budget.false_alarm_rate / ErrorLedger::kRunFalseAlarmRate;
  // A part of the cases has another distribution than the whole. So shards, choices of cases and
  // incomplete runs have no global case.
  if (record.shard == kWhole && record.selection.empty() && record.incomplete.empty() &&
      record.case_part.empty()) {
    const std::vector<harness::CaseRecord> cases = record.cases;
    for (const harness::SamplerRecord& sampler : record.samplers) {
      auto global = global_case(
          cases, sampler,
          ErrorLedger::kGlobalShare * share / static_cast<double>(record.samplers.size()));
      if (!global) continue;
      global->suite = record.suite;
      global->replay = replay_of_run(record, sampler.name);
      record.cases.push_back(std::move(*global));
    }
  }
  ErrorLedger ledger(record.error_budget.statistical_cases);
  record.draws = 0;
  for (const harness::CaseRecord& result : record.cases) {
    record.draws += result.draws;
    const auto spent = result.measures.find("spent");
    if (spent != result.measures.end()) ledger.spend(spent->second);
  }
  record.error_budget.spent = ledger.spent();
  record.small_mistakes = small_mistakes(record);
  harness::keep_evidence_within_bounds(record.cases);
}

RunRecord merge_shards(const std::vector<NamedRecord>& records) {
  if (records.empty()) throw UsageError("there is no record to merge");
  for (const NamedRecord& named : records) {
    if (named.record.case_part.empty()) continue;
    throw UsageError(fmt::format("{} is part {} of cases, and {} is not", named.name,
                                 named.record.case_part, records.front().name));
  }
  const std::vector<const NamedRecord*> shards = in_order(records);
  if (shards.size() == 1) return shards.front()->record;
  RunRecord whole = shards.front()->record;
  whole.shard = kWhole;
  whole.seconds = 0;
  for (const NamedRecord* shard : shards) whole.seconds += shard->record.seconds;
  whole.environment = joined_environments(shards);
  whole.cases = whole.planned > 0 ? in_places(shards) : interleaved(shards);
  whole.planned = 0;
  whole.places.clear();
  try {
    complete_record(whole);
  } catch (const std::logic_error& error) {
    throw UsageError(fmt::format("the shards do not add up: {}", error.what()));
  }
  return whole;
}

}  // namespace fairdraw::suites
