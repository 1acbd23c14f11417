// What a batch state refuses: options, requests, snapshots and tokens out of their ranges, each
// with the field, its value and the range.
#pragma once

#include <cstdint>

#include "fairdraw/batch_state.h"

namespace fairdraw::serving {

Error check_options(const BatchStateOptions& options);
Error check_batch_request(const BatchRequest& request, const BatchStateOptions& options);
/// The request, and output and bitmask that fit it.
Error check_snapshot(const RequestSnapshot& snapshot, const BatchStateOptions& options);
/// Ids in [least, vocab). `field` is what an error calls the list.
Error check_tokens(const char* field, const std::int32_t* tokens, std::int64_t count,
                   std::int32_t least, std::int64_t vocab);

}  // namespace fairdraw::serving
