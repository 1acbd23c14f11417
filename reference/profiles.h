// Declares the profiles of samplers, one function each. The behaviour of an engine is read in its
// public source or reported in its issue tracker. A word in each function says how certain a choice
// is:
//   read      in the source of the function that is named;
//   emulated  the source's algorithm was run on a CPU;
//   told      in an issue, pull request or other thread (reported);
//   derived   follows from the source, and was not run;
//   assumed   nothing says it.
//
// A choice without such a word was read in the source.
#pragma once

#include "reference/semantics.h"

namespace fairdraw::reference {

// semantics.cpp.
Semantics fairdraw_profile();

// The file profiles_torch.cpp has the samplers written in PyTorch or for PyTorch.
Semantics vllm_torch_profile();
Semantics vllm_triton_profile();
Semantics sglang_torch_profile();
Semantics hf_profile();
Semantics rosellm_profile();
Semantics sonicsampler_profile();

// The file profiles_flashinfer.cpp has FlashInfer and the engines that call FlashInfer.
Semantics flashinfer_profile();
Semantics flashinfer_fast_profile();
Semantics flashinfer_joint_profile();
Semantics flashinfer_cake_profile();
Semantics sglang_profile();

// The file profiles_engines.cpp has TensorRT-LLM, MAX and llama.cpp.
Semantics trtllm_documented_profile();
Semantics trtllm_torch_profile();
Semantics trtllm_vanilla_profile();
Semantics trtllm_fused_profile();
Semantics trtllm_legacy_profile();
Semantics max_gpu_profile();
Semantics max_cpu_profile();
Semantics llamacpp_profile();
Semantics llamacpp_backend_profile();

/// All profiles, in the order in which listings show them. A new profile needs its function, the
/// declaration above and an entry in this list.
inline constexpr Semantics (*kProfiles[])() = {
    fairdraw_profile,
    vllm_torch_profile,
    vllm_triton_profile,
    flashinfer_profile,
    flashinfer_fast_profile,
    flashinfer_joint_profile,
    flashinfer_cake_profile,
    sglang_profile,
    sglang_torch_profile,
    trtllm_torch_profile,
    trtllm_vanilla_profile,
    trtllm_fused_profile,
    trtllm_legacy_profile,
    trtllm_documented_profile,
    max_gpu_profile,
    max_cpu_profile,
    llamacpp_profile,
    llamacpp_backend_profile,
    hf_profile,
    rosellm_profile,
    sonicsampler_profile,
};

}  // namespace fairdraw::reference
