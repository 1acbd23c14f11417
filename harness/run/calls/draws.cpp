#include "harness/run/calls/draws.h"

#include <algorithm>
#include <stdexcept>

#include "harness/run/calls/marks.h"
#include "harness/run/calls/random_words.h"

namespace fairdraw::harness {
namespace {

// Returns the number of tokens per call: 2^16, but at most 2^30 logits if a sampler reads the row
// again for each token. A simple loop takes a few seconds for 2^30 logits, while a call of a plugin
// may take a minute.
std::uint64_t tokens_a_call(std::uint64_t vocab) {
  return std::clamp<std::uint64_t>((1U << 30) / std::max<std::uint64_t>(vocab, 1), 1, 1U << 16);
}

// Returns a call that gives `draws` tokens of one output.
Request samples_of_one_output(const Request& row, std::uint64_t draws, std::uint64_t seed) {
  Request request = row;
  request.seed = {seed};
  request.offset = {0};
  request.num_samples = static_cast<std::int32_t>(draws);
  return request;
}

// Returns a call of `draws` outputs, with consecutive offsets or with one scalar seed.
Request outputs_of_one_row(const Request& row, std::uint64_t draws, std::uint64_t seed, bool scalar,
                           bool through_indices) {
  Request request = row;
  request.seed_is_scalar = scalar;
  request.seed.assign(scalar ? 1 : draws, seed);
  request.offset.assign(scalar ? 1 : draws, 0);
  for (std::size_t i = 0; i < request.offset.size(); ++i) request.offset[i] = i;
  if (through_indices) {
    request.with_indices = true;
    request.indices.assign(draws, 0);
    return request;
  }
  request.rows = static_cast<std::int64_t>(draws);
  request.parameters.assign(draws, row.parameters.front());
  request.logits.reserve(draws * row.logits.size());
  for (std::uint64_t i = 1; i < draws; ++i) {
    request.logits.insert(request.logits.end(), row.logits.begin(), row.logits.end());
    request.allowed.insert(request.allowed.end(), row.allowed.begin(), row.allowed.end());
  }
  if (!row.mark_key.empty()) vary_marks(mixed(~seed, 0), request);
  return request;
}

}  // namespace

void add_tokens(const Response& response, Counts& counts) {
  if (!response.ran()) {
    counts.trouble = response.trouble();
    return;
  }
  for (const std::int32_t token : response.tokens) {
    ++counts.draws;
    const bool in_range = token >= 0 && static_cast<std::size_t>(token) < counts.of_token.size();
    if (in_range) {
      ++counts.of_token[static_cast<std::size_t>(token)];
    } else {
      ++counts.no_token;
    }
  }
}

Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed,
                   std::int64_t most_outputs) {
  return count_draws(sampler, row, draws, seed, CasePart(), most_outputs);
}

Counts count_draws(Sampler& sampler, const Request& row, std::uint64_t draws, std::uint64_t seed,
                   CasePart part, std::int64_t most_outputs) {
  const SamplerDescription& description = sampler.description();
  const auto vocab = static_cast<std::uint64_t>(row.vocab);
  Counts counts;
  counts.of_token.resize(vocab);
  const bool marked = !row.mark_key.empty();  // marked rows have one token each
  const bool by_indices = description.indices && !marked;

  // Each output costs a pass over the row, while a further sample of the same output costs less. If
  // the sampler has samples, outputs take at most a quarter of the draws and, beyond 64 outputs, at
  // most 2^25 logits.
  std::uint64_t by_outputs = draws;
  if (description.num_samples && !marked) {
    by_outputs = std::min(draws / 4, std::max<std::uint64_t>(64, (1U << 25) / vocab));
  }
  std::uint64_t outputs_a_call =
      by_indices ? tokens_a_call(vocab) : std::max<std::uint64_t>(1, (1U << 21) / vocab);
  if (most_outputs > 0) {
    outputs_a_call = std::min(outputs_a_call, static_cast<std::uint64_t>(most_outputs));
  }
  std::uint64_t asked = 0;  // number of draws requested in the calls of all parts
  for (std::uint64_t call = 0; asked < draws && counts.trouble.empty(); ++call) {
    const bool as_outputs = asked < by_outputs;
    const std::uint64_t of_call =
        as_outputs ? std::min({by_outputs - asked, (by_outputs + 1) / 2, outputs_a_call})
                   : std::min(draws - asked, tokens_a_call(vocab));
    asked += of_call;
    if (call % part.parts != part.part - 1) continue;
    const std::uint64_t call_seed = mixed(seed, call);
    const bool scalar = !description.per_request_seeds || call % 2 == 1;
    add_tokens(
        run_request(sampler,
                    as_outputs ? outputs_of_one_row(row, of_call, call_seed, scalar, by_indices)
                               : samples_of_one_output(row, of_call, call_seed),
                    {}),
        counts);
  }
  return counts;
}

Counts count_samples(Sampler& sampler, const Request& row, std::uint64_t draws,
                     std::uint64_t seed) {
  Counts counts;
  counts.of_token.resize(static_cast<std::size_t>(row.vocab));
  const std::uint64_t of_a_call = tokens_a_call(counts.of_token.size());
  for (std::uint64_t call = 0; counts.draws < draws && counts.trouble.empty(); ++call) {
    const std::uint64_t of_call = std::min(draws - counts.draws, of_a_call);
    add_tokens(run_request(sampler, samples_of_one_output(row, of_call, mixed(seed, call)), {}),
               counts);
  }
  return counts;
}

Counts PartCounts::count(Sampler& sampler, const Request& row, std::uint64_t draws,
                         std::uint64_t seed) {
  counted_.push_back({seed, draws, count_draws(sampler, row, draws, seed, part_)});
  return counted_.back().counts;
}

Counts JoinedCounts::count(Sampler& /*sampler*/, const Request& row, std::uint64_t draws,
                           std::uint64_t seed) {
  Counts joined;
  joined.of_token.resize(static_cast<std::size_t>(row.vocab));
  for (const std::vector<CountedDraws>& part : parts_) {
    const auto found = std::ranges::find_if(
        part, [&](const CountedDraws& one) { return one.seed == seed && one.asked == draws; });
    if (found == part.end() || found->counts.of_token.size() != joined.of_token.size()) {
      lacks_some_ = true;
      throw std::runtime_error("a part lacks draws that are to be judged");
    }
    for (std::size_t token = 0; token < joined.of_token.size(); ++token) {
      joined.of_token[token] += found->counts.of_token[token];
    }
    joined.draws += found->counts.draws;
    joined.no_token += found->counts.no_token;
    if (joined.trouble.empty()) joined.trouble = found->counts.trouble;
  }
  return joined;
}

}  // namespace fairdraw::harness
