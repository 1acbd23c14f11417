// Rules for a step of beam search in one request: its parameters, and the walk over its ranked
// candidates. The rules are the same for every backend, and defined in fairdraw/beam_search.h.
#pragma once

#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "common/processing_rules.h"
#include "fairdraw/beam_search.h"
#include "serving/rules/beam_scores.h"

namespace fairdraw {

struct BeamCandidate {
  float score = 0;
  std::int32_t beam = 0;
  std::int32_t token = 0;
};

/// Orders candidates totally: the larger score comes first, then the lower beam, then the lower
/// token id.
FAIRDRAW_HOST_DEVICE inline bool comes_before(const BeamCandidate& a, const BeamCandidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

/// Parameters of one request of a call, which have been checked.
struct BeamTerms {
  RowStatus status = RowStatus::ok;
  std::int32_t width = 0, live = 0, length = 0, max_tokens = 0, early_stopping = 0;
  float norm = 1;             ///< length norm of sequences that include this step
  float attainable_norm = 1;  ///< length norm of the length that early stopping assumes
  RowList end_ids;
  std::int64_t max_candidates = 0;  ///< maximum number of candidates that are considered
};

FAIRDRAW_HOST_DEVICE inline RowStatus read_beam_parameters(const BeamStepRequest& step,
                                                           const BeamStepResult& result,
                                                           std::int64_t r, BeamTerms& request) {
  const BeamParameters& given = step.parameters;
  request.width = given.width.at(r);
  request.max_tokens = given.max_tokens.at(r);
  request.early_stopping = given.early_stopping.at(r);
  const float penalty = given.length_penalty.at(r);
  if (request.width < 1 || request.width > step.max_width) return RowStatus::invalid_beam;
  request.end_ids = list_of(given.end_ids, r);
  if (request.max_tokens < 1 || request.early_stopping < 0 || request.early_stopping > 2 ||
      !request.end_ids.in_buffer || !all_are_tokens(request.end_ids, step.rows.vocab)) {
    return RowStatus::invalid_beam;
  }
  if (!is_length_penalty(penalty)) return RowStatus::invalid_penalty;
  const std::int32_t generated = step.generated.data[r];
  const bool history_full = result.history.tokens.given() && generated >= result.history.max_steps;
  const std::int32_t pooled = result.pool.counts.data[r];
  if (generated < 0 || generated >= request.max_tokens || history_full || pooled < 0 ||
      pooled > request.width) {
    return RowStatus::invalid_history;
  }
  request.length = generated + 1;
  const bool looks_ahead = request.early_stopping == 2 && penalty > 0.0F;
  request.norm = beam_length_norm(request.length, penalty);
  request.attainable_norm =
      beam_length_norm(looks_ahead ? request.max_tokens : request.length, penalty);
  if (!is_length_norm(request.norm) || !is_length_norm(request.attainable_norm)) {
    return RowStatus::invalid_penalty;
  }
  return RowStatus::ok;
}

/// Returns the checked parameters of request r, or the status of its first fault. The function
/// reads no row of the request.
FAIRDRAW_HOST_DEVICE inline BeamTerms read_beam_terms(const BeamStepRequest& step,
                                                      const BeamStepResult& result,
                                                      std::int64_t r) {
  BeamTerms request;
  request.live = step.live_beams.data[r];
  const bool done = step.states.data[r] != BeamState::live;
  const std::int64_t first = step.row_begins.data[r];
  if (request.live < 0 || request.live > step.max_width) {
    request.status = RowStatus::index_out_of_range;
  } else if (done) {
    request.status = RowStatus::inactive;
  } else if (first < 0 || first > step.rows.rows || request.live > step.rows.rows - first) {
    request.status = RowStatus::index_out_of_range;
  } else {
    request.status = read_beam_parameters(step, result, r, request);
  }
  if (request.status != RowStatus::ok) return request;
  const std::int64_t ends = request.end_ids.length > 1 ? request.end_ids.length : 1;
  request.max_candidates = (1 + ends) * request.width;
  return request;
}

/// Clears the places [from, max_width) of a request, so that they have no beam.
FAIRDRAW_HOST_DEVICE inline void clear_beams(const BeamStepResult& result, std::int64_t begin,
                                             std::int32_t from, std::int32_t max_width) {
  for (std::int64_t at = begin + from; at < begin + max_width; ++at) {
    result.parents.data[at] = -1;
    result.tokens.data[at] = -1;
    result.scores.data[at] = -std::numeric_limits<float>::infinity();
  }
}

/// Writes the results of a request that makes no step: its first `live` beams stay in their places,
/// and all other places are cleared.
FAIRDRAW_HOST_DEVICE inline void write_unstepped(const BeamStepRequest& step,
                                                 const BeamStepResult& result, std::int64_t r,
                                                 std::int32_t live) {
  const std::int64_t begin = r * step.max_width;
  for (std::int32_t b = 0; b < live; ++b) {
    result.parents.data[begin + b] = b;
    result.tokens.data[begin + b] = -1;
    result.scores.data[begin + b] = step.scores.data[begin + b];
  }
  clear_beams(result, begin, live, step.max_width);
  result.live_beams.data[r] = live;
  result.states.data[r] = step.states.data[r];
  if (result.generated.given()) result.generated.data[r] = step.generated.data[r];
}

FAIRDRAW_HOST_DEVICE inline BeamState next_beam_state(const BeamTerms& request, float best,
                                                      float worst, std::int32_t pooled,
                                                      std::int32_t live) {
  if (pooled == request.width) {
    if (request.early_stopping == 1) return BeamState::pool_done;
    if (worst >= best / request.attainable_norm) return BeamState::pool_done;
  }
  const bool ends = request.length >= request.max_tokens || live == 0;
  return ends ? BeamState::length_done : BeamState::live;
}

/// Walks over the `count` ranked candidates, of which there must be at least one. Finished
/// candidates go into the pool, and the others become the next beams.
FAIRDRAW_HOST_DEVICE inline void write_beam_step(const BeamStepRequest& step,
                                                 const BeamStepResult& result, std::int64_t r,
                                                 const BeamTerms& request,
                                                 const BeamCandidate* ranked, std::int64_t count) {
  const std::int64_t begin = r * step.max_width;
  std::int32_t pooled = result.pool.counts.data[r];
  std::int32_t live = 0;
  for (std::int64_t i = 0; i < count && live < request.width; ++i) {
    const BeamCandidate candidate = ranked[i];
    bool ends = false;
    for (std::int32_t e = 0; e < request.end_ids.length; ++e) {
      ends = ends || request.end_ids.ids[e] == candidate.token;
    }
    if (ends) {
      if (i >= request.width) continue;
      add_to_pool(result.pool, begin, request.width, pooled,
                  {candidate.score / request.norm, candidate.score, request.length, candidate.beam,
                   candidate.token});
      continue;
    }
    result.parents.data[begin + live] = candidate.beam;
    result.tokens.data[begin + live] = candidate.token;
    result.scores.data[begin + live] = candidate.score;
    ++live;
  }
  clear_beams(result, begin, live, step.max_width);
  if (result.history.tokens.given()) {
    const std::int64_t at =
        (r * result.history.max_steps + step.generated.data[r]) * step.max_width;
    for (std::int32_t b = 0; b < step.max_width; ++b) {
      result.history.parents.data[at + b] = result.parents.data[begin + b];
      result.history.tokens.data[at + b] = result.tokens.data[begin + b];
    }
  }
  result.pool.counts.data[r] = pooled;
  result.live_beams.data[r] = live;
  const float worst = pooled > 0 ? result.pool.scores.data[begin + pooled - 1]
                                 : -std::numeric_limits<float>::infinity();
  result.states.data[r] = next_beam_state(request, ranked[0].score, worst, pooled, live);
  if (result.generated.given()) result.generated.data[r] = request.length;
}

}  // namespace fairdraw
