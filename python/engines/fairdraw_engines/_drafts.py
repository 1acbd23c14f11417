"""Helps adapters of draft verifiers with requests in the engines' packed layout, row after row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PackedDrafts:
    """The requests of a `fairdraw.DraftBatch` without padding, on a device."""

    target: Any  #: [drafts, vocab] float32 logits of the target, by which the drafts are judged
    last: Any  #: [requests, vocab] float32 logits after all drafts of a request
    draft_tokens: Any  #: [drafts] int32
    draft_probs: Any  #: [drafts, vocab] float32 probabilities of the draft model, or None
    used: Any  #: [requests, max_draft] bool on the CPU: true for slots that hold a draft


def float32_target(batch: Any) -> Any:
    """Returns the logits [requests, max_draft + 1, vocab] as float32, with excluded tokens at
    -inf."""
    import torch

    target = batch.target.to(torch.float32, copy=True)
    if batch.allowed is not None:
        words = np.ascontiguousarray(np.asarray(batch.allowed)).view(np.uint8)
        bits = np.unpackbits(words, axis=-1, bitorder="little")[..., : batch.vocab]
        target.masked_fill_(torch.from_numpy(bits == 0), float("-inf"))
    return target


def packed(batch: Any, device: Any) -> PackedDrafts:
    import torch

    lengths = batch.draft_lengths.long()
    used = torch.arange(batch.max_draft) < lengths[:, None]
    target = float32_target(batch)
    probs = batch.draft_probs
    return PackedDrafts(
        target[:, :-1][used].to(device),
        target[torch.arange(batch.requests), lengths].to(device),
        batch.draft_tokens[used].contiguous().to(device),
        None if probs is None else probs.float()[used].contiguous().to(device),
        used,
    )


def wide_tokens(batch: Any, tokens: Any, refused: Any) -> Any:
    """Widens tokens to [requests, max_draft + 1] on the CPU, with -1 in the new columns.

    `refused` [requests] bool marks the requests that the engine refuses. All columns of these
    requests get -1.
    """
    import torch

    wide = torch.full((batch.requests, batch.max_draft + 1), -1, dtype=torch.int32)
    wide[:, : tokens.shape[1]] = tokens.cpu()
    return wide.masked_fill_(refused[:, None], -1)
