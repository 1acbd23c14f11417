// The operations of fairdraw/speculative.h on both backends, as fairdraw/speculative.py needs them.
#include "fairdraw/speculative.h"

#include "fairdraw/cuda_kept_sets.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/speculation_arguments.h"

namespace fairdraw::python {
namespace {

using Handle = nb::handle;

/// Where the sets of a call go, `places` of them: make_sets, called with their number, gives their
/// arrays and the room: token_ids, offsets, overflow, how many ids.
class MadeSets {
 public:
  MadeSets(Handle make_sets, std::int64_t places, const Place& place)
      : arrays_(nb::cast<nb::tuple>(nb::object(make_sets(places)))),
        ids_("token_ids", arrays_[0], nb::cast<std::int64_t>(arrays_[3]), place),
        begins_("offsets", arrays_[1], places + 1, place),
        overflow_("overflow", arrays_[2], places, place) {}

  KeptSets sets() const { return {ids_.view, begins_.view, overflow_.view}; }

 private:
  nb::tuple arrays_;
  Output<std::int32_t> ids_;
  Output<std::int64_t> begins_;
  Output<std::uint8_t> overflow_;
};

/// Runs a call where its target is, on a GPU with the workspace that it takes. make_sets: None, or
/// the call has kept sets.
void drafts(Handle target, std::int64_t max_draft, std::int64_t max_depth, Handle draft_tokens,
            Handle parents, Handle draft_lengths, Handle draft, SiblingSampling siblings,
            Handle tokens, Handle nodes, Handle accepted, Handle statuses, Handle allocate,
            Handle make_sets) {
  const DraftedArguments arguments(target, max_draft, max_depth, draft_tokens, parents,
                                   draft_lengths, draft, siblings, tokens, nodes, accepted,
                                   statuses);
  Place place = arguments.place();
  const auto verify = [&](const auto& request, const auto& result, const auto& call,
                          const auto& call_with_sets) {
    if (make_sets.is_none()) {
      bring_workspace(place, allocate, cuda::workspace_bytes(request));
      run(place, [&](const auto& how) { return call(request, result, how); });
    } else {
      const MadeSets made(make_sets, result.tokens.size, place);
      bring_workspace(place, allocate, cuda::workspace_bytes(request, made.sets()));
      run(place,
          [&](const auto& how) { return call_with_sets(request, result, made.sets(), how); });
    }
  };
  if (arguments.is_chain) {
    verify(
        arguments.chain_request(), arguments.chain_result(),
        [](const auto&... x) { return verify_chain(x...); },
        [](const auto&... x) { return verify_chain_with_kept_sets(x...); });
  } else {
    verify(
        arguments.request, arguments.result, [](const auto&... x) { return verify_tree(x...); },
        [](const auto&... x) { return verify_tree_with_kept_sets(x...); });
  }
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

}  // namespace

void bind_speculative(nb::module_& module) {
  define(module, "verify_drafts", &drafts, "target", "max_draft", "max_depth", "draft_tokens",
         "parents", "draft_lengths", "draft", "siblings", "tokens", "nodes", "accepted", "statuses",
         "allocate", "make_sets");
  define(module, "parents_from_links", &links_to_parents, "next_token", "next_sibling", "batch",
         "nodes", "parents");
}

}  // namespace fairdraw::python
