// Checks by which a batch state rejects options, requests, snapshots and tokens that are out of
// range. Each error names the field, its value and the allowed range.
#pragma once

#include <cstdint>

#include "fairdraw/batch_state.h"

namespace fairdraw::serving {

Error check_options(const BatchStateOptions& options);
Error check_batch_request(const BatchRequest& request, const BatchStateOptions& options);
/// Checks the request of a snapshot, and checks that the snapshot's output and bitmask fit the
/// request.
Error check_snapshot(const RequestSnapshot& snapshot, const BatchStateOptions& options);
/// Checks that all ids are in [least, vocab). Error messages use the name `field` for the list.
Error check_tokens(const char* field, const std::int32_t* tokens, std::int64_t count,
                   std::int32_t least, std::int64_t vocab);

}  // namespace fairdraw::serving
