// Finds tokens that should have been drawn at least once, but were not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/run/evidence/record.h"
#include "reference/real_oracle.h"

namespace fairdraw::harness {

/// A search for missing tokens in the draws of a row. A token of probability q is missing from n
/// draws of a right sampler with probability (1 - q)^n. Only tokens for which this probability is
/// at most kMissing are expected; the absence of other tokens is no evidence.
class MissingTokens {
 public:
  static constexpr double kMissing = 1e-18;

  /// Precondition: every draw is a token of the vocabulary. Both arguments must outlive this
  /// object.
  MissingTokens(const reference::RealDistribution& row, const Counts& counts)
      : row_(row), counts_(counts) {}

  /// Expects that at least one of the given ids was drawn. Precondition: all given ids are
  /// certainly in the support.
  void expect_one_of(std::span<const std::size_t> ids);
  /// Expects draws from each of the last half, the last quarter, ... of the certain tokens, ordered
  /// by decreasing probability.
  void expect_last_ones();

  /// Returns a text about the first missing token, such as "token 7 (probability 0.050) is missing
  /// from 1024 draws", or an empty string if none is missing.
  const std::string& missing() const { return missing_; }
  std::uint64_t expected() const { return expected_; }  ///< number of tokens and groups expected
  double spent() const { return spent_; }               ///< probability that a right sampler fails

 private:
  const reference::RealDistribution& row_;
  const Counts& counts_;
  std::string missing_;
  std::uint64_t expected_ = 0;
  double spent_ = 0;
};

}  // namespace fairdraw::harness
