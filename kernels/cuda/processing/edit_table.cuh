// Tokens of a row that penalties and biases change, in a block's hash table in shared memory, for
// lists of up to kTableEntries ids together.
//
// All threads fill it at once. A slot's content (a count, the last place in the list of biases) is
// made by atomics on integers, so it does not depend on their order; only the choice of a token's
// slot may. Linear probing from a multiplicative hash: the table is at most half full.
#pragma once

#include <cstdint>

#include "common/processing_rules.h"

namespace fairdraw::cuda {

inline constexpr int kTableEntries = 1024;

struct EditTable {
  static constexpr int kSlots = 2 * kTableEntries;
  static constexpr int kNoToken = -1;
  /// Added each time that a token is in prompt or output. The digits below count its times in the
  /// output.
  static constexpr std::int32_t kSeen = 1 << 20;
  static_assert(kTableEntries < kSeen && kTableEntries * (std::int64_t{kSeen} + 1) < INT32_MAX);

  std::int32_t token[kSlots];
  std::int32_t count[kSlots];
  std::int32_t last_bias[kSlots];  ///< place in the list of biases; -1: none
  float logit[kSlots];
  float bias[kTableEntries];  ///< biases of the list

  /// Clears the table, before any add(), with a barrier between them.
  __device__ void clear(int thread, int threads) {
    for (int i = thread; i < kSlots; i += threads) {
      token[i] = kNoToken;
      count[i] = 0;
      last_bias[i] = -1;
    }
  }

  __device__ void add_output(std::int32_t id, float x) {
    atomicAdd(&count[slot_of(id, x)], kSeen + 1);
  }
  __device__ void add_prompt(std::int32_t id, float x) { atomicAdd(&count[slot_of(id, x)], kSeen); }
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
      if (found == kNoToken) logit[slot] = x;  // the same value, whichever thread is first
      if (found == kNoToken || found == id) return slot;
      slot = (slot + 1) % kSlots;
    }
  }
};

}  // namespace fairdraw::cuda
