// Adapts the library's running batch to the contract's events: a BatchState keeps the requests, and
// a FusedSamplingProcessor, or the caller's call on BatchState::sample_request(), makes the steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fairdraw/fused_sampling_processor.h"
#include "harness/contract/sequence.h"

namespace fairdraw::harness {

/// Returns the request in row `row` of an add or restore event, with the tokens that the request
/// drew before. The offset of the request's next token is its first_offset plus the length of its
/// output.
RequestSnapshot snapshot_of(const fairdraw_event& event, std::int64_t row, RequestId id);

class KeptBatch {
 public:
  /// A call that samples the rows of all slots, of which only the rows of the step are active.
  using Sample = std::function<Error(const SampleRequest& request, const SampleResult& result)>;

  KeptBatch() = default;
  explicit KeptBatch(Sample sample) : sample_(std::move(sample)) {}

  /// Runs an event. Returns an empty string, or the reason why the event was refused.
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
  RequestId last_ = 0;  // id in the BatchState; a restored request gets a new id
};

}  // namespace fairdraw::harness
