// completion: a script for bash or zsh that completes verbs, options, and the names they take.
#include "suites/command/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "harness/contract/sampler.h"
#include "harness/contract/usage_error.h"
#include "harness/run/evidence/coverage.h"
#include "reference/semantics.h"
#include "suites/command/app.h"
#include "suites/command/output.h"
#include "suites/gate/cases/case.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::cli {
namespace {

using Words = std::vector<std::string>;

// Before a verb: those of the program itself.
const Words kOwnOptions = {"--help", "--version"};

std::string joined(const Words& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

// Options of any verb whose values are names, and these.
struct NamedValues {
  Words options, values;
};

std::vector<NamedValues> named_values() {
  const auto known = reference::profile_names();
  const Words profiles(known.begin(), known.end());
  Words samplers = harness::builtin_sampler_names();
  for (const std::string& name : profiles) samplers.push_back("profile:" + name);
  for (const suites::Mutant& mutant : suites::catalogue()) {
    samplers.push_back(fmt::format("{}{}", suites::kMutantPrefix, mutant.name));
  }
  return {NamedValues{Words{"--sampler", "--against"}, samplers},
          NamedValues{Words{"--suite"}, suites::suite_names()},
          NamedValues{Words{"--require"}, harness::feature_names()},
          NamedValues{Words{"--semantics"}, profiles}};
}

// What a verb takes besides options, where these are names.
std::vector<std::pair<std::string, Words>> positional_words() {
  return {{"completion", {"bash", "zsh"}},
          {"list", {"cases", "samplers", "families", "features", "operations", "profiles"}}};
}

// Patterns of `case "$verb $option"`: options that take a value, which is no name.
Words file_patterns(const std::vector<VerbWords>& verbs) {
  Words patterns;
  for (const VerbWords& verb : verbs) {
    for (const OptionWords& option : verb.options) {
      if (!option.takes_value) continue;
      for (const std::string& name : option.names) {
        patterns.push_back(fmt::format("'{} {}'", verb.name, name));
      }
    }
  }
  return patterns;
}

Words names_of(const std::vector<VerbWords>& verbs) {
  Words names;
  for (const VerbWords& verb : verbs) names.push_back(verb.name);
  return names;
}

Words options_of(const VerbWords& verb) {
  Words words;
  for (const OptionWords& option : verb.options) {
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return words;
}

// The branches that both shells have in common, each of which sets `list`.
std::string named_branches() {
  std::string text;
  for (const NamedValues& named : named_values()) {
    text += fmt::format("    {}) list='{}' ;;\n", joined(named.options, "|"), joined(named.values));
  }
  return text;
}

std::string verb_branches(const std::vector<VerbWords>& verbs) {
  std::string text;
  for (const VerbWords& verb : verbs) {
    text += fmt::format("        {}) list='{}' ;;\n", verb.name, joined(options_of(verb)));
  }
  return text;
}

std::string positional_branches() {
  std::string text;
  for (const auto& [verb, words] : positional_words()) {
    text += fmt::format("        {}) list='{}' ;;\n", verb, joined(words));
  }
  return text;
}

// What the line holds is split at blanks here: bash itself splits at ':' and '=' as well, which
// names of samplers and --option=value have inside. Only what follows these is then replaced.
constexpr const char* kBash =
    R"(# Completion of fairdraw for bash: source <(fairdraw completion bash)
_fairdraw() {{
  local line="${{COMP_LINE:0:COMP_POINT}}" list='' head='' files=0
  local -a words
  read -ra words <<<"$line"
  [[ "$line" != *[[:space:]] ]] || words+=('')
  local last=$((${{#words[@]}} - 1)) verb="${{words[1]}}"
  local current="${{words[last]}}" option="${{words[last - 1]}}"
  local value="$current"
  if [[ "$current" == --*=* ]]; then
    option="${{current%%=*}}" value="${{current#*=}}"
  fi
  if ((last <= 1)); then
    list='{verbs} {own}'
  else
    case "$option" in
{named}    esac
    if [[ -z "$list" ]]; then
      case "$verb $option" in
        {files}) files=1 ;;
      esac
    fi
    if [[ -n "$list" ]]; then
      head="${{value%"${{value##*,}}"}}"  # of a list of names
      value="${{value##*,}}"
    elif ((files == 0)) && [[ "$current" == -* ]]; then
      case "$verb" in
{options}      esac
    elif ((files == 0)); then
      case "$verb" in
{positional}      esac
    fi
  fi
  COMPREPLY=()
  [[ -n "$list" ]] || return 0  # file names
  mapfile -t COMPREPLY < <(compgen -P "$head" -W "$list" -- "$value")
  local marks="${{COMP_WORDBREAKS//[^:=]}}" all="$head$value"
  [[ -z "$marks" ]] || COMPREPLY=("${{COMPREPLY[@]#"${{all%"${{all##*["$marks"]}}"}}"}}")
}}
complete -o default -F _fairdraw fairdraw
)";

constexpr const char* kZsh =
    R"(# Completion of fairdraw for zsh, after compinit: source <(fairdraw completion zsh)
_fairdraw() {{
  local list='' verb="${{words[2]}}" option="${{words[CURRENT-1]}}"
  if ((CURRENT == 2)); then
    list='{verbs} {own}'
    compadd -- ${{=list}}
    return
  fi
  if [[ "${{words[CURRENT]}}" == --*=* ]]; then
    option="${{words[CURRENT]%%=*}}"
    compset -P '*='
  fi
  case "$option" in
{named}  esac
  if [[ -n "$list" ]]; then
    compset -P '*,'
    compadd -- ${{=list}}
    return
  fi
  case "$verb $option" in
    {files}) _files; return ;;
  esac
  if [[ "${{words[CURRENT]}}" == -* ]]; then
    case "$verb" in
{options}    esac
  else
    case "$verb" in
{positional}    esac
  fi
  if [[ -n "$list" ]]; then compadd -- ${{=list}}; else _files; fi
}}
compdef _fairdraw fairdraw
)";

int completion(const std::string& shell, const std::vector<VerbWords>& verbs) {
  const Words shells = positional_words().front().second;
  if (shell != shells[0] && shell != shells[1]) {
    throw harness::UsageError(harness::unknown_name_message("shell", shell, shells));
  }
  write_safe_out(fmt::format(
      fmt::runtime(shell == shells[0] ? kBash : kZsh), fmt::arg("verbs", joined(names_of(verbs))),
      fmt::arg("own", joined(kOwnOptions)), fmt::arg("named", named_branches()),
      fmt::arg("files", joined(file_patterns(verbs), "|")),
      fmt::arg("options", verb_branches(verbs)), fmt::arg("positional", positional_branches())));
  return 0;
}

}  // namespace

Verb add_completion(App& app, std::shared_ptr<const std::vector<VerbWords>> verbs) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell,
                 "bash or zsh. For this shell alone: source <(fairdraw completion bash)")
      ->required()
      ->type_name("SHELL");
  return [shell, verbs = std::move(verbs)] { return completion(*shell, *verbs); };
}

}  // namespace fairdraw::cli
