// Implements marked rows for the sampler `model`.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/adapters/serving_model.h"
#include "reference/watermark_model.h"

namespace fairdraw::harness {
namespace {

std::vector<std::int32_t> output_of(const fairdraw_batch& batch, std::int64_t row) {
  const std::int32_t* const first = batch.mark_output + row * batch.mark_output_size;
  const std::int32_t* const end = first + batch.mark_output_size;
  return {std::find_if(first, end, [](std::int32_t id) { return id >= 0; }), end};
}

reference::RowMark mark_of(const fairdraw_batch& batch, std::int64_t row) {
  reference::RowMark mark;
  if (batch.mark_key != nullptr) mark.key = batch.mark_key[row];
  mark.scheme = static_cast<WatermarkScheme>(batch.mark_scheme);
  mark.window = static_cast<std::size_t>(batch.mark_window);
  return mark;
}

// Returns the row with those survivors alone that may win the race, because exact arrival times
// take long. In doubles, the rounding of u moves -log(u) by at most 2^-52, the logarithm has an
// error of at most one unit of a value below 64, 2^-47, and the quotient and its weight have
// relative errors of 2^-53 each, 2^-46 together. All are less than 2^-45, and kError is twice that.
reference::IntegerRow contenders(const reference::IntegerRow& row,
                                 const std::vector<std::uint64_t>& words) {
  constexpr double kError = 0x1p-44;
  std::vector<double> earliest(words.size(), std::numeric_limits<double>::infinity());
  double latest_of_first = std::numeric_limits<double>::infinity();
  for (std::size_t id = 0; id < words.size(); ++id) {
    if (row.mask[id] == 0 || row.weight[id] == 0) continue;
    const double time = -std::log((static_cast<double>(words[id]) + 0.5) * 0x1p-64);
    const auto weight = static_cast<double>(row.weight[id]);
    earliest[id] = (time - kError) / weight;
    latest_of_first = std::min(latest_of_first, (time + kError) / weight);
  }
  reference::IntegerRow result = row;
  for (std::size_t id = 0; id < words.size(); ++id) {
    if (earliest[id] > latest_of_first) result.mask[id] = 0;
  }
  return result;
}

}  // namespace

void ServingModel::prepare(const fairdraw_batch& batch, std::int64_t row, Row& of) {
  const reference::RowMark mark = mark_of(batch, row);
  if (mark.key == 0 || mark.scheme != WatermarkScheme::green_list) return;
  reference::RowProcessing processing;
  processing.output = output_of(batch, row);
  const auto no_second_key = [](std::uint32_t) { return std::uint64_t{0}; };
  processing = with_green_biases(processing, mark, of.logits.size(), no_second_key);
  processing.output.clear();
  of.processing = std::move(processing);
}

std::int32_t ServingModel::draw(const fairdraw_batch& batch, const reference::IntegerRow& row,
                                std::int64_t output, std::int32_t sample) {
  const reference::RowMark mark = mark_of(batch, output);
  if (mark.key == 0 || mark.scheme == WatermarkScheme::green_list) {
    return ModelSampler::draw(batch, row, output, sample);
  }
  const std::vector<std::int32_t> ids = output_of(batch, output);
  if (!is_marked(mark, ids)) return ModelSampler::draw(batch, row, output, sample);
  if (mark.scheme == WatermarkScheme::tournament) {
    return marked_token(row, mark, ids, [&](std::uint32_t attempt) {
      return decisive_word(batch, output, sample, attempt);
    });
  }
  const std::vector<std::int32_t> context = reference::context_of(ids, mark.window);
  std::vector<std::uint64_t> words;
  for (std::size_t id = 0; id < row.mask.size(); ++id) {
    words.push_back(
        word_of_mark(reference::marked_word(mark.key, context, static_cast<std::int32_t>(id))));
  }
  return race_model(contenders(row, words),
                    [&](std::int32_t id) { return words[static_cast<std::size_t>(id)]; });
}

}  // namespace fairdraw::harness
