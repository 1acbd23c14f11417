"""For adapters of engines that compute on torch tensors: rows filtered once, drawn from often."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fairdraw import Batch

from ._engine import allowed_ids, report_kept

if TYPE_CHECKING:
    import torch

#: Elements of a tensor that a draw works on at a time: 64 MiB of float32.
CHUNK = 1 << 24


def float32_logits(batch: Batch) -> torch.Tensor:
    """A float32 copy [rows, vocab] of the batch's logits, excluded tokens at -inf."""
    import torch

    logits: torch.Tensor = batch.logits.to(torch.float32, copy=True)
    allowed = allowed_ids(batch)
    if allowed is not None:
        logits.masked_fill_(~torch.from_numpy(allowed), float("-inf"))
    return logits


def rows_of(batch: Batch) -> torch.Tensor:
    """[outputs * num_samples] int64: the row that each token is drawn from."""
    import torch

    if batch.indices is None:
        rows = torch.arange(batch.rows)
    else:
        rows = batch.indices.to(torch.int64)
    return rows.repeat_interleave(batch.num_samples)


def places_in_range(batch: Batch, rows: torch.Tensor) -> torch.Tensor:
    """Places in `rows` that hold a row of the batch: an index may be none."""
    import torch

    return torch.nonzero((rows >= 0) & (rows < batch.rows)).flatten()


def draw_outputs(
    batch: Batch,
    weights: torch.Tensor,
    draw: Callable[[torch.Tensor], torch.Tensor],
    kept: torch.Tensor,
    refused: torch.Tensor | None = None,
) -> np.ndarray[Any, Any]:
    """Tokens [outputs, num_samples], each a row of draw([n, vocab] of weights) -> [n].

    -1 for those of refused rows, and of indices that are no rows.

    kept: [rows, vocab] bool, what the engine's filters left: a weight may still round to 0.
    refused: [rows] bool, requests that the engine does not take.
    """
    import torch

    if refused is not None:
        kept = kept & ~refused[:, None]
    report_kept(batch, kept.cpu().numpy())
    rows = rows_of(batch)
    tokens = torch.full((len(rows),), -1, dtype=torch.int64)
    wanted = places_in_range(batch, rows)
    if refused is not None:
        wanted = wanted[~refused.cpu()[rows[wanted]]]
    for part in torch.split(wanted, max(1, CHUNK // batch.vocab)):
        tokens[part] = draw(weights[rows[part].to(weights.device)]).cpu()
    array: np.ndarray[Any, Any] = tokens.numpy().reshape(batch.outputs, batch.num_samples)
    return array


def exponential_race(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """argmax of probs / Exp(1) over the last axis, float32, as engines race: [n]."""
    import torch

    noise = torch.empty_like(probs).exponential_(generator=generator)
    return (probs / noise).argmax(dim=-1)


def multinomial(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """torch.multinomial, one draw a row: [n]."""
    import torch

    return torch.multinomial(probs, num_samples=1, generator=generator).squeeze(1)


def generator_of(seed: int, device: str = "cpu") -> torch.Generator:
    """A torch generator of its own."""
    import torch

    # torch seeds the CPU's Mersenne twister with the low 32 bits alone.
    return torch.Generator(device).manual_seed((seed ^ (seed >> 32)) & 0xFFFFFFFF)
