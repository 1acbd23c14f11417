// Rows in device memory for tests of tiles, and the ways to spread a row over thread blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device/tile_spread.h"
#include "tests/cuda/arrays.h"
#include "tests/tiles/tile_rows.h"

namespace fairdraw::suites {

/// Returns ways to spread a row: with fewer and with more warps than tiles, whole and odd numbers
/// of warps, and each size of cluster. Without clusters, all spreads have one block.
inline std::vector<cuda::TileSpread> tile_spreads() {
  std::vector<cuda::TileSpread> spreads = {{1, 32}, {1, 512}};
  if (cuda::is_available(cuda::Path::cluster)) {
    for (const cuda::TileSpread& spread :
         {cuda::TileSpread{2, 96}, {4, 512}, {8, 128}, {16, 32}, {16, 512}}) {
      spreads.push_back(spread);
    }
  }
  return spreads;
}

/// Returns ways to spread a row for filter_tiles: one block, and clusters of every size, with at
/// least 256 threads.
inline std::vector<cuda::TileSpread> filter_spreads() {
  std::vector<cuda::TileSpread> spreads = {{1, 256}, {1, 512}, {1, 512, true}};
  if (cuda::is_available(cuda::Path::cluster)) {
    spreads.insert(spreads.end(), {{2, 512}, {4, 256, true}, {8, 384}, {16, 512, true}, {2, 256}});
  }
  return spreads;
}

inline std::string describe(const cuda::TileSpread& spread) {
  return std::to_string(spread.blocks) + " blocks of " + std::to_string(spread.threads) +
         (spread.is_alone ? ", each on an SM of its own" : "");
}

/// Returns one row as a matrix in device memory, with the same byte offset into its allocation as
/// on the host.
inline RowsView rows_on_device(const RandomTileRow& row, DeviceArrays& arrays) {
  return {arrays.in(row.memory) + row.shift, row.dtype, 1, row.vocab(), row.vocab()};
}

inline BitRows<const std::uint32_t> allowed_on_device(const RandomTileRow& row,
                                                      DeviceArrays& arrays) {
  if (row.allowed.empty()) return {};
  return {arrays.in(row.allowed), 1, static_cast<std::int64_t>(row.allowed.size())};
}

/// Returns a vocabulary size for a random row: around tiles, around whole vectors, of real models,
/// or the largest.
inline std::int64_t tile_vocab(std::uint64_t number) {
  constexpr std::int64_t kVocabs[] = {1,   2,   31,   255,  256,   257,   300,   504,
                                      512, 513, 1003, 4096, 10007, 32000, 50257, 66000};
  constexpr std::uint64_t kRarely = 97;  // a prime, so that every kind of random row occurs
  if (number % kRarely == 0) return kMaxVocab - static_cast<std::int64_t>(number / kRarely % 2);
  return kVocabs[number % std::size(kVocabs)];
}

}  // namespace fairdraw::suites
