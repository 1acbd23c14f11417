"""Adapts other engines' samplers so that fairdraw.verify can judge them: `python -m fairdraw
engines`.

Importing this package imports no engine. `ENGINES` maps names to engines, and `available` tells
whether an engine can run on this machine.
"""

from __future__ import annotations

from . import (
    flashinfer,
    from_source,
    hf,
    hf_watermarks,
    llamacpp,
    llamacpp_chain,
    llamacpp_described,
    max_cpu,
    plain,
    rosellm,
    row_operations,
    sglang_torch,
    sglang_watermark,
    vllm_package,
    vllm_rejection,
    vllm_torch,
    vllm_triton,
    vllm_v2,
    vllm_v2_rejection,
    vllm_watermark,
)
from ._engine import DraftEngine, Engine, OperationEngine, RunningEngine
from ._packages import Unavailable

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        hf.ENGINE,
        vllm_torch.ENGINE,
        vllm_package.ENGINE,
        vllm_triton.ENGINE,
        vllm_v2.ENGINE,
        llamacpp.ENGINE,
        llamacpp_chain.ENGINE,
        llamacpp_chain.TYPICAL,
        llamacpp_described.ENGINE,
        max_cpu.ENGINE,
        flashinfer.PROBS,
        flashinfer.PROBS_JOINT,
        flashinfer.LOGITS,
        flashinfer.LOGITS_JOINT,
        flashinfer.CAKE,
        sglang_torch.ENGINE,
        rosellm.ENGINE,
        plain.TORCH,
        plain.NUMPY,
        row_operations.TORCH,
        row_operations.FLASHINFER,
        row_operations.RENORM,
        vllm_rejection.ENGINE,
        vllm_v2_rejection.TOKEN_WISE,
        vllm_v2_rejection.BLOCK,
        flashinfer.CHAIN,
        hf_watermarks.SYNTHID,
        hf_watermarks.GREEN_LIST,
        vllm_watermark.ENGINE,
        sglang_watermark.ENGINE,
        *from_source.SAMPLERS,
        *from_source.VERIFIERS,
        *from_source.RUNNING,
    )
}


def why_not(engine: Engine) -> str:
    """Returns the reason why an engine cannot run on this machine, or "" if it can."""
    try:
        engine.version()
    except Unavailable as reason:
        return str(reason)
    return ""


__all__ = [
    "ENGINES",
    "DraftEngine",
    "Engine",
    "OperationEngine",
    "RunningEngine",
    "Unavailable",
    "why_not",
]
