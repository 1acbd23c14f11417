// Implementation of BatchState, which keeps requests in slots.
//
// The contract is given in fairdraw/batch_state.h. Every call makes all its checks before it writes
// anything, so that a rejected call changes nothing.
//
// Cost. The calls add and restore take time in proportion to their arguments, and a sort of the
// prompt if the repetition penalty reads the prompt. The calls remove, swap and compact move no
// tokens (slot_arrays.h explains the lanes). These calls access one row of the bitmask, if there is
// a bitmask, and with dense histories the counts of the request's own tokens, instead of all tokens
// of the vocabulary. The call append makes one store per token, and sample_request has no loop at
// all. A hash table finds requests by their ids; only add and remove write to this table.
//
// Randomness. The offset of a slot is first_offset plus the length of the slot's output. The offset
// is stored instead of being computed each time, because `sample` reads an array of offsets; only
// append and restore write it.
//
// Numerics. Parameters are stored and returned bit for bit.
#include "fairdraw/batch_state.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "common/arguments.h"
#include "serving/batch_checks.h"
#include "serving/batch_slots.h"

namespace fairdraw {

using serving::kAllAllowed;
using serving::ListName;

struct BatchState::Slots : serving::BatchSlots {
  using BatchSlots::BatchSlots;
};

BatchState::BatchState(std::unique_ptr<Slots> slots) : slots_(std::move(slots)) {}
BatchState::~BatchState() = default;

serving::BatchSlots& serving::BatchAccess::slots_of(BatchState& state) { return *state.slots_; }

Error BatchState::make(const BatchStateOptions& options, std::unique_ptr<BatchState>& state) {
  if (Error error = serving::check_options(options)) return error;
  const std::int64_t bytes = serving::place_slot_arrays(options, nullptr).bytes;
  if (bytes > serving::kMaxBytes) {
    return out_of_range("memory of the batch state", "more than 2^40 bytes",
                        "0 to 2^40 bytes; capacity, max_length, vocab of dense histories and the "
                        "other sizes decide");
  }
  try {
    state.reset(new BatchState(std::make_unique<Slots>(options)));
  } catch (const std::bad_alloc&) {
    return {ErrorCode::unsupported, "a batch state of these options takes " +
                                        std::to_string(bytes) + " bytes; there is no such memory"};
  }
  return {};
}

Error BatchState::add(RequestId id, const BatchRequest& request, std::int32_t slot) {
  if (Error error = slots_->choose_slot(id, slot)) return error;
  if (Error error = serving::check_batch_request(request, slots_->options)) return error;
  slots_->enter(slot, id, request);
  return {};
}

Error BatchState::remove(RequestId id) {
  std::int32_t slot = 0;
  if (Error error = slots_->find(id, slot)) return error;
  slots_->leave(slot);
  return {};
}

Error BatchState::swap(std::int32_t first, std::int32_t second) {
  if (Error error = slots_->check_slot("first", first)) return error;
  if (Error error = slots_->check_slot("second", second)) return error;
  slots_->exchange(first, second);
  return {};
}

std::vector<SlotMove> BatchState::compact() {
  std::vector<SlotMove> moves;
  std::int32_t highest = slots() - 1;
  for (std::int32_t free = 0; free < highest; ++free) {
    if (slots_->is_occupied(free)) continue;
    slots_->exchange(free, highest);
    moves.push_back({highest, free});
    while (highest > free && !slots_->is_occupied(highest)) --highest;
  }
  return moves;
}

Error BatchState::evict(RequestId id, RequestSnapshot& snapshot) {
  std::int32_t slot = 0;
  if (Error error = slots_->find(id, slot)) return error;
  snapshot = slots_->snapshot_of(slot);
  slots_->leave(slot);
  return {};
}

Error BatchState::restore(const RequestSnapshot& snapshot, std::int32_t slot) {
  if (Error error = slots_->choose_slot(snapshot.id, slot)) return error;
  if (Error error = serving::check_snapshot(snapshot, slots_->options)) return error;
  slots_->enter(slot, snapshot.id, snapshot.request);
  slots_->push(slot, snapshot.output.data(), static_cast<std::int64_t>(snapshot.output.size()));
  if (!snapshot.allowed.empty()) {
    slots_->need_allowed();
    std::copy(snapshot.allowed.begin(), snapshot.allowed.end(), slots_->allowed_row(slot));
  }
  return {};
}

Error BatchState::append(RequestId id, const std::int32_t* tokens, std::int64_t count) {
  std::int32_t slot = 0;
  if (Error error = slots_->find(id, slot)) return error;
  if (count < 0) return out_of_range("count", std::to_string(count), ">= 0");
  if (tokens == nullptr && count > 0) return out_of_range("tokens", "null", "an array");
  if (Error error = slots_->check_room_for(slot, count)) return error;
  if (Error error = serving::check_tokens("tokens", tokens, count, 0, slots_->options.vocab)) {
    return error;
  }
  slots_->push(slot, tokens, count);
  if (count > 0) slots_->mark_history_changed(slot);
  return {};
}

Error BatchState::append_step(View<const std::int32_t> tokens) {
  if (tokens.size < 0 || tokens.size > slots_->options.capacity) {
    return out_of_range("length of tokens", std::to_string(tokens.size),
                        "0 to " + std::to_string(slots_->options.capacity) + " (capacity)");
  }
  if (Error error = check_needed(tokens, "tokens", tokens.size, "at most capacity")) return error;
  if (Error error =
          serving::check_tokens("tokens", tokens.data, tokens.size, -1, slots_->options.vocab)) {
    return error;
  }
  for (std::int32_t slot = 0; slot < tokens.size; ++slot) {
    if (tokens.data[slot] < 0) continue;
    if (!slots_->is_occupied(slot)) {
      return out_of_range("tokens[" + std::to_string(slot) + "]", std::to_string(tokens.data[slot]),
                          "-1: the slot is empty");
    }
    if (Error error = slots_->check_room_for(slot, 1)) return error;
  }
  for (std::int32_t slot = 0; slot < tokens.size; ++slot) {
    if (tokens.data[slot] < 0) continue;
    slots_->push(slot, tokens.data + slot, 1);
    slots_->mark_history_changed(slot);
  }
  return {};
}

Error BatchState::set_allowed(const BitRows<const std::uint32_t>& packed) {
  Slots& s = *slots_;
  if (packed.rows < slots() || packed.rows > s.options.capacity) {
    return out_of_range("packed.rows", std::to_string(packed.rows),
                        std::to_string(slots()) + " (slots) to " +
                            std::to_string(s.options.capacity) + " (capacity)");
  }
  if (packed.data == nullptr && packed.rows > 0) {
    return out_of_range("packed.data", "null", "a pointer to rows of words");
  }
  if (Error error =
          check_stride("packed.row_stride", packed.row_stride, s.words(),
                       "words of a row, ceil(vocab / 32)", packed.rows, sizeof(std::uint32_t))) {
    return error;
  }
  s.need_allowed();
  ++s.bitmask_changes;
  for (std::int32_t slot = 0; slot < packed.rows; ++slot) {
    if (!s.is_occupied(slot)) continue;
    std::copy_n(packed.data + slot * packed.row_stride, s.words(), s.allowed_row(slot));
  }
  return {};
}

void BatchState::clear_allowed() {
  ++slots_->bitmask_changes;
  std::fill(slots_->allowed.begin(), slots_->allowed.end(), kAllAllowed);
}

const BatchStateOptions& BatchState::options() const noexcept { return slots_->options; }

std::int32_t BatchState::size() const noexcept {
  return static_cast<std::int32_t>(slots_->by_id.size());
}

std::int32_t BatchState::slots() const noexcept {
  std::int32_t slot = slots_->options.capacity;
  while (slot > 0 && !slots_->is_occupied(slot - 1)) --slot;
  return slot;
}

std::int32_t BatchState::slot_of(RequestId id) const noexcept {
  const auto found = slots_->by_id.find(id);
  return found == slots_->by_id.end() ? -1 : found->second;
}

bool BatchState::is_occupied(std::int32_t slot) const noexcept {
  return slots_->is_slot(slot) && slots_->is_occupied(slot);
}

RequestId BatchState::id_at(std::int32_t slot) const noexcept {
  return is_occupied(slot) ? slots_->arrays.id[slot] : 0;
}

View<const std::int32_t> BatchState::prompt(std::int32_t slot) const noexcept {
  return is_occupied(slot) ? slots_->tokens(ListName::prompt, slot) : View<const std::int32_t>{};
}

View<const std::int32_t> BatchState::output(std::int32_t slot) const noexcept {
  return is_occupied(slot) ? slots_->tokens(ListName::output, slot) : View<const std::int32_t>{};
}

std::uint64_t BatchState::offset(std::int32_t slot) const noexcept {
  return is_occupied(slot) ? slots_->arrays.offset[slot] : 0;
}

TokenLists BatchState::outputs(std::int32_t rows) const noexcept {
  return slots_->list(ListName::output).view(std::clamp(rows, 0, slots_->options.capacity));
}

Error BatchState::sample_request(const RowsView& logits, SampleRequest& request) const {
  const Slots& s = *slots_;
  const std::int64_t rows = logits.rows;
  if (rows < slots() || rows > s.options.capacity) {
    return out_of_range("logits.rows", std::to_string(rows),
                        std::to_string(slots()) + " (slots) to " +
                            std::to_string(s.options.capacity) + " (capacity)");
  }
  if (Error error = check_length("a row of logits", logits.vocab, s.options.vocab,
                                 "vocab of the batch state")) {
    return error;
  }
  request = serving::call_over(s.arrays, s.options, logits);
  if (s.options.history == HistoryForm::lists) {  // the copy on a device has no sorted prompts
    request.processing.prompt = s.list(ListName::prompt_to_read).view(rows);
  }
  if (!s.allowed.empty()) request.allowed = {s.allowed.data(), rows, s.words()};
  return {};
}

}  // namespace fairdraw
