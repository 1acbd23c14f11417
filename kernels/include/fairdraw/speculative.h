// Speculative decoding in serving verifies drafted tokens against the target model's raw logits.
//
// A request has n drafted tokens and n + 1 rows of the target. Row 0 follows the request's history,
// and row i + 1 follows drafted token i. The emitted tokens are the accepted drafted tokens, and
// one token of the target's own after them. The distribution of the emitted tokens is the target's,
// whatever the draft. A request gets `accepted` + 1 new tokens, and its next step starts at offset
// + accepted + 1 (after block verification: offset + n + 1).
//
// One of two rules applies, by what is known of the draft's distribution.
//   - The first rule needs no knowledge of the distribution (n-gram, prompt lookup, the
//     deterministic top-k tokens of an EAGLE or Medusa head). The target's own token is drawn at
//     each position, and the drafted token is accepted if it is that token. So a drafted token x is
//     accepted with probability P(x), as Leviathan's rule says for a point mass. The tokens are,
//     bit for bit, those that `sample` draws one by one at offset, offset + 1, ...: speculation
//     changes the speed and nothing else. The draft must not be drawn with Purpose::draw of the
//     same seed and offsets.
//   - The second rule needs the distribution Q (probabilities, or logits with their filters) from
//     which each drafted token was drawn, independently of purposes accept, recover and bonus
//     (Leviathan et al. 2023, Chen et al. 2023). A drafted token is accepted with probability
//     min(1, P/Q); otherwise the token is drawn from max(P - Q, 0). If all drafted tokens are
//     accepted, a bonus token is drawn from row n. The arithmetic is in exact integers, as in
//     chain_speculative_sampling.
// A greedy request (temperature 0, top_k 1 or top_p 0) follows the first rule: the largest logit. A
// request without drafted tokens also follows the first rule, and gets the token that `sample`
// gives.
//
// Block verification (AcceptRule::block) is another form of the second rule, for chains. It accepts
// at least as many drafted tokens on average. It does not test each drafted token by itself, but
// each prefix of the chain, and accepts the longest prefix that passes. A request has n drafted
// tokens x_0 to x_{n-1}. P_i and Q_i are the weights of row i of target and draft, with the sums Zp
// and Zq. The share r_i says how much of the target the first i drafted tokens may represent, in
// units of 2^-64 (it is p_i of the paper).
//     r_0 = 2^64,  r_{i+1} = min(2^64, ceil(r_i P_i(x_i) Zq / (Q_i(x_i) Zp)))
//     R_i(j) = max(r_i P_i(j) Zq - 2^64 Q_i(j) Zp, 0), and S_i is the sum of R_i
//     The prefix of i tokens, 0 < i < n, passes if word (S_i + (2^64 - r_i) Zp Zq) < 2^64 S_i.
//     The whole chain passes if word < r_n, and the empty prefix always passes.
// After the longest prefix that passes, a token is drawn from R_i; after the whole chain a bonus
// token is drawn from row n. A share has 65 bits however long the chain is, because it is rounded
// at each position. All other numbers are exact: the two sides of a comparison have up to 249 bits.
// A chain of one drafted token gets the tokens of the token-wise rule, bit for bit.
//   Proof. Without rounding, let r_i, P and Q be fractions of 1, s = sum of max(r_i P - Q, 0), and
// h_i = s / (s + 1 - r_i) the chance that the prefix of i tokens passes. Let A_i be the probability
// that at least i drafted tokens are accepted, given the first i of them. Then A_i = r_i. This is
// so for i = n. If it is so for i + 1, a longer prefix is accepted with the probability sum of Q(j)
// r_{i+1}(j) = sum of min(Q, r_i P) = r_i - s, and A_i = h_i + (1 - h_i) (r_i - s) = r_i. So token
// j follows i accepted tokens with the probability min(Q, r_i P)(j), as a drafted token, plus
// (A_i - (r_i - s)) max(r_i P - Q, 0)(j) / s, as a drawn one. Their sum is r_i P(j), which is A_i
// times the target's probability. Rounding adds less than 2^-64 to each r and to each h. So A_i is
// above r_i by less than 2 (n - i) 2^-64, and the emitted tokens are within n (n + 1) 2^-64 of the
// target in total variation.
//   Something can always be drawn. If S_i = 0 and r_i = 2^64, the two distributions are equal, and
// r_{i+1} = 2^64; if S_i > 0 and r_i = 2^64, the prefix passes. So if S_0 = 0, a longer prefix
// passes.
//   All words of purpose accept of a block, and all its drafted tokens, take part in the decision.
// So the next step of the request must start at offset + n + 1, not at offset + accepted + 1.
//
// Weights. The filters of `sample` decide which tokens survive, and the first rule draws as
// `sample` does. If Q is known, the weights of two rows are multiplied, so P and Q have fewer bits
// than the weights of sample.h. A survivor with significand m and octave n weighs floor(m 2^(16 + n
// - E)), E being the octave of the row's largest allowed value. A survivor weighs at most 2^40, and
// a row at most 2^60. The weight of a survivor is less than 1 below its weight by tiles in the same
// unit. The largest value weighs 2^38.5 or more, and loses nothing. So the distribution is within V
// 2^-38.5 of that of `sample` in total variation, 3.4e-7 for 131072 tokens. A token 40 octaves
// below the largest value, or 27.7 T in logits, weighs 0. In rows of probabilities the largest
// value weighs at least 2^39, and in a row of subnormal probabilities no weight loses bits. The
// token that follows a fully accepted chain is drawn with these weights, too.
//
// In trees of known distribution, the children of a node are tested in the order of their numbers.
// Each child is tested against the part of the target that the children before it have left. Let
// R_0 be the target's weights after the node, Q_0 the draft's weights, and S_k and Z_k the sums of
// R_k and Q_k. Then child k with token x
//     is accepted if R_k(x) > 0 and floor(word * Q_k(x) S_k / 2^64) < R_k(x) Z_k;
//     otherwise R_{k+1}(j) = max(R_k(j) Z_k - Q_k(j) S_k, 0), and child k + 1 is tested against it.
// If no child is accepted, a token is drawn from the remaining weights; a leaf gives a bonus token.
// With replacement, Q_{k+1} is Q_0 again (multi-round rejection, SpecInfer, Miao et al. 2024).
// Without replacement, Q_{k+1} is Q_k without x (EAGLE's first trees, Li et al. 2024; Sequoia, Chen
// et al. 2024; RSD by Gumbel top-k, Jeon et al. 2024). For one child, this is the rule of chains,
// bit for bit. The weights of R_k grow by 60 bits per child and stay exact: R_k(j) is max(P(j) A -
// Q(j) B, 0), with two integers A and B per node of as many bits as needed. The cost of a child
// grows with the number of children before it, so a node may have up to kMaxSiblings children. A
// node with more children is an error, invalid_draft_tree. The rule requires that a child's number
// is its place in the order of drawing (for Gumbel top-k, perturbed logits, largest first), and
// that no node was kept or dropped because of its token. Trees of the deterministic top-k (EAGLE-2
// and -3, Medusa, SGLang, TensorRT-LLM's dynamic trees) and trees pruned by probability have no
// such distribution. The value `none` is right for such trees, as for every tree.
//
// With `row_begins`, request b owns target rows row_begins[b] to row_begins[b + 1], exclusive, and
// its drafted tokens (and rows of the draft) start at row_begins[b] - b. Rows and drafted tokens
// are both packed, as inference engines keep them, and a request has one drafted token fewer than
// rows. Without `row_begins`, every request has max_draft + 1 rows and max_draft places for drafted
// tokens. In both cases, draft_lengths may say that fewer places hold a drafted token; the other
// places are padding and are not read.
//
// Random bits: position i of a request uses offset + i. The index of the counter is 0 with an array
// of seeds, and the request's number with one scalar seed. With the first rule, position i takes
// one word of purpose draw. With the second, position i takes one word of purpose accept, and one
// of purpose recover if the draft is rejected; position n takes one word of purpose bonus. The
// draft draws its own token at position i with Purpose::draft at offset + i. Words of positions
// after the first rejection are not used, so that the next step may use these words. With block
// verification, the prefix of i + 1 tokens takes the word of purpose accept of position i, and a
// token drawn after i accepted tokens takes the word of purpose recover of position i. In a tree
// the position is the depth. Child k of a node takes its word of purpose accept with k in bits 8 to
// 31 of the counter's third word, above the purpose, so that siblings share no word. Siblings must
// be drawn with words of their own too, as the samples of one output are (num_samples). Nodes of
// one depth that are not siblings may share words, because a path contains only one of these nodes.
//
// Rows and drafted tokens after the first rejection do not count: a NaN in such a row makes nothing
// fail. With block verification, rows of the positions before n count up to the first share r_{i+1}
// that is 0, and row n counts if the whole chain passes. A drafted token outside the vocabulary
// makes its request fail at any position.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; then it writes nothing. A fault
// of one request fails that request alone, with a status.
//
// Definition: Leviathan et al. 2023 and Chen et al. 2023 for chains; Sun et al. 2024, "Block
// Verification Accelerates Speculative Decoding", Algorithm 2, for block verification; Miao et al.
// 2024, Li et al. 2024, Chen et al. 2024 and Jeon et al. 2024 for trees, as above;
// docs/semantics.md for the filters of both distributions.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Filters of a distribution, as in SampleRequest: one value for the call, or one per request.
struct LawFilters {
  /// scalar or [batch]; 0 (greedy) or in [2^-126, 2^64]
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;    ///< scalar or [batch]; >= -1; the filter is off at 0, -1
                                         ///< and >= vocab
  PerRequest<float> top_p = 1.0F;        ///< scalar or [batch]; in [0, 1]; 0 is greedy, and 1 turns
                                         ///< the filter off
  PerRequest<float> min_p = 0.0F;        ///< in [0, 1]; 0 is off
  TieRule tie_rule = TieRule::keep_all;  ///< rule for ties with the k-th largest logit
  FilterOrder filter_order = FilterOrder::top_k_first;  ///< the mass on which top_p is measured
};

