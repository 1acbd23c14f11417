// The properties by what they compare a sampler with. properties.cpp puts them together.
#pragma once

#include <vector>

#include "suites/fuzz/properties.h"

namespace fairdraw::suites::fuzz {

/// Name of the property that judges whether a call runs at all.
inline constexpr const char* kCallRuns = "call.runs";

std::vector<Property> oracle_properties();       ///< the integer model and the real-number oracle
std::vector<Property> relation_properties();     ///< the sampler itself, asked in another way
std::vector<Property> probability_properties();  ///< rows of probabilities
std::vector<Property> chain_properties();        ///< drafted chains
std::vector<Property> law_properties();          ///< draws, by evidence

/// The first difference between two answers to `request` that must be alike: tokens, statuses,
/// support sizes, masks, probabilities, bit for bit, as far as both answers have them. Empty: there
/// is none.
std::string difference(const harness::Request& request, const harness::Response& a,
                       const harness::Response& b);

}  // namespace fairdraw::suites::fuzz
