#include "suites/gate/fuzz/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "suites/gate/fuzz/shrink.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::ChainRequest;
using harness::Dice;
using harness::Request;
using harness::RowInput;
using harness::SamplerDescription;

std::uint64_t any_word(Dice& dice) {
  const std::uint64_t bits = dice.bits();
  return dice.pick<std::uint64_t>({bits, bits, 0, ~std::uint64_t{0}, std::uint64_t{1} << 63});
}

void append(std::vector<std::uint32_t>& allowed, const std::vector<std::uint32_t>& row) {
  allowed.insert(allowed.end(), row.begin(), row.end());
}

void append_row(Dice& dice, const SamplerDescription& sampler, Request& request) {
  const bool probabilities = request.input == RowInput::probabilities;
  std::vector<float> row = probabilities ? random_probabilities(dice, request.vocab, request.dtype)
                                         : random_logits(dice, request.vocab, request.dtype);
  request.parameters.push_back(random_parameters(dice, row, {probabilities}));
  request.logits.insert(request.logits.end(), row.begin(), row.end());
  if (!request.allowed.empty() || (request.rows == 0 && sampler.allowed_mask &&
                                   request.input == RowInput::logits && dice.once_in(4))) {
    append(request.allowed, random_allowed(dice, request.vocab));
  }
  ++request.rows;
}

void choose_outputs(Dice& dice, const SamplerDescription& sampler, Request& request) {
  if (sampler.active_rows && request.input == RowInput::logits && dice.once_in(6)) {
    for (std::int64_t row = 0; row < request.rows; ++row) {
      request.active.push_back(dice.once_in(3) ? 0 : 1);
    }
  }
  if (sampler.num_samples && dice.once_in(4)) {
    request.num_samples = static_cast<std::int32_t>(dice.between(2, 5));
  }
  if (sampler.indices && request.rows > 0 && dice.once_in(4)) {
    request.with_indices = true;
    const bool bad_ones = sampler.reports_status && sampler.bad_rows;
    request.indices = random_indices(dice, request.rows, 5, bad_ones);
  }
  request.seed_is_scalar = dice.once_in(4);
  const auto outputs = static_cast<std::size_t>(request.outputs());
  const std::size_t seeds = request.seed_is_scalar ? 1 : outputs;
  for (std::size_t i = 0; i < seeds; ++i) {
    request.seed.push_back(random_seed(dice));
    request.offset.push_back(random_seed(dice));
  }
  if (!sampler.scripted_words || !dice.once_in(6)) return;
  for (std::size_t i = 0; i < outputs * static_cast<std::size_t>(request.num_samples); ++i) {
    request.words.push_back(any_word(dice));
  }
}

// Most calls on probabilities have either min_p alone, or top_k and top_p, because many samplers do
// not support all three at once.
void choose_filters(Dice& dice, Request& request) {
  if (request.input == RowInput::logits || dice.once_in(6)) return;
  const bool only_min_p = dice.once_in(3);
  for (reference::RowParameters& p : request.parameters) {
    if (only_min_p) {
      p.top_k = 0;
      p.top_p = 1;
    } else {
      p.min_p = 0;
    }
  }
}

