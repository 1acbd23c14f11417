// Calls that must give tokens which are known already: each row's in a batch of its own. For
// replay.cpp and its parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Adds row `row` of `base` to `request`: its logits, parameters and bans. Not seed and offset,
/// which belong to outputs.
void append_row(const Request& base, std::int64_t row, Request& request);

/// A batch made of rows of `base`: output i is base row `picks[i]` with its own parameters, seed
/// and offset.
Request pick_rows(const Request& base, const std::vector<std::int64_t>& picks);

/// 0, 1, ..., count - 1.
std::vector<std::int64_t> all_rows(std::int64_t count);

class Replay {
 public:
  Replay(const CheckInput& input, const Request& base, CheckOutcome& outcome)
      : input_(input), base_(base), outcome_(outcome) {}

  const CheckInput& input() const { return input_; }
  const Request& base() const { return base_; }
  CheckOutcome& outcome() { return outcome_; }
  const SamplerDescription& sampler() const { return input_.sampler->description(); }

  /// Draws each row alone: what the rest is compared with.
  void draw_alone();

  /// True where the sampler has what the request needs, and nothing has failed yet.
  bool may_ask(const Request& request) const;

  /// Runs the request. A call that does not run fails the outcome, unless it was refused and may be
  /// (may_refuse).
  Response run(const std::string& name, const Request& request, const WantedResults& wanted = {});

  /// `pick_of_output[i]`: base row of output i, or -1 where the output is not compared. At most as
  /// many samples an output as the base has.
  Response expect_same(const std::string& name, const Request& request,
                       const std::vector<std::int64_t>& pick_of_output,
                       const WantedResults& wanted = {});

 private:
  const CheckInput& input_;
  const Request& base_;
  CheckOutcome& outcome_;
  std::vector<std::vector<std::int32_t>> alone_;  // [row, samples]
};

/// What was called before, from which thread, and with which seeds, changes nothing.
void compare_histories(Replay& replay);

/// Nor does what else is asked for, how results lie, and more rows or outputs than 16 bits count.
void compare_results(Replay& replay);
void compare_sizes(Replay& replay);

}  // namespace fairdraw::harness
