#include "suites/gate/identify/seen_definitions.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>

#include "harness/contract/semantics_text.h"
#include "harness/run/evidence/causes.h"
#include "reference/semantic_choices.h"

namespace fairdraw::suites {

std::optional<harness::SeenDefinitions> seen_beside(const Identification& found,
                                                    const reference::Semantics& profile) {
  if (found.choices.empty() || found.profiles.empty()) return std::nullopt;
  harness::SeenDefinitions seen;
  seen.closest = found.profiles.front().profile;
  const auto choices = reference::semantic_choices();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string& declared = choices[i].of(profile).name;
    const ChoiceFinding& finding = found.choices[i];
    if (allows(finding, declared)) continue;
    harness::SeenDefinition one{finding.meaning, declared, {}};
    if (!finding.value.empty()) one.values.push_back(finding.value);
    one.values.insert(one.values.end(), finding.also_fit.begin(), finding.also_fit.end());
    seen.differences.push_back(std::move(one));
  }
  return seen;
}

void note_seen_definitions(const SamplerMaker& make, harness::RunRecord& record) {
  for (harness::SamplerRecord& sampler : record.samplers) {
    const auto is_of_filters = [&sampler](const harness::CaseRecord& one) {
      return one.sampler == sampler.name && one.verdict == harness::Verdict::failed &&
             std::ranges::any_of(one.evidence.suspects, [](const harness::Suspect& hint) {
               return harness::is_of_filters(hint.bug);
             });
    };
    if (std::ranges::none_of(record.cases, is_of_filters)) continue;
    try {
      const std::unique_ptr<harness::Sampler> asked = make(sampler.name);
      sampler.seen = seen_beside(identify(*asked, record.seed),
                                 harness::semantics_from_text(sampler.semantics));
    } catch (const std::exception&) {
      sampler.seen.reset();
    }
  }
}

}  // namespace fairdraw::suites
