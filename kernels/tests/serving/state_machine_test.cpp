// BatchState and FusedSamplingProcessor are tested as a state machine: random sequences of all
// operations that a serving engine performs on a batch are compared with a model (batch_model.h).
// After each command, every value that the state returns, every token and every status is compared,
// in a state with histories as lists and in a state with dense histories. A command that must be
// rejected is rejected and changes nothing, and addresses never change.
//
// A fixed seed makes the test deterministic; RC_PARAMS="seed=... max_success=1000000" runs it with
// other seeds. A success in the sense of max_success is one command here, not a sequence of
// commands.
//
// The test cannot detect faults that need more than four slots, a vocabulary above 37 tokens, or
// two threads.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/state.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>

#include "tests/serving/batch_model.h"
#include "tests/serving/random_requests.h"

namespace fairdraw::suites::batches {
namespace {

using harness::Dice;

const bool kSeedIsFixed = setenv("RC_PARAMS", "seed=20261122 max_success=20000", 0) == 0;

/// The tie rule and filter order of a run: the defaults of `sample`, or the other ones.
enum class Rules { first, other };

BatchStateOptions small_batch(Rules rules) {
  BatchStateOptions options;
  options.vocab = 37;  // a vocabulary that does not fill a whole number of bitmask words
  options.capacity = 4;
  options.max_length = 12;
  options.max_bias = 3;
  options.max_stop_ids = 2;
  options.max_bad_words = 2;
  options.max_bad_word_tokens = 4;
  options.max_allowed_ids = 5;
  if (rules == Rules::other) {
    options.tie_rule = TieRule::lowest_id;
    options.filter_order = FilterOrder::joint;
  }
  return options;
}

/// A state with its processor, and the addresses of the state's arrays.
struct Kept {
  std::unique_ptr<BatchState> state;
  std::unique_ptr<FusedSamplingProcessor> processor;
  std::array<const void*, 4> addresses{};

  Kept(Rules rules, HistoryForm history) {
    BatchStateOptions options = small_batch(rules);
    options.history = history;
    RC_ASSERT(!BatchState::make(options, state));
    Execution one_thread;
    one_thread.threads = 1;
    processor = std::make_unique<FusedSamplingProcessor>(*state, one_thread);
    addresses = addresses_now();
  }

  std::array<const void*, 4> addresses_now() const {
    SampleRequest call;
    const BatchStateOptions& options = state->options();
    const float nothing = 0;
    RC_ASSERT(!state->sample_request(
        {&nothing, DType::float32, options.capacity, options.vocab, options.vocab}, call));
    return {call.temperature.values.data, call.offset.values.data, call.processing.output.data,
            call.processing.output.lengths.data};
  }
};

/// The system under test: one state with lists, and one with dense histories.
struct Sut {
  explicit Sut(Rules rules)
      : kept{Kept(rules, HistoryForm::lists), Kept(rules, HistoryForm::dense)} {}
  std::array<Kept, 2> kept;
};

/// Number of commands that have run since the program began.
std::int64_t commands_run = 0;

/// A command that runs on the model and on both states. All choices of the command follow from its
/// number.
class Command : public rc::state::Command<BatchModel, Sut> {
 public:
  void apply(BatchModel& model) const final { static_cast<void>(done_by(model)); }

  void run(const BatchModel& before, Sut& sut) const final {
    BatchModel after = before;
    const bool accepted = done_by(after);
    for (Kept& kept : sut.kept) {
      const Error error = done_by(before, kept);
      if (accepted && error) RC_FAIL("refused: " + error.message);
      if (!accepted && !error) RC_FAIL("not refused");
      if (error && !is_clear(before, error)) RC_FAIL("not clear: " + error.message);
      if (const auto wrong = after.difference(*kept.state); !wrong.empty()) RC_FAIL(wrong);
      if (const auto wrong = after.difference(*kept.processor); !wrong.empty()) RC_FAIL(wrong);
      RC_ASSERT((kept.addresses_now() == kept.addresses));
    }
    ++commands_run;
  }

