// Columns of each shard, with the tiles that are whole in the shard.
//
// In the order of ids, the columns of a shard are a head, whole tiles, and a tail. The head is the
// end of a tile that begins in an earlier shard, and the tail is the beginning of a tile that ends
// in a later shard. The last tile of the vocabulary counts as a whole tile even if it has fewer
// than 256 ids. If all columns of a shard are inside a single tile, they are either all head or all
// tail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fairdraw/tile_index.h"

namespace fairdraw::sharded {

/// Ids from `begin` to `end`, where `end` is not included.
struct Ids {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool holds(std::int64_t id) const { return id >= begin && id < end; }
};

class Partition {
 public:
  Partition() = default;
  /// `boundaries` has shards + 1 ids, which begin with 0 and never decrease.
  explicit Partition(std::vector<std::int64_t> boundaries) : boundaries_(std::move(boundaries)) {}

  int shards() const { return static_cast<int>(boundaries_.size()) - 1; }
  std::int64_t vocab() const { return boundaries_.back(); }

  Ids columns(int shard) const {
    const auto s = static_cast<std::size_t>(shard);
    return {boundaries_[s], boundaries_[s + 1]};
  }
  std::int64_t max_columns() const {
    std::int64_t most = 0;
    for (int shard = 0; shard < shards(); ++shard) most = std::max(most, columns(shard).size());
    return most;
  }
  Ids whole_tiles(int shard) const {
    const Ids all = columns(shard);
    const std::int64_t begin = std::min(tiles_of(all.begin) * kTileSize, all.end);
    const std::int64_t end = all.end == vocab() ? all.end : all.end / kTileSize * kTileSize;
    return {begin, std::max(begin, end)};
  }
  Ids head(int shard) const { return {columns(shard).begin, whole_tiles(shard).begin}; }
  Ids tail(int shard) const { return {whole_tiles(shard).end, columns(shard).end}; }
  /// Returns the number of values of the shard that are in cut tiles.
  std::int64_t cut_values(int shard) const { return head(shard).size() + tail(shard).size(); }
  std::int64_t max_cut_values() const {
    std::int64_t most = 0;
    for (int shard = 0; shard < shards(); ++shard) most = std::max(most, cut_values(shard));
    return most;
  }

 private:
  std::vector<std::int64_t> boundaries_;
};

}  // namespace fairdraw::sharded
