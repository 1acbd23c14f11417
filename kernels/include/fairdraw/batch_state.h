// BatchState: the requests of a running batch, as `sample` takes them.
//
// A batch has a fixed number of slots; slot i is row i of the calls. A request enters a slot with
// its parameters and its prompt, tokens are appended as they are drawn, and it leaves: for good
// (remove), or with everything needed to continue later in any slot of any batch (evict, restore).
//
// Random bits: a request's offset is the number of tokens that it has drawn, first_offset included,
// and advances by itself with every append. So its tokens are a function of its logits, parameters
// and seed, not of its slot, its neighbours, or how often it was preempted.
//
// Memory: everything is allocated once. Addresses of the arrays that sample_request() returns
// stay the same as long as the state lives, whatever enters, leaves or moves.
//
// C++17, the standard library alone. One thread at a time.
//
// Errors: A call returns invalid_argument if an argument is out of its range, if no request has the
// id or one has it already, if the slot is occupied or none is free, or if a list or a history has
// no room; then the state is as before. BatchState::make() returns unsupported if there is not
// enough memory.
//
// Definition: docs/serving.md for requests in slots; fairdraw/sample.h and
// fairdraw/logits_processing.h for their parameters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/sample.h"
#include "fairdraw/token_lists.h"
#include "fairdraw/types.h"

namespace fairdraw {

namespace serving {
struct BatchAccess;
}

/// The caller's name of a request: any number, unique among the requests of a state.
using RequestId = std::uint64_t;

/// How histories are passed to `sample`. Tokens are the same.
/// lists: the output as it is, and of a prompt that the repetition penalty reads the different ids;
/// a call goes through those that have a penalty, which costs their length.
/// dense: a bitmask of the prompt and counts of the output, kept from token to token. A call reads
/// them whole, whatever the length, so that on a CPU they pay for histories about as long as the
/// vocabulary alone; they take capacity * vocab * 4 1/8 bytes.
enum class HistoryForm : std::uint32_t {
  lists = 0,  ///< the output as it is, and the different ids of the prompt
  dense = 1,  ///< a bitmask of the prompt, and counts of the output
};

/// Sizes of a state. None changes while it lives.
struct BatchStateOptions {
  std::int64_t vocab = 0;            ///< 1 to kMaxVocab
  std::int32_t capacity = 0;         ///< slots, >= 1
  std::int32_t max_length = 0;       ///< most tokens of a request, prompt and output together, >= 1
  std::int32_t max_bias = 1024;      ///< most entries of a request's bias, >= 0
  std::int32_t max_stop_ids = 128;   ///< most ids that min_tokens bans, >= 0
  std::int32_t max_bad_words = 128;  ///< most bad words, >= 0
  std::int32_t max_bad_word_tokens = 1024;   ///< most tokens of all of them together, >= 0
  std::int32_t max_allowed_ids = 1024;       ///< most allowed ids, >= 0
  HistoryForm history = HistoryForm::lists;  ///< form of the histories that calls read
  TieRule tie_rule = TieRule::keep_all;      ///< of every call, as is the next one
  FilterOrder filter_order = FilterOrder::top_k_first;  ///< of every call
};

/// A token and what is added to its logit. -inf bans it.
struct TokenBias {
  std::int32_t token = 0;  ///< token id, in [0, vocab)
  float bias = 0.0F;       ///< added to its logit: -inf, or in [-2^64, 2^64]
};

/// A request as it enters a batch. Ranges and meanings: sample.h and logits_processing.h.
struct BatchRequest {
  float temperature = 1.0F;  ///< 0 (greedy) or in [2^-126, 2^64]
  std::int32_t top_k = 0;    ///< >= -1; 0 and -1: off
  float top_p = 1.0F;        ///< in [0, 1]
  float min_p = 0.0F;        ///< in [0, 1]

  float repetition_penalty = 1.0F;   ///< in [2^-64, 2^64]
  bool repetition_of_prompt = true;  ///< the penalty counts the prompt's tokens (SGLang's does not)
  float frequency_penalty = 0.0F;    ///< in [-2^64, 2^64]
  float presence_penalty = 0.0F;     ///< in [-2^64, 2^64]

  std::uint64_t seed = fresh_seed();  ///< without one of its own it has a fresh one, which is here
  std::uint64_t first_offset = 0;     ///< tokens drawn from this seed before the output begins

  std::int32_t min_tokens = 0;                       ///< >= 0
  std::vector<std::int32_t> stop_ids;                ///< banned until then
  std::vector<TokenBias> bias;                       ///< of a token listed twice the last counts
  std::vector<std::vector<std::int32_t>> bad_words;  ///< none empty
  std::vector<std::int32_t> allowed_ids;             ///< empty: all
  float top_n_sigma = 0.0F;                          ///< >= 0, or -1; -1, 0 and +inf: off

