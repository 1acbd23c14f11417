#include "harness/contract/semantics_text.h"

#include <fmt/format.h>

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

// Members of Semantics that may be any number in [0, largest]; all other members have named values.
// The limits are above the values of all engines, but low enough that something is left to judge.
struct Number {
  const char* name;
  double Semantics::*member;
  double largest;
  const char* why;     ///< the reason for which the limit is needed
  double usual;        ///< the largest value in engines; the report mentions larger values
  const char* allows;  ///< text of the report, with {} in place of the number
};
constexpr Number kNumbers[] = {
    // Engines treat temperatures below 1e-5 as greedy (profiles_torch.cpp), or raise temperatures
    // below 0.01 (vLLM). The limit is ten times 0.01, which is still below every temperature that a
    // user requests.
    {"greedy_below", &Semantics::greedy_below, 0.1,
     "a sampler that is greedy at larger temperatures does not sample at them", 1e-5,
     "makes temperatures below {} greedy"},
    {"least_temperature", &Semantics::least_temperature, 0.1,
     "a sampler that raises larger temperatures ignores what it is asked for", 0.01,
     "raises temperatures below {} to that"},
    // rosellm keeps 1e-9. With a floor of 1e-6, the 2^17 tokens of a large vocabulary get 13 % of
    // the draws.
    {"masked_probability_floor", &Semantics::masked_probability_floor, 1e-6,
     "with more, filtered tokens of a large vocabulary are drawn as often as the others", 0,
     "lets every token that the filters drop be drawn, with a weight of {}"},
};

double number_of(const Number& field, const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || !(number >= 0 && number <= field.largest)) {
    throw UsageError(fmt::format("{}: '{}' is no number in [0, {}]: {}", field.name, value,
                                 field.largest, field.why));
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
    semantics.*number.member = number_of(number, value);
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

std::vector<std::string> allowances_of(const Semantics& semantics) {
  const bool own = semantics.name.find(',') != std::string::npos;
  const std::string judge =
      own ? "Judged by its own definition" : "Judged by profile " + semantics.name;
  std::vector<std::string> notes;
  std::string anything;
  for (const reference::Choice& choice : reference::semantic_choices()) {
    for (const reference::ChoiceValue& value : choice.values) {
      if (value.name != "undefined" || !value.is_set(semantics)) continue;
      anything += (anything.empty() ? "" : "; ") + choice.meaning;
    }
  }
  if (!anything.empty()) {
    notes.push_back(judge + ", which allows anything at: " + anything + ".");
  }
  for (const Number& number : kNumbers) {
    const double value = semantics.*number.member;
    if (value <= number.usual) continue;
    notes.push_back(judge + ", which " + fmt::format(fmt::runtime(number.allows), value) + ".");
  }
  if (std::isfinite(semantics.banned_logit)) {
    notes.push_back(fmt::format("{}, which lets banned tokens be drawn, with a logit of {}.", judge,
                                semantics.banned_logit));
  }
  return notes;
}

}  // namespace fairdraw::harness
