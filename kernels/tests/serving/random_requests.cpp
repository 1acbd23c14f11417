#include "tests/serving/random_requests.h"

#include <cmath>
#include <limits>

namespace fairdraw::suites::batches {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Returns a list of up to `room` ids.
std::vector<std::int32_t> random_list(harness::Dice& dice, const BatchStateOptions& options,
                                      std::int32_t room) {
  return random_tokens(dice, options, dice.between(0, room));
}

std::vector<std::vector<std::int32_t>> random_words(harness::Dice& dice,
                                                    const BatchStateOptions& options) {
  std::vector<std::vector<std::int32_t>> words;
  std::int64_t room = options.max_bad_word_tokens;
  const std::int64_t count = dice.between(0, options.max_bad_words);
  for (std::int64_t i = 0; i < count && room > 0; ++i) {
    words.push_back(random_tokens(dice, options, dice.between(1, std::min<std::int64_t>(room, 3))));
    room -= static_cast<std::int64_t>(words.back().size());
  }
  return words;
}

}  // namespace

std::vector<std::int32_t> random_tokens(harness::Dice& dice, const BatchStateOptions& options,
                                        std::int64_t count, bool may_be_bad) {
  std::vector<std::int32_t> tokens;
  const auto vocab = static_cast<std::int32_t>(options.vocab);
  // Half of the tokens come from few ids, so that histories and lists affect the same tokens.
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t most = dice.once_in(2) ? std::min(vocab, 6) - 1 : vocab - 1;
    tokens.push_back(static_cast<std::int32_t>(dice.between(0, most)));
    if (may_be_bad && dice.once_in(16)) {
      tokens.back() = dice.pick({-1, -2, vocab, std::numeric_limits<std::int32_t>::max()});
    }
  }
  return tokens;
}

BatchRequest seeded_request() {
  BatchRequest request;
  request.seed = 1;
  return request;
}

BatchRequest random_request(harness::Dice& dice, const BatchStateOptions& options) {
  BatchRequest request;
  // Extreme values are rare, because they leave only one token to draw.
  request.temperature =
      dice.once_in(4) ? dice.pick({0.0F, 0x1p-126F, 0x1p64F}) : dice.pick({0.5F, 1.0F, 2.0F, 5.0F});
  request.top_k = dice.pick({-1, 0, 0, 1, 2, 3, 5, 1000000});
  request.top_p = dice.once_in(8) ? 0.0F : dice.pick({0.3F, 0.7F, 0.9F, 1.0F, 1.0F});
  request.min_p = dice.pick({0.0F, 0.0F, 0.2F, 1.0F});
  request.repetition_penalty =
      dice.once_in(8) ? dice.pick({0x1p-64F, 0x1p64F}) : dice.pick({1.0F, 1.3F, 0.5F});
  request.repetition_of_prompt = !dice.once_in(4);
  request.frequency_penalty = dice.pick({0.0F, 0.7F, 4.0F, -1.5F});
  request.presence_penalty = dice.pick({0.0F, 1.1F, 4.0F, -0.4F});
  if (dice.once_in(4)) request.typical_p = dice.pick({0.2F, 0.95F});
  if (dice.once_in(4)) request.epsilon_cutoff = dice.pick({0.001F, 0.1F});
  if (dice.once_in(4)) request.eta_cutoff = dice.pick({0.001F, 0.1F});
  if (dice.once_in(8)) request.p_less = 1;
  if (dice.once_in(4)) request.top_h = dice.pick({0.2F, 0.9F});
  if (dice.once_in(4)) request.xtc_probability = dice.pick({0.5F, 1.0F});
  request.xtc_threshold = dice.pick({0.1F, 0.02F});
  request.xtc_seed = dice.bits();
  if (dice.once_in(4)) {
    request.filter_chain =
        filter_chain_of({FilterStep::top_k, FilterStep::temperature,
                         dice.pick({FilterStep::top_p, FilterStep::typical_p}),
                         dice.pick({FilterStep::min_p, FilterStep::xtc, FilterStep::adaptive_p})});
    request.chain_temperature = dice.pick({0.5F, 3.0F});
    request.chain_top_k = dice.pick({2, 9});
    request.chain_top_p = dice.pick({0.3F, 0.9F});
    request.chain_min_p = dice.pick({0.01F, 0.3F});
    request.adaptive_target = request.chain_min_p;
  }
  if (dice.once_in(4)) {
    request.dynatemp_range = dice.pick({0.4F, 3.0F});
    request.dynatemp_exponent = dice.pick({1.0F, 2.0F});
  }
  request.seed = dice.bits();
  // Some offsets wrap around while the request lives.
  request.first_offset = dice.pick({std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{1}});
  request.min_tokens = static_cast<std::int32_t>(dice.between(0, 4));
  request.stop_ids = random_list(dice, options, options.max_stop_ids);
  for (const std::int32_t token : random_list(dice, options, options.max_bias)) {
    request.bias.push_back(
        {token, dice.once_in(16) ? 0x1p64F : dice.pick({-kInfinity, -3.0F, 0.0F, 2.5F})});
  }
  request.bad_words = random_words(dice, options);
  if (dice.once_in(4)) request.allowed_ids = random_list(dice, options, options.max_allowed_ids);
  request.prompt = random_list(dice, options, options.max_length / 2);
  if (!request.prompt.empty() && dice.once_in(4)) request.prompt.front() = -1;  // placeholder
  if (options.history == HistoryForm::lists && request.repetition_of_prompt && dice.once_in(3)) {
    request.penalty_window = dice.pick({-1, 0, 1, 3, 10});
    request.counts_of_prompt = dice.pick({0, 1});
    request.no_repeat_ngram_size = dice.pick({0, 1, 2, 2, 3});
    request.dry_multiplier = dice.pick({0.0F, 0.8F, 4.0F});
    request.dry_allowed_length = dice.pick({1, 1, 2});
    request.dry_window = dice.pick({-1, -1, 4});
    request.dry_breakers = random_list(dice, options, std::min(2, options.max_dry_breakers));
    request.forced_after = request.prompt.empty() ? -1 : dice.pick({-1, request.prompt.back()});
    request.forced_delay = dice.pick({0, 2, 5});
    if (dice.once_in(2)) {
      request.forced_tokens = random_list(dice, options, std::min(3, options.max_forced_tokens));
    }
  }
  if (options.history == HistoryForm::lists && dice.once_in(4)) {
    request.top_p_decay = dice.pick({0.5F, 0.9F, 0.99F});
    request.top_p_min = dice.pick({1e-6F, 0.3F});
    request.top_p_reset_id = dice.pick({-1, static_cast<std::int32_t>(options.vocab - 1)});
  }
  return request;
}

