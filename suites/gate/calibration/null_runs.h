// A null run applies a statistic to draws of a correct sampler.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "suites/gate/calibration/calibration.h"

namespace fairdraw::suites {

struct NullRun {
  std::string statistic;
  Validity validity = Validity::exact;
  /// Returns the p-value of one run; its random numbers come from `seed` alone.
  std::function<double(std::uint64_t seed)> p_value;
};

const std::vector<NullRun>& null_runs();

/// Returns the level of one statistical case of the gate.
double gate_level();

}  // namespace fairdraw::suites
