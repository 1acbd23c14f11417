#include "harness/run/evidence/causes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/run/evidence/cause_places.h"

namespace fairdraw::harness {
namespace {

/// Returns the name by which a hint is ranked: the hint's cause. Rows of padding are an exception,
/// because they are a kind of bad rows, in which a mix-up of rows is not at fault.
std::string_view ranked_name(std::string_view hint) {
  return hint == "batches: rows of padding" ? hint : cause_of(hint);
}

// --- Weight of a case for a cause ---------------------------------------------------------------

constexpr double kOfSeen = 1.5, kOfCause = 1, kOfSymptom = 0.5, kOfCheck = 0.3, kOfReach = 0.4,
                 kOfSeenReach = 0.6, kOfSymptomReach = 0.25, kOfChance = 0.1;
// Checks note hints that explain a failure equally well by their simplicity; this breaks ties.
constexpr double kOfLaterHint = 0.99;
constexpr double kOfTokens = 0.5;  // weight of checks that nearly every bug fails

struct Failure {
  const CaseRecord* record;
  std::size_t place;  ///< index of the case in the run's record
};

/// Returns the definition that the check `identify` found in place of the profile's definition, for
/// the choice that a cause names; nullptr if `identify` found the profile's values, or the cause
/// names no choice.
const SeenDefinition* seen_at(std::string_view cause, const SeenDefinitions& seen) {
  if (!cause.starts_with(kDefinition)) return nullptr;
  cause.remove_prefix(kDefinition.size());
  const auto found = std::ranges::find_if(seen.differences, [cause](const SeenDefinition& one) {
    return cause_of(cause) == one.meaning;
  });
  return found == seen.differences.end() ? nullptr : &*found;
}

/// Returns whether a sampler follows some definition everywhere, and only few that differ from its
/// profile's. A sampler that is merely wrong differs in many ways, some of which no definition
/// explains.
bool follows_definitions(const SeenDefinitions& seen) {
  constexpr std::size_t kFew = 3;
  // "undefined" explains everything.
  return seen.differences.size() <= kFew &&
         std::ranges::none_of(seen.differences, [](const SeenDefinition& one) {
           return one.values.empty() || one.values.front() == "undefined";
         });
}

// Returns the weight of a hint by itself. The default hint of a check, which is the same for every
// failure, has the least weight. The hint at another definition has the same low weight, if the
// sampler follows the profile's definition on rows that tell definitions apart.
double worth_of(const CaseRecord& record, const Suspect& hint, const SamplerRecord& sampler) {
  const std::optional<SeenDefinitions>& seen = sampler.seen;
  const CausePlace place = place_of(hint.bug);
  if (hint.bug == default_cause(record.check)) {
    return place.step == Step::filters   ? kOfSymptom
           : record.check == "sequences" ? kOfCheck / 2
                                         : kOfCheck;
  }
  // `identify` uses rows without conditions, on which it sees the profile's definition.
  const bool shows_everywhere = std::ranges::all_of(
      sampler.conditions,
      [&hint](const SharedCondition& one) { return is_said_by(hint.bug, one); });
  if (seen && shows_everywhere && hint.bug.starts_with(kDefinition)) {
    const SeenDefinition* const difference = seen_at(hint.bug, *seen);
    if (difference == nullptr) return kOfCheck;
    return difference->values.empty() ? kOfCause : kOfSeen;
  }
  return place.kind == Kind::cause ? kOfCause : kOfSymptom;
}

/// Returns the filter that a cause is about: the cause cannot show in cases without this filter.
std::optional<std::string_view> filter_of(std::string_view cause) {
  for (const std::string_view filter : {"top_k", "top_p", "min_p"}) {
    if (cause.find(filter) != cause.npos) return filter;
  }
  return std::nullopt;
}

/// Returns whether a cause can show in a case.
bool can_show(std::string_view cause, const CausePlace& place, const CaseRecord& record) {
  if (place.step == Step::processing) {
    return record.check == "processing" || record.check == "sequences" ||
           record.id.find("/processed") != record.id.npos;
  }
  if (place.step == Step::marks) {
    return record.check == "marks" || record.id.find("/marked_") != record.id.npos;
  }
  if (cause == "bitmask") {
    constexpr std::string_view kHaveNone[] = {"support",     "tokens",      "mask",   "boundaries",
                                              "chi_squared", "binomial",    "bets",   "pit",
                                              "scripted",    "metamorphic", "batches"};
    return record.id.find("banned") != record.id.npos ||
           std::ranges::find(kHaveNone, record.check) == std::end(kHaveNone);
  }
  const auto filter = filter_of(cause);
  const bool says_no_filter =  // or does not say which filter
      record.filter.empty() || record.filter == "mixed" || record.check == "boundaries";
  return !filter || says_no_filter || record.filter.find(*filter) != record.filter.npos;
}

/// Returns whether a cause says that results depend on the place in a call, or on the call.
bool is_of_places(std::string_view cause) {
  return place_of(cause).step == Step::batch || cause.find("batch") != cause.npos;
}

/// Returns whether the sampler's mistake shows only in some rows of a call.
bool depends_on_calls(const SamplerRecord& sampler) {
  return std::ranges::any_of(sampler.conditions, [](const SharedCondition& one) {
    return one.subject == "row" || one.subject == "batch";
  });
}

/// Steps without which a run still fails: in some failed case, no mistake of the step can show.
struct FailsWithout {
  bool processing = false, marks = false;
};

/// Returns whether everything that a case reports follows from the cause at `place`: symptoms of
/// this step or of a later one. A cause that is itself only a symptom explains no
/// symptoms of the same step.
bool is_reached(const CaseRecord& record, std::string_view cause, const CausePlace& place,
                const SamplerRecord& sampler, const FailsWithout& fails) {
  // The gate observes a wrong write or a crash directly.
  if (place.step == Step::call) return false;
  // Dependence on other calls is the default hint of its check, and explains only itself.
  if (place.step == Step::batch && place.kind == Kind::symptom) return false;
  return can_show(cause, place, record) &&
         std::ranges::all_of(record.evidence.suspects, [&](const Suspect& hint) {
           CausePlace seen = place_of(hint.bug);
           // The default hint of a check counts as a symptom, and not as a cause.
           const bool is_default = hint.bug == default_cause(record.check);
           if (is_default) seen.kind = Kind::symptom;
           // A mistake in only some rows of a call makes results depend on the call.
           if (seen.step == Step::batch && depends_on_calls(sampler)) return true;
           if (record.check == "batches" || (record.check == "sequences" && is_default)) {
             seen.step = std::max(seen.step, Step::draw);
           }
           // A mistake that shows in rows without marks shows in marked rows, too.
           if (fails.marks && seen.step == Step::marks) return true;
           // A mistake that shows in rows without processing shows in rows with it, too, whichever
           // step of processing the case resembles. So does a mix-up of rows before that step.
           if (fails.processing && seen.step == Step::processing && place.step != seen.step &&
               place.kind == Kind::cause) {
             return true;
           }
           // A bad row that did not fail has log-probabilities that it should not have. A bad row
           // does not explain wrong log-probabilities of right rows.
           if (place.step == Step::rows && seen.step < Step::reports) return false;
           return seen.kind == Kind::symptom &&
                  (place.kind == Kind::cause ? seen.step >= place.step : seen.step > place.step);
         });
}

struct Support {
  double worth = 0;
  const Suspect* hint = nullptr;  ///< suspect that names the cause; null: only symptoms
};

Support support_of(const CaseRecord& record, std::string_view cause, const CausePlace& place,
                   const SamplerRecord& sampler, const FailsWithout& fails) {
  double share = 1;
  for (const Suspect& hint : record.evidence.suspects) {
    if (ranked_name(hint.bug) == cause) return {worth_of(record, hint, sampler) * share, &hint};
    share *= kOfLaterHint;
  }
  if (!is_reached(record, cause, place, sampler, fails)) return {};
  if (place.kind == Kind::symptom) return {kOfSymptomReach, nullptr};
  const SeenDefinition* const difference = sampler.seen ? seen_at(cause, *sampler.seen) : nullptr;
  const bool is_seen = difference != nullptr && follows_definitions(*sampler.seen);
  return {is_seen ? kOfSeenReach : kOfReach, nullptr};
}

// --- One sampler ---------------------------------------------------------------------------------

double weight_of(std::string_view check) { return looks_at_tokens(check) ? kOfTokens : 1; }

class Ranking {
 public:
  Ranking(std::vector<Failure> failures, const SamplerRecord* sampler)
      : failures_(std::move(failures)), sampler_(sampler == nullptr ? SamplerRecord() : *sampler) {
    // The name "bad words" stands for any step of processing, because each of these steps shows
    // only in cases with processing.
    fails_.processing = fails_without({"bad words", Step::processing, Kind::cause});
    fails_.marks = fails_without({"marks", Step::marks, Kind::cause});
  }

