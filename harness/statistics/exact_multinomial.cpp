#include "harness/statistics/exact_multinomial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/statistics/argument.h"
#include "harness/statistics/g_term.h"

namespace fairdraw::statistics {
namespace {

// The relative difference up to which two values of G count as equal. G is a sum of at most 6
// non-negative terms, each right to a few ulp, so equal values differ by less than 2^-46. The limit
// 2^-40 is above that, and below any real difference that would matter.
constexpr double kTieSlack = 0x1p-40;

struct Outcome {
  double g = 0;            ///< contribution to G of the cells of this half
  double probability = 0;  ///< probability, given the number of draws in this half
};

// One half of the cells, with the distribution of their part of G for each number of draws that
// fall into them.
class Half {
 public:
  Half(std::span<const double> probability, std::uint64_t draws,
       std::span<const double> log_factorial)
      : mass_(std::accumulate(probability.begin(), probability.end(), 0.0)),
        log_factorial_(log_factorial) {
    for (const double p : probability) {
      Cell cell{std::vector<double>(draws + 1), std::log(p / mass_)};
      for (std::uint64_t x = 0; x <= draws; ++x) {
        cell.g[x] = g_term(static_cast<double>(x), static_cast<double>(draws) * p);
      }
      cells_.push_back(std::move(cell));
    }
  }

  double mass() const { return mass_; }

  /// Returns all outcomes of the half with `draws` draws, in ascending order of G.
  std::vector<Outcome> outcomes(std::uint64_t draws) const {
    std::vector<Outcome> all;
    extend(0, draws, 0, log_factorial_[draws], all);
    std::sort(all.begin(), all.end(), [](const Outcome& a, const Outcome& b) { return a.g < b.g; });
    return all;
  }

 private:
  struct Cell {
    std::vector<double> g;  ///< contribution to G for each count [draws + 1]
    double log_probability = 0;
  };

  void extend(std::size_t index, std::uint64_t left, double g, double log_probability,
              std::vector<Outcome>& all) const {
    const Cell& cell = cells_[index];
    const bool is_last = index + 1 == cells_.size();
    for (std::uint64_t x = is_last ? left : 0; x <= left; ++x) {
      const double log_p =
          log_probability - log_factorial_[x] + static_cast<double>(x) * cell.log_probability;
      if (is_last) {
        all.push_back({g + cell.g[x], std::exp(log_p)});
      } else {
        extend(index + 1, left - x, g + cell.g[x], log_p, all);
      }
    }
  }

  double mass_;
  std::span<const double> log_factorial_;
  std::vector<Cell> cells_;
};

// Returns P(first.g + second.g >= bound). Precondition: both lists are in ascending order of G.
double tail(const std::vector<Outcome>& first, const std::vector<Outcome>& second, double bound) {
  double sum = 0, above = 0;
  std::size_t begin = second.size();  // first[i] and second[begin..] together reach the bound
  for (const Outcome& outcome : first) {
    while (begin > 0 && outcome.g + second[begin - 1].g >= bound) {
      above += second[--begin].probability;
    }
    sum += outcome.probability * above;
  }
  return sum;
}

}  // namespace

double exact_multinomial_p_value(std::span<const std::uint64_t> counts,
                                 std::span<const double> probability) {
  require_same_size("counts", counts.size(), "probability", probability.size());
  require_positive_distribution("probability", probability);
  const std::uint64_t draws = require_total("counts", counts);
  if (counts.size() > kMaxExactCells || draws > kMaxExactDraws) {
    throw std::invalid_argument(fmt::format("{} cells and {} draws; it must be at most {} and {}",
                                            counts.size(), draws, kMaxExactCells, kMaxExactDraws));
  }
  if (counts.size() == 1) return 1;

  std::vector<double> log_factorial(draws + 1, 0.0);
  for (std::uint64_t x = 2; x <= draws; ++x) {
    log_factorial[x] = log_factorial[x - 1] + std::log(static_cast<double>(x));
  }
  double observed = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    observed += g_term(static_cast<double>(counts[i]), static_cast<double>(draws) * probability[i]);
  }
  const double bound = observed - kTieSlack * (1 + observed);

  const std::size_t middle = counts.size() / 2;
  const Half first(probability.first(middle), draws, log_factorial);
  const Half second(probability.subspan(middle), draws, log_factorial);
  const double log_first = std::log(first.mass());
  const double log_second = std::log(second.mass());
  double p_value = 0;
  for (std::uint64_t m = 0; m <= draws; ++m) {
    const double split =
        std::exp(log_factorial[draws] - log_factorial[m] - log_factorial[draws - m] +
                 static_cast<double>(m) * log_first + static_cast<double>(draws - m) * log_second);
    p_value += split * tail(first.outcomes(m), second.outcomes(draws - m), bound);
  }
  return std::min(1.0, p_value);
}

}  // namespace fairdraw::statistics
