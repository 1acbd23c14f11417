"""LLM token samplers in exact integer arithmetic, and a gate that proves a sampler right.

>>> tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
>>> fairdraw.verify(my_sampler, semantics="vllm_torch").raise_for_failures()

The operations have the names and arguments of flashinfer.sampling (fairdraw/sampling.py); `verify`
judges a callable (fairdraw/verification.py); `BatchState` keeps a running batch
(fairdraw/serving.py); `python -m fairdraw` is the command line.
"""

import sys as _sys

from . import _core
from ._core import Batch, __version__
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
from .serving import BatchRequest, BatchState, FusedSamplingProcessor, RequestSnapshot
from .verification import Case, Report, VerificationFailed, case_ids, verify

# A plugin is judged in a process of its own, which is this interpreter started afresh.
_core.set_plugin_host([_sys.executable, "-m", "fairdraw", "plugin-host"])

__all__ = [
    "Batch",
    "BatchRequest",
    "BatchState",
    "Case",
    "FusedSamplingProcessor",
    "Logprobs",
    "Report",
    "RequestSnapshot",
    "SampleDetails",
    "VerificationFailed",
    "__version__",
    "case_ids",
    "chain_speculative_sampling",
    "log_probabilities",
    "min_p_sampling_from_probs",
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
]
