#include "suites/gate/identify/case_rows.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "harness/contract/semantics_text.h"
#include "harness/run/calls/mixed_sampler.h"
#include "suites/gate/cases/row_operation_cases.h"
#include "suites/gate/identify/profile_sampler.h"

namespace fairdraw::suites {
namespace {

using harness::CaseRecord;
using harness::Condition;
using harness::Job;
using harness::MixedSampler;

// Returns whether the sampler crashed in a case, so that each repetition would have to wait for the
// crash.
bool breaks(const CaseRecord& one) {
  return std::ranges::any_of(one.evidence.suspects, [](const harness::Suspect& hint) {
    return hint.bug.starts_with("the sampler itself stops");
  });
}

// Adds the kind of a row, unless it is known.
void note(const harness::RowFacts& row, CaseRows::Kinds& kinds) {
  const CaseRows::Kind kind = {held_by(row), row.vocab};
  if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
}

// The maximum duration of a case that is repeated. A search repeats a case tens of times.
constexpr double kMaxSeconds = 5;

// Returns a right sampler for a case. The model has no operations on rows.
std::unique_ptr<harness::Sampler> right_sampler_for(const CaseRecord& one,
                                                    const std::string& semantics) {
  if (is_row_operation(one.check)) return harness::make_builtin_sampler("cpu:scalar");
  if (semantics == "fairdraw") return harness::make_builtin_sampler("model");
  return std::make_unique<ProfileSampler>(harness::semantics_from_text(semantics));
}

}  // namespace

const std::vector<Condition>& asked_conditions() {
  static const std::vector<Condition> all = [] {
    std::vector<Condition> conditions = harness::row_conditions();
    for (const std::int64_t modulus : {2, 3, 4}) {
      for (std::int64_t rest = 0; rest < modulus; ++rest) {
        conditions.push_back(harness::every_nth_row(modulus, rest));
      }
    }
    for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
      conditions.push_back(harness::rows_above(rows));
    }
    return conditions;
  }();
  return all;
}

Held held_by(const harness::RowFacts& row) {
  Held held;
  const std::vector<Condition>& all = asked_conditions();
  for (std::size_t i = 0; i < all.size(); ++i) held[i] = all[i].holds(row);
  return held;
}

double cost_of(const CaseRecord& one) {
  return static_cast<double>(one.vocab) *
         (static_cast<double>(one.rows + 1) + static_cast<double>(one.draws) / 2);
}

const Job* CaseRows::job_of(const CaseRecord& one) const {
  if (one.seconds > kMaxSeconds || breaks(one)) return nullptr;
  const auto job = std::ranges::find_if(jobs_, [&one](const Job& known) {
    return known.record.id == one.id && known.record.sampler == one.sampler;
  });
  return job == jobs_.end() || !job->check ? nullptr : &*job;
}

const CaseRows::Kinds* CaseRows::of(const CaseRecord& one) {
  const auto known = kinds_.find(one.id);
  if (known != kinds_.end()) return &known->second;
  const Job* const job = limit_.is_over() ? nullptr : job_of(one);
  if (job == nullptr) return nullptr;
  Kinds& kinds = kinds_[one.id];
  Job noting = *job;
  noting.make_sampler = [&] {
    return std::make_unique<MixedSampler>(job->make_sampler(), nullptr,
                                          [&kinds](const harness::RowFacts& row) {
                                            note(row, kinds);
                                            return true;
                                          });
  };
  harness::run_jobs({noting}, 1, {});
  return &kinds;
}

Question::Question(Job job, std::string semantics)
    : job_(std::move(job)), semantics_(std::move(semantics)) {
  is_fair_ = passes([this](const harness::RowFacts& row) {
    note(row, kinds_);
    return false;
  });
}

bool Question::passes(const harness::RowCondition& where) const {
  Job job = job_;
  job.make_sampler = [this, &where] {
    return std::make_unique<MixedSampler>(job_.make_sampler(),
                                          right_sampler_for(record(), semantics_), where);
  };
  return harness::run_jobs({job}, 1, {}).front().verdict == harness::Verdict::passed;
}

bool Question::is_wrong_with(std::size_t condition) const {
  const Condition& of = asked_conditions()[condition];
  return !passes([&of](const harness::RowFacts& row) { return of.holds(row); });
}

bool Question::is_right_without(std::size_t condition) const {
  const auto has = [condition](const CaseRows::Kind& kind) { return kind.held[condition]; };
  if (std::ranges::all_of(kinds_, has)) return true;
  // The sampler answers all rows then, as it did in the failed case.
  if (std::ranges::none_of(kinds_, has)) return false;
  const Condition& of = asked_conditions()[condition];
  return passes([&of](const harness::RowFacts& row) { return !of.holds(row); });
}

std::vector<Question::RowClass> Question::classes(const Held& by, const Held& needed,
                                                  const harness::TimeLimit& limit) const {
  std::vector<RowClass> classes;
  for (const CaseRows::Kind& kind : kinds_) {
    const Held held = kind.held & by;
    if (std::ranges::find(classes, held, &RowClass::held) == classes.end()) {
      classes.push_back({held});
    }
  }
  const Held told = needed & by;
  const auto has_all = [&told](const RowClass& one) { return (one.held & told) == told; };
  const auto rest = std::ranges::partition(classes, has_all);
  find_wrong({classes.begin(), rest.begin()}, by, true, limit);
  return classes;
}

// Marks the wrong ones of some classes, by halves. `fails`: the case is known to fail if the
// sampler answers the rows of these classes alone.
void Question::find_wrong(std::span<RowClass> classes, const Held& by, bool fails,
                          const harness::TimeLimit& limit) const {
  if (classes.empty() || limit.is_over()) return;
  if (!fails && passes([&](const harness::RowFacts& row) {
        return std::ranges::find(classes, held_by(row) & by, &RowClass::held) != classes.end();
      })) {
    return;
  }
  if (classes.size() == 1) {
    classes.front().wrong = true;
    return;
  }
  const std::size_t half = classes.size() / 2;
  find_wrong(classes.first(half), by, false, limit);
  find_wrong(classes.subspan(half), by, false, limit);
}

}  // namespace fairdraw::suites
