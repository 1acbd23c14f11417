#include "harness/run/calls/row_probabilities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/run/calls/logits_source.h"

namespace fairdraw::harness {

void to_probabilities(std::span<float> row, float temperature, DType dtype) {
  constexpr double kLog2E = 0x1.71547652b82fep0;
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  const auto largest = static_cast<double>(*std::max_element(row.begin(), row.end()));
  const auto scale =
      static_cast<float>(kLog2E / (temperature == 0 ? 1.0 : static_cast<double>(temperature)));
  std::vector<double> weight(row.size(), 0);
  double sum = 0;
  bool powers_of_two = scale == 1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] == kMinusInfinity) continue;
    const double octaves = (static_cast<double>(row[i]) - largest) * static_cast<double>(scale);
    powers_of_two = powers_of_two && octaves == std::floor(octaves);
    weight[i] = std::exp2(octaves);
    sum += weight[i];
  }
  const double total = powers_of_two ? std::exp2(std::ceil(std::log2(sum))) : sum;
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = weight[i] > 0 ? rounded_to(dtype, static_cast<float>(weight[i] / total)) : 0.0F;
  }
}

}  // namespace fairdraw::harness
