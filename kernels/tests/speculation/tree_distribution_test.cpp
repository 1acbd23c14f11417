// Drafted trees whose siblings are drawn with the random words that fairdraw/speculative.h
// specifies must follow the target's distribution. The test counts triples of tokens, with and
// without replacement.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "fairdraw/sample.h"
#include "fairdraw/speculative.h"
#include "tests/speculation/small_model.h"

namespace fairdraw::suites {
namespace {

constexpr std::int64_t kTokens = kSmallVocab;

// The root has three children; the first child has two children, and the third child has one.
constexpr std::array<std::int32_t, 6> kParents = {-1, -1, -1, 0, 0, 2};
constexpr std::int64_t kNodes = kParents.size(), kTreeRows = kNodes + 1, kDepth = 2;

struct TreeDrafter {
  const char* name;
  SiblingSampling siblings;
  std::uint32_t model;
  float temperature;
};

/// The first step of many requests. Each request gets its tokens from the tree, and further tokens
/// from the target until there are three.
class TreeStep {
 public:
  TreeStep(std::uint32_t target, const LawFilters& filters, const TreeDrafter& drafter,
           std::uint64_t first_seed, std::int64_t requests)
      : target_(target), filters_(filters), drafter_(drafter), requests_(requests) {
    const auto count = static_cast<std::size_t>(requests);
    for (std::size_t b = 0; b < count; ++b) seeds_.push_back(first_seed + b);
    drafted_.assign(count * kNodes, 0);
    target_rows_.assign(count * kTreeRows * kTokens, 0);
    // The rows of leaves are never read.
    draft_rows_.assign(count * kTreeRows * kTokens, std::nanf(""));
  }

  /// Draws the trees with the requests' own random bits, accepts drafts, and returns the tokens.
  std::vector<std::vector<std::int32_t>> run() {
    for (std::int64_t node = -1; node < kNodes; ++node) draw_children(node);
    std::vector<std::int32_t> parents;
    for (std::int64_t b = 0; b < requests_; ++b) {
      parents.insert(parents.end(), kParents.begin(), kParents.end());
    }
    AcceptTreeRequest request;
    request.target.logits = view(target_rows_);
    request.target.filters = filters_;
    request.target.batch = requests_;
    request.target.seed = {seeds_.data(), requests_};
    request.max_draft = kNodes;
    request.max_depth = kDepth;
    request.draft_tokens = {drafted_.data(), requests_ * kNodes};
    request.parents = {parents.data(), requests_ * kNodes};
    request.draft_law = DraftLaw::logits;
    request.siblings = drafter_.siblings;
    request.draft = view(draft_rows_);
    request.draft_filters.temperature = drafter_.temperature;
    std::vector<std::int32_t> out(seeds_.size() * (kDepth + 1)), accepted(seeds_.size());
    std::vector<RowStatus> statuses(seeds_.size());
    const Error error = accept_tree(request, {{out.data(), requests_ * (kDepth + 1)},
                                              {},
                                              {accepted.data(), requests_},
                                              {statuses.data(), requests_}});
    EXPECT_FALSE(error) << error.message;
    std::vector<std::vector<std::int32_t>> tokens;
    for (std::size_t b = 0; b < seeds_.size(); ++b) {
      EXPECT_EQ(statuses[b], RowStatus::ok);
      const auto first = out.begin() + static_cast<std::ptrdiff_t>(b * (kDepth + 1));
      tokens.emplace_back(first, first + accepted[b] + 1);
      drafts_that_stood += accepted[b];
    }
    for (std::int64_t at = 1; at < kLength; ++at) draw_missing(at, tokens);
    return tokens;
  }

  std::int64_t drafts_that_stood = 0;

 private:
  RowsView view(const std::vector<float>& rows) const {
    return {rows.data(), DType::float32, requests_ * kTreeRows, kTokens, kTokens};
  }

  std::vector<std::int32_t> prefix_of(std::size_t b, std::int64_t node) const {
    std::vector<std::int32_t> prefix;
    for (; node >= 0; node = kParents[static_cast<std::size_t>(node)]) {
      prefix.insert(prefix.begin(), drafted_[b * kNodes + static_cast<std::size_t>(node)]);
    }
    return prefix;
  }

