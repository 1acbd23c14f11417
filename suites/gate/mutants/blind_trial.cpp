#include "suites/gate/mutants/blind_trial.h"

#include <algorithm>
#include <map>

namespace fairdraw::suites {
namespace {

static_assert(crc32("123456789") == 0xcbf43926);  // this is the check value of CRC-32

using Causes = std::vector<std::string_view>;

// Returns the causes whose sentence and advice lead a reader to the mistake.
const std::map<std::string_view, Causes>& declared() {
  static const std::map<std::string_view, Causes> all = {
      {"operation-log-of-softmax", {"row operations", "numeric precision"}},
      {"operation-sum-in-float16", {"row operations", "numeric precision"}},
      {"operation-mask-fill-lowest", {"row operations"}},
      {"penalties-of-row-0",
       {"batch dependence", "batch dependence or state", "batches", "histories", "processing",
        "repetition penalty", "frequency penalty", "presence penalty"}},
      {"verify-mask-of-the-first-row",
       {"speculative decoding", "bitmask", "batches", "batch dependence"}},
      {"temperature-of-0.57-off", {"temperature"}},
      {"temperatures-next-to-0.8-ignored", {"temperature"}},
      {"float32-prefix-sum", {"numeric precision", "truncation", "ends of intervals"}},
      {"support-size-path-unfiltered",
       {"requested results", "out of support", "support size", "the draw leaves its own mask",
        "top_k: ignored", "top_p: ignored", "min_p: ignored"}},
      {"no-status-no-validation", {"bad values"}},
      {"outputs-samples-overlap", {"shared random bits", "numbers of a draw"}},
      {"argmax-skips-block-starts",
       {"lost tokens", "greedy rows", "temperature: rows at temperature 0"}},
      {"verify-tree-history-by-number", {"speculative decoding", "histories"}},
      {"reppen-skips-prompt", {"repetition penalty", "histories"}},
      {"cuda-graph-frozen-offset", {"shared random bits", "counters", "batch dependence or state"}},
      {"max-seqs-corruption", {"speculative decoding", "batches", "batch dependence"}},
      {"engine-negative-top-k-is-off", {"bad values", "top_k", "definition of top_k -1 and below"}},
      {"chain-target-zeroed-in-place", {"memory", "speculative decoding"}},
      {"logprob-temperature-1", {"log-probabilities"}},
      {"float16-subnormals-flushed", {"numeric precision", "ties"}},
      {"min-p-in-bf16", {"min_p", "numeric precision", "boundary of the mask"}},
      {"biases-of-an-id-add-up", {"logit bias"}},
      {"verify-goes-on-behind-a-rejection", {"speculative decoding"}},
      {"generator-misaligned-rows-shifted",
       {"shapes and batches", "batches", "batch dependence", "batch dependence or state"}},
      {"tokens-split-row-loses-ties",
       {"ties", "batch dependence", "definition of ties with the k-th largest",
        "definition of ties at the end of the nucleus"}},
      {"counts-wrap-at-256",
       {"histories", "frequency penalty", "presence penalty", "repetition penalty", "processing"}},
      {"top-n-at-most-20", {"log-probabilities"}},
      {"engine-bad-row-ends-batch", {"bad values", "batch dependence"}},
      {"last-of-full-block-lost", {"lost tokens", "truncation"}},
      {"shard-drops-cut-tiles", {"lost tokens", "truncation", "shards"}},
      // The second trial.
      {"tokens-negative-zero-below-zero",
       {"ties", "definition of ties with the k-th largest",
        "definition of ties at the end of the nucleus"}},
      {"tokens-last-tile-from-64-rows", {"lost tokens", "truncation", "batch dependence"}},
      {"logprob-by-row", {"log-probabilities", "batches"}},
      {"top-k-to-multiple-of-16", {"top_k", "mask: too many tokens"}},
      {"support-size-off-by-one", {"support size"}},
      {"generator-filters-off-for-samples",
       {"out of support", "the draw leaves its own mask", "top_k", "top_p", "min_p"}},
      {"generator-starts-at-the-second",
       {"shared random bits", "seeds", "batch dependence or state"}},
      {"temperature-ignored", {"temperature"}},
      {"topp-one-is-greedy", {"top_p", "definition of top_p 1"}},
      {"engine-min-p-off",
       {"min_p", "boundary of the mask", "definition of probability exactly at min_p"}},
      {"min-p-at-least-0.001", {"min_p", "mask: too many tokens"}},
      {"minus-zero-draws-from-128-rows", {"batch dependence", "temperature", "greedy rows"}},
      {"draft-dtype-mismatch", {"speculative decoding", "numeric precision"}},
      {"slot-keeps-output", {"batch dependence or state", "histories"}},
      {"overflow-clamped", {"bad values", "repetition penalty", "numeric precision", "processing"}},
      {"operation-first-parameter-for-all", {"row operations", "batches"}},
  };
  return all;
}

}  // namespace

std::vector<const Mutant*> trial_mutants() {
  std::vector<const Mutant*> trial;
  for (const Mutant& mutant : catalogue()) {
    if (is_held_out(mutant.name) && mutant.unreachable_reason.empty()) trial.push_back(&mutant);
  }
  std::ranges::sort(trial, {}, [](const Mutant* one) { return crc32(one->name); });
  constexpr std::size_t kKnown = kTrialsBefore * kTrialMutants;
  trial.erase(trial.begin(), trial.begin() + static_cast<std::ptrdiff_t>(kKnown));
  if (trial.size() > kTrialMutants) trial.resize(kTrialMutants);
  return trial;
}

std::span<const std::string_view> declared_causes(std::string_view mutant) {
  const auto found = declared().find(mutant);
  if (found == declared().end()) return {};
  return found->second;
}

}  // namespace fairdraw::suites
