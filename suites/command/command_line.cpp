#include "suites/command/command_line.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "harness/contract/error_text.h"
#include "harness/contract/usage_error.h"
#include "harness/plugin/host.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/record_files.h"
#include "suites/command/samplers.h"
#include "suites/command/seed.h"
#include "suites/command/signals.h"
#include "suites/command/verbs/verbs.h"

namespace fairdraw::cli {
namespace {

constexpr int kExitUsage = 2;

constexpr const char* kDescription =
    "fairdraw judges LLM token samplers: exact masks and tokens, sound statistics, replayable "
    "seeds.";

constexpr const char* kFooter = R"(
Start here:
  fairdraw verify                            judge the built-in samplers, write fairdraw-report/
  fairdraw verify --suite smoke              run only the cases that take seconds
  fairdraw list cases                        list the cases of a run
  fairdraw compare BASE.json HEAD.json       list the changes; exit code 1 on a regression
  fairdraw sample --logits logits.npy --top-p 0.9 --seed 7
  fairdraw VERB --help                       list the options of a verb

Exit codes: 0 all passed; 1 a check failed; 2 bad usage or bad input; 3 nothing was tested, a case
had too few draws for the discrepancy that it states, a feature of --require was not judged, or a
signal ended the run early.)";

// Internal verb of the process that a run starts for a plugin (harness/plugin/host.h).
constexpr std::string_view kPluginHost = "plugin-host";

int host_plugin(const std::vector<std::string>& words) {
  if (words.size() != 3) throw harness::UsageError("plugin-host is started by fairdraw itself");
  return harness::plugin::host_plugin(words[0], parse_uint64("address", words[1]),
                                      parse_uint64("memory", words[2]));
}

// Returns whether a verb writes a report. Such verbs call let_signals_in() themselves, after they
// have removed an earlier report.
bool writes_a_report(std::string_view verb) {
  return verb == "verify" || verb == "report" || verb == "merge";
}

// Removes an earlier report after a rejected call, so that the folder has no report that looks like
// that of this call. A folder that the rejected call names is kept, because it may be an input.
void withdraw_report_of(int argc, char** argv) {
  if (argc < 2 || !writes_a_report(argv[1])) return;
  constexpr std::string_view kOption = "--report", kWithValue = "--report=";
  std::string folder = kUsualReport;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == kOption && i + 1 < argc) folder = argv[i + 1];
    if (word.starts_with(kWithValue)) folder = word.substr(kWithValue.size());
  }
  if (!folder.empty()) withdraw_report(folder, {argv + 2, argv + argc});
}

Verb verb_of(int argc, char** argv, const Additions& additions) {
  CLI::App app(kDescription, "fairdraw");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "fairdraw " FAIRDRAW_VERSION);
  std::map<std::string, Verb> verbs;
  const auto add = [&](const char* name, const char* what, Verb (*options)(CLI::App&)) {
    verbs[name] = options(*app.add_subcommand(name, what));
  };
  add("verify", "Judge samplers, and write a report", add_verify);
  add("replay", "Run one case of a replay line again, or a capsule of `fuzz`", add_replay);
  add("identify", "Find the definitions that a sampler follows", add_identify);
  add("fuzz", "Search for a call that breaks a property, and shrink it", add_fuzz);
  add("list", "Show cases, samplers, families, operations or profiles", add_list);
  add("sample", "Draw tokens from a file of logits", add_sample);
  add("report", "Render a report.json again", add_report);
  add("compare", "Show what changed between two runs, or two benchmarks", add_compare);
  add("merge", "Join the shards of a run to one report", add_merge);
  for (const AddedVerb& verb : additions.verbs) add(verb.name, verb.what, verb.add);
  use_mutants(additions.make_mutant);
  // A first word that is not a verb is probably a misspelt verb. The parser CLI11 would report only
  // that a verb is missing.
  if (argc > 1 && argv[1][0] != '-' && verbs.count(argv[1]) == 0) {
    std::vector<std::string> names;
    for (const auto& [name, verb] : verbs) names.push_back(name);
    throw harness::UsageError(harness::unknown_name_message("verb", argv[1], names));
  }
  // `--option=` means an empty value, and does not use the next word as its value.
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (!word.starts_with("--") || !word.ends_with('=')) continue;
    throw harness::UsageError(fmt::format("{}: '' is empty; give a value, or leave the option out",
                                          word.substr(0, word.size() - 1)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, errors;  // the help page goes through a string, because CLI11 would
                                     // ignore a failed write
    const int code = app.exit(error, out, errors);
    if (code != 0) withdraw_report_of(argc, argv);
    write_out(out.str());
    write_error(safe_text(harness::cut_text(errors.str())));
    return [code] { return code == 0 ? 0 : kExitUsage; };
  }
  return verbs.at(app.get_subcommands().front()->get_name());
}

int run(int argc, char** argv, const Additions& additions) {
  if (argc > 1 && argv[1] == kPluginHost) return host_plugin({argv + 2, argv + argc});
  Verb verb;
  try {
    verb = verb_of(argc, argv, additions);
  } catch (const harness::UsageError&) {
    withdraw_report_of(argc, argv);
    throw;
  }
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (!writes_a_report(name) && name != "fuzz") let_signals_in();  // fuzz has StopSignals
  return verb();
}

}  // namespace

int command_line(int argc, char** argv, const Additions& additions) {
  const FailedWritesReturn writing;
  const SignalsTakeAlong ends;
  const HeldSignals held;
  start_printing();
  program_command() = argv[0];
  try {
    return end_of_output(run(argc, argv, additions));
  } catch (const std::exception& error) {
    print_error("fairdraw: {}\n", safe_text(harness::error_text(error)));
    return end_of_output(kExitUsage);
  }
}

}  // namespace fairdraw::cli
