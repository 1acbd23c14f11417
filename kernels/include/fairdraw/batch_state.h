// BatchState keeps the requests of a running batch in the form that `sample` takes.
//
// A batch has a fixed number of slots; slot i is row i of the calls. A request enters a slot with
// its parameters and its prompt, and its tokens are appended as they are drawn. A request leaves
// its slot for good (remove), or with everything that it needs to continue later in any slot of any
// batch (evict, restore).
//
// Random bits: a request's offset is the number of tokens that it has drawn, first_offset included,
// and advances by itself with every append. So a request's tokens are a function of its logits,
// parameters and seed. The tokens do not depend on the request's slot, on its neighbours, or on how
// often it was preempted.
//
// Memory: a state allocates all of its memory when it is made. The arrays that sample_request()
// returns keep their addresses as long as the state lives, whichever requests enter, leave or move.
//
// The implementation needs C++17 and the standard library alone. A state is used by one thread at a
// time.
//
// Errors: A call returns invalid_argument if an argument is out of its range, if no request has the
// id or a request already has it, if the slot is occupied or no slot is free, or if a list or a
// history has no room. After an error, the state is as before the call. BatchState::make() returns
// unsupported if there is not enough memory.
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

/// The number by which the caller names a request: any number that no other request of the state
/// has.
using RequestId = std::uint64_t;

/// Form in which `sample` reads the histories of requests. Both forms give the same tokens, but
/// only lists have rules of histories. lists: the output's ids in order, and the distinct ids of a
/// prompt that has a repetition penalty, or the whole prompt of a request with such a rule. A call
/// goes through the histories of requests with a penalty, at a cost that grows with their
/// length. dense: a bitmask of the prompt and counts of the output, which are updated with every
/// token. A call reads bitmask and counts whole, whatever the length of the history. On a CPU,
/// dense is faster only if histories are about as long as the vocabulary. The dense arrays take
/// capacity * vocab * 4 1/8 bytes.
enum class HistoryForm : std::uint32_t {
  lists = 0,  ///< the ids of the output, and those of the prompt
  dense = 1,  ///< a bitmask of the prompt, and counts of the output
};

/// Sizes of a state. No size changes while the state lives.
struct BatchStateOptions {
  std::int64_t vocab = 0;            ///< 1 to kMaxVocab
  std::int32_t capacity = 0;         ///< slots, >= 1
  std::int32_t max_length = 0;       ///< largest number of tokens of a request, prompt and output
                                     ///< together, >= 1
  std::int32_t max_bias = 1024;      ///< largest number of entries of a request's bias, >= 0
  std::int32_t max_stop_ids = 128;   ///< largest number of ids that min_tokens bans in a request,
                                     ///< >= 0
  std::int32_t max_bad_words = 128;  ///< most bad words, >= 0
  std::int32_t max_bad_word_tokens = 1024;   ///< largest number of tokens in all bad words of a
                                             ///< request together, >= 0
  std::int32_t max_allowed_ids = 1024;       ///< most allowed ids, >= 0
  std::int32_t max_forced_tokens = 128;      ///< most forced tokens, >= 0
  std::int32_t max_dry_breakers = 128;       ///< most breakers of repetitions, >= 0
  HistoryForm history = HistoryForm::lists;  ///< form of the histories that a call reads
  TieRule tie_rule = TieRule::keep_all;      ///< rule for ties of top_k, the same in every call
  FilterOrder filter_order = FilterOrder::top_k_first;  ///< of every call
};

/// A token, and the number that is added to its logit. A bias of -inf bans the token.
struct TokenBias {
  std::int32_t token = 0;  ///< token id, in [0, vocab)
  float bias = 0.0F;       ///< number that is added to the token's logit: -inf, or in [-2^64, 2^64]
};

/// A request with its parameters and its prompt, as it enters a batch. The headers sample.h and
/// logits_processing.h give the ranges and meanings of the parameters.
struct BatchRequest {
  float temperature = 1.0F;  ///< 0 (greedy) or in [2^-126, 2^64]
  std::int32_t top_k = 0;    ///< >= -1; 0 and -1: off
  float top_p = 1.0F;        ///< in [0, 1]
  float min_p = 0.0F;        ///< in [0, 1]

  float repetition_penalty = 1.0F;   ///< in [2^-64, 2^64]
  bool repetition_of_prompt = true;  ///< true if the repetition penalty counts the prompt's tokens
                                     ///< (as SGLang's penalty does not)
  float frequency_penalty = 0.0F;    ///< in [-2^64, 2^64]
  float presence_penalty = 0.0F;     ///< in [-2^64, 2^64]

