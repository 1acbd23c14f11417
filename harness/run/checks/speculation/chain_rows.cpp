#include "harness/run/checks/speculation/chain_rows.h"

#include <algorithm>
#include <limits>

#include "harness/inputs/counter_random.h"
#include "harness/inputs/special_floats.h"
#include "harness/run/calls/kept_answers.h"
#include "harness/run/calls/random_words.h"
#include "harness/run/calls/row_probabilities.h"

namespace fairdraw::harness {
namespace {

std::vector<float> one_hot(std::size_t vocab, std::size_t token) {
  std::vector<float> row(vocab, 0);
  row[token] = 1;
  return row;
}

// Returns a row of the draft for this row of the target.
std::vector<float> draft_row(const CheckInput& input, const std::vector<float>& target,
                             std::int64_t number, const CounterRandom& random) {
  std::vector<float> row = target;
  const std::size_t vocab = row.size();
  switch (random.below(8, 0)) {
    case 0:  // the same distribution
      return row;
    case 1:  // the target's distribution, in another scale
      for (float& p : row) p *= 0x1p-7F;
      return row;
    case 2: {  // part of the target, so that other tokens are never drafted
      const std::uint64_t kept = random.below(vocab, 1);
      for (std::size_t id = 0; id < vocab; ++id) {
        if (id != kept && random.word(2 + id) % 2 == 0) row[id] = 0;
      }
      row[kept] += 0.25F;
      return row;
    }
    case 3:
      return one_hot(vocab, random.below(vocab, 1));
    case 4: {  // a mixture near it
      const std::vector<float> other = chain_row(input, number);
      for (std::size_t id = 0; id < vocab; ++id) row[id] = 0.75F * row[id] + 0.25F * other[id];
      return row;
    }
    default:
      return chain_row(input, number);
  }
}

// Draws a drafted token. With `strays`, sometimes returns a token that the draft never gives.
std::int32_t draft_token(const std::vector<float>& draft, const CounterRandom& random,
                         bool strays) {
  const std::int32_t drawn = model_of_probs(draft, {}).token_for(random.word(0));
  const bool anywhere = (strays && random.below(8, 1) == 0) || drawn < 0;
  return anywhere ? static_cast<std::int32_t>(random.below(draft.size(), 2)) : drawn;
}

void mutate(ChainRequest& request, std::int64_t chain, const CounterRandom& random) {
  const auto n = static_cast<std::uint64_t>(request.num_draft_tokens);
  const auto at = static_cast<std::uint64_t>(chain);
  const auto vocab = static_cast<std::uint64_t>(request.vocab);
  if (n > 0 && random.below(3, 0) == 0) {
    const std::int32_t outside[] = {-1, static_cast<std::int32_t>(vocab),
                                    std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min()};
    request.draft_tokens[at * n + random.below(n, 1)] = outside[random.below(4, 2)];
    return;
  }
  const bool of_draft = n > 0 && random.below(2, 3) == 0;
  const std::uint64_t rows = of_draft ? n : n + 1;
  std::vector<float>& values = of_draft ? request.draft_probs : request.target_probs;
  const std::uint64_t begin = (at * rows + random.below(rows, 4)) * vocab;
  const std::uint64_t place = begin + random.below(vocab, 5);
  switch (random.below(4, 6)) {
    case 0:
      values[place] = kNan;
      break;
    case 1:
      values[place] = kInfinity;
      break;
    case 2:
      values[place] = request.dtype == DType::float32 ? -std::numeric_limits<float>::denorm_min()
                                                      : -0x1p-24F;  // exact in both 16-bit types
      break;
    default:
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(begin), vocab, 0.0F);
  }
}

std::uint64_t offset_of(std::int64_t chain, const CounterRandom& random) {
  switch (chain % 3) {
    case 0:
      return 0;
    case 1:
      return 0xffffffffULL - random.below(3, 0);  // later positions carry
    default:
      return random.word(1);
  }
}

}  // namespace

std::vector<float> chain_row(const CheckInput& input, std::int64_t number) {
  std::vector<float> row(static_cast<std::size_t>(input.logits->vocab()));
  input.logits->fill(input.first_row + number, row);
  const auto at = static_cast<std::size_t>(number) % input.parameters.size();
  to_probabilities(row, input.parameters[at].temperature, input.logits->dtype());
  return row;
}

void scale_for_profile(const CheckInput& input, std::vector<float>& row) {
  if (input.semantics.probability_sum == reference::ProbabilitySum::any) return;
  double sum = 0;
  for (const float p : row) sum += static_cast<double>(p);
  for (float& p : row) {
    p = rounded_to(input.logits->dtype(), static_cast<float>(static_cast<double>(p) / sum));
  }
}

