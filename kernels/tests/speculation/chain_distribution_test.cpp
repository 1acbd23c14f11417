// A serving loop with speculation, run step by step with the requests' own seeds, must draw
// sequences from the target's distribution. The test counts triples of tokens, from rows that
// depend on the previous tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "fairdraw/sample.h"
#include "fairdraw/speculative.h"
#include "tests/speculation/small_model.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kTokens = kSmallVocab, kDrafted = 2;

struct Drafter {
  const char* name;
  DraftLaw distribution;
  std::uint32_t model;
  LawFilters filters;
  AcceptRule rule = AcceptRule::token_wise;
};

std::vector<Drafter> drafters(std::uint32_t target) {
  LawFilters sharp, flat, greedy;
  sharp.temperature = 0.5F;
  sharp.top_k = 3;
  flat.temperature = 8;
  greedy.temperature = 0;
  return {{"another model, sharp and filtered", DraftLaw::logits, 77, sharp},
          {"the target's own model, flatter", DraftLaw::logits, target, flat},
          {"another model, greedy", DraftLaw::logits, 77, greedy},
          {"another model, its distribution kept secret", DraftLaw::none, 77, {}},
          {"another model, sharp and filtered, by block", DraftLaw::logits, 77, sharp,
           AcceptRule::block},
          {"the target's own model, flatter, by block", DraftLaw::logits, target, flat,
           AcceptRule::block}};
}

/// A serving loop, with the tokens that it has generated for many requests.
class Loop {
 public:
  Loop(std::uint32_t target, const LawFilters& filters, const Drafter& drafter,
       std::uint64_t first_seed, std::int64_t requests)
      : target_(target),
        filters_(filters),
        drafter_(drafter),
        tokens_(static_cast<std::size_t>(requests)) {
    for (std::int64_t b = 0; b < requests; ++b) {
      seeds_.push_back(first_seed + static_cast<std::uint64_t>(b));
    }
    offsets_.assign(static_cast<std::size_t>(requests), 0);
  }

  /// Runs one step of all requests.
  void step() {
    const auto requests = static_cast<std::int64_t>(tokens_.size());
    std::vector<std::vector<std::int32_t>> prefixes = tokens_;
    std::vector<float> target_rows(tokens_.size() * (kDrafted + 1) * kTokens);
    std::vector<float> draft_rows(tokens_.size() * kDrafted * kTokens);
    std::vector<std::int32_t> drafted(tokens_.size() * kDrafted);
    for (std::int64_t i = 0; i <= kDrafted; ++i) {
      std::vector<float> behind;
      for (std::size_t b = 0; b < tokens_.size(); ++b) {
        const Logits row = logits_behind(prefixes[b], target_);
        std::copy(
            row.begin(), row.end(),
            target_rows.begin() + (static_cast<std::int64_t>(b) * (kDrafted + 1) + i) * kTokens);
        const Logits other = logits_behind(prefixes[b], drafter_.model);
        behind.insert(behind.end(), other.begin(), other.end());
        if (i == kDrafted) continue;
        std::copy(other.begin(), other.end(),
                  draft_rows.begin() + (static_cast<std::int64_t>(b) * kDrafted + i) * kTokens);
      }
      if (i == kDrafted) break;
      const std::vector<std::int32_t> next = draft(behind, i);
      for (std::size_t b = 0; b < tokens_.size(); ++b) {
        drafted[b * kDrafted + static_cast<std::size_t>(i)] = next[b];
        prefixes[b].push_back(next[b]);
      }
    }
    AcceptChainRequest request;
    request.target.logits = {target_rows.data(), DType::float32, requests * (kDrafted + 1), kTokens,
                             kTokens};
    request.target.filters = filters_;
    request.target.batch = requests;
    request.target.seed = {seeds_.data(), requests};
    request.target.offset = {offsets_.data(), requests};
    request.max_draft = kDrafted;
    request.draft_tokens = {drafted.data(), requests * kDrafted};
    request.draft_law = drafter_.distribution;
    request.draft = {draft_rows.data(), DType::float32, requests * kDrafted, kTokens, kTokens};
    request.draft_filters = drafter_.filters;
    request.accept_rule = drafter_.rule;
    std::vector<std::int32_t> out(tokens_.size() * (kDrafted + 1)), accepted(tokens_.size());
    std::vector<RowStatus> statuses(tokens_.size());
    const Error error = accept_chain(request, {{out.data(), requests * (kDrafted + 1)},
                                               {accepted.data(), requests},
                                               {statuses.data(), requests}});
    ASSERT_FALSE(error) << error.message;
    for (std::size_t b = 0; b < tokens_.size(); ++b) {
      ASSERT_EQ(statuses[b], RowStatus::ok);
      for (std::int32_t i = 0; i <= accepted[b]; ++i) {
        tokens_[b].push_back(out[b * (kDrafted + 1) + static_cast<std::size_t>(i)]);
      }
      // The words of all positions of a block take part in its decision.
      const bool by_block = drafter_.rule == AcceptRule::block;
      offsets_[b] += static_cast<std::uint64_t>(by_block ? kDrafted : accepted[b]) + 1;
      drafts_that_stood += accepted[b];
    }
  }

  const std::vector<std::vector<std::int32_t>>& tokens() const { return tokens_; }
  std::int64_t drafts_that_stood = 0;

 private:
  std::vector<std::int32_t> draft(const std::vector<float>& rows, std::int64_t position) const {
    const auto requests = static_cast<std::int64_t>(tokens_.size());
    std::vector<std::uint64_t> offsets = offsets_;
    for (std::uint64_t& offset : offsets) offset += static_cast<std::uint64_t>(position);
    SampleRequest request;
    request.logits = {rows.data(), DType::float32, requests, kTokens, kTokens};
    request.temperature = drafter_.filters.temperature;
    request.top_k = drafter_.filters.top_k;
    request.seed = {seeds_.data(), requests};
    request.offset = {offsets.data(), requests};
    request.purpose = Purpose::draft;
    std::vector<std::int32_t> drawn(tokens_.size());
    SampleResult result;
    result.tokens = {drawn.data(), requests};
    EXPECT_FALSE(sample(request, result));
    return drawn;
  }

  std::uint32_t target_;
  LawFilters filters_;
  Drafter drafter_;
  std::vector<std::vector<std::int32_t>> tokens_;
  std::vector<std::uint64_t> seeds_, offsets_;
};

TEST(ChainDistribution, ServingWithSpeculationDrawsTriplesOfTheTarget) {
  const auto draw = [](const Drafter& drafter, std::uint64_t first_seed) {
    Loop loop(kTarget, target_filters(), drafter, first_seed, kRequests);
    // each step gives at least one token
    for (std::int64_t step = 0; step < kLength; ++step) loop.step();
    return Drawn{loop.tokens(), loop.drafts_that_stood};
  };
  expect_triples_of_the_target(drafters(kTarget), draw);
}

}  // namespace
}  // namespace fairdraw::suites
