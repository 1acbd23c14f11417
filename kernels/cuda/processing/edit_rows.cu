// Logits processing of rows (fairdraw/logits_processing.h), as edits for the row kernel.
//
// Contract. For every active row of a task with `edits`: penalties, biases and bans become edited
// values and bits (edit_planes.h), bit for bit as the CPU path has them, and what is wrong with the
// row's lists, or a logit that a step makes infinite, its fault. Parameters out of their ranges
// are the row kernel's to report: they are neutral here. Nothing beyond the row is touched.
//
// Algorithm and cost. A block a row. Every list is walked by all threads, an entry each, between
// barriers; nothing is sorted, so the cost is linear in the lists, plus the row's words of bits; of
// the logits only those of listed tokens are read.
//   1. Lists, their first entries, those tokens' logits and the first words of `allowed` are read.
//   2. The words are cleared; banned bits are what `allowed` and the allowed ids leave out.
//   3. Penalties and biases: lists of up to kTableEntries ids together meet in a table in shared
//      memory (edit_table.cuh), and each of its tokens is then written once. Longer ones, and dense
//      counts and masks, work in the workspace: counts are set to 0, then added up by atomics; then
//      the thread that sets a token's edited bit reads its count and writes its logit; of biases
//      the last is found by an atomic maximum over places in the list.
//   4. Stop ids, bad words: bits of bans.
// It is a launch of its own, in front of the row kernel, which it lets start once its reads are
// done (compute capability 9.0): so the row kernel keeps its registers and its instructions, and
// brings its rows meanwhile. Reads and instructions that wait for each other are the time here, 10
// us for one row, and not the work.
//
// What was tried (H200, B = 64, V = 128256, top_k 50 + top_p 0.9, bitmask, 512 tokens of output, 64
// biases; microseconds; 29 without processing, 34 with the bitmask alone, 49 as it is):
//   inside of the row kernel, while the row comes: a memory that brings 64 rows at once answers a
//     read after them after 8. Bits in the workspace 68, in shared memory 58, streamed steps
//     through L2 51; all reads before the row's 57
//   as a launch of its own that ends before the row kernel starts 56; that lets it start at once 52
//   penalties and biases in the workspace alone instead of the table 52
//
// Randomness: none. Numerics. kernels/common/processing_rules.h: float32, one rounding an
// operation. Determinism: counts are integer sums, the last entry is a maximum, each edited value
// is written by one thread between barriers; no order of threads shows.
#include <cstdint>

#include "common/processing_rules.h"
#include "cuda/device/read_value.cuh"
#include "cuda/device/row_launch.h"
#include "cuda/device/warp_sums.cuh"
#include "cuda/processing/edit_planes.h"
#include "cuda/processing/edit_table.cuh"
#include "cuda/row_filter/filter_rows.h"
#include "cuda/row_filter/row_fault.h"

namespace fairdraw::cuda {
namespace {

constexpr int kThreads = 512;

/// The lists of a row. Their places, and what of them a thread looks at first, are read all at
/// once: a read of each when it is needed would wait for memory seven times.
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

/// What the editor keeps in shared memory.
struct EditorMemory {
  RowList lists[kLists];
  ProcessingParameters parameters;
  std::int64_t output_length;  ///< that min_tokens counts
  EditTable table;
};

/// Reads what a row is asked for and where its lists are, a warp each, before its logits are asked
/// for: a read after those would wait for all of them. Other warps pass by. It can be used after
/// the next barrier.
__device__ inline void find_processing(const LogitsProcessing& processing, std::int64_t row,
                                       EditorMemory& memory) {
  const int thread = static_cast<int>(threadIdx.x);
  const auto find = [&](ListName name, const TokenLists& lists) {
    if (thread == name * kWarp) memory.lists[name] = list_of(lists, row);
  };
  find(kOutput, processing.output);
  find(kPrompt, processing.prompt);
  find(kBiasIds, processing.bias_ids);
  find(kStopIds, processing.stop_ids);
  find(kBadWords, processing.bad_words);
  find(kBadWordLengths, processing.bad_word_lengths);
  find(kAllowedIds, processing.allowed_ids);
  if (thread == kLists * kWarp) memory.parameters = parameters_of(processing, row);
  if (thread == (kLists + 1) * kWarp) memory.output_length = output_length(processing, row);
}

class RowEditor {
 public:
  __device__ RowEditor(const RowsTask& task, std::int64_t row, EditorMemory& memory)
      : processing_(task.processing),
        allowed_(task.allowed.given() ? task.allowed.data + row * task.allowed.row_stride
                                      : nullptr),
        bits_(task.edits.bits + row * task.edits.words_of_row()),
        values_(task.edits.values + row * task.edits.places_of_row),
        later_(task.edits.later + row * task.edits.words_of_row()),
        logits_(RowValues::of(task.rows, row)),
        memory_(memory),
        row_(row),
        vocab_(static_cast<int>(task.rows.vocab)),
        head_(place_of_first_token(logits_.bytes, task.rows.dtype)),
        words_((vocab_ + head_ + 31) / 32),
        thread_(static_cast<int>(threadIdx.x)) {}

