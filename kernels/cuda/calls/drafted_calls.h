// What calls with drafted tokens share on the GPU, over whole rows and over a shard's columns:
// defined in speculation.cpp.
#pragma once

#include <cstdint>
#include <string>

#include "common/bump_allocator.h"
#include "cuda/device/device_pointers.h"
#include "cuda/speculation/drafted_rows.h"

namespace fairdraw::cuda {

/// Room for the parameters of rows.
RowSettings place_settings(BumpAllocator& memory, std::int64_t rows);

void check_filters(DevicePointers& pointers, const LawFilters& filters, const std::string& prefix);
void check_target(DevicePointers& pointers, const TargetRows& target);

/// Rows and requests are blocks of launches, eight at most each.
Error check_sizes(const TargetRows& target);

}  // namespace fairdraw::cuda
