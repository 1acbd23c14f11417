#include "suites/gate/identify/conditions_seen.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harness/contract/semantics_text.h"
#include "harness/run/calls/conditions.h"
#include "harness/run/evidence/causes.h"
#include "harness/run/time_limit.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/identify/seen_definitions.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::Condition;
using harness::Job;
using harness::MixedSampler;
using harness::Verdict;

// The answer of one case about a condition.
enum class Said {
  nothing,      ///< all rows of the case have the condition
  contradicts,  ///< the case fails in rows without the condition
  agrees,       ///< the case fails only in rows with the condition, and has other rows
};

bool failed(const CaseRecord& one) {
  return one.verdict == Verdict::failed && one.check != harness::kGlobalCheck;
}

// Returns whether the sampler crashed in a case, so that each repetition would have to wait for the
// crash.
bool breaks(const CaseRecord& one) {
  return std::ranges::any_of(one.evidence.suspects, [](const harness::Suspect& hint) {
    return hint.bug.starts_with("the sampler itself stops");
  });
}

// Returns a bound on the values that a repeated case reads: half a row per draw, because some
// checks have a row of logits for each draw.
double cost_of(const CaseRecord& one) {
  return static_cast<double>(one.vocab) *
         (static_cast<double>(one.rows + 1) + static_cast<double>(one.draws) / 2);
}

constexpr double kMaxCost = 1e8;  // of a case that is repeated

// The rows that cases ask for. The class finds these rows by running a case again.
class CaseRows {
 public:
  using Rows = std::vector<harness::RowFacts>;

  CaseRows(const std::vector<Job>& jobs, const harness::TimeLimit& limit)
      : jobs_(jobs), limit_(limit) {}

  // Returns the job that repeats a case; nullptr if the case costs too much or ends the sampler.
  const Job* job_of(const CaseRecord& one) const {
    if (cost_of(one) > kMaxCost || breaks(one)) return nullptr;
    const auto job = std::ranges::find_if(jobs_, [&one](const Job& known) {
      return known.record.id == one.id && known.record.sampler == one.sampler;
    });
    return job == jobs_.end() || !job->check ? nullptr : &*job;
  }

  // Returns the rows of all calls of a case, equal ones once and without their places in a call;
  // nullptr if the case cannot be repeated.
  const Rows* of(const CaseRecord& one) {
    const auto known = rows_.find(one.id);
    if (known != rows_.end()) return &known->second;
    const Job* const job = limit_.is_over() ? nullptr : job_of(one);
    if (job == nullptr) return nullptr;
    std::set<std::tuple<float, std::int32_t, float, float, std::int64_t, std::uint32_t,
                        std::int64_t, bool>>
        seen;
    Rows rows;
    Job noting = *job;
    noting.make_sampler = [&] {
      return std::make_unique<MixedSampler>(
          job->make_sampler(), job->make_sampler(), [&](const harness::RowFacts& row) {
            const auto& of = row.parameters;
            const bool is_new = seen.insert({of.temperature, of.top_k, of.top_p, of.min_p,
                                             row.vocab, row.dtype, row.rows, row.processed})
                                    .second;
            if (is_new) rows.push_back(row);
            return true;
          });
    };
    harness::run_jobs({noting}, 1, {});
    return &rows_.emplace(one.id, std::move(rows)).first->second;
  }

 private:
  const std::vector<Job>& jobs_;
  const harness::TimeLimit& limit_;
  std::map<std::string, Rows> rows_;  // by id of the case
};

std::unique_ptr<harness::Sampler> right_sampler_for(const std::string& semantics) {
  if (semantics == "fairdraw") return harness::make_builtin_sampler("model");
  return std::make_unique<ProfileSampler>(harness::semantics_from_text(semantics));
}

// A failed case that can be judged again with some rows answered by a correct sampler.
class Question {
 public:
  Question(const Job& job, std::string semantics) : job_(job), semantics_(std::move(semantics)) {}

  // Returns whether a correct sampler with the description of the judged one passes the case;
  // otherwise the case tells nothing.
  bool is_fair() const {
    return passes([](const auto&) { return false; }, nullptr);
  }

