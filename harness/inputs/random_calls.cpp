#include "harness/inputs/random_calls.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "harness/inputs/processing_rows.h"
#include "harness/inputs/random_rows.h"
#include "harness/inputs/special_floats.h"

namespace fairdraw::harness {
namespace {

constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();

void choose_seeds(Dice& dice, OwnedCall& call) {
  for (CallParameter<std::uint64_t>* parameter : {&call.seed, &call.offset}) {
    parameter->scalar = random_seed(dice);
    if (!dice.once_in(4)) parameter->make_array(call.outputs());
    for (std::uint64_t& value : parameter->values) value = random_seed(dice);
  }
}

/// Omits features at random, because kernels have separate code for absent features and for neutral
/// ones.
void leave_out(Dice& dice, const ProcessingSteps& steps, ProcessingArrays& arrays) {
  for (auto* penalties :
       {&arrays.repetition_penalty, &arrays.frequency_penalty, &arrays.presence_penalty}) {
    if (!steps.penalties || dice.once_in(3)) penalties->clear();
  }
  if (dice.once_in(4)) arrays.prompt = {};
  const bool output = !dice.once_in(3);
  if (!output) arrays.output = {};
  if (!steps.bias) {
    arrays.bias_ids = {};
    arrays.bias_values.clear();
  }
  if (!steps.min_tokens) {
    arrays.min_tokens.clear();
    arrays.stop_ids = {};
  }
  if (output && dice.once_in(2)) {
    arrays.output_lengths.clear();
  } else {
    for (std::int32_t& length : arrays.output_lengths) {
      if (dice.once_in(2)) length = static_cast<std::int32_t>(dice.below(12));
    }
  }
  if (!output || !steps.bad_words) arrays.bad_words = arrays.bad_word_lengths = {};
  if (!steps.allowed_ids) arrays.allowed_ids = {};
  if (!output) arrays.forced_tokens = {};
}

template <class T>
void replace_one(Dice& dice, std::vector<T>& values, T value) {
  if (!values.empty()) values[dice.below(values.size())] = value;
}

/// Puts one fault into the call, in a random feature of the call.
void mutate(Dice& dice, ProcessingArrays& arrays, std::int64_t vocab) {
  // Only lists that the call gives can have a fault. The lengths of words are no ids, and come
  // last.
  std::vector<OwnedLists*> lists = {
      &arrays.prompt,       &arrays.output,        &arrays.bias_ids,
      &arrays.stop_ids,     &arrays.bad_words,     &arrays.allowed_ids,
      &arrays.dry_breakers, &arrays.forced_tokens, &arrays.bad_word_lengths};
  std::erase_if(lists, [](const OwnedLists* list) { return list->data.empty(); });
  const bool has_lengths = !lists.empty() && lists.back() == &arrays.bad_word_lengths;
  const std::size_t with_ids = lists.size() - (has_lengths ? 1 : 0);
  switch (dice.below(5)) {
    case 0:  // puts an id that is no token into a list
      if (with_ids == 0) break;
      replace_one(dice, lists[dice.below(with_ids)]->data,
                  dice.pick({-2, static_cast<std::int32_t>(vocab), kMin, kMax}));
      break;
    case 1: {  // puts a list outside of its buffer
      if (lists.empty()) break;
      OwnedLists& outside = *lists[dice.below(lists.size())];
      if (dice.once_in(2)) {
        replace_one(dice, outside.lengths, dice.pick({-1, kMax}));
      } else {
        replace_one(dice, outside.begins, dice.pick<std::int64_t>({-1, std::int64_t{1} << 40}));
      }
      break;
    }
    case 2: {  // a bad value; -inf is a valid bias
      const float bad = dice.pick({kNan, kInfinity, 0x1.000002p64F, -0x1.000002p64F});
      if (dice.once_in(4)) {
        replace_one(dice, arrays.bias_values, bad);
        break;
      }
      replace_one(dice,
                  *dice.pick({&arrays.repetition_penalty, &arrays.frequency_penalty,
                              &arrays.presence_penalty}),
                  dice.once_in(5) ? -kInfinity : bad);
      break;
    }
    case 3:
      replace_one(dice,
                  *dice.pick({&arrays.min_tokens, &arrays.output_lengths, &arrays.output_counts}),
                  -1);
      replace_one(
          dice,
          *dice.pick({&arrays.counts_of_prompt, &arrays.penalty_window,
                      &arrays.no_repeat_ngram_size, &arrays.dry_allowed_length, &arrays.dry_window,
                      &arrays.forced_after, &arrays.forced_delay, &arrays.top_p_reset_id}),
          -2);
      replace_one(dice,
                  *dice.pick({&arrays.dry_multiplier, &arrays.dry_base, &arrays.top_p_decay,
                              &arrays.top_p_min}),
                  dice.pick({-0x1p-149F, kNan, 0x1.000002p64F}));
      replace_one(dice,
                  *dice.pick({&arrays.chain_temperature, &arrays.chain_min_p,
                              &arrays.dynatemp_range, &arrays.dynatemp_exponent}),
                  dice.pick({-0x1p-149F, kNan, 0x1.000002p64F}));
      replace_one(dice, arrays.adaptive_target, dice.pick({-0x1.000002p0F, kNan, 1.5F}));
      replace_one(dice, arrays.filter_chain, dice.pick<std::uint64_t>({0x10, 0xd, 0x1c, ~0ULL}));
      break;
    default:
      replace_one(dice, arrays.bad_word_lengths.data, dice.pick({0, -100, 1000}));
      break;
  }
}

}  // namespace

OwnedCall random_call(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  Dice dice(number);
  OwnedCall call;
  const std::int64_t gap = dice.once_in(2) ? 0 : dice.between(1, std::min<std::int64_t>(vocab, 40));
  const auto shift = dice.pick<std::size_t>({0, 0, 0, 1, 2, 3, 4, 8, 13, 16, 33, 63});
  call.allocate(static_cast<DType>(number % 3), rows, vocab, vocab + gap, shift);
  call.make_parameter_arrays(rows);
  const bool banned = dice.once_in(3);
  call.allowed_stride = (vocab + 31) / 32 + dice.between(0, 2);
  if (banned) call.allowed.assign(static_cast<std::size_t>(rows * call.allowed_stride), ~0U);
  const bool padded = dice.once_in(3);
  const ParameterOptions options{.faults = dice.once_in(2), .dense = true};
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<float> logits = random_logits(dice, vocab, call.dtype);
    call.set_parameters(row, random_parameters(dice, logits, options));
    call.set_row(row, logits.data());  // after random_parameters(), which may change the row
    if (banned && dice.once_in(2)) {
      std::ranges::copy(random_allowed(dice, vocab),
                        call.allowed.begin() + row * call.allowed_stride);
    }
    if (padded) call.active.push_back(dice.once_in(8) ? 0 : 1);
  }
  if (dice.once_in(4)) {
    const auto most = static_cast<std::uint64_t>(2 * rows);
    call.indices = random_indices(dice, rows, most, dice.once_in(2));
  }
  if (dice.once_in(4)) call.num_samples = static_cast<std::int32_t>(dice.between(1, 5));
  choose_seeds(dice, call);
  call.tie_rule = dice.pick({TieRule::keep_all, TieRule::lowest_id});
  call.filter_order = dice.once_in(3) ? FilterOrder::joint : FilterOrder::top_k_first;
  call.purpose = static_cast<Purpose>(dice.below(5));
  if (dice.once_in(8)) call.temperature = call.temperature.values.front();
  if (dice.once_in(8)) call.top_k = call.top_k.values.front();
  if (dice.once_in(8)) call.top_p = call.top_p.values.front();
  if (dice.once_in(8)) call.min_p = call.min_p.values.front();
  return call;
}

