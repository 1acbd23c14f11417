// Normalised scores of finished beams, and pools of the best finished beams.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/host_device.h"
#include "fairdraw/beam_search.h"

namespace fairdraw {

/// Returns the divisor of a cumulative score, which is (float)pow(length, length_penalty). If the
/// power is outside of float32's range, the result is not a positive finite number.
FAIRDRAW_HOST_DEVICE inline float beam_length_norm(std::int32_t length, float length_penalty) {
  if (length_penalty == 0.0F || length == 1) return 1.0F;
  // In both backends, the power has an error of one or two units in the last place of a float64,
  // and is then rounded to float32.
  return static_cast<float>(pow(static_cast<double>(length), static_cast<double>(length_penalty)));
}

FAIRDRAW_HOST_DEVICE inline bool is_length_penalty(float penalty) {
  return penalty >= -std::numeric_limits<float>::max() &&
         penalty <= std::numeric_limits<float>::max();
}

FAIRDRAW_HOST_DEVICE inline bool is_length_norm(float norm) {
  return norm > 0.0F && norm <= std::numeric_limits<float>::max();
}

/// One finished sequence.
struct FinishedBeam {
  float score = 0, cumulative = 0;
  std::int32_t length = 0, beam = 0, token = 0;
};

/// Inserts a finished sequence into the pool of a request, which has at most `width` sequences, the
/// best first. `begin` is the first position of the request in the arrays of `pool`, and `count` is
/// the number of sequences in its pool.
FAIRDRAW_HOST_DEVICE inline void add_to_pool(const BeamPool& pool, std::int64_t begin,
                                             std::int32_t width, std::int32_t& count,
                                             const FinishedBeam& finished) {
  const float* scores = pool.scores.data + begin;
  if (count == width && !(finished.score > scores[count - 1])) return;
  std::int64_t place = count < width ? count : width - 1;  // if the pool is full, its last sequence
                                                           // is removed
  if (count < width) ++count;
  for (; place > 0 && finished.score > scores[place - 1]; --place) {
    const std::int64_t to = begin + place;
    pool.scores.data[to] = pool.scores.data[to - 1];
    pool.cumulative.data[to] = pool.cumulative.data[to - 1];
    pool.lengths.data[to] = pool.lengths.data[to - 1];
    pool.beams.data[to] = pool.beams.data[to - 1];
    pool.tokens.data[to] = pool.tokens.data[to - 1];
  }
  pool.scores.data[begin + place] = finished.score;
  pool.cumulative.data[begin + place] = finished.cumulative;
  pool.lengths.data[begin + place] = finished.length;
  pool.beams.data[begin + place] = finished.beam;
  pool.tokens.data[begin + place] = finished.token;
}

/// Checks the arrays of a pool, or the arrays of a history, which may be absent.
Error check_beam_pool(const BeamPool& pool, std::int64_t requests, std::int32_t max_width);
Error check_beam_history(const BeamHistory& history, std::int64_t requests, std::int32_t max_width);

/// Checks the arguments of a step, or the arguments of the result of a search.
Error check_beam_step(const BeamStepRequest& step, const BeamStepResult& result);
Error check_beam_result(const BeamResultRequest& request, const BeamSequences& result);

/// Checks the size of a batch of beams.
Error check_beam_shape(std::int64_t requests, std::int32_t max_width);

}  // namespace fairdraw
