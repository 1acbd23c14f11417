// The processing of one call, in the memory that the sampler reads. For request.cpp.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/contract/batch.h"
#include "harness/inputs/processing_arrays.h"
#include "harness/run/calls/request_arrays.h"

namespace fairdraw::harness {

class PlacedProcessing {
 public:
  PlacedProcessing(Memory* memory, std::span<const reference::RowProcessing> rows,
                   std::int64_t vocab, const HistoryArrays& form);

  /// Fills `processing`, and has its arrays watched. Nothing where there are no rows.
  void give(fairdraw_processing& processing, ReadOnly& inputs);

 private:
  template <class T>
  const T* place(const char* name, const std::vector<T>& values, ReadOnly& inputs);
  fairdraw_token_lists place(const char* name, const OwnedLists& lists, ReadOnly& inputs);

  Memory* memory_;
  ProcessingArrays arrays_;
  std::vector<std::shared_ptr<void>> placed_;
};

}  // namespace fairdraw::harness
