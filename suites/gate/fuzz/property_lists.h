// The properties by what they compare a sampler with. properties.cpp puts them together.
#pragma once

#include <vector>

#include "suites/gate/fuzz/properties.h"

namespace fairdraw::suites::fuzz {

/// Name of the property that judges whether a call runs at all.
inline constexpr const char* kCallRuns = "call.runs";

std::vector<Property> oracle_properties();        ///< the integer model and the real-number oracle
std::vector<Property> relation_properties();      ///< the sampler itself, asked in another way
std::vector<Property> probability_properties();   ///< rows of probabilities
std::vector<Property> chain_properties();         ///< drafted chains
std::vector<Property> processing_properties();    ///< penalties, bias and bans
std::vector<Property> speculation_properties();   ///< requests with drafts
std::vector<Property> distribution_properties();  ///< draws, by evidence

/// Asks again, and expects the same answer: of samplers that draw with the seeds that they are
/// given.
Judgement expect_same(Subject& subject, const char* what, const harness::Request& changed);

/// Whether a row is to be sampled.
bool is_active(const harness::Request& request, std::int64_t row);

/// Whether every id in the request's processing is a token, or the -1 of a history.
bool has_tokens_alone(const harness::Request& request);

/// The first difference between two answers to `request` that must be alike: tokens, statuses,
/// support sizes, masks, probabilities, bit for bit, as far as both answers have them. Empty: there
/// is none.
std::string difference(const harness::Request& request, const harness::Response& a,
                       const harness::Response& b);

}  // namespace fairdraw::suites::fuzz
