#include "sharded/speculation_call.h"

#include <string>

#include "common/arguments.h"
#include "common/speculative_arguments.h"
#include "sharded/call_layout.h"

namespace fairdraw::sharded {
namespace {

/// A target without columns, as if it had one.
void widen_target(TargetRows& target) {
  widen_rows(target.logits);
  widen(target.allowed);
  widen(target.processing.prompt_mask);
  widen(target.processing.output_counts);
}

Error check_words(const char* name, const View<const std::uint64_t>& words, std::int64_t size,
                  bool needed) {
  if (!words.given() && (!needed || size == 0)) return {};
  if (!words.given()) return out_of_range(name, "null", "an array, as the other words are given");
  if (words.size == size) return {};
  return out_of_range(std::string("length of ") + name, std::to_string(words.size),
                      std::to_string(size));
}

/// What a call of any drafts has: where the shard is, and the results that all have.
template <class Sharded, class Result>
SpeculationCall call_of_shard(const Sharded& request, const Result& result) {
  SpeculationCall call;
  call.boundaries = request.boundaries;
  call.shard = request.shard;
  call.tokens = result.tokens;
  call.accepted = result.accepted;
  call.statuses = result.statuses;
  return call;
}

/// What chains and trees have in common.
template <class Sharded, class Drafts, class Result>
SpeculationCall call_of_drafts(const Sharded& request, const Drafts& drafts, const Result& result) {
  SpeculationCall call = call_of_shard(request, result);
  call.target = drafts.target;
  call.max_draft = drafts.max_draft;
  call.draft_tokens = drafts.draft_tokens;
  call.draft_lengths = drafts.draft_lengths;
  call.draft_law = drafts.draft_law;
  call.draft = drafts.draft;
  call.draft_filters = drafts.draft_filters;
  return call;
}

}  // namespace

Error check_speculation(const ShardedChainRequest& request, const VerifyChainResult& result) {
  if (Error e = check_boundaries(request.boundaries, request.shard,
                                 request.chain.target.logits.vocab, "target.logits.vocab")) {
    return e;
  }
  VerifyChainRequest chain = request.chain;
  if (chain.target.logits.vocab == 0) {
    widen_target(chain.target);
    if (chain.draft.vocab == 0) widen_rows(chain.draft);
  }
  return check_verify_chain(chain, result);
}

Error check_speculation(const ShardedTreeRequest& request, const VerifyTreeResult& result) {
  if (Error e = check_boundaries(request.boundaries, request.shard,
                                 request.tree.target.logits.vocab, "target.logits.vocab")) {
    return e;
  }
  VerifyTreeRequest tree = request.tree;
  if (tree.target.logits.vocab == 0) {
    widen_target(tree.target);
    if (tree.draft.vocab == 0) widen_rows(tree.draft);
  }
  return check_verify_tree(tree, result);
}

Error check_speculation(const ShardedChainSamplingRequest& request,
                        const ChainSpeculativeResult& result) {
  if (Error e = check_boundaries(request.boundaries, request.shard,
                                 request.chain.target_probs.vocab, "target_probs.vocab")) {
    return e;
  }
  ChainSpeculativeRequest chain = request.chain;
  if (chain.target_probs.vocab == 0) {
    widen_rows(chain.target_probs);
    if (chain.draft_probs.vocab == 0) widen_rows(chain.draft_probs);
  }
  if (Error e = check_chain(chain, result)) return e;
  const std::int64_t drafts = chain.batch * chain.num_draft_tokens;
  const bool given =
      request.accept_words.given() || request.recover_words.given() || request.bonus_words.given();
  if (Error e = check_words("accept_words", request.accept_words, drafts, given)) return e;
  if (Error e = check_words("recover_words", request.recover_words, drafts, given)) return e;
  return check_words("bonus_words", request.bonus_words, chain.batch, given);
}

SpeculationCall call_of(const ShardedChainRequest& request, const VerifyChainResult& result) {
  SpeculationCall call = call_of_drafts(request, request.chain, result);
  call.max_depth = request.chain.max_draft;
  return call;
}

SpeculationCall call_of(const ShardedTreeRequest& request, const VerifyTreeResult& result) {
  const VerifyTreeRequest& tree = request.tree;
  SpeculationCall call = call_of_drafts(request, tree, result);
  call.max_depth = tree.max_depth;
  call.is_tree = true;
  call.parents = tree.parents;
  call.siblings = tree.siblings;
  call.nodes = result.nodes;
  return call;
}

SpeculationCall call_of(const ShardedChainSamplingRequest& request,
                        const ChainSpeculativeResult& result) {
  const ChainSpeculativeRequest& chain = request.chain;
  SpeculationCall call = call_of_shard(request, result);
  call.target.logits = chain.target_probs;
  call.target.batch = chain.batch;
  call.target.seed = chain.seed;
  call.target.offset = chain.offset;
  call.target_input = TileInput::probs;
  call.max_draft = call.max_depth = chain.num_draft_tokens;
  call.draft_tokens = chain.draft_tokens;
  call.draft_law = DraftLaw::probs;
  call.draft = chain.draft_probs;
  call.tests_all = true;
  call.accept_words = request.accept_words;
  call.recover_words = request.recover_words;
  call.bonus_words = request.bonus_words;
  call.emitted = result.emitted;
  return call;
}

std::uint64_t fingerprint_of(const SpeculationCall& call, ArraysLie arrays) {
  Fingerprint hash(arrays);
  const TargetRows& target = call.target;
  for (std::int64_t i = 0; i < call.boundaries.size; ++i) hash.add(call.boundaries.data[i]);
  hash.add(target.logits.rows);
  hash.add(target.logits.dtype);
  hash.add(call.target_input);
  hash.add(target.filters);
  hash.add(target.allowed.given());
  hash.add(target.processing);
  hash.add(target.batch);
  hash.add(target.row_begins);
  hash.add(target.active);
  hash.add(target.seed);
  hash.add(target.offset);
  hash.add(call.max_draft);
  hash.add(call.max_depth);
  hash.add(call.draft_tokens);
  hash.add(call.draft_lengths);
  hash.add(call.is_tree);
  hash.add(call.parents);
  hash.add(call.draft_law);
  hash.add(call.siblings);
  if (call.draft_law != DraftLaw::none) {
    hash.add(call.draft.rows);
    hash.add(call.draft.dtype);
    hash.add(call.draft_filters);
  }
  hash.add(call.tests_all);
  hash.add(call.accept_words);
  hash.add(call.recover_words);
  hash.add(call.bonus_words);
  return hash.value();
}

}  // namespace fairdraw::sharded
