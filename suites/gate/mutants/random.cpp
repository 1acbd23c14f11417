// Wrong random bits: shared, frozen, too coarse at their ends; and draws of one role that know of
// another's.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/catalogue.h"

namespace fairdraw::suites {
namespace {

using Order = FloatSampler::Order;
using Draw = FloatSampler::Draw;

// float32 uniforms have 24 bits: the first of 2^24 buckets.
constexpr double kFirstBucket = 0x1p-24;
bool is_zero_in_float(std::uint64_t word) { return word >> 40 == 0; }

double gumbel(double uniform) { return -std::log(-std::log(uniform)); }

// The device's own entropy: another for each instance.
std::uint64_t next_instance() {
  static std::atomic<std::uint64_t> instances = 0;
  return ++instances;
}

}  // namespace

std::vector<Mutant> random_mutants() {
  const std::string kind = "rng";
  const std::string independence = "independence";
  return {
      mutated_distribution({"uniform-zero-picks-index0",
                            "PyTorch issue #4858, PR #9960",
                            kind,
                            "the first token whose prefix sum reaches the uniform, not exceeds it: "
                            "a uniform of 0 picks "
                            "id 0, whatever its probability",
                            {"scripted/*"}},
                           [](Mutation& mutation) {
                             mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
                               const auto& prefix = drawn.prefix;
                               return static_cast<std::int32_t>(
                                   std::lower_bound(prefix.begin(), prefix.end(),
                                                    drawn.position(word)) -
                                   prefix.begin());
                             };
                           }),
      mutated_distribution(
          {"cdf-edge-zero-width-bin",
           "PyTorch issue #4858",
           kind,
           "lower and upper edge of a bin come from float32 sums in different orders: a bin of "
           "probability 0 has a width",
           {"scripted/*"}},
          [](Mutation& mutation) {
            mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
              const auto& prefix = drawn.prefix;
              const std::int32_t token = drawn.token_at(drawn.position(word));
              // The edge as one order of summation rounds it is above what the other makes of it:
              // the empty bin in front of the token wins the positions between the two.
              const auto at = static_cast<std::size_t>(token);
              if (at == 0) return token;
              const bool empty_bin = prefix[at - 1] == (at == 1 ? 0 : prefix[at - 2]);
              const RowWeight into = drawn.position(word) - prefix[at - 1];
              const bool between = into <= prefix[at - 1] >> 24;
              return empty_bin && between ? token - 1 : token;
            };
          }),
      mutated_float(
          {"exponential-zero-cpu",
           "PyTorch issues #48841, #50034, #100884, #22557",
           kind,
           "an exponential of 0 makes 0/0 of a token of probability 0, and NaN wins the race",
           {"binomial/peaked/v131072/top_k_*"}},
          Order::hf, Draw::race,
          [](FloatMutation& mutation) {
            mutation.zero_wins = [](double largest) { return largest > 1 - kFirstBucket; };
          }),
      mutated_distribution({"log-eps-over-p-onehot",
                            "PyTorch PR #47386",
                            kind,
                            "a uniform of 0 makes every score -inf in a row with one possible "
                            "token: id 0 is returned",
                            {"scripted/*"}},
                           [](Mutation& mutation) {
                             mutation.pick = [](const DrawWeights& drawn, std::uint64_t word) {
                               return is_zero_in_float(word) ? 0
                                                             : drawn.token_at(drawn.position(word));
                             };
                           }),
      mutated_float({"gumbel-endpoint-naive-clamp",
                     "SGLang PR #33423",
                     kind,
                     "the noise of the last bucket is clamped at +708, where the others end at "
                     "16.6: its token "
                     "wins whatever its logit",
                     {"binomial/head_and_tail/*"}},
                    Order::hf, Draw::race,
                    [](FloatMutation& mutation) {
                      mutation.noise = [](double uniform) {
                        return uniform > 1 - kFirstBucket ? 708.0 : gumbel(uniform);
                      };
                    }),
      mutated_distribution(
          {"lcg-consecutive-seeds",
           "kekzl/imp PR #1143",
           kind,
           "seed plus step goes through one step of a linear congruential generator",
           {"streams/*"}},
          [](Mutation& mutation) {
            mutation.word = [](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                               std::int64_t) {
              const auto step = static_cast<std::uint32_t>(seed + offset + index);
              return static_cast<std::uint64_t>(step * 1664525U + 1013904223U) << 32;
            };
          }),
      mutated_distribution(
          {"cuda-graph-frozen-offset",
           "Megatron-LM PR #5697",
           kind,
           "seeds and offsets are those of the first call: every replay draws the same numbers",
           {"streams/*", "binomial/gaussian/v1000/none/*"}},
          [](Mutation& mutation) {
            const auto first = std::make_shared<std::map<std::int64_t, std::uint64_t>>();
            mutation.word = [first](std::uint64_t seed, std::uint64_t offset, std::uint32_t index,
                                    std::int64_t output) {
              const std::uint64_t word = harness::random_word(seed, offset, Purpose::draw, index);
              const std::int64_t slot = output * 65536 + static_cast<std::int64_t>(index);
              return first->emplace(slot, word).first->second;
            };
          }),
      mutated_distribution({"rng-offset-not-advanced",
                            "ROCm aiter PR #2035",
                            kind,
                            "the offset is ignored, so that successive calls draw the same numbers",
                            {"streams/*"}},
                           [](Mutation& mutation) {
                             mutation.word = [](std::uint64_t seed, std::uint64_t,
                                                std::uint32_t index, std::int64_t) {
                               return harness::random_word(seed, 0, Purpose::draw, index);
                             };
                           }),
      mutated_integers({"reused-uniforms-and-missing-sync",
                        "FlashInfer PR #424",
                        kind,
                        "all positions of a chain share the acceptance word of the first",
                        {"chain/*"}},
                       [](Mutation& mutation) {
                         mutation.chain = [](Chain& chain) {
                           for (std::uint64_t& word : chain.accept_words)
                             word = chain.accept_words.front();
                         };
                       }),
      mutated_distribution({"dp-ranks-same-seed",
                            "Megatron-LM PR #5983",
                            independence,
                            "each instance seeds itself with one constant and counts its draws; "
                            "given seeds are ignored",
                            {"replay/*"}},
                           [](Mutation& mutation) {
                             const auto count = std::make_shared<std::uint64_t>(0);
                             mutation.word = [count](std::uint64_t, std::uint64_t, std::uint32_t,
                                                     std::int64_t) {
                               return harness::mixed(42, (*count)++);
                             };
                           }),
      mutated_integers(
          {"tp-ranks-different-tokens",
           "vLLM PR #17929, issue #17498; mini-sglang PR #85",
           independence,
           "the instance is mixed into the seed: replicas that must agree do not",
           {"tokens/*"}},
          [](Mutation& mutation) {
            mutation.word = [instance = next_instance()](std::uint64_t seed, std::uint64_t offset,
                                                         std::uint32_t index, std::int64_t) {
              return harness::random_word(seed + (instance << 32), offset, Purpose::draw, index);
            };
          }),
      mutated_integers(
          {"draft-noise-reused-in-recovery",
           "vLLM PR #47386, #54282",
           independence,
           "acceptance and recovery of a position share their random word",
           {"chain/*"}},
          [](Mutation& mutation) {
            mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                     std::uint32_t index) {
              const bool shared = purpose == Purpose::recover || purpose == Purpose::accept;
              return harness::random_word(seed, offset, shared ? Purpose::draft : purpose, index);
            };
          }),
  };
}

}  // namespace fairdraw::suites
