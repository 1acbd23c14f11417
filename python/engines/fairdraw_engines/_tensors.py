"""Helps adapters of engines that work on torch tensors. A row is filtered once, and any number of
tokens are drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fairdraw import Batch

from ._engine import allowed_ids, report_kept

if TYPE_CHECKING:
    import torch

#: Number of elements of a tensor that a draw processes at a time: 64 MiB of float32.
CHUNK = 1 << 24


def float32_logits(batch: Batch) -> torch.Tensor:
    """Copies the batch's logits to float32 [rows, vocab], with excluded tokens at -inf."""
    import torch

    logits: torch.Tensor = batch.logits.to(torch.float32, copy=True)
    allowed = allowed_ids(batch)
    if allowed is not None:
        logits.masked_fill_(~torch.from_numpy(allowed), float("-inf"))
    return logits


def rows_of(batch: Batch) -> torch.Tensor:
    """Returns [outputs * num_samples] int64: the row from which each token is drawn."""
    import torch

    if batch.indices is None:
        rows = torch.arange(batch.rows)
    else:
        rows = batch.indices.to(torch.int64)
    return rows.repeat_interleave(batch.num_samples)


def places_in_range(batch: Batch, rows: torch.Tensor) -> torch.Tensor:
    """Returns the positions in `rows` that name a row of the batch. All other positions have
    invalid indices."""
    import torch

    return torch.nonzero((rows >= 0) & (rows < batch.rows)).flatten()


def draw_outputs(
    batch: Batch,
    weights: torch.Tensor,
    draw: Callable[[torch.Tensor], torch.Tensor],
    kept: torch.Tensor,
    refused: torch.Tensor | None = None,
) -> np.ndarray[Any, Any]:
    """Returns tokens [outputs, num_samples], drawn by the function draw, which takes weights [n,
    vocab] and returns tokens [n].

    Outputs of refused rows, and outputs with indices that name no row, get -1.

    `kept` [rows, vocab] bool marks the survivors of the engine's filters, whose weights may still
    round to 0. `refused` [rows] bool marks the requests that the engine refuses.
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
    """Returns the argmax of probs / Exp(1) over the last axis, in float32, as [n]. The argmax is
    the exponential race with which engines draw."""
    import torch

    noise = torch.empty_like(probs).exponential_(generator=generator)
    return (probs / noise).argmax(dim=-1)


def multinomial(probs: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draws one token per row by torch.multinomial, as [n]."""
    import torch

    return torch.multinomial(probs, num_samples=1, generator=generator).squeeze(1)


def generator_of(seed: int, device: str = "cpu") -> torch.Generator:
    """Makes a torch generator that is separate from torch's default generator."""
    import torch

    # torch seeds the CPU's Mersenne twister with only the low 32 bits of a seed.
    return torch.Generator(device).manual_seed((seed ^ (seed >> 32)) & 0xFFFFFFFF)