FuzzCase batch_case(Dice& dice, const SamplerDescription& sampler, const GenerateOptions& options) {
  FuzzCase result;
  result.salt = dice.bits();
  Request& request = result.request;
  request.vocab = random_vocab(dice, options.max_vocab);
  if (sampler.from_probs && dice.once_in(3)) request.input = RowInput::probabilities;
  if (sampler.float16 && dice.once_in(6)) request.dtype = DType::float16;
  if (sampler.bfloat16 && dice.once_in(6)) request.dtype = DType::bfloat16;
  const bool logits = request.input == RowInput::logits;
  if (sampler.lowest_id_ties && logits && dice.once_in(4)) request.tie_rule = TieRule::lowest_id;
  if (sampler.joint_order && dice.once_in(4)) request.filter_order = FilterOrder::joint;
  if (dice.once_in(4)) request.row_stride = request.vocab + dice.between(1, 37);
  if (dice.once_in(4)) request.misalignment = dice.between(0, 63);
  const std::int64_t rows = dice.once_in(50) ? 0 : dice.between(1, request.vocab > 300 ? 2 : 5);
  while (request.rows < rows) append_row(dice, sampler, request);
  choose_filters(dice, request);
  choose_outputs(dice, sampler, request);
  // Logits processing is chosen last, so that the rest of a case is the same for samplers without
  // processing.
  if (sampler.processing && logits && rows > 0 && dice.once_in(3)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto vocab = static_cast<std::size_t>(request.vocab);
      const auto values =
          std::span(request.logits).subspan(static_cast<std::size_t>(row) * vocab, vocab);
      request.processing.push_back(generate_processing(dice, values, request.dtype));
    }
    request.history_form.grown = dice.once_in(2);
    // A sampler without exact arithmetic rounds the standard deviation sigma, so that a token at
    // the threshold may be kept or dropped.
    if (sampler.top_n_sigma && sampler.exact_integer && dice.once_in(3)) {
      request.processing.back().top_n_sigma = dice.pick({0.5F, 1.0F, 3.0F, -1.0F});
    }
    if (sampler.probability_filters && sampler.exact_integer && dice.once_in(3)) {
      reference::RowProcessing& row = request.processing.front();
      if (dice.once_in(2)) row.typical_p = dice.pick({0.0F, 0.2F, 0.5F, 0.95F});
      if (dice.once_in(4)) row.epsilon_cutoff = dice.pick({0x1p-140F, 0x1p-8F, 0.25F, 1.0F});
      if (dice.once_in(4)) row.eta_cutoff = dice.pick({0x1p-140F, 0x1p-8F, 0.25F, 1.0F});
      if (dice.once_in(4)) row.p_less = 1;
      if (dice.once_in(4)) row.top_h = dice.pick({0.0F, 0.3F, 0.9F, 0x1.fffffep-1F});
      if (dice.once_in(4)) row.xtc_probability = dice.pick({0.5F, 1.0F});
      row.xtc_threshold = dice.pick({0.1F, 0.02F, 0.4F, 0.0F});
      row.xtc_seed = dice.bits();
      if (dice.once_in(3)) {
        const auto steps = static_cast<int>(dice.between(1, dice.once_in(8) ? kMaxFilterSteps : 5));
        for (int step = 0; step < steps; ++step) {
          // adaptive_p, the last of all steps, stands nowhere but at the end.
          const std::uint64_t choices = step + 1 == steps ? kFilterSteps : kFilterSteps - 1;
          row.filter_chain |= (1 + dice.bits() % choices) << (kFilterStepBits * step);
        }
        row.chain_temperature = dice.pick({0.5F, 2.0F, 0.9F, 0x1p-40F, 0x1p40F});
        row.chain_top_k = dice.pick({0, 1, 2, 8, 40});
        row.chain_top_p = dice.pick({0.0F, 0.3F, 0.9F, 0x1.fffffep-1F});
        row.chain_min_p = dice.pick({0x1p-140F, 0.05F, 0.4F, 1.0F});
        row.adaptive_target = dice.pick({0.0F, 0.2F, 0.6F, 1.0F, -1.0F});
      }
      if (dice.once_in(4)) {
        row.dynatemp_range = dice.pick({0.3F, 1.0F, 5.0F, 0x1p-30F});
        row.dynatemp_exponent = dice.pick({1.0F, 0.5F, 2.0F, 0.0F});
      }
    }
    if (sampler.history_rules && dice.once_in(3)) {
      reference::RowProcessing& row = request.processing.front();
      if (dice.once_in(2)) row.penalty_window = dice.pick({0, 1, 2, 5, 100});
      if (dice.once_in(2)) row.counts_of_prompt = 1;
      if (dice.once_in(2)) row.no_repeat_ngram_size = dice.pick({1, 1, 2, 3});
      if (dice.once_in(2)) {
        row.dry_multiplier = dice.pick({0.8F, 2.0F, 0x1p64F});
        row.dry_base = dice.pick({1.75F, 1.0F, 0x1p30F});
        row.dry_allowed_length = dice.pick({1, 1, 2});
        row.dry_window = dice.pick({-1, -1, 2, 5});
        if (dice.once_in(2) && !row.output.empty()) row.dry_breakers = {row.output.front()};
      }
      if (dice.once_in(2)) {
        row.forced_tokens = {static_cast<std::int32_t>(dice.between(0, request.vocab - 1))};
        row.forced_after = row.output.empty() || dice.once_in(2) ? -1 : row.output.front();
        row.forced_delay = dice.pick({0, 1, 2, static_cast<std::int32_t>(row.output.size())});
      }
      if (dice.once_in(2)) {
        row.top_p_decay = dice.pick({0.5F, 0.9F, 0.99F});
        row.top_p_min = dice.pick({1e-6F, 1e-6F, 0.2F});
        if (!row.output.empty() && dice.once_in(2)) row.top_p_reset_id = row.output.front();
      }
    }
  }
  return result;
}

// Returns a row of draft probabilities: equal to the target's, reversed, one float32 apart at some
// tokens, or unrelated.
std::vector<float> draft_row(Dice& dice, std::vector<float> target) {
  switch (dice.below(4)) {
    case 0:
      return target;
    case 1:
      std::reverse(target.begin(), target.end());
      return target;
    case 2:
      for (float& value : target) {
        if (dice.once_in(3)) value = std::nextafter(value, dice.once_in(2) ? 0.0F : 1.0F);
      }
      return target;
    default:
      return random_probabilities(dice, static_cast<std::int64_t>(target.size()), DType::float32);
  }
}