  void show(std::ostream& out) const override { out << name() << " " << number_; }

 protected:
  virtual std::string name() const = 0;
  /// Applies the command to the model; returns false if the model rejects it.
  virtual bool done_by(BatchModel& model) const = 0;
  virtual Error done_by(const BatchModel& before, Kept& kept) const = 0;
  virtual bool is_clear(const BatchModel&, const Error& error) const {
    return error.message.find("; allowed: ") != std::string::npos;
  }

  Dice dice() const { return Dice(number_); }

 private:
  std::uint64_t number_ = *rc::gen::arbitrary<std::uint64_t>();
};

std::int32_t random_slot(Dice& dice, const BatchModel& model) {
  return static_cast<std::int32_t>(dice.between(-1, model.options().capacity));
}
RequestId random_id(Dice& dice) { return dice.below(6); }

/// Returns an id of the batch, if the batch has a request; occasionally returns any id.
RequestId likely_id(Dice& dice, const BatchModel& model) {
  if (model.by_slot().empty() || dice.once_in(8)) return random_id(dice);
  auto request = model.by_slot().begin();
  std::advance(request, static_cast<std::ptrdiff_t>(dice.below(model.by_slot().size())));
  return request->second.id;
}

class Add : public Command {
  struct Arguments {
    RequestId id;
    std::int32_t slot;
    BatchRequest request;
    std::string mutated;
  };
  Arguments arguments(const BatchModel& model) const {
    Dice d = dice();
    // Both states take the request, and dense histories refuse the rules of histories.
    BatchStateOptions options = model.options();
    options.history = HistoryForm::dense;
    Arguments a{random_id(d), d.once_in(2) ? BatchState::kAnySlot : random_slot(d, model),
                random_request(d, options), ""};
    if (d.once_in(6)) a.mutated = mutate(a.request, d, model.options());
    return a;
  }
  std::string name() const override { return "add"; }
  bool done_by(BatchModel& model) const override {
    const Arguments a = arguments(model);
    return a.mutated.empty() && model.add(a.id, a.request, a.slot);
  }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const Arguments a = arguments(before);
    return kept.state->add(a.id, a.request, a.slot);
  }
  bool is_clear(const BatchModel& before, const Error& error) const override {
    const Arguments a = arguments(before);
    BatchModel would = before;
    const bool fits = would.add(a.id, a.request, a.slot);
    return Command::is_clear(before, error) &&
           (!fits || error.message.find(a.mutated) != std::string::npos);
  }
};

class Remove : public Command {
  RequestId id(const BatchModel& model) const {
    Dice d = dice();
    return likely_id(d, model);
  }
  std::string name() const override { return "remove"; }
  bool done_by(BatchModel& model) const override { return model.remove(id(model)); }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    return kept.state->remove(id(before));
  }
};

class Swap : public Command {
  std::array<std::int32_t, 2> slots(const BatchModel& model) const {
    Dice d = dice();
    const std::int32_t first = random_slot(d, model);
    return {first, random_slot(d, model)};
  }
  std::string name() const override { return "swap"; }
  bool done_by(BatchModel& model) const override {
    const auto [first, second] = slots(model);
    return model.swap(first, second);
  }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const auto [first, second] = slots(before);
    return kept.state->swap(first, second);
  }
};

class Compact : public Command {
  std::string name() const override { return "compact"; }
  bool done_by(BatchModel& model) const override { return model.compact(), true; }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    BatchModel moved = before;
    for (const SlotMove move : kept.state->compact()) {
      RC_ASSERT(moved.by_slot().count(move.from) == 1U);
      RC_ASSERT(moved.by_slot().count(move.to) == 0U);
      RC_ASSERT(moved.swap(move.from, move.to));
    }
    RC_ASSERT(moved.slots() == static_cast<std::int32_t>(moved.by_slot().size()));
    return {};
  }
};

