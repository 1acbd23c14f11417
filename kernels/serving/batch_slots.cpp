#include "serving/batch_slots.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "common/bump_allocator.h"

namespace fairdraw::serving {
namespace {

constexpr std::align_val_t kAlignment{BumpAllocator::kHostAlignment};

std::string text_of(RequestId id) { return std::to_string(id); }

}  // namespace

Block::Block(std::int64_t bytes)
    : data_(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kAlignment))) {
  std::memset(data_, 0, static_cast<std::size_t>(bytes));
}

Block::~Block() { ::operator delete(data_, kAlignment); }

BatchSlots::BatchSlots(const BatchStateOptions& chosen)
    : options(chosen),
      block(place_slot_arrays(chosen, nullptr).bytes),
      arrays(place_slot_arrays(chosen, block.get())) {
  for (std::int32_t slot = 0; slot < options.capacity; ++slot) {
    arrays.lane[slot] = slot;
    clear(slot);
  }
  by_id.reserve(static_cast<std::size_t>(options.capacity));
}

Error BatchSlots::find(RequestId id, std::int32_t& slot) const {
  const auto found = by_id.find(id);
  if (found == by_id.end()) {
    return out_of_range("request id", text_of(id), "the id of a request in the batch");
  }
  slot = found->second;
  return {};
}

Error BatchSlots::check_slot(const char* field, std::int32_t slot) const {
  if (is_slot(slot)) return {};
  return out_of_range(field, std::to_string(slot),
                      "0 to " + std::to_string(options.capacity - 1) + " (capacity - 1)");
}

Error BatchSlots::check_room_for(std::int32_t slot, std::int64_t count) const {
  const std::int64_t length =
      std::int64_t{list(ListName::prompt).length(slot)} + list(ListName::output).length(slot);
  if (count <= options.max_length - length) return {};
  return out_of_range("history of request " + text_of(arrays.id[slot]),
                      std::to_string(length) + " + " + std::to_string(count) + " tokens",
                      "0 to " + std::to_string(options.max_length) + " (max_length)");
}

Error BatchSlots::choose_slot(RequestId id, std::int32_t& slot) const {
  if (const auto found = by_id.find(id); found != by_id.end()) {
    return out_of_range(
        "request id", text_of(id),
        "an id that is not in the batch; this one is in slot " + std::to_string(found->second));
  }
  if (slot == BatchState::kAnySlot) {
    std::uint8_t* const end = arrays.active + options.capacity;
    slot =
        static_cast<std::int32_t>(std::find(arrays.active, end, std::uint8_t{0}) - arrays.active);
    if (slot < options.capacity) return {};
    return out_of_range("number of requests", std::to_string(options.capacity + std::int64_t{1}),
                        "0 to " + std::to_string(options.capacity) + " (capacity)");
  }
  if (Error error = check_slot("slot", slot)) return error;
  if (!is_occupied(slot)) return {};
  return out_of_range("slot", std::to_string(slot),
                      "a free slot; request " + text_of(arrays.id[slot]) + " is in this one");
}

void BatchSlots::write_list(ListName name, std::int32_t slot,
                            const std::vector<std::int32_t>& values) {
  std::copy(values.begin(), values.end(), arrays.list(name).list(slot));
  arrays.list(name).lengths[slot] = static_cast<std::int32_t>(values.size());
}

/// Usually the number and the order of a prompt's tokens do not change the row. Then the prompt is
/// sorted once, and each step reads each different token of the prompt once, in the order of the
/// logits.
void BatchSlots::write_prompt_to_read(std::int32_t slot, const BatchRequest& request) {
  const bool can_be_read = options.history == HistoryForm::lists && request.repetition_of_prompt;
  std::int32_t* const ids = list(ListName::prompt_to_read).list(slot);
  std::int32_t* end = ids;
  if (can_be_read && has_history_rule(slot)) {
    end = std::copy(request.prompt.begin(), request.prompt.end(), ids);
  } else if (can_be_read && request.repetition_penalty != 1.0F) {
    end = std::copy_if(request.prompt.begin(), request.prompt.end(), ids,
                       [](std::int32_t id) { return id >= 0; });  // placeholders do not stand for
                                                                  // tokens
    std::sort(ids, end);
    end = std::unique(ids, end);
  }
  arrays.list(ListName::prompt_to_read).lengths[slot] = static_cast<std::int32_t>(end - ids);
}

