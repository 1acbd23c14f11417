// The operations of fairdraw/sampling.h as calls of the batch engines: what CPU and GPU share.
#pragma once

#include "fairdraw/sample.h"
#include "fairdraw/sampling.h"

namespace fairdraw {

/// What a draw asks of rows of logits or probabilities, without filters.
inline SampleRequest request_of(const RowsView& rows, const DrawOptions& options) {
  SampleRequest request;
  request.logits = rows;
  request.seed = options.seed;
  request.offset = options.offset;
  request.indices = options.indices;
  request.num_samples = options.num_samples;
  return request;
}

/// Where the results of a draw go.
inline SampleResult result_of(const DrawResult& draws) {
  SampleResult result;
  result.tokens = draws.tokens;
  result.statuses = draws.statuses;
  return result;
}

}  // namespace fairdraw
