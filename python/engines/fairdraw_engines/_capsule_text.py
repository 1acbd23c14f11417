"""Writes the pages of capsules. A capsule is a small row for which an engine gives a wrong answer,
or an example in the engine's own form."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ._engine import Engine
from ._one_row import Row, answer_of, counts_allowed, expected_of, symptoms, trait
from ._shrink_row import as_text

Record = dict[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Wrong:
    """A row for which an engine gives a wrong answer, and the symptom of that answer."""

    engine: Engine
    profile: str
    row: Row
    draws: int
    symptom: str


@dataclasses.dataclass(eq=False)
class Capsule:
    wrong: Wrong
    cases: list[Record]  # the failed cases that the capsule represents, as in the matrix
    version: str

    @property
    def engine(self) -> Engine:
        return self.wrong.engine

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The key that all failed cases of one capsule share."""
        wrong = self.wrong
        # A draw of a token outside its mask has the same cause for every kind of filter that made
        # the mask.
        filters = [] if wrong.symptom == "leaves_mask" else wrong.row.filters()
        return (
            wrong.engine.name,
            wrong.profile,
            wrong.symptom,
            trait(wrong.row),
            "+".join(filters),
        )

    @property
    def name(self) -> str:
        """The name of the capsule's folder."""
        engine, profile, symptom, unusual, filters = self.key
        words = re.findall("[a-z0-9]+", unusual.lower())[:4]
        other = "" if self.wrong.profile == self.wrong.engine.semantics else f"-{profile}"
        ends = f"-{filters}" if filters else ""
        return f"{engine}{other}-{symptom}-{'_'.join(words)}{ends}"

    def sentence(self) -> str:
        """Says in one sentence of plain English which answer is wrong."""
        wrong = self.wrong
        expected = expected_of(wrong.profile, wrong.row)
        answer = answer_of(wrong.engine, wrong.engine.make(1), wrong.row, wrong.draws)
        what = symptoms(expected, answer).get(wrong.symptom, wrong.symptom)
        size = f"{wrong.row.vocab} token{'s' if wrong.row.vocab > 1 else ''}"
        return (
            f"Given a row of {size} with {trait(wrong.row)}, at {_parameters(wrong.row)}, "
            f"{_in_sentence(_subject(wrong.engine))} {what}."
        )

    def case(self, text: str) -> str:
        """Returns the JSON for the script: the engine's call, the row, and the expected result."""
        wrong = self.wrong
        row, expected = wrong.row, expected_of(wrong.profile, wrong.row)
        judged = expected["defined"] and not expected["must_fail"]
        counted = judged and wrong.symptom == "counts"
        counts = counts_allowed(expected, wrong.draws) if counted else {}
        call = {
            "logits": [_number(value) for value in row.logits],
            "temperature": _number(row.temperature),
            "top_k": row.top_k,
            "top_p": _number(row.top_p),
            "min_p": _number(row.min_p),
            "draws": wrong.draws,
            **wrong.engine.settings,
        }
        allowed = {
            "kept": expected["kept"] if judged else None,
            **{name: expected[name] for name in ("may_be_kept", "fewest", "most", "must_fail")},
            "counts": [[token, *bounds] for token, bounds in list(counts.items())[:64]],
        }
        return _json(wrong.engine, text, self.version, call, allowed)

    def page(self, text: str, output: str) -> str:
        """Returns the capsule's Markdown page, with the script's output."""
        wrong = self.wrong
        row, expected = wrong.row, expected_of(wrong.profile, wrong.row)
        judged = expected["defined"] and not expected["must_fail"]
        if not judged:
            right = "A right sampler draws no token, or a token that its own filters keep."
        elif wrong.symptom == "counts":
            right = "A right sampler draws the kept tokens in proportion to their softmax."
        else:
            right = _right_size(expected["fewest"], expected["most"], expected["may_be_kept"])
        asked = [
            f"- The logits of the row are `{_array(row.logits)}`.",
            f"- The row is sampled at {_parameters(row)}.",
        ]
        return _page(self, text, asked, right, output)


