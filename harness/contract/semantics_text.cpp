#include "harness/contract/semantics_text.h"

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "harness/contract/usage_error.h"
#include "reference/semantic_choices.h"

namespace fairdraw::harness {
namespace {

using reference::Semantics;

// Members that may be any number; the others have the values that have names.
struct Number {
  const char* name;
  double Semantics::*member;
};
constexpr Number kNumbers[] = {
    {"greedy_below", &Semantics::greedy_below},
    {"least_temperature", &Semantics::least_temperature},
    {"masked_probability_floor", &Semantics::masked_probability_floor},
};

double number_of(const std::string& name, const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !std::isfinite(number) || number < 0) {
    throw UsageError(name + ": '" + value + "' is no finite number >= 0");
  }
  return number;
}

void set_choice(Semantics& semantics, const reference::Choice& choice, const std::string& value) {
  std::vector<std::string> values;
  for (const reference::ChoiceValue& one : choice.values) {
    if (one.name == value) return one.set(semantics);
    values.push_back(one.name);
  }
  throw UsageError(unknown_name_message("value of " + choice.name, value, values));
}

void apply(Semantics& semantics, const std::string& name, const std::string& value) {
  for (const Number& number : kNumbers) {
    if (number.name != name) continue;
    semantics.*number.member = number_of(name, value);
    return;
  }
  std::vector<std::string> names;
  for (const reference::Choice& choice : reference::semantic_choices()) {
    if (choice.name == name) return set_choice(semantics, choice, value);
    names.push_back(choice.name);
  }
  throw UsageError(unknown_name_message("field of semantics", name, names));
}

}  // namespace

Semantics semantics_from_text(std::string_view text) {
  const std::size_t comma = text.find(',');
  const std::string_view profile = text.substr(0, comma);
  const Semantics* const found = reference::find_profile(profile);
  if (found == nullptr) {
    throw UsageError(
        unknown_name_message("semantics profile", profile, reference::profile_names()));
  }
  Semantics semantics = *found;
  semantics.name = text;
  std::set<std::string> seen;
  for (std::size_t at = comma; at != std::string_view::npos;) {
    const std::size_t next = text.find(',', at + 1);
    const std::string item(
        text.substr(at + 1, next == std::string_view::npos ? next : next - at - 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string::npos) {
      throw UsageError("semantics '" + std::string(text) + "': '" + item + "' is not field=value");
    }
    const std::string name = item.substr(0, equals);
    if (!seen.insert(name).second) {
      throw UsageError("semantics '" + std::string(text) + "': " + name + " is given twice");
    }
    apply(semantics, name, item.substr(equals + 1));
    at = next;
  }
  return semantics;
}

}  // namespace fairdraw::harness
