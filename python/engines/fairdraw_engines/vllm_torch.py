"""Adapts vLLM's PyTorch sampler, which is written from its description: top-k and top-p by a sort,
then an exponential race.

The sampler is judged by profile `vllm_torch`. The adapter calls no package. The adapter restates
vLLM's documentation and source, so that a matrix can be made where vLLM cannot be installed;
`vllm_package` calls vLLM's own module. The order of steps is: greedy rows, temperature, min_p,
top-k, top-p, exponential race.
"""

from __future__ import annotations

from typing import Any

from fairdraw import Batch

from ._engine import TENSOR_ABILITIES, Engine, Sampler
from ._packages import version_of
from ._tensors import draw_outputs, exponential_race, float32_logits, generator_of

#: Temperatures below this value are greedy, and turn off every filter of the request.
SAMPLING_EPS = 1e-5


def refused_by_params(batch: Batch) -> Any:
    """Returns the requests that vLLM's SamplingParams refuses before sampling, as [rows] bool.

    SamplingParams also refuses a top_p of 0. A top_p of 0 is not in this mask, because the PyTorch
    path and the profile treat it as greedy.
    """
    refused = (batch.temperature < 0) | (batch.top_k < -1)
    refused |= (batch.top_p < 0) | (batch.top_p > 1) | (batch.min_p < 0) | (batch.min_p > 1)
    return refused


def before_top_k(batch: Batch) -> tuple[Any, Any, Any, Any, Any]:
    """Runs vLLM's steps before top-k and top-p, for requests as vLLM normalises them.

    Returns the greedy rows [rows] bool, their argmax [rows], the logits after temperature and
    min_p, top_k with "off" as the vocabulary's size, and top_p.
    """
    import torch

    logits = float32_logits(batch)
    greedy = batch.temperature < SAMPLING_EPS
    largest = logits.argmax(dim=-1)
    top_k = torch.where((batch.top_k <= 0) | greedy, batch.vocab, batch.top_k)
    top_k = top_k.clamp(max=batch.vocab)
    top_p = torch.where(greedy, 1.0, batch.top_p)
    min_p = torch.where(greedy, 0.0, batch.min_p)
    logits /= torch.where(greedy, 1.0, batch.temperature)[:, None]
    if (min_p > 0).any():
        probs = logits.softmax(dim=-1)
        threshold = min_p[:, None] * probs.amax(dim=-1, keepdim=True)
        logits.masked_fill_(probs < threshold, float("-inf"))
    return greedy, largest, logits, top_k.long(), top_p


def draw_or_largest(
    batch: Batch, greedy: Any, largest: Any, logits: Any, draw: Any, refused: Any = None
) -> Any:
    """Draws from the softmax of the surviving logits, or takes the argmax in greedy rows.

    Tokens of rows in `refused` are -1.
    """
    import torch

    one_hot = torch.zeros_like(logits).scatter_(1, largest[:, None], 1.0)
    probs = torch.where(greedy[:, None], one_hot, logits.softmax(dim=-1))
    kept = torch.where(greedy[:, None], one_hot > 0, logits > float("-inf"))
    return draw_outputs(batch, probs, draw, kept, refused)


def filtered(logits: Any, top_k: Any, top_p: Any) -> Any:
    """Returns logits with -inf outside top-k and top-p. Each filter runs if any row of the call
    needs it."""
    import torch

    vocab = logits.shape[-1]
    if not (top_k < vocab).any() and not (top_p < 1).any():
        return logits
    ascending, order = logits.sort(dim=-1, descending=False)
    if (top_k < vocab).any():
        threshold = ascending.gather(1, (vocab - top_k)[:, None])
        ascending = ascending.masked_fill(ascending < threshold, float("-inf"))
    if (top_p < 1).any():
        mass = ascending.softmax(dim=-1).cumsum(dim=-1)
        drop = mass <= 1 - top_p[:, None]
        drop[:, -1] = False
        ascending = ascending.masked_fill(drop, float("-inf"))
    return torch.empty_like(ascending).scatter_(1, order, ascending)


def make(seed: int) -> Sampler:
    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        greedy, largest, logits, top_k, top_p = before_top_k(batch)
        left = filtered(logits, top_k, top_p)
        return draw_or_largest(
            batch,
            greedy,
            largest,
            left,
            lambda p: exponential_race(p, generator),
            refused_by_params(batch),
        )

    return sample


ENGINE = Engine(
    name="vllm_torch",
    semantics="vllm_torch",
    calls="vLLM's PyTorch-native top-k, top-p and exponential race, from their description",
    version=lambda: version_of("torch"),
    make=make,
    abilities=TENSOR_ABILITIES,
)
