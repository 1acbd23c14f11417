// Checks of the arguments of beam search that the step and the result share.
#include <limits>
#include <string>

#include "arguments.h"
#include "beam_scores.h"

namespace fairdraw {

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

}  // namespace fairdraw
