// Checks of the arguments of beam search, which both backends share.
#include <limits>
#include <string>

#include "common/arguments.h"
#include "serving/rules/beam_scores.h"

namespace fairdraw {
namespace {

/// Limit for a number of elements, which is larger than any memory's capacity and far from an
/// overflow of int64.
constexpr std::int64_t kMaxPlaces = std::int64_t{1} << 48;

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
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (requests < 0 || requests > kMax) {
    return out_of_range("requests", std::to_string(requests), "0 to 2^31 - 1");
  }
  if (max_width >= 1 && max_width <= kMaxBeamWidth) return {};
  return out_of_range("max_width", std::to_string(max_width),
                      "1 to " + std::to_string(kMaxBeamWidth));
}

Error check_beam_pool(const BeamPool& pool, std::int64_t requests, std::int32_t max_width) {
  const std::int64_t places = requests * max_width;
  const char* all = "requests * max_width";
  if (Error e = check_needed(pool.counts, "pool.counts", requests, "one per request")) return e;
  if (Error e = check_needed(pool.scores, "pool.scores", places, all)) return e;
  if (Error e = check_needed(pool.cumulative, "pool.cumulative", places, all)) return e;
  if (Error e = check_needed(pool.lengths, "pool.lengths", places, all)) return e;
  if (Error e = check_needed(pool.beams, "pool.beams", places, all)) return e;
  return check_needed(pool.tokens, "pool.tokens", places, all);
}

Error check_beam_history(const BeamHistory& history, std::int64_t requests,
                         std::int32_t max_width) {
  if (history.max_steps < 0) {
    return out_of_range("history.max_steps", std::to_string(history.max_steps), ">= 0");
  }
  const std::int64_t of_a_step = requests * max_width;  // at most 2^41, because the shape has
                                                        // already been checked
  if (of_a_step > 0 && history.max_steps > kMaxPlaces / of_a_step) {
    return out_of_range("history.max_steps", std::to_string(history.max_steps),
                        "at most 2^48 / (requests * max_width)");
  }
  const std::int64_t places = of_a_step * history.max_steps;
  const char* all = "requests * max_steps * max_width";
  if (Error e = check_needed(history.tokens, "history.tokens", places, all)) return e;
  return check_needed(history.parents, "history.parents", places, all);
}

Error check_beam_step(const BeamStepRequest& step, const BeamStepResult& result) {
  const std::int64_t n = step.requests;
  const char* one = "one per request";
  const BeamParameters& given = step.parameters;
  if (Error e = check_rows(step.rows, "rows")) return e;
  if (static_cast<std::uint32_t>(step.input) > 1) {
    return out_of_range("input", std::to_string(static_cast<std::uint32_t>(step.input)),
                        "0 (logits) or 1 (logprobs)");
  }
  if (Error e = check_beam_shape(n, step.max_width)) return e;
  const std::int64_t places = n * step.max_width;
  const char* all = "requests * max_width";
  if (Error e = check_needed(step.row_begins, "row_begins", n, one)) return e;
  if (Error e = check_needed(step.live_beams, "live_beams", n, one)) return e;
  if (Error e = check_needed(step.scores, "scores", places, all)) return e;
  if (Error e = check_needed(step.generated, "generated", n, one)) return e;
  if (Error e = check_needed(step.states, "states", n, one)) return e;
  if (Error e = check_per_request(given.width, "width", n, one)) return e;
  if (Error e = check_per_request(given.length_penalty, "length_penalty", n, one)) return e;
  if (Error e = check_per_request(given.early_stopping, "early_stopping", n, one)) return e;
  if (Error e = check_per_request(given.diversity_rate, "diversity_rate", n, one)) return e;
  if (Error e = check_diversity(given.diversity_rate)) return e;
  if (Error e = check_per_request(given.max_tokens, "max_tokens", n, one)) return e;
  if (Error e = check_token_lists(given.end_ids, "end_ids", n, one)) return e;
  if (Error e = check_needed(result.parents, "parents", places, all)) return e;
  if (Error e = check_needed(result.tokens, "tokens", places, all)) return e;
  if (Error e = check_needed(result.scores, "result.scores", places, all)) return e;
  if (Error e = check_needed(result.live_beams, "result.live_beams", n, one)) return e;
  if (Error e = check_optional(result.generated, "result.generated", n, one)) return e;
  if (Error e = check_needed(result.states, "result.states", n, one)) return e;
  if (Error e = check_optional(result.statuses, "statuses", n, one)) return e;
  if (Error e = check_beam_pool(result.pool, n, step.max_width)) return e;
  if (!result.history.tokens.given()) return {};
  return check_beam_history(result.history, n, step.max_width);
}

Error check_beam_result(const BeamResultRequest& request, const BeamSequences& result) {
  const std::int64_t n = request.requests;
  const char* one = "one per request";
  const char* each = "requests * best";
  if (Error e = check_beam_shape(n, request.max_width)) return e;
  if (request.best < 1 || request.best > request.max_width) {
    return out_of_range("best", std::to_string(request.best),
                        "1 to max_width (" + std::to_string(request.max_width) + ")");
  }
  if (Error e = check_beam_pool(request.pool, n, request.max_width)) return e;
  if (Error e = check_beam_history(request.history, n, request.max_width)) return e;
  if (Error e = check_needed(request.live_beams, "live_beams", n, one)) return e;
  if (Error e =
          check_needed(request.scores, "scores", n * request.max_width, "requests * max_width")) {
    return e;
  }
  if (Error e = check_needed(request.generated, "generated", n, one)) return e;
  if (Error e = check_needed(request.states, "states", n, one)) return e;
  if (Error e = check_per_request(request.length_penalty, "length_penalty", n, one)) return e;
  const std::int64_t places = n * request.best;
  if (Error e = check_needed(result.tokens, "tokens", places * request.history.max_steps,
                             "requests * best * max_steps")) {
    return e;
  }
  if (Error e = check_needed(result.lengths, "lengths", places, each)) return e;
  if (Error e = check_needed(result.scores, "result.scores", places, each)) return e;
  if (Error e = check_optional(result.cumulative, "cumulative", places, each)) return e;
  return check_optional(result.statuses, "statuses", n, one);
}

}  // namespace fairdraw