  std::vector<Cause> causes() {
    std::vector<Cause> causes;
    while (true) {
      std::string best;
      double most = 0;
      for (const std::string& name : names()) {
        const double score = score_of(name);
        if (score <= most) continue;
        most = score;
        best = name;
      }
      if (best.empty()) return causes;
      causes.push_back(take(best));
    }
  }

 private:
  /// Returns the names in the remaining failures, up to colons, and those that `identify` saw.
  std::set<std::string, std::less<>> names() const {
    std::set<std::string, std::less<>> names;
    for (const Failure& one : failures_) {
      for (const Suspect& hint : one.record->evidence.suspects) {
        names.emplace(ranked_name(hint.bug));
      }
    }
    if (failures_.empty() || !sampler_.seen || !follows_definitions(*sampler_.seen)) return names;
    for (const SeenDefinition& one : sampler_.seen->differences) {
      names.insert(std::string(kDefinition) + one.meaning);
    }
    return names;
  }

  /// Returns the weight of a cause in the failures that no earlier cause explains. Each check
  /// counts by the logarithm of the number of its failed cases, because cases of one check are much
  /// alike.
  double score_of(std::string_view cause) const {
    const CausePlace place = place_of(cause);
    std::map<std::string_view, std::pair<double, std::size_t>> checks;
    for (const Failure& one : failures_) {
      auto& [sum, count] = checks[one.record->check];
      sum += support_of(*one.record, cause, place, sampler_, fails_).worth;
      ++count;
    }
    double score = 0;
    for (const auto& [check, sums] : checks) {
      const auto [sum, count] = sums;
      const auto cases = static_cast<double>(count);
      score += weight_of(check) * std::log2(1 + cases) * sum / cases;
    }
    // A step of processing, the bitmask, or a mark is at fault only if rows without it are right.
    const bool is_elsewhere =
        (place.step == Step::processing || place.step == Step::marks || cause == "bitmask") &&
        fails_without(place);
    const bool is_condition = place.step == Step::batch && shows_in_some_rows_of_calls();
    // A wrong step of processing is named in most cases of processing: without this step alone the
    // rows are right. By chance they are in some cases of any mistake.
    const bool is_by_chance = place.step == Step::processing && place.kind == Kind::cause &&
                              2 * named_in(cause, "processing") < failed_in("processing");
    // A row that is wrong even alone in its call does not depend on other rows.
    const bool is_refuted =
        cause == "batch dependence" && std::ranges::any_of(failures_, [](const Failure& one) {
          return one.record->message.find("a batch of 1 rows: ") != std::string::npos;
        });
    return is_elsewhere || is_condition || is_by_chance || is_refuted ? kOfChance * score : score;
  }

