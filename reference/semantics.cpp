#include "reference/semantics.h"

#include <algorithm>
#include <vector>

#include "reference/profiles.h"

namespace fairdraw::reference {
namespace {

Semantics fairdraw_profile() {
  Semantics semantics;  // the defaults are the specification
  semantics.name = "fairdraw";
  return semantics;
}

const std::vector<Semantics>& profiles() {
  static const std::vector<Semantics> table = {fairdraw_profile(),
                                               vllm_torch_profile(),
                                               vllm_triton_profile(),
                                               flashinfer_profile(),
                                               flashinfer_fast_profile(),
                                               flashinfer_joint_profile(),
                                               sglang_profile(),
                                               sglang_torch_profile(),
                                               trtllm_torch_profile(),
                                               trtllm_vanilla_profile(),
                                               trtllm_fused_profile(),
                                               trtllm_legacy_profile(),
                                               max_gpu_profile(),
                                               max_cpu_profile(),
                                               llamacpp_profile(),
                                               llamacpp_backend_profile(),
                                               hf_profile(),
                                               rosellm_profile()};
  return table;
}

}  // namespace

std::span<const std::string> profile_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Semantics& profile : profiles()) all.push_back(profile.name);
    return all;
  }();
  return names;
}

const Semantics* find_profile(std::string_view name) {
  const auto found = std::ranges::find(profiles(), name, &Semantics::name);
  return found == profiles().end() ? nullptr : &*found;
}

}  // namespace fairdraw::reference
