#include "suites/gate/identify/conditions_seen.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/run/evidence/causes.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/identify/case_rows.h"
#include "suites/gate/identify/condition_choice.h"
#include "suites/gate/identify/neighbours.h"
#include "suites/gate/identify/seen_definitions.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::Condition;
using harness::Job;
using harness::SharedCondition;
using harness::Verdict;

bool failed(const CaseRecord& one) {
  return one.verdict == Verdict::failed && one.check != harness::kGlobalCheck;
}

bool is_decided(const CaseRecord& one) {
  return one.verdict == Verdict::passed || one.verdict == Verdict::failed;
}

class Conditions {
 public:
  Conditions(const std::vector<Job>& jobs, const harness::TimeLimit& limit,
             const harness::RunRecord& record, harness::SamplerRecord& sampler)
      : jobs_(jobs), limit_(limit), rows_(jobs, limit), record_(record), sampler_(sampler) {
    for (const CaseRecord& one : record_.cases) {
      if (failed(one)) checks_.insert(one.check);
    }
    const auto own = std::ranges::find_if(
        jobs_, [&](const Job& job) { return job.record.sampler == sampler_.name; });
    is_exact_ = own != jobs_.end() && sampler_.semantics == "fairdraw" &&
                own->make_sampler()->description().exact_integer;
  }

  // Asks in which rows the cases of a cause are wrong. A doubtful cause may not be named, so that
  // the conditions that its name implies are asked about, too.
  void ask_about(const harness::Cause& cause) {
    left_ = cause.is_doubtful ? ~Held() : ~said_by(cause.name);
    left_ &= conditions_where([](const Condition&) { return true; });
    const bool tells_places =
        is_exact_ || checks_.contains(kPaired) || std::ranges::any_of(checks_, is_in_one_call);
    if (!tells_places) left_ &= of_parameters();
    ask(cause.cases);
    ask_shifted_cases();
    for (const char* const subject :
         {"dtype", "top_k", "temperature", "top_p", "min_p", "processing"}) {
      if ((left_ & of_subject(subject)).any()) say_without(subject);
    }
    if (left_.any()) add_cases();
  }

  // Finds a condition on places in calls alone: rows are wrong there and right at other places.
  void find_places() {
    sampler_.conditions.clear();
    const Held places = paired_ & left_ & of_subject("row");
    for (std::size_t i = 0; i < asked_conditions().size(); ++i) {
      if (places[i] && is_confirmed(i)) return add(i);
    }
    if (const auto place = choice().least_by_chance({}, ~of_subject("row"))) return add(*place);
    find_batch({});
  }

  // Finds the conditions under which a cause shows, without those that its name implies. An empty
  // name implies none.
  void find(std::string_view cause) {
    sampler_.conditions.clear();
    const Held said = said_by(cause);
    // A mistake in a filter shows in no row without the filter.
    const Held implied = said & of_parameters() & choice().shared();
    for (const std::size_t one : choice().found_in_rows(implied, said)) add(one);
    if (sampler_.conditions.empty()) find_batch(said);
    if (sampler_.conditions.empty()) find_vocab();
  }

 private:
  // Returns the choice among the conditions that are left, by the rows that were judged until now.
  ConditionChoice choice() const { return {strata_, left_, paired_}; }

  void add(std::size_t condition) {
    const Condition& one = asked_conditions()[condition];
    sampler_.conditions.push_back({std::string(one.subject), one.text});
  }

  // Asks some failed cases in which rows the sampler is wrong: those of the cause first, exact
  // checks and cheap cases first, with different checks if possible. Ends when no condition is
  // left.
  void ask(const std::vector<std::size_t>& places) {
    constexpr std::size_t kTries = 8;
    const std::set<std::size_t> own(places.begin(), places.end());
    std::vector<std::pair<std::tuple<bool, bool, bool, double>, const CaseRecord*>> ranked;
    for (std::size_t i = 0; i < record_.cases.size(); ++i) {
      const CaseRecord& one = record_.cases[i];
      if (!failed(one)) continue;
      ranked.push_back(
          {{one.check != kPaired, !own.contains(i), one.p_value.has_value(), cost_of(one)}, &one});
    }
    std::ranges::stable_sort(ranked, {}, [](const auto& one) { return one.first; });
    std::vector<const CaseRecord*> cases;
    for (const auto& [rank, one] : ranked) cases.push_back(one);
    std::set<std::string> checks, tried;
    for (const bool again : {false, true}) {
      for (const CaseRecord* one : cases) {
        const bool is_enough = asked_ == kAsked || tried.size() == kTries;
        if (left_.none() || is_enough || limit_.is_over()) return;
        const Job* const job = rows_.job_of(*one);
        if (job == nullptr || (!again && !checks.insert(one->check).second)) continue;
        if (!tried.insert(one->id).second) continue;
        const Question question(*job, sampler_.semantics);
        if (question.is_fair()) ask(question);
      }
    }
  }

