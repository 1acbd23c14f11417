// Types that the whole public API uses: dtypes, views, per-request parameters, rules, statuses,
// errors.
//
// C++17, no dependency. Nothing in this header allocates memory except Error::message.
#pragma once

#include <cstdint>
#include <string>

namespace fairdraw {

/// Largest size of a vocabulary. A row's sum of weights stays below 2^124 (sample.h), and the sum
/// of the weights for speculation, at most 2^40 each, stays within 2^60.
inline constexpr std::int64_t kMaxVocab = std::int64_t{1} << 20;

/// Type of logits or probabilities in memory. All dtypes are read exactly (as the float32 of equal
/// value).
enum class DType : std::uint32_t {
  float32 = 0,   ///< IEEE binary32
  float16 = 1,   ///< IEEE binary16
  bfloat16 = 2,  ///< the upper 16 bits of an IEEE binary32
};

/// Rule for tokens that tie with the k-th largest logit. keep_all: all tied tokens are kept.
/// lowest_id: exactly k tokens are kept, those with the lowest ids among the tied tokens.
enum class TieRule : std::uint32_t {
  keep_all = 0,   ///< all tied tokens are kept
  lowest_id = 1,  ///< exactly k tokens stay
};

/// Mass that top_p is measured on. top_k_first: the mass of the tokens that top_k keeps. joint: the
/// mass of all tokens, so that a survivor must pass both filters (flashinfer.sampling,
/// filter_apply_order).
enum class FilterOrder : std::uint32_t {
  top_k_first = 0,  ///< mass of the tokens that top_k keeps
  joint = 1,        ///< mass of all tokens of the row
};

/// Draw for which a random word is used. Words of different purposes share no bits. The purpose is
/// in the low 8 bits of the Philox counter's third word.
enum class Purpose : std::uint32_t {
  draw = 0,     ///< draws the token of an output
  draft = 1,    ///< draws a drafted token
  accept = 2,   ///< tests a drafted token
  recover = 3,  ///< draws the token after a rejection
  bonus = 4,    ///< draws the token after all drafts
  exclude = 5,  ///< tosses the coin of xtc_probability (fairdraw/logits_processing.h)
};

/// Status of one output. An output with any status but ok has token -1, and does not affect other
/// outputs.
enum class RowStatus : std::int32_t {
  ok = 0,                      ///< the output has its result
  inactive = 1,                ///< the row is marked as padding, and nothing of it was read
  nan_input = 2,               ///< the row has a NaN (at a banned id too)
  infinite_input = 3,          ///< the row has a +inf (at a banned id too)
  negative_probability = 4,    ///< a probability below zero
  no_allowed_token = 5,        ///< every token is at -inf, banned, or of probability zero
  invalid_temperature = 6,     ///< the temperature is neither 0 nor in [2^-126, 2^64]
  invalid_top_k = 7,           ///< below -1
  invalid_top_p = 8,           ///< not in [0, 1]
  invalid_min_p = 9,           ///< not in [0, 1]
  index_out_of_range = 10,     ///< an entry of `indices` or a drafted token is out of its range
  invalid_history = 11,        ///< a list is outside its buffer, an id is not a token, or a count
                               ///< is out of its range
  invalid_penalty = 12,        ///< a repetition, frequency, presence or length penalty is out of
                               ///< its range
  invalid_logit_bias = 13,     ///< a bias is NaN, +inf or beyond 2^64, or its id is not a token
  invalid_min_tokens = 14,     ///< min_tokens is below 0, or a stop id is not a token
  invalid_bad_words = 15,      ///< a word has length 0 or lies beyond its list, or an id is not a
                               ///< token
  invalid_allowed_ids = 16,    ///< an allowed id, or a forced one, is not a token
  processing_overflow = 17,    ///< a penalty or bias made a finite logit infinite
  invalid_draft_length = 18,   ///< a draft is longer than its buffer, or its length is below 0
  impossible_draft = 19,       ///< the draft's own distribution gives a drafted token probability 0
  invalid_draft_tree = 20,     ///< a parent does not come before its child, or a node has too many
                               ///< children
  invalid_stop_criteria = 21,  ///< a length, an id or a sequence that may end a request is out of
                               ///< range
  invalid_beam = 22,           ///< beam search: width, max_tokens, early_stopping or an end id is
                               ///< out of range
  invalid_top_n_sigma = 23,    ///< the parameter is below 0 and not -1, or NaN
  invalid_tie_rule = 24,       ///< the rule is neither keep_all nor lowest_id
  invalid_filter_order = 25,   ///< the order is neither top_k_first nor joint
  invalid_probability_filter = 26,  ///< a filter by probability, or a part of a chain (typical_p to
                                    ///< adaptive_target in fairdraw/logits_processing.h), is out
                                    ///< of its range
  invalid_history_rule = 27,  ///< a rule of histories (penalty_window to top_p_reset_id) is out of
                              ///< its range
};

/// Number of statuses, which are numbered from 0 on.
inline constexpr int kRowStatuses = 28;

/// Returns the name of a status, as in the enum.
const char* to_string(RowStatus status) noexcept;
/// Returns the name of a dtype, as in the enum.
const char* to_string(DType dtype) noexcept;

/// A pointer to an array, with the array's length in elements. A view with a null pointer means
/// that the array is not given.
template <class T>
struct View {
  T* data = nullptr;      ///< [size]; first element of the array; null if the array is not given
  std::int64_t size = 0;  ///< in elements

