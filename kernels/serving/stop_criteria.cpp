// Stop criteria of requests, checked on the CPU.
//
// Contract. fairdraw/stop_criteria.h has the rules and the order of the criteria, stop_rules.h the
// work per request in both backends: one pass over the tokens of its step. Requests are
// independent: an invalid one fails alone. The calling thread does all work, because there is so
// little.
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
