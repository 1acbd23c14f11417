// Logits processing of a row, by the block that owns a part of it: before the row's values arrive.
//
// Contract. fairdraw/logits_processing.h: penalties, biases and bans become edits of the block's
// places (edit_planes.h), in the workspace, bit for bit as the CPU path has them. What is wrong
// with a list, or a logit that a step makes infinite, is the row's trouble; nothing beyond the row
// is touched.
//
// Algorithm and cost. All blocks of a row read its lists, and each keeps the tokens of its own
// part. Every list is walked by all threads, an entry each, between barriers; nothing is sorted and
// nothing is searched, so the cost is linear in the lists, plus the block's words of bits:
//   1. The words are cleared; banned bits are what `allowed` leaves out.
//   2. Output: each token's count is set to 0, then added up by atomics; then the thread that sets
//   a
//      token's edited bit is the one that reads its count and writes its logit.
//   3. Prompt: tokens that are not edited yet, in the same way.
//   4. Bias: the last entry of a token is found by an atomic maximum over places in the list.
//   5. Stop ids, bad words, allowed ids: bits of bans.
// All of it runs while the bulk copies of the row are under way: for many rows it costs no time of
// its own. Values that are edited are read apart from the row, which has not arrived.
//
// Numerics. kernels/common/processing_rules.h: float32, one rounding an operation. Determinism:
// counts are integer sums, the last entry is a maximum, each edited value is written by one thread
// between barriers; no order of threads shows.
#pragma once

#include <climits>
#include <cstdint>

#include "edit_planes.h"
#include "filter_rows.h"
#include "processing_rules.h"
#include "row_segment.cuh"
#include "trouble.h"

namespace fairdraw::cuda {

__device__ inline RowEditsView edits_of(const EditPlanes& planes, std::int64_t row) {
  return {planes.bits + row * planes.words_of_row(), planes.values + row * planes.places_of_row};
}

template <class Segment, int kThreads>
class RowEditor {
 public:
  __device__ RowEditor(const RowsTask& task, const Segment& segment, std::int64_t row)
      : processing_(task.processing),
        allowed_(task.allowed.given() ? task.allowed.data + row * task.allowed.row_stride
                                      : nullptr),
        bits_(task.edits.bits + row * task.edits.words_of_row()),
        values_(task.edits.values + row * task.edits.places_of_row),
        later_(task.edits.later + row * task.edits.words_of_row()),
        segment_(segment),
        row_(row),
        vocab_(static_cast<int>(task.rows.vocab)),
        begin_(segment.places_begin()),
        end_(segment.places_end()),
        head_(segment.head()),
        thread_(static_cast<int>(threadIdx.x)) {
    // The row fails where they are not valid, and its values must stay numbers until then.
    const ProcessingParameters parameters = parameters_of(processing_, row);
    if (check(parameters) == RowStatus::ok) parameters_ = parameters;
  }

  /// Makes the block's edits. The worst trouble that this thread has seen. Edits can be read after
  /// the next barrier.
  __device__ std::uint32_t edit() {
    clear();
    const RowList output = list_of(processing_.output, Trouble::invalid_history);
    __syncthreads();
    penalise(output);
    add_biases();
    ban_stop_ids();
    ban_bad_words(output);
    ban_all_but_allowed();
    return trouble_;
  }

 private:
  __device__ void note(Trouble trouble) {
    trouble_ = max(trouble_, static_cast<std::uint32_t>(trouble));
  }

  __device__ RowList list_of(const TokenLists& lists, Trouble trouble) {
    const RowList list = fairdraw::list_of(lists, row_);
    if (!list.in_buffer) note(trouble);
    return list;
  }

  /// Calls visit(place, i) for those entries of a list that lie in the block's part.
  template <class Visit>
  __device__ void each(const RowList& list, Trouble trouble, bool placeholders, Visit&& visit) {
    for (int i = thread_; i < list.length; i += kThreads) {
      const std::int32_t token = list.ids[i];
      if (!is_token(token, vocab_)) {
        if (!placeholders || token != kPlaceholder) note(trouble);
        continue;
      }
      const int place = token + head_;
      if (is_own(place)) visit(place, i);
    }
  }

  __device__ bool is_own(int place) const { return place >= begin_ && place < end_; }

