// What a sharded call is, before any value is read: its checks, its rules and the layout of its
// summaries, and what all ranks must agree on.
#pragma once

#include <cstdint>

#include "fairdraw/sharded.h"
#include "fairdraw/speculative.h"
#include "sharded/fingerprint.h"
#include "sharded/merged_row.h"

namespace fairdraw::sharded {

/// Boundaries and the shard's number; `columns` are what `vocab_name` says.
Error check_boundaries(const View<const std::int64_t>& boundaries, std::int32_t shard,
                       std::int64_t columns, const char* vocab_name);

/// A matrix without columns, as if it had one: what else there is to check is the same.
template <class Rows>
void widen(Rows& rows) {
  rows.row_stride = rows.row_stride < 1 ? 1 : rows.row_stride;
}
void widen_rows(RowsView& rows);

/// No error, or one that names the field, its value and the allowed range.
Error check_sharded(const ShardedRequest& request, const SampleResult& result);

/// Of a call that is checked; all but the passes.
CallRules rules_of(const ShardedRequest& request, const SampleResult& result,
                   ArraysLie arrays = ArraysLie::on_host);

/// Of rows whose survivors alone are decided, under the filters of so many requests.
CallRules rules_of_survivors(const View<const std::int64_t>& boundaries, TileInput input,
                             const LawFilters& filters, std::int64_t requests);

/// The passes of a call's rows.
void use(CpuTarget target, CallRules& rules);

/// Of all that decides tokens and layouts and is the same on all ranks.
std::uint64_t fingerprint_of(const ShardedRequest& request, const SampleResult& result,
                             ArraysLie arrays = ArraysLie::on_host);

}  // namespace fairdraw::sharded
