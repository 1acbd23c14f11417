// Makes calls with logits processing. For processing.cpp.
#pragma once

#include <cstdint>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns a request of the rows [first, first + count) of the input with processing, in which each
/// row has the steps that follow from its number, without those that the sampler lacks.
Request with_processing(const CheckInput& input, std::int64_t first, std::int64_t count,
                        const HistoryArrays& form);

}  // namespace fairdraw::harness
