// Properties of rows of probabilities, most of which compare with the same distribution given as
// logits.
#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/exact/invariances.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::Request;
using harness::Response;
using harness::RowInput;

// Scales probabilities by a power of two, which must not change the answer: all bits of the
// significands are kept, and all bits of the weights if no probability is subnormal.
Judgement scaled(Subject& subject) {
  const Request& request = subject.request();
  if (!subject.exact()) return not_applicable("float32 may round differently");
  if (request.input != RowInput::probabilities) return not_applicable("has logits");
  if (request.dtype != DType::float32) return not_applicable("has less exponents to scale by");
  const int shift = static_cast<int>(subject.fuzz_case().salt % 41) - 20;
  Request changed = request;
  for (float& p : changed.logits) {
    if (!std::isfinite(p)) continue;
    const std::optional<float> product = harness::scaled_exactly(p, shift);
    if (!product) return not_applicable("a product is not exact, or subnormal");
    p = *product;
  }
  const Response response = subject.run(changed);
  if (!response.ran()) return fails(response.trouble());
  const std::string wrong = difference(changed, response, subject.response());
  if (wrong.empty()) return holds();
  return fails(fmt::format("all probabilities times 2^{}: {}", shift, wrong));
}

// Compares logits -d, at the temperature at which one unit is an octave, with probabilities 2^-d.
// Both rows are exactly the significand 1 with exponent -d, so that thresholds, prefix sums and
// shares must agree to the last bit.
Judgement dyadic(Subject& subject) {
  if (!subject.exact()) return not_applicable("float32 may round differently");
  const Request& base = subject.request();
  if (!subject.description().from_probs) return not_applicable("takes no probabilities");
  if (base.tie_rule != TieRule::keep_all) return not_applicable("probabilities keep all ties");
  if (base.rows == 0 || !base.allowed.empty()) return not_applicable("probabilities have no bans");
  Request logits = base, probs = base;
  logits.input = RowInput::logits;
  probs.input = RowInput::probabilities;
  logits.dtype = probs.dtype = DType::float32;
  for (std::size_t i = 0; i < base.logits.size(); ++i) {
    const auto octaves = static_cast<int>(harness::mixed(subject.fuzz_case().salt, i) % 41);
    const bool none = octaves == 40;
    logits.logits[i] = none ? -INFINITY : -static_cast<float>(octaves);
    probs.logits[i] = none ? 0 : std::ldexp(1.0F, -octaves);
  }
  for (std::size_t row = 0; row < base.parameters.size(); ++row) {
    for (Request* const request : {&logits, &probs}) {
      reference::RowParameters& p = request->parameters[row];
      p.temperature = 0x1.715476p0F;
      // The threshold of min_p is a float32 logarithm, which is exact for whole octaves.
      if (p.min_p > 0 && p.min_p < 1) p.min_p = std::exp2(std::floor(std::log2(p.min_p)));
    }
  }
  const Response from_logits = subject.run(logits);
  const Response from_probs = subject.run(probs);
  if (!from_logits.ran()) return fails("from logits: " + from_logits.trouble());
  if (!from_probs.ran()) return fails("from probabilities: " + from_probs.trouble());
  const std::string wrong = difference(probs, from_probs, from_logits);
  return wrong.empty() ? holds()
                       : fails("octaves as probabilities, and before as logits: " + wrong);
}

}  // namespace

std::vector<Property> probability_properties() {
  return {
      {"probs.scaled", "probabilities times a power of two are the same distribution",
       CaseKind::batch, 1, scaled},
      {"probs.dyadic", "powers of two give the same from logits and from probabilities",
       CaseKind::batch, 1, dyadic},
  };
}

}  // namespace fairdraw::suites::fuzz
