"""All that `import fairdraw` offers, by name."""

from ._core import Batch, DraftBatch, __version__
from .beam_search import BeamResult, BeamSearch, BeamStep
from .fused_sampling_processor import CopiedStep, FusedSamplingProcessor
from .fuzzing import Finding, FuzzReport, fuzz
from .kept_sets import (
    KeptChains,
    KeptSample,
    KeptSets,
    KeptTrees,
    kept_sets_of_mask,
    sample_with_kept_sets,
    verify_chain_with_kept_sets,
    verify_tree_with_kept_sets,
)
from .logprobs import Logprobs, log_probabilities
from .operation_verification import verify_operations
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
from .row_operations import (
    softmax,
    top_k_mask_logits,
    top_k_renorm_prob,
    top_k_renorm_probs,
    top_p_renorm_prob,
    top_p_renorm_probs,
)
from .running_batch import RunningBatch
from .sampling import (
    SampleDetails,
    chain_speculative_sampling,
    min_p_sampling_from_probs,
    sample,
    sampling_from_logits,
    sampling_from_probs,
    top_k_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    top_k_top_p_sampling_from_probs,
    top_p_sampling_from_probs,
)
from .serving import BatchRequest, BatchState, RequestSnapshot
from .speculation_verification import verify_speculation
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
    "DraftBatch",
    "Finding",
    "FinishReason",
    "FusedSamplingProcessor",
    "FuzzReport",
    "HuggingFaceRequest",
    "KeptChains",
    "KeptSample",
    "KeptSets",
    "KeptTrees",
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
    "fuzz",
    "log_probabilities",
    "min_p_sampling_from_probs",
    "parents_from_links",
    "sample",
    "sample_with_kept_sets",
    "verify_chain_with_kept_sets",
    "verify_tree_with_kept_sets",
    "kept_sets_of_mask",
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
    "verify_operations",
    "verify_speculation",
    "verify_tree",
]
