"""Lists all names that `import fairdraw` offers."""

from typing import TYPE_CHECKING

from . import _core
from ._core import Batch, DraftBatch, __version__
from .detector_verification import DetectorCase, DetectorReport, verify_detector
from .fuzzing import Finding, FuzzReport, fuzz
from .identification import Identification, identify
from .logprobs import Logprobs, log_probabilities
from .operation_verification import verify_operations
from .row_operations import (
    softmax,
    top_k_mask_logits,
    top_k_renorm_prob,
    top_k_renorm_probs,
    top_p_mask_logits,
    top_p_renorm_prob,
    top_p_renorm_probs,
)
from .running_batch import RunningBatch
from .sampling import (
    SampleDetails,
    min_p_sampling_from_probs,
    sample,
    sampling_from_logits,
    sampling_from_probs,
    top_k_sampling_from_probs,
    top_k_top_p_sampling_from_logits,
    top_k_top_p_sampling_from_probs,
    top_p_sampling_from_probs,
)
from .speculation_verification import verify_speculation
from .verification import Case, Cause, Report, VerificationFailed, case_ids, verify

__all__ = [
    "Batch",
    "Case",
    "Cause",
    "DetectorCase",
    "DetectorReport",
    "DraftBatch",
    "Finding",
    "FuzzReport",
    "Identification",
    "Logprobs",
    "Report",
    "RunningBatch",
    "SampleDetails",
    "VerificationFailed",
    "__version__",
    "case_ids",
    "fuzz",
    "identify",
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
    "top_p_mask_logits",
    "top_p_renorm_prob",
    "top_p_renorm_probs",
    "top_p_sampling_from_probs",
    "verify",
    "verify_detector",
    "verify_operations",
    "verify_speculation",
]

if not TYPE_CHECKING and _core.HAS_SERVING:
    from . import _public_serving
    from ._public_serving import *  # noqa: F403

    __all__ += _public_serving.__all__
