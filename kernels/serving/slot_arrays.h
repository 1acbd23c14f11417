// Memory of a batch state: arrays with one value per slot, and lists with one place per slot.
//
// Layout. One block. The memory begins with the table, which has all arrays with one value per slot
// side by side (parameters, seeds, offsets, and the begins and lengths of the lists), about 300
// bytes per slot. A step changes little other data, so a copy of the state on a device needs a
// single transfer of a few kilobytes per step. The lists follow after the table; each has a fixed
// capacity per slot. The same function places the arrays in a block on the host and in a block on a
// device.
//
// Lanes. The storage of a list belongs to a lane, and each slot has a lane, in which the begins
// locate the slot's lists. So two slots are exchanged by exchanging their columns of the table. No
// token is copied, and all data of the slots remain arrays with one value per row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "fairdraw/batch_state.h"

namespace fairdraw::serving {

/// Names of the lists of a request. The output begins right after the prompt, in the same lane.
enum class ListName : std::size_t {
  prompt,
  output,
  bias,
  stop_ids,
  bad_words,
  bad_word_lengths,
  allowed_ids,
  forced_tokens,
  dry_breakers,
  prompt_to_read,  ///< prompt as the steps read it on the host: the whole prompt of a request with
                   ///< a rule of histories, and otherwise the different tokens of the prompt in
                   ///< ascending order, for the repetition penalty
};
inline constexpr std::size_t kLists = 10;

/// Arrays for one list per slot.
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

/// Pointers into a block. Every array with one value per slot has `capacity` elements.
struct SlotArrays {
  std::uint64_t* seed = nullptr;
  std::uint64_t* offset = nullptr;
  std::uint64_t* id = nullptr;
  std::uint64_t* entry = nullptr;  ///< unique number that each request gets when it enters the
                                   ///< batch, or 0 if the slot is empty
  std::int32_t* lane = nullptr;
  float* temperature = nullptr;
  std::int32_t* top_k = nullptr;
  float* top_p = nullptr;
  float* min_p = nullptr;
#define FAIRDRAW_PROCESSING_PARAMETER(type, name, neutral) type* name = nullptr;
#include "fairdraw/processing_parameters.inc"
  std::int32_t* penalised_prompt =
      nullptr;  ///< number of tokens of the prompt, or 0 without repetition_of_prompt
  std::uint8_t* repetition_of_prompt = nullptr;
  std::uint8_t* active = nullptr;
  std::array<ListArrays, kLists> lists;

  ListArrays& list(ListName name) { return lists[static_cast<std::size_t>(name)]; }
  const ListArrays& list(ListName name) const { return lists[static_cast<std::size_t>(name)]; }

  float* bias_values = nullptr;  ///< biases of the tokens in list(ListName::bias).data, in the same
                                 ///< order

  // The following arrays exist only with HistoryForm::dense.
  std::int32_t* output_counts = nullptr;  ///< [capacity, vocab]
  std::uint32_t* prompt_mask = nullptr;   ///< bits of the prompts' tokens [capacity, words of
                                          ///< vocab]

  std::int64_t table_bytes = 0;  ///< size of the table in bytes; the lists begin after the table
  std::int64_t bytes = 0;        ///< size of the whole block in bytes

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

/// Largest size of a block in bytes, which is above the memory of any machine and far from an
/// overflow.
inline constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;

/// Places the arrays in a block at the address `block`, which must be aligned to 64 bytes. If
/// `block` is null, the function only computes the sizes, which do not overflow.
SlotArrays place_slot_arrays(const BatchStateOptions& options, std::byte* block);

/// Returns the request to `sample` over the arrays of the first logits.rows slots, on the host or
/// on a device. The request has no bitmask, because the bitmask is stored elsewhere.
SampleRequest call_over(const SlotArrays& arrays, const BatchStateOptions& options,
                        const RowsView& logits);

}  // namespace fairdraw::serving