/// The target model's side of a call.
struct TargetRows {
  RowsView logits;                       ///< [rows, vocab]; rows of all requests, of any dtype
  LawFilters filters;                    ///< scalar or [batch]
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits; bit 1: the token
                                         ///< is allowed
  /// processing of the rows of logits. The lists of a request's rows may overlap, because the
  /// history of each row is that of the row before and one more token
  LogitsProcessing processing;
  std::int64_t batch = 0;               ///< requests
  View<const std::int64_t> row_begins;  ///< optional, [batch + 1]
  View<const std::uint8_t> active;      ///< [batch], optional; 0: the request is padding, and its
                                        ///< status inactive
  /// scalar or [batch]; by default a fresh seed
  PerRequest<std::uint64_t> seed = fresh_seed();
  /// scalar or [batch]; offset of a request's row 0
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
};

/// The caller's knowledge of the distribution that drafted tokens were drawn from.
enum class DraftLaw : std::uint32_t {
  none = 0,   ///< the drafted tokens are given, or are a function of the prefix
  probs = 1,  ///< rows of probabilities, which need not sum to 1
  logits = 2  ///< rows of logits, filtered as `sample` filtered them when it drew with
              ///< Purpose::draft
};

/// Rule by which the drafted tokens of a chain are accepted if their distribution is known. Both
/// rules give the emitted tokens the target's distribution.
enum class AcceptRule : std::uint32_t {
  token_wise = 0,  ///< each drafted token has a test of its own
  block = 1        ///< block verification: the longest prefix that passes its test is accepted
};

