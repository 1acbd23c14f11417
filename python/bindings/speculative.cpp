// The operations of fairdraw/speculative.h on both backends, as fairdraw/speculative.py needs them.
#include "fairdraw/speculative.h"

#include "fairdraw/cuda_speculative.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/speculation_arguments.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// Runs a call where its target is, on a GPU with the workspace that it takes.
template <class Arguments, class Call>
void run_speculation(const Arguments& arguments, Handle allocate, const Call& call) {
  Place place = arguments.place();
  bring_workspace(place, allocate, cuda::workspace_bytes(arguments.request));
  run(place, call);
}

void chains(Handle target, std::int64_t max_draft, Handle draft_tokens, Handle draft_lengths,
            Handle draft, Handle tokens, Handle accepted, Handle statuses, Handle allocate) {
  const ChainArguments arguments(target, max_draft, draft_tokens, draft_lengths, draft, tokens,
                                 accepted, statuses);
  run_speculation(arguments, allocate, [&](const auto& how) {
    return verify_chain(arguments.request, arguments.result, how);
  });
}

void trees(Handle target, std::int64_t max_draft, std::int64_t max_depth, Handle draft_tokens,
           Handle parents, Handle draft_lengths, Handle draft, SiblingSampling siblings,
           Handle tokens, Handle nodes, Handle accepted, Handle statuses, Handle allocate) {
  const TreeArguments arguments(target, max_draft, max_depth, draft_tokens, parents, draft_lengths,
                                draft, siblings, tokens, nodes, accepted, statuses);
  run_speculation(arguments, allocate, [&](const auto& how) {
    return verify_tree(arguments.request, arguments.result, how);
  });
}

void links_to_parents(Handle next_token, Handle next_sibling, std::int64_t batch,
                      std::int64_t nodes, Handle parents) {
  const Place host;
  const Input<std::int32_t> children("retrieve_next_token", next_token, host);
  const Input<std::int32_t> siblings("retrieve_next_sibling", next_sibling, host);
  const Output<std::int32_t> out("parents", parents, batch * (nodes - 1), host);
  run_on_host(
      [&] { return parents_from_links(children.view, siblings.view, batch, nodes, out.view); });
}

void chain_rows(Handle draft_probs, Handle draft_tokens, Handle target_probs, Handle seed,
                Handle offset, Handle tokens, Handle accepted, Handle emitted, Handle statuses,
                std::uint64_t stream, Handle workspace) {
  const ChainSamplingArguments arguments(draft_probs, draft_tokens, target_probs, seed, offset,
                                         tokens, accepted, emitted, statuses, stream, workspace);
  run(arguments.place(), [&](const auto& how) {
    return chain_speculative_sampling(arguments.request, arguments.result, how);
  });
}

}  // namespace

void bind_speculative(nb::module_& module) {
  define(module, "verify_chain", &chains, "target", "max_draft", "draft_tokens", "draft_lengths",
         "draft", "tokens", "accepted", "statuses", "allocate");
  define(module, "verify_tree", &trees, "target", "max_draft", "max_depth", "draft_tokens",
         "parents", "draft_lengths", "draft", "siblings", "tokens", "nodes", "accepted", "statuses",
         "allocate");
  define(module, "chain_speculative_sampling", &chain_rows, "draft_probs", "draft_tokens",
         "target_probs", "seed", "offset", "tokens", "accepted", "emitted", "statuses", "stream",
         "workspace");
  define(module, "parents_from_links", &links_to_parents, "next_token", "next_sibling", "batch",
         "nodes", "parents");
}

}  // namespace fairdraw::python
