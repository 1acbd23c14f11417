// What kept sets of rows take of a workspace, behind what their call takes.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/outputs/kept_sets.h"

namespace fairdraw::cuda {

struct KeptWorkspace {
  TileRows<std::int32_t> keys;     ///< the row kernel's
  std::uint32_t* words = nullptr;  ///< the marks
  KeptMarks marks;

  static KeptWorkspace of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);
};

}  // namespace fairdraw::cuda
