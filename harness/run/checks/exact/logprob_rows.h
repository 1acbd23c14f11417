// Computes the log-probabilities that a call may report for its rows, and compares a response with
// them. The files logprobs.cpp and logprob_suspects.cpp use this code.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "reference/log_probabilities.h"

namespace fairdraw::harness {

/// The log-probabilities that one call requests.
struct AskedLogprobs {
  WantedReport report;
  bool many = false;     ///< three samples of two outputs per row, in mixed order
  bool failing = false;  ///< true if the first row of the call is bad
};

/// The report expected for one row; empty if `judged` is false.
struct ExpectedLogprobs {
  bool judged = false;
  bool fails = false;
  reference::RealLogprobs real = {};
  std::vector<double> slack = {};     ///< [vocab] maximum distance of a value from real.value
  std::vector<bool> may_vanish = {};  ///< [vocab] true if float32 may flush the probability to zero
};

/// The inputs from which the values of one row are computed.
struct LogprobsRow {
  bool judged = false, fails = false;
  std::vector<float> raw;          ///< logits as the caller gave them
  std::vector<float> processed;    ///< logits after penalties, bias and bans, if there are any
  std::vector<std::uint8_t> kept;  ///< [vocab] survivors of the filters; only set, like
                                   ///< `processed`, in processed modes
  float temperature = 1;
};

/// Returns a row of a request in one report mode. In processed modes the row is not judged if the
/// profile leaves its processed values open, or if the result of the filters is ambiguous.
LogprobsRow logprobs_row(const CheckInput& input, const Request& request, std::int64_t row,
                         LogprobsMode mode);

/// Returns the values of `row` in `mode`.
reference::RealLogprobs logprobs_of(const LogprobsRow& row, LogprobsMode mode,
                                    const reference::WeightBound& bound);

/// Returns `real` together with the errors that this sampler may have.
ExpectedLogprobs with_slack(const CheckInput& input, const LogprobsRow& row, LogprobsMode mode,
                            const reference::WeightBound& bound, reference::RealLogprobs real);

/// The contradiction between a response and its expected rows, and the number of comparisons.
struct LogprobsComparison {
  std::string wrong;  ///< text of the contradiction; empty if there is none
  std::uint64_t rows = 0, outputs = 0, values = 0;
};

/// The argument `first` is the number of the first row in the case, for messages.
LogprobsComparison compare_logprobs(const CheckInput& input, const Request& request,
                                    const AskedLogprobs& asked, const Response& response,
                                    const std::vector<ExpectedLogprobs>& rows, std::int64_t first);

}  // namespace fairdraw::harness
