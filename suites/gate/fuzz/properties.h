// Properties that must hold for every call of a sampler, whatever its rows and parameters.
//
// A property depends neither on the case table nor on the run's seed: a case that breaks it does so
// on any machine.
#pragma once

#include <string>
#include <vector>

#include "suites/gate/fuzz/subject.h"

namespace fairdraw::suites::fuzz {

/// Outcome of a property on a case. The outcome is not_applicable if the case does not meet a
/// condition of the property, or the sampler lacks an ability.
enum class Outcome { holds, fails, not_applicable };

struct Judgement {
  Outcome outcome = Outcome::holds;
  std::string message;  ///< observation and expectation, or the reason why the property does not
                        ///< apply

  bool failed() const { return outcome == Outcome::fails; }
};

Judgement holds();
Judgement fails(std::string message);
Judgement not_applicable(std::string why);

struct Property {
  std::string name;
  std::string what;  ///< one sentence that describes the property, without a full stop
  CaseKind kind = CaseKind::batch;
  /// The fuzzer judges the property on one case in `period`; expensive properties have a period
  /// above 1.
  unsigned period = 1;
  Judgement (*judge)(Subject&) = nullptr;
};

/// Returns all properties, in the order in which they are judged on a case. The first property that
/// fails is reported.
const std::vector<Property>& properties();

/// Returns the property that has this name. Throws harness::UsageError with the closest name if
/// there is none.
const Property& find_property(const std::string& name);

/// Judges a case. Judges a property on a case. The outcome is not_applicable if the sampler lacks
/// an ability that the case needs, or if the case's own call does not run (call.runs judges that).
/// The property fails if the judgement throws an exception.
Judgement judge(const Property& property, Subject& subject);

}  // namespace fairdraw::suites::fuzz
