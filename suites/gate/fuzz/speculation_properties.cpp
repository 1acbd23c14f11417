// Properties of requests with drafted tokens: the comparisons of the gate's check of speculation,
// on a single call.
#include "harness/run/checks/speculation/speculation_checks.h"
#include "harness/run/checks/speculation/speculation_rows.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using Compare = harness::CheckOutcome (*)(const harness::CheckInput&,
                                          const harness::SpeculationRequest&);

Judgement from(Subject& subject, Compare compare) {
  const harness::CheckOutcome outcome =
      compare(subject.bare_input(), subject.fuzz_case().speculation);
  return outcome.failed() ? fails(outcome.message) : holds();
}

Judgement of_the_model(Subject& subject) {
  if (!subject.exact()) return not_applicable("claims no integer arithmetic");
  return from(subject, harness::compare_speculation_with_model);
}

bool has_seeds_of_its_own(Subject& subject) {
  return subject.description().per_request_seeds && !subject.fuzz_case().speculation.seed_is_scalar;
}

Judgement batches(Subject& subject) {
  if (!has_seeds_of_its_own(subject)) return not_applicable("requests share random bits");
  return from(subject, harness::compare_speculation_batches);
}

Judgement sampling(Subject& subject) {
  if (!subject.exact() || !has_seeds_of_its_own(subject)) {
    return not_applicable("draws by bits of its own");
  }
  if (subject.fuzz_case().speculation.draft_law != DraftLaw::none) {
    return not_applicable("the draft's distribution is known");
  }
  harness::SpeculationRequest grown = subject.fuzz_case().speculation;
  harness::grow_histories(grown);
  for (std::size_t row = 0; row < grown.processing.size(); ++row) {
    const auto& given = subject.fuzz_case().speculation.processing[row];
    if (given.output == grown.processing[row].output) continue;
    return not_applicable("a history is not that of the drafts");
  }
  return from(subject, harness::compare_speculation_with_sampling);
}

}  // namespace

std::vector<Property> speculation_properties() {
  return {
      {"verification.model", "tokens, nodes, counts and statuses are those of the model",
       CaseKind::speculation, 1, of_the_model},
      {"verification.batches",
       "other batches, other padding, histories in other memory and neutral processing change "
       "nothing",
       CaseKind::speculation, 1, batches},
      {"verification.sampling",
       "where the draft's distribution is unknown, tokens are those of sampling",
       CaseKind::speculation, 1, sampling},
  };
}

}  // namespace fairdraw::suites::fuzz
