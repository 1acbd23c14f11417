// list: shows the names that the other verbs accept.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "fairdraw/cuda.h"
#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/inputs/families.h"
#include "harness/plugin/library.h"
#include "harness/run/evidence/coverage.h"
#include "reference/semantic_choices.h"
#include "reference/semantics.h"
#include "reports/json_fields.h"
#include "suites/command/captured_files.h"
#include "suites/command/options.h"
#include "suites/command/output.h"
#include "suites/command/output_file.h"
#include "suites/command/samplers.h"
#include "suites/command/verbs/verbs.h"
#include "suites/gate/cases/case.h"

namespace fairdraw::cli {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kWhats = {"cases",    "samplers",   "families",
                                         "features", "operations", "profiles"};

struct ListOptions {
  std::string what = "cases";
  std::string suite = "gate";
  std::vector<std::string> logits;
  std::string dtype;
  std::string json;
  std::vector<std::string> samplers;
  harness::plugin::Options plugins;
};

Json case_entry(const suites::Case& entry) {
  return {{"id", entry.id},
          {"suite", to_string(entry.suite)},
          {"check", to_string(entry.check)},
          {"vocab", entry.input.vocab},
          {"dtype", to_string(entry.input.dtype)},
          {"rows", entry.rows},
          {"draws", entry.draws},
          {"declared_discrepancy", is_statistical(entry.check) && entry.declared_discrepancy > 0
                                       ? Json(entry.declared_discrepancy)
                                       : Json()}};
}

Json profile_entry(const std::string& name) {
  Json choices = Json::object();
  for (const reference::Choice& choice : reference::semantic_choices()) {
    choices[choice.name] = choice.of(*reference::find_profile(name)).name;
  }
  return {{"name", name}, {"choices", choices}};
}

// Returns the choices in which a profile differs from the profile fairdraw.
std::string differences(const Json& profile) {
  std::string text;
  const Json usual = profile_entry("fairdraw")["choices"];
  for (const auto& [choice, value] : profile["choices"].items()) {
    if (value == usual[choice]) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", choice, value.get<std::string>());
  }
  return text.empty() ? "the definitions of docs/semantics.md" : text;
}

// Returns a JSON array of objects, each with "id" or "name" as its first field.
Json entries(const ListOptions& options) {
  Json list = Json::array();
  if (options.what == "cases") {
    const suites::Suite suite = suites::suite_from_name(options.suite);
    const auto captured = load_all_captured(options.logits, options.dtype);
    for (const suites::Case& entry : suites::case_table(suite, captured)) {
      list.push_back(case_entry(entry));
    }
  } else if (options.what == "samplers") {
    const suites::SamplerMaker maker = sampler_maker(options.plugins);
    for (const std::string& name :
         options.samplers.empty() ? harness::builtin_sampler_names() : options.samplers) {
      const auto sampler = maker(name);
      list.push_back({{"name", name},
                      {"version", sampler->description().version},
                      {"semantics", sampler->description().semantics},
                      {"abilities", harness::plugin::ability_names(sampler->description())}});
    }
  } else if (options.what == "families") {
    for (const harness::Family family : harness::all_families()) {
      list.push_back({{"name", harness::to_string(family)}});
    }
  } else if (options.what == "features") {
    for (const std::string& name : harness::feature_names()) {
      Json abilities = Json::array();
      for (const std::string_view one : harness::abilities_of(name)) abilities.push_back(one);
      list.push_back({{"name", name},
                      {"what", harness::what_is_judged(name)},
                      {"abilities", std::move(abilities)}});
    }
  } else if (options.what == "operations") {
    for (const suites::Operation& operation : suites::named_operations()) {
      list.push_back({{"name", suites::operation_name(operation)}});
    }
  } else if (options.what == "profiles") {
    for (const std::string& name : reference::profile_names()) list.push_back(profile_entry(name));
  } else {
    throw harness::UsageError(harness::unknown_name_message("list", options.what, kWhats));
  }
  return list;
}

int list(const ListOptions& options) {
  if (std::ranges::find(kWhats, options.json) != kWhats.end()) {
    throw harness::UsageError(fmt::format(
        "--json: '{0}' is what to list, and would be a file here; write it before --json, "
        "or ./{0} for a file",
        options.json));
  }
  const OutputFile file("--json", options.json, options.logits);
  const Json all = entries(options);
  if (options.what == "samplers" && options.samplers.empty() && !cuda::is_available()) {
    print_error("fairdraw: samplers on a GPU cannot run here: {}\n", cuda::why_not_available());
  }
  file.write(reports::dump(all, 2) + "\n");
  for (const Json& entry : all) {
    std::string line = entry.begin()->get<std::string>();
    if (entry.contains("suite")) {
      line = fmt::format("{:<8} {}", entry["suite"].get<std::string>(), line);
    }
    if (entry.contains("version")) {
      line = fmt::format("{:<12} {}, semantics {}", line, entry["version"].get<std::string>(),
                         entry["semantics"].get<std::string>());
      if (!options.samplers.empty()) line += "\n    " + entry["abilities"].get<std::string>();
    }
    if (entry.contains("what")) {
      line = fmt::format("{:<20} {}", line, entry["what"].get<std::string>());
    }
    if (entry.contains("choices")) line = fmt::format("{:<18} {}", line, differences(entry));
    print("{}\n", line);
  }
  return 0;
}

}  // namespace

Verb add_list(CLI::App& app) {
  const auto options = std::make_shared<ListOptions>();
  add_option(app, "what", options->what, "WHAT",
             "cases, samplers, families, features, operations or profiles");
  add_option(app, "--suite", options->suite, "SUITE",
             "Cases of this suite: smoke, gate or nightly");
  add_option(app, "--logits", options->logits, "FILE.npy", "Cases on these captured logits",
             {.repeated = true});
  add_option(app, "--dtype", options->dtype, "DTYPE", "Type of the captured logits");
  add_option(app, "--sampler", options->samplers, "NAME",
             "Samplers to show with their abilities, plugin:PATH too (default: the built-in "
             "ones)",
             {.commas = true});
  add_plugin_options(app, options->plugins);
  add_json(app, options->json, "Write the list");
  return [options] {
    return with_plugins(options->plugins, options->samplers, [options] { return list(*options); });
  };
}

}  // namespace fairdraw::cli
