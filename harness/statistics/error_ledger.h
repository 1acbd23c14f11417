// The error ledger accounts for the false alarm rate of a run, as for money.
#pragma once

#include <atomic>
#include <cstdint>

namespace fairdraw::statistics {

/// A ledger that divides the false alarm rate of a run: 5e-10 equally over the cases, 2e-10 for the
/// global test, and 3e-10 in reserve.
///
/// Entries are thread-safe and are whole units of 2^-90, so that the total does not depend on the
/// order in which jobs end. One unit of the ledger is 1e-18 of the budget.
class ErrorLedger {
 public:
  static constexpr double kRunFalseAlarmRate = 1e-9;
  static constexpr double kCasesShare = 5e-10;
  static constexpr double kGlobalShare = 2e-10;
  static constexpr double kReserve = 3e-10;

  /// Makes a ledger. `statistical_cases` is the number of cases of the WHOLE run (all shards) that
  /// make statistical checks; if it is 0, no case may request a share.
  explicit ErrorLedger(std::uint64_t statistical_cases);

  /// Returns the total rate that one case may spend, which the case divides over its statistics,
  /// orderings and tails.
  double case_share() const { return case_share_; }

  /// Records the level of a check, in (0, 1/2], as spent. Throws std::logic_error and records
  /// nothing if the budget would be overdrawn by more than the rounding of the entries so far (half
  /// a unit each).
  void spend(double false_fail_rate);
  double spent() const;

 private:
  double case_share_;
  std::atomic<std::uint64_t> units_{0};
  std::atomic<std::uint64_t> entries_{0};
};

}  // namespace fairdraw::statistics
