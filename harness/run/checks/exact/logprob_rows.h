// What a call may report of its rows as log-probabilities, and where a response contradicts that.
// For logprobs.cpp, and for what explains its failures.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"
#include "reference/log_probabilities.h"

namespace fairdraw::harness {

/// One call: how it asks.
struct AskedLogprobs {
  WantedReport report;
  bool many = false;     ///< three samples of two outputs a row, in another order than the rows
  bool failing = false;  ///< the first row is bad
};

/// What one row may be reported as; nothing where `judged` is false.
struct ExpectedLogprobs {
  bool judged = false;
  bool fails = false;
  reference::RealLogprobs real = {};
  std::vector<double> slack = {};     ///< [vocab] how far a value may be from real.value
  std::vector<bool> may_vanish = {};  ///< [vocab] a probability that float32 may flush to zero
};

/// What values are made of, row by row.
struct LogprobsRow {
  bool judged = false, fails = false;
  std::vector<float> raw;          ///< as the caller gave it
  std::vector<float> processed;    ///< behind penalties, bias and bans, where there are any
  std::vector<std::uint8_t> kept;  ///< [vocab] survivors of the filters; both of processed modes
  float temperature = 1;
};

/// Of a request in one mode. Where a profile leaves the processed values of a row open, or the
/// filters' answer is ambiguous, it is not judged in processed modes.
LogprobsRow logprobs_row(const CheckInput& input, const Request& request, std::int64_t row,
                         LogprobsMode mode);

/// The values that `mode` asks for, of `row`.
reference::RealLogprobs logprobs_of(const LogprobsRow& row, LogprobsMode mode,
                                    const reference::WeightBound& bound);

/// `real` with what this sampler may be off by.
ExpectedLogprobs with_slack(const CheckInput& input, const LogprobsRow& row, LogprobsMode mode,
                            const reference::WeightBound& bound, reference::RealLogprobs real);

/// How a response contradicts what is expected of its rows, and what was compared until then.
struct LogprobsComparison {
  std::string wrong;  ///< empty: nothing does
  std::uint64_t rows = 0, outputs = 0, values = 0;
};

/// `first`: of the case's rows, for messages.
LogprobsComparison compare_logprobs(const CheckInput& input, const Request& request,
                                    const AskedLogprobs& asked, const Response& response,
                                    const std::vector<ExpectedLogprobs>& rows, std::int64_t first);

}  // namespace fairdraw::harness
