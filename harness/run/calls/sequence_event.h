// One event of a running batch, with all of its arrays: the event and, for a step, the sampler's
// answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/sequence.h"
#include "harness/run/calls/request.h"

namespace fairdraw::harness {

/// A form of fairdraw_event that owns its arrays. Fields that this kind of event does not have are
/// empty.
struct SequenceEvent {
  std::uint32_t kind = FAIRDRAW_EVENT_BEGIN;  ///< FAIRDRAW_EVENT_*
  std::int64_t slots = 0, vocab = 0;
  DType dtype = DType::float32;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  std::vector<std::int32_t> slot;  ///< number of the slot of each row

  // These fields are for the events add and restore.
  std::vector<reference::RowParameters> parameters;
  std::vector<std::uint64_t> seed, offset;
  std::vector<reference::RowProcessing> processing;  ///< empty if the request has no processing

  // These fields are for the event step.
  std::vector<float> logits;           ///< [rows, vocab] values that dtype represents exactly
  std::vector<std::uint32_t> allowed;  ///< [rows, words_for(vocab)] bitmask, or empty
};

struct SequenceAnswer {
  std::string refused, damage;  ///< as in Response
  std::vector<std::int32_t> tokens, statuses;

  bool ran() const { return refused.empty() && damage.empty(); }
  std::string trouble() const { return refused.empty() ? damage : "call refused: " + refused; }
};

/// Runs the event. The field for statuses is filled only if the sampler reports statuses.
SequenceAnswer run_event(Sampler& sampler, const SequenceEvent& event);

}  // namespace fairdraw::harness