  Said said_of(const Condition& condition) const {
    MixedSampler::Answered answered;
    const bool passed = passes(
        [&condition](const harness::RowFacts& row) { return !condition.holds(row); }, &answered);
    if (answered.by_sampler == 0) return Said::nothing;
    if (!passed) return Said::contradicts;
    return answered.by_right > 0 ? Said::agrees : Said::nothing;
  }

 private:
  bool passes(const harness::RowCondition& where, MixedSampler::Answered* answered) const {
    Job job = job_;
    job.make_sampler = [this, &where, answered] {
      return std::make_unique<MixedSampler>(job_.make_sampler(), right_sampler_for(semantics_),
                                            where, answered);
    };
    return harness::run_jobs({job}, 1, {}).front().verdict == Verdict::passed;
  }

  const Job& job_;
  std::string semantics_;
};

// Returns the cheapest failed cases of a cause, exact checks first, with different checks if
// possible.
std::vector<Question> questions(const CaseRows& cases_again, const harness::RunRecord& record,
                                const harness::SamplerRecord& sampler,
                                const std::vector<std::size_t>& places,
                                const harness::TimeLimit& limit) {
  constexpr std::size_t kMax = 3, kTries = 6;
  std::vector<const CaseRecord*> cases;
  for (const std::size_t place : places) cases.push_back(&record.cases[place]);
  std::ranges::stable_sort(cases, {}, [](const CaseRecord* one) {
    return std::pair{one->p_value.has_value(), cost_of(*one)};
  });
  std::vector<Question> list;
  std::set<std::string> checks, tried;
  for (const bool again : {false, true}) {
    for (const CaseRecord* one : cases) {
      if (list.size() == kMax || tried.size() == kTries || limit.is_over()) break;
      const Job* const job = cases_again.job_of(*one);
      if (job == nullptr || (!again && !checks.insert(one->check).second)) continue;
      if (!tried.insert(one->id).second) continue;
      const Question question(*job, sampler.semantics);
      if (question.is_fair()) list.push_back(question);
    }
  }
  return list;
}

// Returns whether a case tells the type of a condition from the other type of 16 bits. Rows of
// float32 do not tell the two types apart.
bool tells_type(const CaseRows::Rows& rows, const Condition& condition) {
  const auto has = [&rows](const char* type) {
    const auto other = std::ranges::find(harness::row_conditions(), type, &Condition::text);
    return std::ranges::any_of(rows, other->holds);
  };
  if (condition.text == "rows of float16") return has("rows of bfloat16");
  if (condition.text == "rows of bfloat16") return has("rows of float16");
  return true;
}

class Conditions {
 public:
  Conditions(const std::vector<Job>& jobs, const std::vector<Question>& asked, CaseRows& rows,
             const harness::TimeLimit& limit, const harness::RunRecord& record,
             harness::SamplerRecord& sampler)
      : jobs_(jobs), asked_(asked), limit_(limit), record_(record), sampler_(sampler) {
    const auto add = [&rows](const CaseRecord& one, std::vector<Known>& list) {
      if (std::ranges::count(list, one.check, &Known::check) == kCasesOfCheck) return;
      if (const auto* const of = rows.of(one)) list.push_back({one.check, of});
    };
    for (const CaseRecord* const one : cheapest(Verdict::failed)) {
      checks_.insert(one->check);
      add(*one, wrong_);
    }
    for (const CaseRecord* const one : cheapest(Verdict::passed)) {
      if (checks_.contains(one->check) || kOfDraws.contains(one->check)) add(*one, right_);
    }
  }

  void find(std::string_view cause) {
    if (wrong_.size() >= kFewestWrong) find_in_rows(cause);
    // A cause of batches implies a condition on them, which is then no explanation.
    find_vocab(harness::unsaid_conditions(sampler_.conditions, cause));
    if (limit_.is_over()) sampler_.conditions.clear();
  }

 private:
  // Few wrong rows agree with some condition by chance.
  static constexpr std::size_t kFewestWrong = 3;

  void find_in_rows(std::string_view cause) {
    for (const Condition& condition : harness::row_conditions()) {
      const bool known = std::ranges::any_of(sampler_.conditions, [&condition](const auto& one) {
        return one.subject == condition.subject;
      });
      if (!known) try_one(condition);
    }
    find_rows();
    if (harness::unsaid_conditions(sampler_.conditions, cause).size() > harness::kMaxConditions) {
      keep_best(cause);
    }
    // In a small call or a small vocabulary, a mistake that has another condition may be missing by
    // chance.
    if (sampler_.conditions.empty()) find_batch();
  }

