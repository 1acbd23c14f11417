// Vocabulary of the public API: dtypes, views, per-request parameters, rules, statuses, errors.
//
// C++17, no dependency. Nothing here allocates but Error::message.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw {

/// Largest vocabulary: a row's sum of weights stays below 2^124 (sample.h), and of those for
/// speculation, at most 2^40 each, within 2^60.
inline constexpr std::int64_t kMaxVocab = std::int64_t{1} << 20;

/// Type of logits or probabilities in memory. All are read exactly (as the float32 of equal value).
enum class DType : std::uint32_t {
  float32 = 0,   ///< IEEE binary32
  float16 = 1,   ///< IEEE binary16
  bfloat16 = 2,  ///< the upper half of a binary32
};

/// Rule for tokens that tie with the k-th largest logit.
/// keep_all: all of them stay. lowest_id: exactly k stay, the lowest token ids among the tied.
enum class TieRule : std::uint32_t {
  keep_all = 0,   ///< all of them stay
  lowest_id = 1,  ///< exactly k tokens stay
};

/// Mass that top_p is measured on. top_k_first: the mass that survived top_k. joint: the mass
/// before top_k; the support is then the intersection (flashinfer.sampling, filter_apply_order).
enum class FilterOrder : std::uint32_t {
  top_k_first = 0,  ///< mass of what top_k left
  joint = 1,        ///< mass of the row before top_k
};

/// Which draw a random word is for. No two share bits. Philox counter's third word, low 8 bits.
enum class Purpose : std::uint32_t {
  draw = 0,     ///< the token of an output
  draft = 1,    ///< a drafted token
  accept = 2,   ///< the test of a drafted token
  recover = 3,  ///< the token after a rejection
  bonus = 4,    ///< the token after all drafts
};

/// Status of one output. Every status but ok comes with token -1 and leaves all others untouched.
enum class RowStatus : std::int32_t {
  ok = 0,                      ///< the output has its result
  inactive = 1,                ///< marked as padding: nothing was read
  nan_input = 2,               ///< NaN somewhere in the row (at a banned id too)
  infinite_input = 3,          ///< +inf somewhere in the row (at a banned id too)
  negative_probability = 4,    ///< a probability below zero
  no_allowed_token = 5,        ///< everything is -inf, banned, or of probability zero
  invalid_temperature = 6,     ///< not 0 and not in [2^-126, 2^64]
  invalid_top_k = 7,           ///< below -1
  invalid_top_p = 8,           ///< not in [0, 1]
  invalid_min_p = 9,           ///< not in [0, 1]
  index_out_of_range = 10,     ///< an entry of `indices`, or a draft token, outside its range
  invalid_history = 11,        ///< a list outside its buffer, an id that is no token, a bad count
  invalid_penalty = 12,        ///< repetition, frequency, presence or length penalty out of range
  invalid_logit_bias = 13,     ///< NaN, +inf or beyond 2^64, or of an id that is no token
  invalid_min_tokens = 14,     ///< min_tokens below 0, or a stop id that is no token
  invalid_bad_words = 15,      ///< a word of length 0 or beyond its list, an id that is no token
  invalid_allowed_ids = 16,    ///< an allowed id that is no token
  processing_overflow = 17,    ///< a penalty or bias made a finite logit infinite
  invalid_draft_length = 18,   ///< a draft longer than its buffer, or of a length below 0
  impossible_draft = 19,       ///< the draft's own distribution gives a drafted token probability 0
  invalid_draft_tree = 20,     ///< a parent not before its child; too many children
  invalid_stop_criteria = 21,  ///< what ends a request: a length, an id or a sequence out of range
  invalid_beam = 22,           ///< beam search: width, max_tokens, early_stopping, an end id
  invalid_top_n_sigma = 23,    ///< below 0 and not -1, or NaN
  invalid_tie_rule = 24,       ///< neither keep_all nor lowest_id
  invalid_filter_order = 25,   ///< neither top_k_first nor joint
};

/// How many statuses there are; their numbers are 0 to this, exclusive.
inline constexpr int kRowStatuses = 26;

/// Name of a status, as in the enum.
const char* to_string(RowStatus status) noexcept;
/// Name of a dtype, as in the enum.
const char* to_string(DType dtype) noexcept;

