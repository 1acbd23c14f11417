// What must hold of every call of a sampler, whatever its rows and parameters are.
//
// A property knows no case table and no seeds: a case that breaks it breaks it on any machine.
#pragma once

#include <string>
#include <vector>

#include "suites/gate/fuzz/subject.h"

namespace fairdraw::suites::fuzz {

/// holds, fails, or says nothing about such a case (an ability or a condition is missing).
enum class Outcome { holds, fails, not_applicable };

struct Judgement {
  Outcome outcome = Outcome::holds;
  std::string message;  ///< what was observed and what was expected; why it does not apply

  bool failed() const { return outcome == Outcome::fails; }
};

Judgement holds();
Judgement fails(std::string message);
Judgement not_applicable(std::string why);

struct Property {
  std::string name;
  std::string what;  ///< one sentence, without a full stop
  CaseKind kind = CaseKind::batch;
  /// The fuzzer judges it on one case in so many: 1, or more where it is expensive.
  unsigned period = 1;
  Judgement (*judge)(Subject&) = nullptr;
};

/// All of them, in the order in which a case is judged: the first that fails is reported.
const std::vector<Property>& properties();

/// The property of that name; throws harness::UsageError with the closest name.
const Property& find_property(const std::string& name);

/// Judges a case: not_applicable where the sampler lacks an ability that the case needs, or the
/// case's own call does not run (which call.runs judges); fails where something throws.
Judgement judge(const Property& property, Subject& subject);

}  // namespace fairdraw::suites::fuzz
