// Helpers that the files of the case table share.
#pragma once

#include <cstdint>
#include <string>

#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// A case with its operations, and the name of the operations within the case's id.
struct NamedCase {
  Case entry;
  std::string operations_name;
};

/// Returns `entry` with `operation` for all rows.
NamedCase named_case(Case entry, const char* operation);

Input family_input(harness::Family family, std::int64_t vocab, DType dtype = DType::float32);

/// A row of a table of distributions: the draws of one operation, and the discrepancy that they
/// must find.
struct DistributionRow {
  Suite suite;
  harness::Family family;
  std::int64_t vocab;
  const char* operation;
  std::uint64_t draws;
  double declared;
  bool processed = false;
};
NamedCase distribution_case(Check check, const DistributionRow& row);

}  // namespace fairdraw::suites
