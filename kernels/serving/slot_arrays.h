// The memory of a batch state: arrays with one value a slot, and lists with one place a slot.
//
// Layout. One block. First the table: all arrays of one value a slot (parameters, seeds, offsets,
// begins and lengths of the lists), side by side, about 200 bytes a slot; a step changes little
// else, so that a copy of a state on a device needs one transfer of a few kilobytes a step. Then
// the lists, of fixed room a slot. The same function places the arrays wherever the block is.
//
// Lanes. The room of a list belongs to a lane, and a slot has a lane: lists are found by their
// begins. So two slots are exchanged by exchanging their columns of the table; no token is copied,
// and what is said of a slot is still an array with one value a row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fairdraw/batch_state.h"

namespace fairdraw::serving {

/// The lists of a request. The output's room begins after the prompt, in the same lane.
enum class ListName : std::size_t {
  prompt,
  output,
  bias,
  stop_ids,
  bad_words,
  bad_word_lengths,
  allowed_ids,
  distinct_prompt,  ///< the prompt as the repetition penalty reads it: each token once, ascending
};
inline constexpr std::size_t kLists = 8;

/// One list a slot.
struct ListArrays {
  std::int32_t* data = nullptr;     ///< [capacity * room]
  std::int64_t room = 0;            ///< elements of a lane
  std::int64_t size = 0;            ///< capacity * room
  std::int64_t* begins = nullptr;   ///< [capacity]
  std::int32_t* lengths = nullptr;  ///< [capacity]

  TokenLists view(std::int64_t rows) const { return {data, size, {begins, rows}, {lengths, rows}}; }
  std::int32_t* list(std::int32_t slot) const { return data + begins[slot]; }
  std::int32_t length(std::int32_t slot) const { return lengths[slot]; }
};

/// Pointers into a block. All arrays of one value a slot have `capacity` elements.
struct SlotArrays {
  std::uint64_t* seed = nullptr;
  std::uint64_t* offset = nullptr;
  std::uint64_t* id = nullptr;
  std::uint64_t* entry = nullptr;  ///< a number that each request gets as it enters; 0: empty
  std::int32_t* lane = nullptr;
  float* temperature = nullptr;
  std::int32_t* top_k = nullptr;
  float* top_p = nullptr;
  float* min_p = nullptr;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) type* name = nullptr;
#include "fairdraw/processing_parameters.inc"
  std::int32_t* penalised_prompt =
      nullptr;  ///< its tokens, or none: where not repetition_of_prompt
  std::uint8_t* repetition_of_prompt = nullptr;
  std::uint8_t* active = nullptr;
  std::array<ListArrays, kLists> lists;

  ListArrays& list(ListName name) { return lists[static_cast<std::size_t>(name)]; }
  const ListArrays& list(ListName name) const { return lists[static_cast<std::size_t>(name)]; }

  float* bias_values = nullptr;  ///< parallel to list(ListName::bias).data

  // HistoryForm::dense only.
  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab]
  std::uint32_t* prompt_mask = nullptr;   ///< [capacity, words of vocab]

  std::int64_t table_bytes = 0;  ///< the block up to the lists
  std::int64_t bytes = 0;        ///< the whole block

  /// Calls visit(array) for every array of the table.
  template <class Visit>
  void for_each_of_table(Visit visit) {
    visit(seed);
    visit(offset);
    visit(id);
    visit(entry);
    for (ListArrays& list : lists) visit(list.begins);
    visit(lane);
    visit(temperature);
    visit(top_k);
    visit(top_p);
    visit(min_p);
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) visit(name);
#include "fairdraw/processing_parameters.inc"
    for (ListArrays& list : lists) visit(list.lengths);
    visit(penalised_prompt);
    visit(repetition_of_prompt);
    visit(active);
  }
};

/// Most bytes of a block: more than machines have, and far from where sizes overflow.
inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;

/// Places the arrays in a block at `block`, which is aligned to 64 bytes; null: sizes alone, which
/// do not overflow.
SlotArrays place_slot_arrays(const BatchStateOptions& options, std::byte* block);

/// The call of `sample` over the arrays of the first logits.rows slots, wherever they are. Without
/// a bitmask, which lies elsewhere.
SampleRequest call_over(const SlotArrays& arrays, const BatchStateOptions& options,
                        const RowsView& logits);

}  // namespace fairdraw::serving
