// Functions that the files of the case table share.
#pragma once

#include <cstdint>
#include <string>

#include "suites/gate/cases/case.h"

namespace fairdraw::suites {

/// A case with its operations, and the name that the operations have in the case's id.
struct NamedCase {
  Case entry;
  std::string operations_name;
};

/// Returns `entry` with the same `operation` in all rows.
NamedCase named_case(Case entry, const char* operation);

Input family_input(harness::Family family, std::int64_t vocab, DType dtype = DType::float32);

/// A row of a table of distributions: the number of draws from one operation, and the discrepancy
/// that these draws must detect.
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
