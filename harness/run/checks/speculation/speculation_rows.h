// Makes requests with drafted tokens for speculation.cpp, with all kinds of pairs of draft and
// target, and some requests that must fail.
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
  bool packed = false;  ///< false: padded; places after a request's drafts have NaN and no token
  SiblingSampling siblings = SiblingSampling::with_replacement;  ///< for trees with a distribution
};

/// Returns requests `first` to `first + count` of the input's stream: up to 4 drafts each over rows
/// of the source, with the input's parameters for the target and for the draft's logits, an array
/// of seeds, and offsets that sometimes make offset + i carry. Most drafts are drawn as an engine
/// draws them, with the random bits of the request. Rows of a draft that must not be read have NaN.
/// One request of 8 has a fault, and some requests have drafts that their distribution never gives,
/// except for samplers that take none (DraftContract). If the input has processing, a request has
/// the processing of its number, and the history of a row continues with the drafts before the row.
SpeculationRequest make_speculations(const CheckInput& input, std::int64_t first,
                                     std::int64_t count, const SpeculationShape& shape);

/// Returns the filter, dtype or rule of the input that the sampler does not declare, or an empty
/// one if it declares all.
Lack missing_filter(const CheckInput& input);

/// Rewrites the histories of rows after drafts: each is the history of the parent's row, followed
/// by the draft.
void grow_histories(SpeculationRequest& request);

/// Returns the requests picks[0], picks[1], ... of `request`, packed. Precondition: the request has
/// an array of seeds.
SpeculationRequest pick_requests(const SpeculationRequest& request,
                                 const std::vector<std::int64_t>& picks);

/// Returns the part of request b in an array of `width` values per request, or an empty list if the
/// array is empty.
std::vector<std::int32_t> part_of(const std::vector<std::int32_t>& values, std::int64_t b,
                                  std::int64_t width);

}  // namespace fairdraw::harness
