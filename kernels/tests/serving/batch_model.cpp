#include "tests/serving/batch_model.h"

#include <algorithm>
#include <utility>

namespace fairdraw::suites::batches {

std::optional<std::int32_t> BatchModel::slot_of(RequestId id) const {
  for (const auto& [slot, request] : by_slot_) {
    if (request.id == id) return slot;
  }
  return std::nullopt;
}

std::int32_t BatchModel::slots() const {
  return by_slot_.empty() ? 0 : by_slot_.rbegin()->first + 1;
}

std::optional<std::int32_t> BatchModel::free_slot(std::int32_t wanted) const {
  for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
    const bool may = wanted == BatchState::kAnySlot || wanted == slot;
    if (may && by_slot_.count(slot) == 0) return slot;
  }
  return std::nullopt;
}

bool BatchModel::has_room(const RequestSnapshot& request, std::size_t tokens) const {
  return request.request.prompt.size() + request.output.size() + tokens <=
         static_cast<std::size_t>(options_.max_length);
}

bool BatchModel::add(RequestId id, const BatchRequest& request, std::int32_t wanted) {
  const std::optional<std::int32_t> slot = free_slot(wanted);
  if (slot_of(id) || !slot) return false;
  RequestSnapshot& made = by_slot_[*slot];
  made.id = id;
  made.request = request;
  if (mistake_ == Mistake::bitmask_is_inherited) made.allowed = left_bitmasks_[*slot];
  return true;
}

bool BatchModel::remove(RequestId id) {
  const std::optional<std::int32_t> slot = slot_of(id);
  if (!slot) return false;
  left_bitmasks_[*slot] = by_slot_[*slot].allowed;
  by_slot_.erase(*slot);
  return true;
}

bool BatchModel::swap(std::int32_t first, std::int32_t second) {
  for (const std::int32_t slot : {first, second}) {
    if (slot < 0 || slot >= options_.capacity) return false;
  }
  std::map<std::int32_t, RequestSnapshot> swapped;
  for (const auto& [slot, request] : by_slot_) {
    swapped[slot == first ? second : slot == second ? first : slot] = request;
  }
  if (mistake_ == Mistake::bitmask_stays_in_slot &&
      by_slot_.count(first) + by_slot_.count(second) == 2) {
    std::swap(swapped[first].allowed, swapped[second].allowed);
  }
  by_slot_ = std::move(swapped);
  return true;
}

void BatchModel::compact() {
  for (;;) {
    const std::optional<std::int32_t> free = free_slot(BatchState::kAnySlot);
    if (!free || *free >= slots()) return;
    swap(*free, slots() - 1);
  }
}

bool BatchModel::evict(RequestId id) {
  const std::optional<std::int32_t> slot = slot_of(id);
  if (!slot) return false;
  evicted_[id] = by_slot_[*slot];
  by_slot_.erase(*slot);
  return true;
}

bool BatchModel::restore(RequestId id, std::int32_t wanted) {
  const std::optional<std::int32_t> slot = free_slot(wanted);
  if (slot_of(id) || !slot) return false;
  by_slot_[*slot] = evicted_.at(id);
  RequestSnapshot& restored = by_slot_[*slot];
  if (mistake_ == Mistake::offset_restarts) restored.request.first_offset -= restored.output.size();
  if (mistake_ == Mistake::history_is_lost) {
    restored.request.first_offset += restored.output.size();
    restored.output.clear();
  }
  return true;
}

bool BatchModel::append(RequestId id, const std::vector<std::int32_t>& tokens) {
  const std::optional<std::int32_t> slot = slot_of(id);
  if (!slot || !has_room(by_slot_[*slot], tokens.size())) return false;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= options_.vocab) return false;
  }
  std::vector<std::int32_t>& output = by_slot_[*slot].output;
  output.insert(output.end(), tokens.begin(), tokens.end());
  return true;
}

