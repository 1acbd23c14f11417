// A batch of beam searches over language models that are functions. The batch runs step by step,
// and has the state that an engine keeps between calls.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fairdraw/beam_search.h"
#include "tests/serving/beam_problems.h"
#include "tests/serving/token_list_rows.h"

namespace fairdraw::suites {

/// A function that runs a step, which is beam_search_step of a backend.
using BeamStepper = std::function<Error(const BeamStepRequest&, const BeamStepResult&)>;

/// A batch of problems. Precondition: all problems have rows of `vocab` values.
class BeamBatch {
 public:
  BeamBatch(std::vector<BeamProblem> problems, std::int64_t vocab, BeamInput input);
  BeamBatch(const BeamBatch&) = delete;  // views point into the object
  BeamBatch& operator=(const BeamBatch&) = delete;

  /// Makes one call. Rows of a request are adjacent, and requests are in reverse order; a row of
  /// NaN lies between any two requests.
  Error step(const Execution& execution = {CpuTarget::best, 1});
  Error step_by(const BeamStepper& stepper);
  bool all_done() const;

  // The functions below return results of request r after the last step.
  std::vector<BeamHypothesis> live(std::size_t r) const;
  std::vector<std::int32_t> parents(std::size_t r) const;
  std::vector<BeamHypothesis> pool(std::size_t r) const;
  std::vector<BeamHypothesis> best(std::size_t r, std::int32_t n) const;
  /// Returns the request for the `n` best sequences of all searches.
  BeamResultRequest result_request(std::int32_t n) const;
  BeamState state(std::size_t r) const { return states_[now_][r]; }
  RowStatus status(std::size_t r) const { return statuses_[r]; }

  /// The request of the next step, which tests may make invalid.
  BeamStepRequest request;
  BeamStepResult result;

  std::int32_t max_width = 1, max_steps = 1;

 private:
  void set_views();
  void fill_rows();
  std::size_t place(std::size_t r, std::int32_t beam) const {
    return r * static_cast<std::size_t>(max_width) + static_cast<std::size_t>(beam);
  }

  std::vector<BeamProblem> problems_;
  std::int64_t vocab_;
  BeamInput input_;
  TokenListRows end_ids_;
  std::vector<std::int32_t> width_, early_stopping_, max_tokens_;
  std::vector<float> length_penalty_;

  std::vector<float> values_;
  std::vector<std::int64_t> row_begins_;
  std::vector<std::vector<TokenSequence>> sequences_;  // token sequences of the live beams
  int now_ = 0;  // index of the arrays that the next step reads
  std::vector<std::int32_t> live_[2], generated_[2];
  std::vector<float> scores_[2];
  std::vector<BeamState> states_[2];
  std::vector<std::int32_t> parents_, tokens_, history_tokens_, history_parents_;
  std::vector<RowStatus> statuses_;
  std::vector<std::int32_t> pool_counts_, pool_lengths_, pool_beams_, pool_tokens_;
  std::vector<float> pool_scores_, pool_cumulative_;
};

}  // namespace fairdraw::suites
