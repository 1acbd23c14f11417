// Judges the probabilities that a sampler reports for a row, in real numbers. For probabilities.cpp
// and processing.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "harness/run/checks/check.h"

namespace fairdraw::harness {

/// Returns the error in the probabilities of a row of a sampler that does not claim exact integers,
/// or an empty string if there is none. `temperature_error` is the relative error of the
/// temperature, if the sampler computes that itself, and `logit_error` the absolute error of its
/// logits. Precondition: the response has probabilities, and the request no processing.
std::string wrong_probabilities(const CheckInput& input, const Request& request,
                                const Response& response, std::int64_t row,
                                double temperature_error, double logit_error);

}  // namespace fairdraw::harness
