"""`identify`: which definitions a sampler follows where engines differ."""

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
    Promise,
    expect_judged,
)


@dataclass(frozen=True)
class Identification:
    """Result of an identification; `str` of it is what `python -m fairdraw identify` prints.

    profiles: names of profiles, the closest first. choices: of each choice on which engines differ,
    by its name, the value that the sampler follows; None where none explains what it did, or none can
    be told. unanswered: why nothing can be said; empty: it can. raw: everything that was asked and
    seen."""

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
    lacks: Sequence[Filter | Declinable] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    seed: int | None = None,
    seed_from: str | None = None,
) -> Identification:
    """Asks a sampler for rows on which the definitions of engines differ, and says which it follows.

    semantics: the profile that it declares; the text says where it does otherwise, and what to change.
    evidence: the text has what was asked and seen for each choice.
    All others: as for `verify`.
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
    del judged["running_batch"]  # rows alone are asked
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
