// Log-probabilities that a call may report of its rows, and the comparison with a response. For
// logprobs.cpp and logprob_suspects.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "reference/log_probabilities.h"

namespace fairdraw::harness {

/// The form of one call.
struct AskedLogprobs {
  WantedReport report;
  bool many = false;     ///< three samples of two outputs per row, in another order than the rows
  bool failing = false;  ///< whether the first row is bad
};

/// The report expected for one row; empty if `judged` is false.
struct ExpectedLogprobs {
  bool judged = false;
  bool fails = false;
  reference::RealLogprobs real = {};
  std::vector<double> slack = {};     ///< [vocab] how far a value may be from real.value
  std::vector<bool> may_vanish = {};  ///< [vocab] whether float32 may flush the probability to zero
};

/// Inputs of the values of one row.
struct LogprobsRow {
  bool judged = false, fails = false;
  std::vector<float> raw;          ///< as the caller gave it
  std::vector<float> processed;    ///< after penalties, bias and bans, if there are any
  std::vector<std::uint8_t> kept;  ///< [vocab] survivors of the filters; this and `processed` only
                                   ///< in processed modes
  float temperature = 1;
};

/// Returns a row of a request in one mode. In processed modes it is not judged if the profile
/// leaves its processed values open, or the filters' answer is ambiguous.
LogprobsRow logprobs_row(const CheckInput& input, const Request& request, std::int64_t row,
                         LogprobsMode mode);

/// Returns the values of `row` in `mode`.
reference::RealLogprobs logprobs_of(const LogprobsRow& row, LogprobsMode mode,
                                    const reference::WeightBound& bound);

/// Returns `real` with the errors that this sampler may make.
ExpectedLogprobs with_slack(const CheckInput& input, const LogprobsRow& row, LogprobsMode mode,
                            const reference::WeightBound& bound, reference::RealLogprobs real);

/// How a response contradicts its expected rows, and what was compared before.
struct LogprobsComparison {
  std::string wrong;  ///< empty: it does not
  std::uint64_t rows = 0, outputs = 0, values = 0;
};

/// `first`: number of the first row in the case, for messages.
LogprobsComparison compare_logprobs(const CheckInput& input, const Request& request,
                                    const AskedLogprobs& asked, const Response& response,
                                    const std::vector<ExpectedLogprobs>& rows, std::int64_t first);

}  // namespace fairdraw::harness
