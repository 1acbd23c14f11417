// The share of the error budget that these tests give a case.
#pragma once

namespace fairdraw::harness {

inline constexpr double kShare = 4.8e-13;  // a share of 5e-10 over 1024 cases, rounded down

}  // namespace fairdraw::harness
