// Edits of one row by a block (edit_rows.cu), and the kernel around them.
//
// The kernel of calls with green tokens is compiled in a file of its own: if two kernels share the
// functions that are out of line, these spill twice as many registers.
#pragma once

#include <cstdint>

#include "common/processing_rules.h"
#include "cuda/device/early_start.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/warp_sums.cuh"
#include "cuda/processing/edit_rows.h"
#include "cuda/processing/edit_table.cuh"
#include "cuda/processing/editor_memory.cuh"
#include "cuda/processing/row_filters.cuh"
#include "cuda/processing/row_histories.cuh"
#include "cuda/rows/edit_planes.h"
#include "cuda/rows/row_fault.h"

namespace fairdraw::cuda {

/// Number of blocks that must fit on an SM. It limits the registers of the filters, so that the row
/// kernel, which starts early, has registers beside this kernel.
inline constexpr int kEditBlocksOfSm = 2;

/// Editor of a row. Only calls with green tokens have the code for them.
template <bool kGreen>
class RowEditor {
  static constexpr int kThreads = kEditThreads;

 public:
  __device__ RowEditor(const EditTask& task, std::int64_t row, EditorMemory& memory)
      : processing_(task.processing),
        mask_(task.allowed.given() ? task.allowed.data + row * task.allowed.row_stride : nullptr),
        allowed_(task.edits.allowed + row * task.edits.words_of_row),
        edited_(task.edits.edited + row * task.edits.words_of_row),
        values_(task.edits.values + row * task.edits.tokens_of_row()),
        later_(task.edits.later + row * task.edits.words_of_row),
        green_(kGreen ? task.green.bits + row * task.edits.words_of_row : nullptr),
        green_bias_(task.green.bias),
        logits_(RowValues::of(task.rows, row)),
        memory_(memory),
        row_(row),
        first_id_(task.first_id),
        vocab_(static_cast<int>(task.rows.vocab)),
        whole_vocab_(task.whole_vocab > 0 ? task.whole_vocab : vocab_),
        words_((vocab_ + 31) / 32),
        thread_(static_cast<int>(threadIdx.x)) {}

  /// Loads the lists, the logits of their tokens if the list changes logits, and the words of
  /// `allowed`. The block waits for no other loads, except for later entries of long lists and
  /// later words of large vocabularies.
  __device__ void read() {
#pragma unroll
    for (int i = 0; i < kFirstWords; ++i) {
      const int word = thread_ + i * kThreads;
      first_allowed_[i] = word < words_ ? allowed_by_mask(word) : 0U;
    }
    memory_.table.clear(thread_, kThreads);
    __syncthreads();
    const ProcessingParameters& parameters = memory_.parameters;
    // If the parameters of the row are invalid, the row fails, but its values must not become NaN
    // before that. The rules of histories are read from memory_.
    const RowStatus status = check_penalties(parameters);
    if (status == RowStatus::invalid_penalty) note(RowFault::invalid_penalty);
    if (status == RowStatus::invalid_min_tokens) note(RowFault::negative_min_tokens);
    if (status == RowStatus::ok) parameters_ = parameters;
    if (memory_.output_length < 0) note(RowFault::invalid_history);
    check_places();
    look_at_lists();
  }

  /// Makes the edits of the row. Returns the most severe fault that this thread has found.
  __device__ std::uint32_t edit() {
    const ProcessingParameters& parameters = memory_.parameters;
    clear();
    if (fits_table()) {
      edit_by_table();
    } else {
      penalise();
      add_biases();
    }
    if constexpr (kGreen) add_green_biases();
    each(kStopIds, RowFault::invalid_min_tokens, false, [&](int token, float) {
      if (memory_.output_length < parameters.min_tokens) ban(token);
    });
    ban_bad_words();
    return fault_;
  }

 private:
  /// Entry of a list that a thread has loaded; the entry's number is the thread's own number.
  struct Entry {
    std::int32_t id;
    float raw;  ///< logit of the token, if the token is in this row and the list changes logits
  };

