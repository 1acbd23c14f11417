// Binds the operations of fairdraw/speculative.h on both backends for fairdraw/speculative.py.
#include "fairdraw/speculative.h"

#include "fairdraw/cuda_kept_sets.h"
#include "fairdraw/cuda_speculative.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/serving/kept_sets_argument.h"
#include "python/bindings/serving/speculation_arguments.h"

namespace fairdraw::python {
namespace {

/// Makes a call on the device of its target rows. On a GPU the call gets a workspace of the
/// required size. If make_sets is not None, the call has kept sets, one for each slot of its
/// tokens, and make_sets(number) returns the arrays of the sets.
template <class Request, class Result, class Accept, class AcceptWithSets>
void accept(const Named& given, Place place, const Request& request, const Result& result,
            const Accept& call, const AcceptWithSets& call_with_sets) {
  if (!given.has("make_sets")) {
    bring_workspace(place, given["workspace"], cuda::workspace_bytes(request));
    run(given, place, [&](const auto& how) { return call(request, result, how); });
    return;
  }
  const std::int64_t places = result.tokens.size;
  const Named sets("sets", nb::object(given["make_sets"](places)));
  const KeptSets kept = arrays_of(sets, places, place);
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(request, kept));
  run(given, place, [&](const auto& how) { return call_with_sets(request, result, kept, how); });
}

void drafts(const Named& given) {
  const DraftedArguments arguments(given);
  if (arguments.is_chain) {
    accept(
        given, arguments.place(), arguments.chain_request(), arguments.chain_result(),
        [](const auto&... x) { return accept_chain(x...); },
        [](const auto&... x) { return accept_chain_with_kept_sets(x...); });
  } else {
    accept(
        given, arguments.place(), arguments.request, arguments.result,
        [](const auto&... x) { return accept_tree(x...); },
        [](const auto&... x) { return accept_tree_with_kept_sets(x...); });
  }
}

void links_to_parents(const nb::object& next_token, const nb::object& next_sibling,
                      std::int64_t batch, std::int64_t nodes, const nb::object& parents) {
  const Place host;
  const Input<std::int32_t> children("retrieve_next_token", next_token, host);
  const Input<std::int32_t> siblings("retrieve_next_sibling", next_sibling, host);
  const Output<std::int32_t> out("parents", parents, batch * (nodes - 1), host);
  run_on_host(
      [&] { return parents_from_links(children.view, siblings.view, batch, nodes, out.view); });
}

void chain_rows(const Named& given) {
  const ChainSamplingArguments arguments(given);
  run(given, arguments.place(), [&](const auto& how) {
    return chain_speculative_sampling(arguments.request, arguments.result, how);
  });
}

}  // namespace

void bind_speculative(nb::module_& module) {
  define(module, "accept_drafts", &drafts);
  define(module, "chain_speculative_sampling", &chain_rows);
  module.def("parents_from_links", &links_to_parents);
}

}  // namespace fairdraw::python