  std::uint64_t seed = fresh_seed();  ///< seed of the request; by default a fresh one
  std::uint64_t first_offset = 0;     ///< number of tokens that were drawn from this seed before
                                      ///< the output begins

  std::int32_t min_tokens = 0;         ///< >= 0
  std::vector<std::int32_t> stop_ids;  ///< banned until then
  /// biases of tokens; of two entries for one token the last counts
  std::vector<TokenBias> bias;
  std::vector<std::vector<std::int32_t>> bad_words;  ///< none empty
  std::vector<std::int32_t> allowed_ids;             ///< empty: all
  /// threshold of top_n_sigma: >= 0, or -1; the filter is off at -1, 0 and +inf
  float top_n_sigma = 0.0F;
  // The filters by probability, step 9 of fairdraw/logits_processing.h.
  float typical_p = 1.0F;        ///< in [0, 1]; 1: off
  float epsilon_cutoff = 0.0F;   ///< in [0, 1]; 0: off
  float eta_cutoff = 0.0F;       ///< in [0, 1]; 0: off
  std::int32_t p_less = 0;       ///< 1: on, 0: off
  float top_h = 1.0F;            ///< in [0, 1]; 1: off
  float xtc_probability = 0.0F;  ///< in [0, 1]; 0: off
  float xtc_threshold = 0.1F;    ///< in [0, 1]; no effect above 1/2
  /// seed of the coins, which requests should not share; `seed` will do
  std::uint64_t xtc_seed = 0;
  // The chain of the filters, instead of the order of steps 8 and 9.
  std::uint64_t filter_chain = 0;  ///< filter_chain_of(...); 0: the order of the steps
  float chain_temperature = 1.0F;  ///< in [2^-126, 2^64]
  std::int32_t chain_top_k = 0;    ///< >= -1; -1 and 0: off
  float chain_top_p = 1.0F;        ///< in [0, 1]; 1: off
  float chain_min_p = 0.0F;        ///< in [0, 1]; 0: off
  float adaptive_target = -1.0F;   ///< in [-1, 1], for all tokens; below 0: off
  // The temperature that follows the entropy.
  float dynatemp_range = 0.0F;     ///< in [0, 2^64]; 0: off
  float dynatemp_exponent = 1.0F;  ///< in [0, 2^64]
  // The rules of histories, which need HistoryForm::lists and repetition_of_prompt.
  std::int32_t penalty_window = -1;        ///< number of last tokens that penalties count; -1: all
  std::int32_t counts_of_prompt = 0;       ///< 1: the frequency and the presence penalty count the
                                           ///< prompt's tokens, too
  std::int32_t no_repeat_ngram_size = 0;   ///< 0: off
  float dry_multiplier = 0.0F;             ///< in [0, 2^64]; 0: off
  float dry_base = 1.75F;                  ///< in [1, 2^64]
  std::int32_t dry_allowed_length = 2;     ///< >= 1
  std::int32_t dry_window = -1;            ///< number of last tokens that are compared; -1: all
  std::vector<std::int32_t> dry_breakers;  ///< ids across which nothing repeats
  std::int32_t forced_after = -1;          ///< id in [0, vocab), or -1: the beginning of the output
  std::int32_t forced_delay = 0;           ///< number of ids in between, >= 0
  std::vector<std::int32_t> forced_tokens;  ///< tokens that are forced then; none: off
  // The rule of top_p, which needs HistoryForm::lists alone.
  float top_p_decay = 1.0F;          ///< factor of top_p after each token, above 0, up to 1; 1: off
  float top_p_min = 1e-6F;           ///< least top_p that decays, above 0, up to 1
  std::int32_t top_p_reset_id = -1;  ///< id in [0, vocab) after which top_p is the request's own
                                     ///< again, or -1: none

  std::vector<std::int32_t> prompt;  ///< ids of the prompt; -1 at a position that is not text
};

/// A copy of everything that a request needs to continue in another slot or batch. A snapshot is a
/// plain value, so that it may be kept, copied and sent.
struct RequestSnapshot {
  RequestId id = 0;                    ///< id by which the caller names the request
  BatchRequest request;                ///< parameters and prompt of the request, as add() took them
  std::vector<std::int32_t> output;    ///< tokens that the request has drawn so far, oldest first
  std::vector<std::uint32_t> allowed;  ///< row of the request in the bitmask of allowed tokens;
                                       ///< empty: all tokens are allowed
};

