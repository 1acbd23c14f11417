// Hash table in the shared memory of a block, with the tokens of a row that penalties and biases
// change. The table is used if the lists have up to kTableEntries ids in total.
//
// All threads of the block fill the table at the same time. The content of a table slot (a count,
// and the last place in the list of biases) is computed by integer atomics, so it does not depend
// on the order of threads. Only the slot that a token gets may depend on this order. The hash is
// multiplicative, and collisions are resolved by linear probing; at most half of the table is full.
#pragma once

#include <cstdint>

#include "common/processing_rules.h"

namespace fairdraw::cuda {

inline constexpr int kTableEntries = 1024;

struct EditTable {
  static constexpr int kSlots = 2 * kTableEntries;
  static constexpr int kNoToken = -1;
  /// Value that is added for each occurrence of a token in the prompt or the output. The digits
  /// below kSeen count the occurrences of the token that the penalties count.
  static constexpr std::int32_t kSeen = 1 << 20;
  static constexpr std::int32_t kCounted = kSeen + 1;  ///< occurrence that is counted
  static_assert(kTableEntries < kSeen && kTableEntries * std::int64_t{kCounted} < INT32_MAX);

  std::int32_t token[kSlots];
  std::int32_t count[kSlots];
  std::int32_t last_bias[kSlots];  ///< last place of the token in the list of biases, or -1 if the
                                   ///< token has no bias
  float logit[kSlots];
  float bias[kTableEntries];  ///< bias that each entry of the list has

  /// Clears the table; a barrier must follow before the first add().
  __device__ void clear(int thread, int threads) {
    for (int i = thread; i < kSlots; i += threads) {
      token[i] = kNoToken;
      count[i] = 0;
      last_bias[i] = -1;
    }
  }

  /// Adds an occurrence, which is kSeen or kCounted.
  __device__ void add_seen(std::int32_t id, float x, std::int32_t occurrence) {
    atomicAdd(&count[slot_of(id, x)], occurrence);
  }
  __device__ void add_bias(std::int32_t id, float x, int place, float value) {
    bias[place] = value;
    atomicMax(&last_bias[slot_of(id, x)], place);
  }

 private:
  __device__ int slot_of(std::int32_t id, float x) {
    constexpr std::uint32_t kGoldenRatio = 0x9e3779b1U;
    constexpr int kSlotBits = 11;
    static_assert(kSlots == 1 << kSlotBits);
    int slot =
        static_cast<int>((static_cast<std::uint32_t>(id) * kGoldenRatio) >> (32 - kSlotBits));
    while (true) {
      const std::int32_t found = atomicCAS(&token[slot], kNoToken, id);
      if (found == kNoToken) logit[slot] = x;  // every thread writes the same value
      if (found == kNoToken || found == id) return slot;
      slot = (slot + 1) % kSlots;
    }
  }
};

}  // namespace fairdraw::cuda