bool BatchSlots::has_history_rule(std::int32_t slot) const {
  bool has_rule = false;
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) \
  has_rule = has_rule || arrays.name[slot] != (neutral);
#include "fairdraw/processing_parameters.inc"
  return has_rule;
}

/// Empties a slot, so that it has neutral parameters, and empty lists in the slot's lane.
void BatchSlots::clear(std::int32_t slot) {
  const std::int32_t lane = arrays.lane[slot];
  arrays.for_each_of_table([slot](auto* array) { array[slot] = {}; });
  arrays.lane[slot] = lane;
  arrays.temperature[slot] = 1.0F;
  arrays.top_p[slot] = 1.0F;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) arrays.name[slot] = neutral;
#include "fairdraw/processing_parameters.inc"
  arrays.repetition_of_prompt[slot] = 1;
  for (ListArrays& each : arrays.lists) each.begins[slot] = lane * each.room;
}

/// Visits only the entries of a dense history that belong to the tokens of a slot, and not the
/// whole vocabulary.
template <class OfOutput, class OfPrompt>
void BatchSlots::for_each_dense(std::int32_t slot, OfOutput of_output, OfPrompt of_prompt) {
  if (options.history != HistoryForm::dense) return;
  std::int32_t* counts = arrays.output_counts + slot * options.vocab;
  std::uint32_t* mask = arrays.prompt_mask + slot * words();
  const View<const std::int32_t> output = tokens(ListName::output, slot);
  const View<const std::int32_t> prompt = {list(ListName::prompt).list(slot),
                                           arrays.penalised_prompt[slot]};
  for (std::int64_t i = 0; i < output.size; ++i) of_output(counts[output.data[i]]);
  for (std::int64_t i = 0; i < prompt.size; ++i) {
    const std::int32_t token = prompt.data[i];
    if (token >= 0) of_prompt(mask[token / 32], std::uint32_t{1} << (token % 32));
  }
}

void BatchSlots::count_tokens(std::int32_t slot) {
  for_each_dense(
      slot, [](std::int32_t& count) { ++count; },
      [](std::uint32_t& word, std::uint32_t bit) { word |= bit; });
}

void BatchSlots::forget_tokens(std::int32_t slot) {
  for_each_dense(
      slot, [](std::int32_t& count) { count = 0; },
      [](std::uint32_t& word, std::uint32_t bit) { word &= ~bit; });
}

void BatchSlots::enter(std::int32_t slot, RequestId id, const BatchRequest& request) {
  ++changes;
  by_id.emplace(id, slot);
  arrays.id[slot] = id;
  arrays.entry[slot] = ++entries;
  arrays.active[slot] = 1;
  arrays.seed[slot] = request.seed;
  arrays.offset[slot] = request.first_offset;
  arrays.temperature[slot] = request.temperature;
  arrays.top_k[slot] = request.top_k;
  arrays.top_p[slot] = request.top_p;
  arrays.min_p[slot] = request.min_p;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) arrays.name[slot] = request.name;
#include "fairdraw/processing_parameters.inc"
  write_list(ListName::prompt, slot, request.prompt);
  arrays.repetition_of_prompt[slot] = request.repetition_of_prompt ? 1 : 0;
  arrays.penalised_prompt[slot] =
      request.repetition_of_prompt ? list(ListName::prompt).length(slot) : 0;
  write_prompt_to_read(slot, request);
  write_list(ListName::stop_ids, slot, request.stop_ids);
  write_list(ListName::allowed_ids, slot, request.allowed_ids);
  write_list(ListName::forced_tokens, slot, request.forced_tokens);
  write_list(ListName::dry_breakers, slot, request.dry_breakers);
  arrays.list(ListName::output).begins[slot] =
      list(ListName::prompt).begins[slot] + static_cast<std::int64_t>(request.prompt.size());

  std::int32_t* bias_ids = list(ListName::bias).list(slot);
  float* bias_values = arrays.bias_values + list(ListName::bias).begins[slot];
  for (const TokenBias& entry : request.bias) {
    *bias_ids++ = entry.token;
    *bias_values++ = entry.bias;
  }
  arrays.list(ListName::bias).lengths[slot] = static_cast<std::int32_t>(request.bias.size());

  std::int32_t* word_tokens = list(ListName::bad_words).list(slot);
  std::int32_t* word_lengths = list(ListName::bad_word_lengths).list(slot);
  for (const std::vector<std::int32_t>& word : request.bad_words) {
    word_tokens = std::copy(word.begin(), word.end(), word_tokens);
    *word_lengths++ = static_cast<std::int32_t>(word.size());
  }
  arrays.list(ListName::bad_words).lengths[slot] =
      static_cast<std::int32_t>(word_tokens - list(ListName::bad_words).list(slot));
  arrays.list(ListName::bad_word_lengths).lengths[slot] =
      static_cast<std::int32_t>(request.bad_words.size());

  count_tokens(slot);
}