  constexpr View() = default;
  /// Makes a view of `size_` elements from `data_` on.
  constexpr View(T* data_, std::int64_t size_) : data(data_), size(size_) {}
  /// Returns true if an array is given; the array may have no elements.
  constexpr bool given() const { return data != nullptr; }
};

/// A parameter with one value for the whole call, or an array with one value per row (or per
/// output).
template <class T>
struct PerRequest {
  T scalar{};              ///< value of all rows if no array is given
  View<const T> values{};  ///< [rows] (or [outputs])

  constexpr PerRequest() = default;
  /// Makes a parameter with one value for all rows. The constructor is implicit, so that a caller
  /// can write `request.top_k = 50`.
  constexpr PerRequest(T value) : scalar(value) {}
  /// Makes a parameter from an array: `data` [size].
  constexpr PerRequest(const T* data, std::int64_t size) : values(data, size) {}
  /// Returns true if each row has a value of its own.
  constexpr bool is_array() const { return values.given(); }
  /// Value of row i.
  constexpr T at(std::int64_t i) const { return is_array() ? values.data[i] : scalar; }
};

/// A row-major matrix that is read: `rows` rows of `vocab` values each, with a distance of
/// `row_stride` values between the rows.
/// `data` needs no alignment.
struct RowsView {
  const void* data = nullptr;    ///< [rows, row_stride]; first element of the matrix; null if it is
                                 ///< not given
  DType dtype = DType::float32;  ///< of each value
  std::int64_t rows = 0;         ///< >= 0
  std::int64_t vocab = 0;        ///< number of values in a row, 1 to kMaxVocab; 0 is allowed for a
                                 ///< shard
  std::int64_t row_stride = 0;   ///< in elements, >= vocab
};

/// A float32 matrix that a call writes.
struct FloatRows {
  float* data = nullptr;        ///< [rows, row_stride]; first element of the matrix; null if it is
                                ///< not given
  std::int64_t rows = 0;        ///< number of rows, the same as of the input
  std::int64_t row_stride = 0;  ///< in elements, >= vocab

  /// Returns true if a matrix is given.
  constexpr bool given() const { return data != nullptr; }
};

/// A matrix of bits, 32 to a word: the bit of token i is bit (i % 32) of word i / 32. Bits at or
/// beyond `vocab` are ignored on input, and are zero on output.
template <class Word>
struct BitRows {
  Word* data = nullptr;         ///< [rows, row_stride]; first element of the matrix; null if it is
                                ///< not given
  std::int64_t rows = 0;        ///< number of rows, the same as of the input
  std::int64_t row_stride = 0;  ///< distance of two rows in words, >= ceil(vocab / 32)

  /// Returns true if a matrix is given.
  constexpr bool given() const { return data != nullptr; }
};

/// Kind of an error.
enum class ErrorCode : std::int32_t {
  ok = 0,                ///< no error
  invalid_argument = 1,  ///< a field is out of its range, or an array has the wrong length
  unsupported = 2,       ///< this build, this machine or its memory cannot serve the call
};

/// Outcome of a call. Result of a call. An Error converts to true if there IS an error; then no
/// output was written, and the message names the field, its value and the allowed range.
/// If a call cannot allocate memory of the host, it throws std::bad_alloc instead; if one of its
/// threads cannot, the program ends.
struct [[nodiscard]] Error {
  ErrorCode code = ErrorCode::ok;  ///< kind of the error; ok if the call has done its work
  std::string message;  ///< the field, its value and the allowed range; empty if the code is ok

  /// Returns true if there is an error.
  explicit operator bool() const noexcept { return code != ErrorCode::ok; }
};

/// Instruction set that a call on the CPU uses. All instruction sets give the same bits.
enum class CpuTarget : std::uint32_t {
  best = 0,    ///< the fastest instruction set that this machine runs
  scalar = 1,  ///< plain C++
  avx2 = 2,    ///< x86-64 processors with AVX2 and FMA
  avx512 = 3,  ///< x86-64 with AVX-512
  neon = 4,    ///< AArch64
};

/// Returns the name of a target, as in the enum.
const char* to_string(CpuTarget target) noexcept;

/// Returns true if this build has `target` and this machine can run it. `best` and `scalar` are
/// always available.
bool is_available(CpuTarget target) noexcept;

/// Returns the target that `best` means on this machine.
CpuTarget best_target() noexcept;

/// Settings of a call on the CPU. Results do not depend on these settings.
struct Execution {
  CpuTarget target = CpuTarget::best;  ///< instruction set
  int threads = 0;                     ///< number of rows worked on in parallel; 0: as many as
                                       ///< OpenMP would take
};

}  // namespace fairdraw