  // Asks the cases again with other logits, and with their rows at other places of the call. Ends
  // when a few were asked and further ones would decide nothing. In some cases the steps of a row
  // follow from its number, so that places alone count only after they were tried in other calls.
  void ask_shifted_cases() {
    constexpr std::int64_t kMaxShift = 12;  // rows
    constexpr std::size_t kOfPlaces = 2, kMost = 2 * kAsked;
    std::size_t asked_shifted = 0;
    for (std::int64_t shift = 1; shift <= kMaxShift; ++shift) {
      for (const Job* const job : varied_cases()) {
        if (left_.none() || asked_ >= kMost || limit_.is_over()) return;
        const bool asks_places = (left_ & of_subject("row")).any() && asked_shifted < kOfPlaces;
        if (asked_ >= kAsked && !asks_places && undecided().none()) return;
        if (classes_.contains(job->record.id) && ask_shifted(*job, shift)) ++asked_shifted;
      }
    }
  }

  // Asks a case with its rows at other places of the call. Returns whether it could be asked.
  bool ask_shifted(const Job& job, std::int64_t shift) {
    const Job other = shifted(job, shift);
    if (harness::run_jobs({other}, 1, {}).front().verdict != Verdict::failed) return false;
    const Question question(other, sampler_.semantics);
    if (!question.is_fair()) return false;
    ask(question);
    return true;
  }

  // Returns the conditions about which further cases may decide.
  Held undecided() const {
    std::vector<Stratum> strata = strata_;
    Stratum of_rows = {of_parameters()};
    for (const auto& [id, units] : classes_) {
      of_rows.units.insert(of_rows.units.end(), units.begin(), units.end());
    }
    strata.push_back(std::move(of_rows));
    return ConditionChoice(strata, left_, paired_).undecided();
  }

  void ask(const Question& question) {
    ++asked_;
    refute(question);
    classes_[question.record().id];
    if ((left_ & of_parameters()).any()) divide(question, of_parameters());
    for (const Held& by : {of_subject("row"), of_subject("batch")}) {
      if ((left_ & by & can_refute(question)).any()) divide(question, by);
    }
  }

  // Returns the conditions that a case can refute. Checks compare the tokens of a row at several
  // places and in several calls. If a right sampler draws other tokens than the judged one, the
  // case fails where they answer the same row in turn. If it passes, they draw the same tokens.
  Held can_refute(const Question& question) const {
    const bool can_all = is_exact_ || is_in_one_call(question.record().check);
    return can_all ? ~Held() : of_parameters();
  }

  // Removes the conditions that some wrong rows of a case lack, the widest first: if rows without
  // top_k are wrong, a narrower condition on top_k need not be asked about.
  void refute(const Question& question) {
    const Held refutable = can_refute(question);
    for (std::size_t i = asked_conditions().size(); i-- > 0;) {
      if (!left_[i] || limit_.is_over()) continue;
      const bool is_asked = refutable[i] || question.record().check == kPaired;
      if (!is_asked) continue;
      if (question.is_right_without(i)) {
        const bool is_told =
            std::ranges::any_of(question.kinds(), [i](const auto& kind) { return !kind.held[i]; });
        if (is_told && question.record().check == kPaired) {
          paired_.set(i);
          paired_question_ = question;
        }
        continue;
      }
      if (!refutable[i]) continue;
      for (std::size_t narrow = 0; narrow < asked_conditions().size(); ++narrow) {
        const bool is_narrower = std::ranges::all_of(
            question.kinds(), [&](const auto& kind) { return kind.held[i] || !kind.held[narrow]; });
        if (is_narrower) left_.reset(narrow);
      }
    }
  }

