// fuzz: runs difficult cases until one breaks a property, then shrinks that case and saves it as a
// capsule.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>

#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/run_options.h"
#include "suites/command/seed.h"
#include "suites/command/signals.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/fuzz/call_text.h"
#include "suites/gate/fuzz/capsule_files.h"
#include "suites/gate/fuzz/fuzzer.h"
#include "suites/gate/run/shell_word.h"

namespace fairdraw::cli {
namespace {

using suites::fuzz::Finding;
using suites::fuzz::FuzzCase;
using suites::fuzz::FuzzStatistics;

struct VerbOptions {
  suites::fuzz::FuzzOptions fuzz;
  std::string sampler, semantics, corpus = "fairdraw-capsules";
  std::optional<std::string> seed, seed_from;
  std::optional<std::uint64_t> cases;
  std::optional<double> seconds;
  bool list = false;
  harness::plugin::Options plugins;
};

double rate(const FuzzStatistics& statistics) {
  return statistics.seconds > 0 ? static_cast<double>(statistics.judged) / statistics.seconds : 0;
}

std::string counts_text(const FuzzStatistics& statistics) {
  return fmt::format("{} cases, {} properties judged, {:.0f} a second", statistics.cases,
                     statistics.judged, rate(statistics));
}

// Shows the progress: on a terminal as a line that is redrawn every second, in a log as a new line
// every ten seconds.
class ShowProgress {
 public:
  void operator()(const FuzzStatistics& statistics) {
    const double pause = terminal_ ? 1 : 10;
    if (statistics.seconds < shown_ + pause) return;
    shown_ = statistics.seconds;
    print_error("{}fuzz: {:.0f} s, {}{}", terminal_ ? "\r\x1b[K" : "", statistics.seconds,
                counts_text(statistics), terminal_ ? "" : "\n");
    drawn_ = terminal_;
  }
  void end() const {
    if (drawn_) print_error("\r\x1b[K");
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
  double shown_ = 0;
};

void print_call(const FuzzCase& fuzz_case) {
  const std::string python = suites::fuzz::python_call(fuzz_case);
  if (python.empty()) return;
  print("    as Python, where sampler(batch) is yours:\n{}", python);
  print("    as C, with the source of a plugin:\n{}", suites::fuzz::c_call(fuzz_case));
}

void print_finding(const Finding& finding, const VerbOptions& options, harness::Sampler& sampler,
                   const reference::Semantics& semantics) {
  print(
      "FAILED {}: {}\n    case {} of seed {}: {}\n    shrunk, by judging {} simpler cases, to: "
      "{}\n",
      finding.property, finding.message, finding.case_number, options.fuzz.seed,
      describe(finding.original), finding.evaluations, describe(finding.shrunk));
  print_call(finding.shrunk);
  const std::string name = suites::shell_word(sampler.description().name);
  std::string more = replay_text(options.plugins);
  if (!options.semantics.empty()) more += " --semantics " + suites::shell_word(options.semantics);
  try {
    const auto path = suites::fuzz::save_capsule(
        options.corpus, suites::fuzz::capsule_of(finding, sampler, semantics));
    print("    replay: fairdraw replay {} --sampler {}{}\n", suites::shell_word(path.string()),
          name, more);
  } catch (const std::length_error& error) {
    print(
        "    no capsule: {}\n    replay: fairdraw fuzz --sampler {} --seed {} --first-case {} "
        "--cases 1 --property {} --max-vocab {} --max-draws {}{}{}\n",
        error.what(), name, options.fuzz.seed, finding.case_number, finding.property,
        options.fuzz.generate.max_vocab, options.fuzz.generate.max_draws,
        options.fuzz.statistical ? " --statistical" : "", more);
  }
}

int list_properties() {
  for (const suites::fuzz::Property& property : suites::fuzz::properties()) {
    print("{:22}  {:12}  {}\n", property.name, to_string(property.kind), property.what);
  }
  return 0;
}

int fuzz(VerbOptions options) {
  if (options.list) return list_properties();
  const std::string name =
      options.sampler.empty() ? harness::builtin_sampler_names().front() : options.sampler;
  const auto sampler = sampler_maker(options.plugins)(name);
  const reference::Semantics semantics = semantics_of(options.semantics, sampler->description());
  const SeedChoice seed = choose_seed(options.seed, options.seed_from);
  options.fuzz.seed = seed.value;
  if (options.cases) options.fuzz.cases = *options.cases;
  constexpr double kSeconds = 60;
  options.fuzz.seconds = options.seconds.value_or(options.cases ? 0 : kSeconds);

  const StopSignals stoppable;
  options.fuzz.stop = [] { return !stop_reason().empty(); };
  ShowProgress show;
  const suites::fuzz::FuzzResult result =
      suites::fuzz::fuzz(*sampler, semantics, options.fuzz, std::ref(show));
  show.end();
  for (const Finding& finding : result.findings) {
    print_finding(finding, options, *sampler, semantics);
  }
  const FuzzStatistics& statistics = result.statistics;
  print("fuzz: {} on {}: {}, {} skipped; seed {} ({}), cases {} to {}\n",
        result.findings.empty() ? "no failure" : fmt::format("{} failures", result.findings.size()),
        name, counts_text(statistics), statistics.skipped, options.fuzz.seed, seed.source,
        options.fuzz.first_case, options.fuzz.first_case + statistics.cases);
  if (statistics.unconfirmed > 0) {
    print("watch: {} distributions looked wrong once, but not on fresh draws\n",
          statistics.unconfirmed);
  }
  if (statistics.stopped) print("fuzz: incomplete: {}\n", stop_reason());
  if (!result.findings.empty()) return 1;
  return statistics.judged == 0 || statistics.stopped ? kExitUndecided : 0;
}

}  // namespace

Verb add_fuzz(CLI::App& app) {
  const auto options = std::make_shared<VerbOptions>();
  add_option(app, "--sampler", options->sampler, "NAME",
             "Sampler (default: the best built-in one)");
  add_plugin_options(app, options->plugins);
  add_option(app, "--semantics", options->semantics, "PROFILE",
             "Profile to judge by, instead of the profile that the sampler declares (`fairdraw "
             "list profiles`)");
  add_option(app, "--seconds", options->seconds, "N",
             "Seconds to search (default: 60, or no limit with --cases)",
             {.min = 1e-3, .max = 1e7});
  add_option(app, "--cases", options->cases, "N",
             "Number of cases; a seed gives the same cases on every machine",
             {.min = 1, .max = std::uint64_t{1} << 48});
  add_option(app, "--first-case", options->fuzz.first_case, "N", "Number of the first case");
  add_option(app, "--seed", options->seed, "N",
             "Seed of the search (default: made from the commit, as `verify` does)");
  add_option(app, "--seed-from", options->seed_from, "TEXT",
             "Make the seed from a text, such as a date");
  add_option(app, "--corpus", options->corpus, "DIR", "Folder for capsules of failures");
  add_option(app, "--property", options->fuzz.property_glob, "GLOB",
             "Only the properties whose names match; * and ? match any characters");
  add_option(app, "--max-vocab", options->fuzz.generate.max_vocab, "N", "Largest vocabulary",
             {.min = 1, .max = 16385});
  add_option(app, "--max-draws", options->fuzz.generate.max_draws, "N",
             "With --statistical: maximum number of draws from a row",
             {.min = 1024, .max = suites::fuzz::kMaxDistributionDraws});
  add_flag(app, "--statistical", options->fuzz.statistical,
           "Judge the distribution of many draws, instead of single calls");
  add_flag(
      app, "--keep-going", options->fuzz.keep_going,
      "Find the first failure of every property, instead of stopping at the first failure of all");
  add_flag(app, "--list", options->list, "Show the properties, and search nothing");
  return [options] {
    return with_plugins(options->plugins, {options->sampler}, [options] { return fuzz(*options); });
  };
}

}  // namespace fairdraw::cli
