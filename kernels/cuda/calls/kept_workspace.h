// Part of a workspace for kept sets of rows, after the part for their call.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/outputs/kept_sets.h"

namespace fairdraw::cuda {

struct KeptWorkspace {
  TileRows<std::int32_t> keys;     ///< keys of tiles, from the row kernel
  std::uint32_t* words = nullptr;  ///< words of the marks
  KeptMarks marks;

  static KeptWorkspace of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);
};

}  // namespace fairdraw::cuda
