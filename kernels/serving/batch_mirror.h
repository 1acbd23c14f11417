// The host's view of a copy of a batch's slots on a device: the contents of the copy, the updates
// that it needs, and the requests to which its drawn tokens belong.
//
// The device runs ahead: it appends tokens to its copy of a request's history, and the host
// receives them later. So while a request is in the batch, the device owns the length of its output
// and its offset; the host owns everything else. When a request moves, the device moves the
// request's length and offset; when it has left, tokens drawn for it in the meantime are dropped. A
// request to which the caller appends tokens counts as one that left and entered again with another
// history.
//
// A request is identified by its entry number (SlotArrays::entry), a state of the slots by its
// epoch; records of calls carry the epoch in which their tokens were drawn.
//
// This class uses no device: batch_on_device.h moves the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "serving/batch_slots.h"

namespace fairdraw::serving {

/// The result of one call of `sample` over a batch for one slot, as the device writes it. A step is
/// one call; with several rows per request it is one call for all first rows, one for all second
/// rows, etc.
struct CallRecord {
  std::int32_t token;   ///< -1: none
  RowStatus status;     ///< status of the slot's request, in the step so far
  std::uint32_t call;   ///< call number modulo 2^31, and the flag kFirstOfStep
  std::uint32_t epoch;  ///< BatchMirror::epoch() at the time of the call
};
static_assert(sizeof(CallRecord) == 16);

inline constexpr std::uint32_t kFirstOfStep = std::uint32_t{1} << 31;

class BatchMirror {
 public:
  explicit BatchMirror(BatchSlots& slots);

  const BatchSlots& slots() const { return slots_; }

  /// Returns whether the device's copy is up to date, so that update() has nothing to copy.
  bool is_current() const {
    return changes_ == slots_.changes && bitmask_changes_ == slots_.bitmask_changes;
  }

  /// Plans the copy of the slots' present contents to the device. Allocates a little memory, for
  /// the new epoch.
  void update();

  // The following functions return results of the last update.
  std::uint32_t epoch() const { return epochs_.back().number; }
  /// [capacity]: the slot of the copy that has the contents of this slot; -1: no slot has them, or
  /// this slot is empty.
  const std::vector<std::int32_t>& from() const { return from_; }
  /// Occupied slots whose contents differ in the copy, in ascending order.
  const std::vector<std::int32_t>& changed() const { return changed_; }
  /// Returns whether the host's bitmask was set or cleared as a whole.
  bool has_new_bitmask() const { return has_new_bitmask_; }
  /// Returns whether any request has penalties, biases or bans.
  bool uses_processing() const { return uses_processing_; }

  // The following functions deliver tokens from the copy.

  /// Delivers the tokens of a call, [capacity], to the requests for which they were drawn and that
  /// are still in the batch. Calls must be delivered in the order in which they ran.
  Error deliver(const CallRecord* call);
  /// Returns the host's slot of the request in the copy's `slot`; -1: the request has left.
  std::int32_t slot_on_host(std::int32_t slot) const;
  /// Delivers tokens that continue the history of a slot of the host.
  void deliver(std::int32_t slot_on_host, const std::int32_t* tokens, std::int64_t count);
  /// Promises that no calls of earlier epochs will be delivered.
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
  std::deque<Epoch> epochs_;  // never empty; the last epoch is that of the copy
  std::vector<std::int32_t> from_, changed_;
  bool has_new_bitmask_ = false;
  bool uses_processing_ = false;
};

}  // namespace fairdraw::serving
