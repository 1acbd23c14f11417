#include "suites/gate/run/plan.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <string_view>

#include "harness/contract/semantics_text.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/library.h"
#include "harness/plugin/plugin_sampler.h"
#include "harness/run/calls/random_words.h"
#include "harness/statistics/statistics.h"
#include "reference/semantics.h"
#include "suites/gate/cases/sampled/sampled_text.h"
#include "suites/gate/run/complete_record.h"
#include "suites/gate/run/run_case.h"
#include "suites/gate/run/shell_word.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

struct Judged {
  std::string name;
  harness::SamplerDescription description;
  reference::Semantics semantics;
};

std::vector<Judged> describe_samplers(const PlanOptions& options) {
  std::vector<Judged> samplers;
  std::set<std::string> seen;
  for (const std::string& name : options.samplers) {
    if (!seen.insert(name).second) {
      throw UsageError(fmt::format("--sampler: '{}' is given twice", name));
    }
    Judged judged{name, options.make_sampler(name)->description(), {}};
    judged.semantics =
        harness::semantics_from_text(options.semantics.value_or(judged.description.semantics));
    samplers.push_back(std::move(judged));
  }
  return samplers;
}

constexpr std::string_view kPluginPrefix = harness::plugin::kPrefix;

// Returns the family to which a sampler belongs, by its name. Every plugin is a family of its own.
std::string_view family(std::string_view sampler) {
  if (sampler.starts_with(kPluginPrefix)) return sampler;
  return sampler.substr(0, sampler.find(':'));
}

// Returns the sampler that represents the given sampler in cases of many draws, or null if there is
// none. Samplers whose exact cases prove that they give the same bits are judged once in such
// cases: "cpu" represents "cpu:scalar".
const Judged* represented_by(const std::vector<Judged>& samplers, std::size_t at) {
  const Judged& judged = samplers[at];
  if (!judged.description.exact_integer) return nullptr;
  const auto end = samplers.begin() + static_cast<std::ptrdiff_t>(at);
  const auto found = std::find_if(samplers.begin(), end, [&judged](const Judged& earlier) {
    return earlier.description.exact_integer && family(earlier.name) == family(judged.name);
  });
  return found == end ? nullptr : &*found;
}

// Returns whether a sampler is one instruction set of the CPU. Such samplers differ only in their
// work on a single row.
bool is_instruction_set(const Judged& judged) {
  const std::vector<std::string> names = harness::builtin_sampler_names();
  return family(judged.name) == "cpu" && std::ranges::find(names, judged.name) != names.end();
}

std::string note_of_represented(std::uint64_t cases, const Judged& by) {
  return fmt::format(
      "{} case{} of many draws or rows {} judged for {} alone: exact cases compare the masks, "
      "statuses and tokens of both with the integer model.",
      cases, cases == 1 ? "" : "s", cases == 1 ? "is" : "are", by.name);
}

bool matches(const std::string& glob, const std::string& id) {
  return fnmatch(glob.c_str(), id.c_str(), 0) == 0;
}

bool is_chosen(const PlanOptions& options, const std::string& id) {
  return (!options.case_glob || matches(*options.case_glob, id)) &&
         std::none_of(options.exclude.begin(), options.exclude.end(),
                      [&id](const std::string& glob) { return matches(glob, id); });
}

// Throws if a glob matches no case of the run, whatever the shard and the other globs are. Without
// this check, --case might run nothing, and --exclude might exclude nothing.
void expect_matches(const char* option, const std::string& glob, const PlanOptions& options,
                    const std::vector<Case>& table) {
  const bool any = std::any_of(table.begin(), table.end(), [&](const Case& entry) {
    return (!options.against || is_comparable(entry)) && matches(glob, entry.id);
  });
  if (any) return;
  throw UsageError(fmt::format(
      "{}: unknown case '{}' in suite {}: no id {}; `fairdraw list cases` shows them all", option,
      glob, to_string(options.suite),
      glob.find_first_of("*?[") == std::string::npos ? "is that" : "matches"));
}

