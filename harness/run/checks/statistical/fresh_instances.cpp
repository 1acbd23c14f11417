#include "harness/run/checks/statistical/fresh_instances.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/statistical/stream_axes.h"
#include "harness/run/checks/statistical/stream_probes.h"

namespace fairdraw::harness {
namespace {

constexpr std::size_t kInstances = 3;
constexpr double kShare = 0x1p-10;  // share of the case's budget for three short sequences

// Returns how much repetition is a proof, or no value if this row or this contract allows no proof.
std::optional<ProbeDesign> design_of(const CheckInput& input, const Request& row) {
  const SamplerDescription& sampler = input.sampler->description();
  // If outputs are not promised to be independent, no sequence of draws has a known probability.
  if (!draws_from_own_generator(sampler) || !sampler.randomness.outputs) return std::nullopt;
  if (!missing_ability(sampler, row).empty()) return std::nullopt;
  const reference::RealDistribution distribution = distribution_of(input, row, 0);
  if (!distribution.defined || distribution.must_fail) return std::nullopt;
  return design_probes(kInstances, kStreamLength, distribution.largest,
                       input.false_fail_rate * kShare);
}

// Compares the first outputs of the instances. Each instance gets seeds of its own: a sampler that
// uses seeds without promising this is right, and a sampler that starts from a constant ignores the
// seeds.
void compare(const CheckInput& input, const Request& row,
             const std::array<Sampler*, kInstances>& instances, const ProbeDesign& design,
             CheckOutcome& outcome) {
  outcome.spend(design.null_rate);
  StreamProbes probes(design, row.vocab);
  for (std::size_t i = 0; i < instances.size() && !outcome.failed(); ++i) {
    const StreamPlan first{StreamPlan::Kind::calls, "calls", "first draws",
                           mixed(input.seed, 2 + i), 0};
    CheckInput of_instance = input;
    of_instance.sampler = instances[i];
    const auto streams = draw_streams(of_instance, row, {first}, kStreamLength, outcome);
    if (outcome.failed()) return;
    const std::string wrong =
        probes.add(fmt::format("first draws of instance {}", i + 1), streams.front());
    if (wrong.empty()) continue;
    outcome.evidence.observed = wrong;
    outcome.evidence.expected = "a different start of each instance without a seed";
    outcome.evidence.decisive = {"repetition", design.null_rate, std::nullopt, design.null_rate};
    outcome.fail(fmt::format(
        "fresh instances without a seed start alike: {}; generators that start from entropy do any "
        "of this with probability below {:.1e}; a sampler that promises replays declares a default",
        wrong, design.null_rate));
  }
}

}  // namespace

bool draws_from_own_generator(const SamplerDescription& description) {
  return !description.per_request_seeds && !description.randomness.replays;
}

CheckOutcome check_streams_of_instances(
    const CheckInput& input, const std::function<std::unique_ptr<Sampler>()>& make_fresh) {
  const Request row = make_request(input, 0, 1);
  const std::optional<ProbeDesign> design = design_of(input, row);
  if (!design) return check_streams(input);
  // Both instances are made at the same moment, before any instance draws.
  const std::unique_ptr<Sampler> second = make_fresh(), third = make_fresh();
  CheckOutcome starts;
  starts.rows = 1;
  compare(input, row, {input.sampler, second.get(), third.get()}, *design, starts);
  if (starts.failed()) return starts;
  CheckInput rest = input;
  rest.false_fail_rate *= 1 - kShare;
  CheckOutcome outcome = check_streams(rest);
  outcome.draws += starts.draws;
  outcome.spend(starts.spent());
  outcome.measures["fresh_instances"] = static_cast<double>(kInstances);
  return outcome;
}

}  // namespace fairdraw::harness