  // Divides the rows of a case into classes by some conditions, and asks which are wrong.
  void divide(const Question& question, const Held& by) {
    const std::vector<Question::RowClass> classes = question.classes(by, left_, limit_);
    const auto is_wrong = [](const Question::RowClass& one) { return one.wrong; };
    if (limit_.is_over() || std::ranges::none_of(classes, is_wrong)) return;
    const CaseRecord& of = question.record();
    if (by != of_parameters()) strata_.push_back({by});
    std::vector<Unit>& units = by == of_parameters() ? classes_[of.id] : strata_.back().units;
    for (const Question::RowClass& one : classes) {
      units.push_back({{one.held}, one.wrong});
    }
  }

  // Repeats failed cases with other logits, as they are and with rows without a parameter, which
  // say the same if they can. A mistake that needs the parameter shows in the former alone. A few
  // failed cases may all have a parameter by chance, and these pairs tell whether it matters.
  void say_without(std::string_view subject) {
    constexpr std::size_t kCases = 4, kTries = 8, kWrong = 6;
    constexpr std::uint64_t kSeeds = 64;
    constexpr double kSeconds = 30;
    const harness::TimeLimit of_pairs(kSeconds);
    const Held of = of_subject(subject);
    struct Said {
      const Job* job;
      std::vector<Held> with, without;
    };
    std::vector<Said> cases;
    std::size_t tries = 0;
    for (const Job* const job : varied_cases()) {
      if (cases.size() == kCases || tries++ == kTries || limit_.is_over()) break;
      const Job other = resaid(*job, 0, subject);
      const Question with(*job, sampler_.semantics), without(other, sampler_.semantics);
      Said one = {job, held_in(with.kinds(), of), held_in(without.kinds(), of)};
      // Rows that kept each condition of the subject say nothing about it.
      const Held told = some_have(one.with) & ~some_have(one.without) & left_;
      if (told.any() && without.is_fair()) cases.push_back(std::move(one));
    }
    Stratum pairs = {of};
    std::size_t wrong = 0, wrong_without = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      for (const Said& one : cases) {
        const bool is_late = limit_.is_over() || of_pairs.is_over();
        if (wrong == kWrong || wrong_without > 0 || is_late) break;
        const std::vector<CaseRecord> pair =
            harness::run_jobs({resaid(*one.job, seed, {}), resaid(*one.job, seed, subject)}, 1, {});
        if (!std::ranges::all_of(pair, is_decided)) continue;
        pairs.units.push_back({one.with, failed(pair.front())});
        pairs.units.push_back({one.without, failed(pair.back())});
        wrong += failed(pair.front()) ? 1U : 0U;
        wrong_without += failed(pair.back()) ? 1U : 0U;
      }
    }
    if (!pairs.units.empty()) strata_.push_back(std::move(pairs));
  }

  // Returns the conditions that some of the rows have.
  static Held some_have(const std::vector<Held>& rows) {
    Held some;
    for (const Held& held : rows) some |= held;
    return some;
  }

  // Returns the different sets of conditions among `of` that rows have.
  static std::vector<Held> held_in(const CaseRows::Kinds& kinds, const Held& of) {
    std::vector<Held> all;
    for (const CaseRows::Kind& kind : kinds) {
      const Held held = kind.held & of;
      if (std::ranges::find(all, held) == all.end()) all.push_back(held);
    }
    return all;
  }

  // Adds the classes of rows of each check's cases as a stratum.
  void add_cases() {
    const Held of_processing = of_subject("processing");
    std::map<std::string, Stratum> of_check;
    std::map<std::pair<std::string, bool>, std::size_t> count;  // of cases, by check and verdict
    for (const CaseRecord* const one : cheapest_first()) {
      const bool is_wrong = failed(*one);
      if (!is_wrong && one->verdict != Verdict::passed) continue;
      const bool is_of_draws = (left_ & of_processing).any() && kOfDraws.contains(one->check);
      if (!checks_.contains(one->check) && !is_of_draws) continue;
      if (!classes_.contains(one->id) && count[{one->check, is_wrong}]++ >= kOfCheck) continue;
      for (const Unit& unit : units_of(*one)) {
        if (kOfDraws.contains(one->check) || one->check == "processing") {
          of_check[kProcessed].units.push_back(unit);
        }
        if (checks_.contains(one->check)) of_check[one->check].units.push_back(unit);
      }
    }
    for (auto& [check, stratum] : of_check) {
      stratum.told = check == kProcessed ? of_processing : of_parameters() & ~of_processing;
      strata_.push_back(std::move(stratum));
    }
  }

  // Returns the classes of a case's rows by their parameters. A failed case that was not asked is
  // one unit.
  std::vector<Unit> units_of(const CaseRecord& one) {
    if (const auto known = classes_.find(one.id); known != classes_.end()) return known->second;
    const CaseRows::Kinds* const kinds = rows_.of(one);
    if (kinds == nullptr) return {};
    std::vector<Unit> units;
    for (const CaseRows::Kind& kind : *kinds) {
      const Held held = kind.held & of_parameters();
      if (failed(one) && !units.empty()) {
        units.front().kinds.push_back(held);
      } else if (std::ranges::none_of(
                     units, [&](const Unit& unit) { return unit.kinds.front() == held; })) {
        units.push_back({{held}, failed(one)});
      }
    }
    return units;
  }

  // Returns the record's cases, the cheapest first.
  std::vector<const CaseRecord*> cheapest_first() const {
    std::vector<const CaseRecord*> cases;
    for (const CaseRecord& one : record_.cases) cases.push_back(&one);
    std::ranges::stable_sort(cases, {}, [](const CaseRecord* one) { return cost_of(*one); });
    return cases;
  }

  // Finds the largest number of rows above which calls are wrong. No chance makes rows wrong in
  // large calls that are right in small ones.
  void find_batch(const Held& but) {
    const Held of_batch = of_subject("batch") & left_ & ~but;
    const Held found = paired_.any() ? paired_ : right_in_small_calls(of_batch);
    for (std::size_t i = asked_conditions().size(); i-- > 0;) {
      if (!found[i] || !of_batch[i]) continue;
      if (is_confirmed(i)) add(i);
      return;
    }
  }

  // Returns whether a case fails by the calls or places of a condition alone. A sampler that is
  // wrong after a number of draws is right wherever it answers fewer of them, with and without the
  // condition.
  bool is_confirmed(std::size_t condition) const {
    return !paired_[condition] || paired_question_->is_wrong_with(condition);
  }

  // Divides the rows of some failed cases among smaller calls. Returns the conditions on the number
  // of rows without which all of these calls are right.
  Held right_in_small_calls(const Held& conditions) {
    constexpr std::size_t kCases = 4;
    std::size_t cases = 0;
    Held found = conditions;
    for (const Job* const job : varied_cases()) {
      const std::string& check = job->record.check;
      const auto rows = static_cast<std::int64_t>(job->record.rows);
      if (!chooses_calls(*job) && !(rows >= 2 && is_in_one_call(check))) continue;
      if (cases++ == kCases || limit_.is_over()) break;
      bool right = true;
      for (std::size_t i = 0; i < asked_conditions().size(); ++i) {
        if (!conditions[i]) continue;
        const std::int64_t most = largest_call_without(asked_conditions()[i]);
        const bool is_smaller = chooses_calls(*job) || most < rows;
        right = right && is_smaller && is_right_in_calls_of(*job, most);
        found[i] = found[i] && right;
      }
      if (found.none()) break;
    }
    return cases > 0 ? found : Held();
  }

  // Returns the jobs of failed cases that have neighbours, exact and cheap ones first.
  std::vector<const Job*> varied_cases() const {
    std::vector<const CaseRecord*> cases;
    for (const CaseRecord* one : cheapest_first()) {
      if (failed(*one)) cases.push_back(one);
    }
    std::ranges::stable_sort(cases, {},
                             [](const CaseRecord* one) { return one->p_value.has_value(); });
    std::vector<const Job*> jobs;
    for (const CaseRecord* one : cases) {
      const Job* const job = rows_.job_of(*one);
      if (job != nullptr && job->neighbour) jobs.push_back(job);
    }
    return jobs;
  }

  static Held said_by(std::string_view cause) {
    return conditions_where([cause](const Condition& one) {
      return !cause.empty() && harness::is_said_by(cause, {std::string(one.subject), one.text});
    });
  }

  // Finds a size above which vocabularies are wrong.
  void find_vocab() {
    const std::int64_t size = largest_right_vocab(varied_cases(), max_chance(kVocabulary), limit_);
    if (size == 0) return;
    const Condition condition = harness::vocab_above(size);
    sampler_.conditions.push_back({std::string(condition.subject), condition.text});
  }

  // Returns whether a check compares no tokens of different calls, but for calls of the same rows
  // at the same places.
  static bool is_in_one_call(const std::string& check) {
    static const std::set<std::string> checks = {
        "mask",     "tokens",        "support",     "boundaries", "status",
        "logprobs", "probabilities", "chi_squared", "bets",       "binomial",
        "pit",      "chain_law",     "verify_law",  "tree_law"};
    return checks.contains(check) || is_row_operation(check);
  }
  // The check that repeats its rows alone and in calls of other numbers of rows.
  static constexpr const char* kPaired = "replay";
  // Checks whose rows have no processing: their passed cases tell that processing is a condition.
  static inline const std::set<std::string> kOfDraws = {"mask", "tokens", "support"};
  static constexpr const char* kProcessed = "cases with and without processing";
  // Number of failed cases that are asked, if they suffice to decide.
  static constexpr std::size_t kAsked = 4;
  // Cases of a check that are repeated to learn their rows: so many failed and so many passed ones.
  static constexpr std::size_t kOfCheck = 6;

  const std::vector<Job>& jobs_;
  const harness::TimeLimit& limit_;
  CaseRows rows_;
  const harness::RunRecord& record_;
  harness::SamplerRecord& sampler_;
  std::set<std::string> checks_;  // checks of failed cases
  bool is_exact_ = false;         // the sampler draws the tokens of the integer model
  Held left_;                     // conditions that no wrong row is known to lack
  Held paired_;  // conditions without which rows are right that are wrong in calls with them
  std::optional<Question> paired_question_;           // the last case that told such a condition
  std::size_t asked_ = 0;                             // number of failed cases that were asked
  std::map<std::string, std::vector<Unit>> classes_;  // classes by parameters, by case
  std::vector<Stratum> strata_;
};

}  // namespace

