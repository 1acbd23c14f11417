// A copy of a batch runs ahead of the host (kernels/serving/batch_mirror.h). No GPU is needed: the
// copy is in host memory, and follows the rules of the kernels in kernels/cuda. So the test covers
// the bookkeeping: which slots are copied, which data stays in the copy, and which request late
// tokens belong to.
//
// The copy is compared with a batch that never lags: a state with the CPU's FusedSamplingProcessor.
// In both batches, requests enter, move, leave and are preempted. After every step the copy must
// have drawn the same tokens. Once all tokens are delivered, the states must be equal.
//
// The test cannot detect errors of the kernels, streams and uploads;
// cuda_fused_sampling_processor_test covers these.
#include "serving/batch_mirror.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/serving/random_requests.h"

namespace fairdraw::suites::batches {
namespace {

using harness::Dice;
using serving::BatchMirror;
using serving::BatchSlots;
using serving::CallRecord;
using serving::ListArrays;
using serving::ListName;
using serving::SlotArrays;

/// The CPU uses one thread, because on small rows more threads would only wait for each other.
const Execution kOneThread = {CpuTarget::best, 1};

BatchStateOptions small_batch() {
  BatchStateOptions options;
  options.vocab = 37;
  options.capacity = 6;
  options.max_length = 40;
  options.max_bias = 3;
  options.max_stop_ids = 2;
  options.max_bad_words = 2;
  options.max_bad_word_tokens = 4;
  options.max_allowed_ids = 5;
  return options;
}

/// The copy of a batch: a memory block of its own, and the calls whose results the host has not
/// seen yet.
class Copy {
 public:
  explicit Copy(BatchState& state)
      : options_(state.options()),
        mirror_(serving::BatchAccess::slots_of(state)),
        block_(serving::place_slot_arrays(options_, nullptr).bytes),
        arrays_(serving::place_slot_arrays(options_, block_.get())) {}

  bool is_current() const { return mirror_.is_current(); }

  void bring_changes() {
    if (mirror_.is_current()) return;
    mirror_.update();
    const BatchSlots& host = mirror_.slots();
    for (const std::int32_t slot : mirror_.changed()) {
      if (mirror_.from()[static_cast<std::size_t>(slot)] < 0) bring_lists(host, slot);
    }
    const ListArrays& output = arrays_.list(ListName::output);
    const auto capacity = static_cast<std::size_t>(options_.capacity);
    const std::vector<std::uint64_t> offsets(arrays_.offset, arrays_.offset + capacity);
    const std::vector<std::int32_t> lengths(output.lengths, output.lengths + capacity);
    std::memcpy(block_.get(), host.block.get(), static_cast<std::size_t>(arrays_.table_bytes));
    for (std::size_t slot = 0; slot < capacity; ++slot) {
      const std::int32_t from = mirror_.from()[slot];
      if (from < 0) continue;
      arrays_.offset[slot] = offsets[static_cast<std::size_t>(from)];
      output.lengths[slot] = lengths[static_cast<std::size_t>(from)];
    }
  }

  /// Runs a step with one row per slot, and returns the tokens; -1: none.
  std::vector<std::int32_t> step(const StepInput& input) {
    const auto capacity = static_cast<std::size_t>(options_.capacity);
    const RowsView logits{input.logits.data(), DType::float32, input.rows, options_.vocab,
                          options_.vocab};
    SampleRequest request = serving::call_over(arrays_, options_, logits);
    const ListArrays& output = arrays_.list(ListName::output);
    std::vector<std::uint8_t> active(capacity);
    for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
      const bool has_room =
          arrays_.list(ListName::prompt).length(slot) + output.length(slot) < options_.max_length;
      active[static_cast<std::size_t>(slot)] = arrays_.active[slot] != 0 && has_room ? 1 : 0;
    }
    request.active = {active.data(), input.rows};
    std::vector<std::int32_t> tokens(capacity, -1);
    SampleResult result;
    result.tokens = {tokens.data(), input.rows};
    EXPECT_FALSE(sample(request, result, kOneThread));
    std::vector<CallRecord> records;
    for (std::int32_t slot = 0; slot < options_.capacity; ++slot) {
      const std::int32_t token = tokens[static_cast<std::size_t>(slot)];
      records.push_back({token, RowStatus::ok, 0, mirror_.epoch()});
      if (token < 0) continue;
      output.list(slot)[output.lengths[slot]++] = token;
      ++arrays_.offset[slot];
    }
    calls_.push_back(records);
    return tokens;
  }

