// Lists conditions that rows may have in common; a mistake that occurs only in some rows may depend
// on such a condition.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/calls/mixed_sampler.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {

struct Condition {
  std::string_view subject;  ///< parameter of the condition: "top_k", "temperature", ...
  std::string text;          ///< "rows with top_k"
  RowCondition holds;
};

/// Returns conditions on a row's parameters and on its call, the narrowest conditions first for
/// each subject. No condition says that a row does not have something, because a few wrong rows
/// lack many things by chance.
const std::vector<Condition>& row_conditions();

/// Returns the condition "rows 1, 3, 5, ... of a call": rows whose number in the call is `rest`
/// modulo `modulus`.
Condition every_nth_row(std::int64_t modulus, std::int64_t rest);
/// Returns the condition "calls of more than 8 rows".
Condition rows_above(std::int64_t rows);
/// Returns the condition "vocabularies of more than 1000 tokens".
Condition vocab_above(std::int64_t vocab);

RowFacts facts_of(const Request& request, std::int64_t row);

/// Returns whether there is a condition that holds for all of the first rows, and for none of the
/// others.
bool some_condition_tells(const std::vector<RowFacts>& rows, const std::vector<RowFacts>& others);

}  // namespace fairdraw::harness