@dataclasses.dataclass(eq=False)
class ExampleCapsule:
    """The capsule of an engine whose requests are not rows. The engine's own `example` shows the
    defect."""

    engine: Engine
    cases: list[Record]
    version: str

    @property
    def key(self) -> tuple[str, str]:
        return self.engine.name, "example"

    @property
    def name(self) -> str:
        return f"{self.engine.name}-example"

    def sentence(self) -> str:
        return f"{_subject(self.engine)} {self.engine.example['what']}."

    def case(self, text: str) -> str:
        example = self.engine.example
        call = {**example["call"], **self.engine.settings}
        return _json(self.engine, text, self.version, call, example["expected"])

    def page(self, text: str, output: str) -> str:
        example = self.engine.example
        asked = [
            f"- The argument `{name}` is `{json.dumps(value)}`."
            for name, value in example["call"].items()
        ]
        return _page(self, text, asked, example["right"], output)


def _subject(engine: Engine) -> str:
    return engine.calls.partition(":")[0]


def _in_sentence(subject: str) -> str:
    """Returns a subject that begins with "A" in the form that it has within a sentence."""
    return f"a {subject[2:]}" if subject.startswith("A ") else subject


def _right_size(fewest: int, most: int, candidates: Sequence[int]) -> str:
    """Says in a sentence how many tokens right filters keep, and which tokens these may be."""
    if fewest == most == len(candidates) == 1:
        return f"Right filters keep only token {candidates[0]}."
    named = candidates if len(candidates) <= 8 else [*candidates[:8], "others"]
    if fewest == len(candidates):
        return f"Right filters keep exactly these {fewest} tokens: {_and(named)}."
    size = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"Right filters keep {size} of these {len(candidates)} tokens: {_and(named)}."


def _and(words: Sequence[Any]) -> str:
    """Joins words as in a sentence: "1, 2 and 3"."""
    *first, last = map(str, words)
    return f"{', '.join(first)} and {last}" if first else last


def _json(
    engine: Engine, text: str, version: str, call: Record, expected: Mapping[str, Any]
) -> str:
    fields = {
        "text": text,
        "seen_with": version,
        "answer": engine.standalone,
        "call": call,
        "expected": expected,
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _page(
    capsule: Capsule | ExampleCapsule, text: str, asked: Sequence[str], right: str, output: str
) -> str:
    engine = capsule.engine
    needs = "`rules.py` in the same folder" if engine.source else "the engine's package"
    subject, _, details = _in_sentence(engine.calls).partition(": ")
    lines = [
        f"# {text}",
        "",
        f"- The defect was seen with {capsule.version}.",
        f"- The code under test is {subject}{f' ({details})' if details else ''}.",
        *([f"- The rule follows the source code at <{engine.source}>."] if engine.source else []),
        *asked,
        f"- {right}",
        f"- The answer is wrong. {' '.join(output.strip().splitlines())}",
        "",
        "`python show.py case.json` shows the defect, and ends with exit code 1. The script is fairdraw's",
        f"`standalone/show.py`, which needs only {needs}.",
        "These commands of fairdraw run the cases that found the defect:",
        "",
    ]
    lines += [f"    {red['replay']}" for red in capsule.cases]
    return "\n".join(lines) + "\n"


def _parameters(row: Row) -> str:
    named = [f"temperature {as_text(row.temperature)}"]
    named += [f"top_k {row.top_k}"] if row.top_k else []
    named += [f"top_p {as_text(row.top_p)}"] if row.top_p != 1 else []
    named += [f"min_p {as_text(row.min_p)}"] if row.min_p else []
    return _and(named)


def _number(value: float) -> float | str:
    """Returns the shortest number that rounds to the same float32, or a name if the value is not
    finite."""
    text = as_text(value)
    return float(text) if np.isfinite(value) else text


def _array(values: Iterable[float]) -> str:
    """Returns a Python expression for float32 values, in which runs of equal values are joined."""
    parts: list[tuple[str, int]] = []
    for value in values:
        text = as_text(value)
        if parts and parts[-1][0] == text:
            parts[-1] = (text, parts[-1][1] + 1)
        else:
            parts.append((text, 1))
    if all(count < 4 for _, count in parts):
        return f"[{', '.join(text for text, count in parts for _ in range(count))}]"
    return " + ".join(f"[{text}]" + (f" * {count}" if count > 1 else "") for text, count in parts)
