// Probes: rows on which the definitions of engines differ. The tokens of a row that a sampler
// keeps, or its failure, rule out some values of a choice and fit others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/request.h"
#include "reference/real_oracle.h"

namespace fairdraw::suites {

struct Probe {
  std::string name;
  std::string row;                   ///< description of the row, for readers
  std::vector<std::string> choices;  ///< choices that the probe tests
                                     ///< (reference/semantic_choices.h)
  harness::RowInput input = harness::RowInput::logits;
  std::vector<float> values;  ///< [vocab] logits, or probabilities
  reference::RowParameters parameters;
  std::vector<std::uint32_t> allowed = {};  ///< packed bits of allowed ids, or empty
  bool many_draws = false;                  ///< whether the probe needs a sampler that draws often
                                            ///< from one row
};

/// Returns all probes. A probe that does not test top_k sets it to the vocabulary size, which is
/// off in every profile. If the mass matters, logits are ln 2 times 0 or a power of two: exp then
/// gives powers of two in float32 in any sampler that subtracts the maximum, and 2^y with a whole y
/// in fairdraw's integers.
const std::vector<Probe>& probes();

/// Returns the distribution of a probe under `semantics` in real arithmetic. Other probes omit the
/// profile's minimum for masked probabilities, which would add one draw in 10^8.
reference::RealDistribution distribution_of_probe(const Probe& probe,
                                                  const reference::Semantics& semantics);

}  // namespace fairdraw::suites