  /// Reads the lists, and the logits of the tokens in them that change one, and what `allowed`
  /// bans: all that comes from memory and is waited for, except for what follows the first
  /// entries of long lists and the first words of large vocabularies.
  __device__ void read() {
#pragma unroll
    for (int i = 0; i < kFirstWords; ++i) {
      const int word = thread_ + i * kThreads;
      first_banned_[i] = word < words_ ? banned_by_mask(word) : 0U;
    }
    memory_.table.clear(thread_, kThreads);
    __syncthreads();
    const ProcessingParameters& parameters = memory_.parameters;
    // The row fails where they are not valid, and its values must stay numbers until then.
    if (check(parameters) == RowStatus::ok) parameters_ = parameters;
    if (memory_.output_length < 0) note(RowFault::invalid_history);
    check_places();
    look_at_lists();
  }

  /// Makes the block's edits. The worst fault that this thread has seen.
  __device__ std::uint32_t edit() {
    const ProcessingParameters& parameters = memory_.parameters;
    clear();
    if (fits_table()) {
      edit_by_table();
    } else {
      penalise();
      add_biases();
    }
    each(kStopIds, RowFault::invalid_min_tokens, false, [&](int place, float) {
      if (memory_.output_length < parameters.min_tokens) ban(place);
    });
    ban_bad_words();
    return fault_;
  }

 private:
  /// What a thread has read of the entry with its own number.
  struct Entry {
    std::int32_t id;
    float raw;  ///< the token's logit, of own tokens in lists that change logits
  };

  __device__ void note(RowFault fault) { fault_ = max(fault_, static_cast<std::uint32_t>(fault)); }
  __device__ const RowList& list(ListName name) const { return memory_.lists[name]; }

  /// Of the lists in their buffers.
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
      first_[name].raw = is_token(first_[name].id, vocab_) ? raw(first_[name].id) : 0.0F;
    }
  }

  __device__ float raw(std::int32_t token) const { return logits_[token]; }
  __device__ const float* bias_values() const {
    return processing_.bias_values.data + list(kBiasIds).begin;
  }

  /// Calls visit(place, logit) for the tokens of a list. The logit is that of the row, of lists
  /// that change logits.
  template <class Visit>
  __device__ void each(ListName name, RowFault fault, bool placeholders, Visit&& visit) {
    const int length = list(name).length;
    for (int i = thread_; i < length; i += kThreads) {
      Entry entry = first_[name];
      if (i != thread_) {
        entry.id = list(name).ids[i];
        entry.raw = name <= kBiasIds && is_token(entry.id, vocab_) ? raw(entry.id) : 0.0F;
      }
      if (!is_token(entry.id, vocab_)) {
        if (!placeholders || entry.id != kPlaceholder) note(fault);
        continue;
      }
      visit(entry.id + head_, entry.raw);
    }
  }

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

  __device__ void write(int place, float before, float after) {
    if (overflowed(before, after)) note(RowFault::processing_overflow);
    values_[place] = after;
  }

  // --- Bits --------------------------------------------------------------------------------------

  /// Calls visit(word) for the words of the row's places.
  template <class Visit>
  __device__ void each_word(Visit&& visit) {
    for (int word = thread_; word < words_; word += kThreads) visit(word);
  }

  /// No edits yet; banned is what `allowed` and the allowed ids leave out. Ends with a barrier.
  __device__ void clear() {
    const bool few = list(kAllowedIds).length > 0;
#pragma unroll
    for (int i = 0; i < kFirstWords; ++i) {
      const int word = thread_ + i * kThreads;
      if (word < words_) bits_[word] = make_uint2(0U, few ? ~0U : first_banned_[i]);
    }
    for (int word = thread_ + kFirstWords * kThreads; word < words_; word += kThreads) {
      bits_[word] = make_uint2(0U, few ? ~0U : banned_by_mask(word));
    }
    __syncthreads();
    if (!few) return;
    each(kAllowedIds, RowFault::invalid_allowed_ids, false,
         [&](int place, float) { atomicAnd(&bits_[place / 32].y, ~(1U << (place % 32))); });
    __syncthreads();
    each_word([&](int word) { bits_[word].y |= banned_by_mask(word); });
    __syncthreads();
  }

