// Properties of a sharded call that are known before any value is read: the checks and the rules of
// the call, the layout of its summaries, and the data on which all ranks must agree.
#pragma once

#include <cstdint>

#include "fairdraw/sharded.h"
#include "sharded/fingerprint.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// Returns no error, or an error that names the field, its value and the allowed range.
Error check_sharded(const ShardedRequest& request, const SampleResult& result);
/// Rejects top_n_sigma and the filters by probability, because they need the whole row. If
/// parameters are arrays in device memory, they are rejected without being read.
Error check_row_filters(const SampleRequest& rows, bool arrays_are_readable);

/// Returns the rules of a call that has been checked, except for the passes of the rules.
CallRules rules_of(const ShardedRequest& request, const SampleResult& result,
                   ArraysLie arrays = ArraysLie::on_host);

/// Sets the passes with which the rows of the call are processed.
void use(CpuTarget target, CallRules& rules);

/// Computes a hash of all data that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
