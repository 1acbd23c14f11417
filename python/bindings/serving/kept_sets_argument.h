// Reads kept sets as an argument, which is the mapping that fairdraw/kept_sets.py makes.
#pragma once

#include <cstdint>

#include "fairdraw/kept_sets.h"
#include "python/bindings/arguments.h"

namespace fairdraw::python {

/// Returns the arrays of the sets: token_ids, which has room for `room` ids, offsets and overflow.
inline KeptSets arrays_of(const Named& sets, std::int64_t outputs, const Place& place) {
  const KeptSets arrays{
      sets.output<std::int32_t>("token_ids", sets.as<std::int64_t>("room"), place),
      sets.output<std::int64_t>("offsets", outputs + 1, place),
      sets.output<std::uint8_t>("overflow", outputs, place)};
  sets.expect_all_read();
  return arrays;
}

}  // namespace fairdraw::python
