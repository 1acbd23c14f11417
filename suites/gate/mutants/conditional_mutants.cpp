#include "suites/gate/mutants/conditional_mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "harness/inputs/counter_random.h"
#include "harness/run/calls/conditions.h"
#include "harness/run/parallel.h"
#include "suites/gate/mutants/blind_trial.h"
#include "suites/gate/mutants/cause_classes.h"

namespace fairdraw::suites {
namespace {

using harness::Condition;

// Words in a mutant's name or sentence that make a condition on `subject` redundant.
struct Moot {
  std::string_view subject;
  std::vector<std::string_view> words;
};

const std::vector<Moot>& moot() {
  static const std::vector<Moot> all = {
      {"top_k", {"top_k", "top-k", "topk", "largest", "filter"}},
      // Rows with top_p alone are drawn by proposals.
      {"top_p", {"top_p", "top-p", "topp", "nucleus", "filter", "propos"}},
      {"min_p", {"min_p", "min-p", "minp", "filter"}},
      {"temperature", {"temperature", "greedy", "argmax"}},
      {"dtype", {"16", "half"}},
      {"processing", {"penal", "bias", "histor", "process", "bad word", "allowed id", "sigma"}},
      {"row", {"row", "batch", "call", "slot", "neighbour", "request", "output"}},
      {"batch", {"row", "batch", "call", "slot", "neighbour", "request", "output"}},
      {"vocabulary", {"vocab", "tile", "block", "shard", "1024", "ids from", "00 ids"}},
  };
  return all;
}

std::vector<Condition> planted() {
  std::vector<Condition> all;
  for (const Condition& one : harness::row_conditions()) {
    if (one.text == "rows with top_k" || one.text == "rows with a top_k of the vocabulary" ||
        one.text == "rows at temperatures other than 1" || one.text == "rows of 16 bits" ||
        one.text == "calls with logits processing") {
      all.push_back(one);
    }
  }
  all.push_back(harness::every_nth_row(2, 1));
  all.push_back(harness::every_nth_row(3, 0));
  all.push_back(harness::rows_above(4));
  all.push_back(harness::vocab_above(200));
  return all;
}

// Returns whether the mistake is itself about the subject of a condition, so that the condition
// says nothing more.
bool is_moot(const Mutant& mutant, std::string_view subject) {
  const std::string said = mutant.name + " " + mutant.wrong;
  const auto found = std::ranges::find(moot(), subject, &Moot::subject);
  return std::ranges::any_of(found->words, [&said](std::string_view word) {
    return said.find(word) != std::string::npos;
  });
}

// Returns the rank of a name in the order of a seed. The ranks of different seeds are unrelated.
std::uint64_t rank_of(const std::string& name, std::uint64_t seed) {
  return harness::mix(seed ^ harness::mix(crc32(name)));
}

// Returns whether a cause is batch dependence, which counts as finding the condition.
bool is_of_batches(const std::string& cause) { return names_class(cause, "batch-dependence"); }

// Returns whether a cause names a condition that wrong rows share. Rows of padding are none.
bool is_shared_condition(const std::string& cause) {
  return cause.find(": rows ") != std::string::npos && !cause.ends_with(" of padding");
}

}  // namespace

std::vector<ConditionalMutant> under_conditions(const Mutant& mutant, std::uint64_t seed) {
  const auto twin = std::ranges::find(twins(), mutant.twin, &Twin::name);
  std::vector<Condition> conditions = planted();
  std::ranges::sort(conditions, {}, [&](const Condition& one) {
    return rank_of(mutant.name + "@" + one.text, seed);
  });
  std::vector<ConditionalMutant> all;
  for (const Condition& condition : conditions) {
    if (is_moot(mutant, condition.subject)) continue;
    ConditionalMutant one = {&mutant, mutant, std::string(condition.subject), condition.text};
    one.mutant.name += "@" + std::string(condition.subject);
    one.mutant.make = [wrong = mutant.make, right = twin->make, holds = condition.holds] {
      return std::make_unique<harness::MixedSampler>(wrong(), right(), holds);
    };
    all.push_back(std::move(one));
  }
  return all;
}

FirstSentence judge_first_sentence(const ConditionalMutant& mutant,
                                   const std::vector<harness::Cause>& causes) {
  if (causes.empty()) return FirstSentence::none;
  const harness::Cause& first = causes.front();
  const bool has_threshold = mutant.subject == "batch" || mutant.subject == "vocabulary";
  std::size_t planted = 0, others = 0;
  for (const harness::SharedCondition& one : first.conditions) {
    const bool is_planted =
        one.subject == mutant.subject && (has_threshold || one.text == mutant.text);
    planted += is_planted ? 1U : 0U;
    others += is_planted || is_moot(*mutant.of, one.subject) ? 0U : 1U;
  }
  const bool condition = planted > 0 && others == 0;
  const bool no_condition = planted == 0 && others == 0;
  const bool defect = is_right(first.name, *mutant.of);
  if (first.is_doubtful) {
    return others > 0    ? FirstSentence::misleading
           : planted > 0 ? FirstSentence::place
                         : FirstSentence::none;
  }
  if (is_shared_condition(first.name)) {
    const bool shared = condition || first.name.starts_with(mutant.subject + ":");
    return shared ? FirstSentence::place : FirstSentence::misleading;
  }
  if (defect && condition) return FirstSentence::right;
  const bool names_nothing_wrong = defect || harness::is_symptom(first.name);
  if (names_nothing_wrong && (condition || no_condition)) return FirstSentence::place;
  const bool of_batch = mutant.subject == "row" || mutant.subject == "batch";
  if (of_batch && is_of_batches(first.name)) return FirstSentence::place;
  return FirstSentence::misleading;
}

std::string ConditionalOutcome::line() const {
  const FirstSentence verdict = judge_first_sentence(mutant, outcome.causes);
  return fmt::format("{:<10} {} in {}: {}", kFirstSentences.at(static_cast<std::size_t>(verdict)),
                     mutant.of->name, mutant.text,
                     outcome.causes.empty() ? "" : outcome.causes.front().text.sentence);
}

std::vector<ConditionalOutcome> run_conditional_trial(std::vector<const Mutant*> mutants,
                                                      std::size_t count, const KillOptions& options,
                                                      const KillProgress& progress) {
  constexpr std::size_t kRounds = 3;
  std::erase_if(mutants, [](const Mutant* one) { return !one->unreachable_reason.empty(); });
  std::ranges::sort(mutants, {},
                    [&](const Mutant* one) { return rank_of(one->name, options.seed); });
  mutants.resize(std::min(mutants.size(), count));
  std::vector<std::vector<ConditionalMutant>> left;
  for (const Mutant* one : mutants) left.push_back(under_conditions(*one, options.seed));
  KillOptions smoke = options;
  smoke.causes = true;
  smoke.smoke_alone = smoke.whole_smoke = true;
  smoke.threads = 1;
  std::vector<ConditionalOutcome> outcomes(left.size());
  std::mutex mutex;
  harness::in_parallel(left.size(), options.threads, [&](std::size_t i) {
    ConditionalOutcome& one = outcomes[i];
    progress.begun(mutants[i]->name);
    for (std::size_t round = 0; round < std::min(kRounds, left[i].size()); ++round) {
      one.mutant = left[i][round];
      one.outcome = run_kill_matrix({&one.mutant.mutant}, smoke, {}).mutants.front();
      if (one.outcome.killed) break;
    }
    const std::lock_guard lock(mutex);
    progress.ended(mutants[i]->name, one.outcome.killed ? one.line() : "not found", false);
  });
  std::erase_if(outcomes, [](const ConditionalOutcome& one) { return !one.outcome.killed; });
  for (ConditionalOutcome& one : outcomes) one.outcome.mutant = one.mutant.of;
  return outcomes;
}

}  // namespace fairdraw::suites
