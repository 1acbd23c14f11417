// A copy of a batch's slots on a device, as the host sees it: what the copy holds, what has to be
// brought to it, and whose the tokens are that were drawn there.
//
// The device runs ahead: it appends tokens to its own copy of a request's history, and the host
// learns of them later. So two things belong to the device while a request is in the batch: the
// length of its output, and its offset. All others belong to the host. When a request moves, the
// device moves its own two; when it has left, tokens that were drawn for it meanwhile are dropped.
// A request to which the caller appends tokens has left and entered again with another history.
//
// A request is known by the number that it got as it entered (SlotArrays::entry), a state of the
// slots by its epoch: records of calls carry the epoch in which they were drawn.
//
// No device here: batch_on_device.h moves the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "serving/batch_slots.h"

namespace fairdraw::serving {

/// What one call of `sample` over a batch drew for one slot, as the device writes it. A step is one
/// call, or with several rows a request one for the first rows, one for the second ones and so on.
struct CallRecord {
  std::int32_t token;   ///< -1: none
  RowStatus status;     ///< of the request in the step so far
  std::uint32_t call;   ///< number of the call modulo 2^31, and kFirstOfStep
  std::uint32_t epoch;  ///< BatchMirror::epoch() when the call ran
};
static_assert(sizeof(CallRecord) == 16);

inline constexpr std::uint32_t kFirstOfStep = std::uint32_t{1} << 31;

class BatchMirror {
 public:
  explicit BatchMirror(BatchSlots& slots);

  const BatchSlots& slots() const { return slots_; }

  /// False where update() has something to bring.
  bool is_current() const {
    return changes_ == slots_.changes && bitmask_changes_ == slots_.bitmask_changes;
  }

  /// The copy will hold what is in the slots now. Allocates a little, for the new epoch.
  void update();

  // What the last update found.
  std::uint32_t epoch() const { return epochs_.back().number; }
  /// [capacity]: the slot of the copy that holds what belongs in this one; -1: none, or empty.
  const std::vector<std::int32_t>& from() const { return from_; }
  /// Occupied slots that the copy does not hold as they are, in rising order.
  const std::vector<std::int32_t>& changed() const { return changed_; }
  /// True where the host's bitmask was set or cleared as a whole.
  bool has_new_bitmask() const { return has_new_bitmask_; }
  /// True where some request has penalties, biases or bans.
  bool uses_processing() const { return uses_processing_; }

  // Tokens from the copy.

  /// Gives the tokens of a call, [capacity], to the requests that they were drawn for, where those
  /// are still in the batch. Calls come in the order in which they ran.
  Error deliver(const CallRecord* call);
  /// The slot on the host of what the copy has in `slot`; -1: it has left.
  std::int32_t slot_on_host(std::int32_t slot) const;
  /// The same for tokens that follow what the host has, in a slot of the host.
  void deliver(std::int32_t slot_on_host, const std::int32_t* tokens, std::int64_t count);
  /// No calls of earlier epochs will be delivered.
  void forget_earlier_epochs();

 private:
  struct Epoch {
    std::uint32_t number;
    std::vector<std::uint64_t> entries;  // [capacity]
  };
  std::int32_t find(std::uint64_t entry, std::int32_t slot) const;
  bool has_processing(std::int32_t slot) const;

  BatchSlots& slots_;
  std::uint64_t changes_, bitmask_changes_;
  std::deque<Epoch> epochs_;  // never empty; the last one is the copy's
  std::vector<std::int32_t> from_, changed_;
  bool has_new_bitmask_ = false;
  bool uses_processing_ = false;
};

}  // namespace fairdraw::serving