// Throws if failed_before has cases that are not in the case table; `left` are these cases.
void expect_all_are_known(const std::set<std::pair<std::string, std::string>>& left,
                          const PlanOptions& options) {
  if (left.empty()) return;
  const auto& [id, sampler] = *left.begin();
  throw UsageError(
      fmt::format("--rerun-failed: {}: {} of its {} failed cases are not in suite {}, the first is "
                  "'{}' on '{}'",
                  options.failed_in, left.size(), options.failed_before->size(),
                  to_string(options.suite), id, sampler));
}

void expect_parts(const PlanOptions& options) {
  if (!options.part) return;
  const auto [part, parts] = *options.part;
  if (parts < 1 || part < 1 || part > parts) {
    throw UsageError(fmt::format(
        "--case-part: {}/{} is out of range; I/N with 1 <= I <= N is allowed", part, parts));
  }
  if (options.shards > 1) {
    throw UsageError("--case-part: --shard is given too; allowed: one of them");
  }
  if (options.against) {
    throw UsageError("--case-part: --against is given too; allowed: one of them");
  }
}

// Returns whether the part of the draws that this run makes includes draws of the case.
bool is_of_part(const PlanOptions& options, Check check) {
  if (!options.part || can_be_split(check)) return true;
  return options.part->part == 1 && !options.second_look;
}

// Returns the options that choose cases, as words of the command line.
std::string selection_of(const PlanOptions& options) {
  std::string text = options.case_glob.value_or("");
  for (const std::string& glob : options.exclude) {
    text += (text.empty() ? "--exclude " : " --exclude ") + shell_word(glob);
  }
  if (options.failed_before) {
    text += (text.empty() ? "--rerun-failed " : " --rerun-failed ") + shell_word(options.failed_in);
  }
  return text;
}

// Smallest number of draws, so that checks that divide their draws have some draws for each part.
constexpr double kFewestDraws = 1000;

// Returns the case with the values that the run's seed chooses, and with the draws that the run's
// options set.
Case with_values_of_run(const Case& named, const PlanOptions& options) {
  Case entry = with_values(named, options.seed);
  if (is_statistical(entry.check) && (options.draws || options.draws_scale)) {
    const auto own = static_cast<double>(entry.draws);
    const double asked = options.draws
                             ? static_cast<double>(*options.draws)
                             : std::max(std::round(own * *options.draws_scale), kFewestDraws);
    const auto most = static_cast<double>(max_draws(entry, options.against.has_value()));
    entry.draws = static_cast<std::uint64_t>(std::min(asked, most));
  }
  return options.sampled ? with_sampled_text(entry, *options.sampled) : entry;
}

}  // namespace

bool can_be_split(Check check) {
  return check == Check::chi_squared || check == Check::bets || check == Check::binomial;
}

std::uint64_t max_draws(const Case& entry, bool against) {
  constexpr std::uint64_t kOfTables = std::uint64_t{1} << 32, kKept = std::uint64_t{1} << 24;
  const Check check = entry.check;
  if (check == Check::pit || check == Check::streams || check == Check::batch_distribution) {
    return std::max(kKept, entry.draws);
  }
  return can_be_split(check) && !against ? kMaxCaseDraws : kOfTables;
}

double share_of_night(std::optional<std::uint64_t> night) {
  return night ? 1 / (static_cast<double>(*night) * (static_cast<double>(*night) + 1)) : 1;
}

double default_case_seconds(const Case& entry, const std::string& sampler) {
  if (!sampler.starts_with(kPluginPrefix)) return 0;
  constexpr double kAtLeast = 600, kOfCall = 1e-3, kOfToken = 2.5e-7, kGoesOn = 4;
  // Numbers of rows that these checks make for each row of the case.
  constexpr double kOfBoundaries = 200, kOfBatches = 4096;
  const double draws =
      static_cast<double>(entry.rows) +
      static_cast<double>(entry.draws) * (entry.check == Check::boundaries ? kOfBoundaries : 1) +
      (entry.check == Check::batches ? kOfBatches : 0);
  return kAtLeast + kGoesOn * draws * (kOfCall + kOfToken * static_cast<double>(entry.input.vocab));
}

