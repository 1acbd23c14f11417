// Draws of rows that differ in a parameter, looked at in bands of it, or by group: what is wrong in
// a narrow one alone is lost in the whole stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// The bands of n values in order of a key: their numbers [0, n) in windows of n/8, n/16, ...,
/// n/128, each half a window behind the one before. A band with a part p of all values holds a
/// window of a third of it at least where p >= 3/256 (a window of 1/s lies in every interval that
/// is 1.5/s long, and the next wider one is twice that).
struct Window {
  std::size_t first, size;
};
std::vector<Window> band_windows(std::size_t values);

/// Uniformity within the windows. Which values belong to one is fixed by keys that know nothing of
/// the draws, so that each is a stream of uniform values of its own.
struct BandFit {
  double p_value = 1;        ///< Bonferroni over the windows
  double low = 0, high = 0;  ///< keys of the least uniform one
  double distance = 0;       ///< of it
  std::uint64_t draws = 0;   ///< in it
};
/// Values [n] in [0, 1] with their keys [n].
BandFit fit_in_bands(std::span<const double> keys, std::span<const double> values);

/// Uniformity within groups of values [n], by the number of the group of each [n]: `low` is the
/// number of the least uniform one. As with windows, the numbers know nothing of the draws.
BandFit fit_in_groups(std::span<const std::size_t> group, std::span<const double> values);

/// A parameter that takes several values in a case.
struct VaryingParameter {
  const char* name;
  std::vector<double> value;  ///< by number of the parameters in the input
};
std::vector<VaryingParameter> varying_parameters(const CheckInput& input);

}  // namespace fairdraw::harness