  __device__ void note(RowFault fault) { fault_ = max(fault_, static_cast<std::uint32_t>(fault)); }
  __device__ const RowList& list(ListName name) const { return memory_.lists[name]; }

  /// Checks that all lists are inside their buffers.
  __device__ void check_places() {
    const auto check_place = [this](ListName name, RowFault fault) {
      if (!list(name).in_buffer) note(fault);
    };
    check_place(kOutput, RowFault::invalid_history);
    check_place(kPrompt, RowFault::invalid_history);
    check_place(kBiasIds, RowFault::invalid_logit_bias);
    check_place(kStopIds, RowFault::invalid_min_tokens);
    check_place(kBadWords, RowFault::invalid_bad_words);
    check_place(kBadWordLengths, RowFault::invalid_bad_words);
    check_place(kAllowedIds, RowFault::invalid_allowed_ids);
  }

  __device__ void look_at_lists() {
#pragma unroll
    for (int name = 0; name < kLists; ++name) {
      const RowList& of_row = memory_.lists[name];
      first_[name].id = thread_ < of_row.length ? of_row.ids[thread_] : kPlaceholder;
    }
    if (thread_ < list(kBiasIds).length) first_bias_ = bias_values()[thread_];
#pragma unroll
    for (int name = 0; name <= kBiasIds; ++name) {
      first_[name].raw = raw_of(first_[name].id);
    }
  }

  /// Returns whether a token id exists in the vocabulary. Tokens are numbered here as columns of
  /// the row, but the lists contain token ids.
  __device__ bool is_id(std::int32_t id) const { return is_token(id, whole_vocab_); }
  __device__ bool is_here(std::int32_t id) const { return is_in_row(id, first_id_, vocab_); }
  __device__ float raw(std::int32_t token) const { return logits_[token]; }
  __device__ float raw_of(std::int32_t id) const {
    return is_here(id) ? raw(id - first_id_) : 0.0F;
  }
  __device__ const float* bias_values() const {
    return processing_.bias_values.data + list(kBiasIds).begin;
  }

  /// Calls visit(token, logit) for the tokens of a list that are in this row. In lists that change
  /// logits, `logit` is the value in the row.
  template <class Visit>
  __device__ void each(ListName name, RowFault fault, bool placeholders, Visit&& visit) {
    const int length = list(name).length;
    for (int i = thread_; i < length; i += kThreads) {
      Entry entry = first_[name];
      if (i != thread_) {
        entry.id = list(name).ids[i];
        entry.raw = name <= kBiasIds ? raw_of(entry.id) : 0.0F;
      }
      if (!is_id(entry.id)) {
        if (!placeholders || entry.id != kPlaceholder) note(fault);
        continue;
      }
      if (is_here(entry.id)) visit(entry.id - first_id_, entry.raw);
    }
  }

  /// Returns whether this thread is the first to set the token's edited bit.
  __device__ bool claims(int token) {
    return (atomicOr(&edited_[token / 32], bit_of(token)) & bit_of(token)) == 0;
  }
  __device__ bool is_edited(int token) const { return (edited_[token / 32] & bit_of(token)) != 0; }
  __device__ void ban(int token) { atomicAnd(&allowed_[token / 32], ~bit_of(token)); }
  __device__ static std::uint32_t bit_of(int token) { return 1U << (token % 32); }

  __device__ std::int32_t* count_at(int token) {
    return reinterpret_cast<std::int32_t*>(values_ + token);
  }

  __device__ void write(int token, float before, float after) {
    if (overflowed(before, after)) note(RowFault::processing_overflow);
    values_[token] = after;
  }

  // --- Bits --------------------------------------------------------------------------------------

  /// Calls visit(word) for each index of a word of the row's bits.
  template <class Visit>
  __device__ void each_word(Visit&& visit) {
    for (int word = thread_; word < words_; word += kThreads) visit(word);
  }

