#include "suites/gate/cases/named_case.h"

#include <utility>

#include "suites/gate/cases/operation_lists.h"

namespace fairdraw::suites {

NamedCase named_case(Case entry, const char* operation) {
  entry.operations = {parse_operation(operation)};
  const Operation& parsed = entry.operations.front();
  std::string name = operation_name(parsed) + "/" + temperature_tag(parsed.parameters.temperature);
  return {std::move(entry), std::move(name)};
}

Input family_input(harness::Family family, std::int64_t vocab, DType dtype) {
  return {.family = family, .captured = nullptr, .vocab = vocab, .dtype = dtype};
}

NamedCase distribution_case(Check check, const DistributionRow& row) {
  return named_case({.suite = row.suite,
                     .check = check,
                     .input = family_input(row.family, row.vocab),
                     .processed = row.processed,
                     .draws = row.draws,
                     .declared_discrepancy = row.declared,
                     .once = true},
                    row.operation);
}

}  // namespace fairdraw::suites
