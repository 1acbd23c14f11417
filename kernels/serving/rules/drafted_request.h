// Positions of the rows and drafts of requests that have drafted tokens. The positions are the same
// for every backend.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/speculative.h"

namespace fairdraw {

/// Rows and drafts of one request.
struct DraftedRequest {
  std::int64_t row = 0;     ///< number of the request's first row of the target
  std::int64_t place = 0;   ///< position of the first draft token of the request
  std::int64_t drafts = 0;  ///< number of the request's drafted tokens
};

/// Draft tokens of a call.
struct Drafts {
  std::int64_t max_draft = 0;
  View<const std::int32_t> tokens;
  View<const std::int32_t> lengths;  ///< optional
};

/// Finds request b. Returns the status of a request, which is inactive, invalid_draft_length,
/// index_out_of_range (for a drafted token) or ok.
FAIRDRAW_HOST_DEVICE inline RowStatus find_drafted_request(const TargetRows& target,
                                                           const Drafts& drafts, std::int64_t b,
                                                           DraftedRequest& request) {
  if (target.active.given() && target.active.data[b] == 0) return RowStatus::inactive;
  const std::int64_t most = drafts.max_draft;
  const bool packed = target.row_begins.given();
  const std::int64_t begin = packed ? target.row_begins.data[b] : b * (most + 1);
  const std::int64_t end = packed ? target.row_begins.data[b + 1] : begin + most + 1;
  // If earlier requests had no row (begin < b), the drafts of this request would begin before the
  // array. Each test precedes the subtraction that could overflow without the test.
  if (begin < b || end <= begin || end > target.logits.rows) {
    return RowStatus::invalid_draft_length;
  }
  const std::int64_t places = end - begin - 1;
  request.row = begin;
  request.place = begin - b;
  request.drafts = drafts.lengths.given() ? drafts.lengths.data[b] : places;
  if (request.drafts < 0 || request.drafts > (places < most ? places : most) ||
      request.drafts > drafts.tokens.size - request.place) {
    return RowStatus::invalid_draft_length;
  }
  for (std::int64_t i = 0; i < request.drafts; ++i) {
    const std::int32_t token = drafts.tokens.data[request.place + i];
    if (token < 0 || token >= target.logits.vocab) return RowStatus::index_out_of_range;
  }
  return RowStatus::ok;
}

}  // namespace fairdraw
