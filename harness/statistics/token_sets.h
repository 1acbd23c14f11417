// Makes sets of tokens that samplers are known to treat differently from other tokens. The sets are
// fixed before any draw, because a vector lane, a tile, the head, the tail or the last token may go
// missing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fairdraw::statistics {

/// A partition of tokens into numbered sets, some tokens of which may be in no set.
struct TokenSets {
  std::string name;                     ///< name of the sets; in "lane of 32", set 5 is lane 5
  std::vector<std::uint32_t> group_of;  ///< [vocab] set of each token, or kNoCell
  double weight = 1;                    ///< weight of the sets, relative to the weights of other
                                        ///< TokenSets
};

/// Returns sets for a target distribution [vocab]. Zeros are allowed in the distribution; tokens of
/// probability 0 are in no set. There are lanes of 32, 128 and 1024 ids, tiles of 1024 ids, and
/// sixteenths of the vocabulary. Other sets have the ids below each power of 2, the ranks from each
/// power of 2 to the next, or the ranks from each power of 2 on. There are 32 buckets of equal
/// mass. Single tokens are the 64 most likely ones, the first, the last and the least likely
/// (boundary) token. Two sets have the tokens tied with the least and with the most likely token.
/// Each kind of set has the same weight as every other kind. Ranks are by decreasing probability;
/// of equal tokens, the lower id comes first.
std::vector<TokenSets> directed_sets(std::span<const double> probability);

}  // namespace fairdraw::statistics
