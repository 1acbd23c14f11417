// Logits processing that benchmarks add to their calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fairdraw/sample.h"
#include "harness/inputs/processing_arrays.h"

namespace fairdraw::suites {

/// Returns the values of --processing. none: no processing; penalties: all three penalties, over
/// 512 tokens of output; bias: biases of 64 ids; bitmask: one token in ten is banned; bans: minimum
/// tokens with 4 stop ids, and 8 bad words of 1 to 3 ids; allowed: a list of 1000 ids; all:
/// penalties, bias and bitmask; mixed: the rows take turns with none to all; top_n_sigma: 1;
/// typical_p: 0.95.
const std::vector<std::string>& processing_names();

struct BatchProcessing {
  harness::ProcessingArrays lists;
  std::vector<std::uint32_t> allowed;  ///< empty: no bitmask
  std::int64_t allowed_stride = 0;

  /// Adds the processing to a call; its arrays are in the memory of `arrays`.
  template <class Arrays>
  void give(SampleRequest& request, Arrays& arrays) const {
    if (lists.rows == 0) return;
    request.processing = lists.in(arrays);
    if (!allowed.empty()) request.allowed = {arrays.in(allowed), lists.rows, allowed_stride};
  }
};

/// Makes processing for `rows` rows. Rows whose indices are equal modulo `period` have the same
/// processing.
BatchProcessing make_processing(const std::string& name, std::int64_t rows, std::int64_t period,
                                std::int64_t vocab);

}  // namespace fairdraw::suites
