// Rules for the best sequences of one request at the end of a beam search: which sequences are
// eligible, and how a sequence is read back. The rules are the same for every backend, and defined
// in fairdraw/beam_search.h.
//
// A sequence is a chain of parents, which leads from its last token and the live beam before that
// token back to the first step. Chains share their beginnings, so nothing is copied while beams
// live; reading a chain back costs time in proportion to its length.
#pragma once

#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "fairdraw/beam_search.h"
#include "serving/rules/beam_scores.h"

namespace fairdraw {

/// Eligible sequences of one request whose arguments have been checked. The first `pooled`
/// sequences are the pool of the request, and the next `live` sequences are its live beams.
struct BeamResultTerms {
  RowStatus status = RowStatus::ok;
  std::int32_t pooled = 0, live = 0;
  std::int32_t length = 0;  ///< length of the live beams
  float norm = 1;           ///< length norm of the live beams

  FAIRDRAW_HOST_DEVICE std::int32_t count() const { return pooled + live; }
};

FAIRDRAW_HOST_DEVICE inline BeamResultTerms read_result_terms(const BeamResultRequest& request,
                                                              std::int64_t r) {
  const float penalty = request.length_penalty.at(r);
  const std::int32_t live = request.live_beams.data[r];
  BeamResultTerms terms;
  terms.pooled = request.pool.counts.data[r];
  terms.length = request.generated.data[r];
  if (live < 0 || live > request.max_width) {
    terms.status = RowStatus::index_out_of_range;
  } else if (terms.pooled < 0 || terms.pooled > request.max_width || terms.length < 0 ||
             terms.length > request.history.max_steps) {
    terms.status = RowStatus::invalid_history;
  } else if (!is_length_penalty(penalty)) {
    terms.status = RowStatus::invalid_penalty;
  } else if (request.states.data[r] != BeamState::pool_done && terms.length > 0) {
    terms.live = live;
    terms.norm = beam_length_norm(terms.length, penalty);
    if (!is_length_norm(terms.norm)) terms.status = RowStatus::invalid_penalty;
  }
  return terms;
}

/// Returns sequence i of request r, with 0 <= i < terms.count(). For a live beam, the token of the
/// result is -1, because the beam itself has its last token.
FAIRDRAW_HOST_DEVICE inline FinishedBeam sequence_of(const BeamResultRequest& request,
                                                     std::int64_t r, const BeamResultTerms& terms,
                                                     std::int32_t i) {
  const std::int64_t begin = r * request.max_width;
  if (i >= terms.pooled) {
    const std::int32_t beam = i - terms.pooled;
    const float cumulative = request.scores.data[begin + beam];
    return {cumulative / terms.norm, cumulative, terms.length, beam, -1};
  }
  const std::int64_t at = begin + i;
  return {request.pool.scores.data[at], request.pool.cumulative.data[at],
          request.pool.lengths.data[at], request.pool.beams.data[at], request.pool.tokens.data[at]};
}

/// Writes the tokens of a sequence, or returns false if the chain of its parents leaves the
/// history.
FAIRDRAW_HOST_DEVICE inline bool read_back(const BeamResultRequest& request, std::int64_t r,
                                           const FinishedBeam& sequence, std::int32_t* tokens) {
  const BeamHistory& history = request.history;
  if (sequence.length < 1 || sequence.length > history.max_steps) return false;
  std::int32_t beam = sequence.beam;
  std::int32_t step = sequence.length - 1;
  if (sequence.token >= 0) tokens[step--] = sequence.token;
  for (; step >= 0; --step) {
    if (beam < 0 || beam >= request.max_width) return false;
    const std::int64_t at = (r * history.max_steps + step) * request.max_width + beam;
    tokens[step] = history.tokens.data[at];
    beam = history.parents.data[at];
  }
  return true;
}

/// Writes a sequence to position r * best + i of the result, and leaves the places after its last
/// token unchanged. Returns false if the chain of its parents leaves the history.
FAIRDRAW_HOST_DEVICE inline bool write_sequence(const BeamResultRequest& request,
                                                const BeamSequences& result, std::int64_t r,
                                                std::int32_t i, const FinishedBeam& sequence) {
  const std::int64_t at = r * request.best + i;
  std::int32_t* tokens = result.tokens.data + at * request.history.max_steps;
  if (!read_back(request, r, sequence, tokens)) return false;
  result.lengths.data[at] = sequence.length;
  result.scores.data[at] = sequence.score;
  if (result.cumulative.given()) result.cumulative.data[at] = sequence.cumulative;
  return true;
}

/// Writes to position r * best + i of the result that there is no sequence; the tokens there are
/// not written.
FAIRDRAW_HOST_DEVICE inline void write_no_sequence(const BeamResultRequest& request,
                                                   const BeamSequences& result, std::int64_t r,
                                                   std::int32_t i) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::int64_t at = r * request.best + i;
  result.lengths.data[at] = 0;
  result.scores.data[at] = -kInfinity;
  if (result.cumulative.given()) result.cumulative.data[at] = -kInfinity;
}

}  // namespace fairdraw
