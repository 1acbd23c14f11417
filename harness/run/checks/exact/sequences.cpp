// Judges samplers that keep requests which come and go. The judge sends the events, tracks the
// requests itself, and compares every token with the token that the request's own row, parameters,
// seed, offset and history give.
//
// This check cannot detect state that only affects speed or memory, nor errors in events that
// engines have but the contract lacks (slots that move without an eviction).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "harness/run/calls/random_words.h"
#include "harness/run/calls/sequence_event.h"
#include "harness/run/checks/checks.h"
#include "harness/run/checks/exact/processing_batches.h"
#include "harness/run/evidence/token_suspects.h"

namespace fairdraw::harness {
namespace {

using reference::RowProcessing;

constexpr std::size_t kSlots = 8;
constexpr std::int64_t kSteps = 120, kDifferentRows = 64;
// The second batch begins while requests of the first batch are still running.
constexpr int kBatches = 2;

struct Held {
  std::uint64_t number = 0, offset = 0;
  bool processed = false;
  RowProcessing processing;
  std::string came;  // how the request got into its slot, for messages
};

class Sequence {
 public:
  Sequence(const CheckInput& input, Request rows, CheckOutcome& outcome)
      : input_(input), rows_(std::move(rows)), outcome_(outcome) {}

  void run_batch() {
    std::ranges::fill(slots_, std::nullopt);
    evicted_.clear();
    tell(event(FAIRDRAW_EVENT_BEGIN));
    for (step_ = 0; step_ < kSteps && !outcome_.failed(); ++step_) {
      some_leave();
      some_come();
      step();
    }
  }

 private:
  std::uint64_t dice(std::uint64_t sides) { return mixed(input_.seed + 13, rolled_++) % sides; }
  std::uint64_t seed_of(const Held& held) const { return mixed(~input_.seed, held.number); }
  const reference::RowParameters& parameters_of(const Held& held) const {
    return rows_.parameters[held.number % kDifferentRows];
  }

  SequenceEvent event(std::uint32_t kind) const {
    SequenceEvent event;
    event.kind = kind;
    event.slots = kSlots;
    event.vocab = rows_.vocab;
    event.dtype = rows_.dtype;
    event.tie_rule = rows_.tie_rule;
    event.filter_order = rows_.filter_order;
    return event;
  }

  SequenceAnswer tell(const SequenceEvent& event) {
    constexpr const char* kNames[] = {"begin", "add", "step", "evict", "restore", "end"};
    if (outcome_.failed()) return {};
    SequenceAnswer answer = run_event(*input_.sampler, event);
    ++outcome_.measures["events"];
    if (!answer.ran()) {
      outcome_.fail(fmt::format("event {} ({}): {}", outcome_.measures["events"],
                                kNames[event.kind], answer.trouble()));
    }
    return answer;
  }

  void some_leave() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (!slots_[slot]) continue;
      const std::uint64_t fate = dice(16);
      if (fate > 1) continue;
      SequenceEvent leaves = event(fate == 0 ? FAIRDRAW_EVENT_EVICT : FAIRDRAW_EVENT_END);
      leaves.slot = {static_cast<std::int32_t>(slot)};
      tell(leaves);
      if (fate == 0) evicted_.push_back(*slots_[slot]);
      slots_[slot].reset();
    }
  }

  Held next_request() {
    Held held;
    held.number = added_++;
    // One request in four has no processing, next to requests that have processing.
    held.processed = input_.sampler->description().processing && held.number % 4 != 3;
    if (held.processed) {
      held.processing = processing_of_request(input_, held.number);
      // In a third of the processed requests every occurrence counts, so that one occurrence too
      // many or too few changes a logit.
      if (held.number % 4 == 0) held.processing.frequency_penalty = 0.75F;
    }
    return held;
  }