  /// True for the thread that is first to set an edited bit.
  __device__ bool claims(int place) {
    const std::uint32_t bit = 1U << (place % 32);
    return (atomicOr(&bits_[place / 32].x, bit) & bit) == 0;
  }
  __device__ bool is_edited(int place) const {
    return ((bits_[place / 32].x >> (place % 32)) & 1U) != 0;
  }
  __device__ void ban(int place) { atomicOr(&bits_[place / 32].y, 1U << (place % 32)); }

  __device__ std::int32_t* count_at(int place) {
    return reinterpret_cast<std::int32_t*>(values_ + place);
  }

  __device__ void write(int place, float raw, float made) {
    if (overflowed(raw, made)) note(Trouble::processing_overflow);
    values_[place] = made;
  }

  // --- Bits --------------------------------------------------------------------------------------

  /// Calls visit(word) for the words of the block's places.
  template <class Visit>
  __device__ void each_word(Visit&& visit) {
    for (int word = begin_ / 32 + thread_; word < end_ / 32; word += kThreads) visit(word);
  }

  __device__ void clear() {
    each_word([&](int word) {
      bits_[word] = make_uint2(0U, allowed_ == nullptr ? 0U : ~bits_of_places(allowed_, word));
    });
  }

  /// The bits of 32 places, of bits by token.
  __device__ std::uint32_t bits_of_places(const std::uint32_t* by_token, int word) const {
    const int words = (vocab_ + 31) / 32;
    const std::uint32_t high = word < words ? by_token[word] : 0U;
    if (head_ == 0) return high;
    const std::uint32_t low = word > 0 && word <= words ? by_token[word - 1] : 0U;
    return __funnelshift_l(low, high, head_);
  }

  // --- Penalties ---------------------------------------------------------------------------------

  __device__ void penalise(const RowList& output) {
    const RowList prompt = list_of(processing_.prompt, Trouble::invalid_history);
    if (output_length(processing_, row_) < 0) note(Trouble::invalid_history);
    if (reads_output(parameters_)) {
      if (processing_.output_counts.given()) {
        penalise_counted();
      } else {
        penalise_listed(output);
      }
      __syncthreads();
    }
    if (!reads_prompt(parameters_)) return;
    each(prompt, Trouble::invalid_history, true, [&](int place, int) { penalise_once(place, 0); });
    if (processing_.prompt_mask.given()) {
      const std::uint32_t* by_token =
          processing_.prompt_mask.data + row_ * processing_.prompt_mask.row_stride;
      each_word([&](int word) {
        for (std::uint32_t left = bits_of_places(by_token, word); left != 0; left &= left - 1) {
          const int place = word * 32 + __ffs(static_cast<int>(left)) - 1;
          if (place - head_ < vocab_) penalise_once(place, 0);
        }
      });
    }
    __syncthreads();
  }

  /// Unless the token is edited already.
  __device__ void penalise_once(int place, std::int32_t count) {
    if (!claims(place)) return;
    const float raw = segment_.raw_value(place - head_);
    write(place, raw, penalised(raw, count, parameters_));
  }

  __device__ void penalise_counted() {
    const TokenCounts& counts = processing_.output_counts;
    const std::int32_t* by_token = counts.data + row_ * counts.row_stride - head_;
    const int end = min(end_, vocab_ + head_);
    for (int place = max(begin_, head_) + thread_; place < end; place += kThreads) {
      const std::int32_t count = by_token[place];
      if (count < 0) note(Trouble::invalid_history);
      if (count > 0) penalise_once(place, count);
    }
  }

  __device__ void penalise_listed(const RowList& output) {
    each(output, Trouble::invalid_history, true, [&](int place, int) { *count_at(place) = 0; });
    __syncthreads();
    each(output, Trouble::invalid_history, true,
         [&](int place, int) { atomicAdd(count_at(place), 1); });
    __syncthreads();
    each(output, Trouble::invalid_history, true, [&](int place, int) {
      // Only the one that claims the token reads its count: later ones would find the logit there.
      if (claims(place)) {
        const float raw = segment_.raw_value(place - head_);
        write(place, raw, penalised(raw, *count_at(place), parameters_));
      }
    });
  }

  // --- Bias --------------------------------------------------------------------------------------

  __device__ bool is_later(int place) const {
    return ((later_[place / 32] >> (place % 32)) & 1U) != 0;
  }

