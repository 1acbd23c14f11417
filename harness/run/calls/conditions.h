// Conditions that rows may have in common: what a mistake that shows only in some rows depends on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/run/calls/mixed_sampler.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {

struct Condition {
  std::string_view subject;  ///< the parameter that it is about: "top_k", "temperature", ...
  std::string text;          ///< "rows with top_k"
  RowCondition holds;
};

/// About the parameters of a row, and about what its call is given: of one subject the narrowest
/// first. None is about what a row lacks: few wrong rows lack much by chance.
const std::vector<Condition>& row_conditions();

/// "every second row, from row 1 on": rows whose place in the call is `rest` modulo `modulus`.
Condition every_nth_row(std::int64_t modulus, std::int64_t rest);
/// "calls of more than 8 rows"
Condition rows_above(std::int64_t rows);
/// "vocabularies of more than 1000 tokens"
Condition vocab_above(std::int64_t vocab);

RowFacts facts_of(const Request& request, std::int64_t row);

/// Returns whether some condition holds for all of the first rows, and for none of the others.
bool some_condition_tells(const std::vector<RowFacts>& rows, const std::vector<RowFacts>& others);

}  // namespace fairdraw::harness
