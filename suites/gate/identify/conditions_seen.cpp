#include "suites/gate/identify/conditions_seen.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
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

double cost_of(const CaseRecord& one) {
  return static_cast<double>(one.vocab) * static_cast<double>(one.rows + 1) +
         static_cast<double>(one.draws);
}

// Returns the cheapest failed cases of a cause, exact checks first, with different checks if
// possible.
std::vector<Question> questions(const std::vector<Job>& jobs, const harness::RunRecord& record,
                                const harness::SamplerRecord& sampler,
                                const std::vector<std::size_t>& places,
                                const harness::TimeLimit& limit) {
  constexpr std::size_t kMax = 3, kTries = 6;
  constexpr double kMaxCost = 1e8;
  std::vector<const CaseRecord*> cases;
  for (const std::size_t place : places) cases.push_back(&record.cases[place]);
  std::ranges::stable_sort(cases, {}, [](const CaseRecord* one) {
    return std::pair{one->p_value.has_value(), cost_of(*one)};
  });
  std::vector<Question> list;
  std::set<std::string> checks, tried;
  for (const bool again : {false, true}) {
    for (const CaseRecord* one : cases) {
      if (list.size() == kMax || tried.size() == kTries || cost_of(*one) > kMaxCost) break;
      if (limit.is_over()) break;
      if (breaks(*one) || (!again && !checks.insert(one->check).second)) continue;
      if (!tried.insert(one->id).second) continue;
      const auto job = std::ranges::find_if(jobs, [one](const Job& known) {
        return known.record.id == one->id && known.record.sampler == one->sampler;
      });
      if (job == jobs.end() || !job->check) continue;
      const Question question(*job, sampler.semantics);
      if (question.is_fair()) list.push_back(question);
    }
  }
  return list;
}

// Returns whether no row of a case has the condition, according to its id and filter.
bool lacks(const CaseRecord& one, const Condition& condition) {
  const auto says = [&one](const char* text) { return one.id.find(text) != std::string::npos; };
  if (condition.text == "rows of float16") return !says("/float16");
  if (condition.text == "rows of bfloat16") return !says("/bfloat16");
  if (condition.subject == "dtype") return !says("float16");
  if (condition.subject == "processing") {
    return one.check != "processing" && one.check != "sequences" && !says("/processed");
  }
  if (one.filter.empty() || one.filter == "mixed") return false;
  if (condition.text == "rows at temperatures other than 1") {
    return says("/t1/") || one.id.ends_with("/t1");
  }
  if (one.filter.find(condition.subject) == std::string::npos) {
    return condition.text.starts_with("rows with ");
  }
  if (condition.text != "rows with a top_k of the vocabulary") return false;
  const auto sampled = one.measures.find("sampled_top_k");
  const auto vocab = static_cast<double>(one.vocab);
  return sampled != one.measures.end() ? sampled->second < vocab
                                       : !says(("top_k_" + std::to_string(one.vocab)).c_str());
}

// Returns whether a case tells the type of a condition from the other type of 16 bits. Rows of
// float32 do not.
bool tells_type(const CaseRecord& one, const Condition& condition) {
  if (condition.text == "rows of float16") return one.id.find("/bfloat16") != std::string::npos;
  if (condition.text == "rows of bfloat16") return one.id.find("/float16") != std::string::npos;
  return true;
}

// Returns whether other cases confirm a condition that holds for all rows of the failed cases.
bool told_by_others(const Condition& condition, const harness::RunRecord& record,
                    const std::string& sampler) {
  std::set<std::string> checks;
  for (const CaseRecord& one : record.cases) {
    if (one.sampler != sampler || !failed(one)) continue;
    if (lacks(one, condition)) return false;
    checks.insert(one.check);
  }
  if (condition.subject == "processing") checks.insert({"mask", "tokens", "support"});
  return std::ranges::any_of(record.cases, [&](const CaseRecord& one) {
    return one.sampler == sampler && one.verdict == Verdict::passed && checks.contains(one.check) &&
           lacks(one, condition) && tells_type(one, condition);
  });
}

