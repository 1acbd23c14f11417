"""Adapts vLLM's Triton kernel for top-k and top-p (topk_topp_triton.py), on a CUDA device.

The sampler is judged by profile `vllm_triton`. The adapter calls apply_top_k_top_p_triton of the
package's module, then softmax and vLLM's exponential race. Temperature, min_p and greedy rows are
handled by the code of the adapter `vllm_torch`. The module comes from an installed vllm, or from a
wheel (_vllm_wheel.py).

With TRITON_INTERPRET=1 and without a device, Triton's interpreter runs the kernel. The interpreter
is slow. The interpreter uses vLLM's tile sizes for CPUs, and not the pipeline for small batches on
CUDA.
"""

from __future__ import annotations

from typing import Any

from fairdraw import Batch

from ._engine import INTERPRETER, TENSOR_ABILITIES, Engine, Sampler
from ._packages import package
from ._tensors import exponential_race, generator_of
from ._vllm_wheel import triton_device, triton_module, version_with
from .vllm_torch import before_top_k, draw_or_largest, refused_by_params

MODULE = "vllm.v1.sample.ops.topk_topp_triton"


def on_device(packages: str) -> str:
    """Returns the packages' versions, and the device of the kernels."""
    if triton_device() == "cpu":
        return f"{packages}, {INTERPRETER}"
    return f"{packages}, {package('torch').cuda.get_device_name()}"


def refused(batch: Any) -> Any:
    """Returns the requests that SamplingParams refuses, including a top_p of 0, as [rows] bool."""
    return refused_by_params(batch) | (batch.top_p <= 0)


def version() -> str:
    triton_module(MODULE)
    return on_device(version_with(MODULE, "torch", "triton"))


def make(seed: int) -> Sampler:
    device = triton_device()
    module = triton_module(MODULE)
    generator = generator_of(seed, device)

    def sample(batch: Batch) -> Any:
        greedy, largest, logits, top_k, top_p = before_top_k(batch)
        k = top_k.int().to(device) if (top_k < batch.vocab).any() else None
        p = top_p.float().to(device) if (top_p < 1).any() else None
        logits = logits.to(device)
        if k is not None or p is not None:
            logits = module.apply_top_k_top_p_triton(logits, k, p)
        return draw_or_largest(
            batch,
            greedy.to(device),
            largest.to(device),
            logits,
            lambda probs: exponential_race(probs, generator),
            # The requests that vLLM refuses before the kernel runs.
            refused(batch).to(device),
        )

    return sample


ENGINE = Engine(
    name="vllm_triton",
    semantics="vllm_triton",
    calls="vllm: apply_top_k_top_p_triton; softmax, exponential race",
    version=version,
    make=make,
    abilities=TENSOR_ABILITIES,
    standalone="vllm_triton",
)
