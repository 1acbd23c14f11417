// A sum of doubles with a second variable for the rounding errors (Neumaier 1974). The error of the
// sum does not grow with the number of terms, so a prefix sum over a vocabulary is right to an ulp
// or two.
#pragma once

#include <cmath>

namespace fairdraw::statistics {

class CompensatedSum {
 public:
  void add(double term) {
    const double next = sum_ + term;
    dropped_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  double value() const { return sum_ + dropped_; }

 private:
  double sum_ = 0;
  double dropped_ = 0;
};

}  // namespace fairdraw::statistics
