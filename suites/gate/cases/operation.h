// Operations. An operation has the parameters of a row: filters, tie rule, filter order,
// temperature. Cases, benchmarks and reports use the same name for an operation, for example
// `top_k_50+top_p_0.9`.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "fairdraw/types.h"
#include "reference/integer_model.h"

namespace fairdraw::suites {

struct Operation {
  reference::RowParameters parameters;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
};

/// Returns the name of an operation. The name consists of these parts in this order, joined by '+'
/// and without those that have their defaults: `greedy` (temperature 0), `min_p_X`, `top_k_N`,
/// `top_p_X`, `lowest_id`, `joint`. The name is `none` if no part is left. Any other temperature is
/// written in a separate tag. Numbers are written as the shortest decimals that give the same
/// float32.
std::string operation_name(const Operation& operation);

/// Returns the filters of an operation without their numbers: `greedy`, or the active filters among
/// `min_p`, `top_k` and `top_p` joined by '+', or `none`.
std::string filter_name(const Operation& operation);

/// Returns the temperature in the form in which it ends a case's id: `t1`, `t0.7`, `t1e-04`.
std::string temperature_tag(float temperature);

/// Parses a name that operation_name has written; it may be followed by '/' and a temperature tag.
/// Throws harness::UsageError that names the wrong part and the allowed parts. Only the syntax is
/// checked: `top_p_1.5` is an operation whose rows a sampler must reject.
Operation parse_operation(std::string_view name);
std::vector<Operation> parse_operations(std::initializer_list<std::string_view> names);

/// Returns the operations of the case table and the benchmarks, in the order of the table in the
/// README.
const std::vector<Operation>& named_operations();

}  // namespace fairdraw::suites
