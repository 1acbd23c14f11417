// Asks cases of a run again, to learn which rows they have and in which of them the sampler is
// wrong.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/run/calls/conditions.h"
#include "harness/run/evidence/record.h"
#include "harness/run/runner.h"
#include "harness/run/time_limit.h"

namespace fairdraw::suites {

/// The conditions on rows and calls that a case is asked about: those of row_conditions(), every
/// nth row, and calls above a number of rows.
const std::vector<harness::Condition>& asked_conditions();

inline constexpr std::size_t kMaxAsked = 64;  ///< bound on the number of asked_conditions()
/// The indices in asked_conditions() of the conditions that hold for a row.
using Held = std::bitset<kMaxAsked>;
Held held_by(const harness::RowFacts& row);

/// Returns a bound on the values that a repeated case reads: half a row per draw, because some
/// checks have a row of logits for each draw. Cases are ordered by it, because the order must not
/// depend on how busy the machine is.
double cost_of(const harness::CaseRecord& one);

/// The rows of cases. They are found by running a case again.
class CaseRows {
 public:
  /// A kind of row: rows of a case that have the same conditions and the same vocabulary.
  struct Kind {
    Held held;
    std::int64_t vocab;
    bool operator==(const Kind&) const = default;
  };
  using Kinds = std::vector<Kind>;

  CaseRows(const std::vector<harness::Job>& jobs, const harness::TimeLimit& limit)
      : jobs_(jobs), limit_(limit) {}

  /// Returns the job that repeats a case; nullptr if the case took too long or ended the sampler.
  const harness::Job* job_of(const harness::CaseRecord& one) const;

  /// Returns the kinds of rows in all calls that a case made; nullptr if the case cannot be
  /// repeated. A failed case ended at a wrong row, so that some of these rows are wrong.
  const Kinds* of(const harness::CaseRecord& one);

 private:
  const std::vector<harness::Job>& jobs_;
  const harness::TimeLimit& limit_;
  std::map<std::string, Kinds> kinds_;  // by id of the case
};

/// A failed case that is judged again with some rows answered by a right sampler.
class Question {
 public:
  /// A right sampler answers all rows of the case once. It makes all calls of the case, and the
  /// judged sampler only those up to a failure.
  Question(harness::Job job, std::string semantics);

  const harness::CaseRecord& record() const { return job_.record; }
  /// Returns the kinds of rows in all calls of the case.
  const CaseRows::Kinds& kinds() const { return kinds_; }

  /// Returns whether a right sampler with the description of the judged one passes the case;
  /// otherwise the case tells nothing.
  bool is_fair() const { return is_fair_; }

  /// Returns whether the sampler is right in the rows without a condition. True if all rows have
  /// it, and false if none has it.
  bool is_right_without(std::size_t condition) const;

  /// Returns whether the case fails if the sampler answers only the rows with a condition.
  bool is_wrong_with(std::size_t condition) const;

  /// A class of rows that agree in some conditions.
  struct RowClass {
    Held held;           ///< conditions that hold, among those by which the rows are divided
    bool wrong = false;  ///< the case fails if the sampler answers these rows alone
  };
  /// Divides the rows by the conditions `by`, and finds the classes in which the sampler is wrong.
  /// Rows that lack one of the conditions `needed` are known to be right. All classes are right if
  /// the case fails only because rows of several of them meet.
  std::vector<RowClass> classes(const Held& by, const Held& needed,
                                const harness::TimeLimit& limit) const;

 private:
  bool passes(const harness::RowCondition& where) const;
  void find_wrong(std::span<RowClass> classes, const Held& by, bool fails,
                  const harness::TimeLimit& limit) const;

  harness::Job job_;
  std::string semantics_;
  CaseRows::Kinds kinds_;
  bool is_fair_ = false;
};

}  // namespace fairdraw::suites