class Evict : public Command {
  RequestId id(const BatchModel& model) const {
    Dice d = dice();
    return likely_id(d, model);
  }
  std::string name() const override { return "evict"; }
  bool done_by(BatchModel& model) const override { return model.evict(id(model)); }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    RequestSnapshot snapshot;
    Error error = kept.state->evict(id(before), snapshot);
    if (error) return error;
    BatchModel after = before;
    RC_ASSERT(after.evict(snapshot.id));
    RC_ASSERT(same(snapshot, after.evicted().at(snapshot.id)));
    return {};
  }
};

class Restore : public Command {
 public:
  void checkPreconditions(const BatchModel& model) const override {
    RC_PRE(!model.evicted().empty());
  }

 private:
  std::pair<RequestId, std::int32_t> arguments(const BatchModel& model) const {
    Dice d = dice();
    auto request = model.evicted().begin();
    std::advance(request, static_cast<std::ptrdiff_t>(d.below(model.evicted().size())));
    return {request->first, d.once_in(2) ? BatchState::kAnySlot : random_slot(d, model)};
  }
  std::string name() const override { return "restore"; }
  bool done_by(BatchModel& model) const override {
    const auto [id, slot] = arguments(model);
    return model.restore(id, slot);
  }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const auto [id, slot] = arguments(before);
    return kept.state->restore(before.evicted().at(id), slot);
  }
};

class Append : public Command {
  std::pair<RequestId, std::vector<std::int32_t>> arguments(const BatchModel& model) const {
    Dice d = dice();
    const RequestId id = likely_id(d, model);
    return {id, random_tokens(d, model.options(), d.between(0, 3), true)};
  }
  std::string name() const override { return "append"; }
  bool done_by(BatchModel& model) const override {
    const auto [id, tokens] = arguments(model);
    return model.append(id, tokens);
  }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const auto [id, tokens] = arguments(before);
    return kept.state->append(id, tokens.data(), static_cast<std::int64_t>(tokens.size()));
  }
};

class AppendStep : public Command {
  std::vector<std::int32_t> tokens(const BatchModel& model) const {
    Dice d = dice();
    auto drawn = random_tokens(d, model.options(), d.between(0, model.options().capacity), true);
    for (std::size_t slot = 0; slot < drawn.size(); ++slot) {
      const bool occupied = model.by_slot().count(static_cast<std::int32_t>(slot)) == 1;
      if (!occupied && !d.once_in(8)) drawn[slot] = -1;
    }
    return drawn;
  }
  std::string name() const override { return "append_step"; }
  bool done_by(BatchModel& model) const override { return model.append_step(tokens(model)); }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const std::vector<std::int32_t> drawn = tokens(before);
    return kept.state->append_step({drawn.data(), static_cast<std::int64_t>(drawn.size())});
  }
};

class Step : public Command {
  StepInput input(const BatchModel& model) const {
    Dice d = dice();
    return random_step(d, model.options(), model.slots());
  }
  std::string name() const override { return "step"; }
  bool done_by(BatchModel& model) const override { return model.step(input(model)); }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const StepInput step = input(before);
    const std::int64_t vocab = before.options().vocab;
    static const float nothing = 0;
    const RowsView rows = {step.logits.empty() ? &nothing : step.logits.data(), DType::float32,
                           step.rows, vocab, vocab};
    const auto size = static_cast<std::int64_t>(step.offsets.size());
    // Lists with an odd number of offsets use 32 bits, so that both integer types occur often.
    if (size % 2 == 1) {
      std::vector<std::uint32_t> narrow;
      for (const std::int64_t offset : step.offsets) {
        narrow.push_back(static_cast<std::uint32_t>(offset));
      }
      return kept.processor->step(rows, View<const std::uint32_t>{narrow.data(), size},
                                  step.sampled);
    }
    if (size == 0) return kept.processor->step(rows, View<const std::int64_t>{}, step.sampled);
    return kept.processor->step(rows, View<const std::int64_t>{step.offsets.data(), size},
                                step.sampled);
  }
};

