#include "harness/inputs/processing_rows.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <vector>

#include "harness/inputs/special_floats.h"

namespace fairdraw::harness {
namespace {

template <class T>
T pick(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

std::int32_t random_id(std::mt19937_64& random, std::int64_t vocab) {
  const auto last = static_cast<std::int32_t>(vocab - 1);
  const auto any = static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(vocab));
  return pick(random, {0, last, any, any, any, any});
}

std::vector<std::int32_t> random_ids(std::mt19937_64& random, std::int64_t vocab,
                                     std::uint64_t most) {
  std::vector<std::int32_t> ids(random() % 4 == 0 ? 0 : random() % (most + 1));
  for (std::int32_t& id : ids) id = random_id(random, vocab);
  return ids;
}

std::vector<std::int32_t> random_history(std::mt19937_64& random, std::int64_t vocab, bool wide) {
  const auto most = wide ? pick<std::uint64_t>(random, {600, 600, 600, 600, 600, 600, 600, 3000})
                         : pick<std::uint64_t>(random, {4, 40});
  std::vector<std::int32_t> ids = random_ids(random, vocab, most);
  for (std::int32_t& id : ids) {
    if (random() % 16 == 0)
      id = -1;
    else if (random() % 4 == 0)
      id = ids.front();  // a count above 1
  }
  return ids;
}

void add_words(reference::RowProcessing& row, std::mt19937_64& random, std::int64_t vocab,
               bool wide) {
  for (std::uint64_t words = random() % (wide ? 80 : 4); words > 0; --words) {
    std::vector<std::int32_t> word = random_ids(random, vocab, 3);
    if (random() % 2 == 0) {  // the word begins with the last ids of the output
      const std::size_t length =
          std::min<std::size_t>(random() % (wide ? 4 : 3), row.output.size());
      word.assign(row.output.end() - static_cast<std::ptrdiff_t>(length), row.output.end());
      if (std::ranges::find(word, -1) != word.end()) word.clear();
    }
    word.push_back(random_id(random, vocab));
    row.bad_words.insert(row.bad_words.end(), word.begin(), word.end());
    row.bad_word_lengths.push_back(static_cast<std::int32_t>(word.size()));
  }
}

}  // namespace

reference::RowProcessing random_processing(std::mt19937_64& random, std::int64_t vocab,
                                           const ProcessingSteps& steps) {
  reference::RowProcessing row;
  const bool wide = steps.wide && random() % 4 == 0;
  row.prompt = random_history(random, vocab, wide);
  row.output = random_history(random, vocab, wide);
  row.output_length = static_cast<std::int32_t>(row.output.size());
  const float fraction = static_cast<float>(random() >> 40) * 0x1p-24F;  // in [0, 1)
  if (steps.penalties && random() % 4 != 0) {
    row.repetition_penalty =
        pick(random, {1.0F, 1.0F, 1.1F, 2.0F, 0.5F, 1 + fraction, 0x1p-64F, 0x1p20F});
    row.frequency_penalty =
        pick(random, {0.0F, 0.0F, -0.0F, 0.1F, 2.0F, -2.0F, fraction, 0x1p-149F, 1e4F});
    row.presence_penalty = pick(random, {0.0F, 0.0F, 0.7F, -1.5F, 2 * fraction, -1e4F});
    if (wide) {
      row.repetition_penalty = pick(random, {row.repetition_penalty, 0x1p64F, 0x1p-64F});
      row.frequency_penalty = pick(random, {row.frequency_penalty, 0x1p64F, -0x1p64F});
      row.presence_penalty = pick(random, {row.presence_penalty, -0x1p64F, 0x1p-60F});
    }
  }
  if (steps.bias && random() % 2 == 0) {
    for (const std::int32_t id : random_ids(random, vocab, wide ? 100 : 6)) {
      const float value =
          pick(random, {0.0F, -0.0F, 0.25F, 5.0F, -100.0F, 100.0F, fraction, -kInfinity, -0x1p64F});
      row.biases.push_back({id, value});
      // If an id occurs twice, only the last bias of the id is used.
      if (random() % 4 == 0) row.biases.push_back({id, pick(random, {1.0F, -3.0F, -kInfinity})});
    }
  }
  if (steps.min_tokens && random() % 2 == 0) {
    row.stop_ids = random_ids(random, vocab, wide ? 5 : 3);
    row.min_tokens = row.output_length + pick(random, {-1, 0, 1, 1, 7});
    row.min_tokens = std::max(row.min_tokens, 0);
  }
  if (steps.bad_words && random() % 2 == 0) add_words(row, random, vocab, wide);
  if (steps.allowed_ids && random() % 4 == 0) {
    const auto most = pick<std::uint64_t>(random, {3, 30});
    row.allowed_ids = random_ids(random, vocab, wide ? 200 : most);
  }
  return row;
}

namespace {

/// Gives a row a chain of its own, in most rows with filters that only a chain has.
void add_random_chain(reference::RowProcessing& row, std::mt19937_64& random) {
  const std::uint64_t steps =
      1 + random() % (random() % 8 == 0 ? std::uint64_t{kMaxFilterSteps} : 6);
  // adaptive_p, the last of all steps, stands nowhere but at the end.
  for (std::uint64_t step = 0; step < steps; ++step) {
    const bool is_last = step + 1 == steps;
    row.filter_chain |= (1 + random() % (is_last ? kFilterSteps : kFilterSteps - 1))
                        << (kFilterStepBits * step);
  }
  if (random() % 4 == 0) {
    constexpr auto kLast = static_cast<std::uint64_t>(FilterStep::adaptive_p);
    const std::uint64_t place = kFilterStepBits * (steps - 1);
    row.filter_chain &= ~(std::uint64_t{15} << place);
    row.filter_chain |= kLast << place;
  }
  row.adaptive_target = pick(random, {0.3F, 0.05F, 0.9F, 0.0F, -0.0F, 1.0F, 0x1p-20F, -1.0F});
  row.chain_temperature = pick(random, {0.7F, 0.7F, 1.5F, 1.0F, 4.0F, 0x1p-20F, 0x1p64F});
  row.chain_top_k = pick(random, {40, 5, 1, 2, 0, -1, 1000000});
  row.chain_top_p = pick(random, {0.95F, 0.5F, 1.0F, 0.0F, 0x1p-149F, 0.99999F});
  row.chain_min_p = pick(random, {0.05F, 0.5F, 0.0F, 1.0F, 0x1p-149F, 0x1p-20F});
  row.top_n_sigma = pick(random, {row.top_n_sigma, 1.0F, 2.0F});
}

}  // namespace

void add_random_filters(reference::RowProcessing& row, std::mt19937_64& random) {
  const auto share = [&random] {
    return pick(random, {0.5F, 0.9F, 0.2F, 0.0F, -0.0F, 0x1p-20F, 1.0F, 0.99999F, 1.5F, 0.05F});
  };
  if (random() % 2 == 0) row.typical_p = share();
  if (random() % 4 == 0) row.epsilon_cutoff = share();
  if (random() % 4 == 0) row.eta_cutoff = share();
  if (random() % 4 == 0) row.p_less = 1;
  if (random() % 4 == 0) row.top_h = share();
  if (random() % 3 == 0) add_random_chain(row, random);
  if (random() % 4 == 0) {
    row.dynatemp_range = pick(random, {0.5F, 0.5F, 2.0F, 0x1p-20F, 0x1p64F, 0x1p-149F});
    row.dynatemp_exponent = pick(random, {1.0F, 1.0F, 0.5F, 3.0F, 0.0F, 0x1p64F, 0x1p-149F});
  }
  if (random() % 4 != 0) return;
  row.xtc_probability = pick(random, {0.5F, 0.5F, 1.0F, 0x1p-20F});
  row.xtc_threshold = share();
  row.xtc_seed = random();
}

namespace {

/// Lets the output end with `length` ids that prompt or output has already.
void repeat_ids(reference::RowProcessing& row, std::mt19937_64& random, std::size_t length) {
  const std::vector<std::int32_t>& from = random() % 2 == 0 ? row.prompt : row.output;
  if (from.size() <= length) return;
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(random() % (from.size() - length));
  const std::vector<std::int32_t> repeated(begin, begin + static_cast<std::ptrdiff_t>(length));
  const bool is_whole = row.output_length == static_cast<std::int32_t>(row.output.size());
  row.output.insert(row.output.end(), repeated.begin(), repeated.end());
  if (is_whole) row.output_length = static_cast<std::int32_t>(row.output.size());
}

std::int32_t id_of_history(const reference::RowProcessing& row, std::mt19937_64& random,
                           std::int64_t vocab) {
  const std::vector<std::int32_t>& ids = random() % 2 == 0 ? row.prompt : row.output;
  const std::int32_t id = ids.empty() ? -1 : ids[random() % ids.size()];
  return id >= 0 ? id : random_id(random, vocab);
}

void penalise_repetitions(reference::RowProcessing& row, std::mt19937_64& random,
                          std::int64_t vocab) {
  row.dry_multiplier = pick(random, {0.8F, 0.8F, 3.0F, 0x1p-149F, 0x1p64F});
  row.dry_base = pick(random, {1.75F, 1.75F, 1.0F, 0x1p40F, 1.0000001F});
  row.dry_allowed_length = pick(random, {1, 1, 2, 2, 3, 50});
  if (random() % 3 == 0) row.dry_window = pick(random, {0, 1, 2, 8, 30, 3000});
  for (std::uint64_t breakers = random() % 4; breakers > 0; --breakers) {
    row.dry_breakers.push_back(id_of_history(row, random, vocab));
  }
}

void force_tokens(reference::RowProcessing& row, std::mt19937_64& random, std::int64_t vocab) {
  for (std::uint64_t tokens = 1 + random() % 3; tokens > 0; --tokens) {
    row.forced_tokens.push_back(random() % 4 == 0 ? id_of_history(row, random, vocab)
                                                  : random_id(random, vocab));
  }
  auto after = static_cast<std::int32_t>(row.output.size());
  if (random() % 2 == 0) {
    row.forced_after = id_of_history(row, random, vocab);
    const std::vector<std::int32_t> history = reference::whole_history(row);
    const auto last = std::find(history.rbegin(), history.rend(), row.forced_after);
    after = static_cast<std::int32_t>(last - history.rbegin());
  }
  // Most delays end now, or up to two tokens ago.
  row.forced_delay = std::max(0, after - pick(random, {-1, 0, 0, 1, 2}));
}

/// Lets top_p decay, in most rows by enough that a token more or less changes what it keeps.
void decay_top_p(reference::RowProcessing& row, std::mt19937_64& random, std::int64_t vocab) {
  row.top_p_decay = pick(random, {0.5F, 0.7F, 0.9F, 0.97F, 0.999F, 0x1p-149F});
  row.top_p_min = pick(random, {1e-6F, 1e-6F, 0.1F, 0.3F, 0.6F, 1.0F});
  if (random() % 3 != 0) row.top_p_reset_id = id_of_history(row, random, vocab);
}

}  // namespace

void add_random_rules(reference::RowProcessing& row, std::mt19937_64& random, std::int64_t vocab) {
  if (random() % 2 == 0) row.penalty_window = pick(random, {0, 1, 3, 8, 20, 64, 2000});
  row.counts_of_prompt = pick(random, {0, 1});
  if (random() % 2 == 0) row.no_repeat_ngram_size = pick(random, {1, 2, 2, 3, 4});
  if (random() % 2 == 0) penalise_repetitions(row, random, vocab);
  const std::int32_t repeated = std::max(row.no_repeat_ngram_size - 1, row.dry_allowed_length);
  if (repeated > 0 && random() % 4 != 0) {
    repeat_ids(row, random, static_cast<std::size_t>(repeated) + random() % 3);
  }
  if (random() % 3 == 0) force_tokens(row, random, vocab);
  if (random() % 2 == 0) decay_top_p(row, random, vocab);
}

void mutate(reference::RowProcessing& row, ProcessingFault fault, std::span<float> logits) {
  const auto vocab = static_cast<std::int32_t>(logits.size());
  const auto make_penalised = [&row] { row.repetition_penalty = 1.5F; };
  const auto word = [&row](std::int32_t id, std::int32_t length) {
    row.bad_words.push_back(id);
    row.bad_word_lengths.push_back(length);
  };
  switch (fault) {
    case ProcessingFault::none:
      break;
    case ProcessingFault::nan_penalty:
      row.presence_penalty = kNan;
      break;
    case ProcessingFault::zero_repetition:
      row.repetition_penalty = 0;
      break;
    case ProcessingFault::negative_min_tokens:
      row.min_tokens = -1;
      break;
    case ProcessingFault::prompt_id:
      make_penalised();
      row.prompt.push_back(vocab);
      break;
    case ProcessingFault::output_id:
      make_penalised();
      row.output.insert(row.output.begin(), -2);
      break;
    case ProcessingFault::negative_output_length:
      row.output_length = -1;
      break;
    case ProcessingFault::nan_bias:
      row.biases.push_back({0, kNan});
      break;
    case ProcessingFault::infinite_bias:
      row.biases.insert(row.biases.begin(), {vocab - 1, kInfinity});
      break;
    case ProcessingFault::bias_id:
      row.biases.push_back({vocab, 1});
      break;
    case ProcessingFault::stop_id:
      row.stop_ids.push_back(-1);
      break;
    case ProcessingFault::empty_word:
      row.bad_word_lengths.push_back(0);
      break;
    case ProcessingFault::word_beyond_list:
      word(0, 2);
      break;
    case ProcessingFault::word_id:
      word(vocab, 1);
      break;
    case ProcessingFault::allowed_id:
      row.allowed_ids.push_back(std::numeric_limits<std::int32_t>::max());
      break;
    case ProcessingFault::overflow:
      // Half a unit in the last place of the largest float is 2^103, so adding 2^64 would not
      // change this logit. So a repetition penalty below 1 makes the logit infinite instead.
      logits.back() = std::numeric_limits<float>::max();
      row.prompt.push_back(vocab - 1);
      row.repetition_penalty = 0.5F;
      break;
  }
}

}  // namespace fairdraw::harness
