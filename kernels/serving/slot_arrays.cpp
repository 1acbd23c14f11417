#include "serving/slot_arrays.h"

#include "common/arguments.h"
#include "common/bump_allocator.h"

namespace fairdraw::serving {

SlotArrays place_slot_arrays(const BatchStateOptions& options, std::byte* block) {
  const std::int64_t capacity = options.capacity;
  SlotArrays arrays;
  BumpAllocator memory(block, BumpAllocator::kHostAlignment);
  arrays.for_each_of_table([&](auto*& array) { memory.allocate(array, capacity); });
  arrays.table_bytes = memory.bytes();

  const auto give_list = [&](ListName name, std::int64_t room) {
    ListArrays& list = arrays.list(name);
    list.room = room;
    list.size = capacity * room;
    // The array has at least one element, so that `data` is not null, because even lists of length
    // 0 must be given.
    memory.allocate(list.data, list.size > 0 ? list.size : 1);
  };
  give_list(ListName::prompt, options.max_length);
  ListArrays& output = arrays.list(ListName::output);
  output.data = arrays.list(ListName::prompt).data;
  output.room = arrays.list(ListName::prompt).room;
  output.size = arrays.list(ListName::prompt).size;
  give_list(ListName::bias, options.max_bias);
  memory.allocate(arrays.bias_values,
                  arrays.list(ListName::bias).size > 0 ? arrays.list(ListName::bias).size : 1);
  give_list(ListName::stop_ids, options.max_stop_ids);
  give_list(ListName::bad_words, options.max_bad_word_tokens);
  give_list(ListName::bad_word_lengths, options.max_bad_words);
  give_list(ListName::allowed_ids, options.max_allowed_ids);
  give_list(ListName::forced_tokens, options.max_forced_tokens);
  give_list(ListName::dry_breakers, options.max_dry_breakers);
  const bool dense = options.history == HistoryForm::dense;
  give_list(ListName::prompt_to_read, dense ? 0 : options.max_length);
  if (dense) {
    memory.allocate(arrays.output_counts, capacity * options.vocab);
    memory.allocate(arrays.prompt_mask, capacity * words_of(options.vocab));
  }
  arrays.bytes = memory.bytes();
  return arrays;
}

SampleRequest call_over(const SlotArrays& arrays, const BatchStateOptions& options,
                        const RowsView& logits) {
  const SlotArrays& a = arrays;
  const std::int64_t rows = logits.rows;
  SampleRequest request;
  request.logits = logits;
  request.temperature = {a.temperature, rows};
  request.top_k = {a.top_k, rows};
  request.top_p = {a.top_p, rows};
  request.min_p = {a.min_p, rows};
  request.seed = {a.seed, rows};
  request.offset = {a.offset, rows};
  request.active = {a.active, rows};
  request.tie_rule = options.tie_rule;
  request.filter_order = options.filter_order;

  LogitsProcessing& processing = request.processing;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) processing.name = {a.name, rows};
#include "fairdraw/processing_parameters.inc"
  processing.output = a.list(ListName::output).view(rows);
  if (options.history == HistoryForm::dense) {
    processing.output_counts = {a.output_counts, rows, options.vocab};
    processing.prompt_mask = {a.prompt_mask, rows, words_of(options.vocab)};
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) processing.name = neutral;
#include "fairdraw/processing_parameters.inc"
  } else {
    processing.forced_tokens = a.list(ListName::forced_tokens).view(rows);
    processing.dry_breakers = a.list(ListName::dry_breakers).view(rows);
    processing.prompt = a.list(ListName::prompt).view(rows);
    processing.prompt.lengths = {a.penalised_prompt, rows};
  }
  processing.bias_ids = a.list(ListName::bias).view(rows);
  processing.bias_values = {a.bias_values, a.list(ListName::bias).size};
  processing.stop_ids = a.list(ListName::stop_ids).view(rows);
  processing.output_lengths = {a.list(ListName::output).lengths, rows};
  processing.bad_words = a.list(ListName::bad_words).view(rows);
  processing.bad_word_lengths = a.list(ListName::bad_word_lengths).view(rows);
  processing.allowed_ids = a.list(ListName::allowed_ids).view(rows);
  return request;
}

}  // namespace fairdraw::serving
