"""Adapts Hugging Face transformers: the warpers of logits_process.py, then torch.multinomial.

The sampler is judged by profile `hf`. The adapter calls the classes of the installed package, in
the order in which generate() applies them: temperature, top_k, top_p, min_p. The adapter then
calls softmax and torch.multinomial for one sample, as the sampling loop of generate() does. As in generate(), a call has
one set of parameters, so that the rows of a batch are grouped. A top_p of 1 is omitted, as in
generate(). A top_k of 0, which generate() omits too, is given to the class, which refuses it. Rows
that a class or torch.multinomial refuses get no token (-1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairdraw import Batch

from ._engine import TENSOR_ABILITIES, Engine, Sampler
from ._packages import package, version_of
from ._tensors import draw_outputs, float32_logits, generator_of, multinomial

if TYPE_CHECKING:
    import torch


def _warpers(process: Any, temperature: float, top_k: int, top_p: float, min_p: float) -> list[Any]:
    chain = [process.TemperatureLogitsWarper(temperature), process.TopKLogitsWarper(top_k)]
    if top_p != 1:
        chain.append(process.TopPLogitsWarper(top_p))
    return [*chain, process.MinPLogitsWarper(min_p)]


def warped(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the scores after all warpers, and the rows that a class refuses, [rows] bool."""
    import torch

    process = package("transformers.generation.logits_process")
    logits = float32_logits(batch)
    scores = torch.zeros_like(logits)
    refused = torch.zeros(batch.rows, dtype=torch.bool)
    columns = (batch.temperature, batch.top_k, batch.top_p, batch.min_p)
    groups: dict[tuple[float, int, float, float], list[int]] = {}
    for row, parameters in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        groups.setdefault(parameters, []).append(row)
    for parameters, rows in groups.items():
        try:
            of_group = logits[rows]
            for warper in _warpers(process, *parameters):
                of_group = warper(None, of_group)
            scores[rows] = of_group
        except ValueError:
            refused[rows] = True
    return scores, refused


def make(seed: int) -> Sampler:
    import torch

    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        scores, refused = warped(batch)
        probs = torch.nn.functional.softmax(scores, dim=-1)
        refused |= ~torch.isfinite(probs).all(dim=1)  # torch.multinomial raises for the whole call
        probs[refused] = 0
        return draw_outputs(
            batch,
            probs,
            lambda p: multinomial(p, generator),
            scores > float("-inf"),
            refused,
        )

    return sample


ENGINE = Engine(
    name="hf",
    semantics="hf",
    calls="transformers: Temperature-, TopK-, TopP-, MinPLogitsWarper; softmax; torch.multinomial",
    version=lambda: version_of("transformers", "torch"),
    make=make,
    abilities=TENSOR_ABILITIES,
)
