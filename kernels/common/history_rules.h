// Rules of histories: parameters of a row that say which tokens of prompt and output the penalties
// count, which repetitions are penalised or banned, when tokens are forced, and how top_p decays
// (fairdraw/logits_processing.h, steps 1, 2, 3, 5 and 6).
//
// Here the history is the prompt and the output, one after the other, as lists. Packed prompts and
// counts have no order, so that calls with these refuse the rules.
#pragma once

#include <cstdint>

#include "common/host_device.h"
#include "fairdraw/logits_processing.h"

namespace fairdraw {

/// List of one row, which is empty if `in_buffer` is false.
struct RowList {
  const std::int32_t* ids = nullptr;
  std::int64_t begin = 0;  ///< offset at which the list begins in the buffer
  std::int32_t length = 0;
  bool in_buffer = true;

  FAIRDRAW_HOST_DEVICE bool has(std::int32_t id) const {
    for (std::int32_t i = 0; i < length; ++i) {
      if (ids[i] == id) return true;
    }
    return false;
  }

  /// Returns the last ids of the list, at most `count`, which must be at least 0.
  FAIRDRAW_HOST_DEVICE RowList last(std::int64_t count) const {
    if (count >= length) return *this;
    const auto dropped = static_cast<std::int32_t>(length - count);
    return {ids + dropped, begin + dropped, length - dropped, in_buffer};
  }
};

/// Returns the list of a row, or an empty list if no lists are given.
FAIRDRAW_HOST_DEVICE inline RowList list_of(const TokenLists& lists, std::int64_t row) {
  RowList list;
  if (!lists.given()) return list;
  const std::int64_t begin = lists.begins.data[row];
  const std::int32_t length = lists.lengths.data[row];
  list.in_buffer = begin >= 0 && begin <= lists.size && length >= 0 && length <= lists.size - begin;
  if (!list.in_buffer) return list;
  list.ids = lists.data + begin;
  list.begin = begin;
  list.length = length;
  return list;
}

/// Rules of one row.
struct HistoryRules {
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) type name = neutral;
#include "fairdraw/processing_parameters.inc"

  FAIRDRAW_HOST_DEVICE static HistoryRules of(const LogitsProcessing& processing,
                                              std::int64_t row) {
    HistoryRules rules;
#define FAIRDRAW_HISTORY_RULE(type, name, neutral) rules.name = processing.name.at(row);
#include "fairdraw/processing_parameters.inc"
    return rules;
  }

  FAIRDRAW_HOST_DEVICE bool are_valid() const {
    return penalty_window >= -1 && (counts_of_prompt == 0 || counts_of_prompt == 1) &&
           no_repeat_ngram_size >= 0 && dry_multiplier >= 0.0F &&
           dry_multiplier <= kLargestPenalty && dry_base >= 1.0F && dry_base <= kLargestPenalty &&
           dry_allowed_length >= 1 && dry_window >= -1 && forced_after >= -1 && forced_delay >= 0 &&
           top_p_decay > 0.0F && top_p_decay <= 1.0F && top_p_min > 0.0F && top_p_min <= 1.0F &&
           top_p_reset_id >= -1;
  }
};

/// Returns the ids of a list that the penalties count, if `after` ids of the history follow the
/// list: those among the last `window` ids of the history, or all if the window is below 0.
FAIRDRAW_HOST_DEVICE inline RowList in_window(const RowList& list, std::int32_t window,
                                              std::int32_t after) {
  if (window < 0) return list;
  const std::int64_t left = std::int64_t{window} - after;
  return list.last(left > 0 ? left : 0);
}

/// Prompt and output of a row, one after the other.
struct History {
  RowList prompt, output;

  FAIRDRAW_HOST_DEVICE std::int64_t length() const {
    return std::int64_t{prompt.length} + output.length;
  }
  FAIRDRAW_HOST_DEVICE std::int32_t at(std::int64_t place) const {
    return place < prompt.length ? prompt.ids[place] : output.ids[place - prompt.length];
  }

  /// Returns how many ids before a place equal the last ids of the history, one by one, at most
  /// `most` and not before the place `first`. An id below 0 equals no id.
  FAIRDRAW_HOST_DEVICE std::int64_t repeated_before(std::int64_t place, std::int64_t first,
                                                    std::int64_t most) const {
    std::int64_t count = 0;
    for (; count < most && count < place - first; ++count) {
      const std::int32_t id = at(length() - 1 - count);
      if (id < 0 || id != at(place - 1 - count)) break;
    }
    return count;
  }

  /// Returns whether the id at a place would end an n-gram that the history has already.
  FAIRDRAW_HOST_DEVICE bool ends_with_ids_before(std::int64_t place, std::int32_t n) const {
    return repeated_before(place, 0, std::int64_t{n} - 1) == std::int64_t{n} - 1;
  }
};

// --- Forced tokens -------------------------------------------------------------------------------

/// Returns the number of the entry that is forced, or -1 if none is, `after` ids after the place
/// from which the delay is counted. The caller must still look for an earlier end.
FAIRDRAW_HOST_DEVICE inline std::int32_t forced_entry(const HistoryRules& rules,
                                                      const RowList& forced, std::int64_t after) {
  const std::int64_t entry = after - rules.forced_delay;
  return entry >= 0 && entry < forced.length ? static_cast<std::int32_t>(entry) : -1;
}

}  // namespace fairdraw
