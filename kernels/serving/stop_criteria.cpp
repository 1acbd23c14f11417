// Checks the stop criteria of requests on the CPU.
//
// Contract. The rules and the order of the criteria are given in fairdraw/stop_criteria.h. The work
// for each request, which is one pass over the tokens of its step, is in stop_rules.h for both
// backends. Requests are independent of each other, so that an invalid request fails alone. The
// calling thread does all the work, because there is little of it.
#include "fairdraw/stop_criteria.h"

#include "serving/rules/stop_rules.h"

namespace fairdraw {

const char* to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::eos:
      return "eos";
    case FinishReason::stop_id:
      return "stop_id";
    case FinishReason::stop_sequence:
      return "stop_sequence";
    case FinishReason::length:
      return "length";
  }
  return "unknown";
}

const char* finish_reason_name(FinishReason reason) noexcept {
  if (reason == FinishReason::none) return nullptr;
  return reason == FinishReason::length ? "length" : "stop";
}

Error check_stop(const StopRequest& request, const StopResult& result) {
  if (Error error = check_stop_arguments(request, result)) return error;
  for (std::int64_t r = 0; r < request.requests; ++r) {
    write_stop_outcome(stop_outcome(request, r), result, r);
  }
  return {};
}

}  // namespace fairdraw