  std::size_t calls_on_their_way() const { return calls_.size(); }
  void deliver_oldest() {
    const Error error = mirror_.deliver(calls_.front().data());
    EXPECT_FALSE(error) << error.message;
    calls_.pop_front();
  }
  void deliver_all() {
    while (!calls_.empty()) deliver_oldest();
  }

 private:
  void bring_lists(const BatchSlots& host, std::int32_t slot) {
    for (std::size_t name = 0; name < serving::kLists; ++name) {
      const ListArrays& from = host.arrays.lists[name];
      std::copy_n(from.list(slot), from.length(slot), arrays_.lists[name].data + from.begins[slot]);
    }
    const ListArrays& bias = host.list(ListName::bias);
    std::copy_n(host.arrays.bias_values + bias.begins[slot], bias.length(slot),
                arrays_.bias_values + bias.begins[slot]);
  }

  BatchStateOptions options_;
  BatchMirror mirror_;
  serving::Block block_;
  SlotArrays arrays_;
  std::deque<std::vector<CallRecord>> calls_;
};

class Mirror : public testing::Test {
 protected:
  Mirror() {
    EXPECT_FALSE(BatchState::make(small_batch(), state_));
    EXPECT_FALSE(BatchState::make(small_batch(), expected_));
    copy_ = std::make_unique<Copy>(*state_);
    processor_ = std::make_unique<FusedSamplingProcessor>(*expected_, kOneThread);
  }

  template <class Call>
  void on_both(const Call& call) {
    const Error first = call(*state_);
    const Error second = call(*expected_);
    EXPECT_EQ(first.message, second.message);
  }

  void step(Dice& dice) {
    StepInput input;
    do {
      input = random_step(dice, small_batch(), state_->slots());
    } while (!input.offsets.empty() || input.rows < state_->slots() ||
             input.rows > small_batch().capacity);
    copy_->bring_changes();
    std::vector<std::int32_t> tokens = copy_->step(input);
    ASSERT_FALSE(processor_->step({input.logits.data(), DType::float32, input.rows,
                                   small_batch().vocab, small_batch().vocab}));
    tokens.resize(static_cast<std::size_t>(input.rows));
    const View<const std::int32_t> expected = processor_->new_tokens();
    EXPECT_EQ(tokens, std::vector<std::int32_t>(expected.data, expected.data + expected.size));
  }

  void expect_equal_states() const {
    for (std::int32_t slot = 0; slot < small_batch().capacity; ++slot) {
      EXPECT_EQ(state_->id_at(slot), expected_->id_at(slot));
      EXPECT_EQ(state_->offset(slot), expected_->offset(slot));
      const auto list = [](View<const std::int32_t> view) {
        return std::vector<std::int32_t>(view.data, view.data + view.size);
      };
      EXPECT_EQ(list(state_->output(slot)), list(expected_->output(slot)));
    }
  }

