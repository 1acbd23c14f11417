// How this folder calls Boost.Math: in double on every machine, and loud when a series fails.
//
// promote_double<false>: otherwise x86 computes in 80 bits and ARM does not, and p-values differ
// in their last digits between the two. An evaluation that does not converge throws, so that a
// case ends as an error and never as a pass.
#pragma once

#include <boost/math/policies/policy.hpp>

namespace fairdraw::statistics {

namespace detail {
namespace bmp = boost::math::policies;
}

using Policy =
    detail::bmp::policy<detail::bmp::promote_float<false>, detail::bmp::promote_double<false>,
                        detail::bmp::domain_error<detail::bmp::throw_on_error>,
                        detail::bmp::overflow_error<detail::bmp::ignore_error>,
                        detail::bmp::underflow_error<detail::bmp::ignore_error>,
                        detail::bmp::evaluation_error<detail::bmp::throw_on_error>>;

}  // namespace fairdraw::statistics