Plan make_plan(const PlanOptions& options) {
  if (options.shards < 1 || options.shard < 1 || options.shard > options.shards) {
    throw UsageError(fmt::format("--shard: {}/{} is out of range; I/N with 1 <= I <= N is allowed",
                                 options.shard, options.shards));
  }
  expect_parts(options);
  const std::vector<Judged> samplers = describe_samplers(options);
  // made only to throw for an unknown name
  if (options.against) options.make_sampler(*options.against);
  const std::vector<Case> table = case_table(options.suite, options.captured);
  if (options.case_glob) expect_matches("--case", *options.case_glob, options, table);
  for (const std::string& glob : options.exclude) {
    expect_matches("--exclude", glob, options, table);
  }

  struct Entry {
    const Case* entry;
    const Judged* sampler;
  };
  std::vector<Entry> entries;
  std::uint64_t statistical = 0;
  // numbers of cases in which another sampler represents this one
  std::vector<std::uint64_t> represented(samplers.size(), 0);
  auto failed_left =
      options.failed_before.value_or(std::set<std::pair<std::string, std::string>>());
  for (const Case& entry : table) {
    if (options.against && !is_comparable(entry)) continue;
    for (std::size_t i = 0; i < samplers.size(); ++i) {
      const bool once = entry.once || (entry.once_a_processor && is_instruction_set(samplers[i]));
      if (once && represented_by(samplers, i) != nullptr) {
        if (!options.against && is_chosen(options, entry.id)) ++represented[i];
        continue;
      }
      if (is_statistical(entry.check)) ++statistical;
      const std::pair key(entry.id, samplers[i].name);
      failed_left.erase(key);
      if (options.failed_before && !options.failed_before->contains(key)) continue;
      if (is_chosen(options, entry.id) && is_of_part(options, entry.check)) {
        entries.push_back({&entry, &samplers[i]});
      }
    }
  }
  expect_all_are_known(failed_left, options);
  if (entries.empty() && options.failed_before) {
    throw UsageError(fmt::format("--rerun-failed: {}: --case and --exclude leave out every case",
                                 options.failed_in));
  }
  if (entries.empty() && !options.exclude.empty()) {
    throw UsageError("--exclude: leaves out every case that --case, or the suite, chooses");
  }

  if (entries.empty() && options.part) {
    throw UsageError(
        "--case-part: no chosen case can be split; cases of checks chi_squared, bets and binomial "
        "can be split, and part 1 runs all other cases whole");
  }

  const auto is_first = [&entries](const Entry& one) { return one.entry == entries[0].entry; };
  if (options.sampled && !std::ranges::all_of(entries, is_first)) {
    throw UsageError("--sampled: gives the values of one case, but several cases are chosen");
  }

  Plan plan;
  plan.statistical_cases = options.statistical_cases > 0 ? options.statistical_cases
                                                         : std::max(kStatisticalCases, statistical);
  const double share =
      statistics::ErrorLedger(plan.statistical_cases).case_share() * share_of_night(options.night);
  for (std::size_t i = 0; i < samplers.size(); ++i) {
    const Judged& judged = samplers[i];
    plan.samplers.push_back({judged.name, judged.description.version, judged.semantics.name,
                             harness::allowances_of(judged.semantics)});
    if (represented[i] > 0) {
      plan.samplers.back().notes.push_back(
          note_of_represented(represented[i], *represented_by(samplers, i)));
    }
    if (options.part) {
      plan.samplers.back().abilities = harness::plugin::ability_bits(judged.description);
      plan.samplers.back().promises = harness::plugin::promise_bits(judged.description);
    }
  }
  std::string more = options.replay_options;
  if (options.against) more += " --against " + shell_word(*options.against);
  if (plan.statistical_cases != kStatisticalCases) {
    more += fmt::format(" --statistical-cases {}", plan.statistical_cases);
  }
  std::vector<Case> cases;
  std::vector<double> seconds;
  for (const Entry& one : entries) {
    cases.push_back(with_values_of_run(*one.entry, options));
    seconds.push_back(options.times.seconds(cases.back(), one.sampler->name, one.entry->draws));
  }
  const std::vector<std::uint32_t> shard_of = balanced_shards(seconds, options.shards);
  plan.planned = entries.size();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (shard_of[i] != options.shard - 1) continue;
    plan.places.push_back(i);
    plan.seconds.push_back(seconds[i]);
    const Judged& judged = *entries[i].sampler;
    const std::string name = judged.name;
    const auto factory = [&options](const std::string& of) {
      return [maker = options.make_sampler, of] { return maker(of); };
    };
    const Case& entry = cases[i];
    harness::Job job =
        options.against ? make_comparison(entry, name, factory(name), factory(*options.against),
                                          judged.semantics, options.seed, share)
        : options.part && can_be_split(entry.check)
            ? make_part(entry, name, factory(name), judged.semantics, options.seed, share,
                        *options.part, options.second_look ? 1 : 0)
            : make_job(entry, name, factory(name), judged.semantics, options.seed, share,
                       options.joined ? options.joined(entry.id, name) : nullptr);
    const double usual =
        std::max(default_case_seconds(entry, name),
                 options.against ? default_case_seconds(entry, *options.against) : 0);
    job.seconds = options.case_seconds.value_or(usual);
    job.record.replay = fmt::format(
        "./fairdraw replay {} --sampler {} --seed {}{}{}{}", job.record.id, shell_word(name),
        options.seed, entry.sampled ? " --sampled " + sampled_text(entry) : "",
        options.semantics ? " --semantics " + shell_word(*options.semantics) : "", more);
    plan.jobs.push_back(std::move(job));
  }
  return plan;
}