  std::vector<std::int32_t> prompt;  ///< ids, or -1 at a position that is no text
};

/// Everything a request needs to continue elsewhere. A value: it may be kept, copied, sent.
struct RequestSnapshot {
  RequestId id = 0;                    ///< the caller's name of the request
  BatchRequest request;                ///< its parameters and prompt, as add() took them
  std::vector<std::int32_t> output;    ///< drawn so far, oldest first
  std::vector<std::uint32_t> allowed;  ///< its row of the bitmask; empty: all are allowed
};

/// A request that compact() has moved.
struct SlotMove {
  std::int32_t from = 0;  ///< slot that the request left
  std::int32_t to = 0;    ///< slot that it has now
};

/// Every call that returns an Error with a code changes nothing; the message names the field, its
/// value and the allowed range.
class BatchState {
 public:
  /// Slot that add() and restore() choose themselves: the lowest free one.
  static constexpr std::int32_t kAnySlot = -1;

  /// The only way to make a state. invalid_argument where an option is out of its range,
  /// unsupported where there is not enough memory.
  static Error make(const BatchStateOptions& options, std::unique_ptr<BatchState>& state);

  ~BatchState();
  BatchState(const BatchState&) = delete;
  BatchState& operator=(const BatchState&) = delete;

  // Requests come, move and go.

  /// Into the lowest free slot, or into the one that is named, which must be free.
  Error add(RequestId id, const BatchRequest& request, std::int32_t slot = kAnySlot);
  /// Removes a request; its slot is free. invalid_argument where no request has this id.
  Error remove(RequestId id);
  /// Exchanges what is in two slots. One of them may be empty: that is a move. Both may be.
  Error swap(std::int32_t first, std::int32_t second);
  /// Moves the highest requests into the lowest free slots until none is free below slots().
  /// The moves, in the order in which they were made.
  std::vector<SlotMove> compact();
  /// As remove, with a snapshot.
  Error evict(RequestId id, RequestSnapshot& snapshot);
  /// As add, with the request's id and what it had drawn.
  Error restore(const RequestSnapshot& snapshot, std::int32_t slot = kAnySlot);

  // Tokens.

  /// Appends tokens to a request's output. Its offset advances by `count`.
  Error append(RequestId id, const std::int32_t* tokens, std::int64_t count);
  /// Appends tokens[slot] to the request of each slot; -1: none for this one.
  Error append_step(View<const std::int32_t> tokens);

  /// The allowed tokens of the request in each of the first packed.rows slots, from now on until
  /// they are set again or the request leaves. Rows of empty slots are ignored.
  /// `packed`: [slots, ceil(vocab / 32)] words.
  Error set_allowed(const BitRows<const std::uint32_t>& packed);
  /// All tokens are allowed again, for every request.
  void clear_allowed();

  // What is there.

  /// Options that the state was made with.
  const BatchStateOptions& options() const noexcept;
  std::int32_t size() const noexcept;                 ///< requests
  std::int32_t slots() const noexcept;                ///< one more than the highest occupied slot
  std::int32_t slot_of(RequestId id) const noexcept;  ///< -1: no such request
  /// false, too, of a slot outside [0, capacity)
  bool is_occupied(std::int32_t slot) const noexcept;
  RequestId id_at(std::int32_t slot) const noexcept;  ///< 0 where the slot is empty
  /// Tokens of the request of a slot; empty where there is none.
  View<const std::int32_t> prompt(std::int32_t slot) const noexcept;
  /// Tokens that the request of a slot has drawn, oldest first; empty where there is none.
  View<const std::int32_t> output(std::int32_t slot) const noexcept;
  /// Offset of the next token of the request of a slot; 0 where there is none.
  std::uint64_t offset(std::int32_t slot) const noexcept;
  /// Outputs of the first `rows` slots as lists.
  TokenLists outputs(std::int32_t rows) const noexcept;

  /// The call for one step: row i of `logits` belongs to slot i; empty slots are inactive.
  /// `allowed` is there once set_allowed() has been called. Rows: slots() to capacity.
  /// `logits`: [rows, vocab].
  Error sample_request(const RowsView& logits, SampleRequest& request) const;

 private:
  friend struct serving::BatchAccess;
  struct Slots;
  explicit BatchState(std::unique_ptr<Slots> slots);
  std::unique_ptr<Slots> slots_;
};

}  // namespace fairdraw