  /// Returns whether some remaining case fails in which a cause at `place` cannot show.
  bool fails_without(const CausePlace& place) const {
    return std::ranges::any_of(failures_, [&place](const Failure& one) {
      return one.record->check != "global" && !can_show(place.name, place, *one.record);
    });
  }

  /// Returns the number of remaining failures of a check, and the number of those that name a
  /// cause.
  std::size_t failed_in(std::string_view check) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        failures_, [check](const Failure& one) { return one.record->check == check; }));
  }
  std::size_t named_in(std::string_view cause, std::string_view check) const {
    return static_cast<std::size_t>(std::ranges::count_if(failures_, [&](const Failure& one) {
      return one.record->check == check &&
             std::ranges::any_of(one.record->evidence.suspects, [cause](const Suspect& hint) {
               return ranked_name(hint.bug) == cause;
             });
    }));
  }

  /// Returns whether a known mistake shows only in some rows of a call. Dependence on the batch is
  /// then a condition under which the mistake shows, and not a cause. Most failed cases of some
  /// check name such a mistake. If rows get the parameters of other rows, some cases name a mistake
  /// by chance.
  bool shows_in_some_rows_of_calls() const {
    const auto is_mistake = [this](std::string_view check, const Suspect& hint) {
      const CausePlace place = place_of(hint.bug);
      return place.kind == Kind::cause && place.step >= Step::processing &&
             hint.bug.find(": rows ") == hint.bug.npos &&
             2 * named_in(ranked_name(hint.bug), check) >= failed_in(check);
    };
    return depends_on_calls(sampler_) &&
           std::ranges::any_of(failures_, [&is_mistake](const Failure& one) {
             return std::ranges::any_of(one.record->evidence.suspects, [&](const Suspect& hint) {
               return is_mistake(one.record->check, hint);
             });
           });
  }

  /// Removes the cases that a cause explains from the remaining ones. Returns the cause with the
  /// whole name that these cases give it.
  Cause take(const std::string& name) {
    const CausePlace place = place_of(name);
    struct Whole {
      const Suspect* hint;
      double worth;
    };
    std::vector<Whole> wholes;
    Cause cause;
    std::vector<std::size_t> reached;
    std::vector<Failure> left;
    for (const Failure& one : failures_) {
      const Support support = support_of(*one.record, name, place, sampler_, fails_);
      if (support.worth <= 0) {
        left.push_back(one);
        continue;
      }
      (support.hint != nullptr ? cause.cases : reached).push_back(one.place);
      if (support.hint == nullptr) continue;
      const auto known = std::ranges::find_if(
          wholes, [&](const Whole& whole) { return whole.hint->bug == support.hint->bug; });
      if (known == wholes.end()) {
        wholes.push_back({support.hint, support.worth});
      } else {
        known->worth += support.worth;
      }
    }
    failures_ = std::move(left);
    cause.cases.insert(cause.cases.end(), reached.begin(), reached.end());
    // Dependence on the batch, too, may be only a condition of what other cases name.
    if (depends_on_calls(sampler_)) {
      const auto names_mistake = [](const Whole& whole) { return !is_of_places(whole.hint->bug); };
      if (std::ranges::any_of(wholes, names_mistake)) {
        std::erase_if(wholes, [&](const Whole& whole) { return !names_mistake(whole); });
      }
    }
    if (const auto best = std::ranges::max_element(wholes, {}, &Whole::worth);
        best != wholes.end()) {
      cause.name = best->hint->bug;
      cause.reason = best->hint->reason;
    }
    name_as_seen(name, cause);
    return cause;
  }

  /// Names the value of a choice that `identify` knows, so that a run and `identify` cannot
  /// disagree.
  void name_as_seen(const std::string& name, Cause& cause) const {
    if (!sampler_.seen) return;
    const SeenDefinition* const difference = seen_at(name, *sampler_.seen);
    if (difference == nullptr || difference->values.empty()) return;
    const auto is_named = [&cause, difference](const std::string& value) {
      return cause.name == definition_cause(difference->meaning, value);
    };
    if (std::ranges::any_of(difference->values, is_named)) return;
    cause.name = definition_cause(difference->meaning, difference->values.front());
    cause.reason = "Rows on which definitions differ show it: `fairdraw identify --evidence`";
  }

  std::vector<Failure> failures_;
  SamplerRecord sampler_;
  FailsWithout fails_;
};