void BatchSlots::leave(std::int32_t slot) {
  ++changes;
  forget_tokens(slot);
  by_id.erase(arrays.id[slot]);
  if (!allowed.empty()) std::fill_n(allowed_row(slot), words(), kAllAllowed);
  clear(slot);
}

void BatchSlots::exchange(std::int32_t first, std::int32_t second) {
  if (first == second) return;
  ++changes;
  forget_tokens(first);
  forget_tokens(second);
  arrays.for_each_of_table([=](auto* array) { std::swap(array[first], array[second]); });
  if (!allowed.empty()) {
    std::swap_ranges(allowed_row(first), allowed_row(first) + words(), allowed_row(second));
  }
  count_tokens(first);
  count_tokens(second);
  for (const std::int32_t slot : {first, second}) {
    if (is_occupied(slot)) by_id[arrays.id[slot]] = slot;
  }
}

void BatchSlots::mark_history_changed(std::int32_t slot) {
  ++changes;
  arrays.entry[slot] = ++entries;
}

void BatchSlots::push(std::int32_t slot, const std::int32_t* drawn, std::int64_t count) {
  std::copy_n(drawn, count,
              list(ListName::output).list(slot) + list(ListName::output).length(slot));
  arrays.list(ListName::output).lengths[slot] += static_cast<std::int32_t>(count);
  arrays.offset[slot] += static_cast<std::uint64_t>(count);
  if (options.history != HistoryForm::dense) return;
  std::int32_t* counts = arrays.output_counts + slot * options.vocab;
  for (std::int64_t i = 0; i < count; ++i) ++counts[drawn[i]];
}

void BatchSlots::need_allowed() {
  if (!allowed.empty()) return;
  allowed.assign(static_cast<std::size_t>(options.capacity * words()), kAllAllowed);
}

std::vector<std::int32_t> BatchSlots::copy_of(ListName name, std::int32_t slot) const {
  const View<const std::int32_t> view = tokens(name, slot);
  return {view.data, view.data + view.size};
}

RequestSnapshot BatchSlots::snapshot_of(std::int32_t slot) const {
  RequestSnapshot snapshot;
  snapshot.id = arrays.id[slot];
  snapshot.output = copy_of(ListName::output, slot);
  if (!allowed.empty()) {
    const auto row = allowed.begin() + slot * words();
    const bool all = std::all_of(row, row + words(), [](auto word) { return word == kAllAllowed; });
    if (!all) snapshot.allowed.assign(row, row + words());
  }
  BatchRequest& request = snapshot.request;
  request.temperature = arrays.temperature[slot];
  request.top_k = arrays.top_k[slot];
  request.top_p = arrays.top_p[slot];
  request.min_p = arrays.min_p[slot];
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) request.name = arrays.name[slot];
#include "fairdraw/processing_parameters.inc"
  request.repetition_of_prompt = arrays.repetition_of_prompt[slot] != 0;
  request.seed = arrays.seed[slot];
  request.first_offset = arrays.offset[slot] - snapshot.output.size();
  request.stop_ids = copy_of(ListName::stop_ids, slot);
  request.allowed_ids = copy_of(ListName::allowed_ids, slot);
  request.forced_tokens = copy_of(ListName::forced_tokens, slot);
  request.dry_breakers = copy_of(ListName::dry_breakers, slot);
  request.prompt = copy_of(ListName::prompt, slot);

  const View<const std::int32_t> bias_ids = tokens(ListName::bias, slot);
  const float* bias_values = arrays.bias_values + list(ListName::bias).begins[slot];
  for (std::int64_t i = 0; i < bias_ids.size; ++i) {
    request.bias.push_back({bias_ids.data[i], bias_values[i]});
  }
  const std::int32_t* word = list(ListName::bad_words).list(slot);
  for (const std::int32_t length : copy_of(ListName::bad_word_lengths, slot)) {
    request.bad_words.emplace_back(word, word + length);
    word += length;
  }
  return snapshot;
}

}  // namespace fairdraw::serving
