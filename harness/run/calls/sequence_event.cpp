#include "harness/run/calls/sequence_event.h"

#include "harness/contract/serving.h"
#include "harness/contract/serving_arrays.h"
#include "harness/run/calls/request_arrays.h"

namespace fairdraw::harness {
namespace {

// The inputs of the event that this object stores in another form. The fields have the same names
// as in fairdraw_event.
struct EventInputs : FilterArrays {
  ProcessingArrays processing;
  Encoded logits;

  explicit EventInputs(const SequenceEvent& event)
      : FilterArrays(event.parameters),
        processing(pack(event.processing, event.vocab)),
        logits(event.dtype, event.logits) {}
};

}  // namespace

SequenceAnswer run_event(Sampler& sampler, const SequenceEvent& event) {
  SequenceAnswer answer;
  if (broke(sampler, answer)) return answer;
  fairdraw_event call{};
  call.struct_size = sizeof(call);
  call.kind = event.kind;
  call.slots = event.slots;
  call.vocab = event.vocab;
  call.dtype = static_cast<std::uint32_t>(event.dtype);
  call.tie_rule = static_cast<std::uint32_t>(event.tie_rule);
  call.filter_order = static_cast<std::uint32_t>(event.filter_order);
  call.rows = static_cast<std::int64_t>(event.slot.size());

  const EventInputs prepared(event);
  const bool is_step = event.kind == FAIRDRAW_EVENT_STEP;
  const struct {
    bool tokens, statuses;
  } room{is_step, is_step && sampler.description().reports_status};
  PlacedArrays arrays(sampler.memory());
  place_arrays(arrays, call, prepared, event, room, answer);
  answer_call(sampler, arrays, answer, [&] { return sampler.run_serving({&call}); });
  return answer;
}

}  // namespace fairdraw::harness
