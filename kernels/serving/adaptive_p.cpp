// The arithmetic of adaptive-p: one number per request, in double.
#include "fairdraw/adaptive_p.h"

#include <algorithm>

#include "common/arguments.h"
#include "cpu/float_environment.h"

namespace fairdraw {
namespace {

/// llama.cpp's, a float32, which is a bit above 0.99.
constexpr double kLargestDecay = 0.99F;

/// Functions that are not inlined, because their arithmetic must stay inside the floating-point
/// environment that the caller sets.
[[gnu::noinline]] float target_of(double target, double mean) {
  return static_cast<float>(std::clamp(2 * target - mean, 0.0, 1.0));
}

[[gnu::noinline]] double moved(const AdaptiveP& state, float probability) {
  return state.decay * state.mean + (1 - state.decay) * static_cast<double>(probability);
}

/// Returns an error unless a number lies in a range; a comparison with NaN is false.
Error check_in(const char* name, double value, double low, double high, const char* range) {
  if (value >= low && value <= high) return {};
  return out_of_range(name, text_of(static_cast<float>(value)), range);
}

}  // namespace

float adapted_target(const AdaptiveP& state) noexcept {
  const cpu::FloatEnvironment environment;
  return state.target >= 0 ? target_of(state.target, state.mean) : -1.0F;
}

Error observe_probability(AdaptiveP& state, float probability) {
  const cpu::FloatEnvironment environment;
  if (state.target < 0) return {};
  if (Error error = check_in("target", state.target, 0, 1, "below 0, or 0 to 1")) return error;
  if (Error error = check_in("decay", state.decay, 0, kLargestDecay, "0 to 0.99")) return error;
  if (Error error = check_in("mean", state.mean, 0, 1, "0 to 1")) return error;
  if (Error error = check_in("probability", probability, 0, 1, "0 to 1")) return error;
  state.mean = moved(state, probability);
  return {};
}

}  // namespace fairdraw
