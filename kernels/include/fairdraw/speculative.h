// Speculation in serving: drafted tokens against the target's raw logits.
//
// A request has n drafted tokens and n + 1 rows of the target: row 0 follows its history, row
// i + 1 follows drafted token i. The emitted tokens have the target's distribution, whatever
// the draft: the drafts that are accepted, and one token of the target's own after them. A request
// gets `accepted` + 1 new tokens, and its next step starts at offset + accepted + 1.
//
// Two rules, chosen by what is known of the draft:
//   - Nothing (n-gram, prompt lookup, the deterministic top-k tokens of an EAGLE or Medusa head):
//     the target's own token is drawn at each position, and the draft is accepted if it is that
//     token. So a drafted token x is accepted with probability P(x), as Leviathan's rule says for a
//     point mass; and the tokens are, bit for bit, those that `sample` draws one by one at
//     offset, offset + 1, ...: speculation changes the speed and nothing else. The draft must not
//     be drawn with Purpose::draw of the same seed and offsets.
//   - Its distribution Q (probabilities, or logits with their filters), from which each token was
//     drawn, independent of purposes accept, recover and bonus: Leviathan et al. 2023, Chen et al.
//     2023. A draft is accepted with probability min(1, P/Q), else the token is drawn from
//     max(P - Q, 0) instead; if all are accepted, a bonus token comes from row n. Exact integers,
//     as in chain_speculative_sampling.
// A greedy request (temperature 0, top_k 1 or top_p 0) follows the first rule: the largest logit.
// So does a request without drafted tokens: it gets the token that `sample` gives it.
//
// Weights. Who survives is what the filters of `sample` say, and the first rule draws as `sample`
// does. If Q is known, weights of two rows are multiplied, so P and Q have fewer bits than the
// weights of sample.h: with m and n the significand and the octave of a survivor, and E the octave
// of the row's largest allowed value, it weighs floor(m 2^(16 + n - E)), at most 2^40, and a row at
// most 2^60. That is less than 1 below its weight by tiles in the same unit, and the largest value
// loses nothing of its 2^38.5 or more. So the distribution is within V 2^-38.5 of that of `sample`
// in total variation, 3.4e-7 for 131072 tokens; what is 40 octaves below the largest value, 27.7 T
// in logits, weighs 0. In rows of probabilities the largest weighs at least 2^39; in a row of
// subnormal probabilities none loses anything. A chain's bonus token has these weights, too.
//
// Trees of known distribution: the children of a node are tested in the order of their numbers,
// each against what those before it left of the target. With R_0 the target's weights after the
// node, Q_0 the draft's, S_k and Z_k the sums of R_k and Q_k, child k with token x
//     is accepted if R_k(x) > 0 and floor(word * Q_k(x) S_k / 2^64) < R_k(x) Z_k;
//     else R_{k+1}(j) = max(R_k(j) Z_k - Q_k(j) S_k, 0), and child k + 1 is tested against that.
// Where none is accepted, a token is drawn from what is left; a leaf gives a bonus token. Q_{k+1}
// is Q_0 again (with replacement: multi-round rejection, SpecInfer, Miao et al. 2024), or Q_k
// without x (without: EAGLE's first trees, Li et al. 2024; Sequoia, Chen et al. 2024; RSD by Gumbel
// top-k, Jeon et al. 2024). For one child that is the rule of chains, bit for bit. The weights of
// R_k grow by 60 bits a child and stay exact: R_k(j) is max(P(j) A - Q(j) B, 0) with two long
// integers a node, however long. The cost of a child grows with the children before it, so a node
// may have up to kMaxSiblings; beyond is invalid_draft_tree. This asks of the draft that a child's
// number is its place in the order of drawing (Gumbel top-k: perturbed logits, largest first), and
// that no node was kept or dropped for its token. Trees of the deterministic top-k (EAGLE-2 and -3,
// Medusa, SGLang, TensorRT-LLM's dynamic trees) or pruned by probability have no such distribution:
// `none` is right for them, as for every tree.
//
// Rows of a request, and its drafted tokens: with `row_begins` request b owns target rows
// row_begins[b] to row_begins[b + 1], exclusive, and its drafted tokens (and rows of the draft)
// start at row_begins[b] - b: both packed, as engines keep them, one drafted token fewer a request
// than rows. Without, every request has max_draft + 1 rows and max_draft places for drafts. In
// both, draft_lengths may say that fewer places hold a draft; the others are padding, not read.
//
// Random bits: position i of a request uses offset + i, and index 0 with an array of seeds, the
// request's number with a scalar. Position i takes one word of purpose draw (the first rule), or
// one of accept, and where it rejects one of recover; position n one of bonus. The draft's own
// draw at position i is Purpose::draft at offset + i. Words of positions after the first
// rejection are not used, so that the next step may use them. In a tree the position is the
// depth; child k of a node takes its word of accept with k in bits 8 to 31 of the counter's third
// word, above the purpose, so that siblings share none. Siblings must be drawn with words of their
// own too, as the samples of one output are (num_samples); nodes of one depth that are no siblings
// may share theirs, because a path meets one of them alone.
//
// Rows and drafted tokens after the first rejection do not count: a NaN there fails nothing. A
// drafted token outside the vocabulary fails its request at any position.
//
// Errors: A call returns invalid_argument if a field is out of its range or an array has the wrong
// length, and unsupported if this machine has no execution.target; then it writes nothing. A fault
// of one request fails that request alone, with a status.
//
// Definition: Leviathan et al. 2023 and Chen et al. 2023 for chains; Miao et al. 2024, Li et al.
// 2024, Chen et al. 2024 and Jeon et al. 2024 for trees, as above; docs/semantics.md for the
// filters of both distributions.
#pragma once