/// A request that compact() has moved.
struct SlotMove {
  std::int32_t from = 0;  ///< slot that the request had before
  std::int32_t to = 0;    ///< slot that the request has now
};

/// A call that returns an Error with a code changes nothing. The message names the field, its value
/// and the allowed range.
class BatchState {
 public:
  /// Argument that makes add() and restore() choose the lowest free slot.
  static constexpr std::int32_t kAnySlot = -1;

  /// Makes a state; a program cannot construct a state directly. Errors: invalid_argument if an
  /// option is out of its range, unsupported if there is not enough memory.
  static Error make(const BatchStateOptions& options, std::unique_ptr<BatchState>& state);

  ~BatchState();
  BatchState(const BatchState&) = delete;
  BatchState& operator=(const BatchState&) = delete;

  // The functions below add requests, move requests and remove requests.

  /// Adds a request in the lowest free slot, or in the named slot, which must be free.
  Error add(RequestId id, const BatchRequest& request, std::int32_t slot = kAnySlot);
  /// Removes a request, and frees its slot. Error: invalid_argument if no request has this id.
  Error remove(RequestId id);
  /// Exchanges the requests of two slots. One of the two slots may be empty: then the request of
  /// the other slot moves there. Both may be.
  Error swap(std::int32_t first, std::int32_t second);
  /// Moves the requests of the highest slots into the lowest free slots, until no slot below
  /// slots() is free. Returns the moves in the order in which they were made.
  std::vector<SlotMove> compact();
  /// Removes a request as remove() does, and fills its snapshot.
  Error evict(RequestId id, RequestSnapshot& snapshot);
  /// Adds a request as add() does, with the id and the output of the snapshot.
  Error restore(const RequestSnapshot& snapshot, std::int32_t slot = kAnySlot);

  // Tokens.

  /// Appends tokens to a request's output. The request's offset advances by `count`.
  Error append(RequestId id, const std::int32_t* tokens, std::int64_t count);
  /// Appends tokens[slot] to the request of each slot; where tokens[slot] is -1, nothing is
  /// appended.
  Error append_step(View<const std::int32_t> tokens);

  /// Sets the tokens that are allowed for the request of each of the first packed.rows slots. A row
  /// holds until the next call of set_allowed(), or until the request leaves. Rows that belong to
  /// empty slots are ignored.
  /// The array `packed` has [slots, ceil(vocab / 32)] words.
  Error set_allowed(const BitRows<const std::uint32_t>& packed);
  /// Allows all tokens again, for every request.
  void clear_allowed();

  // What is there.

  /// Returns the options with which the state was made.
  const BatchStateOptions& options() const noexcept;
  std::int32_t size() const noexcept;  ///< requests
  /// Returns the number of the highest occupied slot, plus one.
  std::int32_t slots() const noexcept;
  std::int32_t slot_of(RequestId id) const noexcept;  ///< -1: no such request
  /// Returns true if a request is in the slot; false also for a slot outside [0, capacity).
  bool is_occupied(std::int32_t slot) const noexcept;
  /// Returns the id of the request in the slot; 0 if the slot is empty.
  RequestId id_at(std::int32_t slot) const noexcept;
  /// Returns the prompt's tokens of the request in a slot; empty if the slot has no request.
  View<const std::int32_t> prompt(std::int32_t slot) const noexcept;
  /// Returns the tokens that the request in a slot has drawn, oldest first; empty if the slot has
  /// no request.
  View<const std::int32_t> output(std::int32_t slot) const noexcept;
  /// Returns the offset of the next token of the request in a slot; 0 if the slot has no request.
  std::uint64_t offset(std::int32_t slot) const noexcept;
  /// Returns the outputs of the first `rows` slots as lists.
  TokenLists outputs(std::int32_t rows) const noexcept;

  /// Makes the request of `sample` for one step. Row i of `logits` belongs to slot i, and rows of
  /// empty slots are inactive. The request has a mask `allowed` if set_allowed() has been called.
  /// The number of rows lies between slots() and capacity.
  /// `logits`: [rows, vocab].
  Error sample_request(const RowsView& logits, SampleRequest& request) const;

 private:
  friend struct serving::BatchAccess;
  struct Slots;
  explicit BatchState(std::unique_ptr<Slots> slots);
  std::unique_ptr<Slots> slots_;
};

}  // namespace fairdraw
