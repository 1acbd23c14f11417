"""Adapts SGLang's PyTorch backend (--sampling-backend pytorch), which is written from its
description.

The sampler is judged by profile `sglang_torch`. The steps are temperature, softmax and sort, in
this order. The filters drop the ranks from k on. The filters then drop the tokens for which the
mass before them (summed over the whole row) is above p, and then the tokens below min_p times the
largest probability. The function torch.multinomial draws from the tokens that are left, in sorted
order. The adapter calls no package.
"""

from __future__ import annotations

from typing import Any

from fairdraw import Batch

from ._engine import TENSOR_ABILITIES, Engine, Sampler
from ._packages import version_of
from ._tensors import draw_outputs, float32_logits, generator_of, multinomial

SAMPLING_EPS = 1e-6
TOP_K_ALL = 1 << 30


def refused_by_params(batch: Batch) -> Any:
    """Returns the requests that SGLang's SamplingParams.verify refuses before sampling, as [rows]
    bool."""
    refused = (batch.top_k == 0) | (batch.top_k < -1) | (batch.temperature < 0)
    refused |= (batch.top_p <= 0) | (batch.top_p > 1) | (batch.min_p < 0) | (batch.min_p > 1)
    return refused


def top_k_of(batch: Batch) -> Any:
    """Returns top_k [rows], which is 1 for greedy requests and a large number for "off"."""
    import torch

    top_k = torch.where(batch.top_k == -1, TOP_K_ALL, batch.top_k)
    return torch.where(batch.temperature < SAMPLING_EPS, 1, top_k)


def kept_probs(batch: Batch, logits: Any, top_k: Any) -> Any:
    """Returns the probabilities of tokens that the filters keep, and 0 for other tokens. Divides
    `logits` by the temperatures."""
    import torch

    greedy = batch.temperature < SAMPLING_EPS
    logits /= torch.where(greedy, 1.0, batch.temperature)[:, None]
    probs, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
    mass = probs.cumsum(dim=-1)
    ranks = torch.arange(batch.vocab)[None, :]
    probs = torch.where(ranks >= top_k[:, None], 0.0, probs)
    probs = torch.where(mass - probs > batch.top_p[:, None], 0.0, probs)
    least = probs[:, :1] * batch.min_p[:, None]
    probs = torch.where(probs < least, 0.0, probs)
    return torch.zeros_like(probs).scatter_(1, order, probs)


def make(seed: int) -> Sampler:
    import torch

    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        refused = refused_by_params(batch)
        by_id = kept_probs(batch, float32_logits(batch), top_k_of(batch))
        refused |= ~torch.isfinite(by_id).all(dim=1)
        by_id[refused] = 0
        return draw_outputs(
            batch,
            by_id,
            lambda p: multinomial(p, generator),
            by_id > 0,
            refused,
        )

    return sample


ENGINE = Engine(
    name="sglang_torch",
    semantics="sglang_torch",
    calls="SGLang's PyTorch backend, from its description",
    version=lambda: version_of("torch"),
    make=make,
    abilities=TENSOR_ABILITIES,
)