#include <cstdint>

#include "fairdraw/fresh_seed.h"
#include "fairdraw/logits_processing.h"
#include "fairdraw/types.h"

namespace fairdraw {

/// Filters of a distribution, as in SampleRequest: one value for the call, or one a request.
struct LawFilters {
  /// 0 (greedy) or in [2^-126, 2^64]; scalar, or one per request, as the next three
  PerRequest<float> temperature = 1.0F;
  PerRequest<std::int32_t> top_k = 0;    ///< scalar or [batch]; >= -1; 0, -1 and >= vocab are off
  PerRequest<float> top_p = 1.0F;        ///< in [0, 1]; 0 is greedy, 1 is off
  PerRequest<float> min_p = 0.0F;        ///< in [0, 1]; 0 is off
  TieRule tie_rule = TieRule::keep_all;  ///< for the k-th largest logit
  FilterOrder filter_order = FilterOrder::top_k_first;  ///< mass that top_p is measured on
};

/// The target's side of a call.
struct TargetRows {
  RowsView logits;                       ///< [rows, vocab], any dtype: the rows of all requests
  LawFilters filters;                    ///< scalar or [batch]
  BitRows<const std::uint32_t> allowed;  ///< optional, one row per row of logits
  /// processing of rows of logits. The lists of a request's rows may overlap, because each row's
  /// history is the history of the row before and one more token
  LogitsProcessing processing;
  std::int64_t batch = 0;               ///< requests
  View<const std::int64_t> row_begins;  ///< optional, [batch + 1]
  View<const std::uint8_t> active;      ///< optional, [batch]; 0: padding, status inactive
  /// scalar or [batch]; fresh without one of its own
  PerRequest<std::uint64_t> seed = fresh_seed();
  PerRequest<std::uint64_t> offset = std::uint64_t{0};  ///< scalar or [batch]; of a request's row 0
};

/// Knowledge of the distribution that drafted tokens were drawn from.
enum class DraftLaw : std::uint32_t {
  none = 0,   ///< they are given, or a function of the prefix
  probs = 1,  ///< probabilities, in any scale
  logits = 2  ///< logits, filtered as `sample` filtered them when it drew with Purpose::draft
};

/// Chains: drafted token i follows drafted token i - 1.
struct VerifyChainRequest {
  TargetRows target;                       ///< the rows that drafted tokens are verified against
  std::int64_t max_draft = 0;              ///< most drafted tokens of a request, >= 0
  View<const std::int32_t> draft_tokens;   ///< [places]
  View<const std::int32_t> draft_lengths;  ///< optional, [batch]
  DraftLaw draft_law = DraftLaw::none;     ///< meaning of `draft`
  RowsView draft;            ///< one row per place for a draft; not read where draft_law is none
  LawFilters draft_filters;  ///< of the draft's logits
};

/// Destination of the results of chains.
struct VerifyChainResult {
  View<std::int32_t> tokens;    ///< [batch, max_draft + 1]; -1 after the last
  View<std::int32_t> accepted;  ///< [batch], optional: accepted drafted tokens; 0 on failure
  View<RowStatus> statuses;     ///< [batch], optional; not ok: all tokens of the request are -1
};

/// Verifies chains. On an error nothing is written. Statuses, of a request alone: those of
/// `sample` for its rows and parameters; invalid_draft_length (rows that do not exist, a length
/// below 0 or above its places or max_draft); index_out_of_range (a drafted token); and
/// impossible_draft (a token that its own distribution never gives, or that weighs 0 in it).
Error verify_chain(const VerifyChainRequest& request, const VerifyChainResult& result,
                   const Execution& execution = {});

/// How the children of one node were drawn from the draft's distribution.
enum class SiblingSampling : std::uint32_t {
  with_replacement = 0,    ///< each from the whole distribution: a token may come twice
  without_replacement = 1  ///< each from what the ones before it left, renormalised
};

/// Most children of one node where the draft's distribution is known.
inline constexpr std::int32_t kMaxSiblings = 1024;

/// Trees: several drafted tokens may follow one. Row 0 of a request is the root, row j + 1 follows
/// drafted token j.
struct VerifyTreeRequest {
  TargetRows target;                      ///< the rows that drafted tokens are verified against
  std::int64_t max_draft = 0;             ///< most drafted tokens of a request, >= 0
  std::int64_t max_depth = 0;             ///< most drafted tokens on a path, >= 0
  View<const std::int32_t> draft_tokens;  ///< [places]
  /// [places]; as draft_tokens: the drafted token that it follows, counted in its request and
  /// before it; -1: the root
  View<const std::int32_t> parents;
  View<const std::int32_t> draft_lengths;                        ///< optional, [batch]
  DraftLaw draft_law = DraftLaw::none;                           ///< meaning of `draft`
  SiblingSampling siblings = SiblingSampling::with_replacement;  ///< where there is a distribution
  /// one row for each of the target's: the distribution of the children of that node; not read
  /// where draft_law is none, nor of a node without children
  RowsView draft;
  LawFilters draft_filters;  ///< of the draft's logits, before any token is taken out
};

/// Destination of the results of a tree.
struct VerifyTreeResult {
  View<std::int32_t> tokens;  ///< [batch, max_depth + 1]; -1 after the last
  /// [batch, max_depth], optional: the accepted drafted tokens, by their number in the request; -1
  /// after the last
  View<std::int32_t> nodes;
  View<std::int32_t> accepted;  ///< [batch], optional: how many are accepted
  View<RowStatus> statuses;     ///< [batch], optional
};

/// Verifies trees. If the distribution is unknown, the target's token is drawn at the root and
/// looked up among the root's children, and so on; the first of several children with the same
/// token is accepted. If the distribution is known: see above. Statuses are those of chains.
/// impossible_draft also means a token that an earlier sibling has, without replacement. Two
/// statuses are found anywhere in the tree: invalid_draft_tree (a parent that does not come before
/// its child; with a known distribution, more than kMaxSiblings children of a node) and
/// invalid_draft_length (a path longer than max_depth).
Error verify_tree(const VerifyTreeRequest& request, const VerifyTreeResult& result,
                  const Execution& execution = {});

/// Parents from the links that SGLang's tree kernels take (retrieve_next_token and
/// retrieve_next_sibling: [batch, nodes], -1: none), node 0 the root and no draft: parents is
/// [batch, nodes - 1]. A node that no link reaches, or two do, or whose own goes down in number or
/// out of the tree, gets a parent below -1, which verify_tree answers with invalid_draft_tree.
/// `next_token` and `next_sibling` [batch, nodes]; `parents` [batch, nodes - 1].
/// Errors: invalid_argument if the sizes do not fit.
/// Definition: SGLang's retrieve_next_token and retrieve_next_sibling.
Error parents_from_links(View<const std::int32_t> next_token, View<const std::int32_t> next_sibling,
                         std::int64_t batch, std::int64_t nodes, View<std::int32_t> parents);

// The function of this name in flashinfer.sampling, with the same meaning: rows of probabilities on
// both sides.

/// One chain of n drafted tokens a request, verified against n + 1 target rows.
struct ChainSpeculativeRequest {
  RowsView draft_probs;                   ///< [batch * n, vocab]: row b * n + i is position i
  View<const std::int32_t> draft_tokens;  ///< [batch, n]
  RowsView target_probs;                  ///< [batch * (n + 1), vocab]
  std::int64_t batch = 0;                 ///< requests, >= 0
  std::int64_t num_draft_tokens = 0;      ///< n >= 0
  /// scalar or [batch]; fresh without one of its own
  PerRequest<std::uint64_t> seed = fresh_seed();
  /// scalar or [batch]; position i uses offset + i
  PerRequest<std::uint64_t> offset = std::uint64_t{0};
};

/// Destination of the results of chains.
struct ChainSpeculativeResult {
  View<std::int32_t> tokens;    ///< [batch, n + 1], -1 after the last emitted token
  View<std::int32_t> accepted;  ///< [batch], optional: positions that pass their own test
  View<std::int32_t> emitted;   ///< [batch], optional: drafted tokens that were emitted
  View<RowStatus> statuses;     ///< [batch], optional; not ok: all tokens of the request are -1
};

/// Speculative sampling (Leviathan et al. 2023; Chen et al. 2023): the output distribution is the
/// target's, whatever the draft. Accepts with probability min(1, p/q), else draws from
/// max(p - q, 0), else (all accepted) the bonus token from target row n. p and q weigh what is said
/// above. With a scalar seed request b uses index b of the counter, with an array index 0.
/// Statuses, of a request alone: index_out_of_range (a drafted token), and nan_input,
/// infinite_input, negative_probability and no_allowed_token (a row of either side, after a
/// rejection, too).
Error chain_speculative_sampling(const ChainSpeculativeRequest& request,
                                 const ChainSpeculativeResult& result,
                                 const Execution& execution = {});

}  // namespace fairdraw
