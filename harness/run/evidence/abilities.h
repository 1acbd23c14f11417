// Why a sampler is not asked for something, and what its author would declare to be asked.
#pragma once

#include <string>
#include <string_view>

namespace fairdraw::harness {

/// What a sampler lacks that a call, a check or a part of one needs; empty: nothing.
struct Lack {
  std::string reason;  ///< "has no top_k": of the sampler
  std::string
      ability;  ///< that would have to be declared, of abilities.inc; empty: none would help
  bool empty() const { return reason.empty(); }
};

/// An ability of SamplerDescription, or "randomness.seeds" and so on for a promise, as the reason
/// that abilities.inc gives. Throws std::logic_error for a name that is not there.
Lack lack_of(std::string_view ability);

/// True of abilities that claim the specification's own arithmetic: a sampler without them leaves
/// no gap.
bool is_claim(std::string_view ability);

/// What the author of `sampler` writes into its description: "FAIRDRAW_CAN_TOP_K" for a plugin,
/// else the name that Python has for it. The name itself where abilities.inc has no such ability.
std::string declaration_of(std::string_view ability, std::string_view sampler);

}  // namespace fairdraw::harness
