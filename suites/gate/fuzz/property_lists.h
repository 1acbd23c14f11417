// Lists of properties, by the kind of comparison that judges a sampler. properties.cpp joins the
// lists.
#pragma once

#include <vector>

#include "suites/gate/fuzz/properties.h"

namespace fairdraw::suites::fuzz {

/// Name of the property that judges whether a call runs at all.
inline constexpr const char* kCallRuns = "call.runs";

std::vector<Property> oracle_properties();        ///< properties that compare with the integer
                                                  ///< model and the real-number oracle
std::vector<Property> relation_properties();      ///< properties that compare two calls of the same
                                                  ///< sampler
std::vector<Property> probability_properties();   ///< rows of probabilities
std::vector<Property> chain_properties();         ///< drafted chains
std::vector<Property> processing_properties();    ///< properties of penalties, biases and bans
std::vector<Property> speculation_properties();   ///< requests with drafts
std::vector<Property> distribution_properties();  ///< draws, by evidence

/// Calls the sampler again with the request `changed`, and expects the same answer. The property
/// applies only to samplers that draw with the seeds of the call.
Judgement expect_same(Subject& subject, const char* what, const harness::Request& changed);

/// Returns whether every id in the request's processing is a token, or the placeholder -1 of a
/// history.
bool has_tokens_alone(const harness::Request& request);

/// Returns the first difference between two answers to `request`. The answers must agree bit for
/// bit in those tokens, statuses, support sizes, masks and probabilities that both have. Returns an
/// empty string if there is no difference.
std::string difference(const harness::Request& request, const harness::Response& a,
                       const harness::Response& b);

}  // namespace fairdraw::suites::fuzz