Lack missing_chain_dtype(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const DType dtype = input.logits->dtype();
  if (dtype == DType::float16 && !sampler.float16) return lack_of("float16");
  if (dtype == DType::bfloat16 && !sampler.bfloat16) return lack_of("bfloat16");
  return {};
}

ChainRequest make_chains(const CheckInput& input, std::int64_t first, std::int64_t count,
                         std::int64_t n) {
  ChainRequest request;
  request.dtype = input.logits->dtype();
  request.batch = count;
  request.num_draft_tokens = n;
  request.vocab = input.logits->vocab();
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const bool faults = input.sampler->description().drafts.faults;
  for (std::int64_t chain = 0; chain < count; ++chain) {
    const auto number = static_cast<std::uint64_t>(first + chain);
    const CounterRandom random(mixed(input.seed, number));
    for (std::int64_t i = 0; i <= n; ++i) {
      const CounterRandom position = random.substream(static_cast<std::uint64_t>(i));
      // Each row of the source is used once, with two rows per position.
      const std::int64_t row = 2 * ((first + chain) * (n + 1) + i);
      const bool certain = position.below(8, 0) == 0;
      const std::vector<float> target =
          certain ? one_hot(vocab, position.below(vocab, 1)) : chain_row(input, row);
      request.target_probs.insert(request.target_probs.end(), target.begin(), target.end());
      if (i == n) break;
      std::vector<float> draft = draft_row(input, target, row + 1, position.substream(1));
      for (float& p : draft) p = rounded_to(request.dtype, p);
      scale_for_profile(input, draft);
      request.draft_probs.insert(request.draft_probs.end(), draft.begin(), draft.end());
      request.draft_tokens.push_back(draft_token(draft, position.substream(2), faults));
    }
    request.seed.push_back(random.word(0));
    request.offset.push_back(offset_of(first + chain, random.substream(1000)));
    if (faults && random.below(16, 1) == 0) mutate(request, chain, random.substream(1001));
  }
  return request;
}

reference::ChainOutcome expected_chain(const ChainRequest& request, std::int64_t chain) {
  const auto b = static_cast<std::size_t>(chain);
  const auto n = static_cast<std::size_t>(request.num_draft_tokens);
  const auto vocab = static_cast<std::size_t>(request.vocab);
  const std::size_t s = request.seed_is_scalar ? 0 : b;
  const auto index = static_cast<std::uint32_t>(request.seed_is_scalar ? b : 0);
  const auto word = [&](const std::vector<std::uint64_t>& given, std::size_t at,
                        std::size_t position, Purpose purpose) {
    if (!given.empty()) return given[at];
    return random_word(request.seed[s], request.offset[s] + position, purpose, index);
  };
  std::vector<std::uint64_t> accept(n), recover(n);
  for (std::size_t i = 0; i < n; ++i) {
    accept[i] = word(request.accept_words, b * n + i, i, Purpose::accept);
    recover[i] = word(request.recover_words, b * n + i, i, Purpose::recover);
  }
  const auto draft = std::span(request.draft_probs).subspan(b * n * vocab, n * vocab);
  const auto tokens = std::span(request.draft_tokens).subspan(b * n, n);
  const auto target = std::span(request.target_probs).subspan(b * (n + 1) * vocab, (n + 1) * vocab);
  const std::uint64_t bonus = word(request.bonus_words, b, n, Purpose::bonus);
  return kept_answer(
      "chain_speculative_model",
      [&] {
        return reference::chain_speculative_model(draft, tokens, target, vocab, accept, recover,
                                                  bonus);
      },
      draft, tokens, target, std::span<const std::uint64_t>(accept),
      std::span<const std::uint64_t>(recover), bonus);
}

ChainRequest pick_chains(const ChainRequest& request, const std::vector<std::int64_t>& picks) {
  ChainRequest picked;
  picked.dtype = request.dtype;
  picked.batch = static_cast<std::int64_t>(picks.size());
  picked.num_draft_tokens = request.num_draft_tokens;
  picked.vocab = request.vocab;
  const std::int64_t n = request.num_draft_tokens;
  const auto copy = [](const auto& from, std::int64_t chain, std::int64_t size, auto& to) {
    to.insert(to.end(), from.begin() + chain * size, from.begin() + (chain + 1) * size);
  };
  for (const std::int64_t chain : picks) {
    copy(request.draft_probs, chain, n * request.vocab, picked.draft_probs);
    copy(request.draft_tokens, chain, n, picked.draft_tokens);
    copy(request.target_probs, chain, (n + 1) * request.vocab, picked.target_probs);
    copy(request.seed, chain, 1, picked.seed);
    copy(request.offset, chain, 1, picked.offset);
  }
  return picked;
}

}  // namespace fairdraw::harness
