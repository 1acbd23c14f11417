// The profiles, one function each. What an engine does is read in its public source or told in its
// tracker; each function says how sure its choices are:
//   read      in the source of the function that is named;
//   emulated  the source's algorithm was run on a CPU;
//   told      in an issue, pull request or other thread;
//   derived   follows from the source, and was not run;
//   assumed   nothing says it.
// Without a word it is read.
#pragma once

#include "reference/semantics.h"

namespace fairdraw::reference {

// profiles_torch.cpp: samplers written in PyTorch, or beside it.
Semantics vllm_torch_profile();
Semantics vllm_triton_profile();
Semantics sglang_torch_profile();
Semantics hf_profile();
Semantics rosellm_profile();

// profiles_flashinfer.cpp: FlashInfer and what calls it.
Semantics flashinfer_profile();
Semantics flashinfer_fast_profile();
Semantics flashinfer_joint_profile();
Semantics sglang_profile();

// profiles_engines.cpp: TensorRT-LLM, MAX, llama.cpp.
Semantics trtllm_torch_profile();
Semantics trtllm_vanilla_profile();
Semantics trtllm_fused_profile();
Semantics trtllm_legacy_profile();
Semantics max_gpu_profile();
Semantics max_cpu_profile();
Semantics llamacpp_profile();
Semantics llamacpp_backend_profile();

}  // namespace fairdraw::reference
