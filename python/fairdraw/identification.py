"""Defines `identify`, which finds the definitions that a sampler follows where engines differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    expect_judged,
)


@dataclass(frozen=True)
class Identification:
    """Result of an identification; its `str` is the text that `python -m fairdraw identify` prints.

    `profiles` lists the names of profiles, the closest first. `choices` maps the name of each
    choice on which engines differ to the value that the sampler follows. The value is None if no
    value explains the sampler's answers, or if the answers do not determine the value. `unanswered`
    is the reason why nothing can be said, otherwise empty. The field `raw` has all rows and all
    answers.
    """

    profiles: list[str]
    choices: dict[str, str | None]
    unanswered: str
    raw: dict[str, Any] = field(repr=False)
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


def identify(
    sampler: Callable[[Any], Any] | str,
    semantics: str = "fairdraw",
    *,
    evidence: bool = False,
    name: str | None = None,
    version: str = "",
    arrays: Arrays | None = None,
    device: Any = "cpu",
    abilities: Sequence[Ability] = (),
    lacks: Sequence[Filter | ProcessingStep | Declinable] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    seed: int | None = None,
    seed_from: str | None = None,
) -> Identification:
    """Asks a sampler for tokens of rows on which engines' definitions differ, and finds the
    definitions that the sampler follows.

    `semantics` is the declared profile; the text says where the sampler deviates from the profile,
    and what to change.

    `evidence` adds the rows and the answers for each choice to the text.

    All other arguments mean the same as for `verify`.

    Definition: reference/semantics.h for the choices and the profiles;
    suites/gate/identify/README.md for how a choice is decided.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A name is unknown, a number is out of its range, or arguments exclude each
            other.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
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
    del judged["running_batch"]  # identification calls only the sampler, with rows
    text, found = _core.identify({**judged, "evidence": bool(evidence)})
    raw: dict[str, Any] = json.loads(found)
    return Identification(
        profiles=[one["profile"] for one in raw["profiles"]],
        choices={
            one["choice"]: one["value"] if one["verdict"] == "follows" else None
            for one in raw["choices"]
        },
        unanswered=raw["unanswered"] or "",
        raw=raw,
        text=text.rstrip("\n"),
    )