std::string mutate(BatchRequest& request, harness::Dice& dice, const BatchStateOptions& options) {
  const auto vocab = static_cast<std::int32_t>(options.vocab);
  const std::int32_t no_token = dice.pick({-1, vocab, std::numeric_limits<std::int32_t>::min()});
  const float no_number = dice.pick({NAN, kInfinity, -1e30F});
  switch (dice.below(14)) {
    case 0:
      request.temperature = dice.pick({-1.0F, NAN, kInfinity, 0x1p-127F, 0x1.000002p64F});
      return "temperature";
    case 1:
      request.top_k = dice.pick({-2, std::numeric_limits<std::int32_t>::min()});
      return "top_k";
    case 2:
      request.top_p = dice.pick({-0.1F, NAN, 0x1.000002p0F});
      return "top_p";
    case 3:
      request.min_p = dice.pick({-0.1F, NAN, 0x1.000002p0F});
      return "min_p";
    case 4:
      request.repetition_penalty = dice.pick({0.0F, -1.0F, NAN, kInfinity, 0x1p-65F});
      return "repetition_penalty";
    case 5:
      request.frequency_penalty = no_number;
      return "frequency_penalty";
    case 6:
      request.presence_penalty = no_number;
      return "presence_penalty";
    case 7:
      request.min_tokens = -1;
      return "min_tokens";
    case 8:
      request.stop_ids = {no_token};
      return "stop_ids";
    case 9:
      request.bias = {{0, 1.0F}, {1, no_number}};
      return "bias[1].bias";
    case 10:
      request.bias = {{no_token, 1.0F}};
      return "bias[0].token";
    case 11:
      request.bad_words = {{0}, {}};
      return "bad_words[1]";
    case 12:
      request.allowed_ids = {0, no_token};
      return "allowed_ids[1]";
    default:
      request.prompt.assign(static_cast<std::size_t>(options.max_length) + 1, 0);
      return "prompt";
  }
}

StepInput random_step(harness::Dice& dice, const BatchStateOptions& options, std::int32_t slots) {
  StepInput step;
  step.sampled = dice.once_in(3) ? StepRows::all : StepRows::last;
  const auto count = static_cast<std::int32_t>(dice.between(slots, options.capacity));
  if (dice.once_in(2)) {
    step.rows = count;
    if (dice.once_in(16)) step.rows = dice.pick({slots - 1, options.capacity + 1});
    step.rows = std::max<std::int64_t>(step.rows, 0);
  } else {
    step.offsets.push_back(0);
    for (std::int32_t i = 0; i < count; ++i) {
      step.offsets.push_back(step.offsets.back() + dice.pick({0, 1, 1, 1, 2, 3}));
    }
    step.rows = step.offsets.back() + dice.pick({0, 0, 2});
    if (dice.once_in(16)) {
      step.offsets[dice.below(step.offsets.size())] = dice.pick<std::int64_t>({-1, 1, 1 << 20});
    }
  }
  const std::int64_t vocab = options.vocab;
  for (std::int64_t row = 0; row < step.rows; ++row) {
    const std::uint64_t ties =
        dice.pick<std::uint64_t>({1, 3});  // one logit in so many is a whole number
    for (std::int64_t t = 0; t < vocab; ++t) {
      const bool tied = dice.once_in(ties);
      const auto value = static_cast<float>(dice.bell() * 3);
      step.logits.push_back(dice.once_in(8) ? -kInfinity : tied ? std::round(value) : value);
    }
    if (dice.once_in(16)) {
      const std::size_t at = dice.below(static_cast<std::uint64_t>(vocab));
      step.logits[static_cast<std::size_t>(row * vocab) + at] = dice.pick({NAN, kInfinity});
    }
  }
  return step;
}

std::vector<std::uint32_t> random_bitmask(harness::Dice& dice, const BatchStateOptions& options,
                                          std::int32_t rows) {
  const auto words = static_cast<std::size_t>((options.vocab + 31) / 32);
  std::vector<std::uint32_t> packed;
  for (std::int32_t row = 0; row < rows; ++row) {
    const std::uint64_t kind = dice.below(4);
    for (std::size_t word = 0; word < words; ++word) {
      const auto some = static_cast<std::uint32_t>(dice.bits());
      packed.push_back(kind == 0 ? ~0U : kind == 1 ? 0U : some);
    }
    if (kind == 1 && !dice.once_in(4)) {
      const std::uint64_t token = dice.below(static_cast<std::uint64_t>(options.vocab));
      packed[static_cast<std::size_t>(row) * words + token / 32] |= 1U << (token % 32);
    }
  }
  return packed;
}

}  // namespace fairdraw::suites::batches
