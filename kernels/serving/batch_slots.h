// The slots of a batch state: requests written into arrays, taken out again, exchanged.
//
// Nothing is checked here but what the find... and check... functions say; batch_state.cpp asks
// them before it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/arguments.h"
#include "serving/slot_arrays.h"

namespace fairdraw::serving {

inline constexpr std::uint32_t kAllAllowed = 0xffffffffU;

/// A block of memory aligned to a cache line, all zero.
class Block {
 public:
  explicit Block(std::int64_t bytes);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* get() const { return data_; }

 private:
  std::byte* data_;
};

struct BatchSlots {
  explicit BatchSlots(const BatchStateOptions& chosen);

  BatchStateOptions options;
  Block block;
  SlotArrays arrays;
  std::unordered_map<RequestId, std::int32_t> by_id;
  std::vector<std::uint32_t> allowed;  // [capacity, words]; empty until a bitmask is set

  // What a copy of the slots elsewhere has to know: it is up to date while these stay what they are
  // (batch_mirror.h). Tokens that are pushed leave them alone.
  std::uint64_t entries = 0;          ///< numbers given out to requests (SlotArrays::entry)
  std::uint64_t changes = 0;          ///< of what is in which slot
  std::uint64_t bitmask_changes = 0;  ///< of all rows of the bitmask
  bool is_mirrored = false;  ///< tokens come from one copy: a second would not learn of them

  std::int64_t words() const { return words_of(options.vocab); }
  bool is_slot(std::int32_t slot) const { return slot >= 0 && slot < options.capacity; }
  bool is_occupied(std::int32_t slot) const { return arrays.active[slot] != 0; }
  const ListArrays& list(ListName name) const { return arrays.list(name); }
  View<const std::int32_t> tokens(ListName name, std::int32_t slot) const {
    return {list(name).list(slot), list(name).length(slot)};
  }

  Error find(RequestId id, std::int32_t& slot) const;
  Error check_slot(const char* field, std::int32_t slot) const;
  Error check_room_for(std::int32_t slot, std::int64_t count) const;
  /// Where a new request goes: the slot that is named, which must be free, or the lowest free one.
  Error choose_slot(RequestId id, std::int32_t& slot) const;

  void enter(std::int32_t slot, RequestId id, const BatchRequest& request);
  void leave(std::int32_t slot);
  void exchange(std::int32_t first, std::int32_t second);
  /// The request of the slot has another history than what was drawn for it: for a copy of the
  /// slots it is another request.
  void mark_history_changed(std::int32_t slot);
  /// Tokens that were drawn: the offset advances.
  void push(std::int32_t slot, const std::int32_t* drawn, std::int64_t count);
  RequestSnapshot snapshot_of(std::int32_t slot) const;

  /// The bitmask, all ones where it was not there.
  void need_allowed();
  std::uint32_t* allowed_row(std::int32_t slot) { return allowed.data() + slot * words(); }

 private:
  void clear(std::int32_t slot);
  void count_tokens(std::int32_t slot);
  void forget_tokens(std::int32_t slot);
  void write_distinct_prompt(std::int32_t slot, const BatchRequest& request);
  void write_list(ListName name, std::int32_t slot, const std::vector<std::int32_t>& values);
  std::vector<std::int32_t> copy_of(ListName name, std::int32_t slot) const;
  template <class OfOutput, class OfPrompt>
  void for_each_dense(std::int32_t slot, OfOutput of_output, OfPrompt of_prompt);
};

/// How the library's own classes access a state.
struct BatchAccess {
  static BatchSlots& slots_of(BatchState& state);
};

}  // namespace fairdraw::serving
