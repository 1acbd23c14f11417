// Requests with drafted tokens for speculation.cpp: drafts that meet the target in every
// way, and some requests that fail.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/run/calls/speculation_request.h"
#include "harness/run/checks/check.h"

namespace fairdraw::harness {

struct SpeculationShape {
  DraftLaw distribution = DraftLaw::none;
  bool trees = false;
  bool packed = false;  ///< else padded: places after a request's drafts hold NaN and no token
  SiblingSampling siblings = SiblingSampling::with_replacement;  ///< of trees with a distribution
};

/// Requests `first` to `first + count` of the input's stream: up to 4 drafts each over rows of the
/// source, with the input's parameters on the target's side and on that of the draft's logits; an
/// array of seeds, offsets at which offset + i carries. Drafts are mostly drawn as an engine draws
/// them, with the request's bits. Rows of a draft that must not be read hold NaN. One request of 8
/// has a fault, and some have drafts that their distribution never gives: not of samplers that take
/// none (DraftContract). Where the input has processing, a request takes that of its number, and
/// the history of a row goes on with the drafts before it.
SpeculationRequest make_speculations(const CheckInput& input, std::int64_t first,
                                     std::int64_t count, const SpeculationShape& shape);

/// The filter, dtype or rule of the input that the sampler does not declare; empty: none.
Lack missing_filter(const CheckInput& input);

/// Rewrites the histories of rows after drafts: that of the row before, and the draft between them.
void grow_histories(SpeculationRequest& request);

/// Requests picks[0], picks[1], ... of `request`, which has an array of seeds, packed.
SpeculationRequest pick_requests(const SpeculationRequest& request,
                                 const std::vector<std::int64_t>& picks);

/// The part of request b in an array of `width` values per request; none in an array of none.
std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& values, std::int64_t b,
                                  std::int64_t width);

}  // namespace fairdraw::harness
