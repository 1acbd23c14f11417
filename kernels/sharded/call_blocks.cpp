#include "sharded/call_blocks.h"

#include <string>

#include "common/arguments.h"

namespace fairdraw::sharded {

void CallBlocks::begin(int shards, std::uint64_t fingerprint) {
  shards_ = shards;
  fingerprint_ = fingerprint;
  exchange_ = 0;
}

std::byte* CallBlocks::start(std::size_t bytes) {
  block_.assign(sizeof(BlockHeader) + bytes, std::byte{0});
  write_at(block_.data(), BlockHeader{kMagic, exchange_, fingerprint_});
  return block_.data() + sizeof(BlockHeader);
}

Error CallBlocks::take(const std::byte* blocks) {
  for (int shard = 0; shard < shards_; ++shard) {
    const auto header =
        read_at<BlockHeader>(blocks + static_cast<std::size_t>(shard) * block_.size());
    const std::string name = "block of shard " + std::to_string(shard);
    if (header.magic != kMagic) {
      return out_of_range(name, "something else", "a block of a sharded call");
    }
    if (header.exchange != exchange_) {
      return out_of_range(name, "of exchange " + std::to_string(header.exchange),
                          "of exchange " + std::to_string(exchange_));
    }
    if (header.fingerprint != fingerprint_) {
      return out_of_range(name, "of another call",
                          "the same boundaries, parameters, seeds, offsets, lists and results as "
                          "this shard's");
    }
  }
  ++exchange_;
  return {};
}

std::vector<const std::byte*> CallBlocks::parts(const std::byte* blocks) const {
  std::vector<const std::byte*> found;
  for (int shard = 0; shard < shards_; ++shard) {
    found.push_back(blocks + static_cast<std::size_t>(shard) * block_.size() + sizeof(BlockHeader));
  }
  return found;
}

}  // namespace fairdraw::sharded
