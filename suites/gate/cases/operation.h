// An operation is what a row is asked for: filters, tie rule, filter order, temperature. Its name
// is an address that cases, benchmarks and reports share: `top_k_50+top_p_0.9`.
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

/// Parts joined by '+', in this order, each left out at its default: `greedy` (temperature 0),
/// `min_p_X`, `top_k_N`, `top_p_X`, `lowest_id`, `joint`; `none` when nothing is left. The
/// temperature has a tag of its own. Numbers are the shortest decimals that give the same float32.
std::string operation_name(const Operation& operation);

/// The filters of it without their numbers: `greedy`, or what is on of `min_p`, `top_k` and
/// `top_p`, joined by '+'; `none` where all are off.
std::string filter_name(const Operation& operation);

/// `t1`, `t0.7`, `t1e-04`: the temperature as the last part of a case's id.
std::string temperature_tag(float temperature);

/// Reads a name as written by operation_name, optionally followed by '/' and a temperature tag.
/// Throws harness::UsageError naming the part that is wrong and what is allowed. Only syntax is
/// judged: `top_p_1.5` is an operation, and a sampler must refuse its rows.
Operation parse_operation(std::string_view name);
std::vector<Operation> parse_operations(std::initializer_list<std::string_view> names);

/// The operations that the case table and the benchmarks use, in the order of the README's table.
const std::vector<Operation>& named_operations();

}  // namespace fairdraw::suites
