// Tokens that draws must have shown, and have not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/run/evidence/record.h"
#include "reference/real_oracle.h"

namespace fairdraw::harness {

/// Looks in the draws of a row for tokens that belong to it. With probability q one stays away from
/// n draws of a right sampler with (1 - q)^n: who is asked for is missed with kMissing at most, and
/// all others are no evidence.
class MissingTokens {
 public:
  static constexpr double kMissing = 1e-18;

  /// Both must outlive it. Every draw is a token of the vocabulary.
  MissingTokens(const reference::RealDistribution& row, const Counts& counts)
      : row_(row), counts_(counts) {}

  /// Expects that some of these ids were drawn, all certainly in the support.
  void expect_one_of(std::span<const std::size_t> ids);
  /// So they were of the last half, quarter, ... of all certain ones, by falling probability.
  void expect_last_ones();

  /// The first that is missing: "token 7 (probability 0.050) is missing from 1024 draws". Empty:
  /// none is.
  const std::string& missing() const { return missing_; }
  std::uint64_t expected() const { return expected_; }  ///< tokens and groups that were asked for
  double spent() const { return spent_; }               ///< how often a right sampler fails

 private:
  const reference::RealDistribution& row_;
  const Counts& counts_;
  std::string missing_;
  std::uint64_t expected_ = 0;
  double spent_ = 0;
};

}  // namespace fairdraw::harness
