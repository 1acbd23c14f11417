// The library's running batch behind the contract's events: requests in a BatchState, stepped by a
// FusedSamplingProcessor, or by a caller's own call over BatchState::sample_request().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/fused_sampling_processor.h"
#include "harness/contract/sequence.h"

namespace fairdraw::harness {

/// The request that an add or a restore brings in one of its rows, and what it drew before. Its
/// first_offset is such that the offset of its next token is that plus the length of the output.
RequestSnapshot snapshot_of(const fairdraw_event& event, std::int64_t row, RequestId id);

class KeptBatch {
 public:
  /// A call over the rows of all slots, of which those of the step are active.
  using Sample = std::function<Error(const SampleRequest& request, const SampleResult& result)>;

  KeptBatch() = default;
  explicit KeptBatch(Sample sample) : sample_(std::move(sample)) {}

  /// Returns an empty string, or why the event was refused.
  std::string run(const fairdraw_event& event, const Execution& execution);

 private:
  Error begin(const fairdraw_event& event, const Execution& execution);
  Error take(const fairdraw_event& event);
  Error step(const fairdraw_event& event);
  Error step_processor(const fairdraw_event& event);
  Error step_by_call(const fairdraw_event& event);

  Sample sample_;
  std::unique_ptr<BatchState> state_;
  std::unique_ptr<FusedSamplingProcessor> processor_;
  RequestId last_ = 0;  // ids are those of the state: a request that is restored has another one
};

}  // namespace fairdraw::harness
