// What a sharded call is, before any value is read: its checks, its rules and the layout of its
// summaries, and what all ranks must agree on.
#pragma once

#include <cstdint>

#include "fairdraw/sharded.h"
#include "sharded/fingerprint.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// No error, or one that names the field, its value and the allowed range.
Error check_sharded(const ShardedRequest& request, const SampleResult& result);
/// Refuses top_n_sigma, which needs the whole row. Arrays in device memory are refused unread.
Error check_top_n_sigma(const SampleRequest& rows, bool arrays_are_readable);

/// Of a call that is checked; all but the passes.
CallRules rules_of(const ShardedRequest& request, const SampleResult& result,
                   ArraysLie arrays = ArraysLie::on_host);

/// The passes of a call's rows.
void use(CpuTarget target, CallRules& rules);

/// Of all that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