/// A chain of drafted tokens per request: drafted token i follows drafted token i - 1.
struct AcceptChainRequest {
  TargetRows target;                       ///< rows of the target, against which drafted tokens are
                                           ///< verified
  std::int64_t max_draft = 0;              ///< largest number of drafted tokens of a request, >= 0
  View<const std::int32_t> draft_tokens;   ///< [places]
  View<const std::int32_t> draft_lengths;  ///< optional, [batch]
  DraftLaw draft_law = DraftLaw::none;     ///< meaning of `draft`
  RowsView draft;            ///< one row per place for a drafted token; not read if draft_law is
                             ///< none
  LawFilters draft_filters;  ///< filters of the draft's logits
  /// scalar or [batch]; without effect if draft_law is none, and in greedy requests. A value that
  /// is no rule is an error of the call; in an array on a GPU it counts as token_wise.
  PerRequest<AcceptRule> accept_rule = AcceptRule::token_wise;
};

/// Arrays in which the results of chains are written.
struct AcceptChainResult {
  View<std::int32_t> tokens;    ///< [batch, max_draft + 1]; -1 after the last token
  View<std::int32_t> accepted;  ///< [batch], optional: number of accepted drafted tokens; 0 if the
                                ///< request fails
  View<RowStatus> statuses;     ///< [batch], optional; if a status is not ok, all tokens of its
                                ///< request are -1
};

