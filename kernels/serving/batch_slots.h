// Slots of a batch state: writes requests into arrays, removes requests, and exchanges slots.
//
// Only the functions find... and check... make checks, which batch_state.cpp calls before it
// writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/arguments.h"
#include "serving/slot_arrays.h"

namespace fairdraw::serving {

inline constexpr std::uint32_t kAllAllowed = 0xffffffffU;

/// Block of memory that is initialised with zeros and aligned to a cache line.
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
  std::vector<std::uint32_t> allowed;  // allowed bits [capacity, words], empty until a bitmask is
                                       // set

  // A copy of the slots in other memory is up to date as long as these counts do not change
  // (batch_mirror.h). Tokens that are pushed do not change these counts.
  std::uint64_t entries = 0;          ///< number of entry numbers that requests have received
                                      ///< (SlotArrays::entry)
  std::uint64_t changes = 0;          ///< number of changes of the slots' contents
  std::uint64_t bitmask_changes = 0;  ///< number of changes of the whole bitmask
  bool is_mirrored = false;  ///< whether a copy on a device supplies the tokens; a second copy
                             ///< would miss tokens

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
  /// Finds the slot of a new request: the `slot` that the caller names, which must be free, or the
  /// free slot with the lowest number.
  Error choose_slot(RequestId id, std::int32_t& slot) const;

  void enter(std::int32_t slot, RequestId id, const BatchRequest& request);
  void leave(std::int32_t slot);
  void exchange(std::int32_t first, std::int32_t second);
  /// Marks that the history of a slot no longer consists of the tokens drawn for the slot. A copy
  /// of the slots then treats the slot as if it had another request.
  void mark_history_changed(std::int32_t slot);
  /// Appends drawn tokens to the history of a slot, and advances the slot's offset.
  void push(std::int32_t slot, const std::int32_t* drawn, std::int64_t count);
  RequestSnapshot snapshot_of(std::int32_t slot) const;

  /// Creates the bitmask with all bits set, unless there is a bitmask already.
  void need_allowed();
  std::uint32_t* allowed_row(std::int32_t slot) { return allowed.data() + slot * words(); }

 private:
  void clear(std::int32_t slot);
  void count_tokens(std::int32_t slot);
  void forget_tokens(std::int32_t slot);
  bool has_history_rule(std::int32_t slot) const;
  void write_prompt_to_read(std::int32_t slot, const BatchRequest& request);
  void write_list(ListName name, std::int32_t slot, const std::vector<std::int32_t>& values);
  std::vector<std::int32_t> copy_of(ListName name, std::int32_t slot) const;
  template <class OfOutput, class OfPrompt>
  void for_each_dense(std::int32_t slot, OfOutput of_output, OfPrompt of_prompt);
};

/// Access for the library's own classes to the slots of a batch state.
struct BatchAccess {
  static BatchSlots& slots_of(BatchState& state);
};

}  // namespace fairdraw::serving
