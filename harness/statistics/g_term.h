// Computes the term of one cell in G = 2 sum o ln(o / e), in a form in which no term is negative.
#pragma once

#include <boost/math/special_functions/log1p.hpp>
#include <cmath>

#include "harness/statistics/policy.h"

namespace fairdraw::statistics {

/// Returns 2 (o ln(o / e) - o + e) for an observed count o >= 0 and an expected count e > 0. The
/// sum of the terms -o + e over all cells is 0. With t = (o - e) / e the term equals
/// 2 e ((1 + t) ln(1 + t) - t), and both ln(1 + t) - t and t ln(1 + t) keep their digits for small
/// t. The plain formula o ln(o / e) loses as many digits as the number of draws has, and its sums
/// can be negative.
inline double g_term(double observed, double expected) {
  if (observed == 0) return 2 * expected;
  const double excess = (observed - expected) / expected;
  return 2 * expected *
         (boost::math::log1pmx(excess, Policy()) + excess * boost::math::log1p(excess, Policy()));
}

}  // namespace fairdraw::statistics