void note_conditions(const std::vector<Job>& jobs, double seconds, harness::RunRecord& record) {
  if (std::ranges::none_of(record.cases, failed)) return;
  for (harness::SamplerRecord& sampler : record.samplers) {
    harness::RunRecord own = record;
    own.samplers = {sampler};
    std::erase_if(own.cases, [&](const CaseRecord& one) { return one.sampler != sampler.name; });
    const std::vector<harness::Cause> causes = harness::ranked_causes(own);
    if (causes.empty()) continue;
    const harness::TimeLimit limit(seconds);
    harness::Cause about = causes.front();
    const SharedCondition places = {"batch", "calls of some rows"};
    const bool is_of_places = harness::is_said_by(about.name, places);
    about.is_doubtful = about.is_doubtful || is_of_places;
    Conditions conditions(jobs, limit, own, sampler);
    conditions.ask_about(about);
    const auto first_now = [&] {
      own.samplers = {sampler};
      return harness::ranked_causes(own).front();
    };
    // A mistake at some places of a call looks like a dependence on the batch.
    if (is_of_places) {
      conditions.find_places();
      const harness::Cause first = first_now();
      if (!first.is_doubtful && !harness::is_said_by(first.name, places)) continue;
    }
    conditions.find(about.name);
    // A condition on rows or calls may explain what contradicts the cause.
    if (causes.front().is_doubtful && first_now().is_doubtful) conditions.find("");
  }
}

void ask_failed_samplers(const std::vector<Job>& jobs, const SamplerMaker& make,
                         harness::RunRecord& record) {
  // A run of few cases takes less time than the repetitions for its conditions.
  constexpr double kLeastSeconds = 5;
  note_seen_definitions(make, record);
  note_conditions(jobs, std::max(kLeastSeconds, record.seconds), record);
}

}  // namespace fairdraw::suites
