"""Adapts the sampler of vLLM's model runner V2 (vllm/v1/worker/gpu/sample), on a CUDA device.

The sampler is judged by profile `vllm_triton`. The adapter calls the package's kernels in the order
of vLLM's Sampler, for requests as SamplingParams normalises them: apply_temperature, apply_min_p,
apply_top_k_top_p_triton with V2's properties of its rows, and gumbel_sample with a seed and a
position for each token. V2 runs these kernels for requests that have a seed, and always if
FlashInfer is off. Without seeds V2 passes rows with top-k or top-p to FlashInfer
(`flashinfer_probs`, `flashinfer_logits`). The modules come from an installed vllm, or from a wheel
(_vllm_wheel.py).
"""

from __future__ import annotations

from typing import Any

from fairdraw import Batch
from fairdraw.verification import Ability

from ._engine import Engine, Sampler, report_kept
from ._tensors import CHUNK, float32_logits, places_in_range, rows_of
from ._vllm_wheel import triton_device, triton_module, version_with
from .vllm_torch import SAMPLING_EPS
from .vllm_triton import MODULE as FILTERS
from .vllm_triton import on_device, refused

GUMBEL = "vllm.v1.worker.gpu.sample.gumbel"
MIN_P = "vllm.v1.worker.gpu.sample.min_p"

#: 2^64 divided by the golden ratio, as int64. Multiples of this number are as far apart as
#: possible.
SEEDS_APART = 0x9E3779B97F4A7C15 - (1 << 64)

ABILITIES: tuple[Ability, ...] = (
    "float16",
    "bfloat16",
    "allowed_mask",
    "indices",
    "per_request_seeds",
    "reports_mask",
    "reports_support",
)


def version() -> str:
    for module in (FILTERS, GUMBEL, MIN_P):
        triton_module(module)
    return on_device(version_with(GUMBEL, "torch", "triton"))


def processed(batch: Batch, greedy: Any, device: str) -> tuple[Any, Any]:
    """Returns the logits after every filter, and temperatures with 0 for greedy rows, on the
    device."""
    import torch

    gumbel, filters, min_p_module = (triton_module(m) for m in (GUMBEL, FILTERS, MIN_P))
    requests = torch.arange(batch.rows, dtype=torch.int32, device=device)
    temperature = torch.where(greedy, 0.0, batch.temperature).to(device)
    top_k = torch.where((batch.top_k <= 0) | greedy, batch.vocab, batch.top_k)
    top_k = top_k.clamp(max=batch.vocab).int().to(device)
    top_p = torch.where(greedy, 1.0, batch.top_p).to(device)
    min_p = torch.where(greedy, 0.0, batch.min_p).to(device)
    logits = float32_logits(batch).to(device)
    gumbel.apply_temperature(logits, requests, temperature)
    if (min_p != 0).any():
        min_p_module.apply_min_p(logits, requests, min_p)
    k = top_k if (top_k != batch.vocab).any() else None
    p = top_p if (top_p != 1).any() else None
    if k is not None or p is not None:
        alone = bool(((top_k >= batch.vocab) & (top_p < 1)).any())
        logits = filters.apply_top_k_top_p_triton(logits, k, p, has_topp_only_rows=alone)
    return logits, temperature


def make(seed: int) -> Sampler:
    """Makes a sampler that takes every token's seed from the batch. `seed` is only for samplers
    with a state."""
    device = triton_device()
    gumbel = triton_module(GUMBEL)

    def sample(batch: Batch) -> Any:
        import torch

        greedy = batch.temperature < SAMPLING_EPS
        none = refused(batch)  # no token
        logits, temperature = processed(batch, greedy, device)
        kept = logits > float("-inf")
        largest = torch.zeros_like(kept).scatter_(1, logits.argmax(dim=-1)[:, None], True)
        kept = torch.where(greedy.to(device)[:, None], largest, kept)
        report_kept(batch, (kept & ~none.to(device)[:, None]).cpu().numpy())

        rows = rows_of(batch)
        seeds, positions = batch.seed, batch.offset
        # vLLM has one seed per request, so that outputs get distant seeds here.
        if batch.seed_is_scalar:
            seeds = seeds + SEEDS_APART * torch.arange(len(rows))
            positions = positions.expand(len(rows))
        tokens = torch.full((len(rows),), -1, dtype=torch.int64)
        places = places_in_range(batch, rows)
        places = places[~none[rows[places]]]
        for part in torch.split(places, max(1, CHUNK // batch.vocab)):
            of_part = rows[part].to(device)
            drawn = gumbel.gumbel_sample(
                logits[of_part],
                torch.arange(len(part), dtype=torch.int32, device=device),
                temperature[of_part],
                seeds[part].to(device),
                positions[part].to(device),
                apply_temperature=False,
                is_drafting=False,
            )
            tokens[part] = drawn.cpu()
        return tokens.reshape(batch.outputs, 1)

    return sample


ENGINE = Engine(
    name="vllm_v2",
    semantics="vllm_triton",
    calls="vllm: apply_temperature, apply_min_p, apply_top_k_top_p_triton, gumbel_sample",
    version=version,
    make=make,
    abilities=ABILITIES,
    standalone="vllm_triton",
    filter_of="vllm_triton",
)