FuzzCase chain_case(Dice& dice, const SamplerDescription& sampler, const GenerateOptions& options) {
  FuzzCase result;
  result.kind = CaseKind::chain;
  result.salt = dice.bits();
  ChainRequest& chain = result.chain;
  chain.batch = dice.between(1, 3);
  chain.num_draft_tokens = dice.between(0, 4);
  chain.vocab = random_vocab(dice, std::min<std::int64_t>(options.max_vocab, 257));
  const auto append = [](std::vector<float>& target, const std::vector<float>& row) {
    target.insert(target.end(), row.begin(), row.end());
  };
  for (std::int64_t i = 0; i < chain.batch * (chain.num_draft_tokens + 1); ++i) {
    const std::vector<float> target = random_probabilities(dice, chain.vocab, DType::float32);
    append(chain.target_probs, target);
    if (i % (chain.num_draft_tokens + 1) == chain.num_draft_tokens) continue;  // the bonus row
    append(chain.draft_probs, draft_row(dice, target));
    auto token = static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(chain.vocab)));
    if (dice.once_in(40)) token = dice.pick({-1, static_cast<std::int32_t>(chain.vocab)});
    chain.draft_tokens.push_back(token);
  }
  chain.seed_is_scalar = dice.once_in(4);
  for (std::int64_t i = 0; i < (chain.seed_is_scalar ? 1 : chain.batch); ++i) {
    chain.seed.push_back(random_seed(dice));
    chain.offset.push_back(random_seed(dice));
  }
  if (!sampler.scripted_words || chain.num_draft_tokens == 0 || !dice.once_in(3)) return result;
  for (std::int64_t i = 0; i < chain.batch * chain.num_draft_tokens; ++i) {
    chain.accept_words.push_back(any_word(dice));
    chain.recover_words.push_back(any_word(dice));
  }
  for (std::int64_t i = 0; i < chain.batch; ++i) chain.bonus_words.push_back(any_word(dice));
  return result;
}

// Returns a top_k; half of them are values that users type, or values next to the vocabulary size.
std::int32_t top_k_to_draw_by(Dice& dice, std::int64_t vocab) {
  const auto v = static_cast<std::int32_t>(vocab);
  if (dice.once_in(2)) return static_cast<std::int32_t>(dice.between(2, vocab));
  return dice.pick({20, 40, 50, 64, std::max(v - 1, 2), v, v, v + 1, v + 1000,
                    std::numeric_limits<std::int32_t>::max()});
}

// Makes a row in which all tokens are likely enough to occur within the draws, because a token that
// is never drawn cannot be judged.
FuzzCase distribution_case(Dice& dice, const SamplerDescription& sampler,
                           const GenerateOptions& options) {
  FuzzCase result;
  result.kind = CaseKind::distribution;
  result.salt = dice.bits();
  result.draws = options.max_draws;
  Request& request = result.request;
  request.rows = 1;
  request.vocab = std::max<std::int64_t>(2, random_vocab(dice, options.max_vocab));
  if (sampler.from_probs && dice.once_in(4)) request.input = RowInput::probabilities;
  const bool logits = request.input == RowInput::logits;
  const double scale = dice.pick({0.0, 0.3, 1.0, 2.0});
  const bool ties = dice.once_in(3);
  for (std::int64_t id = 0; id < request.vocab; ++id) {
    const double exact = dice.bell() * scale;
    const double logit = ties ? std::nearbyint(exact * 2) / 2 : exact;
    request.logits.push_back(static_cast<float>(logits ? logit : std::exp(logit)));
  }
  reference::RowParameters parameters;
  if (dice.once_in(2)) {
    parameters.temperature = dice.pick({0.1F, 0.3F, 0.5F, 0.6F, 0.7F, 0.8F, 1.5F, 2.0F});
  }
  if (dice.once_in(3)) parameters.top_k = top_k_to_draw_by(dice, request.vocab);
  if (dice.once_in(3)) parameters.top_p = dice.pick({0.5F, 0.8F, 0.9F, 0.95F});
  if (dice.once_in(4)) parameters.min_p = dice.pick({0.01F, 0.05F, 0.1F, 0.3F});
  request.parameters = {parameters};
  choose_filters(dice, request);
  if (sampler.allowed_mask && logits && dice.once_in(5)) {
    append(request.allowed, random_allowed(dice, request.vocab));
  }
  return result;
}

using Make = FuzzCase (*)(Dice&, const SamplerDescription&, const GenerateOptions&);

rc::Gen<FuzzCase> shrinking(Make make, const SamplerDescription& sampler,
                            const GenerateOptions& options) {
  return rc::Gen<FuzzCase>([make, sampler, options](const rc::Random& random, int) {
    Dice dice(rc::Random(random).next());
    return with_shrinks(make(dice, sampler, options));
  });
}

}  // namespace

rc::Gen<FuzzCase> batch_cases(const SamplerDescription& sampler, const GenerateOptions& options) {
  return shrinking(batch_case, sampler, options);
}

rc::Gen<FuzzCase> chain_cases(const SamplerDescription& sampler, const GenerateOptions& options) {
  return shrinking(chain_case, sampler, options);
}

rc::Gen<FuzzCase> distribution_cases(const SamplerDescription& sampler,
                                     const GenerateOptions& options) {
  return shrinking(distribution_case, sampler, options);
}

}  // namespace fairdraw::suites::fuzz
