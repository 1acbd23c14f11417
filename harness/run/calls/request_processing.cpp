#include "harness/run/calls/request_processing.h"

namespace fairdraw::harness {

PlacedProcessing::PlacedProcessing(Memory* memory, std::span<const reference::RowProcessing> rows,
                                   std::int64_t vocab, const HistoryArrays& form)
    : memory_(memory), arrays_(pack(rows, vocab, form)) {}

template <class T>
const T* PlacedProcessing::place(const char* name, const std::vector<T>& values, ReadOnly& inputs) {
  if (values.empty()) return nullptr;
  const auto placed = std::make_shared<Placed<T>>(memory_, values);
  placed_.push_back(placed);
  inputs.watch(name, placed->data(), values.size());
  return placed->data();
}

fairdraw_token_lists PlacedProcessing::place(const char* name, const OwnedLists& lists,
                                             ReadOnly& inputs) {
  if (lists.lengths.empty()) return {};
  return {place(name, lists.data, inputs), static_cast<std::int64_t>(lists.data.size()),
          place(name, lists.begins, inputs), place(name, lists.lengths, inputs)};
}

void PlacedProcessing::give(fairdraw_processing& processing, ReadOnly& inputs) {
  processing.repetition_penalty = place("repetition_penalty", arrays_.repetition_penalty, inputs);
  processing.frequency_penalty = place("frequency_penalty", arrays_.frequency_penalty, inputs);
  processing.presence_penalty = place("presence_penalty", arrays_.presence_penalty, inputs);
  processing.min_tokens = place("min_tokens", arrays_.min_tokens, inputs);
  processing.prompt = place("prompt", arrays_.prompt, inputs);
  processing.output = place("output", arrays_.output, inputs);
  processing.prompt_mask = place("prompt_mask", arrays_.prompt_mask, inputs);
  processing.output_counts = place("output_counts", arrays_.output_counts, inputs);
  processing.output_lengths = place("output_lengths", arrays_.output_lengths, inputs);
  processing.bias_ids = place("bias_ids", arrays_.bias_ids, inputs);
  processing.bias_values = place("bias_values", arrays_.bias_values, inputs);
  processing.stop_ids = place("stop_ids", arrays_.stop_ids, inputs);
  processing.bad_words = place("bad_words", arrays_.bad_words, inputs);
  processing.bad_word_lengths = place("bad_word_lengths", arrays_.bad_word_lengths, inputs);
  processing.allowed_ids = place("allowed_ids", arrays_.allowed_ids, inputs);
}

}  // namespace fairdraw::harness
