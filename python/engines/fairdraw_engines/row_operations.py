"""Adapts row operations of libraries, each of which is judged by itself: softmax, log-softmax,
masks, renormalisation.

`torch_operations` are judged by profile `hf`, which refuses temperature 0. The operations are
torch.softmax of logits divided by the temperature, and torch.log_softmax. Rows of 16 bits are
computed as float32, as in engines. `flashinfer_operations` are judged by profile `flashinfer`.
FlashInfer's operations are flashinfer.sampling.softmax, top_k_mask_logits, top_k_renorm_probs and
top_p_renorm_probs on a CUDA device. `flashinfer_renorm`, judged by the same profile, is a sampler
built from these operations (softmax, top_k_renorm_probs, top_p_renorm_probs, sampling_from_probs).
The sampler's mask has the tokens that the operations leave, which the sampler's draws follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairdraw import Batch

from . import flashinfer
from ._engine import TENSOR_ABILITIES, Engine, OperationEngine, Sampler
from ._packages import package, version_of
from ._tensors import draw_outputs, float32_logits, generator_of

Operations = Mapping[str, Callable[..., Any]]


def _column(parameter: Any) -> Any:
    """Returns an array of parameters as [rows, 1], or a number unchanged."""
    return parameter[:, None] if hasattr(parameter, "ndim") and parameter.ndim == 1 else parameter


def make_torch(seed: int) -> Operations:
    import torch

    def softmax(logits: Any, temperature: Any) -> Any:
        return torch.softmax(logits.float() / _column(temperature), dim=-1)

    def log_softmax(logits: Any) -> Any:
        return torch.log_softmax(logits.float(), dim=-1)

    return {"softmax": softmax, "log_softmax": log_softmax}


def make_flashinfer(seed: int) -> Operations:
    flashinfer.version()
    sampling = package("flashinfer.sampling")

    def dense(function: Callable[..., Any]) -> Callable[..., Any]:
        """Adapts calls to FlashInfer's kernels, which need at least one row, and rows without gaps
        (python/engines/README.md)."""
        return lambda rows, parameter: (
            function(rows.contiguous(), parameter) if len(rows) > 0 else rows.clone()
        )

    def that_ends(function: Callable[..., Any]) -> Callable[..., Any]:
        """Raises an error instead of making a call that would never return, so that the judging
        continues."""

        def call(rows: Any, top_p: Any) -> Any:
            if rows.isinf().any():
                raise RuntimeError("does not end for a row with an infinity (was not called)")
            return function(rows, top_p)

        return call

    names = ("softmax", "top_k_mask_logits", "top_k_renorm_probs", "top_p_renorm_probs")
    operations = {name: dense(getattr(sampling, name)) for name in names}
    return {**operations, "top_p_renorm_probs": that_ends(operations["top_p_renorm_probs"])}


def make_renorm(seed: int) -> Sampler:
    flashinfer.version()
    sampling = package("flashinfer.sampling")
    generator = generator_of(seed, "cuda")

    def sample(batch: Batch) -> Any:
        logits = float32_logits(batch).cuda()
        columns = (batch.temperature.cuda(), batch.top_k.cuda(), batch.top_p.cuda())
        probs = sampling.softmax(logits, columns[0])
        probs = sampling.top_k_renorm_probs(probs, columns[1])
        probs = sampling.top_p_renorm_probs(probs, columns[2])
        return draw_outputs(
            batch,
            probs,
            lambda part: sampling.sampling_from_probs(
                part.contiguous(), generator=generator
            ).long(),
            probs > 0,
        )

    return sample


TORCH = OperationEngine(
    name="torch_operations",
    semantics="hf",
    calls="torch: softmax of logits over the temperature, log_softmax",
    version=lambda: version_of("torch"),
    make=make_torch,
    dtypes=("float32", "float16", "bfloat16"),
    cases=("softmax/*", "log_softmax/*"),
)
FLASHINFER = OperationEngine(
    name="flashinfer_operations",
    semantics="flashinfer",
    calls="flashinfer: softmax, top_k_mask_logits, top_k_renorm_probs, top_p_renorm_probs",
    version=flashinfer.version,
    make=make_flashinfer,
    device="cuda",
    cases=("softmax/*", "top_k_mask_logits/*", "top_k_renorm_probs/*", "top_p_renorm_probs/*"),
)
RENORM = Engine(
    name="flashinfer_renorm",
    semantics="flashinfer",
    calls="flashinfer: softmax, top_k_renorm_probs, top_p_renorm_probs, sampling_from_probs",
    version=flashinfer.version,
    make=make_renorm,
    abilities=TENSOR_ABILITIES,
    cases=flashinfer.WITHOUT_MIN_P,
    standalone="flashinfer",
    settings={"function": "renorm", "order": "top_k_first"},
)
