// The end of beam searches, with separate arrays so that tests can invalidate one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "fairdraw/beam_search.h"

namespace fairdraw::suites {

/// A function that reads the sequences: beam_search_result of a backend.
using BeamReader = std::function<Error(const BeamResultRequest&, const BeamSequences&)>;

/// The results of a call. Unwritten values stay -7.
struct BeamFound {
  std::vector<std::int32_t> tokens, lengths;
  std::vector<float> scores, cumulative;
  std::vector<RowStatus> statuses;

  /// Compares bits, so that NaN equals itself.
  bool operator==(const BeamFound& other) const;
  BeamSequences views();
};

class BeamResultCall {
 public:
  /// Copies the arrays.
  explicit BeamResultCall(const BeamResultRequest& given);
  BeamResultCall(const BeamResultCall&) = delete;  // views point into it
  BeamResultCall& operator=(const BeamResultCall&) = delete;

  /// Makes one call; `error` is its result.
  BeamFound run(const BeamReader& reader);
  BeamFound run_on_cpu() { return run(&beam_search_result); }
  /// Returns the results' initial contents.
  BeamFound nothing() const;

  std::vector<std::int32_t> pool_counts, pool_lengths, pool_beams, pool_tokens;
  std::vector<float> pool_scores, pool_cumulative;
  std::vector<std::int32_t> history_tokens, history_parents;
  std::vector<std::int32_t> live_beams, generated;
  std::vector<float> scores, length_penalty;
  std::vector<BeamState> states;
  BeamResultRequest request;
  Error error;
};

/// Returns valid arrays of random content, with one request in 16 out of range: scores of few
/// values, so that they tie, in no order; parents of any beam.
std::unique_ptr<BeamResultCall> random_beam_result(std::mt19937_64& random, std::int64_t requests,
                                                   std::int32_t width, std::int32_t steps);

/// Returns three requests of three places, four steps and three sequences each: one sequence from
/// the pool and two live beams. Faults of the second request must not affect the others.
std::unique_ptr<BeamResultCall> three_beam_results();

/// A fault of the second request, and its status.
using BeamResultBreak = std::pair<RowStatus, std::function<void(BeamResultCall&)>>;
std::vector<BeamResultBreak> all_beam_result_breaks();

}  // namespace fairdraw::suites
