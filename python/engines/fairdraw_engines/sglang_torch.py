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


def make(seed: int) -> Sampler:
    import torch

    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        logits = float32_logits(batch)
        greedy = batch.temperature < SAMPLING_EPS
        # SGLang's SamplingParams.verify refuses these parameters before sampling.
        refused = (batch.top_k == 0) | (batch.top_k < -1) | (batch.temperature < 0)
        refused |= (batch.top_p <= 0) | (batch.top_p > 1) | (batch.min_p < 0) | (batch.min_p > 1)
        top_k = torch.where(batch.top_k == -1, TOP_K_ALL, batch.top_k)
        top_k = torch.where(greedy, 1, top_k)
        logits /= torch.where(greedy, 1.0, batch.temperature)[:, None]
        probs, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        mass = probs.cumsum(dim=-1)
        ranks = torch.arange(batch.vocab)[None, :]
        probs = torch.where(ranks >= top_k[:, None], 0.0, probs)
        probs = torch.where(mass - probs > batch.top_p[:, None], 0.0, probs)
        least = probs[:, :1] * batch.min_p[:, None]
        probs = torch.where(probs < least, 0.0, probs)
        by_id = torch.zeros_like(probs).scatter_(1, order, probs)
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
