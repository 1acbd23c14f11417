#include "suites/gate/cases/operation.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <limits>

#include "harness/contract/usage_error.h"

namespace fairdraw::suites {
namespace {

using harness::UsageError;

constexpr std::string_view kGrammar =
    "parts joined by '+': none, greedy, min_p_X, top_k_N, top_p_X, lowest_id, joint; then "
    "optionally /tX for the temperature";

[[noreturn]] void fail(std::string_view name, std::string_view part) {
  throw UsageError(
      fmt::format("operation '{}': cannot read '{}'; allowed are {}", name, part, kGrammar));
}

float parse_float(std::string_view name, std::string_view part, std::string_view digits) {
  const std::string text(digits);
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0' || text.front() == ' ') fail(name, part);
  return value;
}

std::int32_t parse_int(std::string_view name, std::string_view part, std::string_view digits) {
  const std::string text(digits);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const bool in_range = value >= std::numeric_limits<std::int32_t>::min() &&
                        value <= std::numeric_limits<std::int32_t>::max();
  if (text.empty() || *end != '\0' || text.front() == ' ' || errno != 0 || !in_range) {
    fail(name, part);
  }
  return static_cast<std::int32_t>(value);
}

}  // namespace

std::string operation_name(const Operation& operation) {
  std::string name;
  const auto add = [&name](const std::string& part) {
    if (!name.empty()) name += '+';
    name += part;
  };
  const reference::RowParameters& p = operation.parameters;
  if (p.temperature == 0) add("greedy");
  if (p.min_p != 0) add(fmt::format("min_p_{}", p.min_p));
  if (p.top_k != 0) add(fmt::format("top_k_{}", p.top_k));
  if (p.top_p != 1) add(fmt::format("top_p_{}", p.top_p));
  if (operation.tie_rule == TieRule::lowest_id) add("lowest_id");
  if (operation.filter_order == FilterOrder::joint) add("joint");
  return name.empty() ? "none" : name;
}

std::string filter_name(const Operation& operation) {
  const reference::RowParameters& p = operation.parameters;
  if (p.temperature == 0) return "greedy";
  std::string name;
  for (const auto& [part, on] : {std::pair{"min_p", p.min_p != 0}, std::pair{"top_k", p.top_k != 0},
                                 std::pair{"top_p", p.top_p != 1}}) {
    if (on) name += name.empty() ? part : std::string("+") + part;
  }
  return name.empty() ? "none" : name;
}

std::string temperature_tag(float temperature) { return fmt::format("t{}", temperature); }

Operation parse_operation(std::string_view name) {
  Operation operation;
  std::string_view filters = name;
  if (const std::size_t slash = name.find('/'); slash != std::string_view::npos) {
    const std::string_view tag = name.substr(slash + 1);
    if (tag.size() < 2 || tag.front() != 't') fail(name, tag);
    operation.parameters.temperature = parse_float(name, tag, tag.substr(1));
    filters = name.substr(0, slash);
  }
  while (true) {
    const std::size_t plus = filters.find('+');
    const std::string_view part = filters.substr(0, plus);
    const auto number_after = [part](std::string_view prefix) {
      return part.starts_with(prefix) ? part.substr(prefix.size()) : std::string_view();
    };
    if (part == "greedy") {
      operation.parameters.temperature = 0;
    } else if (part == "lowest_id") {
      operation.tie_rule = TieRule::lowest_id;
    } else if (part == "joint") {
      operation.filter_order = FilterOrder::joint;
    } else if (const auto min_p = number_after("min_p_"); !min_p.empty()) {
      operation.parameters.min_p = parse_float(name, part, min_p);
    } else if (const auto top_k = number_after("top_k_"); !top_k.empty()) {
      operation.parameters.top_k = parse_int(name, part, top_k);
    } else if (const auto top_p = number_after("top_p_"); !top_p.empty()) {
      operation.parameters.top_p = parse_float(name, part, top_p);
    } else if (part != "none") {
      fail(name, part);
    }
    if (plus == std::string_view::npos) return operation;
    filters.remove_prefix(plus + 1);
  }
}

std::vector<Operation> parse_operations(std::initializer_list<std::string_view> names) {
  std::vector<Operation> operations;
  for (const std::string_view name : names) operations.push_back(parse_operation(name));
  return operations;
}

const std::vector<Operation>& named_operations() {
  static const std::vector<Operation> operations =
      parse_operations({"none", "greedy", "top_k_50", "top_k_1000", "top_p_0.95", "top_p_0.9",
                        "min_p_0.05", "top_k_50+top_p_0.9", "min_p_0.05+top_k_50+top_p_0.9",
                        "top_k_50+lowest_id", "top_k_50+top_p_0.9+joint"});
  return operations;
}

}  // namespace fairdraw::suites
