// Decides which conditions the wrong rows of a sampler share, after cases were asked which of their
// rows are wrong (conditions_seen.h).
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "suites/gate/identify/case_rows.h"

namespace fairdraw::suites {

/// Rows that are judged together: a class of rows of one case, or all rows of a failed case.
struct Unit {
  std::vector<Held> kinds;  ///< if the unit is wrong: kinds of which some is wrong
  bool wrong;
};

/// Units among which every one is as likely to be wrong as every other, unless a condition matters.
struct Stratum {
  Held told;  ///< conditions that the units tell apart
  std::vector<Unit> units = {};
};

/// Subject of the conditions on the size of the vocabulary.
inline constexpr std::string_view kVocabulary = "vocabulary";

/// Returns the set of the asked conditions that fulfil a predicate.
template <class Predicate>
Held conditions_where(const Predicate& fulfils) {
  Held found;
  const std::vector<harness::Condition>& all = asked_conditions();
  for (std::size_t i = 0; i < all.size(); ++i) found[i] = fulfils(all[i]);
  return found;
}

/// Returns the asked conditions on a subject.
Held of_subject(std::string_view subject);

/// Returns the conditions on rows alone, and not on calls or on places in calls.
Held of_parameters();

/// Returns the probability that all of `wrong` units, chosen at random among `units`, are among the
/// `with` of them that have a condition: the hypergeometric distribution.
double chance_that_all_have(std::size_t units, std::size_t with, std::size_t wrong);

/// Returns the probability up to which chance explains a condition too badly to be the reason that
/// all wrong rows have it. Each subject has an equal share, divided among its conditions.
double max_chance(std::string_view subject);

/// Choice among the conditions that the judged rows tell apart.
class ConditionChoice {
 public:
  /// `left` has the conditions that no wrong row is known to lack. `paired` has the conditions
  /// without which rows are right that are wrong in calls with them. `strata` must stay valid while
  /// this object exists.
  ConditionChoice(const std::vector<Stratum>& strata, const Held& left, const Held& paired)
      : strata_(strata), left_(left), paired_(paired) {}

  /// Returns the conditions that all wrong units have.
  Held shared() const;

  /// Returns the conditions that all wrong units have, some unit lacks, and chance explains. More
  /// units may decide about them.
  Held undecided() const;

  /// Returns the condition that chance explains least, if chance does not explain it. Of the
  /// conditions on one subject the widest is taken, unless chance explains a narrower one among
  /// rows with the wider one in less than one of twenty runs. Rows of a call often have parameters
  /// in turn, so that a mistake of some parameters shows in every fourth row: the number of a row
  /// takes the smallest divisor. Only rows that have the conditions `given` count, and no condition
  /// of `but` is returned.
  std::optional<std::size_t> least_by_chance(const Held& given, const Held& but) const;

  /// Returns up to two conditions of rows, each of which chance does not explain among the rows
  /// with the other. Returns none if two conditions explain the wrong rows about equally well.
  std::vector<std::size_t> found_in_rows(const Held& given, Held but) const;

 private:
  double chance_of(std::size_t condition, const Held& given) const;
  bool is_by_chance(std::size_t condition, const Held& given) const;

  const std::vector<Stratum>& strata_;
  Held left_, paired_;
};

}  // namespace fairdraw::suites
