"""Helps adapters of engines that mark tokens with a key (watermarks)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fairdraw import Batch
from fairdraw.verification import Ability

from ._tensors import multinomial

if TYPE_CHECKING:
    import torch

#: Globs of the cases that judge marked rows.
CASES = ("marks/*", "*/marked_*")

#: Abilities of these adapters besides their scheme. Marked rows have one token each.
ABILITIES: tuple[Ability, ...] = ("float16", "bfloat16", "allowed_mask", "per_request_seeds")


def keys_of(batch: Batch) -> list[int]:
    """Returns the key of each row, from 0 to 2^64 - 1; 0 means that the row is not marked."""
    if batch.mark_key is None:
        return [0] * batch.rows
    return [int(key) % 2**64 for key in batch.mark_key.tolist()]


def history_of(batch: Batch, row: int) -> tuple[int, ...]:
    """Returns the ids that a row's request has generated, oldest first."""
    return tuple(id for id in batch.mark_output[row].tolist() if id >= 0)


def by_key_and_history(batch: Batch) -> dict[tuple[int, tuple[int, ...]], list[int]]:
    """Returns the marked rows, grouped by their keys and histories."""
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for row, key in enumerate(keys_of(batch)):
        if key != 0:
            groups.setdefault((key, history_of(batch, row)), []).append(row)
    return groups


def generator_of_row(batch: Batch, row: int) -> torch.Generator:
    """Makes a torch generator from a row's seed and offset, as for a request with a seed of its
    own. Rows of a call with one seed differ by their place."""
    import torch

    at, place = (0, row) if batch.seed_is_scalar else (row, 0)
    words = np.array([int(batch.seed[at]) % 2**64, int(batch.offset[at]) % 2**64, place], np.uint64)
    digest = hashlib.blake2b(words.tobytes(), digest_size=4).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def draw_rows(
    batch: Batch,
    probs: torch.Tensor,
    tokens: torch.Tensor,
    rows: torch.Tensor,
    draw: Callable[[Any, Any], Any] = multinomial,
) -> None:
    """Writes a token for each of the rows into `tokens`, drawn from the row's probabilities with
    the row's generator."""
    for row in rows.tolist():
        tokens[row] = draw(probs[row : row + 1], generator_of_row(batch, row))[0]
