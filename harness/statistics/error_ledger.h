// The error ledger: a run's false alarm rate as money.
#pragma once

#include <atomic>
#include <cstdint>

namespace fairdraw::statistics {

/// Shares out a run's false alarm rate. 5e-10 over the cases, equally; 2e-10 for the global test;
/// 3e-10 kept for the rest.
///
/// Booking is thread-safe and counts whole units of 2^-90, so that what was spent does not depend
/// on the order in which jobs end. One unit is 1e-18 of the budget.
class ErrorLedger {
 public:
  static constexpr double kRunFalseAlarmRate = 1e-9;
  static constexpr double kCasesShare = 5e-10;
  static constexpr double kGlobalShare = 2e-10;
  static constexpr double kReserve = 3e-10;

  /// `statistical_cases`: how many cases of the WHOLE run (all shards) make statistical checks.
  /// With none there is no case to ask for its share.
  explicit ErrorLedger(std::uint64_t statistical_cases);

  /// What one case may spend in all; it divides it over its statistics, orderings and tails.
  double case_share() const { return case_share_; }

  /// Books what a check was compared with, in (0, 1/2]. Throws std::logic_error when the budget is
  /// overdrawn by more than the rounding of the entries booked so far (half a unit each); then
  /// nothing is booked.
  void spend(double false_fail_rate);
  double spent() const;

 private:
  double case_share_;
  std::atomic<std::uint64_t> units_{0};
  std::atomic<std::uint64_t> entries_{0};
};

}  // namespace fairdraw::statistics
