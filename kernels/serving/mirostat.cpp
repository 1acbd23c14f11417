// The arithmetic of Mirostat: one number per request, in double.
#include "fairdraw/mirostat.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/arguments.h"
#include "cpu/float_environment.h"

namespace fairdraw {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;

/// Functions that are not inlined, because their arithmetic must stay inside the floating-point
/// environment that the caller sets.
[[gnu::noinline]] float cutoff_of(double mu) {
  return static_cast<float>(std::min(std::exp2(-mu), 1.0));
}

/// Returns the exponent of Zipf's law that fits the largest probabilities best, by least squares of
/// the logarithms of neighbours.
[[gnu::noinline]] double exponent_of(View<const float> largest) {
  double products = 0, squares = 0;
  for (std::int64_t i = 0; i + 1 < largest.size && std::isfinite(largest.data[i + 1]); ++i) {
    const auto place = static_cast<double>(i);
    const double t = std::log((place + 2) / (place + 1));
    products += t * (static_cast<double>(largest.data[i]) - largest.data[i + 1]);
    squares += t * t;
  }
  return squares == 0 ? 0 : products / squares;
}

[[gnu::noinline]] double tokens_for(double mu, double exponent, double vocab) {
  const double epsilon = exponent - 1;
  // For an exponent of 1, the quotient is the limit 1 / ln(vocab).
  const double share =
      epsilon == 0 ? 1 / std::log(vocab) : epsilon / (1 - std::pow(vocab, -epsilon));
  return std::pow(share * std::exp2(mu), 1 / exponent);
}

[[gnu::noinline]] double moved(const Mirostat& state, float logprob) {
  return state.mu - state.eta * (-static_cast<double>(logprob) / kLn2 - state.tau);
}

Error check_state(const Mirostat& state) {
  for (const auto& [name, value] :
       {std::pair{"tau", state.tau}, std::pair{"eta", state.eta}, std::pair{"mu", state.mu}}) {
    if (!std::isfinite(value))
      return out_of_range(name, text_of(static_cast<float>(value)), "a finite number");
  }
  return {};
}

Error check_largest(View<const float> largest) {
  if (largest.data == nullptr || largest.size < 2) {
    return out_of_range("length of largest", std::to_string(largest.size), ">= 2");
  }
  for (std::int64_t i = 0; i < largest.size; ++i) {
    const float value = largest.data[i];
    const float before = i == 0 ? 0.0F : largest.data[i - 1];
    if (!(value <= before) || (i == 0 && !std::isfinite(value))) {
      return out_of_range("largest[" + std::to_string(i) + "]", text_of(value),
                          "log-probabilities in decreasing order, the first one finite");
    }
  }
  return {};
}

}  // namespace

float mirostat_cutoff(const Mirostat& state) noexcept {
  const cpu::FloatEnvironment environment;
  return cutoff_of(state.mu);
}

Error mirostat_top_k(const Mirostat& state, View<const float> largest, std::int64_t vocab,
                     std::int32_t& top_k) {
  const cpu::FloatEnvironment environment;
  if (Error error = check_state(state)) return error;
  if (Error error = check_largest(largest)) return error;
  if (vocab < 1 || vocab > kMaxVocab) {
    return out_of_range("vocab", std::to_string(vocab), "1 to " + std::to_string(kMaxVocab));
  }
  const double exponent = exponent_of(largest);
  // Equal probabilities have the exponent 0, and no law that says how many tokens are surprising.
  const double tokens = exponent > 0 && vocab > 1
                            ? tokens_for(state.mu, exponent, static_cast<double>(vocab))
                            : static_cast<double>(vocab);
  const double most = static_cast<double>(vocab);
  top_k = static_cast<std::int32_t>(tokens < most ? std::max(tokens, 1.0) : most);
  return {};
}

Error observe_surprise(Mirostat& state, float logprob_filtered) {
  const cpu::FloatEnvironment environment;
  if (Error error = check_state(state)) return error;
  if (!(logprob_filtered <= 0) || std::isinf(logprob_filtered)) {
    return out_of_range("logprob_filtered", text_of(logprob_filtered), "finite, at most 0");
  }
  const double mu = moved(state, logprob_filtered);
  if (!std::isfinite(mu))
    return out_of_range("mu", text_of(static_cast<float>(mu)), "a finite number");
  state.mu = mu;
  return {};
}

}  // namespace fairdraw
