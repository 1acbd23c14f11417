// Part of a call's workspace for the kept sets of rows, which follows the part for the call itself.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/outputs/kept_sets.h"

namespace fairdraw::cuda {

struct KeptWorkspace {
  TileRows<std::int32_t> keys;     ///< keys of the largest value of each tile, which the row kernel
                                   ///< writes
  std::uint32_t* words = nullptr;  ///< words of bits that mark the kept tokens
  KeptMarks marks;

  static KeptWorkspace of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);
};

}  // namespace fairdraw::cuda