  std::unique_ptr<BatchState> state_, expected_;  // state_ lags behind its copy, expected_ never
                                                  // lags
  std::unique_ptr<Copy> copy_;
  std::unique_ptr<FusedSamplingProcessor> processor_;
};

TEST_F(Mirror, TokensFollowTheirRequestsHoweverLateTheyCome) {
  int moves_while_behind = 0;
  for (std::uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    Dice dice{seed};
    RequestId next = 1000 * seed;
    std::vector<RequestId> there;
    for (std::int32_t slot = 0; slot < small_batch().capacity; ++slot) {
      if (state_->is_occupied(slot)) there.push_back(state_->id_at(slot));
    }
    for (int round = 0; round < 40 && !HasFailure(); ++round) {
      const bool behind = copy_->calls_on_their_way() > 0;
      switch (dice.below(8)) {
        case 0:
        case 1: {
          if (there.size() == static_cast<std::size_t>(small_batch().capacity)) break;
          const BatchRequest request = random_request(dice, small_batch());
          on_both([&](BatchState& state) { return state.add(next, request); });
          there.push_back(next++);
          break;
        }
        case 2: {
          if (there.empty()) break;
          const std::size_t which = dice.below(there.size());
          on_both([&](BatchState& state) { return state.remove(there[which]); });
          there.erase(there.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        }
        case 3: {
          const auto first = static_cast<std::int32_t>(dice.between(0, 5));
          const auto second = static_cast<std::int32_t>(dice.between(0, 5));
          on_both([&](BatchState& state) { return state.swap(first, second); });
          moves_while_behind += behind && first != second ? 1 : 0;
          break;
        }
        case 4:
          on_both([](BatchState& state) {
            state.compact();
            return Error{};
          });
          break;
        case 5: {  // preemption: undelivered tokens would be drawn again, but not in the other
                   // state
          if (there.empty()) break;
          copy_->deliver_all();
          const RequestId id = dice.pick(there);
          on_both([&](BatchState& state) {
            RequestSnapshot snapshot;
            EXPECT_FALSE(state.evict(id, snapshot));
            return state.restore(snapshot);
          });
          break;
        }
        default:
          step(dice);
      }
      if (dice.once_in(3) && copy_->calls_on_their_way() > 0) copy_->deliver_oldest();
    }
    copy_->deliver_all();
    expect_equal_states();
  }
  EXPECT_GT(moves_while_behind, 50);  // If there are fewer moves, the test has hardly covered late
                                      // tokens.
}

TEST_F(Mirror, TokensOfARequestThatHasLeftAreNobodys) {
  Dice dice{7};
  on_both([](BatchState& state) { return state.add(1, seeded_request()); });
  on_both([](BatchState& state) { return state.add(2, seeded_request()); });
  step(dice);
  on_both([](BatchState& state) { return state.remove(1); });
  on_both([](BatchState& state) { return state.add(3, seeded_request()); });  // in slot 0
  copy_->deliver_all();
  EXPECT_EQ(state_->slot_of(3), 0);
  expect_equal_states();
}

TEST_F(Mirror, ARequestThatIsPreemptedBeforeItsTokensComeDrawsThemAgain) {
  const auto first_tokens = [&](Dice dice) {
    copy_->bring_changes();
    StepInput input;
    input.rows = 1;
    for (std::int64_t i = 0; i < small_batch().vocab; ++i) {
      input.logits.push_back(static_cast<float>(dice.bell()));
    }
    return copy_->step(input);
  };
  BatchRequest request;
  request.seed = 11;
  ASSERT_FALSE(state_->add(1, request));
  const std::vector<std::int32_t> once = first_tokens(Dice{3});
  RequestSnapshot snapshot;
  ASSERT_FALSE(state_->evict(1, snapshot));
  EXPECT_TRUE(snapshot.output.empty());
  ASSERT_FALSE(state_->restore(snapshot));
  copy_->deliver_all();
  EXPECT_EQ(state_->offset(0), 0U);
  EXPECT_EQ(first_tokens(Dice{3}), once);
  copy_->deliver_all();
  EXPECT_EQ(state_->offset(0), 1U);
}

TEST_F(Mirror, NothingIsBroughtWhereNothingChanged) {
  Dice dice{5};
  EXPECT_FALSE(copy_->is_current());
  on_both([](BatchState& state) { return state.add(1, seeded_request()); });
  step(dice);
  EXPECT_TRUE(copy_->is_current());
  copy_->deliver_all();
  EXPECT_TRUE(copy_->is_current());  // tokens that the copy has drawn itself are no change for it
  const std::int32_t token = 3;
  on_both([&](BatchState& state) { return state.append(1, &token, 1); });
  EXPECT_FALSE(copy_->is_current());
  step(dice);
  copy_->deliver_all();
  expect_equal_states();
}

}  // namespace
}  // namespace fairdraw::suites::batches
