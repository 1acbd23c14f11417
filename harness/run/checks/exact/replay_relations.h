// Makes calls whose tokens are known, because each row was also drawn in a batch of its own. The
// file replay.cpp and its parts use this code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Adds row `row` of `base` to `request`: its logits, parameters, processing and bans, but not its
/// seed and offset, which belong to outputs.
void append_row(const Request& base, std::int64_t row, Request& request);

/// Returns a batch of rows of `base`: output i is the base row `picks[i]` with its own parameters,
/// processing, seed and offset.
Request pick_rows(const Request& base, const std::vector<std::int64_t>& picks);

/// Returns 0, 1, ..., count - 1.
std::vector<std::int64_t> all_rows(std::int64_t count);

class Replay {
 public:
  Replay(const CheckInput& input, const Request& base, CheckOutcome& outcome)
      : input_(input), base_(base), outcome_(outcome) {}

  const CheckInput& input() const { return input_; }
  const Request& base() const { return base_; }
  CheckOutcome& outcome() { return outcome_; }
  const SamplerDescription& sampler() const { return input_.sampler->description(); }

  /// Draws each row alone, for comparison with all other calls.
  void draw_alone();

  /// Returns whether the sampler supports the request, and no comparison has failed yet.
  bool may_ask(const Request& request) const;

  /// Runs the request. The outcome fails if the call does not run, unless the call was refused and
  /// may be (may_refuse).
  Response run(const std::string& name, const Request& request, const WantedResults& wanted = {});

  /// Compares the tokens of a request with those of the base rows. The entry `pick_of_output[i]` is
  /// the base row of output i, or -1 if this output is not compared. Precondition: the request has
  /// at most as many samples per output as the base.
  Response expect_same(const std::string& name, const Request& request,
                       const std::vector<std::int64_t>& pick_of_output,
                       const WantedResults& wanted = {});

 private:
  const CheckInput& input_;
  const Request& base_;
  CheckOutcome& outcome_;
  std::vector<std::vector<std::int32_t>> alone_;  // [row, samples]
};

/// Judges that earlier calls, their threads and their seeds change no token.
void compare_histories(Replay& replay);

/// Judges that other requested results, their layout in memory, and more rows or outputs than 16
/// bits can count change no token.
void compare_results(Replay& replay);
void compare_sizes(Replay& replay);

}  // namespace fairdraw::harness
