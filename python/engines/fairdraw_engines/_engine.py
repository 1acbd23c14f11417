"""Defines the types of adapters, and helpers that adapters of torch tensors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairdraw import Batch
from fairdraw.operation_verification import DTypeName
from fairdraw.speculation_verification import AcceptanceRuleName, DraftAbility, DraftKind
from fairdraw.verification import Ability, Arrays, Declinable, Filter, ProcessingStep

#: Suffix of the version of an engine whose GPU kernels ran on the CPU, in Triton's interpreter.
INTERPRETER = "Triton's interpreter"

#: Samples a batch by an engine, and returns the tokens as an array or in the batch itself.
Sampler = Callable[[Batch], Any]


@dataclass(frozen=True)
class Engine:
    """Another engine's sampler in the form that `fairdraw.verify` calls.

    `make(seed)` returns a sampler whose random generator of its own starts from that seed, so that
    a case run alone always gives the same result. Both `version` and `make` raise Unavailable if
    the engine is not available.
    """

    name: str
    semantics: str  # name of the profile by which the engine is judged
    calls: str  # names of the engine's functions that the adapter calls, for readers
    version: Callable[[], str]
    make: Callable[[int], Any]  # a Sampler
    arrays: Arrays = "torch"
    abilities: Sequence[Ability] = ()
    #: Filters, steps of processing and promises that the engine lacks.
    lacks: Sequence[Filter | ProcessingStep | Declinable] = ()
    #: Globs of the ids of the cases that apply. All other cases are skipped by name.
    cases: Sequence[str] = ("*",)
    #: Function of standalone/show.py that calls the engine without fairdraw, and the function's
    #: arguments, for capsules. None if the adapter calls no package, because no project would then
    #: receive the capsule.
    standalone: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The engine that uses the same function as its filters. The capsules of that engine also stand
    #: for this engine.
    filter_of: str | None = None
    #: For a rule written from an engine's source: the address of the source, and the cause that a
    #: report of the rule should name first.
    source: str = ""
    cause: str = ""
    #: The capsule's content if no single row shows the defect. `what` is the engine's behaviour,
    #: `call` the call of the standalone function without `settings`, `expected` the expected
    #: result, and `right` the right behaviour in words.
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OperationEngine(Engine):
    """An engine's row operations in the form that `fairdraw.verify_operations` calls.

    `make(seed)` returns functions by name. `cases` are globs that match only the checks of these
    functions.
    """

    device: str = "cpu"
    dtypes: Sequence[DTypeName] = ("float32",)


@dataclass(frozen=True)
class DraftEngine(Engine):
    """An engine's verifier of drafted tokens in the form that `fairdraw.verify_speculation` calls.

    `make(seed)` returns the callable, which copies the CPU arrays to its device.
    """

    target: Literal["logits", "probs"] = "logits"
    drafts: Sequence[DraftKind] = ("probs",)
    acceptance_rule: AcceptanceRuleName | None = "token_wise"
    draft_abilities: Sequence[DraftAbility] = ()

    def checks(self) -> tuple[str, ...]:
        """Returns the names of the checks for the engine's target, which is logits or
        probabilities."""
        return ("verify", "verify_law") if self.target == "logits" else ("chain", "chain_law")


@dataclass(frozen=True)
class RunningEngine(Engine):
    """An engine's running batch (`fairdraw.RunningBatch`) with processing, which the cases of check
    `sequences` judge.

    `make(seed)` returns the function that makes a running batch. fairdraw draws the batch's tokens,
    by seed and offset.
    """


#: Abilities of an adapter that computes on float32 tensors. Such an adapter reads other dtypes as
#: float32, as engines do, and sets excluded tokens to -inf. The adapter filters a row once, and
#: draws any number of tokens from the row one by one.
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
    """Returns the batch's bitmask as [rows, vocab] bool, or None if the batch has no bitmask."""
    if batch.allowed is None:
        return None
    words = np.ascontiguousarray(np.asarray(batch.allowed)).view(np.uint32)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, : batch.vocab].astype(bool)


def report_kept(batch: Batch, kept: np.ndarray[Any, Any]) -> None:
    """Writes the tokens that survive the filters, [rows, vocab] bool, if the judge requested them."""
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
