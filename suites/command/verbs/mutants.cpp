// mutants: tests the gate itself. The exit code is 1 if a mutant that can be detected is not
// detected, a mutant that cannot be detected is "found", or a correct sampler fails.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/contract/usage_error.h"
#include "harness/inputs/counter_random.h"
#include "harness/run/parallel.h"
#include "reports/json_fields.h"
#include "reports/report.h"
#include "suites/command/captured_files.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/progress.h"
#include "suites/command/seed.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/mutants/blind_trial.h"
#include "suites/gate/mutants/cause_classes.h"
#include "suites/gate/mutants/conditional_mutants.h"
#include "suites/gate/mutants/kill_matrix.h"

namespace fairdraw::cli {
namespace {

using Json = nlohmann::ordered_json;
using suites::KillMatrix;
using suites::Mutant;
using suites::MutantOutcome;
using suites::TwinOutcome;

struct MutantOptions {
  std::string only, kind, json;
  bool full = false, list = false, causes = false, only_tuning = false;
  bool only_held_out = false, only_trial = false;
  std::string records;
  int jobs = 0;
  int per_class = 0;   ///< 0: all
  int conditions = 0;  ///< number of mutants under random conditions; 0: the mutants of the
                       ///< catalogue as they are
  Verbosity verbosity;
  std::optional<std::string> seed;
};

/// Chooses at most `count` mutants of each class by a hash of their names, so that the choice does
/// not depend on seed or commit.
std::vector<const Mutant*> some_of_each_class(const std::vector<const Mutant*>& mutants,
                                              int count) {
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::size_t>>> classes;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    std::uint64_t rank = 0;
    for (const char letter : mutants[i]->name) {
      rank = harness::mix(rank ^ static_cast<unsigned char>(letter));
    }
    classes[mutants[i]->kind].emplace_back(rank, i);
  }
  std::vector<std::size_t> kept;
  for (auto& [kind, ranked] : classes) {
    std::sort(ranked.begin(), ranked.end());
    if (ranked.size() > static_cast<std::size_t>(count)) {
      ranked.resize(static_cast<std::size_t>(count));
    }
    for (const auto& [rank, i] : ranked) kept.push_back(i);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<const Mutant*> result;
  result.reserve(kept.size());
  for (const std::size_t i : kept) result.push_back(mutants[i]);
  return result;
}

std::vector<const Mutant*> chosen(const MutantOptions& options) {
  std::vector<const Mutant*> mutants;
  std::set<std::string> kinds, names;
  const std::vector<const Mutant*> trial = suites::trial_mutants();
  for (const Mutant& mutant : suites::catalogue()) {
    kinds.insert(mutant.kind);
    names.insert(mutant.name);
    if (!options.kind.empty() && mutant.kind != options.kind) continue;
    const bool only_tuning =
        options.only_tuning || (options.conditions > 0 && !options.only_held_out);
    if (only_tuning && suites::is_held_out(mutant.name)) continue;
    if (options.only_held_out && !suites::is_held_out(mutant.name)) continue;
    if (options.only_trial && std::ranges::find(trial, &mutant) == trial.end()) continue;
    if (!options.only.empty() && fnmatch(options.only.c_str(), mutant.name.c_str(), 0) != 0) {
      continue;
    }
    mutants.push_back(&mutant);
  }
  const auto expect_known = [](const char* what, const std::string& given,
                               const std::set<std::string>& known) {
    if (given.empty() || known.count(given) > 0) return;
    const std::vector<std::string> list(known.begin(), known.end());
    throw harness::UsageError(harness::unknown_name_message(what, given, list));
  };
  expect_known("class", options.kind, kinds);
  const bool is_glob = options.only.find_first_of("*?[") != std::string::npos;
  if (!is_glob) expect_known("mutant", options.only, names);
  if (mutants.empty()) {
    throw harness::UsageError(
        fmt::format("--only: no mutant of that class matches '{}'", options.only));
  }
  return mutants;
}

void list(const std::vector<const Mutant*>& mutants) {
  for (const Mutant* mutant : mutants) {
    print("{:<18} {:<36} {}\n{:<18} {:<36} [{}]\n", mutant->kind, mutant->name, mutant->wrong, "",
          "", mutant->source);
    if (!mutant->unreachable_reason.empty()) {
      print("{:<18} {:<36} unreachable: {}\n", "", "", mutant->unreachable_reason);
    }
  }
  std::size_t later = 0;
  for (const suites::KnownBug& bug : suites::known_bugs()) {
    if (bug.state != suites::EntryState::later) continue;
    print("{:<18} {:<36} {}\n", "later", bug.name, bug.reason);
    ++later;
  }
  print("{} mutants; {} documented bugs, {} of which concern features that do not exist yet\n",
        mutants.size(), suites::known_bugs().size(), later);
}

void print_first_kills(const KillMatrix& matrix) {
  print("{:<18} {:<36} {:>9} {:>6}  {}\n", "class", "mutant", "draws", "s", "killed by");
  for (const MutantOutcome& outcome : matrix.mutants) {
    const std::string by = outcome.killed ? outcome.by
                           : outcome.mutant->unreachable_reason.empty()
                               ? "SURVIVES"
                               : "unreachable: " + outcome.mutant->unreachable_reason;
    print("{:<18} {:<36} {:>9} {:>6.2f}  {}\n", outcome.mutant->kind, outcome.mutant->name,
          outcome.draws, outcome.seconds, by);
  }
}

// Prints a matrix with mutants in its rows and checks in its columns. A cell has the number of
// draws until the check detected the mutant, '-' if the mutant passed, or nothing if the check did
// not judge the mutant.
void print_matrix(const KillMatrix& matrix) {
  std::set<std::string> checks;
  for (const MutantOutcome& outcome : matrix.mutants) {
    for (const auto& [check, kill] : outcome.checks) checks.insert(check);
  }
  std::string line = fmt::format("{:<36}", "mutant");
  for (const std::string& check : checks) line += fmt::format(" {:>11.11}", check);
  print("\n{}\n", line);
  for (const MutantOutcome& outcome : matrix.mutants) {
    line = fmt::format("{:<36}", outcome.mutant->name);
    for (const std::string& check : checks) {
      const auto found = outcome.checks.find(check);
      std::string cell;
      if (found != outcome.checks.end()) {
        cell = found->second.by.empty() ? "-" : fmt::format("{}", found->second.draws);
      }
      line += fmt::format(" {:>11}", cell);
    }
    print("{}\n", line);
  }
}

// The rules for causes were tuned on some of the mutants (blind_trial.h); all other mutants measure
// the quality of these rules.
const std::pair<const char*, bool (*)(const Mutant&)> kShares[] = {
    {"tuning mutants", [](const Mutant& one) { return !suites::is_held_out(one.name); }},
    {"held-out mutants", [](const Mutant& one) { return suites::is_held_out(one.name); }}};

void print_verdict(const KillMatrix& matrix, bool quiet) {
  std::size_t killed = 0, reachable = 0;
  std::uint64_t most = 0;
  for (const MutantOutcome& outcome : matrix.mutants) {
    reachable += outcome.mutant->unreachable_reason.empty() ? 1U : 0U;
    killed += outcome.killed ? 1U : 0U;
    if (outcome.killed) most = std::max(most, outcome.draws);
    if (const std::string complaint = outcome.complaint(); !complaint.empty()) {
      print("WRONG: mutant {} {}\n", outcome.mutant->name, complaint);
    }
  }
  for (const TwinOutcome& outcome : matrix.twins) {
    if (quiet && outcome.red.empty()) continue;
    print("twin {}, judged by {}: {}\n", outcome.twin->name, outcome.semantics,
          outcome.red.empty() ? fmt::format("green in {} cases", outcome.cases)
                              : "RED: " + outcome.red);
  }
  print("{} of {} mutants killed, {} of them unreachable; at most {} draws; {:.1f} s\n", killed,
        matrix.mutants.size(), matrix.mutants.size() - reachable, most, matrix.seconds);
  if (quiet) return;
  for (const auto& [name, counts] : kShares) {
    const suites::NamedShare share = suites::named_share(matrix, counts);
    if (share.killed == 0) continue;
    print("the first cause is right for {} of {} killed {}; {} have none\n", share.named,
          share.killed, name, share.killed - share.with_cause);
  }
}

Json to_json(const MutantOutcome& outcome) {
  const std::string& reason = outcome.mutant->unreachable_reason;
  Json checks = Json::object();
  for (const auto& [check, kill] : outcome.checks) {
    checks[check] = kill.by.empty() ? Json() : Json{{"by", kill.by}, {"draws", kill.draws}};
  }
  Json causes = Json::array();
  for (const harness::Cause& one : outcome.causes) {
    causes.push_back({{"cause", one.name},
                      {"sentence", one.text.sentence},
                      {"change", one.text.change},
                      {"reason", one.reason},
                      {"cases", one.cases.size()}});
  }
  const bool is_right =
      !outcome.causes.empty() && suites::is_right(outcome.causes.front().name, *outcome.mutant);
  return {{"name", outcome.mutant->name},
          {"source", outcome.mutant->source},
          {"class", outcome.mutant->kind},
          {"killed", outcome.killed},
          {"by", outcome.killed ? Json(outcome.by) : Json()},
          {"draws", outcome.draws},
          {"seconds", outcome.seconds},
          {"unreachable_reason", reason.empty() ? Json() : Json(reason)},
          {"wrong", outcome.mutant->wrong},
          {"message", outcome.message},
          {"held_out", suites::is_held_out(outcome.mutant->name)},
          {"first_cause_is_right", is_right},
          {"causes", causes},
          {"twin", outcome.mutant->twin},
          {"checks", checks}};
}

void write_json(const OutputFile& file, const KillMatrix& matrix, const SeedChoice& seed) {
  Json mutants = Json::array(), twins = Json::array(), later = Json::array();
  for (const MutantOutcome& outcome : matrix.mutants) mutants.push_back(to_json(outcome));
  for (const TwinOutcome& outcome : matrix.twins) {
    twins.push_back({{"name", outcome.twin->name},
                     {"semantics", outcome.semantics},
                     {"green", outcome.red.empty()},
                     {"cases", outcome.cases},
                     {"seconds", outcome.seconds},
                     {"red", outcome.red.empty() ? Json() : Json(outcome.red)}});
  }
  for (const suites::KnownBug& bug : suites::known_bugs()) {
    if (bug.state != suites::EntryState::later) continue;
    later.push_back({{"name", bug.name}, {"reason", bug.reason}});
  }
  Json shares = Json::array();
  for (const auto& [name, counts] : kShares) {
    const suites::NamedShare share = suites::named_share(matrix, counts);
    shares.push_back({{"of", name},
                      {"killed", share.killed},
                      {"with_a_cause", share.with_cause},
                      {"right", share.named}});
  }
  const Json all = {{"tool_version", FAIRDRAW_VERSION},
                    {"seed", seed.value},
                    {"seed_source", seed.source},
                    {"complete", matrix.complete()},
                    {"first_causes", shares},
                    {"mutants", mutants},
                    {"twins", twins},
                    {"later", later}};
  file.write(reports::dump(all, 2) + "\n");
}

void write_record(const std::string& folder, const std::string& name,
                  const harness::RunRecord& record) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  OutputFile("--records", folder + "/" + name + ".json").write(reports::to_json(record));
}

// Runs mutants under random conditions.
int run_conditions(const std::vector<const Mutant*>& mutants, const MutantOptions& options,
                   const suites::KillOptions& kill) {
  const auto count = static_cast<std::size_t>(options.conditions);
  RunProgress progress(count, {static_cast<double>(count), kill.threads}, options.verbosity,
                       "wrong");
  const auto outcomes = suites::run_conditional_trial(
      mutants, count, kill,
      {.begun = [&progress](const std::string& name) { progress.begun(name, 1); },
       .ended = [&progress](const std::string& name, const std::string& line,
                            bool) { progress.ended(name, line, false); }});
  progress.close();
  std::map<std::string, int> counts;
  Json all = Json::array();
  for (const suites::ConditionalOutcome& one : outcomes) {
    const auto verdict = suites::judge_first_sentence(one.mutant, one.outcome.causes);
    const char* const name = suites::kFirstSentences.at(static_cast<std::size_t>(verdict));
    ++counts[name];
    print("{}\n", one.line());
    Json of = to_json(one.outcome);
    of["condition"] = one.mutant.text;
    of["first_sentence"] = name;
    all.push_back(of);
    write_record(options.records, one.mutant.mutant.name, one.outcome.record);
  }
  std::string line;
  for (const char* const name : suites::kFirstSentences) {
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", counts[name], name);
  }
  print("first sentences of {} mutants under conditions: {}\n", outcomes.size(), line);
  if (const OutputFile file("--json", options.json); file.wanted()) {
    file.write(reports::dump(all, 2) + "\n");
  }
  return 0;
}

int run(const MutantOptions& options) {
  expect_one_verbosity(options.verbosity);
  if (options.list && !options.json.empty()) {
    throw harness::UsageError("--json: --list runs nothing, so it has no results to write");
  }
  const SeedChoice seed = choose_seed(options.seed, std::nullopt);
  std::vector<const Mutant*> mutants = chosen(options);
  if (options.per_class > 0) mutants = some_of_each_class(mutants, options.per_class);
  if (options.list) {
    list(mutants);
    return 0;
  }
  const OutputFile file("--json", options.json);
  suites::KillOptions kill;
  kill.full = options.full;
  kill.causes = options.causes;
  kill.seed = seed.value;
  kill.captured = load_all_captured({}, "");
  kill.threads = harness::threads_of(static_cast<unsigned>(options.jobs));
  if (options.conditions > 0) return run_conditions(mutants, options, kill);
  if (!options.verbosity.quiet) {
    print("fairdraw {}: {} mutants, seed {} ({})\n", FAIRDRAW_VERSION, mutants.size(), seed.value,
          seed.source);
    flush_out();
  }
  const std::size_t judged = suites::judged_count(mutants);
  RunProgress progress(judged, {static_cast<double>(judged), kill.threads}, options.verbosity,
                       "wrong");
  const KillMatrix matrix = suites::run_kill_matrix(
      mutants, kill,
      {.begun = [&progress](const std::string& name) { progress.begun(name, 1); },
       .ended = [&progress](const std::string& name, const std::string& line,
                            bool wrong) { progress.ended(name, line, wrong); }});
  progress.close();
  if (!options.verbosity.quiet) {
    print_first_kills(matrix);
    if (options.full) print_matrix(matrix);
  }
  print_verdict(matrix, options.verbosity.quiet);
  if (file.wanted()) write_json(file, matrix, seed);
  for (const MutantOutcome& outcome : matrix.mutants) {
    write_record(options.records, outcome.mutant->name, outcome.record);
  }
  return matrix.complete() ? 0 : 1;
}

}  // namespace

