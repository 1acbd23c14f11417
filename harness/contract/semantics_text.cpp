#include "harness/contract/semantics_text.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/contract/usage_error.h"

namespace fairdraw::harness {
namespace {

using reference::Semantics;

struct Field {
  std::string name;
  std::function<void(Semantics&, const std::string& value)> set;
};

// `values` are the enumerators, in their order.
template <class Enum>
Field choice(const char* name, Enum Semantics::*member, std::vector<std::string> values) {
  return {name,
          [name, member, values = std::move(values)](Semantics& target, const std::string& value) {
            for (std::size_t i = 0; i < values.size(); ++i) {
              if (values[i] == value) {
                target.*member = static_cast<Enum>(i);
                return;
              }
            }
            throw UsageError(unknown_name_message(std::string("value of ") + name, value, values));
          }};
}

Field greedy_below() {
  return {"greedy_below", [](Semantics& target, const std::string& value) {
            char* end = nullptr;
            const double number = std::strtod(value.c_str(), &end);
            if (value.empty() || *end != '\0' || !std::isfinite(number) || number < 0) {
              throw UsageError("greedy_below: '" + value + "' is no finite number >= 0");
            }
            target.greedy_below = number;
          }};
}

const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
      choice("top_k_ties", &Semantics::top_k_ties, {"keep_all", "lowest_id", "any_k"}),
      choice("top_p_ties", &Semantics::top_p_ties, {"keep_all", "any"}),
      choice("top_p_boundary", &Semantics::top_p_boundary,
             {"mass_above_below_p", "mass_above_at_most_p", "inclusive_mass_at_most_p"}),
      choice("top_p_base", &Semantics::top_p_base, {"renormalised", "joint"}),
      choice("min_p_place", &Semantics::min_p_place, {"before_top_k", "after_top_p", "none"}),
      choice("top_k_zero", &Semantics::top_k_zero, {"off", "error", "greedy", "undefined"}),
      choice("top_k_negative", &Semantics::top_k_negative, {"off", "minus_one_off", "error"}),
      choice("top_k_one", &Semantics::top_k_one, {"greedy", "filter"}),
      choice("top_k_above_vocab", &Semantics::top_k_above_vocab, {"off", "error"}),
      choice("top_p_zero", &Semantics::top_p_zero, {"greedy", "off", "error", "undefined"}),
      choice("top_p_one", &Semantics::top_p_one, {"off", "filter"}),
      choice("temperature_zero", &Semantics::temperature_zero, {"greedy", "error", "uniform"}),
      choice("greedy_ties", &Semantics::greedy_ties, {"lowest_id", "any"}),
      choice("nan_logit", &Semantics::nan_logit, {"row_error", "undefined"}),
      choice("invalid_parameter", &Semantics::invalid_parameter, {"row_error", "undefined"}),
      greedy_below(),
  };
  return all;
}

void apply(Semantics& semantics, const std::string& name, const std::string& value) {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    if (field.name == name) {
      field.set(semantics, value);
      return;
    }
    names.push_back(field.name);
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
