#include "harness/inputs/processing_arrays.h"

#include <algorithm>
#include <cstddef>

namespace fairdraw::harness {

void OwnedLists::add(const std::vector<std::int32_t>& ids) {
  begins.push_back(static_cast<std::int64_t>(data.size()));
  lengths.push_back(static_cast<std::int32_t>(ids.size()));
  data.insert(data.end(), ids.begin(), ids.end());
}

void OwnedLists::add_grown(const std::vector<std::int32_t>& ids) {
  const std::size_t before = lengths.empty() ? 0 : static_cast<std::size_t>(lengths.back());
  const bool grows =
      before > 0 && before <= ids.size() &&
      std::equal(ids.begin(), ids.begin() + lengths.back(), data.end() - lengths.back());
  if (!grows) {
    add(ids);
    return;
  }
  begins.push_back(begins.back());
  data.insert(data.end(), ids.begin() + lengths.back(), ids.end());
  lengths.push_back(static_cast<std::int32_t>(ids.size()));
}

TokenLists OwnedLists::view() const {
  if (lengths.empty()) return {};
  const auto rows = static_cast<std::int64_t>(lengths.size());
  return {data.data(),
          static_cast<std::int64_t>(data.size()),
          {begins.data(), rows},
          {lengths.data(), rows}};
}

LogitsProcessing ProcessingArrays::view() const {
  const auto rows = static_cast<std::int64_t>(min_tokens.size());
  LogitsProcessing view;
  if (rows == 0) return view;
  view.repetition_penalty = {repetition_penalty.data(), rows};
  view.frequency_penalty = {frequency_penalty.data(), rows};
  view.presence_penalty = {presence_penalty.data(), rows};
  view.min_tokens = {min_tokens.data(), rows};
  view.prompt = prompt.view();
  view.output = output.view();
  if (!prompt_mask.empty()) view.prompt_mask = {prompt_mask.data(), rows, (vocab + 31) / 32};
  if (!output_counts.empty()) view.output_counts = {output_counts.data(), rows, vocab};
  view.bias_ids = bias_ids.view();
  // No null for no values: then the whole array would be missing.
  view.bias_values = {bias_values.data(), static_cast<std::int64_t>(bias_values.size())};
  view.stop_ids = stop_ids.view();
  view.output_lengths = {output_lengths.data(), rows};
  view.bad_words = bad_words.view();
  view.bad_word_lengths = bad_word_lengths.view();
  view.allowed_ids = allowed_ids.view();
  return view;
}

ProcessingArrays pack(std::span<const reference::RowProcessing> rows, std::int64_t vocab,
                      const HistoryArrays& form) {
  ProcessingArrays arrays;
  arrays.vocab = vocab;
  const auto is_token = [vocab](std::int32_t id) { return id >= 0 && id < vocab; };
  for (const reference::RowProcessing& row : rows) {
    arrays.repetition_penalty.push_back(row.repetition_penalty);
    arrays.frequency_penalty.push_back(row.frequency_penalty);
    arrays.presence_penalty.push_back(row.presence_penalty);
    arrays.min_tokens.push_back(row.min_tokens);
    arrays.output_lengths.push_back(row.output_length);
    form.grown ? arrays.output.add_grown(row.output) : arrays.output.add(row.output);
    if (form.prompt_mask) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>((vocab + 31) / 32), 0);
      // Bits beyond the vocabulary mean nothing, so they are set.
      if (vocab % 32 != 0) words.back() = ~((1U << (vocab % 32)) - 1U);
      for (const std::int32_t id : row.prompt) {
        if (is_token(id)) words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
      }
      arrays.prompt_mask.insert(arrays.prompt_mask.end(), words.begin(), words.end());
    } else {
      arrays.prompt.add(row.prompt);
    }
    if (form.output_counts) {
      std::vector<std::int32_t> counts(static_cast<std::size_t>(vocab), 0);
      for (const std::int32_t id : row.output) {
        if (is_token(id)) ++counts[static_cast<std::size_t>(id)];
      }
      arrays.output_counts.insert(arrays.output_counts.end(), counts.begin(), counts.end());
    }
    std::vector<std::int32_t> bias_ids;
    for (const reference::RowProcessing::Bias& bias : row.biases) {
      bias_ids.push_back(bias.id);
      arrays.bias_values.push_back(bias.value);
    }
    arrays.bias_ids.add(bias_ids);
    arrays.stop_ids.add(row.stop_ids);
    arrays.bad_words.add(row.bad_words);
    arrays.bad_word_lengths.add(row.bad_word_lengths);
    arrays.allowed_ids.add(row.allowed_ids);
  }
  return arrays;
}

}  // namespace fairdraw::harness