/// Returns the conditions as words: "rows with top_k and calls with logits processing".
std::string words_of(const std::vector<SharedCondition>& conditions) {
  std::string words;
  for (const SharedCondition& one : conditions) words += (words.empty() ? "" : " and ") + one.text;
  return words;
}

/// Adds the conditions under which a cause shows, unless its name implies them. The name of a
/// doubtful cause is not in the sentence, and implies nothing.
void add_conditions(const std::vector<SharedCondition>& conditions, Cause& cause) {
  std::vector<SharedCondition> unsaid =
      cause.is_doubtful ? conditions : unsaid_conditions(conditions, cause.name);
  if (unsaid.empty() || unsaid.size() > kMaxConditions) return;
  cause.conditions = std::move(unsaid);
  std::string& sentence = cause.text.sentence;
  if (sentence.empty()) return;
  if (cause.is_doubtful) {
    sentence.pop_back();  // full stop
    sentence += "; the wrong rows share: " + words_of(cause.conditions) + ".";
    return;
  }
  if (sentence.front() >= 'A' && sentence.front() <= 'Z') sentence.front() += 'a' - 'A';
  sentence = "Only in " + words_of(cause.conditions) + ": " + sentence;
}

/// Returns the number of failed cases that speak against a sampler's first cause: cases that name
/// another mistake, and cases that no cause explains. Symptoms and wrong reported values follow
/// from many mistakes, so they do not speak against the first cause, whatever mistake reported
/// values resemble.
std::size_t against_first(const RunRecord& record, std::size_t failed,
                          const std::vector<Cause>& causes) {
  const auto is_of_reports = [&record](std::size_t place) {
    const std::string& check = record.cases[place].check;
    return check == "logprobs" || check == "probabilities";
  };
  std::size_t against = failed;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const CausePlace place = place_of(causes[i].name);
    const bool is_other = i > 0 && place.kind == Kind::cause && place.step < Step::reports;
    against -= is_other
                   ? static_cast<std::size_t>(std::ranges::count_if(causes[i].cases, is_of_reports))
                   : causes[i].cases.size();
  }
  return against;
}

