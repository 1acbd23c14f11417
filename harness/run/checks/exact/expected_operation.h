// What the oracle says of an operation on one row, and whether a result is it.
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

/// The profile as it defines an operation: a filter by itself, with k = 1 a filter as for every k;
/// and the slack of the sampler's arithmetic, which is none where masks compare logits.
reference::Semantics operation_semantics(const CheckInput& input, OperationKind kind);

/// The rows that an operation gets, one after the other: logits, or probabilities in several
/// scales.
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

/// A class of bugs, and why it is suspected.
struct OperationTrouble {
  std::string what;  ///< empty: the result is right
  std::string bug, reason;
};

/// The row of an operation by the oracle.
class ExpectedRow {
 public:
  ExpectedRow(const CheckInput& input, OperationKind kind, std::span<const float> values,
              const reference::RowParameters& parameters, DType dtype);

  /// Whether there is a result to judge.
  bool is_judged() const { return real_.defined && !real_.must_fail; }
  /// Tokens that either side of the boundary is right for.
  std::int64_t ambiguous() const;

  /// `status`: as the sampler reports it; none: it reports none, and bad rows are not judged.
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
  double dropped() const;  ///< what is in the place of a token that is not kept

  OperationKind kind_;
  std::span<const float> values_;
  reference::RowParameters parameters_;
  DType result_;
  reference::Semantics semantics_;
  reference::WeightBound bound_;
  bool integers_ = false;  ///< weights are those of the specification
  reference::RealDistribution real_;
  std::vector<float> model_;  ///< of exact samplers, bit for bit; empty: not compared
  RowStatus model_status_ = RowStatus::ok;
  bool exact_ = false;
  // Of the result that was judged last: in another form of the call the same tokens are kept, but
  // for ambiguous ones.
  mutable std::vector<std::uint8_t> kept_;
  mutable std::optional<reference::ResultIntervals> intervals_;
};

}  // namespace fairdraw::harness
