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
            f"{_subject(wrong.engine)} {what}, in a row of {size} with {trait(wrong.row)} and "
            f"{_parameters(wrong.row)}."
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
            right = "no token, or one that the filters of the same call keep"
        elif wrong.symptom == "counts":
            right = "draws by the softmax of what the filters leave"
        else:
            low, high = expected["fewest"], expected["most"]
            size = f"{low}" if low == high else f"{low} to {high}"
            right = f"{size} stay, of {_some(expected['may_be_kept'])}"
        asked = [f"- logits: `{_array(row.logits)}`", f"- {_parameters(row)}"]
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
        asked = [f"- {name}: `{json.dumps(value)}`" for name, value in example["call"].items()]
        return _page(self, text, asked, example["right"], output)


def _subject(engine: Engine) -> str:
    return engine.calls.partition(":")[0]


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
    needs = "rules.py beside it" if engine.source else "the engine's package alone"
    lines = [
        f"# {text}",
        "",
        f"- versions: {capsule.version}",
        f"- calls: {engine.calls}",
        *([f"- source: <{engine.source}>"] if engine.source else []),
        *asked,
        f"- expected: {right}",
        f"- got: {'; '.join(output.strip().splitlines())}",
        "",
        "`python show.py case.json` shows it and ends with 1: fairdraw's `standalone/show.py`, which needs",
        f"{needs}. fairdraw found it by:",
        "",
    ]
    lines += [f"    {red['replay']}" for red in capsule.cases]
    return "\n".join(lines) + "\n"


def _parameters(row: Row) -> str:
    named = [f"temperature {as_text(row.temperature)}"]
    named += [f"top_k {row.top_k}"] if row.top_k else []
    named += [f"top_p {as_text(row.top_p)}"] if row.top_p != 1 else []
    named += [f"min_p {as_text(row.min_p)}"] if row.min_p else []
    return ", ".join(named)


def _number(value: float) -> float | str:
    """Returns the shortest number that rounds to the same float32, or a name if the value is not
    finite."""
    text = as_text(value)
    return float(text) if np.isfinite(value) else text


def _some(ids: Sequence[int]) -> str:
    return f"{list(ids[:8])}{' and more' if len(ids) > 8 else ''}"


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
