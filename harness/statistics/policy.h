// The Boost.Math policy of this folder: double precision on every machine, and an exception if a
// series does not converge.
//
// The policy sets promote_double<false>, because x86 would compute in 80 bits and ARM would not, so
// that the last digits of p-values would differ. An evaluation that does not converge throws an
// exception, so that a case ends as an error and never as a pass.
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
