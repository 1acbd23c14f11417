// What every check is given, and what the oracles say of it. record.h has what it returns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/contract/sampler.h"
#include "harness/run/calls/lack.h"
#include "harness/run/calls/logits_source.h"
#include "harness/run/calls/request.h"
#include "harness/run/evidence/record.h"
#include "reference/real_oracle.h"
#include "reference/semantics.h"

namespace fairdraw::harness {

class CountSource;  // calls/draws.h

/// A sampler, the rows that it gets, and the error budget of the case.
struct CheckInput {
  Sampler* sampler = nullptr;
  reference::Semantics semantics;  ///< the profile that the sampler is judged by
  const LogitsSource* logits = nullptr;
  std::vector<reference::RowParameters> parameters;  ///< row i takes parameters[i % size]
  /// Parameters that fail under the profile, whatever the row. Kept apart where the sampler reports
  /// no statuses: it may refuse the whole call for one of them (expect_refusals).
  std::vector<reference::RowParameters> refused;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  RowInput row_input = RowInput::logits;  ///< probabilities: of the logits at the row's
                                          ///< temperature (row_probabilities.h)
  /// Row i takes processing[i % size]; empty: none. Only of logits.
  std::vector<reference::RowProcessing> processing;
  bool banned_tokens = false;  ///< half of the ids are banned by the bitmask, chosen per row; in
                               ///< rows of probabilities they have 0
  std::int64_t first_row = 0;  ///< of `logits`; parameters count from here
  std::int64_t rows = 1;
  std::uint64_t draws = 0;
  double declared_discrepancy = 0;  ///< what the case must find
  std::uint64_t seed = 0;
  double false_fail_rate = 0;  ///< what the whole case may spend
  /// Where draws of one row come from: null: all of them from the sampler.
  CountSource* counts = nullptr;

  bool exact() const;  ///< tokens and masks are compared with the integer model
};

/// Miss probability at the declared discrepancy, in all checks.
inline constexpr double kFalsePassRate = 1e-6;

/// For a reason that no declaration would change.
CheckOutcome skipped(std::string reason);
CheckOutcome skipped(const Lack& lack);
CheckOutcome underpowered(std::string reason);

/// True where the sampler does not declare what the request needs, so that a part of a case cannot
/// make it; the outcome then says what that is.
bool is_left_out(const CheckInput& input, const Request& request, CheckOutcome& outcome);

/// Rows [first, first + count) of the input, counted from first_row, with their parameters, one
/// output a row, an array of seeds that are all different, and offsets of 0.
Request make_request(const CheckInput& input, std::int64_t first, std::int64_t count);

/// Processing of row `row` of a case: all steps in half of the rows, and one of them left out in
/// each of the others, so that no step hides another.
reference::RowProcessing processing_for_row(std::uint64_t seed, std::int64_t row,
                                            std::int64_t vocab);

/// Processing for cases that judge a distribution, the same for every seed, because what draws find
/// depends on it: every step but allowed ids, and what is banned, biased and penalised changes with
/// the next two tokens.
reference::RowProcessing processing_for_distribution(std::int64_t vocab);

/// Profile of the input with the request's tie rule and filter order written into it.
reference::Semantics effective_semantics(const CheckInput& input);

/// What the oracles say of one row of a request.
reference::IntegerRow model_of(const Request& request, std::int64_t row);
reference::RealDistribution distribution_of(const CheckInput& input, const Request& request,
                                            std::int64_t row);

/// The bound on the sampler's weights, its profile's rounding included: that of the specification
/// for exact integers, else what float32 or integer weights may be off by, whichever is more.
reference::WeightBound weight_bound(const CheckInput& input);

/// The profile as the real-number oracle judges a sampler of logits by it, and with which bound on
/// weights: the specification's for exact integers, else with what float32 arithmetic may do.
struct JudgedBy {
  reference::Semantics semantics;
  reference::WeightBound bound;
};
JudgedBy judged_by(const reference::Semantics& profile, bool exact_integer, std::int64_t vocab);

/// The row after its processing, the bitmask included. Only where the request has processing.
reference::ProcessedRow processed_row(const Request& request, std::int64_t row);

/// The same under another profile, taken as it is: without the request's tie rule and filter order.
reference::RealDistribution distribution_under(const reference::Semantics& semantics,
                                               const CheckInput& input, const Request& request,
                                               std::int64_t row);

/// True where the profile gives no row with these parameters a token.
bool must_fail(const reference::RowParameters& parameters, const reference::Semantics& semantics,
               RowInput row_input, std::int64_t vocab);

/// True where the sampler reports no statuses, so that it can only refuse a whole call, or has a
/// caller that does, and a row of the request must fail under the profile, or may do anything.
bool may_refuse(const CheckInput& input, const Request& request);

/// Asks for the first row with each of input.refused, alone: the call is refused or gives no token,
/// or the outcome fails.
void expect_refusals(const CheckInput& input, CheckOutcome& outcome);

/// Token that the integer model gives for sample `sample` of `output`, with the status that
/// belongs to it. -1 where the status is not ok.
struct ExpectedToken {
  std::int32_t token = -1;
  RowStatus status = RowStatus::ok;
};
ExpectedToken expected_token(const Request& request, const reference::IntegerRow& model,
                             std::int64_t output, std::int32_t sample);

/// "temperature 0.7, top_k 50, top_p 0.9, min_p 0": for messages.
std::string describe(const reference::RowParameters& parameters);

}  // namespace fairdraw::harness
