// The end of beam searches, with a buffer for each array, so that a test can make one array
// invalid.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "fairdraw/beam_search.h"

namespace fairdraw::suites {

/// A function that reads the sequences, which is beam_search_result of a backend.
using BeamReader = std::function<Error(const BeamResultRequest&, const BeamSequences&)>;

/// The results of a call that ends searches. Unwritten values stay -7.
struct BeamFound {
  std::vector<std::int32_t> tokens, lengths;
  std::vector<float> scores, cumulative;
  std::vector<RowStatus> statuses;

  /// Compares bits, so that a NaN equals itself.
  bool operator==(const BeamFound& other) const;
  BeamSequences views();
};

class BeamResultCall {
 public:
  /// Copies the arrays.
  explicit BeamResultCall(const BeamResultRequest& given);
  BeamResultCall(const BeamResultCall&) = delete;  // views point into the object
  BeamResultCall& operator=(const BeamResultCall&) = delete;

  /// Makes one call, and sets `error` to its result.
  BeamFound run(const BeamReader& reader);
  BeamFound run_on_cpu() { return run(&beam_search_result); }
  /// Returns the contents that the results have before a call.
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

/// Returns valid arrays of random content, in which one request in 16 is out of range. Scores take
/// few values, so that they tie, and are not sorted; parents are any beams.
std::unique_ptr<BeamResultCall> random_beam_result(std::mt19937_64& random, std::int64_t requests,
                                                   std::int32_t width, std::int32_t steps);

/// Returns three requests with three places, four steps and three sequences each. Each request has
/// one sequence in the pool and two live beams. Faults of the second request must not affect the
/// others.
std::unique_ptr<BeamResultCall> three_beam_results();

/// A change that makes the second request invalid, and the status that it must get.
using BeamResultBreak = std::pair<RowStatus, std::function<void(BeamResultCall&)>>;
std::vector<BeamResultBreak> all_beam_result_breaks();

}  // namespace fairdraw::suites