  void some_come() {
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (slots_[slot] || dice(3) == 0) continue;
      const bool restores = !evicted_.empty() && dice(2) == 0;
      SequenceEvent comes = event(restores ? FAIRDRAW_EVENT_RESTORE : FAIRDRAW_EVENT_ADD);
      Held& held = slots_[slot].emplace();
      if (restores) {
        const std::size_t which = dice(evicted_.size());
        held = std::move(evicted_[which]);
        evicted_.erase(evicted_.begin() + static_cast<std::ptrdiff_t>(which));
        ++outcome_.measures["restored"];
      } else {
        held = next_request();
      }
      held.came =
          fmt::format("{} to slot {} before step {}", restores ? "restored" : "added", slot, step_);
      comes.slot = {static_cast<std::int32_t>(slot)};
      comes.parameters = {parameters_of(held)};
      comes.seed = {seed_of(held)};
      comes.offset = {held.offset};
      if (held.processed) comes.processing = {held.processing};
      tell(comes);
    }
  }

  // Returns the slots that take part in this step, often in shuffled order.
  std::vector<std::int32_t> running() {
    std::vector<std::int32_t> slots;
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (slots_[slot] && dice(4) != 0) slots.push_back(static_cast<std::int32_t>(slot));
    }
    if (dice(2) == 0) return slots;
    for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[dice(i)]);
    return slots;
  }

  Held& in_slot(std::int32_t slot) { return *slots_[static_cast<std::size_t>(slot)]; }

  // Returns the rows of a step with all inputs that a call needs.
  Request whole(const std::vector<std::int32_t>& slots) {
    Request request;
    request.dtype = rows_.dtype;
    request.rows = static_cast<std::int64_t>(slots.size());
    request.vocab = rows_.vocab;
    request.tie_rule = rows_.tie_rule;
    request.filter_order = rows_.filter_order;
    const auto words = static_cast<std::ptrdiff_t>(rows_.allowed.size() / kDifferentRows);
    for (const std::int32_t slot : slots) {
      const Held& held = in_slot(slot);
      const auto from = static_cast<std::int64_t>(
          (held.number + static_cast<std::uint64_t>(5 * step_)) % kDifferentRows);
      request.logits.insert(request.logits.end(), rows_.row(from), rows_.row(from) + rows_.vocab);
      // A row without a token leaves its request unchanged. Only samplers with exact arithmetic
      // certainly give no token for such a row; for other samplers, the profile decides.
      if (input_.exact() && dice(16) == 0) {
        request.logits.back() = std::numeric_limits<float>::quiet_NaN();
      }
      const auto allowed = rows_.allowed.begin() + from * words;
      request.allowed.insert(request.allowed.end(), allowed, allowed + words);
      request.parameters.push_back(parameters_of(held));
      request.seed.push_back(seed_of(held));
      request.offset.push_back(held.offset);
      if (input_.sampler->description().processing) request.processing.push_back(held.processing);
    }
    return request;
  }

  void step() {
    const std::vector<std::int32_t> slots = running();
    if (slots.empty() || outcome_.failed()) return;
    const Request request = whole(slots);
    SequenceEvent steps = event(FAIRDRAW_EVENT_STEP);
    steps.slot = slots;
    steps.logits = request.logits;
    steps.allowed = request.allowed;
    const SequenceAnswer answer = tell(steps);
    if (outcome_.failed()) return;
    ++outcome_.measures["steps"];
    Response response;
    response.tokens = answer.tokens;
    response.statuses = answer.statuses;
    expect_right(slots, request, response);
    for (std::size_t row = 0; row < slots.size() && !outcome_.failed(); ++row) {
      const std::int32_t token = answer.tokens[row];
      if (token < 0) continue;
      Held& held = in_slot(slots[row]);
      ++held.offset;
      if (!held.processed) continue;
      held.processing.output.push_back(token);
      ++held.processing.output_length;
    }
  }

  void expect_right(const std::vector<std::int32_t>& slots, const Request& request,
                    const Response& response) {
    const bool processes = !request.processing.empty();
    Request plain;
    if (!input_.exact()) plain = processes ? processed_beforehand(request) : request;
    // These are the tokens that the sampler draws if the call has all inputs.
    Response given;
    if (!input_.exact() && input_.sampler->description().per_request_seeds) {
      given = run_request(*input_.sampler, request, {});
      if (!given.ran()) {
        outcome_.fail(given.trouble());
        return;
      }
    }
    for (std::size_t row = 0; row < slots.size(); ++row) {
      ++outcome_.draws;
      const auto at = static_cast<std::int64_t>(row);
      const std::int32_t token = response.tokens[row];
      std::string wrong;
      if (input_.exact() || !processes || processed_row(request, at).status == RowStatus::ok) {
        wrong = wrong_in(input_, request, plain, response, at);
      } else if (token >= request.vocab) {
        wrong = fmt::format("token {}", token);
      }
      if (wrong.empty() && !given.tokens.empty() && token != given.tokens[row]) {
        wrong = fmt::format("token {}, but {} in a call that has all values of the request", token,
                            given.tokens[row]);
      }
      if (wrong.empty()) continue;
      const Held& held = in_slot(slots[row]);
      outcome_.fail(
          fmt::format("step {}, row {} of {}: slot {}, request {} ({}; offset {}, {}{}): {}", step_,
                      row, slots.size(), slots[row], held.number, held.came, held.offset,
                      describe(parameters_of(held)), held.processed ? ", processed" : "", wrong));
      note_mistake(request, plain, at);
      return;
    }
  }

  // Adds the mistake of a row that is wrong in a call with all values of the request, too. Then the
  // state is not at fault.
  void note_mistake(const Request& request, const Request& plain, std::int64_t row) {
    const Response given = run_request(*input_.sampler, request, {});
    if (!given.ran() || wrong_in(input_, request, plain, given, row).empty()) return;
    if (!request.processing.empty()) {
      note_wrong_step(input_, request, row, outcome_);
    } else if (input_.exact()) {
      std::vector<reference::IntegerRow> models;
      for (std::int64_t i = 0; i < request.rows; ++i) models.push_back(model_of(request, i));
      note_wrong_draw(input_, request, given, models, 0, row, 0, outcome_);
    }
  }

  const CheckInput& input_;
  Request rows_;
  CheckOutcome& outcome_;
  std::vector<std::optional<Held>> slots_ = std::vector<std::optional<Held>>(kSlots);
  std::vector<Held> evicted_;
  std::uint64_t rolled_ = 0, added_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace

CheckOutcome check_sequences(const CheckInput& input) {
  if (!input.sampler->description().keeps_state) return skipped(lack_of("keeps_state"));
  if (input.row_input == RowInput::probabilities) return skipped("steps are of logits");
  Request rows = make_request(input, 0, kDifferentRows);
  rows.processing.clear();
  if (const Lack lacks = lack_for(input.sampler->description(), rows); !lacks.empty()) {
    return skipped(lacks);
  }
  CheckOutcome outcome;
  outcome.rows = kDifferentRows;
  Sequence sequence(input, std::move(rows), outcome);
  for (int batch = 0; batch < kBatches && !outcome.failed(); ++batch) sequence.run_batch();
  if (!outcome.failed()) {
    outcome.message =
        fmt::format("{} events, {} requests restored, {} tokens", outcome.measures["events"],
                    outcome.measures["restored"], outcome.draws);
  }
  return outcome;
}

}  // namespace fairdraw::harness
