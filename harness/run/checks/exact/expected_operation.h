// Computes the oracle's answer to an operation on one row, and compares a result with the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/run/calls/operation_call.h"
#include "harness/run/checks/check.h"
#include "reference/operation_bound.h"

namespace fairdraw::harness {

/// Returns the profile for an operation: the filter by itself, in which k = 1 is a filter like
/// every other k, with the errors of the sampler's arithmetic; masks that compare logits have no
/// error.
reference::Semantics operation_semantics(const CheckInput& input, OperationKind kind);

/// The rows of an operation: logits, or probabilities in several scales.
struct OperationRows {
  DType dtype = DType::float32;
  std::int64_t vocab = 0;
  std::vector<float> values;                         ///< [rows, vocab]
  std::vector<reference::RowParameters> parameters;  ///< [rows]

  std::int64_t rows() const { return static_cast<std::int64_t>(parameters.size()); }
  std::span<const float> row(std::int64_t row) const {
    return std::span(values).subspan(static_cast<std::size_t>(row * vocab),
                                     static_cast<std::size_t>(vocab));
  }
  std::span<float> row(std::int64_t row) {
    return std::span(values).subspan(static_cast<std::size_t>(row * vocab),
                                     static_cast<std::size_t>(vocab));
  }
};
OperationRows operation_rows(const CheckInput& input, OperationKind kind);

/// A suspected kind of bug, and the reason for the suspicion.
struct OperationTrouble {
  std::string what;  ///< the suspected bug; empty if the result is right
  std::string bug, reason;
};

/// The oracle's result for one row of an operation.
class ExpectedRow {
 public:
  ExpectedRow(const CheckInput& input, OperationKind kind, std::span<const float> values,
              const reference::RowParameters& parameters, DType dtype);

  /// Returns whether there is a result to judge.
  bool is_judged() const { return real_.defined && !real_.must_fail; }
  /// Returns the number of tokens that a right result may keep or drop.
  std::int64_t ambiguous() const;

  /// Judges a result. The argument `status` is the status that the sampler reports; without a
  /// value, the sampler reports none and bad rows are not judged.
  OperationTrouble compare(std::span<const float> result, std::optional<std::int32_t> status) const;

 private:
  OperationTrouble compare_bad_row(std::span<const float> result, std::int32_t status) const;
  OperationTrouble compare_mask(std::span<const float> result) const;
  OperationTrouble compare_logarithms(std::span<const float> result) const;
  OperationTrouble compare_quotients(std::span<const float> result) const;
  OperationTrouble compare_kept(std::span<const float> result, std::int64_t kept) const;
  OperationTrouble suspected(std::string what, std::span<const float> result) const;
  const reference::ResultIntervals& intervals(std::span<const std::uint8_t> kept) const;
  reference::ResultIntervals computed_intervals(std::span<const std::uint8_t> kept) const;
  bool one_token() const { return real_.support_high == 1; }
  double dropped() const;  ///< value of a token that is not kept

  OperationKind kind_;
  std::span<const float> values_;
  reference::RowParameters parameters_;
  DType result_;
  reference::Semantics semantics_;
  reference::WeightBound bound_;
  bool integers_ = false;  ///< true if weights are those of the specification
  reference::RealDistribution real_;
  std::vector<float> model_;  ///< result of exact samplers, bit for bit; empty: not compared
  RowStatus model_status_ = RowStatus::ok;
  bool exact_ = false;
  // The kept tokens of the result that was judged last, because other forms of the call keep the
  // same tokens, except for ambiguous ones.
  mutable std::vector<std::uint8_t> kept_;
  mutable std::optional<reference::ResultIntervals> intervals_;
};

}  // namespace fairdraw::harness
