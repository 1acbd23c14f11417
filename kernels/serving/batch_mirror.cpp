#include "serving/batch_mirror.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace fairdraw::serving {
namespace {

/// Number of epochs that are kept if no calls are delivered, which is more than the number of calls
/// in any ring of records.
constexpr std::size_t kMaxEpochs = 4096;

}  // namespace

BatchMirror::BatchMirror(BatchSlots& slots)
    : slots_(slots),
      changes_(slots.changes - 1),  // a value that differs from slots.changes, because the device's
                                    // copy is still empty
      bitmask_changes_(slots.bitmask_changes),
      from_(static_cast<std::size_t>(slots.options.capacity), -1) {
  epochs_.push_back({0, std::vector<std::uint64_t>(from_.size(), 0)});
}

void BatchMirror::update() {
  const std::vector<std::uint64_t>& held = epochs_.back().entries;
  std::unordered_map<std::uint64_t, std::int32_t> places;  // slots of the entries that may have
                                                           // moved
  for (std::int32_t slot = 0; slot < slots_.options.capacity; ++slot) {
    const std::uint64_t entry = held[static_cast<std::size_t>(slot)];
    if (entry != 0 && entry != slots_.arrays.entry[slot]) places.emplace(entry, slot);
  }
  changed_.clear();
  uses_processing_ = decays_ = follows_entropy_ = false;
  for (std::int32_t slot = 0; slot < slots_.options.capacity; ++slot) {
    const auto s = static_cast<std::size_t>(slot);
    const std::uint64_t entry = slots_.arrays.entry[slot];
    from_[s] = -1;
    if (entry == 0) continue;
    uses_processing_ = uses_processing_ || has_processing(slot);
    decays_ = decays_ || slots_.arrays.top_p_decay[slot] != 1.0F;
    follows_entropy_ = follows_entropy_ || slots_.arrays.dynatemp_range[slot] != 0.0F;
    if (entry == held[s]) {
      from_[s] = slot;
      continue;
    }
    if (const auto place = places.find(entry); place != places.end()) from_[s] = place->second;
    changed_.push_back(slot);
  }
  const std::uint64_t* entries = slots_.arrays.entry;
  epochs_.push_back({epochs_.back().number + 1, {entries, entries + slots_.options.capacity}});
  if (epochs_.size() > kMaxEpochs) epochs_.pop_front();
  has_new_bitmask_ = bitmask_changes_ != slots_.bitmask_changes;
  changes_ = slots_.changes;
  bitmask_changes_ = slots_.bitmask_changes;
}

bool BatchMirror::has_processing(std::int32_t slot) const {
  const SlotArrays& a = slots_.arrays;
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  if (a.name[slot] != (neutral)) return true;
#define FAIRDRAW_HISTORY_RULE FAIRDRAW_PROBABILITY_FILTER
#include "fairdraw/processing_parameters.inc"
  const auto has = [&](ListName name) { return a.list(name).length(slot) > 0; };
  return a.repetition_penalty[slot] != 1.0F || a.frequency_penalty[slot] != 0.0F ||
         a.presence_penalty[slot] != 0.0F || has(ListName::bias) || has(ListName::bad_words) ||
         has(ListName::allowed_ids) || has(ListName::forced_tokens) ||
         a.top_n_sigma[slot] != 0.0F || (a.min_tokens[slot] > 0 && has(ListName::stop_ids));
}

/// Returns the slot of an entry, which is usually `slot`, or -1 if the entry has left the batch.
std::int32_t BatchMirror::find(std::uint64_t entry, std::int32_t slot) const {
  if (entry == 0) return -1;
  const std::uint64_t* const entries = slots_.arrays.entry;
  if (entries[slot] == entry) return slot;
  const std::uint64_t* const end = entries + slots_.options.capacity;
  const std::uint64_t* const found = std::find(entries, end, entry);
  return found == end ? -1 : static_cast<std::int32_t>(found - entries);
}

Error BatchMirror::deliver(const CallRecord* call) {
  const std::uint32_t later = call[0].epoch - epochs_.front().number;
  if (later >= epochs_.size()) {
    return {ErrorCode::unsupported, "tokens came after more changes of the batch than are kept (" +
                                        std::to_string(kMaxEpochs) + ")"};
  }
  epochs_.erase(epochs_.begin(), epochs_.begin() + later);
  for (std::int32_t slot = 0; slot < slots_.options.capacity; ++slot) {
    if (call[slot].token < 0) continue;
    const std::int32_t now = find(epochs_.front().entries[static_cast<std::size_t>(slot)], slot);
    if (now < 0) continue;
    if (Error error = slots_.check_room_for(now, 1)) return error;
    slots_.push(now, &call[slot].token, 1);
  }
  return {};
}

std::int32_t BatchMirror::slot_on_host(std::int32_t slot) const {
  return find(epochs_.back().entries[static_cast<std::size_t>(slot)], slot);
}

void BatchMirror::deliver(std::int32_t slot_on_host, const std::int32_t* tokens,
                          std::int64_t count) {
  slots_.push(slot_on_host, tokens, count);
}

void BatchMirror::forget_earlier_epochs() {
  while (epochs_.size() > 1) epochs_.pop_front();
}

}  // namespace fairdraw::serving
