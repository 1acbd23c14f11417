"""What an adapter is, and what adapters of tensors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairdraw import Batch
from fairdraw.operation_verification import DTypeName
from fairdraw.speculation_verification import AcceptanceRuleName, DraftAbility, DraftKind
from fairdraw.verification import Ability, Arrays, Filter

#: Ends the version of an engine whose GPU kernels Triton's interpreter ran, on the CPU.
INTERPRETER = "Triton's interpreter"

#: One call of an engine: tokens of a batch, an array or the batch itself.
Sampler = Callable[[Batch], Any]


@dataclass(frozen=True)
class Engine:
    """Another engine's sampler behind the contract of `fairdraw.verify`.

    `make(seed)` gives a sampler whose own random generator starts from that seed, so that a case
    comes out the same whenever it is run alone. Both `version` and `make` raise Unavailable where
    the engine is not to be had.
    """

    name: str
    semantics: str  # the profile that it is judged by
    calls: str  # what of the engine is called, for readers
    version: Callable[[], str]
    make: Callable[[int], Any]  # a Sampler
    arrays: Arrays = "torch"
    abilities: Sequence[Ability] = ()
    #: Globs of the case ids that are about something it does; others are skipped by name.
    cases: Sequence[str] = ("*",)
    #: For capsules: the function of standalone/show.py that calls the engine without fairdraw, and
    #: arguments that it needs. None if no package is called: there is nobody to send one to.
    standalone: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    #: The engine that has the same function as its filters, whose capsules are this one's, too.
    filter_of: str | None = None
    #: Of a rule that is written from an engine's source: where that is, and what a report of it says
    #: first (the name of a cause).
    source: str = ""
    cause: str = ""
    #: What its capsule has where no row alone shows what is wrong: `what` it does, the `call` of the
    #: standalone function without `settings`, what is `expected` of it, and `right` in words.
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OperationEngine(Engine):
    """Operations on rows behind the contract of `fairdraw.verify_operations`.

    `make(seed)` gives functions by name; `cases` are globs of the checks of those names alone.
    """

    device: str = "cpu"
    dtypes: Sequence[DTypeName] = ("float32",)


@dataclass(frozen=True)
class DraftEngine(Engine):
    """A verifier of drafted tokens behind the contract of `fairdraw.verify_speculation`.

    `make(seed)` gives the callable; arrays are on the CPU, and it brings them to its device.
    """

    target: Literal["logits", "probs"] = "logits"
    drafts: Sequence[DraftKind] = ("probs",)
    acceptance_rule: AcceptanceRuleName | None = "token_wise"
    draft_abilities: Sequence[DraftAbility] = ()
    lacks: Sequence[Filter] = ()

    def checks(self) -> tuple[str, ...]:
        """Names of the checks that are about its rows."""
        return ("verify", "verify_law") if self.target == "logits" else ("chain", "chain_law")


@dataclass(frozen=True)
class RunningEngine(Engine):
    """A running batch (`fairdraw.RunningBatch`) with processing, judged by the cases of check `sequences`.

    `make(seed)` gives what makes one. Its tokens are those of fairdraw, by seed and offset.
    """


#: What an adapter on float32 tensors can do: other dtypes are read as float32, as engines do;
#: excluded tokens get -inf; a row is filtered once, and any number of tokens drawn from it one by
#: one.
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
    """[rows, vocab] bool of the batch's bitmask, or None."""
    if batch.allowed is None:
        return None
    words = np.ascontiguousarray(np.asarray(batch.allowed)).view(np.uint32)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, : batch.vocab].astype(bool)


def report_kept(batch: Batch, kept: np.ndarray[Any, Any]) -> None:
    """Writes the survivors, [rows, vocab] bool, where the judge asked for them."""
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
