// What calls over several shards on one GPU have in common: a device state and results for each
// shard, and where a vocabulary is split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "harness/adapters/device_arrays.h"
#include "harness/contract/call_arrays.h"

namespace fairdraw::harness {

inline constexpr int kBitsOfWord = 32;

/// Where the vocabulary is split: at whole words of masks, as evenly as these are.
std::vector<std::int64_t> word_boundaries(std::int64_t vocab, int shards);

/// Columns of a call's processing, from a word of masks on.
void split_processing(std::int64_t first, LogitsProcessing& processing);

/// Calls with a device state for each shard, which are given back when the call is over. Returns
/// the message of the first error.
std::string on_devices(int shards,
                       const std::function<Error(const std::vector<DeviceState*>&)>& call);

/// Verifies drafted chains or trees, a shard a state; all have to say the same.
Error verify_in_shards(const std::vector<DeviceState*>& states, const fairdraw_verification& call);
/// The same of chains of which probabilities are given.
Error verify_in_shards(const std::vector<DeviceState*>& states, const fairdraw_chain& call);

/// A call whose results are arrays of its own, with what the caller's hold.
template <class Call>
class OwnResults {
 public:
  explicit OwnResults(const Call& given) : call_(given) {
    each_array(call_, [this](auto& pointer, const CallArray& array) {
      using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
      if constexpr (!std::is_const_v<Value>) {
        if (pointer == nullptr) return;
        const auto* bytes = reinterpret_cast<const std::byte*>(pointer);
        arrays_.emplace_back(bytes, bytes + array.bytes());
        pointer = reinterpret_cast<Value*>(arrays_.back().data());
      }
    });
  }
  OwnResults(const OwnResults&) = delete;
  OwnResults& operator=(const OwnResults&) = delete;

  Call& call() { return call_; }
  const std::deque<std::vector<std::byte>>& arrays() const { return arrays_; }

 private:
  Call call_;
  std::deque<std::vector<std::byte>> arrays_;
};

/// Copies the results of the first shard into those of a call, if all shards have the same. Arrays
/// for which is_of_columns(place) holds are left to the caller: each shard has its columns of them.
template <class Shard, class Call, class IsOfColumns>
Error copy_agreed_results(const std::deque<Shard>& shards, const Call& call,
                          const IsOfColumns& is_of_columns) {
  std::size_t number = 0;
  Error disagreement;
  each_array(call, [&](const auto& pointer, const CallArray& array) {
    using Value = std::remove_pointer_t<std::remove_reference_t<decltype(pointer)>>;
    if constexpr (!std::is_const_v<Value>) {
      if (pointer == nullptr) return;
      const std::size_t mine = number++;
      if (is_of_columns(static_cast<const void*>(pointer))) return;
      const std::vector<std::byte>& first = shards.front().arrays()[mine];
      for (const Shard& shard : shards) {
        if (shard.arrays()[mine] == first) continue;
        disagreement.code = ErrorCode::unsupported;
        disagreement.message = "shards disagree about ";
        disagreement.message += array.name;
      }
      std::memcpy(pointer, first.data(), first.size());
    }
  });
  return disagreement;
}

}  // namespace fairdraw::harness
