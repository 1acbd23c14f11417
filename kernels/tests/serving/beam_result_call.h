// The end of beam searches, asked for with every array of its own: tests may break one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "fairdraw/beam_search.h"

namespace fairdraw::suites {

/// What reads the sequences: beam_search_result of a backend.
using BeamReader = std::function<Error(const BeamResultRequest&, const BeamSequences&)>;

/// What a call wrote. Of what is not written, -7 stays.
struct BeamFound {
  std::vector<std::int32_t> tokens, lengths;
  std::vector<float> scores, cumulative;
  std::vector<RowStatus> statuses;

  /// Of the same bits: NaN equals itself.
  bool operator==(const BeamFound& other) const;
  BeamSequences views();
};

class BeamResultCall {
 public:
  /// Copies the arrays.
  explicit BeamResultCall(const BeamResultRequest& given);
  BeamResultCall(const BeamResultCall&) = delete;  // views point into it
  BeamResultCall& operator=(const BeamResultCall&) = delete;

  /// One call; `error` says how it went.
  BeamFound run(const BeamReader& reader);
  BeamFound run_on_cpu() { return run(&beam_search_result); }
  /// What a call starts from.
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

/// Arrays of any content in their ranges, one request in 16 beyond: scores of few values, so that
/// they tie, in no order; parents of any beam.
std::unique_ptr<BeamResultCall> random_beam_result(std::mt19937_64& random, std::int64_t requests,
                                                   std::int32_t width, std::int32_t steps);

/// Three requests of three places, four steps and three sequences each: one of the pool and two
/// live beams. What happens to the second must not be noticed by the others.
std::unique_ptr<BeamResultCall> three_beam_results();

/// What can be wrong with the second of them, and its status then.
using BeamResultBreak = std::pair<RowStatus, std::function<void(BeamResultCall&)>>;
std::vector<BeamResultBreak> all_beam_result_breaks();

}  // namespace fairdraw::suites