class UpdateBitmask : public Command {
  std::pair<std::int32_t, std::vector<std::uint32_t>> arguments(const BatchModel& model) const {
    Dice d = dice();
    const auto rows = static_cast<std::int32_t>(
        d.between(d.once_in(8) ? 0 : model.slots(), model.options().capacity));
    return {rows, random_bitmask(d, model.options(), rows)};
  }
  std::string name() const override { return "update_bitmask"; }
  bool done_by(BatchModel& model) const override {
    const auto [rows, packed] = arguments(model);
    return model.set_allowed(packed, rows);
  }
  Error done_by(const BatchModel& before, Kept& kept) const override {
    const auto [rows, packed] = arguments(before);
    return kept.processor->update_bitmask({packed.data(), rows, before.words()});
  }
};

class ClearBitmask : public Command {
  std::string name() const override { return "clear_bitmask"; }
  bool done_by(BatchModel& model) const override { return model.clear_allowed(), true; }
  Error done_by(const BatchModel&, Kept& kept) const override {
    kept.processor->clear_bitmask();
    return {};
  }
};

class StartCopy : public Command {
  std::string name() const override { return "start_async_token_copy"; }
  bool done_by(BatchModel& model) const override { return model.start_copy(); }
  Error done_by(const BatchModel&, Kept& kept) const override {
    return kept.processor->start_async_token_copy();
  }
};

/// Runs one sequence of commands on fresh states and compares them with a model that may have a
/// mistake.
void keep_a_batch(Mistake mistake, Rules rules) {
  Sut sut(rules);
  // Most commands are steps and additions, as in a real batch.
  rc::state::check(
      BatchModel(small_batch(rules), mistake), sut,
      rc::state::gen::execOneOfWithArgs<Step, Step, Step, Step, Step, Add, Add, Add, Remove, Swap,
                                        Compact, Evict, Restore, Restore, Append, AppendStep,
                                        UpdateBitmask, ClearBitmask, StartCopy>());
}

/// Runs some sequences with the seed of RC_PARAMS plus the number of the round; odd seeds use the
/// other rules.
rc::detail::TestResult check_sequences(Mistake mistake, std::uint64_t round) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.seed += round;
  params.maxSuccess = 200;
  params.disableShrinking = mistake != Mistake::none;
  const Rules rules = params.seed % 2 == 0 ? Rules::first : Rules::other;
  return rc::detail::checkTestable([=] { keep_a_batch(mistake, rules); },
                                   rc::detail::TestMetadata(), params);
}

TEST(BatchStateMachine, AnySequenceKeepsTheBatch) {
  const auto start = std::chrono::steady_clock::now();
  const rc::detail::TestParams& params = rc::detail::configuration().testParams;
  for (std::uint64_t round = 0; commands_run < params.maxSuccess; ++round) {
    const rc::detail::TestResult result = check_sequences(Mistake::none, round);
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    ASSERT_TRUE(result.is<rc::detail::SuccessResult>())
        << text.str() << fmt::format("\nRC_PARAMS=\"seed={}\" repeats it", params.seed + round);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{} commands, {:.0f} a second\n", commands_run,
             static_cast<double>(commands_run) / seconds.count());
}

// This test shows that the state machine detects every mistake of a model; a state with the same
// mistake would also be detected. Four rounds are run, because the test above runs about as many.
TEST(BatchStateMachine, NoticesEveryMistake) {
  for (int mistake = 1; mistake < kMistakes; ++mistake) {
    bool noticed = false;
    for (std::uint64_t round = 0; round < 4 && !noticed; ++round) {
      const auto result = check_sequences(static_cast<Mistake>(mistake), round);
      noticed = result.is<rc::detail::FailureResult>();
    }
    EXPECT_TRUE(noticed) << "mistake " << mistake;
  }
}

}  // namespace
}  // namespace fairdraw::suites::batches