/// Accepts or rejects the drafted tokens of chains. If the call returns an error, nothing is
/// written. A status belongs to one request alone: the statuses of `sample` for its rows and
/// parameters; invalid_draft_length (rows that do not exist, or a length below 0 or above its
/// places or max_draft); index_out_of_range (a drafted token); and impossible_draft (a token that
/// its own distribution never gives, or that weighs 0 in it).
Error accept_chain(const AcceptChainRequest& request, const AcceptChainResult& result,
                   const Execution& execution = {});

/// Alias of AcceptChainRequest, by the name that engines use.
using VerifyChainRequest = AcceptChainRequest;
/// Alias of AcceptChainResult, by the name that engines use.
using VerifyChainResult = AcceptChainResult;
/// Alias of accept_chain, by the name that engines use.
inline Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                          const Execution& execution = {}) {
  return accept_chain(request, result, execution);
}

/// Way in which the children of one node were drawn from the draft's distribution.
enum class SiblingSampling : std::uint32_t {
  with_replacement = 0,    ///< each child was drawn from the whole distribution, so that a token
                           ///< may come twice
  without_replacement = 1  ///< each child was drawn from the distribution without the tokens of the
                           ///< children before, renormalised
};

/// Largest number of children of one node if the draft's distribution is known.
inline constexpr std::int32_t kMaxSiblings = 1024;

/// A tree of drafted tokens per request: several drafted tokens may follow one token. Row 0 of a
/// request is the root, and row j + 1 follows drafted token j.
struct AcceptTreeRequest {
  TargetRows target;                      ///< rows of the target, against which drafted tokens are
                                          ///< verified
  std::int64_t max_draft = 0;             ///< largest number of drafted tokens of a request, >= 0
  std::int64_t max_depth = 0;             ///< largest number of drafted tokens on a path, >= 0
  View<const std::int32_t> draft_tokens;  ///< [places]
  /// [places], in the layout of draft_tokens: number, within its request, of the drafted token that
  /// this one follows, which comes before it; -1: the root
  View<const std::int32_t> parents;
  View<const std::int32_t> draft_lengths;  ///< optional, [batch]
  DraftLaw draft_law = DraftLaw::none;     ///< meaning of `draft`
  /// way in which siblings were drawn, if the distribution is known
  SiblingSampling siblings = SiblingSampling::with_replacement;
  /// one row per row of the target: the distribution of that node's children; not read if draft_law
  /// is none, nor for a node without children
  RowsView draft;
  LawFilters draft_filters;  ///< filters of the draft's logits, which apply before any token is
                             ///< taken out
};

/// Arrays in which the results of trees are written.
struct AcceptTreeResult {
  View<std::int32_t> tokens;  ///< [batch, max_depth + 1]; -1 after the last token
  /// [batch, max_depth], optional: numbers of the accepted drafted tokens within the request; -1
  /// after the last
  View<std::int32_t> nodes;
  View<std::int32_t> accepted;  ///< [batch], optional: number of accepted drafted tokens
  View<RowStatus> statuses;     ///< [batch], optional
};

