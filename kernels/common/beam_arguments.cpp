// Checks of the arguments of beam search that the step and the result share.
#include <limits>
#include <string>

#include "arguments.h"
#include "beam_scores.h"

namespace fairdraw {
namespace {

Error check_diversity(const PerRequest<float>& rate) {
  const std::int64_t n = rate.is_array() ? rate.values.size : 1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (rate.at(i) == 0.0F) continue;
    std::string field = "diversity_rate";
    if (rate.is_array()) field.append("[").append(std::to_string(i)).append("]");
    Error error = out_of_range(field, std::to_string(rate.at(i)), "0 (no diverse beam search)");
    error.code = ErrorCode::unsupported;
    return error;
  }
  return {};
}

}  // namespace

Error check_beam_shape(std::int64_t requests, std::int32_t max_width) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (requests < 0 || requests > kMost) {
    return out_of_range("requests", std::to_string(requests), "0 to 2^31 - 1");
  }
  if (max_width >= 1 && max_width <= kMaxBeamWidth) return {};
  return out_of_range("max_width", std::to_string(max_width),
                      "1 to " + std::to_string(kMaxBeamWidth));
}

Error check_beam_pool(const BeamPool& pool, std::int64_t requests, std::int32_t max_width) {
  const std::int64_t places = requests * max_width;
  const char* all = "requests * max_width";
  if (Error e = check_length("pool.counts", pool.counts.size, requests, "one a request")) return e;
  if (Error e = check_length("pool.scores", pool.scores.size, places, all)) return e;
  if (Error e = check_length("pool.cumulative", pool.cumulative.size, places, all)) return e;
  if (Error e = check_length("pool.lengths", pool.lengths.size, places, all)) return e;
  if (Error e = check_length("pool.beams", pool.beams.size, places, all)) return e;
  return check_length("pool.tokens", pool.tokens.size, places, all);
}

Error check_beam_history(const BeamHistory& history, std::int64_t requests,
                         std::int32_t max_width) {
  if (history.max_steps < 0) {
    return out_of_range("history.max_steps", std::to_string(history.max_steps), ">= 0");
  }
  const std::int64_t places = requests * max_width * history.max_steps;
  const char* all = "requests * max_steps * max_width";
  if (Error e = check_length("history.tokens", history.tokens.size, places, all)) return e;
  return check_length("history.parents", history.parents.size, places, all);
}

Error check_beam_step(const BeamStepRequest& step, const BeamStepResult& result) {
  const std::int64_t n = step.requests;
  const char* one = "one a request";
  const BeamParameters& given = step.parameters;
  if (Error e = check_rows(step.rows, "rows")) return e;
  if (static_cast<std::uint32_t>(step.input) > 1) {
    return out_of_range("input", std::to_string(static_cast<std::uint32_t>(step.input)),
                        "0 (logits) or 1 (logprobs)");
  }
  if (Error e = check_beam_shape(n, step.max_width)) return e;
  const std::int64_t places = n * step.max_width;
  const char* all = "requests * max_width";
  if (Error e = check_length("row_begins", step.row_begins.size, n, one)) return e;
  if (Error e = check_length("live_beams", step.live_beams.size, n, one)) return e;
  if (Error e = check_length("scores", step.scores.size, places, all)) return e;
  if (Error e = check_length("generated", step.generated.size, n, one)) return e;
  if (Error e = check_length("states", step.states.size, n, one)) return e;
  if (Error e = check_per_request(given.width, "width", n, one)) return e;
  if (Error e = check_per_request(given.length_penalty, "length_penalty", n, one)) return e;
  if (Error e = check_per_request(given.early_stopping, "early_stopping", n, one)) return e;
  if (Error e = check_per_request(given.diversity_rate, "diversity_rate", n, one)) return e;
  if (Error e = check_diversity(given.diversity_rate)) return e;
  if (Error e = check_per_request(given.max_tokens, "max_tokens", n, one)) return e;
  if (Error e = check_token_lists(given.end_ids, "end_ids", n, one)) return e;
  if (Error e = check_length("parents", result.parents.size, places, all)) return e;
  if (Error e = check_length("tokens", result.tokens.size, places, all)) return e;
  if (Error e = check_length("result.scores", result.scores.size, places, all)) return e;
  if (Error e = check_length("result.live_beams", result.live_beams.size, n, one)) return e;
  if (Error e = check_optional(result.generated, "result.generated", n, one)) return e;
  if (Error e = check_length("result.states", result.states.size, n, one)) return e;
  if (Error e = check_optional(result.statuses, "statuses", n, one)) return e;
  if (Error e = check_beam_pool(result.pool, n, step.max_width)) return e;
  if (!result.history.tokens.given()) return {};
  return check_beam_history(result.history, n, step.max_width);
}

}  // namespace fairdraw
