// Tests draws in bands of a varying parameter, or by group, because an error that only occurs in a
// narrow band would not be noticed in the whole stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// A window of some of the n values, which are sorted by a key. Windows of the indices [0, n) have
/// the sizes n/8, n/16, ..., n/128; each window begins half a window after the one before. A band
/// with a share p >= 3/256 of all values contains a window of at least a third of the band (a
/// window of size 1/s lies in every interval of length 1.5/s, and the next wider window is twice as
/// long).
struct Window {
  std::size_t first, size;
};
std::vector<Window> band_windows(std::size_t values);

/// The result of a test of uniformity within windows. Keys that do not depend on the draws decide
/// which values belong to a window, so each window is a stream of uniform values.
struct BandFit {
  double p_value = 1;        ///< p-value with Bonferroni's correction over the windows
  double low = 0, high = 0;  ///< keys of the least uniform window
  double distance = 0;       ///< in that window
  std::uint64_t draws = 0;   ///< in that window
};
/// Tests the values [n] in [0, 1] with their keys [n].
BandFit fit_in_bands(std::span<const double> keys, std::span<const double> values);

/// Tests uniformity within groups of the values [n]; `group` has the number of each value's group
/// [n]. The field `low` is the number of the least uniform group. Precondition: the group numbers
/// do not depend on the draws.
BandFit fit_in_groups(std::span<const std::size_t> group, std::span<const double> values);

/// A filter parameter that takes several values in a case.
struct VaryingParameter {
  const char* name;
  std::vector<double> value;  ///< values by index of the parameters in the input
};
std::vector<VaryingParameter> varying_parameters(const CheckInput& input);

}  // namespace fairdraw::harness