  /// Clears the edits, and sets the allowed bits of the tokens that both the mask and the allowed
  /// ids permit. The function ends with a barrier.
  __device__ void clear() {
    const bool few = list(kAllowedIds).length > 0;
    const auto set = [&](int word, std::uint32_t by_mask) {
      allowed_[word] = few ? 0U : by_mask;
      edited_[word] = 0U;
    };
#pragma unroll
    for (int i = 0; i < kFirstWords; ++i) {
      const int word = thread_ + i * kThreads;
      if (word < words_) set(word, first_allowed_[i]);
    }
    for (int word = thread_ + kFirstWords * kThreads; word < words_; word += kThreads) {
      set(word, allowed_by_mask(word));
    }
    __syncthreads();
    if (!few) return;
    each(kAllowedIds, RowFault::invalid_allowed_ids, false,
         [&](int token, float) { atomicOr(&allowed_[token / 32], bit_of(token)); });
    __syncthreads();
    each_word([&](int word) { allowed_[word] &= allowed_by_mask(word); });
    __syncthreads();
  }

  __device__ std::uint32_t allowed_by_mask(int word) const {
    return mask_ == nullptr ? ~0U : mask_[word];
  }

  // --- Penalties and biases of lists that the table holds ----------------------------------------

  __device__ bool fits_table() const {
    const bool dense = (processing_.output_counts.given() && reads_output(parameters_)) ||
                       (processing_.prompt_mask.given() && reads_prompt(memory_.parameters));
    const std::int64_t entries =
        std::int64_t{list(kOutput).length} + list(kPrompt).length + list(kBiasIds).length;
    return !dense && entries <= kTableEntries;
  }

  __device__ void edit_by_table() {
    EditTable& table = memory_.table;
    if (reads_output(parameters_)) {
      each(kOutput, RowFault::invalid_history, true,
           [&](int token, float logit) { table.add_seen(token, logit, EditTable::kCounted); });
    }
    if (reads_prompt(memory_.parameters)) {
      const std::int32_t occurrence =
          memory_.parameters.history.counts_of_prompt != 0 ? EditTable::kCounted : EditTable::kSeen;
      each(kPrompt, RowFault::invalid_history, true,
           [&](int token, float logit) { table.add_seen(token, logit, occurrence); });
    }
    for (int i = thread_; i < list(kBiasIds).length; i += kThreads) {
      const bool first = i == thread_;
      const std::int32_t id = first ? first_[kBiasIds].id : list(kBiasIds).ids[i];
      const float bias = first ? first_bias_ : bias_values()[i];
      if (!is_id(id) || !is_bias(bias)) {
        note(RowFault::invalid_logit_bias);
      } else if (is_here(id)) {
        table.add_bias(id - first_id_, first ? first_[kBiasIds].raw : raw_of(id), i,
                       raised(id - first_id_, bias));
      }
    }
    __syncthreads();
    for (int slot = thread_; slot < EditTable::kSlots; slot += kThreads) {
      if (table.token[slot] != EditTable::kNoToken) write_slot(table, slot);
    }
  }

  __device__ void write_slot(const EditTable& table, int slot) {
    const int token = table.token[slot];
    const std::int32_t seen = table.count[slot];
    const float logit = table.logit[slot];
    float x = logit;
    if (seen > 0) x = penalised(logit, seen % EditTable::kSeen, parameters_);
    if (overflowed(logit, x)) note(RowFault::processing_overflow);
    const int last = table.last_bias[slot];
    if (last >= 0 && is_ban(table.bias[last])) {
      ban(token);
    } else if (last >= 0) {
      const float before = x;
      x = biased(x, table.bias[last]);
      if (overflowed(before, x)) note(RowFault::processing_overflow);
    }
    values_[token] = x;
    atomicOr(&edited_[token / 32], bit_of(token));
  }

  // --- Penalties ---------------------------------------------------------------------------------

