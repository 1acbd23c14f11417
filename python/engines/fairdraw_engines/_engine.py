"""The adapter types, and helpers that adapters of tensors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairdraw import Batch
from fairdraw.operation_verification import DTypeName
from fairdraw.speculation_verification import AcceptanceRuleName, DraftAbility, DraftKind
from fairdraw.verification import Ability, Arrays, Filter

#: Suffix of the version of an engine whose GPU kernels ran on the CPU, in Triton's interpreter.
INTERPRETER = "Triton's interpreter"

#: Samples a batch by an engine: returns the tokens, as an array or in the batch itself.
Sampler = Callable[[Batch], Any]


@dataclass(frozen=True)
class Engine:
    """Another engine's sampler, callable as `fairdraw.verify` expects.

    `make(seed)` returns a sampler with its own random generator, started from that seed, so that a
    case gives the same result whenever it is run alone. Both `version` and `make` raise Unavailable
    if the engine is not available.
    """

    name: str
    semantics: str  # name of the profile to judge the engine by
    calls: str  # names of the engine's functions that are called, for readers
    version: Callable[[], str]
    make: Callable[[int], Any]  # a Sampler
    arrays: Arrays = "torch"
    abilities: Sequence[Ability] = ()
    #: Globs of the ids of applicable cases; all other cases are skipped by name.
    cases: Sequence[str] = ("*",)
    #: Function of standalone/show.py that calls the engine without fairdraw, and its arguments, for
    #: capsules. None if the adapter calls no package, because then there is nobody to send a
    #: capsule to.
    standalone: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The engine with the same function as filters; its capsules also stand for this engine.
    filter_of: str | None = None
    #: For a rule that is written from an engine's source: the address of that source, and the cause
    #: that a report of the rule should name first.
    source: str = ""
    cause: str = ""
    #: The capsule's content if no single row shows the defect: `what` the engine does, the `call`
    #: of the standalone function without `settings`, the `expected` result, and the `right`
    #: behaviour in words.
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OperationEngine(Engine):
    """An engine's row operations, callable as `fairdraw.verify_operations` expects.

    `make(seed)` returns functions by name; `cases` are globs that match only the checks of these
    functions.
    """

    device: str = "cpu"
    dtypes: Sequence[DTypeName] = ("float32",)


@dataclass(frozen=True)
class DraftEngine(Engine):
    """An engine's verifier of drafted tokens, callable as `fairdraw.verify_speculation` expects.

    `make(seed)` returns the callable, which copies the CPU arrays to its device.
    """

    target: Literal["logits", "probs"] = "logits"
    drafts: Sequence[DraftKind] = ("probs",)
    acceptance_rule: AcceptanceRuleName | None = "token_wise"
    draft_abilities: Sequence[DraftAbility] = ()
    lacks: Sequence[Filter] = ()

    def checks(self) -> tuple[str, ...]:
        """Returns the names of the checks for the engine's target, logits or probabilities."""
        return ("verify", "verify_law") if self.target == "logits" else ("chain", "chain_law")


@dataclass(frozen=True)
class RunningEngine(Engine):
    """An engine's running batch (`fairdraw.RunningBatch`) with processing, judged by the cases of
    check `sequences`.

    `make(seed)` returns the function that makes a running batch. The batch's tokens are drawn by
    fairdraw, by seed and offset.
    """


#: Abilities of an adapter that computes on float32 tensors. Other dtypes are read as float32, as
#: engines do; excluded tokens get -inf; a row is filtered once, and any number of tokens are drawn
#: from it one by one.
TENSOR_ABILITIES: tuple[Ability, ...] = (
    "float16",
    "bfloat16",
    "allowed_mask",
    "indices",
    "num_samples",
    "reports_mask",
    "reports_support",
)


def allowed_ids(batch: Batch) -> np.ndarray[Any, Any] | None:
    """Returns the batch's bitmask as [rows, vocab] bool, or None."""
    if batch.allowed is None:
        return None
    words = np.ascontiguousarray(np.asarray(batch.allowed)).view(np.uint32)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, : batch.vocab].astype(bool)


def report_kept(batch: Batch, kept: np.ndarray[Any, Any]) -> None:
    """Writes the tokens that survive the filters, [rows, vocab] bool, if the judge requested
    them.
    """
    if batch.out_mask is not None:
        words = (batch.vocab + 31) // 32
        padded = np.zeros((batch.rows, words * 32), bool)
        padded[:, : batch.vocab] = kept
        bits = np.packbits(padded, axis=1, bitorder="little").view(np.uint32)
        target = np.asarray(batch.out_mask)
        target[...] = bits.view(target.dtype)
    if batch.out_support_size is not None:
        sizes = kept.sum(axis=1)
        if batch.indices is not None:
            sizes = sizes[np.asarray(batch.indices)]
        np.asarray(batch.out_support_size)[...] = sizes
