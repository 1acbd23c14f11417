// Keys and histories of marked rows (fairdraw_batch.mark_key), from seeds.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/run/calls/request.h"

namespace fairdraw::harness {

/// The number of ids of a context, and the number of ids of a history, which has room for a context
/// twice and for one id between the two.
inline constexpr std::int32_t kMarkWindow = 4;
inline constexpr std::int64_t kMarkOutput = 2 * kMarkWindow + 1;

/// Returns a text for the ids of cases: "by_key", "by_key_and_seed", "green_list".
const char* to_string(MarkScheme scheme);

/// Returns a key, which is not 0.
std::uint64_t mark_key(std::uint64_t seed, std::uint64_t index);

/// Returns a history [kMarkOutput] whose contexts of every size are new. Precondition: vocab is at
/// least 2.
std::vector<std::int32_t> new_context(std::uint64_t seed, std::int64_t vocab);

/// Returns a history [kMarkOutput] whose context has occurred before, for every size up to
/// kMarkWindow.
std::vector<std::int32_t> repeated_context(std::uint64_t seed, std::int64_t vocab);

/// Adds the scheme to a request, and to each row a key and a new context of kMarkWindow ids.
void mark_rows(MarkScheme scheme, std::uint64_t seed, Request& request);

/// Changes the keys and contexts of a request of equal marked rows, so that every row has the
/// distribution of an unmarked one. Half of the rows have keys of their own, one in four has a key
/// that all of these share and a repeated context, and one in four has no key.
void vary_marks(std::uint64_t seed, Request& request);

}  // namespace fairdraw::harness
