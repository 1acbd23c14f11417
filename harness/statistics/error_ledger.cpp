#include "harness/statistics/error_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "harness/statistics/argument.h"

namespace fairdraw::statistics {
namespace {

constexpr double kUnit = 0x1p-90;
constexpr auto kBudget = static_cast<std::uint64_t>(ErrorLedger::kRunFalseAlarmRate / kUnit) + 1;

}  // namespace

ErrorLedger::ErrorLedger(std::uint64_t statistical_cases)
    : case_share_(kCasesShare /
                  static_cast<double>(std::max<std::uint64_t>(1, statistical_cases))) {}

void ErrorLedger::spend(double false_fail_rate) {
  require_error_rate("false_fail_rate", false_fail_rate);
  // A rate above the whole budget is recorded as 1.5 times the budget, which overdraws the budget
  // but does not overflow the sum before the exception is thrown.
  const double limit = 1.5 * static_cast<double>(kBudget);
  const auto units =
      static_cast<std::uint64_t>(std::llround(std::min(false_fail_rate / kUnit, limit)));
  entries_.fetch_add(1);  // counted first, so that entries_ includes everything in `booked`
  const std::uint64_t booked = units_.fetch_add(units) + units;
  if (booked > kBudget + entries_.load()) {
    units_.fetch_sub(units);
    throw std::logic_error(
        fmt::format("error budget overdrawn: {:.6g} spent of {:.6g} after an entry of {:.6g}",
                    static_cast<double>(booked) * kUnit, kRunFalseAlarmRate, false_fail_rate));
  }
}

double ErrorLedger::spent() const { return static_cast<double>(units_.load()) * kUnit; }

}  // namespace fairdraw::statistics