  __device__ void penalise() {
    if (reads_output(parameters_)) {
      if (processing_.output_counts.given()) {
        penalise_counted();
        __syncthreads();
      } else {
        penalise_listed();
        __syncthreads();
      }
    }
    if (!reads_prompt(memory_.parameters)) return;
    each(kPrompt, RowFault::invalid_history, true,
         [&](int token, float logit) { penalise_once(token, logit, 0); });
    if (processing_.prompt_mask.given()) {
      const std::uint32_t* by_token =
          processing_.prompt_mask.data + row_ * processing_.prompt_mask.row_stride;
      each_word([&](int word) {
        for (std::uint32_t left = by_token[word]; left != 0; left &= left - 1) {
          const int token = word * 32 + __ffs(static_cast<int>(left)) - 1;
          if (token < vocab_) penalise_once(token, raw(token), 0);
        }
      });
    }
    __syncthreads();
  }

  /// Applies the penalties to a token that has not been edited yet.
  __device__ void penalise_once(int token, float logit, std::int32_t count) {
    if (claims(token)) write(token, logit, penalised(logit, count, parameters_));
  }

  __device__ void penalise_counted() {
    const TokenCounts& counts = processing_.output_counts;
    const std::int32_t* by_token = counts.data + row_ * counts.row_stride;
    for (int token = thread_; token < vocab_; token += kThreads) {
      const std::int32_t count = by_token[token];
      if (count < 0) note(RowFault::invalid_history);
      if (count > 0) penalise_once(token, raw(token), count);
    }
  }

  __device__ void penalise_listed() {
    each_counted([&](int token, float) { *count_at(token) = 0; });
    __syncthreads();
    each_counted([&](int token, float) { atomicAdd(count_at(token), 1); });
    __syncthreads();
    // Only the thread that sets a token's edited bit reads the token's count, because the logit
    // then replaces the count in memory.
    each_counted([&](int token, float logit) {
      if (claims(token)) write(token, logit, penalised(logit, *count_at(token), parameters_));
    });
  }

  /// Visits the tokens of the output, and those of the prompt if the row counts them.
  template <class Visit>
  __device__ void each_counted(Visit&& visit) {
    each(kOutput, RowFault::invalid_history, true, visit);
    if (memory_.parameters.history.counts_of_prompt != 0) {
      each(kPrompt, RowFault::invalid_history, true, visit);
    }
  }

  // --- Bias --------------------------------------------------------------------------------------

  __device__ bool is_later(int token) const { return (later_[token / 32] & bit_of(token)) != 0; }

  /// Adds the biases. If several entries have the same id, the last entry is used. So chunks of the
  /// list are taken from its end, and within a chunk the entry with the largest number wins.
  __device__ void add_biases() {
    const RowList ids = list(kBiasIds);
    if (ids.length == 0) return;
    const float* biases = processing_.bias_values.data + ids.begin;
    const bool one_chunk = ids.length <= kThreads;
    if (!one_chunk) {
      each_word([&](int word) { later_[word] = 0; });
      __syncthreads();
    }
    for (int end = ids.length; end > 0; end -= kThreads) {
      const int i = one_chunk ? thread_ : end - kThreads + thread_;
      int token = kNoToken;
      float logit = 0.0F;
      float bias = 0.0F;
      if (i >= 0 && i < end) {
        const std::int32_t id = one_chunk ? first_[kBiasIds].id : ids.ids[i];
        bias = biases[i];
        if (!is_id(id) || !is_bias(bias)) {
          note(RowFault::invalid_logit_bias);
        } else if (is_here(id) && (one_chunk || !is_later(id - first_id_))) {
          token = id - first_id_;
          bias = raised(token, bias);
          logit = is_edited(token) ? values_[token] : one_chunk ? first_[kBiasIds].raw : raw(token);
        }
      }
      __syncthreads();
      if (token >= 0) *count_at(token) = -1;
      __syncthreads();
      if (token >= 0) atomicMax(count_at(token), i);
      __syncthreads();
      const bool last = token >= 0 && *count_at(token) == i;
      __syncthreads();
      if (last) {
        write_bias(token, logit, bias);
        if (!one_chunk) atomicOr(&later_[token / 32], bit_of(token));
      }
      __syncthreads();
    }
  }

