// The best sequences of beam search, read back from the history.
//
// A sequence is a chain of parents: from its last token and the live beam before it back to the
// first step. Chains share prefixes, so nothing is copied while beams live; reading one back costs
// its length.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "arguments.h"
#include "beam_scores.h"
#include "fairdraw/beam_search.h"
#include "float_environment.h"

namespace fairdraw {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A sequence that may be chosen: from the pool, or a live beam (`token` is -1: the last token is
/// that of the beam).
using Hypothesis = FinishedBeam;

RowStatus gather_live(const BeamResultRequest& request, std::int64_t r,
                      std::vector<Hypothesis>& all) {
  const std::int32_t length = request.generated.data[r];
  if (request.states.data[r] == BeamState::pool_done || length == 0) return RowStatus::ok;
  const float norm = beam_length_norm(length, request.length_penalty.at(r));
  if (!is_length_norm(norm)) return RowStatus::invalid_penalty;
  for (std::int32_t b = 0; b < request.live_beams.data[r]; ++b) {
    const float cumulative = request.scores.data[r * request.max_width + b];
    all.push_back({cumulative / norm, cumulative, length, b, -1});
  }
  return RowStatus::ok;
}

/// Not inlined: its arithmetic must not be moved out of the environment that the caller sets.
[[gnu::noinline]] RowStatus gather(const BeamResultRequest& request, std::int64_t r,
                                   std::vector<Hypothesis>& all) {
  const std::int32_t pooled = request.pool.counts.data[r];
  const std::int32_t live = request.live_beams.data[r];
  const std::int32_t generated = request.generated.data[r];
  all.clear();
  if (live < 0 || live > request.max_width) return RowStatus::index_out_of_range;
  if (pooled < 0 || pooled > request.max_width || generated < 0 ||
      generated > request.history.max_steps) {
    return RowStatus::invalid_history;
  }
  if (!std::isfinite(request.length_penalty.at(r))) return RowStatus::invalid_penalty;
  for (std::int32_t i = 0; i < pooled; ++i) {
    const std::int64_t at = r * request.max_width + i;
    all.push_back({request.pool.scores.data[at], request.pool.cumulative.data[at],
                   request.pool.lengths.data[at], request.pool.beams.data[at],
                   request.pool.tokens.data[at]});
  }
  const RowStatus status = gather_live(request, r, all);
  for (const Hypothesis& h : all) {
    if (std::isnan(h.score)) return RowStatus::nan_input;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return status;
}

/// Writes the tokens of a sequence; false where its chain leaves the history.
bool read_back(const BeamResultRequest& request, std::int64_t r, const Hypothesis& h,
               std::int32_t* tokens) {
  const BeamHistory& history = request.history;
  if (h.length < 1 || h.length > history.max_steps) return false;
  std::int32_t beam = h.beam;
  std::int32_t step = h.length - 1;
  if (h.token >= 0) tokens[step--] = h.token;
  for (; step >= 0; --step) {
    if (beam < 0 || beam >= request.max_width) return false;
    const std::int64_t at = (r * history.max_steps + step) * request.max_width + beam;
    tokens[step] = history.tokens.data[at];
    beam = history.parents.data[at];
  }
  return true;
}

RowStatus write_sequences(const BeamResultRequest& request, const BeamSequences& result,
                          std::int64_t r, const std::vector<Hypothesis>& all) {
  const std::int32_t steps = request.history.max_steps;
  const auto there = std::min(all.size(), static_cast<std::size_t>(request.best));
  for (std::size_t i = 0; i < there; ++i) {
    const std::int64_t at = r * request.best + static_cast<std::int64_t>(i);
    if (!read_back(request, r, all[i], result.tokens.data + at * steps)) {
      return RowStatus::invalid_history;
    }
    result.lengths.data[at] = all[i].length;
    result.scores.data[at] = all[i].score;
    if (result.cumulative.given()) result.cumulative.data[at] = all[i].cumulative;
  }
  return RowStatus::ok;
}

void write_none(const BeamResultRequest& request, const BeamSequences& result, std::int64_t r) {
  const std::int64_t begin = r * request.best;
  const std::int32_t steps = request.history.max_steps;
  std::fill_n(result.tokens.data + begin * steps, static_cast<std::int64_t>(request.best) * steps,
              -1);
  std::fill_n(result.lengths.data + begin, request.best, 0);
  std::fill_n(result.scores.data + begin, request.best, -kInfinity);
  if (result.cumulative.given()) {
    std::fill_n(result.cumulative.data + begin, request.best, -kInfinity);
  }
}

Error check(const BeamResultRequest& request, const BeamSequences& result) {
  const std::int64_t n = request.requests;
  const char* one = "one a request";
  const char* each = "requests * best";
  if (Error e = check_beam_shape(n, request.max_width)) return e;
  if (request.best < 1 || request.best > request.max_width) {
    return out_of_range("best", std::to_string(request.best),
                        "1 to max_width (" + std::to_string(request.max_width) + ")");
  }
  if (Error e = check_beam_pool(request.pool, n, request.max_width)) return e;
  if (Error e = check_beam_history(request.history, n, request.max_width)) return e;
  if (Error e = check_length("live_beams", request.live_beams.size, n, one)) return e;
  if (Error e = check_length("scores", request.scores.size, n * request.max_width,
                             "requests * max_width")) {
    return e;
  }
  if (Error e = check_length("generated", request.generated.size, n, one)) return e;
  if (Error e = check_length("states", request.states.size, n, one)) return e;
  if (Error e = check_per_request(request.length_penalty, "length_penalty", n, one)) return e;
  const std::int64_t places = n * request.best;
  if (Error e = check_length("tokens", result.tokens.size, places * request.history.max_steps,
                             "requests * best * max_steps")) {
    return e;
  }
  if (Error e = check_length("lengths", result.lengths.size, places, each)) return e;
  if (Error e = check_length("result.scores", result.scores.size, places, each)) return e;
  if (Error e = check_optional(result.cumulative, "cumulative", places, each)) return e;
  return check_optional(result.statuses, "statuses", n, one);
}

}  // namespace

Error beam_search_result(const BeamResultRequest& request, const BeamSequences& result) {
  if (Error error = check(request, result)) return error;
  const cpu::FloatEnvironment environment;
  std::vector<Hypothesis> all;
  for (std::int64_t r = 0; r < request.requests; ++r) {
    write_none(request, result, r);
    RowStatus status = gather(request, r, all);
    if (status == RowStatus::ok) status = write_sequences(request, result, r, all);
    if (status != RowStatus::ok) write_none(request, result, r);
    if (result.statuses.given()) result.statuses.data[r] = status;
  }
  return {};
}

}  // namespace fairdraw
