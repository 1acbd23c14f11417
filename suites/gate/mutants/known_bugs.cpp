#include <algorithm>

#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

// Names of the bugs that have mutants, in the order of their classes: mask, distribution, rng, seed
// determinism, independence, ties, edge parameters, NaN and infinity, numeric precision,
// speculative, penalties, logprobs, batch dependence, out of bounds.
constexpr const char* kNames =
    "topp-drops-crossing topp-extra-at-equality topp-nonprefix-heap topp-cumsum-of-logprobs "
    "mask-fill-1e-10 topk-then-topp-unnormalised topk-before-topp-renorm minp-in-logit-space "
    "typicalp-drops-last xtc-index-typos nucleus-over-approximate-sort "
    "topk-threshold-estimator-collapses pivot-search-state-mismatch topp-renorm-boundary-lost "
    "padded-vocab-sampled bitmask-tail-unmasked min-tokens-bans-last-id "
    "mask-skipped-on-greedy-fast-path gumbel-truncated-uniform n-samples-without-replacement "
    "gumbel-sign prefix-scan-wrong softmax-before-topk-no-renorm dist-without-softmax "
    "mirostat-state-lost mirostat-v2-stuck uniform-zero-picks-index0 cdf-edge-zero-width-bin "
    "exponential-zero-cpu log-eps-over-p-onehot gumbel-endpoint-naive-clamp lcg-consecutive-seeds "
    "cuda-graph-frozen-offset rng-offset-not-advanced reused-uniforms-and-missing-sync "
    "partial-seed-batch-ignored only-seed0-read seed-indexed-by-slot rows-2plus-identical "
    "masked-index-write-lost first-call-differs set-seed-not-deterministic seed-int64-truncated "
    "salted-by-slot scan-nondeterministic seeds-not-remapped-on-condense dp-ranks-same-seed "
    "tp-ranks-different-tokens draft-noise-reused-in-recovery topk-threshold-keeps-ties-by-batch "
    "unstable-sort-at-nucleus-edge argmax-last-wins argmax-after-softmax-creates-ties "
    "topk-zero-is-greedy topk-gt-vocab topp-one-is-greedy topp-zero-empty "
    "temperature-zero-divides temperature-1e-4-fp16-overflow inverted-temperature-guard "
    "greedy-row-negative-temperature nan-row-gives-vocab-size nan-row-uninitialised-id "
    "single-nan-means-token0 nan-to-zero-logit t1-skips-max-subtraction argmax-nan-inf-triton "
    "fp32-exponential-floor uniform-23-bit-gumbel bf16-cumsum-topp log1m-residual "
    "draft-dtype-mismatch tail-eps-cutoff greedy-draft-softmax-q q-not-the-sampled-one "
    "target-without-params eagle-ignores-q always-accept zero-coin-accepts-impossible "
    "shard-local-argmax-draft max-seqs-corruption reppen-negative-logits reppen-threshold-one "
    "reppen-skips-prompt penalise-padding penalty-window-first-n freq-presence-swapped "
    "logprob-zero-with-spec rank-constant-or-shifted logprobs-after-filters mask-swap-aliases "
    "stale-mask-in-recycled-row bitmask-init-zeros params-in-wrong-order row-stride-assumed "
    "thresholds-by-slot-not-row pinned-buffer-race first-token-other-sampler "
    "rng-advance-depends-on-size reject-sampler-uninit-id multinomial-oob-overflow "
    "topk-invalid-indices topp-invalid-rare logit-bias-oov";

}  // namespace

const std::vector<KnownBug>& known_bugs() {
  using enum EntryState;
  static const std::vector<KnownBug> no_mutants = {
      {"mirostat-state-lost", later, "no sampler that is judged keeps Mirostat's state"},
      {"mirostat-v2-stuck", later, "no sampler that is judged keeps Mirostat's state"},
      {"log1m-residual", unreachable, "changes the distribution by a relative 6e-8 at most"},
  };
  static const std::vector<KnownBug> all = [] {
    std::vector<KnownBug> bugs;
    for (const std::string& name : names_of(kNames)) {
      const auto found = std::ranges::find(no_mutants, name, &KnownBug::name);
      bugs.push_back(found == no_mutants.end() ? KnownBug{name, mutant, ""} : *found);
    }
    return bugs;
  }();
  return all;
}

}  // namespace fairdraw::suites
