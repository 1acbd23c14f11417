// Part of a call's workspace for kept sets of rows, after the part for the call itself.
#pragma once

#include <cstdint>

#include "common/bump_allocator.h"
#include "cuda/outputs/kept_sets.h"

namespace fairdraw::cuda {

struct KeptWorkspace {
  TileRows<std::int32_t> keys;  ///< keys of the largest values of tiles, written by the row kernel
  std::uint32_t* words = nullptr;  ///< words of the bit marks of kept tokens
  KeptMarks marks;

  static KeptWorkspace of(std::int64_t rows, std::int64_t vocab, BumpAllocator& memory);
};

}  // namespace fairdraw::cuda
