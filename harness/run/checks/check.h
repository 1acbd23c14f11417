// Declares the input of every check, and the oracles' answers about this input. The outcome of a
// check is in record.h.
#pragma once

#include <cstdint>
#include <optional>
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
  reference::Semantics semantics;  ///< profile by which the sampler is judged
  const LogitsSource* logits = nullptr;
  std::vector<reference::RowParameters> parameters;  ///< row i has parameters[i % size]
  /// Parameters that fail under the profile with any row. These parameters are separate if the
  /// sampler reports no statuses, because it may refuse the whole call for one such row
  /// (expect_refusals).
  std::vector<reference::RowParameters> refused;
  TieRule tie_rule = TieRule::keep_all;
  FilterOrder filter_order = FilterOrder::top_k_first;
  RowInput row_input = RowInput::logits;  ///< probabilities: made from the logits at the row's
                                          ///< temperature (row_probabilities.h)
  /// Row i has the processing processing[i % size]; if empty, there is none. Only with logits.
  std::vector<reference::RowProcessing> processing;
  bool banned_tokens = false;  ///< true if the bitmask bans half of the ids, chosen per row; in
                               ///< rows of probabilities banned ids have probability 0
  /// The scheme by which the draws of a row are marked, if any.
  std::optional<MarkScheme> marked;
  std::int64_t first_row = 0;  ///< first row of `logits`; indices of parameters count from this row
  std::int64_t rows = 1;
  /// Maximum number of requests in a call of checks that choose this number; 0: their own.
  std::int64_t requests_of_call = 0;
  std::uint64_t draws = 0;
  double declared_discrepancy = 0;  ///< total variation distance that the case must detect
  std::uint64_t seed = 0;
  double false_fail_rate = 0;  ///< error budget of the whole case
  /// The source of the draws of one row; null if the sampler makes the draws.
  CountSource* counts = nullptr;

  bool exact() const;  ///< true if tokens and masks are compared with the integer model
};

/// The probability that all checks together miss a fault of the declared discrepancy.
inline constexpr double kFalsePassRate = 1e-6;

/// Returns the outcome of a case that is skipped for a reason that no declaration of the sampler
/// would change.
CheckOutcome skipped(std::string reason);
CheckOutcome skipped(const Lack& lack);
CheckOutcome underpowered(std::string reason);

/// Returns whether a part of a case is left out, because the sampler does not declare an ability
/// that the request needs. In that case the outcome names the missing ability.
bool is_left_out(const CheckInput& input, const Request& request, CheckOutcome& outcome);

/// Returns a request of the rows [first, first + count) of the input, counted from first_row, with
/// their parameters, one output per row, an array of seeds that are all different, and offsets
/// of 0.
Request make_request(const CheckInput& input, std::int64_t first, std::int64_t count);

/// Returns the processing of row `row` of a case: half of the rows have all steps, and each other
/// row has all steps but one, so that no step hides another.
reference::RowProcessing processing_for_row(std::uint64_t seed, std::int64_t row,
                                            std::int64_t vocab);

/// Returns the processing for cases that judge a distribution. This processing is the same for
/// every seed, because the power of the draws depends on it. The processing has every step except
/// allowed ids, and after each of the next two tokens it bans, biases and penalises other tokens.
reference::RowProcessing processing_for_distribution(std::int64_t vocab);

/// Returns the input's profile with the request's tie rule and filter order.
reference::Semantics effective_semantics(const CheckInput& input);

/// Return the answers of the oracles about one row of a request.
reference::IntegerRow model_of(const Request& request, std::int64_t row);
reference::RealDistribution distribution_of(const CheckInput& input, const Request& request,
                                            std::int64_t row);

/// Returns the bound on the error of the sampler's weights, including the rounding that its profile
/// allows. For exact integers it is the bound of the specification, otherwise the larger of the
/// bounds for float32 and for integer weights.
reference::WeightBound weight_bound(const CheckInput& input);

/// The profile and the bound on weights by which the real-number oracle judges a sampler of logits:
/// the bound of the specification for exact integers, otherwise with the errors of float32
/// arithmetic.
struct JudgedBy {
  reference::Semantics semantics;
  reference::WeightBound bound;
};
JudgedBy judged_by(const reference::Semantics& profile, bool exact_integer, std::int64_t vocab);

/// Returns the row after logits processing and the bitmask. Precondition: the request has logits
/// processing.
reference::ProcessedRow processed_row(const Request& request, std::int64_t row,
                                      const reference::FilterBound* other = nullptr);
/// Returns the parameters with which the row's next token is drawn: those of the request, whose
/// top_p decays in some requests, and whose temperature follows the entropy in some.
reference::RowParameters parameters_now(const Request& request, std::int64_t row);

/// Returns the distribution under another profile, without the tie rule and filter order of the
/// request.
reference::RealDistribution distribution_under(const reference::Semantics& semantics,
                                               const CheckInput& input, const Request& request,
                                               std::int64_t row);

/// Returns whether the profile gives no token to any row with these parameters.
bool must_fail(const reference::RowParameters& parameters, const reference::Semantics& semantics,
               RowInput row_input, std::int64_t vocab);

/// Returns whether the sampler may refuse the whole call, because a row of the request must fail or
/// may do anything under the profile, and the sampler reports no statuses or its caller refuses bad
/// rows.
bool may_refuse(const CheckInput& input, const Request& request);

/// Calls the sampler for the first row with each set of parameters in input.refused, one call per
/// set. The outcome fails unless each call is refused or gives no token.
void expect_refusals(const CheckInput& input, CheckOutcome& outcome);

/// The integer model's token for sample `sample` of `output`, and the status of the output. The
/// token is -1 if the status is not ok.
struct ExpectedToken {
  std::int32_t token = -1;
  RowStatus status = RowStatus::ok;
};
ExpectedToken expected_token(const Request& request, const reference::IntegerRow& model,
                             std::int64_t output, std::int32_t sample);

/// Returns a text such as "temperature 0.7, top_k 50, top_p 0.9, min_p 0", for messages.
std::string describe(const reference::RowParameters& parameters);

}  // namespace fairdraw::harness
