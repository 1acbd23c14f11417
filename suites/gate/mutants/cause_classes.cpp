#include "suites/gate/mutants/cause_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <vector>

#include "harness/inputs/processing_steps.h"
#include "suites/gate/mutants/blind_trial.h"

namespace fairdraw::suites {
namespace {

// Returns the causes that a case of processing names: its steps.
std::vector<std::string_view> steps_of_processing() {
  std::vector<std::string_view> names;
  for (const harness::ProcessingStep& step : harness::processing_steps()) {
    names.emplace_back(step.description);
  }
  return names;
}

// Returns the right causes of each class of mutants. "definition of" stands for all causes that
// begin with these words.
const std::map<std::string_view, std::vector<std::string_view>>& causes() {
  static const std::vector<std::string_view> random = {
      "shared random bits", "seeds", "counters", "numbers of a draw", "batch dependence or state"};
  static const std::vector<std::string_view> filters = {"top_k",       "top_p",         "min_p",
                                                        "temperature", "definition of", "ties"};
  static const std::vector<std::string_view> batches = {
      "batch dependence",  "batch dependence or state",
      "batches",           "shapes and batches",
      "requested results", "speculative decoding: a request depends on its batch"};
  static const auto joined = [](const std::vector<std::vector<std::string_view>>& lists) {
    std::vector<std::string_view> all;
    for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
    return all;
  };
  static const std::map<std::string_view, std::vector<std::string_view>> all = {
      {"mask", joined({filters, {"mask", "boundary of the mask", "out of support", "bitmask"}})},
      {"distribution",
       {"temperature", "truncation", "lost tokens", "top_p", "shared random bits",
        "definition of"}},
      {"rng", joined({random, {"ends of intervals", "out of support"}})},
      {"independence", joined({random, {"speculative decoding"}})},
      {"seed-determinism", joined({random, batches})},
      {"edge-parameter", joined({filters, {"bad values"}})},
      {"ties", {"ties", "definition of", "batch dependence", "batch dependence or state"}},
      {"nan-inf", {"bad values", "numeric precision", "batches: rows of padding"}},
      {"engine-bad-rows", {"bad values", "batch dependence", "batches: rows of padding"}},
      {"numeric-precision",
       {"numeric precision", "truncation", "temperature", "ends of intervals", "top_p",
        "boundary of the mask", "definition of", "speculative decoding"}},
      {"speculative", {"speculative decoding"}},
      {"batch-dependence", batches},
      {"logprobs", {"log-probabilities", "memory"}},
      {"out-of-bounds", {"memory", "out of support"}},
      {"lost-tokens", {"lost tokens", "truncation"}},
      {"parameters", joined({filters, {"mask", "boundary of the mask", "bitmask"}})},
      {"streams", random},
      {"proposals", joined({random,
                            batches,
                            filters,
                            {"mask", "boundary of the mask", "out of support", "truncation",
                             "the draw leaves its own mask"}})},
      {"calls", joined({batches, {"numeric precision", "support size"}})},
      {"shapes", joined({batches,
                         random,
                         {"lost tokens", "mask", "ties", "top_k", "bitmask",
                          "definition of ties with the k-th largest",
                          "definition of equal maxima in greedy rows"}})},
      {"state", joined({batches, {"memory", "definition of"}})},
      {"results", joined({batches,
                          {"memory", "mask", "support size", "log-probabilities", "bad values",
                           "the draw leaves its own mask", "out of support"}})},
      {"sequences", {"batch dependence or state"}},
      {"running-batches", joined({batches,
                                  {"repetition penalty", "frequency penalty", "presence penalty",
                                   "histories", "processing", "bad values", "seeds", "counters"}})},
      {"batch-size", batches},
      {"row-operations", {"row operations", "bad values", "memory"}},
      {"bands", joined({filters, {"mask", "boundary of the mask", "truncation"}})},
      {"large-ids", {"lost tokens", "truncation", "temperature"}},
      {"memorised-cases", joined({batches, {"temperature", "truncation", "lost tokens"}})},
      {"vocabularies", joined({batches,
                               random,
                               filters,
                               {"lost tokens", "truncation", "mask", "boundary of the mask",
                                "out of support", "speculative decoding"}})},
      {"narrow-draws", {"numeric precision", "truncation", "ends of intervals", "lost tokens"}},
      {"degrades", {"numeric precision", "truncation", "ends of intervals", "lost tokens"}},
      {"shared-words", random},
      {"tokens-only",
       joined({filters, {"bad values", "out of support", "mask", "boundary of the mask"}})},
      {"typed-values",
       joined({filters,
               batches,
               {"out of support", "mask", "boundary of the mask", "bitmask", "lost tokens",
                "truncation", "numeric precision", "ends of intervals", "numbers of a draw"}})},
      {"counters", joined({random, {"batch dependence"}})},
      {"parameter-range", joined({filters, {"mask", "boundary of the mask", "numeric precision"}})},
      {"own-generator", joined({batches, random, {"lost tokens", "out of support", "bitmask"}})},
      {"sharded", joined({filters,
                          random,
                          batches,
                          {"mask", "boundary of the mask", "out of support", "lost tokens",
                           "truncation", "bad values", "numeric precision"}})},
      {"marks", {"marks"}},
      {"chain-shapes", {"speculative decoding", "memory"}},
      {"penalties",
       joined({steps_of_processing(), {"bitmask", "histories", "processing", "bad values"}})},
  };
  return all;
}

// Returns whether `name` is among `causes`. A cause matches as a whole name, or without the details
// after its colon; "definition of" matches every definition.
bool is_one_of(std::string_view name, std::span<const std::string_view> causes) {
  const std::string_view cause = name.substr(0, name.find(':'));
  return std::ranges::any_of(causes, [name, cause](std::string_view known) {
    return known == name || known == cause ||
           (known == "definition of" && cause.starts_with("definition of "));
  });
}

}  // namespace

std::span<const std::string_view> causes_of_class(std::string_view kind) {
  const auto found = causes().find(kind);
  if (found == causes().end()) {
    throw std::invalid_argument(fmt::format("no cause names mutants of class '{}'", kind));
  }
  return found->second;
}

bool names_class(std::string_view cause, std::string_view kind) {
  return is_one_of(cause, causes_of_class(kind));
}

bool is_right(std::string_view cause, const Mutant& mutant) {
  const auto declared = declared_causes(mutant.name);
  return is_one_of(cause, declared.empty() ? causes_of_class(mutant.kind) : declared);
}

NamedShare named_share(const KillMatrix& matrix, const std::function<bool(const Mutant&)>& counts) {
  NamedShare share;
  for (const MutantOutcome& outcome : matrix.mutants) {
    if (!outcome.killed || !counts(*outcome.mutant)) continue;
    ++share.killed;
    if (outcome.causes.empty()) continue;
    ++share.with_cause;
    if (is_right(outcome.causes.front().name, *outcome.mutant)) ++share.named;
  }
  return share;
}

}  // namespace fairdraw::suites
