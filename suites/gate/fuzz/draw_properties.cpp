#include "suites/gate/fuzz/draw_properties.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/run/calls/draws.h"
#include "harness/run/calls/random_words.h"
#include "suites/gate/fuzz/evidence.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

constexpr std::uint64_t kFirstStage = 1024;  // draws

Judgement drawn_distribution(Subject& subject) {
  const std::optional<DrawDistribution> distribution = distribution_of_case(subject);
  if (!distribution) return not_applicable("the row has no distribution");
  const DrawEvidence evidence = draw_evidence(subject, *distribution);
  if (!evidence.trouble.empty()) return fails(evidence.trouble);
  if (evidence.no_token > 0) {
    return fails(fmt::format("{} of {} draws gave no token of the vocabulary", evidence.no_token,
                             evidence.draws));
  }
  if (evidence.log_evidence < kLogEvidence) return holds();
  return fails(
      fmt::format("{} draws are evidence 10^{:.1f} against the distribution; 10^6 is allowed",
                  evidence.draws, evidence.log_evidence / std::log(10.0)));
}

}  // namespace

std::optional<DrawDistribution> distribution_of_case(Subject& subject) {
  const harness::Request& request = subject.request();
  DrawDistribution distribution;
  if (subject.exact()) {
    const reference::IntegerRow& model = subject.model(0);
    if (model.status != RowStatus::ok) return std::nullopt;
    distribution.probability.resize(static_cast<std::size_t>(request.vocab), 0);
    for (std::size_t id = 0; id < distribution.probability.size(); ++id) {
      if (model.mask[id] == 0) continue;
      distribution.probability[id] =
          static_cast<double>(model.weight[id]) / static_cast<double>(model.total);
    }
    // A token has 2^64 w / Z of the random words, rounded up or down, so that a group of tokens is
    // off by at most one word per token. The quotient above, a probability, has a relative error of
    // at most 2^-53.
    distribution.slack = static_cast<double>(request.vocab) * 0x1p-64 + 0x1p-53;
    return distribution;
  }
  const reference::RealDistribution real =
      harness::distribution_of(subject.bare_input(), request, 0);
  if (!real.defined || real.must_fail) return std::nullopt;
  distribution.probability = real.probability;
  distribution.slack = real.total_variation_bound;
  // If some token may be kept or dropped, there is no single distribution to compare with.
  if (real.ambiguous_mass > 0) return std::nullopt;
  return distribution;
}

DrawEvidence draw_evidence(Subject& subject, const DrawDistribution& distribution) {
  const harness::Request& request = subject.request();
  const FuzzCase& fuzz_case = subject.fuzz_case();
  DrawEvidence result;
  result.counts.assign(static_cast<std::size_t>(request.vocab), 0);
  for (std::uint64_t stage = 0; result.draws < fuzz_case.draws; ++stage) {
    const std::uint64_t more =
        std::min(fuzz_case.draws - result.draws, std::max(kFirstStage, result.draws));
    const harness::Counts counts = harness::count_draws(subject.sampler(), request, more,
                                                        harness::mixed(fuzz_case.salt, stage));
    for (std::size_t id = 0; id < result.counts.size(); ++id) {
      result.counts[id] += counts.of_token[id];
    }
    result.draws += counts.draws;
    result.no_token += counts.no_token;
    result.trouble = counts.trouble;
    if (!result.trouble.empty() || result.no_token > 0) return result;
    result.log_evidence =
        log_evidence({distribution.probability, distribution.slack}, result.counts);
    if (result.log_evidence >= kLogEvidence) return result;
  }
  return result;
}

std::vector<Property> distribution_properties() {
  return {{"law.draws", "draws from a row are no evidence of 10^6 against its distribution",
           CaseKind::distribution, 1, drawn_distribution}};
}

}  // namespace fairdraw::suites::fuzz
