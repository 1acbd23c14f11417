// Rows on which definitions differ, each of them decisive: what a sampler keeps of one, or whether
// it fails, rules out some values of a choice and fits others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/request.h"
#include "reference/real_oracle.h"

namespace fairdraw::suites {

struct Probe {
  std::string name;
  std::string row;                   ///< what the row is, for readers
  std::vector<std::string> choices;  ///< what it is about (reference/semantic_choices.h)
  harness::RowInput input = harness::RowInput::logits;
  std::vector<float> values;  ///< [vocab] logits, or probabilities
  reference::RowParameters parameters;
  std::vector<std::uint32_t> allowed = {};  ///< packed bits, or empty
  bool many_draws = false;                  ///< needs a sampler that draws often from one row
};

/// All probes. top_k is the vocabulary where a probe is not about it, which is off in every
/// profile. Logits are multiples of ln 2 by powers of two where the mass matters: exp gives powers
/// of two, in float32, in any sampler that subtracts the maximum, and 2^y with a whole y in
/// fairdraw's integers.
const std::vector<Probe>& probes();

/// What `semantics` says of a probe in real arithmetic. The floor under masked probabilities is
/// left out but where the probe is about it: elsewhere it is one draw in 10^8.
reference::RealDistribution distribution_of_probe(const Probe& probe,
                                                  const reference::Semantics& semantics);

}  // namespace fairdraw::suites
