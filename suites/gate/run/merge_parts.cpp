#include "suites/gate/run/merge_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/plugin/library.h"
#include "harness/run/runner.h"
#include "suites/gate/run/one_run.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::RunRecord;
using harness::UsageError;

constexpr std::string_view kAgain = " again";

struct PartName {
  std::uint32_t part = 0, parts = 0;
  bool again = false;
};

PartName part_of(const NamedRecord& named) {
  std::string_view text = named.record.case_part;
  PartName name;
  name.again = text.ends_with(kAgain);
  if (name.again) text.remove_suffix(kAgain.size());
  const char* const end = text.data() + text.size();
  const auto [slash, wrong] = std::from_chars(text.data(), end, name.part);
  bool right = wrong == std::errc() && slash != end && *slash == '/';
  if (right) {
    const auto [stop, error] = std::from_chars(slash + 1, end, name.parts);
    right = error == std::errc() && stop == end && name.part >= 1 && name.part <= name.parts;
  }
  if (!right) {
    throw UsageError(fmt::format("{}: case part '{}' is not I/N: it is not a part of cases",
                                 named.name, named.record.case_part));
  }
  return name;
}

// Returns the records of the parts: first looks in their order, and then second looks.
std::vector<const NamedRecord*> in_order(const std::vector<NamedRecord>& records) {
  const std::uint32_t parts = part_of(records.front()).parts;
  std::map<std::pair<bool, std::uint32_t>, const NamedRecord*> by_part;
  for (const NamedRecord& named : records) {
    const PartName name = part_of(named);
    if (!named.record.incomplete.empty()) {
      throw UsageError(fmt::format("{} is incomplete: {}", named.name, named.record.incomplete));
    }
    // A second look has only some of the cases.
    expect_same_run(records.front(), named,
                    name.again || part_of(records.front()).again
                        ? std::set<std::string>{"choice of cases"}
                        : std::set<std::string>{});
    if (name.parts != parts) {
      throw UsageError(fmt::format("{} and {} are not of one run: case part '{}' and '{}'",
                                   records.front().name, named.name,
                                   records.front().record.case_part, named.record.case_part));
    }
    const auto [known, is_new] = by_part.emplace(std::pair{name.again, name.part}, &named);
    if (!is_new) {
      throw UsageError(fmt::format("{} and {} are both case part {}", known->second->name,
                                   named.name, named.record.case_part));
    }
  }
  std::vector<const NamedRecord*> ordered;
  std::vector<std::string> missing;
  for (std::uint32_t part = 1; part <= parts; ++part) {
    const auto found = by_part.find({false, part});
    if (found == by_part.end()) {
      missing.push_back(fmt::format("{}/{}", part, parts));
    } else {
      ordered.push_back(found->second);
    }
  }
  if (!missing.empty()) {
    constexpr std::size_t kNamed = 16;
    const std::size_t all = missing.size();
    missing.resize(std::min(all, kNamed));
    throw UsageError(fmt::format("{} of {} parts are missing: {}{}", all, parts,
                                 fmt::join(missing, ", "), all > kNamed ? ", ..." : ""));
  }
  for (const auto& [name, named] : by_part) {
    if (name.first) ordered.push_back(named);
  }
  return ordered;
}

// A sampler that has only the description in a record. The sampler draws nothing, because its draws
// have been recorded already.
class RecordedSampler final : public harness::Sampler {
 public:
  explicit RecordedSampler(const harness::SamplerRecord& record) {
    harness::plugin::Description said;
    said.name = record.name;
    said.semantics = record.semantics;
    said.abilities = record.abilities;
    said.randomness = record.promises;
    description_ = harness::plugin::to_sampler_description(said, record.name);
    description_.version = record.version;
  }
  const harness::SamplerDescription& description() const override { return description_; }
  std::string run(const fairdraw_batch& /*batch*/) override {
    return "its draws were made in parts, so there are no fresh draws";
  }

 private:
  harness::SamplerDescription description_;
};

using Key = std::pair<std::string, std::string>;  // id of a case, and its sampler

Key key_of(const CaseRecord& one) { return {one.id, one.sampler}; }

// The results of one case in all parts.
struct Parts {
  // counts by part, and then those of the second looks
  std::vector<std::vector<harness::CountedDraws>> counted;
  // record of the first part in which the sampler broke
  const CaseRecord* broken = nullptr;
  double seconds = 0;
};

