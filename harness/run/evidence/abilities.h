// Says why a sampler is not judged in some respect, and which declarations would change this.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::harness {

/// An ability that a call, a check or a part of a check needs and a sampler lacks; empty if there
/// is none.
struct Lack {
  std::string reason;   ///< the reason, as a predicate of the sampler: "has no top_k"
  std::string ability;  ///< ability of abilities.inc that would have to be declared; empty if none
                        ///< would help
  bool empty() const { return reason.empty(); }
};

/// Returns the lack of an ability of SamplerDescription, or of a promise ("randomness.seeds"), with
/// the reason from abilities.inc. Throws std::logic_error for an unknown name.
Lack lack_of(std::string_view ability);

/// Returns whether an ability is a claim to use the specification's own arithmetic. The absence of
/// such a claim is no gap in a sampler's coverage.
bool is_claim(std::string_view ability);

/// Returns the name that the author of `sampler` writes into its description: "FAIRDRAW_CAN_TOP_K"
/// for a plugin, otherwise the name in Python; returns the ability's own name if abilities.inc
/// lacks it.
std::string declaration_of(std::string_view ability, std::string_view sampler);

}  // namespace fairdraw::harness