/// Accepts or rejects the drafted tokens of trees. If the distribution is unknown, the target's
/// token is drawn at the root and looked up among the root's children; this repeats at the child
/// that has the token. If several children have the same token, the first of them is accepted. The
/// head of this file describes the rule for a known distribution. Statuses are those of chains.
/// impossible_draft also means that a child has the token of an earlier sibling although siblings
/// are drawn without replacement. Two faults fail a request wherever they are in the tree:
/// invalid_draft_tree (a parent that does not come before its child; with a known distribution,
/// more than kMaxSiblings children of a node) and invalid_draft_length (a path longer than
/// max_depth).
Error accept_tree(const AcceptTreeRequest& request, const AcceptTreeResult& result,
                  const Execution& execution = {});

/// Alias of AcceptTreeRequest, by the name that engines use.
using VerifyTreeRequest = AcceptTreeRequest;
/// Alias of AcceptTreeResult, by the name that engines use.
using VerifyTreeResult = AcceptTreeResult;
/// Alias of accept_tree, by the name that engines use.
inline Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                         const Execution& execution = {}) {
  return accept_tree(request, result, execution);
}

/// Computes parents from the links that SGLang's tree kernels take (retrieve_next_token and
/// retrieve_next_sibling: [batch, nodes], -1: none). Node 0 is the root and no drafted token, so
/// parents is [batch, nodes - 1]. A node gets a parent below -1 if no link or two links reach it,
/// or if its own link leads to a lower number or out of the tree. accept_tree fails a request with
/// such a parent by invalid_draft_tree.
/// Shapes: `next_token` and `next_sibling` are [batch, nodes], and `parents` is [batch, nodes - 1].
/// Errors: invalid_argument if the sizes do not fit.
/// Definition: SGLang's retrieve_next_token and retrieve_next_sibling.
Error parents_from_links(View<const std::int32_t> next_token, View<const std::int32_t> next_sibling,
                         std::int64_t batch, std::int64_t nodes, View<std::int32_t> parents);

// The following function has the name and the meaning of its counterpart in flashinfer.sampling:
// draft and target are both rows of probabilities.

/// One chain of n drafted tokens per request, which is verified against n + 1 target rows.
struct ChainSpeculativeRequest {
  RowsView draft_probs;                   ///< [batch * n, vocab]; row b * n + i is position i of
                                          ///< request b
  View<const std::int32_t> draft_tokens;  ///< [batch, n]
  RowsView target_probs;                  ///< [batch * (n + 1), vocab]
  std::int64_t batch = 0;                 ///< requests, >= 0
  std::int64_t num_draft_tokens = 0;      ///< n >= 0
  /// scalar or [batch]; by default a fresh seed
  PerRequest<std::uint64_t> seed = fresh_seed();
  /// scalar or [batch]; position i of a request uses offset + i
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
};

/// Arrays in which the results of chains are written.
struct ChainSpeculativeResult {
  View<std::int32_t> tokens;    ///< [batch, n + 1]; -1 after the last emitted token
  View<std::int32_t> accepted;  ///< [batch], optional: number of positions whose drafted token
                                ///< passes its own test
  View<std::int32_t> emitted;   ///< [batch], optional: number of drafted tokens that were emitted
  View<RowStatus> statuses;     ///< [batch], optional; if a status is not ok, all tokens of its
                                ///< request are -1
};

/// Verifies chains by speculative sampling (Leviathan et al. 2023; Chen et al. 2023): the output
/// distribution is the target's, whatever the draft. A drafted token is accepted with probability
/// min(1, p/q). If the token is not accepted, the token is drawn from max(p - q, 0) instead. If all
/// drafted tokens are accepted, the bonus token comes from target row n. The weights of p and q are
/// those in the head of this file. With a scalar seed, request b uses index b of the counter; with
/// an array of seeds, it uses index 0.
/// Statuses, of a request alone: index_out_of_range (a drafted token), and nan_input,
/// infinite_input, negative_probability and no_allowed_token (a row of either side, after a
/// rejection, too).
Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result,
                                 const Execution& execution = {});

}  // namespace fairdraw
