// Properties of drafted chains: each chain is compared with the chain model, and with the same
// chain in a call of its own.
#include <fmt/format.h>

#include <numeric>

#include "harness/run/calls/random_words.h"
#include "reference/integer_model.h"
#include "suites/gate/fuzz/property_lists.h"

namespace fairdraw::suites::fuzz {
namespace {

using harness::ChainRequest;
using harness::ChainResponse;

template <class T>
std::vector<T> slice(const std::vector<T>& values, std::int64_t index, std::int64_t width) {
  if (values.empty()) return {};
  const auto first = values.begin() + index * width;
  return {first, first + width};
}

// Returns the random words of a chain: the supplied words, or those of the specification.
std::vector<std::uint64_t> words_of(const ChainRequest& chain, std::int64_t b, Purpose purpose,
                                    const std::vector<std::uint64_t>& given, std::int64_t count) {
  if (!given.empty()) return slice(given, b, count);
  const auto at = static_cast<std::size_t>(chain.seed_is_scalar ? 0 : b);
  const auto index = static_cast<std::uint32_t>(chain.seed_is_scalar ? b : 0);
  const auto first =
      static_cast<std::uint64_t>(purpose == Purpose::bonus ? chain.num_draft_tokens : 0);
  std::vector<std::uint64_t> words;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t position = first + static_cast<std::uint64_t>(i);
    words.push_back(
        harness::random_word(chain.seed[at], chain.offset[at] + position, purpose, index));
  }
  return words;
}

reference::ChainOutcome model_of(const ChainRequest& chain, std::int64_t b) {
  const std::int64_t n = chain.num_draft_tokens;
  return reference::chain_speculative_model(
      slice(chain.draft_probs, b, n * chain.vocab), slice(chain.draft_tokens, b, n),
      slice(chain.target_probs, b, (n + 1) * chain.vocab), static_cast<std::size_t>(chain.vocab),
      words_of(chain, b, Purpose::accept, chain.accept_words, n),
      words_of(chain, b, Purpose::recover, chain.recover_words, n),
      words_of(chain, b, Purpose::bonus, chain.bonus_words, 1).front());
}

Judgement chains_of_the_model(Subject& subject) {
  if (!subject.exact()) return not_applicable("claims no integer arithmetic");
  const ChainRequest& chain = subject.fuzz_case().chain;
  const ChainResponse response = subject.run_chain(chain);
  if (!response.ran()) return fails(response.trouble());
  const std::int64_t width = chain.num_draft_tokens + 1;
  for (std::int64_t b = 0; b < chain.batch; ++b) {
    const reference::ChainOutcome model = model_of(chain, b);
    const auto at = static_cast<std::size_t>(b);
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int32_t token = response.tokens[static_cast<std::size_t>(b * width + i)];
      const std::int32_t expected = model.tokens[static_cast<std::size_t>(i)];
      if (token == expected) continue;
      return fails(fmt::format("chain {}, position {}: token {}, the chain model says {}", b, i,
                               token, expected));
    }
    const auto differs = [&](const char* what, std::int32_t observed, std::int32_t expected) {
      return fmt::format("chain {}: {} {}, the chain model says {}", b, what, observed, expected);
    };
    if (response.accepted[at] != model.accepted) {
      return fails(differs("accepted", response.accepted[at], model.accepted));
    }
    if (response.emitted[at] != model.emitted) {
      return fails(differs("emitted", response.emitted[at], model.emitted));
    }
    const auto status = static_cast<std::int32_t>(model.status);
    if (!response.statuses.empty() && response.statuses[at] != status) {
      return fails(differs("status", response.statuses[at], status));
    }
  }
  return holds();
}

Judgement chains_alone(Subject& subject) {
  const ChainRequest& chain = subject.fuzz_case().chain;
  const bool own_bits = !chain.seed_is_scalar || !chain.bonus_words.empty();
  if (!subject.description().per_request_seeds || !own_bits || chain.batch < 2) {
    return not_applicable("chains share random bits");
  }
  const ChainResponse response = subject.run_chain(chain);
  if (!response.ran()) return fails(response.trouble());
  const std::int64_t n = chain.num_draft_tokens;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  for (std::int64_t b = 0; b < chain.batch; ++b) {
    const std::int64_t only[] = {b};
    const ChainResponse alone = subject.run_chain(with_chains(chain, only, positions));
    if (!alone.ran()) return fails(alone.trouble());
    if (alone.tokens == slice(response.tokens, b, n + 1)) continue;
    return fails(fmt::format("chain {} gives other tokens alone than in its batch", b));
  }
  return holds();
}

}  // namespace

std::vector<Property> chain_properties() {
  return {
      {"chain.model", "tokens, counts and statuses of chains are those of the chain model",
       CaseKind::chain, 1, chains_of_the_model},
      {"chain.alone", "a chain alone is that chain in its batch", CaseKind::chain, 1, chains_alone},
  };
}

}  // namespace fairdraw::suites::fuzz
