// Streams: what must not be equal. On a flat law over a large vocabulary one repeated 3-gram of
// tokens is proof of shared random bits.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "harness/run/checks.h"
#include "harness/run/random_words.h"

namespace fairdraw::harness {
namespace {

constexpr std::int64_t kLength = 16;  // tokens of a sequence

struct Sequence {
  std::string name;
  Request request;  // whose tokens, in order, are the sequence
};

Request one_row(const Request& row, std::int64_t outputs, const SamplerDescription& sampler) {
  Request request = row;
  request.seed.assign(static_cast<std::size_t>(outputs), row.seed.front());
  request.offset.assign(static_cast<std::size_t>(outputs), 0);
  if (outputs == 1) return request;
  if (sampler.indices) {
    request.with_indices = true;
    request.indices.assign(static_cast<std::size_t>(outputs), 0);
    return request;
  }
  request.rows = outputs;
  request.parameters.assign(static_cast<std::size_t>(outputs), row.parameters.front());
  for (std::int64_t i = 1; i < outputs; ++i) {
    request.logits.insert(request.logits.end(), row.logits.begin(), row.logits.end());
  }
  return request;
}

// Offsets, seeds and sample numbers overlap on purpose: where two of them were added up, the
// sequences would share their random bits.
std::vector<Sequence> sequences(const Request& row, const SamplerDescription& sampler) {
  std::vector<Sequence> list;
  const std::uint64_t seed = row.seed.front();
  if (sampler.per_request_seeds) {
    Request offsets = one_row(row, kLength, sampler);
    Request seeds = offsets;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kLength); ++i) {
      offsets.offset[i] = 8 + i;
      seeds.seed[i] = seed + 8 + i;
    }
    list.push_back({"consecutive offsets", std::move(offsets)});
    list.push_back({"consecutive seeds", std::move(seeds)});
  }
  if (sampler.num_samples) {
    Request samples = one_row(row, 1, sampler);
    samples.num_samples = static_cast<std::int32_t>(kLength);
    list.push_back({"samples of one output", std::move(samples)});
  }
  Request outputs = one_row(row, kLength, sampler);
  outputs.seed_is_scalar = true;
  outputs.seed.assign(1, seed);
  outputs.offset.assign(1, 1000);
  list.push_back({"outputs with one scalar seed", std::move(outputs)});
  return list;
}

}  // namespace

CheckOutcome check_streams(const CheckInput& input) {
  const SamplerDescription& sampler = input.sampler->description();
  const Request row = make_request(input, 0, 1);
  if (const std::string lacks = missing_ability(sampler, row); !lacks.empty()) {
    return skipped(lacks);
  }
  const reference::RealLaw law = law_of(input, row, 0);
  const double most_likely = *std::max_element(law.probability.begin(), law.probability.end());

  // Null probability: 3-grams within the sequences only. Two that do not overlap are equal with
  // probability (sum p^2)^3 <= max p^3; two that overlap force one token to repeat: sum p^(3+lag)
  // over the lag's cycle, again <= max p^3. A union bound over all pairs.
  const std::vector<Sequence> all = sequences(row, sampler);
  const double grams = static_cast<double>(all.size()) * (kLength - 2);
  const double null_rate = grams * (grams - 1) / 2 * std::pow(most_likely, 3);
  if (null_rate > input.false_fail_rate) {
    return underpowered(fmt::format(
        "a repeated 3-gram has null probability up to {:.2e}, above the case's share of {:.2e}",
        null_rate, input.false_fail_rate));
  }

  CheckOutcome outcome;
  outcome.rows = 1;
  outcome.spent = null_rate;
  outcome.measures["null_rate"] = null_rate;
  std::map<std::array<std::int32_t, 3>, std::string> seen;
  for (const Sequence& sequence : all) {
    const Response response = run_request(*input.sampler, sequence.request, {});
    if (!response.ran()) return outcome.fail(response.trouble());
    const std::vector<std::int32_t>& tokens = response.tokens;
    outcome.draws += tokens.size();
    for (std::size_t i = 0; i + 3 <= tokens.size(); ++i) {
      const std::array<std::int32_t, 3> gram = {tokens[i], tokens[i + 1], tokens[i + 2]};
      const std::string place = fmt::format("{} at {}", sequence.name, i);
      const auto [entry, is_new] = seen.emplace(gram, place);
      if (is_new) continue;
      return outcome.fail(
          fmt::format("tokens {} {} {} come twice: {}, and {}; independent draws do that with "
                      "probability below {:.1e}",
                      gram[0], gram[1], gram[2], entry->second, place, null_rate));
    }
  }
  outcome.message =
      fmt::format("{} draws of {} streams hold no 3-gram twice", outcome.draws, all.size());
  return outcome;
}

}  // namespace fairdraw::harness