  __device__ void write_bias(int token, float logit, float bias) {
    if (is_ban(bias)) {
      ban(token);
      values_[token] = logit;  // replaces the number of a list entry by the logit
    } else {
      claims(token);
      write(token, logit, biased(logit, bias));
    }
  }

  // --- Green tokens ------------------------------------------------------------------------------

  /// Returns the bias of a token that has one of its own.
  __device__ float raised(int token, float bias) const {
    if constexpr (kGreen) {
      if ((green_[token / 32] & bit_of(token)) != 0) return rounded::add(bias, green_bias_);
    }
    return bias;
  }

  /// Adds the bias of green tokens to those that have no bias of their own.
  __device__ void add_green_biases() {
    __syncthreads();
    each_word([&](int word) { later_[word] = 0; });
    __syncthreads();
    const RowList& ids = list(kBiasIds);
    for (int i = thread_; i < ids.length; i += kThreads) {
      const std::int32_t id = ids.ids[i];
      if (is_here(id)) atomicOr(&later_[(id - first_id_) / 32], bit_of(id - first_id_));
    }
    __syncthreads();
    const std::uint32_t lane = bit_of(thread_ % kWarp);
    constexpr int kStep = kThreads / kWarp;
#pragma unroll 1
    for (int first = thread_ / kWarp; first < words_; first += kGreenAtOnce * kStep) {
      std::uint32_t green[kGreenAtOnce];
      std::uint32_t edited[kGreenAtOnce];
      float x[kGreenAtOnce];
      logits_.load(first * kWarp + thread_ % kWarp, kStep * kWarp, vocab_, 0.0F, x);
#pragma unroll
      for (int i = 0; i < kGreenAtOnce; ++i) {
        const int word = first + i * kStep;
        green[i] = word < words_ ? green_[word] & ~later_[word] : 0;
        edited[i] = word < words_ ? edited_[word] : 0;
      }
      __syncwarp();  // lane 0 changes the words that all lanes have read
#pragma unroll
      for (int i = 0; i < kGreenAtOnce; ++i) {
        const int word = first + i * kStep;
        const int token = word * kWarp + thread_ % kWarp;
        if ((green[i] & lane) != 0) {
          const float before = (edited[i] & lane) != 0 ? values_[token] : x[i];
          write(token, before, biased(before, green_bias_));
        }
        if (lane == 1 && green[i] != 0) edited_[word] = edited[i] | green[i];
      }
    }
    __syncthreads();
  }

  // --- Bad words ---------------------------------------------------------------------------------

  __device__ void ban_bad_words() {
    const RowList words = list(kBadWords);
    const RowList lengths = list(kBadWordLengths);
    each(kBadWords, RowFault::invalid_bad_words, false, [](int, float) {});
    if (lengths.length == 0) {
      if (words.length > 0) note(RowFault::invalid_bad_words);
      return;
    }
    // A single warp finds the beginnings of the words in the list, 32 words at a time, because
    // lists of bad words are short.
    if (thread_ >= kWarp) return;
    const RowList& output = memory_.history.output;
    std::int64_t begin = 0;
    for (int first = 0; first < lengths.length; first += kWarp) {
      const int w = first + thread_;
      const std::int32_t length = w < lengths.length ? lengths.ids[w] : 0;
      if (w < lengths.length && length < 1) note(RowFault::invalid_bad_words);
      std::int64_t inclusive = max(length, 0);
#pragma unroll
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const std::int64_t before = __shfl_up_sync(kAllLanes, inclusive, distance);
        if (thread_ >= distance) inclusive += before;
      }
      const std::int64_t end = begin + inclusive;
      if (w < lengths.length && length >= 1 && end <= words.length) {
        const std::int32_t* word = words.ids + (end - length);
        const std::int32_t last = word[length - 1];
        if (is_here(last) && completes_word(word, length, output.ids, output.length)) {
          ban(last - first_id_);
        }
      }
      begin += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    }
    if (begin != words.length) note(RowFault::invalid_bad_words);
  }

