// Mutants whose random bits are shared, constant or too coarse at their ends, and mutants whose
// draws depend on a draw for another purpose.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>

#include "harness/run/calls/random_words.h"
#include "suites/gate/mutants/table.h"

namespace fairdraw::suites {
namespace {

// Width of the first of 2^24 buckets, because float32 uniform numbers have 24 bits.
constexpr double kFirstBucket = 0x1p-24;
bool is_zero_in_float(std::uint64_t word) { return word >> 40 == 0; }

// Returns a number that differs for each instance; it replaces the device's entropy.
std::uint64_t next_instance() {
  static std::atomic<std::uint64_t> instances = 0;
  return ++instances;
}

constexpr Entry kRandom[] = {
    {"uniform-zero-picks-index0", "PyTorch issue #4858, PR #9960",
     "the first token whose prefix sum reaches the uniform, not exceeds it: a uniform of 0 picks "
     "id 0, whatever its probability",
     [](const DrawWeights& drawn, std::uint64_t word) {
       const auto& prefix = drawn.prefix;
       return static_cast<std::int32_t>(
           std::lower_bound(prefix.begin(), prefix.end(), drawn.position(word)) - prefix.begin());
     }},
    {"cdf-edge-zero-width-bin", "PyTorch issue #4858",
     "lower and upper edge of a bin come from float32 sums in different orders: a bin of "
     "probability 0 has a width",
     [](const DrawWeights& drawn, std::uint64_t word) {
       const auto& prefix = drawn.prefix;
       const std::int32_t token = token_of(drawn, word);
       // Two orders of summation round this edge differently. The empty bin before the token gets
       // the positions between the two edges.
       const auto at = static_cast<std::size_t>(token);
       if (at == 0) return token;
       const bool empty_bin = prefix[at - 1] == (at == 1 ? 0 : prefix[at - 2]);
       const RowWeight into = drawn.position(word) - prefix[at - 1];
       const bool between = into <= prefix[at - 1] >> 24;
       return empty_bin && between ? token - 1 : token;
     }},
    {"exponential-zero-cpu", "PyTorch issues #48841, #50034, #100884, #22557",
     "an exponential of 0 makes 0/0 of a token of probability 0, and NaN wins the race",
     By("binomial/peaked/v131072/top_k_*", Base::hf_race),
     [](FloatMutation& mutation) {
       mutation.zero_wins = [](double largest) { return largest > 1 - kFirstBucket; };
     }},
    {"log-eps-over-p-onehot", "PyTorch PR #47386",
     "a uniform of 0 makes every score -inf in a row with one possible token: id 0 is returned",
     [](const DrawWeights& drawn, std::uint64_t word) {
       return is_zero_in_float(word) ? 0 : token_of(drawn, word);
     }},
    {"gumbel-endpoint-naive-clamp", "SGLang PR #33423",
     "the noise of the last bucket is clamped at +708, where the others end at 16.6: its token "
     "wins whatever its logit",
     By("binomial/head_and_tail/*", Base::hf_race),
     [](double uniform) { return uniform > 1 - kFirstBucket ? 708.0 : gumbel(uniform); }},
    {"lcg-consecutive-seeds", "kekzl/imp PR #1143",
     "seed plus step goes through one step of a linear congruential generator", By("streams/*"),
     [](const WordKey& of) {
       const auto step = static_cast<std::uint32_t>(of.seed + of.offset + of.index + of.attempt);
       return static_cast<std::uint64_t>(step * 1664525U + 1013904223U) << 32;
     }},
    {"cuda-graph-frozen-offset", "Megatron-LM PR #5697",
     "seeds and offsets are those of the first call: every replay draws the same numbers",
     By("streams/* binomial/gaussian/v1000/none/*"),
     [](Mutation& mutation) {
       using Slot = std::pair<std::int64_t, std::uint32_t>;
       const auto first = std::make_shared<std::map<Slot, std::uint64_t>>();
       mutation.word = [first](const WordKey& of) {
         const std::uint64_t word = word_of(of);
         const std::int64_t slot = of.output * 65536 + static_cast<std::int64_t>(of.index);
         return first->emplace(std::pair(slot, of.attempt), word).first->second;
       };
     }},
    {"rng-offset-not-advanced", "ROCm aiter PR #2035",
     "the offset is ignored, so that successive calls draw the same numbers", By("streams/*"),
     [](const WordKey& of) { return draw_word(of, of.seed, 0, of.index); }},
    {"reused-uniforms-and-missing-sync", "FlashInfer PR #424",
     "all positions of a chain share the acceptance word of the first",
     By("chain/*", Base::integers),
     [](Chain& chain) {
       for (std::uint64_t& word : chain.accept_words) word = chain.accept_words.front();
     }},
};

constexpr Entry kIndependence[] = {
    {"dp-ranks-same-seed", "Megatron-LM PR #5983",
     "each instance seeds itself with one constant and counts its draws; given seeds are ignored",
     By("replay/*"),
     [](Mutation& mutation) {
       const auto count = std::make_shared<std::uint64_t>(0);
       mutation.word = [count](const WordKey&) { return harness::mixed(42, (*count)++); };
     }},
    {"tp-ranks-different-tokens", "vLLM PR #17929, issue #17498; mini-sglang PR #85",
     "the instance is mixed into the seed: replicas that must agree do not",
     By("tokens/*", Base::integers),
     [](Mutation& mutation) {
       mutation.word = [instance = next_instance()](const WordKey& of) {
         return draw_word(of, of.seed + (instance << 32), of.offset, of.index);
       };
     }},
    {"draft-noise-reused-in-recovery", "vLLM PR #47386, #54282",
     "acceptance and recovery of a position share their random word", By("chain/*", Base::integers),
     [](Mutation& mutation) {
       mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                                std::uint32_t index) {
         const bool shared = purpose == Purpose::recover || purpose == Purpose::accept;
         return harness::random_word(seed, offset, shared ? Purpose::draft : purpose, index);
       };
     }},
};

// Draws with only the first 24 bits of the random word. No run makes enough draws to reveal this
// bug. If tokens are compared bit for bit, supplied words reveal it at once.
std::int32_t cut(const DrawWeights& drawn, std::uint64_t word) {
  return token_of(drawn, word >> 40 << 40);
}

constexpr Entry kNarrowWords[] = {
    {"exact-uniforms-of-24-bits",
     "a draw looks at 24 bits of its word, behind exact arithmetic otherwise", cut},
    {"uniforms-of-24-bits", "the uniform is a float32 in [0, 1): it has 24 bits",
     By("scripted/*/v1000/*", Base::distribution), cut,
     "a sampler that claims no more than the distribution may round as float32 does, which has 24 "
     "bits too; to see a token of 2^-24 lost takes more than 10^8 draws"},
};

/// The positions of a verification's requests in their streams of random bits.
struct Streams {
  const fairdraw_verification* call = nullptr;
  std::int64_t request = 0;  ///< number of the next request; all requests of such a call are valid