void make_rules_of_rows(std::uint64_t number, bool faults, OwnedCall& call) {
  Dice dice(number);
  const auto rule = [&](std::uint32_t unknown) {
    return faults && dice.once_in(16) ? unknown : static_cast<std::uint32_t>(dice.below(2));
  };
  call.tie_rule.make_array(call.rows);
  call.filter_order.make_array(call.rows);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    call.tie_rule.set(row) = static_cast<TieRule>(rule(2));
    call.filter_order.set(row) = static_cast<FilterOrder>(rule(~0U));
  }
}

ProcessingArrays random_processing(std::uint64_t number, std::int64_t rows, std::int64_t vocab) {
  Dice dice(number);
  const ProcessingSteps steps{dice.once_in(2), dice.once_in(2), dice.once_in(2),
                              dice.once_in(2), dice.once_in(2), true};
  const bool faults = dice.once_in(2);
  std::vector<float> no_logits(static_cast<std::size_t>(vocab));
  std::vector<reference::RowProcessing> given;
  for (std::int64_t row = 0; row < rows; ++row) {
    given.push_back(random_processing(dice.engine(), vocab, steps));
    if (!faults || !dice.once_in(16)) continue;
    const auto fault = static_cast<int>(dice.between(1, kProcessingFaults - 1));
    mutate(given.back(), static_cast<ProcessingFault>(fault), no_logits);
  }
  HistoryArrays form;
  form.prompt_mask = dice.once_in(4);
  form.output_counts = dice.once_in(4) && rows * vocab < 4000000;
  form.grown = dice.once_in(2);
  form.gap = dice.between(0, 2);
  std::mt19937_64 rules(~number);
  for (reference::RowProcessing& row : given) {
    if (number % 4 == 0 && !form.prompt_mask && !form.output_counts) {
      add_random_rules(row, rules, vocab);
    }
  }
  ProcessingArrays arrays = pack(given, vocab, form);
  const bool any_bits = dice.once_in(2);
  for (std::uint32_t& word : arrays.prompt_mask) {
    if (any_bits && dice.once_in(8)) word = static_cast<std::uint32_t>(dice.below(1ULL << 32));
  }
  for (std::int32_t& count : arrays.output_counts) {
    if (dice.once_in(50)) count = static_cast<std::int32_t>(dice.below(5));
  }
  leave_out(dice, steps, arrays);
  for (std::int64_t row = 0; faults && row < rows; ++row) {
    if (dice.once_in(8)) mutate(dice, arrays, vocab);
  }
  return arrays;
}

}  // namespace fairdraw::harness
