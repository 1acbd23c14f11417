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

ProcessingArrays pack(std::span<const reference::RowProcessing> rows, std::int64_t vocab,
                      const HistoryArrays& form) {
  ProcessingArrays arrays;
  arrays.rows = static_cast<std::int64_t>(rows.size());
  arrays.mask_stride = (vocab + 31) / 32 + form.gap;
  arrays.counts_stride = vocab + form.gap;
  const auto is_token = [vocab](std::int32_t id) { return id >= 0 && id < vocab; };
  for (const reference::RowProcessing& row : rows) {
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) arrays.name.push_back(row.name);
#include "fairdraw/processing_parameters.inc"
    arrays.output_lengths.push_back(row.output_length);
    form.grown ? arrays.output.add_grown(row.output) : arrays.output.add(row.output);
    if (form.prompt_mask) {
      // Bits beyond the vocabulary are set, because they must have no effect.
      std::vector<std::uint32_t> words(static_cast<std::size_t>(arrays.mask_stride), ~0U);
      std::fill_n(words.begin(), vocab / 32, 0U);
      if (vocab % 32 != 0) words[static_cast<std::size_t>(vocab / 32)] <<= vocab % 32;
      for (const std::int32_t id : row.prompt) {
        if (is_token(id)) words[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
      }
      arrays.prompt_mask.insert(arrays.prompt_mask.end(), words.begin(), words.end());
    } else {
      arrays.prompt.add(row.prompt);
    }
    if (form.output_counts) {
      std::vector<std::int32_t> counts(static_cast<std::size_t>(arrays.counts_stride), 0);
      std::fill(counts.begin() + vocab, counts.end(), -1);  // fails the row if a kernel reads it
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
    arrays.forced_tokens.add(row.forced_tokens);
    arrays.dry_breakers.add(row.dry_breakers);
  }
  // The array is omitted if no row uses it, because not every sampler takes it.
  if (std::ranges::all_of(arrays.top_n_sigma, [](float n) { return n == 0; })) {
    arrays.top_n_sigma.clear();
  }
  // Likewise, but all filters by probability are given together, and all rules of histories.
  if (std::ranges::none_of(rows, reference::has_probability_filter)) {
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) arrays.name.clear();
#include "fairdraw/processing_parameters.inc"
  }
  if (std::ranges::none_of(rows, reference::has_history_rule)) {
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) arrays.name.clear();
#include "fairdraw/processing_parameters.inc"
    arrays.forced_tokens = arrays.dry_breakers = {};
  }
  return arrays;
}

}  // namespace fairdraw::harness
