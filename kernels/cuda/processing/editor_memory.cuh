// Shared memory of the block that edits a row, and the functions that fill it: the parameters of
// the row, the beginnings of its lists, and the groups of parameters that a call gives.
#pragma once

#include <cstdint>

#include "common/processing_rules.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/processing/edit_rows.h"
#include "cuda/processing/edit_table.cuh"
#include "cuda/processing/row_filters.cuh"
#include "cuda/processing/row_histories.cuh"
#include "cuda/rows/row_fault.h"

namespace fairdraw::cuda {

inline constexpr int kEditThreads = 512;

/// Lists of a row. The beginnings of all lists, and the entries that each thread reads first, are
/// loaded at once, because a load for each list on demand would wait for memory seven times.
enum ListName : int {
  kOutput,
  kPrompt,
  kBiasIds,
  kStopIds,
  kBadWords,
  kBadWordLengths,
  kAllowedIds,
  kLists
};

/// Shared memory of RowEditor.
struct EditorMemory {
  RowList lists[kLists];  ///< of prompt and output, the parts that the penalties count
  History history;        ///< prompt and output, whole
  RowList forced, breakers;
  int place;  ///< place in the history, or number of ids, that all threads look for together
  ProcessingParameters parameters;
  std::int64_t output_length;  ///< length of the output, which is compared with min_tokens
  FilterMemory filters;
  EditTable table;
};

/// Groups of parameters that a call gives. The code of the others is jumped over, because even code
/// that has nothing to do is loaded from memory once per call.
struct GivenParameters {
  bool filters = false;  ///< top_n_sigma or filters by probability
  bool rules = false;    ///< rules of histories or forced tokens

  static GivenParameters of(const LogitsProcessing& processing) {
    const auto is_on = [](const auto& parameter, auto off) {
      return parameter.is_array() || !(parameter.scalar == off);
    };
    GivenParameters given;
    given.filters = is_on(processing.top_n_sigma, 0.0F);
#define FAIRDRAW_PROBABILITY_FILTER(type, name, neutral) \
  given.filters = given.filters || is_on(processing.name, neutral);
#include "fairdraw/processing_parameters.inc"
    given.rules = processing.forced_tokens.given() || processing.dry_breakers.given();
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) \
  given.rules = given.rules || is_on(processing.name, neutral);
#include "fairdraw/processing_parameters.inc"
    return given;
  }
};

/// Loads the filters and the rules of histories that the call gives, each by one thread of a warp
/// of its own.
__device__ __noinline__ inline void find_filters_and_rules(const LogitsProcessing& processing,
                                                           std::int64_t row, GivenParameters given,
                                                           EditorMemory& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  if (given.filters && thread == (kLists + 2) * kWarp) {
    load_filters(processing, row, memory.parameters);
  }
  if (!given.rules) return;
  if (thread == (kLists + 3) * kWarp) {
    memory.parameters.history = HistoryRules::of(processing, row);
  }
  if (thread == (kLists + 4) * kWarp) memory.forced = list_of(processing.forced_tokens, row);
  if (thread == (kLists + 5) * kWarp) memory.breakers = list_of(processing.dry_breakers, row);
}

/// Checks the filters and the rules that the call gives, and replaces the allowed ids by the token
/// that is forced, if there is one. Returns the fault that this thread has found. All threads must
/// call the function before the row's other edits: a call in the midst of these would leave them
/// few registers.
__device__ __noinline__ inline RowFault prepare_filters_and_rules(const EditTask& task,
                                                                  GivenParameters given,
                                                                  EditorMemory& memory) {
  __syncthreads();  // wait for find_processing()
  if (given.filters) {
    const RowStatus status = check_filters(memory.parameters);
    if (status == RowStatus::invalid_top_n_sigma) return RowFault::invalid_top_n_sigma;
    if (status != RowStatus::ok) return RowFault::invalid_probability_filter;
  }
  if (!given.rules) return RowFault::none;
  const RowList& forced = memory.forced;
  if (!memory.parameters.history.are_valid()) return RowFault::invalid_history_rule;
  if (!memory.breakers.in_buffer || !memory.history.prompt.in_buffer ||
      !memory.history.output.in_buffer) {
    return RowFault::invalid_history;
  }
  if (!forced.in_buffer) return RowFault::invalid_allowed_ids;
  if (forced.length == 0) return RowFault::none;
  RowFault fault = RowFault::none;
  const std::int64_t vocab = task.whole_vocab > 0 ? task.whole_vocab : task.rows.vocab;
  for (int i = static_cast<int>(threadIdx.x); i < forced.length; i += kEditThreads) {
    if (!is_token(forced.ids[i], vocab)) fault = RowFault::invalid_allowed_ids;
  }
  const std::int32_t entry =
      find_forced_entry(memory.parameters.history, memory.history, forced, memory.place);
  if (entry >= 0 && threadIdx.x == 0) {
    RowList& allowed = memory.lists[kAllowedIds];
    if (!allowed.in_buffer) fault = RowFault::invalid_allowed_ids;
    allowed = {forced.ids + entry, forced.begin + entry, 1};
  }
  return fault;
}

/// Loads the parameters of a row and the beginnings of its lists, with one warp for each, before
/// the row's logits are loaded, because a later load would have to wait for all logits. Warps that
/// have no parameter or list make no loads. The results may be used after the next barrier.
__device__ inline void find_processing(const LogitsProcessing& processing, std::int64_t row,
                                       GivenParameters given, EditorMemory& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto find = [&](ListName name, const TokenLists& lists) {
    if (thread == name * kWarp) memory.lists[name] = list_of(lists, row);
  };
  if (thread == kOutput * kWarp) {
    const RowList output = list_of(processing.output, row);
    memory.history.output = output;
    memory.lists[kOutput] =
        given.rules ? in_window(output, processing.penalty_window.at(row), 0) : output;
  }
  if (thread == kPrompt * kWarp) {
    const RowList prompt = list_of(processing.prompt, row);
    const std::int32_t window = given.rules ? processing.penalty_window.at(row) : -1;
    const std::int32_t after = window < 0 ? 0 : list_of(processing.output, row).length;
    memory.history.prompt = prompt;
    memory.lists[kPrompt] = in_window(prompt, window, after);
  }
  find(kBiasIds, processing.bias_ids);
  find(kStopIds, processing.stop_ids);
  find(kBadWords, processing.bad_words);
  find(kBadWordLengths, processing.bad_word_lengths);
  find(kAllowedIds, processing.allowed_ids);
  if (thread == kLists * kWarp) {
    load_penalties(processing, row, memory.parameters);
    if (!given.rules) memory.parameters.history.counts_of_prompt = 0;
  }
  if (thread == (kLists + 1) * kWarp) memory.output_length = output_length(processing, row);
  if (given.filters || given.rules) find_filters_and_rules(processing, row, given, memory);
}

}  // namespace fairdraw::cuda