  static constexpr int kNoToken = -1;
  /// Number of words of green bits that a warp loads at once.
  static constexpr int kGreenAtOnce = 8;

  const LogitsProcessing& processing_;
  const std::uint32_t* mask_;  ///< bit mask of the call, or null if all tokens are allowed
  std::uint32_t* allowed_;
  std::uint32_t* edited_;
  float* values_;
  std::uint32_t* later_;
  const std::uint32_t* green_;
  float green_bias_;
  RowValues logits_;
  EditorMemory& memory_;
  std::int64_t row_;
  int first_id_, vocab_, whole_vocab_, words_, thread_;
  ProcessingParameters parameters_;  ///< neutral if a parameter of the row is out of its range
  /// Number of words of bits that a thread loads first, which covers a vocabulary of up to 131072
  /// tokens.
  static constexpr int kFirstWords = 8;
  std::uint32_t first_allowed_[kFirstWords];
  Entry first_[kLists];
  float first_bias_ = 0.0F;
  std::uint32_t fault_ = 0;
};

/// Applies the filters and the rules of histories that the call gives to a row whose other edits
/// are written. The function finds the row again, so that rows without it keep no registers for it.
__device__ __noinline__ inline void apply_filters_and_rules(const EditTask& task, std::int64_t row,
                                                            GivenParameters given,
                                                            EditorMemory& memory) {
  const ProcessingParameters& parameters = memory.parameters;
  const RowValues logits = RowValues::of(task.rows, row);
  const auto vocab = static_cast<int>(task.rows.vocab);
  std::uint32_t* const allowed = task.edits.allowed + row * task.edits.words_of_row;
  std::uint32_t* const edited = task.edits.edited + row * task.edits.words_of_row;
  float* const values = task.edits.values + row * task.edits.tokens_of_row();
  if (given.rules) {
    apply_rules({parameters.history, memory.history, memory.breakers, memory.place, logits, allowed,
                 edited, values, task.first_id, vocab});
    __syncthreads();
  }
  if (given.filters) {
    double* const share = task.entropy_shares == nullptr ? nullptr : task.entropy_shares + row;
    apply_row_filters({logits, edited, values, allowed, vocab, memory.filters}, parameters,
                      static_cast<std::int32_t>(memory.output_length), share);
  }
}

template <bool kGreen>
__global__ void __launch_bounds__(kEditThreads, kEditBlocksOfSm)
    edit_rows_kernel(const __grid_constant__ EditTask task, GivenParameters given) {
  // The storage is an array of bytes, because a variable in shared memory must not have a
  // constructor.
  __shared__ alignas(EditorMemory) unsigned char storage[sizeof(EditorMemory)];
  __shared__ std::uint32_t worst;
  auto& memory = *reinterpret_cast<EditorMemory*>(storage);
  const std::int64_t row = blockIdx.x;
  if (task.active.given() && task.active.data[row] == 0) return;
  find_processing(task.processing, row, given, memory);
  RowFault found = RowFault::none;
  if (given.filters || given.rules) {
    found = prepare_filters_and_rules(task, given, memory);
  }
  if (threadIdx.x == 0) {
    worst = 0;
    if (task.entropy_shares != nullptr) task.entropy_shares[row] = 1.0;
  }
  RowEditor<kGreen> editor(task, row, memory);
  editor.read();
  let_next_kernel_start();
  const std::uint32_t fault = max(editor.edit(), static_cast<std::uint32_t>(found));
  if (fault > 0) atomicMax(&worst, fault);
  __syncthreads();
  if (threadIdx.x == 0) task.edits.faults[row] = static_cast<RowFault>(worst);
  // A row that fails needs no filters, and its parameters may be out of their ranges.
  if ((given.filters || given.rules) && worst == 0) {
    apply_filters_and_rules(task, row, given, memory);
  }
}

}  // namespace fairdraw::cuda
