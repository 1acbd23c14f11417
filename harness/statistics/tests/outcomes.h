// Lists every outcome of a small distribution, and makes draws from a large one; the tests of
// statistics share this file.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace fairdraw::statistics {

/// Calls visit(counts, probability of counts) for every outcome of `draws` draws from
/// `distribution`.
template <class Visit>
void for_each_outcome(std::span<const double> distribution, std::uint64_t draws,
                      const Visit& visit) {
  std::vector<std::uint64_t> counts(distribution.size(), 0);
  const auto extend = [&](const auto& self, std::size_t cell, std::uint64_t left,
                          double probability) -> void {
    if (cell + 1 == distribution.size()) {
      counts[cell] = left;
      visit(std::span<const std::uint64_t>(counts),
            probability * std::pow(distribution[cell], static_cast<double>(left)));
      return;
    }
    double term = probability;  // times C(left, x) distribution^x
    for (std::uint64_t x = 0; x <= left; ++x) {
      counts[cell] = x;
      self(self, cell + 1, left - x, term);
      term *= static_cast<double>(left - x) / static_cast<double>(x + 1) * distribution[cell];
    }
  };
  extend(extend, 0, draws, 1.0);
}

/// A value of a statistic, with the probability of this value.
struct Atom {
  double value = 0;
  double probability = 0;
};

/// A plain sum of terms below 1 has a relative error of at most 2^-53 times the number of terms,
/// and so has a product of up to 400 factors. The tolerance 2^-30 is above both for every
/// enumeration here (fewer than 2^22 terms).
inline constexpr double kRounding = 0x1p-30;

/// Returns the largest P(value <= a) / a over all a, for the atoms of a p-value. The ratio is at
/// most 1 if the p-value is valid.
inline double worst_ratio(std::vector<Atom> atoms) {
  std::sort(atoms.begin(), atoms.end(),
            [](const Atom& a, const Atom& b) { return a.value < b.value; });
  double sum = 0, worst = 0;
  for (std::size_t i = 0; i < atoms.size(); ++i) {
    sum += atoms[i].probability;
    // Values of a statistic that differ only by rounding count as one value.
    const bool last_of_value =
        i + 1 == atoms.size() || atoms[i + 1].value > atoms[i].value * (1 + kRounding);
    if (last_of_value) worst = std::max(worst, sum / atoms[i].value);
  }
  return worst;
}

/// Returns a uniform number in [0, 1) from the generator's top 53 bits, which is the same with
/// every standard library.
inline double uniform(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

/// Returns the counts of `draws` draws from `distribution`, by inverting the distribution function.
inline std::vector<std::uint64_t> draw_counts(std::span<const double> distribution,
                                              std::uint64_t draws, std::mt19937_64& generator) {
  std::vector<double> upto;
  double sum = 0;
  for (const double p : distribution) upto.push_back(sum += p);
  std::vector<std::uint64_t> counts(distribution.size(), 0);
  for (std::uint64_t i = 0; i < draws; ++i) {
    const auto at = std::upper_bound(upto.begin(), upto.end(), uniform(generator) * sum);
    ++counts[std::min<std::size_t>(static_cast<std::size_t>(at - upto.begin()),
                                   distribution.size() - 1)];
  }
  return counts;
}

/// Returns the distribution Zipf(1) over `size` tokens.
inline std::vector<double> zipf_distribution(std::size_t size) {
  std::vector<double> distribution(size);
  double sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += distribution[i] = 1 / static_cast<double>(i + 1);
  for (double& p : distribution) p /= sum;
  return distribution;
}

/// Returns the entries of `distribution` divided by their sum.
inline std::vector<double> normalized(std::vector<double> distribution) {
  double sum = 0;
  for (const double p : distribution) sum += p;
  for (double& p : distribution) p /= sum;
  return distribution;
}

inline double total_variation(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2;
}

}  // namespace fairdraw::statistics