harness::RunRecord begin_record(const Plan& plan, const PlanOptions& options) {
  harness::RunRecord record;
  record.tool_version = FAIRDRAW_VERSION;
  record.suite = to_string(options.suite);
  record.seed = options.seed;
  record.seed_source = options.seed_source;
  record.shard = fmt::format("{}/{}", options.shard, options.shards);
  if (options.part) {
    record.case_part = fmt::format("{}/{}{}", options.part->part, options.part->parts,
                                   options.second_look ? " again" : "");
  }
  record.environment = harness::host_environment();
  std::vector<std::string> samplers = options.samplers;
  if (options.against) samplers.push_back(*options.against);
  record.environment.merge(harness::plugin::plugin_files(samplers));
  record.commit = options.commit;
  record.selection = selection_of(options);
  if (options.semantics) {
    record.options = " --semantics " + shell_word(*options.semantics);
  }
  record.options += options.replay_options;
  if (options.against) record.options += " --against " + shell_word(*options.against);
  record.samplers = plan.samplers;
  record.error_budget.statistical_cases = plan.statistical_cases;
  record.error_budget.false_alarm_rate =
      statistics::ErrorLedger::kRunFalseAlarmRate * share_of_night(options.night);
  return record;
}

void add_cases(const Plan& plan, std::vector<harness::CaseRecord> cases,
               harness::RunRecord& record) {
  record.cases = std::move(cases);
  if (record.shard == "1/1") return;
  record.planned = plan.planned;
  std::size_t job = 0;
  for (const harness::CaseRecord& one : record.cases) {  // results are in the order of the jobs
    while (plan.jobs[job].record.id != one.id || plan.jobs[job].record.sampler != one.sampler) {
      ++job;
    }
    record.places.push_back(plan.places[job]);
  }
}

harness::RunRecord record_of(const Plan& plan, harness::RunRecord record,
                             std::vector<harness::CaseRecord> cases, const std::string& reason) {
  add_cases(plan, std::move(cases), record);
  if (record.cases.size() < plan.jobs.size()) {
    record.incomplete =
        fmt::format("{} after {} of {} cases", reason, record.cases.size(), plan.jobs.size());
  }
  complete_record(record);
  return record;
}

harness::RunRecord run_plan(const Plan& plan, const PlanOptions& options, unsigned threads,
                            const harness::Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  harness::RunRecord begun = begin_record(plan, options);
  const auto reason = [&options] { return options.stop ? options.stop() : std::string(); };
  const auto stop = [&reason] { return !reason().empty(); };
  std::vector<harness::CaseRecord> cases =
      harness::run_jobs(plan.jobs, threads, progress, options.run_seconds, stop, options.begun);
  const bool stopped = cases.size() < plan.jobs.size();
  harness::RunRecord record =
      record_of(plan, std::move(begun), std::move(cases), stopped ? reason() : std::string());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  record.seconds = elapsed.count();
  return record;
}

}  // namespace fairdraw::suites
