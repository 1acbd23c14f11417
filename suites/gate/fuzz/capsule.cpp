#include "suites/gate/fuzz/capsule.h"

#include <fmt/format.h>

#include <cmath>

#include "harness/contract/usage_error.h"
#include "harness/run/calls/logits_source.h"

namespace fairdraw::suites::fuzz {
namespace {

[[noreturn]] void bad_input(const char* place, const std::string& what) {
  throw harness::UsageError(fmt::format("capsule: {} {}", place, what));
}

}  // namespace

void add_drawn_distribution(Capsule& capsule, harness::Sampler& sampler,
                            const reference::Semantics& semantics) {
  if (capsule.fuzz_case.kind != CaseKind::distribution) return;
  Subject subject(sampler, semantics, capsule.fuzz_case);
  capsule.distribution = distribution_of_case(subject);
  if (!capsule.distribution) return;
  const DrawEvidence evidence = draw_evidence(subject, *capsule.distribution);
  capsule.counts = evidence.counts;
  capsule.counted_draws = evidence.draws;
}

Judgement replay(const Capsule& capsule, harness::Sampler& sampler,
                 const reference::Semantics& semantics) {
  if (semantics.name != capsule.semantics) {
    bad_input("/semantics",
              fmt::format("is {}, and {} is judged by {}; --semantics says otherwise",
                          capsule.semantics, sampler.description().name, semantics.name));
  }
  Subject subject(sampler, semantics, capsule.fuzz_case);
  if (capsule.distribution) {
    const std::optional<DrawDistribution> distribution = distribution_of_case(subject);
    if (!distribution)
      bad_input("/oracle", "is there, but the row has no distribution under these semantics");
    double distance = 0;
    for (std::size_t id = 0; id < distribution->probability.size(); ++id) {
      distance +=
          std::fabs(distribution->probability[id] - capsule.distribution->probability[id]) / 2;
    }
    // The integer and the real distribution differ by at most the oracle's bound. On another
    // machine, libm may round exp differently, by about 2^-52 of each weight.
    const double allowed =
        harness::distribution_of(subject.bare_input(), capsule.fuzz_case.request, 0)
            .total_variation_bound +
        0x1p-48;
    if (!(distance <= allowed)) {
      bad_input(
          "/oracle/probability",
          fmt::format("is {:.3g} in total variation from the distribution of semantics {}; at most "
                      "{:.1e} is allowed",
                      distance, semantics.name, allowed));
    }
  }
  return judge(find_property(capsule.property), subject);
}

}  // namespace fairdraw::suites::fuzz
