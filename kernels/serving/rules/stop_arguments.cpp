// Checks of the arguments of check_stop, which are the same for every backend.
#include <limits>
#include <string>

#include "common/arguments.h"
#include "serving/rules/stop_rules.h"

namespace fairdraw {

Error check_stop_arguments(const StopRequest& request, const StopResult& result) {
  const std::int64_t n = request.requests;
  const char* one = "one per request";
  const StopCriteria& c = request.criteria;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (n < 0 || n > kMax) return out_of_range("requests", std::to_string(n), "0 to 2^31 - 1");
  if (request.vocab < 1 || request.vocab > kMaxVocab) {
    return out_of_range("vocab", std::to_string(request.vocab),
                        "1 to " + std::to_string(kMaxVocab));
  }
  if (request.tokens_per_step < 0 || request.tokens_per_step > kMax) {
    return out_of_range("tokens_per_step", std::to_string(request.tokens_per_step),
                        "0 to 2^31 - 1");
  }
  if (Error e = check_needed(request.step_tokens, "step_tokens", n * request.tokens_per_step,
                             "requests * tokens_per_step")) {
    return e;
  }
  if (Error e = check_token_lists(request.output, "output", n, one)) return e;
  if (Error e = check_optional(request.output_lengths, "output_lengths", n, one)) return e;
  if (Error e = check_optional(request.active, "active", n, one)) return e;
  if (Error e = check_per_request(c.eos_id, "eos_id", n, one)) return e;
  if (Error e = check_per_request(c.ignore_eos, "ignore_eos", n, one)) return e;
  if (Error e = check_per_request(c.min_tokens, "min_tokens", n, one)) return e;
  if (Error e = check_per_request(c.max_tokens, "max_tokens", n, one)) return e;
  if (Error e = check_token_lists(c.stop_ids, "stop_ids", n, one)) return e;
  if (Error e = check_token_lists(c.stop_sequences, "stop_sequences", n, one)) return e;
  if (Error e = check_token_lists(c.stop_sequence_lengths, "stop_sequence_lengths", n, one)) {
    return e;
  }
  if (c.stop_sequences.given() != c.stop_sequence_lengths.given()) {
    return out_of_range("stop_sequences without stop_sequence_lengths, or the other way round",
                        "one of two", "both or neither");
  }
  if (Error e = check_needed(result.reasons, "reasons", n, one)) return e;
  if (Error e = check_needed(result.kept, "kept", n, one)) return e;
  if (Error e = check_optional(result.matched, "matched", n, one)) return e;
  if (Error e = check_optional(result.matched_lengths, "matched_lengths", n, one)) return e;
  if (Error e = check_optional(result.output_lengths, "result.output_lengths", n, one)) return e;
  return check_optional(result.statuses, "statuses", n, one);
}

}  // namespace fairdraw