  /// Returns the random word at the request's offset plus `ahead`.
  std::uint64_t word(std::uint64_t ahead, Purpose purpose, std::uint32_t attempt = 0) const {
    const bool scalar = call->seed_is_scalar != 0;
    const std::int64_t s = scalar ? 0 : request;
    return harness::random_word(call->seed[s], call->offset[s] + ahead, purpose,
                                static_cast<std::uint32_t>(scalar ? request : 0), attempt);
  }
};

// Replaces the last random word of a request's chain by a word at the first offset of the next
// call.
void change_last_word(Mutation& mutation,
                      void (*change)(reference::PositionWords& last, const Streams& streams,
                                     std::uint64_t next)) {
  const auto streams = std::make_shared<Streams>();
  const auto call = std::make_shared<fairdraw_verification>();
  mutation.speculation_call = [streams, call](fairdraw_verification& given, Storage&) {
    *call = given;
    *streams = {call.get(), 0};
  };
  mutation.drafted = [streams, change](harness::DraftedTokens& request) {
    if (!request.tree) change(request.words.back(), *streams, request.words.size());
    ++streams->request;
  };
}

// Replaces the random word of purpose `of` by the acceptance word at the next offset.
template <Purpose of>
void share_with_next_acceptance(Mutation& mutation) {
  mutation.chain_word = [](std::uint64_t seed, std::uint64_t offset, Purpose purpose,
                           std::uint32_t index) {
    return purpose == of ? harness::random_word(seed, offset + 1, Purpose::accept, index)
                         : harness::random_word(seed, offset, purpose, index);
  };
}

// Mutants whose verification uses random words of the engine's next call; the offset of that call
// follows the emitted tokens. Within a single call, the results are right.
constexpr Entry kNextCalls[] = {
    {"recovery-is-next-acceptance",
     "a recovered token and the next call's first acceptance share a word", By("chain_law/*"),
     share_with_next_acceptance<Purpose::recover>},
    {"bonus-is-next-acceptance",
     "the bonus token and the next call's first acceptance share a word", By("chain_law/*"),
     share_with_next_acceptance<Purpose::bonus>},
    {"verify-recovery-is-next-acceptance",
     "in requests a recovered token and the next call's first acceptance share a word",
     [](harness::DraftedTokens& request) {
       for (std::size_t i = 0; i + 1 < request.words.size(); ++i) {
         request.words[i].recover = request.words[i + 1].accept;
       }
     }},
    {"verify-bonus-is-next-acceptance",
     "in requests the bonus token and the next call's first acceptance share a word",
     [](Mutation& mutation) {
       change_last_word(mutation, [](auto& last, const Streams& streams, std::uint64_t next) {
         last.bonus = streams.word(next, Purpose::accept);
       });
     }},
    {"verify-last-draw-is-next-draw",
     "after drafts of unknown distribution the last token is drawn with the next call's first word",
     [](Mutation& mutation) {
       change_last_word(mutation, [](auto& last, const Streams& streams, std::uint64_t next) {
         last.attempts = [streams, next](std::uint32_t attempt) {
           return streams.word(next, Purpose::draw, attempt);
         };
       });
     }},
};

}  // namespace

std::vector<Mutant> random_mutants() {
  return joined({mutants_of("rng", "scripted/*", Base::distribution, kRandom),
                 mutants_of("independence", "scripted/*", Base::distribution, kIndependence)});
}

std::vector<Mutant> random_word_mutants() {
  return mutants_of("numeric-precision", "scripted/*/v1000/* scripted/*", Base::integers,
                    kNarrowWords);
}

std::vector<Mutant> next_call_mutants() {
  return mutants_of("independence", "verify_law/*", Base::distribution, kNextCalls);
}

}  // namespace fairdraw::suites
