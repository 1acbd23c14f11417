// Helpers that run calls with host arrays on the GPU: they make views with the arrays in device
// memory, and copy the results back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <type_traits>
#include <vector>

#include "fairdraw/logits_processing.h"
#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"
#include "tests/cuda/arrays.h"

namespace fairdraw::suites {

class DeviceCopies {
 public:
  /// Returns a view of a device copy of an array that is only read.
  template <class T>
  View<const T> in(const View<const T>& view) {
    if (!view.given()) return {};
    const std::vector<T> copy(view.data, view.data + view.size);
    return {arrays_.in(copy), view.size};
  }
  template <class T>
  PerRequest<T> in(const PerRequest<T>& parameter) {
    if (!parameter.is_array()) return parameter;
    return {in(parameter.values).data, parameter.values.size};
  }
  TokenLists in(const TokenLists& lists) {
    return {in(View(lists.data, lists.size)).data, lists.size, in(lists.begins), in(lists.lengths)};
  }

  /// Returns a device copy of the processing of rows with `columns` columns.
  LogitsProcessing in(const LogitsProcessing& processing, std::int64_t columns) {
    LogitsProcessing copied = processing;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) copied.name = in(processing.name);
#include "fairdraw/processing_parameters.inc"
    for (TokenLists* lists : {&copied.output, &copied.prompt, &copied.bias_ids, &copied.stop_ids,
                              &copied.bad_words, &copied.bad_word_lengths, &copied.allowed_ids,
                              &copied.forced_tokens, &copied.dry_breakers}) {
      if (lists->given()) *lists = in(*lists);
    }
    copied.bias_values = in(processing.bias_values);
    copied.output_lengths = in(processing.output_lengths);
    const auto matrix = [&](auto& rows, std::int64_t of_row) {
      if (!rows.given() || columns == 0) return;  // without columns, processing reads nothing
      rows.data = in(View(rows.data, (rows.rows - 1) * rows.row_stride + of_row)).data;
    };
    matrix(copied.prompt_mask, (columns + 31) / 32);
    matrix(copied.output_counts, columns);
    return copied;
  }

  /// Returns a view of a device copy of an array that a call may write; fetch() copies it back.
  template <class T>
  View<T> out(const View<T>& view) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!view.given()) return {};
    auto* to = reinterpret_cast<std::uint8_t*>(view.data);
    const auto bytes = static_cast<std::size_t>(view.size) * sizeof(T);
    outputs_.push_back({{to, to + bytes}, to});
    return {reinterpret_cast<T*>(arrays_.out(outputs_.back().bytes)), view.size};
  }

  /// Waits for the device, and copies the written arrays back. Throws if a kernel failed or wrote
  /// outside an array.
  void fetch() {
    arrays_.fetch();
    for (const Output& output : outputs_) {
      std::copy(output.bytes.begin(), output.bytes.end(), output.to);
    }
  }

  /// Forgets the arrays, but keeps their memory for the arrays of the next call.
  void rewind() {
    arrays_.rewind();
    outputs_.clear();
  }

  /// Returns the device arrays, for other needs such as rows and workspaces.
  DeviceArrays& arrays() { return arrays_; }

 private:
  struct Output {
    std::vector<std::uint8_t> bytes;
    std::uint8_t* to;
  };

  DeviceArrays arrays_;
  std::deque<Output> outputs_;  // a deque, so that the addresses of the bytes stay valid
};

}  // namespace fairdraw::suites
