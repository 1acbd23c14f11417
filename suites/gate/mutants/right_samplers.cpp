#include "suites/gate/mutants/right_samplers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "harness/contract/semantics_text.h"
#include "suites/gate/identify/profile_sampler.h"
#include "suites/gate/mutants/ways_to_draw.h"

namespace fairdraw::suites {
namespace {

// Returns a function that makes samplers with the oracle's masks and distributions in real
// arithmetic, so that only the draw is judged.
Maker drawing(Manner manner, const char* semantics = "fairdraw") {
  return [manner = std::move(manner), semantics] {
    return std::make_unique<ProfileSampler>(harness::semantics_from_text(semantics),
                                            ProfileSampler::Failing::rows, manner);
  };
}

Maker twin(const char* name) { return std::ranges::find(twins(), name, &Twin::name)->make; }

}  // namespace

const std::vector<RightWay>& right_samplers() {
  static const std::vector<RightWay> all = {
      {"gumbel_race", "the largest of log p + Gumbel noise is i with probability p_i",
       drawing({.way = gumbel_race})},
      {"exponential_clocks", "of clocks of rate p_i, i rings first with probability p_i",
       drawing({.way = exponential_clocks})},
      {"alias_table", "the parts of a token in all columns add up to n p_i of n",
       drawing({.way = alias_table})},
      {"two_pivots", "proposals above a pivot that is below all that stays are in proportion",
       drawing({.way = two_pivots})},
      {"propose_and_accept", "what is accepted of proposals in proportion is in proportion",
       drawing({.way = propose_and_accept})},
      {"alias_then_filters", "what is accepted of proposals in proportion is in proportion",
       drawing({.way = alias_then_filters})},
      {"sorted_search", "intervals of length p_i in any order", drawing({.way = sorted_search})},
      {"from_the_top", "intervals of length p_i in any order", drawing({.way = from_the_top})},
      {"in_hashed_order", "intervals of length p_i in any order",
       drawing({.way = in_hashed_order})},
      {"reservoir", "i replaces what is kept with p_i / (p_1 + ... + p_i): products telescope",
       drawing({.way = reservoir})},
      {"envelopes", "rejection from a bound: n_i = envelope, times p_i / envelope",
       drawing({.way = envelopes})},
      {"segments", "a segment's mass times the token's part of it", drawing({.way = segments})},
      {"bisection", "parts of halves multiply to p_i", drawing({.way = bisection})},
      {"bit_by_bit", "a uniform by its bits, as many as decide", drawing({.way = bit_by_bit})},
      {"in_log_space", "the same sums, as logarithms", drawing({.way = in_log_space})},
      {"head_and_tail", "a mixture of the head and the tail by their masses",
       drawing({.way = head_and_tail})},
      {"other_words", "hashed words are a function of seed, offset and number, and are independent",
       drawing({.other_words = true})},
      {"outputs_backward", "outputs do not depend on each other",
       drawing({.order = Manner::Order::backward})},
      {"two_threads", "outputs do not depend on each other",
       drawing({.order = Manner::Order::two_threads})},
      {"lowest_id_ties", "declares the tie rule that it follows",
       drawing({}, "fairdraw,top_k_ties=lowest_id")},
      {"own_sort", "softmax in float32, a sort, sums in float64, as its profile allows",
       twin("float:vllm_torch:inverse_cdf")},
      {"accepted_while_equal", "a draft is accepted while the target's own draw equals it",
       twin("rule:matching")},
      {"block_verification", "lossless: Sun et al. 2024, Algorithm 2", twin("rule:block")},
  };
  return all;
}

}  // namespace fairdraw::suites
