// Converts the library's statuses to the plain integers of the contract.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/types.h"

namespace fairdraw::harness {

inline std::vector<RowStatus> statuses_for(const std::int32_t* wanted, std::int64_t size) {
  return std::vector<RowStatus>(static_cast<std::size_t>(wanted != nullptr ? size : 0));
}

inline View<RowStatus> view_of(std::vector<RowStatus>& statuses) {
  return {statuses.data(), static_cast<std::int64_t>(statuses.size())};
}

inline void write_statuses(const std::vector<RowStatus>& statuses, std::int32_t* target) {
  std::transform(statuses.begin(), statuses.end(), target,
                 [](RowStatus status) { return static_cast<std::int32_t>(status); });
}

}  // namespace fairdraw::harness
