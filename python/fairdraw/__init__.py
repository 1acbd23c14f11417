"""LLM token samplers in exact integer arithmetic, and a gate that proves a sampler right.

>>> tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
>>> fairdraw.verify(my_sampler, semantics="vllm_torch").raise_for_failures()

The operations have the names and arguments of flashinfer.sampling (fairdraw/sampling.py); `verify`
judges a callable (fairdraw/verification.py), or a `RunningBatch` (fairdraw/running_batch.py); `BatchState` keeps a running batch
(fairdraw/serving.py), and `FusedSamplingProcessor` steps over it (fairdraw/fused_sampling_processor.py);
`verify_chain` and `verify_tree` are speculation (fairdraw/speculative.py),
`BeamSearch` is beams (fairdraw/beam_search.py); `check_stop` says when requests end, `best_of` which
outputs are returned, `from_vllm` and its like what an engine's request means; `python -m fairdraw`
is the command line.
"""

import sys as _sys

from . import _core
from ._core import Batch, __version__
from .beam_search import BeamResult, BeamSearch, BeamStep
from .fused_sampling_processor import CopiedStep, FusedSamplingProcessor
from .parallel_sampling import BestOf, add_logprobs, best_of, child_seeds
from .request_parameters import (
    HuggingFaceRequest,
    LlamaCppRequest,
    MaxRequest,
    RequestParameters,
    SglangRequest,
    TensorRtLlmRequest,
    VllmRequest,
    from_hugging_face,
    from_llama_cpp,
    from_max,
    from_sglang,
    from_tensorrt_llm,
    from_vllm,
)
from .request_processing import RequestProcessing
from .running_batch import RunningBatch
from .sampling import (
    Logprobs,
    SampleDetails,
    chain_speculative_sampling,
    log_probabilities,
    min_p_sampling_from_probs,
    sample,
    sampling_from_logits,
    sampling_from_probs,
    softmax,
    top_k_mask_logits,
    top_k_renorm_prob,
    top_k_renorm_probs,
    top_k_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    top_k_top_p_sampling_from_probs,
    top_p_renorm_prob,
    top_p_renorm_probs,
    top_p_sampling_from_probs,
)
from .serving import BatchRequest, BatchState, RequestSnapshot
from .speculative import (
    LawFilters,
    VerifiedChains,
    VerifiedTrees,
    parents_from_links,
    verify_chain,
    verify_tree,
)
from .stop_criteria import FinishReason, StopStep, check_stop
from .verification import Case, Report, VerificationFailed, case_ids, verify

# A plugin is judged in a process of its own, which is this interpreter started afresh.
_core.set_plugin_host([_sys.executable, "-m", "fairdraw", "plugin-host"])

__all__ = [
    "Batch",
    "BatchRequest",
    "BatchState",
    "BeamResult",
    "BeamSearch",
    "BeamStep",
    "BestOf",
    "Case",
    "CopiedStep",
    "FinishReason",
    "FusedSamplingProcessor",
    "HuggingFaceRequest",
    "LawFilters",
    "LlamaCppRequest",
    "Logprobs",
    "MaxRequest",
    "Report",
    "RequestParameters",
    "RequestProcessing",
    "RequestSnapshot",
    "RunningBatch",
    "SampleDetails",
    "SglangRequest",
    "StopStep",
    "TensorRtLlmRequest",
    "VerificationFailed",
    "VerifiedChains",
    "VerifiedTrees",
    "VllmRequest",
    "__version__",
    "add_logprobs",
    "best_of",
    "case_ids",
    "chain_speculative_sampling",
    "check_stop",
    "child_seeds",
    "from_hugging_face",
    "from_llama_cpp",
    "from_max",
    "from_sglang",
    "from_tensorrt_llm",
    "from_vllm",
    "log_probabilities",
    "min_p_sampling_from_probs",
    "parents_from_links",
    "sample",
    "sampling_from_logits",
    "sampling_from_probs",
    "softmax",
    "top_k_mask_logits",
    "top_k_renorm_prob",
    "top_k_renorm_probs",
    "top_k_sampling_from_probs",
    "top_k_top_p_sampling_from_logits",
    "top_k_top_p_sampling_from_probs",
    "top_p_renorm_prob",
    "top_p_renorm_probs",
    "top_p_sampling_from_probs",
    "verify",
    "verify_chain",
    "verify_tree",
]
