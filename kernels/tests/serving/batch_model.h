// A batch in its simplest form is kept in maps, and every token is drawn anew.
//
// The model stores no slots, advances no offsets and has no views: a request consists of its
// arguments and its tokens. The next token of a request comes from the integer model of that
// request alone (reference/processing_model.h). The model is slow, but has no derived state that
// could become wrong.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fairdraw/batch_state.h"
#include "fairdraw/fused_sampling_processor.h"

namespace fairdraw::suites::batches {

/// Mistakes that inference engines have made with batches. A model with such a mistake replaces a
/// batch that is kept wrongly, and the state machine must detect it.
enum class Mistake {
  none,
  slot_in_the_seed,         ///< a token depends on the row of its request (TensorRT-LLM pull 1742,
                            ///< MAX)
  offset_stays,             ///< every step draws with the same bits (TensorRT-Edge-LLM issue 211)
  offset_restarts,          ///< a preempted request draws with its first bits again
  history_is_lost,          ///< a preempted request loses the penalties for its earlier output
  failed_row_advances,      ///< a row without a token advances the offset
  first_row_is_sampled,     ///< if a request has several rows, the wrong row is sampled (MAX's
                            ///< penalties)
  rows_see_no_new_tokens,   ///< drafted rows have the history that was there when the step began
  prompt_counts_as_output,  ///< min_tokens also counts the tokens of the prompt
  bitmask_stays_in_slot,    ///< requests that exchange slots lose their bitmasks (vLLM issue 23401)
  bitmask_is_inherited,     ///< the next request in a slot has the bitmask of the request before
  copy_follows,             ///< a copy of tokens also shows tokens of later steps
  full_history_fails_all,   ///< one request with a full history ends the step for the others
};
inline constexpr int kMistakes = 13;

struct ModelToken {
  RowStatus status = RowStatus::inactive;
  std::int32_t token = -1;
};

/// Returns a request's next token from a row of logits; the rest of the batch has no influence.
/// Among the options, only the rules are used.
ModelToken draw_alone(const RequestSnapshot& request, const std::vector<float>& logits,
                      const BatchStateOptions& options);

/// The logits of a step, and the rows that belong to each request.
struct StepInput {
  std::vector<float> logits;  ///< [rows, vocab]
  std::int64_t rows = 0;
  std::vector<std::int64_t> offsets;  ///< empty: identity
  StepRows sampled = StepRows::last;
};

/// The functions below return whether two requests, or two snapshots, are equal in every bit.
bool same(const BatchRequest& a, const BatchRequest& b);
bool same(const RequestSnapshot& a, const RequestSnapshot& b);

class BatchModel {
 public:
  explicit BatchModel(const BatchStateOptions& options, Mistake mistake = Mistake::none)
      : options_(options), mistake_(mistake) {}

  // The functions below do what BatchState and FusedSamplingProcessor do; a result of false means
  // that the call is rejected. The model does not check requests, so `add` and `restore` must be
  // given valid requests.
  bool add(RequestId id, const BatchRequest& request, std::int32_t slot);
  bool remove(RequestId id);
  bool swap(std::int32_t first, std::int32_t second);
  void compact();
  bool evict(RequestId id);
  bool restore(RequestId id, std::int32_t slot);
  bool append(RequestId id, const std::vector<std::int32_t>& tokens);
  bool append_step(const std::vector<std::int32_t>& tokens);
  bool set_allowed(const std::vector<std::uint32_t>& packed, std::int32_t rows);
  void clear_allowed();
  bool step(const StepInput& input);
  bool start_copy();

  const BatchStateOptions& options() const { return options_; }
  std::int64_t words() const { return (options_.vocab + 31) / 32; }
  std::int32_t slots() const;
  const std::map<std::int32_t, RequestSnapshot>& by_slot() const { return by_slot_; }
  const std::map<RequestId, RequestSnapshot>& evicted() const { return evicted_; }

  /// The functions below return the first difference from a state, or from a processor over it;
  /// empty: none.
  std::string difference(const BatchState& state) const;
  std::string difference(const FusedSamplingProcessor& processor) const;

 private:
  std::optional<std::int32_t> slot_of(RequestId id) const;
  std::optional<std::int32_t> free_slot(std::int32_t wanted) const;
  bool has_room(const RequestSnapshot& request, std::size_t tokens) const;
  /// Draws the token of a row in a step, for the request of a slot, which had `length` tokens when
  /// the step began.
  ModelToken draw(std::int32_t slot, std::size_t length, const std::vector<float>& logits) const;

  BatchStateOptions options_;
  Mistake mistake_;
  std::map<std::int32_t, RequestSnapshot> by_slot_;
  std::map<RequestId, RequestSnapshot> evicted_;
  std::map<std::int32_t, std::vector<std::uint32_t>> left_bitmasks_;  // for mistakes only
  std::vector<std::int32_t> new_tokens_, new_counts_;
  std::vector<RowStatus> statuses_;
  std::optional<std::vector<std::int32_t>> copied_;
  bool has_stepped_ = false;
};

}  // namespace fairdraw::suites::batches
