// What a sharded call is, before any value is read: its checks, its rules and the layout of its
// summaries, and what all ranks must agree on.
#pragma once

#include <cstdint>

#include "fairdraw/sharded.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// Where arrays of parameters, seeds and lists lie. Those of a device are not read: a call that has
/// such parameters may be filtered, and ranks are told apart by all else.
enum class ArraysLie { on_host, on_device };

/// No error, or one that names the field, its value and the allowed range.
Error check_sharded(const ShardedRequest& request, const SampleResult& result);

/// Of a call that is checked; all but the passes.
CallRules rules_of(const ShardedRequest& request, const SampleResult& result,
                   ArraysLie arrays = ArraysLie::on_host);

/// The passes of a call's rows.
void use(CpuTarget target, CallRules& rules);

/// Of all that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
