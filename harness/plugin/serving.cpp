// Implements the calls of serving that a plugin takes.
#include "harness/contract/serving.h"

#include "harness/contract/serving_arrays.h"
#include "harness/plugin/call_kind.h"

namespace fairdraw::harness::plugin {

// The entries are in the order of the alternatives of ServingCall.
std::span<const CallKind> serving_kinds() {
  static constexpr CallKind kKinds[] = {
      kind_of<fairdraw_chain>("fairdraw_plugin_run_chain", "verifies no drafted chains",
                              [](const SamplerDescription& it) { return it.chains; }),
      kind_of<fairdraw_verification>("fairdraw_plugin_run_verification", "verifies no requests",
                                     [](const SamplerDescription& it) { return it.speculation; }),
      kind_of<fairdraw_event>("fairdraw_plugin_run_event", "keeps no requests",
                              [](const SamplerDescription& it) { return it.keeps_state; }),
  };
  return kKinds;
}

PluginCall plugin_call(const ServingCall& call) {
  return std::visit(
      [&call](const void* of) {
        return PluginCall{kCoreKinds + static_cast<std::uint32_t>(call.call.index()), of};
      },
      call.call);
}

}  // namespace fairdraw::harness::plugin