/// A pointer with a length in elements. Empty means: not given.
template <class T>
struct View {
  T* data = nullptr;      ///< [size]; null: not given
  std::int64_t size = 0;  ///< in elements

  constexpr View() = default;
  /// Views `size_` elements from `data_` on.
  constexpr View(T* data_, std::int64_t size_) : data(data_), size(size_) {}
  /// True where there is an array, which may be empty.
  constexpr bool given() const { return data != nullptr; }
};

/// A parameter with one value for the whole call, or an array with one value per row (or output).
template <class T>
struct PerRequest {
  T scalar{};              ///< the value of all rows where there is no array
  View<const T> values{};  ///< [rows] (or [outputs])

  constexpr PerRequest() = default;
  /// Takes one value for all rows. Implicit, so that `request.top_k = 50` is a call.
  constexpr PerRequest(T value) : scalar(value) {}
  /// Takes an array: `data` [size].
  constexpr PerRequest(const T* data, std::int64_t size) : values(data, size) {}
  /// True where each row has a value of its own.
  constexpr bool is_array() const { return values.given(); }
  /// Value of row i.
  constexpr T at(std::int64_t i) const { return is_array() ? values.data[i] : scalar; }
};

/// A row-major matrix that is read: `rows` rows of `vocab` values, `row_stride` values apart.
/// No alignment is asked of `data`.
struct RowsView {
  const void* data = nullptr;    ///< [rows, row_stride]; null: not given
  DType dtype = DType::float32;  ///< of each value
  std::int64_t rows = 0;         ///< >= 0
  std::int64_t vocab = 0;        ///< 1 to kMaxVocab; of a shard 0, too
  std::int64_t row_stride = 0;   ///< in elements, >= vocab
};

/// A float32 matrix that is written.
struct FloatRows {
  float* data = nullptr;        ///< [rows, row_stride]; null: not given
  std::int64_t rows = 0;        ///< as many as rows of the input
  std::int64_t row_stride = 0;  ///< in elements, >= vocab

  /// True where there is a matrix.
  constexpr bool given() const { return data != nullptr; }
};

/// A matrix of bits, 32 to a word, token i at bit (i % 32) of word i / 32. Bits at or beyond
/// `vocab` mean nothing on input and are zero on output.
template <class Word>
struct BitRows {
  Word* data = nullptr;         ///< [rows, row_stride]; null: not given
  std::int64_t rows = 0;        ///< as many as rows of the input
  std::int64_t row_stride = 0;  ///< in words, >= ceil(vocab / 32)

  /// True where there is a matrix.
  constexpr bool given() const { return data != nullptr; }
};

/// Kind of an error.
enum class ErrorCode : std::int32_t {
  ok = 0,                ///< no error
  invalid_argument = 1,  ///< a field out of its range, or an array of the wrong length
  unsupported = 2,       ///< this build, this machine or its memory cannot serve the call
};

/// Outcome of a call. Converts to true when there IS an error; then no output was written, and
/// the message names the field, its value and the allowed range.
/// If a call cannot allocate memory of the host, it throws std::bad_alloc instead; if one of its
/// threads cannot, the program ends.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::ok;  ///< ok: the call has done its work
  std::string message;  ///< the field, its value and the allowed range; empty where the code is ok

  /// True where there is an error.
  explicit operator bool() const noexcept { return code != ErrorCode::ok; }
};

/// Instruction set of the CPU path. All give the same bits.
enum class CpuTarget : std::uint32_t {
  best = 0,    ///< the fastest that this machine runs
  scalar = 1,  ///< plain C++
  avx2 = 2,    ///< x86-64 with AVX2 and FMA
  avx512 = 3,  ///< x86-64 with AVX-512
  neon = 4,    ///< AArch64
};

/// Name of a target, as in the enum.
const char* to_string(CpuTarget target) noexcept;

/// True where this build has `target` and this machine can run it. `best` and `scalar` always.
bool is_available(CpuTarget target) noexcept;

/// The target that `best` means on this machine.
CpuTarget best_target() noexcept;

/// How a call runs on the CPU. Results do not depend on it.
struct Execution {
  CpuTarget target = CpuTarget::best;  ///< instruction set
  int threads = 0;                     ///< rows in parallel; 0: as many as OpenMP would take
};

}  // namespace fairdraw
