// The operations of fairdraw/speculative.h on both backends, as fairdraw/speculative.py needs them.
#include "fairdraw/speculative.h"

#include "fairdraw/cuda.h"
#include "python/bindings/arguments.h"
#include "python/bindings/bindings.h"
#include "python/bindings/speculation_arguments.h"

namespace fairdraw::python {
namespace {

/// Runs a call where its target is, on a GPU with the workspace that it takes.
template <class Arguments, class Call>
void run_speculation(const Named& given, const Arguments& arguments, const Call& call) {
  Place place = arguments.place();
  bring_workspace(place, given["workspace"], cuda::workspace_bytes(arguments.request));
  run(given, place, call);
}

void chains(const Named& given) {
  const ChainArguments arguments(given);
  run_speculation(given, arguments, [&](const auto& how) {
    return verify_chain(arguments.request, arguments.result, how);
  });
}

void trees(const Named& given) {
  const TreeArguments arguments(given);
  run_speculation(given, arguments, [&](const auto& how) {
    return verify_tree(arguments.request, arguments.result, how);
  });
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

}  // namespace

void bind_speculative(nb::module_& module) {
  define(module, "verify_chain", &chains);
  define(module, "verify_tree", &trees);
  module.def("parents_from_links", &links_to_parents);
}

}  // namespace fairdraw::python
