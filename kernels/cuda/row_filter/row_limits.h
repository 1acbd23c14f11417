// What bounds a launch over rows: the rows' vectors, and the device. Defined next to the row
// kernel's launcher (filter_rows.cpp).
#pragma once

#include "cuda/row_filter/row_shape.h"

namespace fairdraw::cuda {

/// Vectors of 16 bytes that the widest of the rows touches. Where not every row starts at a
/// boundary, up to one vector less one value comes before it.
std::int64_t vectors_of(const RowsView& rows);

/// Of the current device.
cudaError_t limits_of_device(GpuLimits& gpu);

}  // namespace fairdraw::cuda