  __device__ std::uint32_t banned_by_mask(int word) const {
    return allowed_ == nullptr ? 0U : ~bits_of_places(allowed_, word);
  }

  /// The bits of 32 places, of bits by token.
  __device__ std::uint32_t bits_of_places(const std::uint32_t* by_token, int word) const {
    const int words = (vocab_ + 31) / 32;
    const std::uint32_t high = word < words ? by_token[word] : 0U;
    if (head_ == 0) return high;
    const std::uint32_t low = word > 0 && word <= words ? by_token[word - 1] : 0U;
    return __funnelshift_l(low, high, head_);
  }

  // --- Penalties and biases of lists that the table holds ----------------------------------------

  __device__ bool fits_table() const {
    const bool dense = (processing_.output_counts.given() && reads_output(parameters_)) ||
                       (processing_.prompt_mask.given() && reads_prompt(parameters_));
    const std::int64_t entries =
        std::int64_t{list(kOutput).length} + list(kPrompt).length + list(kBiasIds).length;
    return !dense && entries <= kTableEntries;
  }

  __device__ void edit_by_table() {
    EditTable& table = memory_.table;
    if (reads_output(parameters_)) {
      each(kOutput, RowFault::invalid_history, true,
           [&](int place, float logit) { table.add_output(place - head_, logit); });
    }
    if (reads_prompt(parameters_)) {
      each(kPrompt, RowFault::invalid_history, true,
           [&](int place, float logit) { table.add_prompt(place - head_, logit); });
    }
    for (int i = thread_; i < list(kBiasIds).length; i += kThreads) {
      const bool first = i == thread_;
      const std::int32_t token = first ? first_[kBiasIds].id : list(kBiasIds).ids[i];
      const float bias = first ? first_bias_ : bias_values()[i];
      if (!is_token(token, vocab_) || !is_bias(bias)) {
        note(RowFault::invalid_logit_bias);
      } else {
        table.add_bias(token, first ? first_[kBiasIds].raw : raw(token), i, bias);
      }
    }
    __syncthreads();
    for (int slot = thread_; slot < EditTable::kSlots; slot += kThreads) {
      if (table.token[slot] != EditTable::kNoToken) write_slot(table, slot);
    }
  }

  __device__ void write_slot(const EditTable& table, int slot) {
    const int place = table.token[slot] + head_;
    const std::int32_t seen = table.count[slot];
    const float logit = table.logit[slot];
    float x = logit;
    if (seen > 0) x = penalised(logit, seen % EditTable::kSeen, parameters_);
    if (overflowed(logit, x)) note(RowFault::processing_overflow);
    const int last = table.last_bias[slot];
    if (last >= 0 && is_ban(table.bias[last])) {
      ban(place);
    } else if (last >= 0) {
      const float before = x;
      x = biased(x, table.bias[last]);
      if (overflowed(before, x)) note(RowFault::processing_overflow);
    }
    values_[place] = x;
    atomicOr(&bits_[place / 32].x, 1U << (place % 32));
  }

  // --- Penalties ---------------------------------------------------------------------------------

  __device__ void penalise() {
    if (reads_output(parameters_)) {
      if (processing_.output_counts.given()) {
        penalise_counted();
        __syncthreads();
      } else if (list(kOutput).length > 0) {
        penalise_listed();
        __syncthreads();
      }
    }
    if (!reads_prompt(parameters_)) return;
    each(kPrompt, RowFault::invalid_history, true,
         [&](int place, float logit) { penalise_once(place, logit, 0); });
    if (processing_.prompt_mask.given()) {
      const std::uint32_t* by_token =
          processing_.prompt_mask.data + row_ * processing_.prompt_mask.row_stride;
      each_word([&](int word) {
        for (std::uint32_t left = bits_of_places(by_token, word); left != 0; left &= left - 1) {
          const int place = word * 32 + __ffs(static_cast<int>(left)) - 1;
          if (place - head_ < vocab_) penalise_once(place, raw(place - head_), 0);
        }
      });
    }
    __syncthreads();
  }

  /// Unless the token is edited already.
  __device__ void penalise_once(int place, float logit, std::int32_t count) {
    if (claims(place)) write(place, logit, penalised(logit, count, parameters_));
  }

  __device__ void penalise_counted() {
    const TokenCounts& counts = processing_.output_counts;
    const std::int32_t* by_token = counts.data + row_ * counts.row_stride;
    for (int token = thread_; token < vocab_; token += kThreads) {
      const std::int32_t count = by_token[token];
      if (count < 0) note(RowFault::invalid_history);
      if (count > 0) penalise_once(token + head_, raw(token), count);
    }
  }

