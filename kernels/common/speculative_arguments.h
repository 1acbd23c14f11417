// Checks of the arguments of fairdraw/speculative.h, the same for every backend (arguments.h).
#pragma once

#include "common/arguments.h"
#include "fairdraw/speculative.h"

namespace fairdraw {

/// The target's rows, with nothing that belongs to a request: what reads and filters a row.
SampleRequest rows_of(const TargetRows& target);

Error check_verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result);
Error check_verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result);

Error check_chain(const ChainSpeculativeRequest& request, const ChainSpeculativeResult& result);

}  // namespace fairdraw
