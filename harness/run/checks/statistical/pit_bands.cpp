#include "harness/run/checks/statistical/pit_bands.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "harness/statistics/statistics.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kWidest = 8, kNarrowest = 128;

double parameter_of(const reference::RowParameters& row, int which) {
  switch (which) {
    case 0:
      return static_cast<double>(row.temperature);
    case 1:
      return row.top_k;
    case 2:
      return static_cast<double>(row.top_p);
    default:
      return static_cast<double>(row.min_p);
  }
}

}  // namespace

std::vector<Window> band_windows(std::size_t values) {
  std::vector<Window> windows;
  for (std::size_t parts = kWidest; parts <= kNarrowest && parts <= values; parts *= 2) {
    for (std::size_t half = 0; half + 2 <= 2 * parts; ++half) {
      const std::size_t first = half * values / (2 * parts);
      const std::size_t end = (half + 2) * values / (2 * parts);
      windows.push_back({first, end - first});
    }
  }
  return windows;
}

BandFit fit_in_bands(std::span<const double> keys, std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [keys](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::vector<double> sorted(values.size());
  std::transform(order.begin(), order.end(), sorted.begin(),
                 [values](std::size_t i) { return values[i]; });
  const std::vector<Window> windows = band_windows(values.size());
  BandFit fit;
  for (const Window& window : windows) {
    const auto inside = std::span(sorted).subspan(window.first, window.size);
    const double distance = statistics::uniform_distance(inside);
    const double p_value = std::min(
        1.0, statistics::dkwm_p_value(distance, window.size) * static_cast<double>(windows.size()));
    if (fit.draws > 0 && p_value >= fit.p_value) continue;
    fit = {.p_value = p_value,
           .low = keys[order[window.first]],
           .high = keys[order[window.first + window.size - 1]],
           .distance = distance,
           .draws = window.size};
  }
  return fit;
}

BandFit fit_in_groups(std::span<const std::size_t> group, std::span<const double> values) {
  std::map<std::size_t, std::vector<double>> by_group;
  for (std::size_t i = 0; i < values.size(); ++i) by_group[group[i]].push_back(values[i]);
  BandFit fit;
  for (const auto& [number, inside] : by_group) {
    const double distance = statistics::uniform_distance(inside);
    const double p_value = std::min(1.0, statistics::dkwm_p_value(distance, inside.size()) *
                                             static_cast<double>(by_group.size()));
    if (fit.draws > 0 && p_value >= fit.p_value) continue;
    const auto key = static_cast<double>(number);
    fit = {
        .p_value = p_value, .low = key, .high = key, .distance = distance, .draws = inside.size()};
  }
  return fit;
}

std::vector<VaryingParameter> varying_parameters(const CheckInput& input) {
  constexpr const char* kNames[] = {"temperature", "top_k", "top_p", "min_p"};
  std::vector<VaryingParameter> varying;
  for (int which = 0; which < 4; ++which) {
    VaryingParameter parameter{kNames[which], {}};
    for (const reference::RowParameters& row : input.parameters) {
      parameter.value.push_back(parameter_of(row, which));
    }
    const auto [least, largest] =
        std::minmax_element(parameter.value.begin(), parameter.value.end());
    if (*least < *largest) varying.push_back(std::move(parameter));
  }
  return varying;
}

}  // namespace fairdraw::harness