std::map<Key, Parts> parts_by_case(const std::vector<const NamedRecord*>& ordered) {
  const std::size_t parts = part_of(*ordered.front()).parts;
  std::map<Key, Parts> by_case;
  for (const NamedRecord* named : ordered) {
    for (const CaseRecord& one : named->record.cases) {
      Parts& of_case = by_case[key_of(one)];
      of_case.counted.resize(parts);
      auto& counted = of_case.counted[part_of(*named).part - 1];
      counted.insert(counted.end(), one.counted.begin(), one.counted.end());
      of_case.seconds += one.seconds;
      const bool failed =
          one.verdict == harness::Verdict::failed || one.verdict == harness::Verdict::error;
      if (failed && of_case.broken == nullptr) of_case.broken = &one;
    }
  }
  return by_case;
}

}  // namespace

RunRecord merge_parts(const std::vector<NamedRecord>& records, PlanOptions options,
                      unsigned threads) {
  if (records.empty()) throw UsageError("there is no record to merge");
  const std::vector<const NamedRecord*> ordered = in_order(records);
  const RunRecord& first = ordered.front()->record;
  std::map<Key, Parts> by_case = parts_by_case(ordered);

  std::map<Key, std::shared_ptr<harness::JoinedCounts>> joined;
  options.suite = suite_from_name(first.suite);
  options.seed = first.seed;
  options.seed_source = first.seed_source;
  options.statistical_cases = first.error_budget.statistical_cases;
  options.samplers.clear();
  for (const harness::SamplerRecord& sampler : first.samplers) {
    options.samplers.push_back(sampler.name);
  }
  options.make_sampler = [&first](const std::string& name) {
    const auto found = std::ranges::find(first.samplers, name, &harness::SamplerRecord::name);
    return std::make_unique<RecordedSampler>(*found);
  };
  options.joined = [&](const std::string& id,
                       const std::string& sampler) -> std::shared_ptr<harness::CountSource> {
    const auto found = by_case.find({id, sampler});
    if (found == by_case.end() || found->second.counted.front().empty()) return nullptr;
    const auto counts = std::make_shared<harness::JoinedCounts>(std::move(found->second.counted));
    found->second.counted.assign(1, {});
    joined[{id, sampler}] = counts;
    return counts;
  };
  Plan plan = make_plan(options);
  std::erase_if(plan.jobs, [&](const harness::Job& job) {
    const auto found = by_case.find(key_of(job.record));
    return !joined.contains(key_of(job.record)) || found->second.broken != nullptr;
  });
  std::map<Key, CaseRecord> judged;
  for (CaseRecord& one : harness::run_jobs(plan.jobs, threads, {})) {
    judged.emplace(key_of(one), std::move(one));
  }

  RunRecord whole = first;
  whole.case_part.clear();
  whole.cases.clear();
  whole.environment = joined_environments(ordered);
  whole.seconds = 0;
  for (const NamedRecord* named : ordered) whole.seconds += named->record.seconds;
  for (harness::SamplerRecord& sampler : whole.samplers) sampler.abilities = sampler.promises = 0;
  std::vector<std::string> again;
  for (const CaseRecord& one : first.cases) {
    const Parts& of_case = by_case.at(key_of(one));
    const auto found = judged.find(key_of(one));
    CaseRecord record = one;
    if (of_case.broken != nullptr) {
      record = *of_case.broken;
    } else if (found != judged.end()) {
      record = std::move(found->second);
    }
    record.counted.clear();
    record.seconds = of_case.seconds;
    const auto counts = joined.find(key_of(one));
    if (counts != joined.end() && counts->second->lacks_some()) {
      again.push_back(one.id);
    } else {
      whole.cases.push_back(std::move(record));
    }
  }
  if (!again.empty()) {
    whole.incomplete = fmt::format(
        "{} case{} need a second look, the first is '{}': run `verify --case '{}' --case-part I/{} "
        "--second-look` for each part I, and merge these records, too",
        again.size(), again.size() == 1 ? " is" : "s are", again.front(), again.front(),
        part_of(*ordered.front()).parts);
  }
  complete_record(whole);
  return whole;
}

}  // namespace fairdraw::suites
