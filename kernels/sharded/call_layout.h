// Properties of a sharded call that are known before any value is read: its checks, its rules, the
// layout of its summaries, and the data on which all ranks must agree.
#pragma once

#include <cstdint>

#include "fairdraw/sharded.h"
#include "sharded/fingerprint.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// Returns no error, or an error that names the field, its value and the allowed range.
Error check_sharded(const ShardedRequest& request, const SampleResult& result);
/// Rejects top_n_sigma, which needs the whole row. Parameter arrays in device memory are rejected
/// unread.
Error check_top_n_sigma(const SampleRequest& rows, bool arrays_are_readable);

/// Returns the rules of a checked call, except for its passes.
CallRules rules_of(const ShardedRequest& request, const SampleResult& result,
                   ArraysLie arrays = ArraysLie::on_host);

/// Sets the passes by which the call's rows are processed.
void use(CpuTarget target, CallRules& rules);

/// Hashes everything that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