  bool holds(const Condition& condition) const {
    const auto lacks = [&condition](const Known& one) {
      return std::ranges::none_of(*one.rows, condition.holds);
    };
    if (limit_.is_over() || std::ranges::any_of(wrong_, lacks)) return false;
    bool agrees = false, silent = asked_.empty();
    for (const Question& one : asked_) {
      const Said said = one.said_of(condition);
      if (said == Said::contradicts) return false;
      (said == Said::agrees ? agrees : silent) = true;
    }
    return agrees || (silent && told_by_others(condition));
  }

  // Returns whether other cases confirm a condition that holds for all rows of the failed cases:
  // each failed case has rows with the condition, and cases without any of them pass.
  bool told_by_others(const Condition& condition) const {
    const auto lacks = [&condition](const Known& one) {
      return std::ranges::none_of(*one.rows, condition.holds);
    };
    if (wrong_.empty()) return false;
    // Few rows are in small calls, so that a mistake may be missing there by chance.
    const std::ptrdiff_t enough = condition.subject == "batch" ? 3 : 1;
    return std::ranges::count_if(right_, [&](const Known& one) {
             return tells(one.check, condition) && lacks(one) && tells_type(*one.rows, condition);
           }) >= enough;
  }

  void try_one(const Condition& condition) {
    if (!holds(condition)) return;
    sampler_.conditions.push_back({std::string(condition.subject), condition.text});
    right_with_[condition.text] = std::ranges::count_if(right_, [&](const Known& one) {
      return checks_.contains(one.check) && std::ranges::any_of(*one.rows, condition.holds);
    });
  }

  // If the cause's name does not imply all conditions, keeps only the condition that the fewest
  // passed cases contradict, because a few wrong rows have many conditions in common.
  void keep_best(std::string_view cause) {
    const std::vector<harness::SharedCondition> unsaid =
        harness::unsaid_conditions(sampler_.conditions, cause);
    const auto best = std::ranges::min_element(
        unsaid, {}, [this](const auto& one) { return right_with_[one.text]; });
    sampler_.conditions = {*best};
  }

  // Finds the widest class of wrong rows, because a narrower class may agree by chance. If few rows
  // are wrong, any class may agree by chance, so all cases must agree, and there must be at least
  // two.
  void find_rows() {
    if (asked_.size() < 2) return;
    for (const std::int64_t modulus : {2, 3, 4}) {
      for (std::int64_t rest = 0; rest < modulus; ++rest) {
        const Condition condition = harness::every_nth_row(modulus, rest);
        const bool agree = std::ranges::all_of(asked_, [&](const Question& one) {
          return !limit_.is_over() && one.said_of(condition) == Said::agrees;
        });
        if (!agree) continue;
        sampler_.conditions.push_back({std::string(condition.subject), condition.text});
        return;
      }
    }
  }

