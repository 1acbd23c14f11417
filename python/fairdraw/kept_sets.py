"""Kept sets: the ids that survived the filters, from the call that draws (fairdraw/kept_sets.h).

>>> drawn = fairdraw.sample_with_kept_sets(logits, top_p=0.95, seed=7)
>>> drawn.tokens, drawn.logprobs          # log-probabilities among the survivors
>>> drawn.kept.of(0)                      # ids of output 0, ascending
>>> drawn.kept.token_ids.tolist(), drawn.kept.offsets.tolist()    # vLLM's SamplingMask

A trainer computes the same distribution from its own logits: fairdraw.torch.replay_logprobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import (
    _FILTER_ORDERS,
    _PURPOSES,
    _TIE_RULES,
    FilterOrder,
    Purpose,
    TieRule,
    _member,
    _seed_and_offset,
)
from ._arrays import backend_of, length

#: Ids that there is room for, an output, where the caller does not say.
_ROOM_AN_OUTPUT = 4096


class KeptSets(NamedTuple):
    """Sets of ids, one after the other; the layout of vLLM's SamplingMask."""

    token_ids: Any  #: [offsets[-1]] int32, ascending within a set
    offsets: Any  #: [outputs + 1] int64: output i has token_ids[offsets[i]:offsets[i + 1]]
    overflow: Any  #: [outputs] bool: there was no room for the set, and none of it is there

    def of(self, output: int) -> Any:
        """The ids of an output."""
        return self.token_ids[int(self.offsets[output]) : int(self.offsets[output + 1])]

    @classmethod
    def from_sampling_mask(cls, token_ids: Sequence[int], offsets: Sequence[int]) -> KeptSets:
        """Of the lists that a SamplingMask of vLLM has. ValueError where they are no sets."""
        ids = np.asarray(token_ids, np.int32).reshape(-1)
        begins = np.asarray(offsets, np.int64).reshape(-1)
        if len(begins) == 0 or begins[0] != 0 or begins[-1] != len(ids):
            raise ValueError(f"offsets: 0 to {len(ids)}, the number of ids, are needed")
        if (np.diff(begins) < 0).any():
            raise ValueError("offsets: fall; allowed: offsets that do not")
        return cls(ids, begins, np.zeros(len(begins) - 1, bool))


class KeptSample(NamedTuple):
    """Tokens, and what they were drawn from."""

    tokens: Any  #: [outputs] int32; -1 where the status is not 0
    logprobs: Any  #: [outputs] float32, of the token among the survivors
    kept: KeptSets
    statuses: Any  #: [outputs] int32, RowStatus of fairdraw/types.h
    seed: Any  #: what the tokens were drawn with: as it was given, or the fresh one


def sample_with_kept_sets(
    logits: Any,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    indices: Any = None,
    *,
    room: int | None = None,
    allowed: Any = None,
    active: Any = None,
    tie_rule: TieRule = "keep_all",
    filter_apply_order: FilterOrder = "top_k_first",
    generator: Any = None,
    seed: Any = None,
    offset: Any = None,
    purpose: Purpose = "draw",
) -> KeptSample:
    """As `fairdraw.sample`, one token an output, with each output's kept set; on the CPU.

    `room`: ids of all outputs together that there is room for (4096 an output); sets that do not fit
    are left out, and `overflow` says which.
    """
    backend = backend_of(logits, "logits")
    outputs = length(logits) if indices is None else length(indices)
    seed, offset = _seed_and_offset(backend, generator, seed, offset, outputs)
    if room is None:
        room = outputs * min(_ROOM_AN_OUTPUT, int(logits.shape[-1]))
    if room < 0:
        raise ValueError(f"room is {room}; allowed: >= 0")
    tokens = backend.empty((outputs,), "int32")
    statuses = backend.empty((outputs,), "int32")
    logprobs = backend.empty((outputs,), "float32")
    token_ids = backend.empty((room,), "int32")
    offsets = backend.empty((outputs + 1,), "int64")
    overflow = backend.empty((outputs,), "uint8")
    backend.call(
        _core.sample_with_kept_sets,
        backend.lend(logits),
        backend.parameter(temperature, "float32"),
        backend.parameter(top_k, "int32"),
        backend.parameter(top_p, "float32"),
        backend.parameter(min_p, "float32"),
        seed,
        offset,
        backend.indices(indices),
        1,
        _member("tie_rule", tie_rule, _TIE_RULES),
        _member("filter_apply_order", filter_apply_order, _FILTER_ORDERS),
        _member("purpose", purpose, _PURPOSES),
        backend.lend(allowed),
        backend.lend(active),
        backend.lend(tokens),
        backend.lend(statuses),
        backend.lend(logprobs),
        backend.lend(token_ids),
        backend.lend(offsets),
        backend.lend(overflow),
    )
    kept = KeptSets(token_ids[: int(offsets[-1])], offsets, overflow != 0)
    return KeptSample(tokens, logprobs, kept, statuses, seed)