bool BatchModel::append_step(const std::vector<std::int32_t>& tokens) {
  if (tokens.size() > static_cast<std::size_t>(options_.capacity)) return false;
  BatchModel after = *this;
  for (std::size_t slot = 0; slot < tokens.size(); ++slot) {
    if (tokens[slot] == -1) continue;
    const auto request = by_slot_.find(static_cast<std::int32_t>(slot));
    if (request == by_slot_.end()) return false;
    if (!after.append(request->second.id, {tokens[slot]})) return false;
  }
  *this = std::move(after);
  return true;
}

bool BatchModel::set_allowed(const std::vector<std::uint32_t>& packed, std::int32_t rows) {
  if (rows < slots() || rows > options_.capacity) return false;
  for (auto& [slot, request] : by_slot_) {
    const auto row = packed.begin() + slot * words();
    request.allowed.assign(row, row + words());
    const bool all = std::all_of(row, row + words(), [](auto word) { return ~word == 0U; });
    if (all) request.allowed.clear();  // a bitmask of ones alone is stored as no bitmask
  }
  return true;
}

void BatchModel::clear_allowed() {
  for (auto& [slot, request] : by_slot_) request.allowed.clear();
}

ModelToken BatchModel::draw(std::int32_t slot, std::size_t length,
                            const std::vector<float>& logits) const {
  RequestSnapshot request = by_slot_.at(slot);
  const std::size_t drawn = request.output.size();
  switch (mistake_) {
    case Mistake::slot_in_the_seed:
      request.request.seed += static_cast<std::uint64_t>(slot);
      break;
    case Mistake::offset_stays:
      request.request.first_offset -= drawn;
      break;
    case Mistake::rows_see_no_new_tokens:
      request.output.resize(length);
      request.request.first_offset += drawn - length;
      break;
    case Mistake::prompt_counts_as_output:
      request.request.min_tokens -= static_cast<std::int32_t>(request.request.prompt.size());
      break;
    default:
      break;
  }
  return draw_alone(request, logits, options_);
}

bool BatchModel::step(const StepInput& input) {
  std::vector<std::int64_t> offsets = input.offsets;
  if (offsets.empty()) {
    for (std::int64_t row = 0; row <= input.rows; ++row) offsets.push_back(row);
  }
  const auto count = static_cast<std::int64_t>(offsets.size()) - 1;
  if (count < slots() || count > options_.capacity) return false;
  if (offsets.front() != 0 || offsets.back() > input.rows) return false;
  if (!std::is_sorted(offsets.begin(), offsets.end())) return false;

  has_stepped_ = true;
  new_tokens_.assign(static_cast<std::size_t>(count), -1);
  new_counts_.assign(static_cast<std::size_t>(count), 0);
  statuses_.assign(static_cast<std::size_t>(count), RowStatus::inactive);
  for (auto& [slot, request] : by_slot_) {
    const auto s = static_cast<std::size_t>(slot);
    std::int64_t row = offsets[s];
    const std::int64_t end = offsets[s + 1];
    const bool takes_first = mistake_ == Mistake::first_row_is_sampled;
    if (input.sampled == StepRows::last && !takes_first) row = std::max(row, end - 1);
    const std::size_t length = request.output.size();
    for (; row < end; ++row) {
      if (!has_room(request, 1)) {
        statuses_[s] = RowStatus::invalid_history;
        if (mistake_ == Mistake::full_history_fails_all) return true;
        break;
      }
      const auto first = input.logits.begin() + row * options_.vocab;
      const ModelToken drawn = draw(slot, length, {first, first + options_.vocab});
      statuses_[s] = drawn.status;
      if (drawn.status != RowStatus::ok) {
        if (mistake_ == Mistake::failed_row_advances) ++request.request.first_offset;
        break;
      }
      request.output.push_back(drawn.token);
      new_tokens_[s] = drawn.token;
      ++new_counts_[s];
      if (input.sampled == StepRows::last) break;
    }
  }
  if (mistake_ == Mistake::copy_follows && copied_) copied_ = new_tokens_;
  return true;
}

bool BatchModel::start_copy() {
  if (has_stepped_) copied_ = new_tokens_;
  return has_stepped_;
}

}  // namespace fairdraw::suites::batches