/// Says in the sentence of a sampler's first cause that no known mistake explains the failures, if
/// too many of the `failed` cases speak against the cause.
void doubt_first(const RunRecord& record, std::size_t failed, std::vector<Cause>& causes) {
  constexpr double kMaxAgainst = 0.05;
  const std::size_t against = against_first(record, failed, causes);
  if (static_cast<double>(against) <= kMaxAgainst * static_cast<double>(failed)) return;
  Cause& first = causes.front();
  first.is_doubtful = true;
  const CauseText nearest = text_of_cause(first.name);
  first.text.sentence = "No known mistake explains this.";
  first.text.change = "The nearest mistake does not explain " + std::to_string(against) + " of " +
                      std::to_string(failed) + " failed cases: " + nearest.sentence + " " +
                      nearest.change;
}

}  // namespace

bool is_said_by(std::string_view cause, const SharedCondition& condition) {
  if (cause.find(condition.text) != cause.npos) return true;
  const CausePlace place = place_of(cause);
  if (condition.subject == "processing") return place.step == Step::processing;
  if (condition.subject == "row" || condition.subject == "batch") {
    return is_of_places(cause);
  }
  const bool is_widest =
      condition.subject == "temperature" || condition.text == "rows with " + condition.subject;
  const auto says = [cause](std::string_view words) { return cause.find(words) != cause.npos; };
  // Ties are named by what they tie with.
  const bool is_named = says(condition.subject) ||
                        (condition.subject == "top_k" && says("the k-th largest")) ||
                        (condition.subject == "top_p" && says("the nucleus"));
  return is_widest && place.kind == Kind::cause && is_named;
}

std::vector<SharedCondition> unsaid_conditions(const std::vector<SharedCondition>& conditions,
                                               std::string_view cause) {
  std::vector<SharedCondition> unsaid;
  std::ranges::copy_if(conditions, std::back_inserter(unsaid),
                       [cause](const SharedCondition& one) { return !is_said_by(cause, one); });
  return unsaid;
}

bool is_of_filters(std::string_view hint) { return place_of(hint).step == Step::filters; }

bool is_symptom(std::string_view cause) { return place_of(cause).kind == Kind::symptom; }

std::string definition_cause(std::string_view meaning, std::string_view value) {
  return std::string(kDefinition) + std::string(meaning) + ": " + std::string(value);
}

std::vector<Cause> ranked_causes(const RunRecord& record) {
  std::vector<std::string_view> samplers;
  std::map<std::string_view, std::vector<Failure>> failures;
  for (std::size_t i = 0; i < record.cases.size(); ++i) {
    const CaseRecord& one = record.cases[i];
    if (one.verdict != Verdict::failed) continue;
    if (!failures.contains(one.sampler)) samplers.push_back(one.sampler);
    failures[one.sampler].push_back({&one, i});
  }
  std::vector<Cause> causes;
  for (const std::string_view sampler : samplers) {
    const auto known_sampler = std::ranges::find(record.samplers, sampler, &SamplerRecord::name);
    const SamplerRecord* const of =
        known_sampler == record.samplers.end() ? nullptr : &*known_sampler;
    const std::size_t failed = failures[sampler].size();
    std::vector<Cause> own = Ranking(std::move(failures[sampler]), of).causes();
    for (Cause& cause : own) cause.text = text_of_cause(cause.name);
    if (!own.empty()) doubt_first(record, failed, own);
    if (of != nullptr && !own.empty()) add_conditions(of->conditions, own.front());
    for (Cause& cause : own) {
      const auto known = std::ranges::find_if(causes, [&cause](const Cause& one) {
        return cause_of(one.name) == cause_of(cause.name);
      });
      if (known == causes.end()) {
        causes.push_back(std::move(cause));
      } else {
        known->cases.insert(known->cases.end(), cause.cases.begin(), cause.cases.end());
      }
    }
  }
  if (samplers.size() > 1) {
    std::ranges::stable_sort(causes, std::ranges::greater(),
                             [](const Cause& cause) { return cause.cases.size(); });
  }
  return causes;
}

}  // namespace fairdraw::harness