  __device__ void penalise_listed() {
    each(kOutput, RowFault::invalid_history, true, [&](int place, float) { *count_at(place) = 0; });
    __syncthreads();
    each(kOutput, RowFault::invalid_history, true,
         [&](int place, float) { atomicAdd(count_at(place), 1); });
    __syncthreads();
    // Only the one that claims a token reads its count: later ones would find the logit there.
    each(kOutput, RowFault::invalid_history, true, [&](int place, float logit) {
      if (claims(place)) write(place, logit, penalised(logit, *count_at(place), parameters_));
    });
  }

  // --- Bias --------------------------------------------------------------------------------------

  __device__ bool is_later(int place) const {
    return ((later_[place / 32] >> (place % 32)) & 1U) != 0;
  }

  /// Of entries with one id the last counts: chunks from the end of the list, and in a chunk the
  /// largest number.
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
      int place = -1;
      float logit = 0.0F;
      float bias = 0.0F;
      if (i >= 0 && i < end) {
        const std::int32_t token = one_chunk ? first_[kBiasIds].id : ids.ids[i];
        bias = biases[i];
        if (!is_token(token, vocab_) || !is_bias(bias)) {
          note(RowFault::invalid_logit_bias);
        } else if (one_chunk || !is_later(token + head_)) {
          place = token + head_;
          logit = is_edited(place) ? values_[place] : one_chunk ? first_[kBiasIds].raw : raw(token);
        }
      }
      __syncthreads();
      if (place >= 0) *count_at(place) = -1;
      __syncthreads();
      if (place >= 0) atomicMax(count_at(place), i);
      __syncthreads();
      const bool last = place >= 0 && *count_at(place) == i;
      __syncthreads();
      if (last) {
        write_bias(place, logit, bias);
        if (!one_chunk) atomicOr(&later_[place / 32], 1U << (place % 32));
      }
      __syncthreads();
    }
  }

  __device__ void write_bias(int place, float logit, float bias) {
    if (is_ban(bias)) {
      ban(place);
      values_[place] = logit;  // a number stood there
    } else {
      claims(place);
      write(place, logit, biased(logit, bias));
    }
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
    // A warp finds where its words begin, 32 at a time: lists of words are short.
    if (thread_ >= kWarp) return;
    const RowList output = list(kOutput);
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
        if (is_token(last, vocab_) && completes_word(word, length, output.ids, output.length)) {
          ban(last + head_);
        }
      }
      begin += __shfl_sync(kAllLanes, inclusive, kWarp - 1);
    }
    if (begin != words.length) note(RowFault::invalid_bad_words);
  }

  const LogitsProcessing& processing_;
  const std::uint32_t* allowed_;
  EditBits* bits_;
  float* values_;
  std::uint32_t* later_;
  RowValues logits_;
  EditorMemory& memory_;
  std::int64_t row_;
  int vocab_, head_, words_, thread_;
  ProcessingParameters parameters_;
  /// Words of bits that a thread reads at the start: all of them up to a vocabulary of 131064.
  static constexpr int kFirstWords = 8;
  std::uint32_t first_banned_[kFirstWords];
  Entry first_[kLists];
  float first_bias_ = 0.0F;
  std::uint32_t fault_ = 0;
};

/// The row kernel brings its rows while this one ends; it waits before it looks at edits. Not
/// before the reads above: they would wait behind the rows.
__device__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__global__ void __launch_bounds__(kThreads)
    edit_rows_kernel(const __grid_constant__ RowsTask task) {
  // Without a constructor, which shared memory does not have.
  __shared__ alignas(EditorMemory) unsigned char storage[sizeof(EditorMemory)];
  __shared__ std::uint32_t worst;
  auto& memory = *reinterpret_cast<EditorMemory*>(storage);
  const std::int64_t row = blockIdx.x;
  if (task.active.given() && task.active.data[row] == 0) return;
  find_processing(task.processing, row, memory);
  if (threadIdx.x == 0) worst = 0;
  RowEditor editor(task, row, memory);
  editor.read();
  let_next_kernel_start();
  const std::uint32_t fault = editor.edit();
  if (fault > 0) atomicMax(&worst, fault);
  __syncthreads();
  if (threadIdx.x == 0) task.edits.faults[row] = worst;
}

}  // namespace

cudaError_t edit_rows(const RowsTask& task, cudaStream_t stream) {
  return launch_clusters(edit_rows_kernel, task.rows.rows, 1, kThreads, stream, task);
}

}  // namespace fairdraw::cuda
