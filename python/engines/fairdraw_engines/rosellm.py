"""Adapts RoseLLM's sampler (PR 003), which is written from its description, because there is no
package.

The sampler is judged by profile `rosellm`: the token that crosses p is dropped, and the clamp of
all probabilities to 1e-9 makes masked tokens drawable. Each row is processed alone, by temperature,
top-k, top-p, softmax, clamp and torch.multinomial. RoseLLM has no min_p.
"""

from __future__ import annotations

from typing import Any

from fairdraw import Batch

from ._engine import TENSOR_ABILITIES, Engine, Sampler
from ._packages import version_of
from ._tensors import draw_outputs, float32_logits, generator_of, multinomial


def probabilities(logits: Any, temperature: float, top_k: int, top_p: float) -> Any:
    """Returns the probabilities [vocab] float32 of one row. Raises ValueError or RuntimeError if
    the engine refuses the row."""
    import torch

    if temperature <= 0:
        one_hot = torch.zeros_like(logits)
        one_hot[logits.argmax()] = 1
        return one_hot
    logits = logits / temperature
    if top_k > 0:
        least = torch.topk(logits, top_k).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if 0 < top_p < 1:
        descending, order = logits.sort(descending=True)
        drop = descending.softmax(dim=-1).cumsum(dim=-1) > top_p
        drop[0] = False
        logits = logits.index_fill(0, order[drop], float("-inf"))
    return logits.softmax(dim=-1).clamp_min(1e-9)


def make(seed: int) -> Sampler:
    import torch

    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        logits = float32_logits(batch)
        probs = torch.zeros_like(logits)
        refused = torch.zeros(batch.rows, dtype=torch.bool)
        known: dict[tuple[float, int, float, bytes], int] = {}
        columns = (batch.temperature, batch.top_k, batch.top_p)
        for row, parameters in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            seen = known.setdefault((*parameters, logits[row].numpy().tobytes()), row)
            if seen != row:  # the same request as before has the same probabilities
                probs[row], refused[row] = probs[seen], refused[seen]
                continue
            try:
                probs[row] = probabilities(logits[row], *parameters)
            except RuntimeError:  # torch.topk raises for a k above the vocabulary's size
                refused[row] = True
        refused |= ~torch.isfinite(probs).all(dim=1)
        return draw_outputs(
            batch,
            probs,
            lambda p: multinomial(p, generator),
            probs > 0,
            refused,
        )

    return sample


ENGINE = Engine(
    name="rosellm",
    semantics="rosellm",
    calls="RoseLLM's sampler, from its description",
    version=lambda: version_of("torch"),
    make=make,
    abilities=TENSOR_ABILITIES,
)