Verb add_mutants(CLI::App& app) {
  const auto options = std::make_shared<MutantOptions>();
  add_option(app, "--only", options->only, "GLOB",
             "Only mutants whose name matches; * and ? match any characters");
  add_option(app, "--class", options->kind, "CLASS", "Only mutants of this class");
  add_option(app, "--per-class", options->per_class, "N",
             "At most N mutants of each class, the same in every run (default: all)",
             {.min = 1, .max = 1000});
  add_json(app, options->json, "Write the result of each mutant");
  add_flag(app, "--full", options->full,
           "Run every check on every mutant, instead of ending at the first kill (hours)");
  add_flag(app, "--causes", options->causes,
           "Judge each mutant by some more cases after its kill, so that its causes are the causes "
           "that a whole run names (seconds per mutant)");
  add_flag(app, "--only-tuning", options->only_tuning,
           "Leave out the held-out mutants: every third, by a hash of its name. They measure how "
           "often causes are right, so nobody may tune causes on them");
  add_flag(app, "--only-held-out", options->only_held_out, "Run only the held-out mutants");
  add_flag(app, "--only-trial", options->only_trial,
           "Run only 30 of the held-out mutants, by the same hash: the blind trial of the causes");
  add_option(app, "--conditions", options->conditions, "N",
             "Run N mutants that are wrong only in rows with a random condition, and count how "
             "often the first sentence names both the fault and the condition. The mutants are "
             "held-out ones with --only-held-out, otherwise others",
             {.min = 1, .max = 1000});
  add_option(app, "--records", options->records, "DIR",
             "Write the record of each mutant's cases into this folder: NAME.json");
  add_flag(app, "--list", options->list, "Show the mutants, and run nothing");
  add_option(app, "--jobs", options->jobs, "N",
             "Mutants judged in parallel (default: one per core)", {.min = 1, .max = 1024});
  add_option(app, "--seed", options->seed, "N",
             "Seed of the run, 64 bits (default: made from the commit, as `verify` does)");
  add_verbosity(app, options->verbosity, "mutant");
  return [options] { return run(*options); };
}

}  // namespace fairdraw::cli
