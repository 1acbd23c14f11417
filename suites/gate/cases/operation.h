// Operations. An operation is the parameters of a row: filters, tie rule, filter order,
// temperature. Cases, benchmarks and reports share its name, for example `top_k_50+top_p_0.9`.
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

/// Returns the name of an operation: parts joined by '+' in this order, without parts at their
/// defaults: `greedy` (temperature 0), `min_p_X`, `top_k_N`, `top_p_X`, `lowest_id`, `joint`;
/// `none` if no part is left. Any other temperature is a separate tag. Numbers are the shortest
/// decimals that give the same float32.
std::string operation_name(const Operation& operation);

/// Returns an operation's filters without their numbers: `greedy`, or the active ones of `min_p`,
/// `top_k` and `top_p` joined by '+', or `none`.
std::string filter_name(const Operation& operation);

/// Returns the temperature as the last part of a case's id: `t1`, `t0.7`, `t1e-04`.
std::string temperature_tag(float temperature);

/// Reads a name as written by operation_name, optionally followed by '/' and a temperature tag.
/// Throws harness::UsageError that names the wrong part and the allowed parts. Only the syntax is
/// checked: `top_p_1.5` is an operation whose rows a sampler must refuse.
Operation parse_operation(std::string_view name);
std::vector<Operation> parse_operations(std::initializer_list<std::string_view> names);

/// Returns the operations of the case table and the benchmarks, in the order of the README's table.
const std::vector<Operation>& named_operations();

}  // namespace fairdraw::suites
