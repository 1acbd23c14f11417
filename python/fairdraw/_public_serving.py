"""Lists the names for serving that `import fairdraw` offers in a build with serving."""

from .adaptive_p import AdaptiveP
from .beam_search import BeamResult, BeamSearch, BeamStep
from .fused_sampling_processor import CopiedStep, FusedSamplingProcessor
from .kept_sets import (
    KeptChains,
    KeptSample,
    KeptSets,
    KeptTrees,
    accept_chain_with_kept_sets,
    accept_tree_with_kept_sets,
    kept_sets_of_mask,
    sample_with_kept_sets,
    verify_chain_with_kept_sets,
    verify_tree_with_kept_sets,
)
from .mirostat import Mirostat
from .parallel_sampling import BestOf, add_logprobs, best_of, child_seeds
from .request_parameters import (
    HuggingFaceRequest,
    LlamaCppRequest,
    MaxRequest,
    RequestParameters,
    SglangRequest,
    TensorRtLlmRequest,
    VllmRequest,
)
from .request_processing import RequestProcessing
from .request_translations import (
    from_hugging_face,
    from_llama_cpp,
    from_max,
    from_sglang,
    from_tensorrt_llm,
    from_vllm,
)
from .sampling import chain_speculative_sampling
from .serving import BatchRequest, BatchState, RequestSnapshot
from .speculative import (
    LawFilters,
    VerifiedChains,
    VerifiedTrees,
    accept_chain,
    accept_tree,
    parents_from_links,
    verify_chain,
    verify_tree,
)
from .stop_criteria import FinishReason, StopStep, check_stop
from .watermark import (
    MarkedSample,
    WatermarkEvidence,
    detect_watermark,
    sample_marked,
    watermark_threshold,
)

__all__ = [
    "AdaptiveP",
    "BatchRequest",
    "BatchState",
    "BeamResult",
    "BeamSearch",
    "BeamStep",
    "BestOf",
    "CopiedStep",
    "FinishReason",
    "FusedSamplingProcessor",
    "HuggingFaceRequest",
    "KeptChains",
    "KeptSample",
    "KeptSets",
    "KeptTrees",
    "LawFilters",
    "LlamaCppRequest",
    "MarkedSample",
    "MaxRequest",
    "Mirostat",
    "RequestParameters",
    "RequestProcessing",
    "RequestSnapshot",
    "SglangRequest",
    "StopStep",
    "TensorRtLlmRequest",
    "VerifiedChains",
    "VerifiedTrees",
    "VllmRequest",
    "WatermarkEvidence",
    "accept_chain",
    "accept_chain_with_kept_sets",
    "accept_tree",
    "accept_tree_with_kept_sets",
    "add_logprobs",
    "best_of",
    "chain_speculative_sampling",
    "check_stop",
    "child_seeds",
    "detect_watermark",
    "from_hugging_face",
    "from_llama_cpp",
    "from_max",
    "from_sglang",
    "from_tensorrt_llm",
    "from_vllm",
    "kept_sets_of_mask",
    "parents_from_links",
    "sample_marked",
    "sample_with_kept_sets",
    "verify_chain",
    "verify_chain_with_kept_sets",
    "verify_tree",
    "verify_tree_with_kept_sets",
    "watermark_threshold",
]