  /// Of entries with one id the last counts: chunks from the end of the list, and in a chunk the
  /// largest number.
  __device__ void add_biases() {
    const RowList list = list_of(processing_.bias_ids, Trouble::invalid_logit_bias);
    if (list.length == 0) return;
    const float* biases = processing_.bias_values.data + list.begin;
    const bool one_chunk = list.length <= kThreads;
    if (!one_chunk) {
      each_word([&](int word) { later_[word] = 0; });
      __syncthreads();
    }
    for (int end = list.length; end > 0; end -= kThreads) {
      const int i = end - kThreads + thread_;
      int place = -1;
      float raw = 0.0F;
      float bias = 0.0F;
      if (i >= 0) {
        const std::int32_t token = list.ids[i];
        bias = biases[i];
        if (!is_token(token, vocab_) || !is_bias(bias)) {
          note(Trouble::invalid_logit_bias);
        } else if (is_own(token + head_) && (one_chunk || !is_later(token + head_))) {
          place = token + head_;
        }
      }
      if (place >= 0) raw = is_edited(place) ? values_[place] : segment_.raw_value(place - head_);
      __syncthreads();
      if (place >= 0) *count_at(place) = -1;
      __syncthreads();
      if (place >= 0) atomicMax(count_at(place), i);
      __syncthreads();
      const bool last = place >= 0 && *count_at(place) == i;
      __syncthreads();
      if (last) {
        write_bias(place, raw, bias);
        if (!one_chunk) atomicOr(&later_[place / 32], 1U << (place % 32));
      }
      __syncthreads();
    }
  }

  __device__ void write_bias(int place, float raw, float bias) {
    if (is_ban(bias)) {
      ban(place);
      // What was a count there becomes the logit again, which nobody reads.
      values_[place] = raw;
    } else {
      claims(place);
      write(place, raw, biased(raw, bias));
    }
  }

  // --- Bans --------------------------------------------------------------------------------------

  __device__ void ban_stop_ids() {
    const std::int32_t least = processing_.min_tokens.at(row_);
    const RowList list = list_of(processing_.stop_ids, Trouble::invalid_min_tokens);
    const std::int64_t length = output_length(processing_, row_);
    each(list, Trouble::invalid_min_tokens, false, [&](int place, int) {
      if (length < least) ban(place);
    });
  }

  __device__ void ban_bad_words(const RowList& output) {
    const RowList words = list_of(processing_.bad_words, Trouble::invalid_bad_words);
    const RowList lengths = list_of(processing_.bad_word_lengths, Trouble::invalid_bad_words);
    each(words, Trouble::invalid_bad_words, false, [](int, int) {});
    if (lengths.length == 0) {
      if (words.length > 0) note(Trouble::invalid_bad_words);
      return;
    }
    // A warp finds where its words begin, 32 at a time: lists of words are short.
    if (thread_ >= kWarp) return;
    std::int64_t begin = 0;
    for (int first = 0; first < lengths.length; first += kWarp) {
      const int w = first + thread_;
      const std::int32_t length = w < lengths.length ? lengths.ids[w] : 0;
      if (w < lengths.length && length < 1) note(Trouble::invalid_bad_words);
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
        if (is_token(last, vocab_) && is_own(last + head_) &&
            completes_word(word, length, output.ids, output.length)) {
          ban(last + head_);
        }
      }
      begin += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    }
    if (begin != words.length) note(Trouble::invalid_bad_words);
  }

  __device__ void ban_all_but_allowed() {
    const RowList list = list_of(processing_.allowed_ids, Trouble::invalid_allowed_ids);
    if (list.length == 0) return;
    __syncthreads();
    each_word([&](int word) { later_[word] = 0; });
    __syncthreads();
    each(list, Trouble::invalid_allowed_ids, false,
         [&](int place, int) { atomicOr(&later_[place / 32], 1U << (place % 32)); });
    __syncthreads();
    each_word([&](int word) { bits_[word].y |= ~later_[word]; });
  }

  const LogitsProcessing& processing_;
  const std::uint32_t* allowed_;
  EditBits* bits_;
  float* values_;
  std::uint32_t* later_;
  const Segment& segment_;
  std::int64_t row_;
  int vocab_, begin_, end_, head_, thread_;
  ProcessingParameters parameters_;
  std::uint32_t trouble_ = 0;
};

/// Makes the edits of this block's part of a row; the worst trouble that this thread has seen. A
/// call of its own, so that what it needs is not kept beside the row's state.
template <class Segment, int kThreads>
__device__ __noinline__ std::uint32_t edit_row(const RowsTask& task, const RowShape& shape,
                                               std::int64_t row, int rank) {
  const Segment segment(task.rows, row, nullptr, shape, rank, nullptr);
  return RowEditor<Segment, kThreads>(task, segment, row).edit();
}

}  // namespace fairdraw::cuda