  void find_batch() {
    std::optional<Condition> widest;
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
      Condition condition = harness::rows_above(rows);
      if (!holds(condition)) break;
      widest = std::move(condition);
    }
    if (widest) sampler_.conditions.push_back({std::string(widest->subject), widest->text});
  }

  // Finds a condition on the vocabulary size from cases of other sizes of the failed checks,
  // because a row cannot be repeated with fewer tokens. For this condition, no row is repeated. If
  // wrong rows have another condition, rows with this condition must be right at the other sizes.
  void find_vocab(const std::vector<harness::SharedCondition>& unsaid) {
    std::uint64_t smallest = UINT64_MAX;
    for (const CaseRecord& one : record_.cases) {
      if (failed(one)) smallest = std::min(smallest, one.vocab);
    }
    const std::vector<std::uint64_t> right = right_below(smallest);
    if (right.size() < kSizesOfVocab) return;
    const auto largest = static_cast<std::int64_t>(*std::ranges::max_element(right));
    if (!unsaid.empty() && !are_right_up_to(largest, unsaid)) return;
    const Condition condition = harness::vocab_above(largest);
    sampler_.conditions.push_back({std::string(condition.subject), condition.text});
  }

  // Returns whether enough passed cases have rows of at most `vocab` tokens with the only
  // condition.
  bool are_right_up_to(std::int64_t vocab,
                       const std::vector<harness::SharedCondition>& conditions) const {
    const auto only =
        std::ranges::find(harness::row_conditions(), conditions.front().text, &Condition::text);
    if (conditions.size() > 1 || only == harness::row_conditions().end()) return false;
    const auto has = [&](const Known& one) {
      return checks_.contains(one.check) &&
             std::ranges::any_of(*one.rows, [&](const harness::RowFacts& row) {
               return row.vocab <= vocab && only->holds(row);
             });
    };
    return std::ranges::count_if(right_, has) >= static_cast<std::ptrdiff_t>(kSizesOfVocab);
  }

  // Returns the sizes below `smallest` of cases of the failed checks that pass. If too few such
  // cases were judged, judges further cases of suite smoke; if one of these fails, the size is no
  // condition.
  std::vector<std::uint64_t> right_below(std::uint64_t smallest) const {
    constexpr std::uint64_t kEnough = 31;  // number of tokens; most mistakes show from this size on
    const auto tells = [&](const CaseRecord& one) {
      return one.sampler == sampler_.name && checks_.contains(one.check) && one.vocab >= kEnough &&
             one.vocab < smallest;
    };
    std::vector<std::uint64_t> right;
    std::set<std::string> known;
    for (const CaseRecord& one : record_.cases) {
      known.insert(one.id);
      if (tells(one) && one.verdict == Verdict::passed) right.push_back(one.vocab);
    }
    for (const Job& job : jobs_) {
      if (right.size() >= kSizesOfVocab || limit_.is_over()) break;
      if (!tells(job.record) || job.record.suite != to_string(Suite::smoke)) continue;
      if (!job.check || known.contains(job.record.id)) continue;
      const CaseRecord one = harness::run_jobs({job}, 1, {}).front();
      if (failed(one)) return {};
      if (one.verdict == Verdict::passed) right.push_back(one.vocab);
    }
    return right;
  }

  static constexpr std::size_t kSizesOfVocab = 3;  // cases that must pass at smaller sizes

  // The rows of a case.
  struct Known {
    std::string check;
    const CaseRows::Rows* rows;
  };

  // Returns whether passed cases of a check show in which rows the failed cases are right: cases of
  // a failed check and, for the condition "processing" if only the check `processing` failed, cases
  // of the checks of draws, because all cases of `processing` have processing.
  bool tells(const std::string& check, const Condition& condition) const {
    const bool is_of_processing =
        condition.subject == "processing" && checks_ == std::set<std::string>{"processing"};
    return checks_.contains(check) || (is_of_processing && kOfDraws.contains(check));
  }

  // Returns the sampler's cases with this verdict, the cheapest first.
  std::vector<const CaseRecord*> cheapest(Verdict verdict) const {
    std::vector<const CaseRecord*> cases;
    for (const CaseRecord& one : record_.cases) {
      const bool is_global = one.check == harness::kGlobalCheck;
      if (one.verdict == verdict && !is_global) cases.push_back(&one);
    }
    std::ranges::stable_sort(cases, {}, [](const CaseRecord* one) { return cost_of(*one); });
    return cases;
  }

  // Checks whose rows have no processing: their passed cases tell that processing is a condition.
  static inline const std::set<std::string> kOfDraws = {"mask", "tokens", "support"};
  // Among so many cases of a check, some lack each of the conditions.
  static constexpr std::ptrdiff_t kCasesOfCheck = 6;

  const std::vector<Job>& jobs_;
  const std::vector<Question>& asked_;
  const harness::TimeLimit& limit_;
  const harness::RunRecord& record_;
  harness::SamplerRecord& sampler_;
  std::set<std::string> checks_;  ///< checks of failed cases
  std::vector<Known> wrong_, right_;
  // Numbers of passed cases that have rows with a condition, by the condition's text.
  std::map<std::string, std::ptrdiff_t> right_with_;
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
    CaseRows rows(jobs, limit);
    const std::vector<Question> asked = questions(rows, own, sampler, causes.front().cases, limit);
    Conditions(jobs, asked, rows, limit, own, sampler).find(causes.front().name);
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
