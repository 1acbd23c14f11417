// The only struct that owns the arrays of logits processing: the arrays are on the host, and views
// of them are in host or device memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "reference/processing_model.h"

namespace fairdraw::harness {

/// Gives a call's arrays to the CPU, which uses the vectors themselves. Tests and benchmarks on the
/// GPU have similar classes, whose function in() copies arrays to the device.
class HostArrays {
 public:
  template <class T>
  const T* in(const std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }
  template <class T>
  T* out(std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }
  void ready() const {}
};

template <class T, class Arrays>
View<const T> view_in(const std::vector<T>& values, Arrays& arrays) {
  return {arrays.in(values), static_cast<std::int64_t>(values.size())};
}

/// Lists of ids in one buffer, with one list per row. If there are no lengths, the call does not
/// give these lists.
struct OwnedLists {
  std::vector<std::int32_t> data;
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> lengths;

  void add(const std::vector<std::int32_t>& ids);
  /// Adds a list. If the list begins with all ids of the list before, both lists share memory.
  void add_grown(const std::vector<std::int32_t>& ids);
  template <class Arrays>
  TokenLists in(Arrays& arrays) const {
    return {arrays.in(data), static_cast<std::int64_t>(data.size()), view_in(begins, arrays),
            view_in(lengths, arrays)};
  }
};

/// The forms in which a call gives histories.
struct HistoryArrays {
  bool prompt_mask = false;    ///< packed bits; ids that are no tokens are left out
  bool output_counts = false;  ///< counts of all tokens, in addition to lists; ids that are no
                               ///< tokens are left out
  bool grown = false;          ///< rows whose output continues the last row's share memory
  std::int64_t gap = 0;        ///< number of values between two rows of the mask and of the counts
};

/// A form of LogitsProcessing that owns its arrays. An empty vector means that the call does not
/// give the feature, so its value is neutral.
struct ProcessingArrays {
  std::int64_t rows = 0;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) std::vector<type> name;
#include "fairdraw/processing_parameters.inc"
  OwnedLists prompt, output;
  std::vector<std::uint32_t> prompt_mask;
  std::int64_t mask_stride = 0;
  std::vector<std::int32_t> output_counts;
  std::int64_t counts_stride = 0;
  OwnedLists bias_ids;
  std::vector<float> bias_values;
  OwnedLists stop_ids;
  std::vector<std::int32_t> output_lengths;
  OwnedLists bad_words, bad_word_lengths;
  OwnedLists allowed_ids;
  OwnedLists forced_tokens, dry_breakers;

  /// Returns views, which are valid as long as this object and `arrays` exist unchanged.
  template <class Arrays>
  LogitsProcessing in(Arrays& arrays) const {
    LogitsProcessing view;
    const auto per_row = [&arrays](auto& parameter, const auto& values) {
      if (!values.empty()) parameter.values = view_in(values, arrays);
    };
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) per_row(view.name, name);
#include "fairdraw/processing_parameters.inc"
    view.prompt = prompt.in(arrays);
    view.output = output.in(arrays);
    if (!prompt_mask.empty()) view.prompt_mask = {arrays.in(prompt_mask), rows, mask_stride};
    if (!output_counts.empty()) {
      view.output_counts = {arrays.in(output_counts), rows, counts_stride};
    }
    view.bias_ids = bias_ids.in(arrays);
    view.bias_values = view_in(bias_values, arrays);
    view.stop_ids = stop_ids.in(arrays);
    view.output_lengths = view_in(output_lengths, arrays);
    view.bad_words = bad_words.in(arrays);
    view.bad_word_lengths = bad_word_lengths.in(arrays);
    view.allowed_ids = allowed_ids.in(arrays);
    view.forced_tokens = forced_tokens.in(arrays);
    view.dry_breakers = dry_breakers.in(arrays);
    return view;
  }
  LogitsProcessing view() const {
    HostArrays host;
    return in(host);
  }
};

ProcessingArrays pack(std::span<const reference::RowProcessing> rows, std::int64_t vocab,
                      const HistoryArrays& form = {});

}  // namespace fairdraw::harness
