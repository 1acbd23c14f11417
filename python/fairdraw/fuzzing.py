"""Defines `fuzz`, a search for calls that break a sampler; each found call is shrunk to a simple
one.

Definition: suites/gate/fuzz/README.md for the search; the profile that is named by `semantics`
(docs/semantics.md) for the properties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _core
from ._judged import (
    INDEPENDENCE,
    Ability,
    Arrays,
    Declinable,
    Filter,
    ProcessingStep,
    Promise,
    expect_integer,
    expect_judged,
)
from .verification import VerificationFailed

#: Length of a search in seconds if the caller gives neither `seconds` nor `cases`.
SECONDS = 60.0


@dataclass(frozen=True)
class Finding:
    """A call for which the sampler breaks a property.

    `case` is the number of the call in the search: first_case=case, cases=1 and the same seed find
    the call again, unshrunk. `python_call` is a Python program with the shrunk rows that calls
    sampler(batch); the program needs only NumPy. `c_call` is the same call as a C program, for the
    source of a plugin. The texts `python_call` and `c_call` are empty for calls of more than 4096
    logits.
    """

    property: str
    message: str
    case: int
    original: str
    shrunk: str
    python_call: str
    c_call: str


@dataclass(frozen=True)
class FuzzReport:
    """Result of a search.

    `judged` is the number of properties that held or failed, and `skipped` the number of properties
    that could not be judged. `unconfirmed` is the number of distributions that looked wrong once,
    but not on fresh draws. `incomplete` is the reason why the search ended early (Ctrl-C),
    otherwise empty.
    """

    findings: list[Finding]
    cases: int
    judged: int
    skipped: int
    unconfirmed: int
    seconds: float
    seed: int
    seed_source: str
    incomplete: str = ""

    @property
    def verdict(self) -> str:
        """Returns "passed", "failed", or "underpowered" if nothing was judged or the search is
        incomplete."""
        if self.findings:
            return "failed"
        return "passed" if self.judged and not self.incomplete else "underpowered"

    def raise_for_failures(self) -> None:
        """Raises an exception unless the verdict is "passed".

        Raises:
            VerificationFailed: The verdict is "failed" or "underpowered"; the message names each
                reason.
        """
        if self.verdict == "passed":
            return
        lines = [
            f"{one.property}: {one.message}\n    case {one.case}, shrunk to: {one.shrunk}\n"
            f"{one.python_call}"
            for one in self.findings
        ]
        raise VerificationFailed("\n".join([str(self), *lines]))

    def __str__(self) -> str:
        return (
            f"fuzz: {len(self.findings)} failures, {self.cases} cases, {self.judged} properties "
            f"judged, {self.skipped} skipped; seed {self.seed} ({self.seed_source})"
            f"{'; INCOMPLETE: ' if self.incomplete else ''}{self.incomplete}"
        )


def fuzz(
    sampler: Callable[[Any], Any] | str,
    semantics: str = "fairdraw",
    *,
    seconds: float | None = None,
    cases: int | None = None,
    first_case: int = 0,
    property: str = "*",
    statistical: bool = False,
    keep_going: bool = False,
    name: str | None = None,
    version: str = "",
    arrays: Arrays | None = None,
    device: Any = "cpu",
    abilities: Sequence[Ability] = (),
    lacks: Sequence[Filter | ProcessingStep | Declinable] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    seed: int | None = None,
    seed_from: str | None = None,
) -> FuzzReport:
    """Makes calls that are likely to break a sampler, and judges each call by every property that
    applies. The first failing call ends the search and is shrunk. Raises an exception only for bad
    arguments.

    `seconds` and `cases` are limits after which the search ends (60 seconds if neither is given).
    With `cases` the search is the same on every machine.

    `first_case` is the number of the first case.

    `property` selects the properties to judge by their names; * and ? match any characters (`python
    -m fairdraw fuzz --list` prints the names).

    `statistical` judges the distribution of the draws by evidence, instead of single calls.

    `keep_going` finds the first failure of every property.

    All other arguments mean the same as for `verify`.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A name is unknown, a number is out of its range, or arguments exclude each
            other.
    """
    if seconds is not None and not (isinstance(seconds, int | float) and 0 < seconds < math.inf):
        raise ValueError(f"seconds is {seconds!r}; allowed: a number above 0, or None")
    if cases is not None:
        cases = expect_integer("cases", cases, 1, 2**48, "1 to 2^48")
    first_case = expect_integer("first_case", first_case, 0, 2**48, "0 to 2^48")
    if not isinstance(property, str):
        raise TypeError(f"property is {property!r}; allowed: a string")
    judged = expect_judged(
        sampler,
        semantics,
        name=name,
        version=version,
        arrays=arrays,
        device=device,
        abilities=abilities,
        lacks=lacks,
        randomness=randomness,
        seed=seed,
        seed_from=seed_from,
    )
    del judged["running_batch"]  # a search calls the sampler only with batches
    found = _core.fuzz(
        dict(
            **judged,
            seconds=SECONDS if seconds is None and cases is None else float(seconds or 0),
            cases=2**64 - 1 if cases is None else cases,
            first_case=first_case,
            property=property,
            statistical=bool(statistical),
            keep_going=bool(keep_going),
        )
    )
    findings = [Finding(**one) for one in found.pop("findings")]
    return FuzzReport(findings=findings, **found)