class Conditions {
 public:
  Conditions(const std::vector<Job>& jobs, const std::vector<Question>& asked,
             const harness::TimeLimit& limit, const harness::RunRecord& record,
             harness::SamplerRecord& sampler)
      : jobs_(jobs), asked_(asked), limit_(limit), record_(record), sampler_(sampler) {}

  void find(std::string_view cause) {
    for (const Condition& condition : harness::row_conditions()) {
      const bool known = std::ranges::any_of(sampler_.conditions, [&condition](const auto& one) {
        return one.subject == condition.subject;
      });
      if (!known) try_one(condition);
    }
    find_rows();
    if (harness::unsaid_conditions(sampler_.conditions, cause).size() > harness::kMaxConditions) {
      sampler_.conditions.clear();
    }
    // Few rows are in small calls, and few tokens in small vocabularies, so that a mistake that
    // some other condition explains may be missing there by chance.
    if (sampler_.conditions.empty()) find_batch();
    // A cause of batches implies a condition on them, which is then no explanation.
    if (harness::unsaid_conditions(sampler_.conditions, cause).empty()) find_vocab();
    if (limit_.is_over()) sampler_.conditions.clear();
  }

 private:
  bool holds(const Condition& condition) const {
    if (limit_.is_over()) return false;
    bool agrees = false, silent = false;
    for (const Question& one : asked_) {
      const Said said = one.said_of(condition);
      if (said == Said::contradicts) return false;
      (said == Said::agrees ? agrees : silent) = true;
    }
    return agrees || (silent && told_by_others(condition, record_, sampler_.name));
  }

  bool try_one(const Condition& condition) {
    if (!holds(condition)) return false;
    sampler_.conditions.push_back({std::string(condition.subject), condition.text});
    return true;
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
  // because a row cannot be repeated with fewer tokens. So it needs no question.
  void find_vocab() {
    std::set<std::string> checks;
    std::uint64_t smallest = UINT64_MAX;
    for (const CaseRecord& one : record_.cases) {
      if (!failed(one)) continue;
      checks.insert(one.check);
      smallest = std::min(smallest, one.vocab);
    }
    const std::vector<std::uint64_t> right = right_below(smallest, checks);
    if (right.size() < kSizesOfVocab) return;
    const auto largest = static_cast<std::int64_t>(*std::ranges::max_element(right));
    const Condition condition = harness::vocab_above(largest);
    sampler_.conditions.push_back({std::string(condition.subject), condition.text});
  }

  // Returns the sizes below `smallest` of cases of these checks that pass. Judges cases of suite
  // smoke that the run has left out, if those that it judged are too few; if one of them fails, the
  // size is no condition.
  std::vector<std::uint64_t> right_below(std::uint64_t smallest,
                                         const std::set<std::string>& checks) const {
    constexpr std::uint64_t kEnough = 31;  // number of tokens; most mistakes show from this size on
    const auto tells = [&](const CaseRecord& one) {
      return one.sampler == sampler_.name && checks.contains(one.check) && one.vocab >= kEnough &&
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

  const std::vector<Job>& jobs_;
  const std::vector<Question>& asked_;
  const harness::TimeLimit& limit_;
  const harness::RunRecord& record_;
  harness::SamplerRecord& sampler_;
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
    const std::vector<Question> asked = questions(jobs, own, sampler, causes.front().cases, limit);
    Conditions(jobs, asked, limit, own, sampler).find(causes.front().name);
  }
}

void ask_failed_samplers(const std::vector<Job>& jobs, const SamplerMaker& make,
                         harness::RunRecord& record) {
  constexpr double kMinSeconds = 5;  // a run of few cases takes less than its conditions
  note_seen_definitions(make, record);
  note_conditions(jobs, std::max(kMinSeconds, record.seconds), record);
}

}  // namespace fairdraw::suites