  // Computes the rows of both models after `node`, and draws the node's children, each with its own
  // sample number.
  void draw_children(std::int64_t node) {
    const auto row = static_cast<std::size_t>(node + 1);
    std::vector<float> behind;
    for (std::size_t b = 0; b < seeds_.size(); ++b) {
      const Logits ours = logits_behind(prefix_of(b, node), target_);
      const Logits other = logits_behind(prefix_of(b, node), drafter_.model);
      const auto at = static_cast<std::ptrdiff_t>((b * kTreeRows + row) * kTokens);
      std::copy(ours.begin(), ours.end(), target_rows_.begin() + at);
      behind.insert(behind.end(), other.begin(), other.end());
      if (std::count(kParents.begin(), kParents.end(), node) > 0) {
        std::copy(other.begin(), other.end(), draft_rows_.begin() + at);
      }
    }
    std::vector<std::uint32_t> allowed(seeds_.size(), (1U << kTokens) - 1);
    std::int32_t sibling = 0;
    for (std::size_t child = 0; child < kParents.size(); ++child) {
      if (kParents[child] != node) continue;
      const std::vector<std::int32_t> drawn = draw(behind, allowed, node, sibling++);
      for (std::size_t b = 0; b < seeds_.size(); ++b) {
        drafted_[b * kNodes + child] = drawn[b];
        if (drafter_.siblings == SiblingSampling::without_replacement) {
          allowed[b] &= ~(1U << drawn[b]);
        }
      }
    }
  }

  std::vector<std::int32_t> draw(const std::vector<float>& rows,
                                 const std::vector<std::uint32_t>& allowed, std::int64_t node,
                                 std::int32_t sibling) const {
    const std::vector<std::uint64_t> offsets(seeds_.size(), node < 0 ? 0 : 1);  // by depth
    SampleRequest request;
    request.logits = {rows.data(), DType::float32, requests_, kTokens, kTokens};
    request.allowed = {allowed.data(), requests_, 1};
    request.temperature = drafter_.temperature;
    request.seed = {seeds_.data(), requests_};
    request.offset = {offsets.data(), requests_};
    request.purpose = Purpose::draft;
    request.num_samples = sibling + 1;
    std::vector<std::int32_t> samples(seeds_.size() * static_cast<std::size_t>(sibling + 1));
    SampleResult result;
    result.tokens = {samples.data(), requests_ * (sibling + 1)};
    EXPECT_FALSE(sample(request, result));
    std::vector<std::int32_t> drawn;
    for (std::size_t b = 0; b < seeds_.size(); ++b) {
      drawn.push_back(
          samples[b * static_cast<std::size_t>(sibling + 1) + static_cast<std::size_t>(sibling)]);
    }
    return drawn;
  }

  // Draws the token at position `at` for requests with fewer tokens, as their next step without
  // drafts would.
  void draw_missing(std::int64_t at, std::vector<std::vector<std::int32_t>>& tokens) const {
    std::vector<float> rows;
    for (const auto& prefix : tokens) {
      const auto until = std::min<std::ptrdiff_t>(at, std::ssize(prefix));
      const Logits row = logits_behind({prefix.begin(), prefix.begin() + until}, target_);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const std::vector<std::uint64_t> offsets(seeds_.size(), static_cast<std::uint64_t>(at));
    SampleRequest request;
    request.logits = {rows.data(), DType::float32, requests_, kTokens, kTokens};
    request.temperature = filters_.temperature;
    request.top_p = filters_.top_p;
    request.seed = {seeds_.data(), requests_};
    request.offset = {offsets.data(), requests_};
    std::vector<std::int32_t> drawn(seeds_.size());
    SampleResult result;
    result.tokens = {drawn.data(), requests_};
    EXPECT_FALSE(sample(request, result));
    for (std::size_t b = 0; b < tokens.size(); ++b) {
      if (std::ssize(tokens[b]) == at) tokens[b].push_back(drawn[b]);
    }
  }

  std::uint32_t target_;
  LawFilters filters_;
  TreeDrafter drafter_;
  std::int64_t requests_;
  std::vector<std::uint64_t> seeds_;
  std::vector<std::int32_t> drafted_;
  std::vector<float> target_rows_, draft_rows_;
};

TEST(TreeDistribution, TreesDrawnWithTheShippedSeedsGiveTriplesOfTheTarget) {
  const auto with = SiblingSampling::with_replacement,
             without = SiblingSampling::without_replacement;
  const TreeDrafter all[] = {{"another model, with replacement", with, 77, 0.7F},
                             {"another model, without replacement", without, 77, 0.7F},
                             {"the target's own model, flatter, with replacement", with, 5, 4},
                             {"the target's own model, sharper, without", without, 5, 0.5F}};
  expect_triples_of_the_target(all, [](const TreeDrafter& drafter, std::uint64_t first_seed) {
    TreeStep step(kTarget, target_filters(), drafter, first_seed, kRequests);
    const auto tokens = step.run();
    return Drawn{tokens, step.drafts_that_stood};
  });
}

}  // namespace
}  // namespace fairdraw::suites
