// View that the host has of a copy of a batch's slots on a device: the contents of the copy, the
// updates that the copy needs, and the requests to which its drawn tokens belong.
//
// The device runs ahead of the host: it appends tokens to its copy of a request's history, and the
// host receives these tokens later. So while a request is in the batch, the device owns the length
// of the request's output and its offset, and the host owns all other data. When a request moves,
// the device moves the request's length and offset. When a request has left, tokens that were drawn
// for it in the meantime are dropped. If the caller appends tokens to a request, the request counts
// as one that left and entered again with another history.
//
// A request is identified by its entry number (SlotArrays::entry), and a state of the slots by its
// epoch. The record of a call has the epoch in which its tokens were drawn.
//
// This class does not use the device; batch_on_device.h moves the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "serving/batch_slots.h"

namespace fairdraw::serving {

/// Result of one call of `sample` over a batch for one slot, as the device writes it. A step
/// usually consists of one call. If requests have several rows, the step has one call for all first
/// rows, one for all second rows, and so on.
struct CallRecord {
  std::int32_t token;   ///< -1: none
  RowStatus status;     ///< status of the slot's request in the step so far
  std::uint32_t call;   ///< number of the call modulo 2^31, with the flag kFirstOfStep
  std::uint32_t epoch;  ///< value of BatchMirror::epoch() at the time of the call
};
static_assert(sizeof(CallRecord) == 16);

inline constexpr std::uint32_t kFirstOfStep = std::uint32_t{1} << 31;

class BatchMirror {
 public:
  explicit BatchMirror(BatchSlots& slots);

  const BatchSlots& slots() const { return slots_; }

  /// Returns whether the copy on the device is up to date, so that update() has nothing to copy.
  bool is_current() const {
    return changes_ == slots_.changes && bitmask_changes_ == slots_.bitmask_changes;
  }

  /// Plans the copy of the present contents of the slots to the device. The function allocates a
  /// little memory for the new epoch.
  void update();

  // The following functions return results of the last update.
  std::uint32_t epoch() const { return epochs_.back().number; }
  /// Slot of the copy that has the contents of each slot [capacity], or -1 if no slot of the copy
  /// has them or this slot is empty.
  const std::vector<std::int32_t>& from() const { return from_; }
  /// Occupied slots whose contents differ from the copy, in ascending order.
  const std::vector<std::int32_t>& changed() const { return changed_; }
  /// Returns whether the bitmask of the host was set or cleared as a whole.
  bool has_new_bitmask() const { return has_new_bitmask_; }
  /// Returns whether any request uses logits processing.
  bool uses_processing() const { return uses_processing_; }
  /// Returns whether the top_p of any request decays.
  bool decays() const { return decays_; }
  /// Returns whether the temperature of any request follows the entropy.
  bool follows_entropy() const { return follows_entropy_; }

  // The following functions deliver tokens from the copy.

  /// Delivers the tokens of a call [capacity] to the requests for which they were drawn and that
  /// are still in the batch. Calls must be delivered in the order in which they ran.
  Error deliver(const CallRecord* call);
  /// Returns the slot on the host of the request that is in the copy's `slot`, or -1 if the request
  /// has left.
  std::int32_t slot_on_host(std::int32_t slot) const;
  /// Delivers tokens that continue the history of a slot on the host.
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
  std::deque<Epoch> epochs_;  // never empty; the last epoch is the epoch of the copy
  std::vector<std::int32_t> from_, changed_;
  bool has_new_bitmask_ = false;
  bool uses_processing_ = false;
  bool decays_ = false;
  bool follows_entropy_ = false;
};

}  // namespace fairdraw::serving
