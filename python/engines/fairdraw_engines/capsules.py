"""Makes capsules. A capsule holds a small row for each failed case of a matrix, and data for a
script that shows the defect without fairdraw.

A failed case is run again with the same draws, to find the call whose answer is wrong. The call's
row is shrunk while the engine's answer stays wrong in the same way. Cases whose shrunk rows look
alike form one capsule. A capsule is a folder with a page to paste into an issue, and case.json for
the script standalone/show.py, which needs the engine's package, NumPy and perhaps torch. If an
engine's requests are not rows, its `example` is its capsule. The script ends with 1 if the defect
shows, and only then is a capsule kept.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._capsule_text import Capsule, ExampleCapsule, Wrong
from ._engine import DraftEngine, Engine, OperationEngine, RunningEngine, Sampler
from ._one_row import (
    Answer,
    Array,
    Row,
    answer_of,
    call_of,
    expected_of,
    symptoms,
    trait,
    unpacked,
)
from ._packages import Unavailable
from ._shrink_row import complexity, shrink
from .matrix import Record, judge, matching_cases

#: Numbers of draws from a row, which are tried in turn until the symptom shows.
DRAWS = (4, 256, 16384, 262144)
#: Maximum number of rows of a case from which the search draws again, if no single answer is wrong.
MAX_ROWS = 8
#: Pattern that finds the parameters of the wrong request in a message.
PARAMETERS = re.compile(r"\(temperature (\S+), top_k (-?\d+), top_p (\S+), min_p ([^\s)]+)\)")
SCRIPT_SECONDS = 300
#: Path of the script that shows the defect of every capsule.
SHOW = Path(__file__).parent / "standalone" / "show.py"
#: Checks of the sets of tokens that filters keep.
OF_FILTERS = ("mask/", "support/")
REPLAY = re.compile(r"^    python -m fairdraw engines run (\S+) .*--case '([^']+)'", re.MULTILINE)


class NotReduced(Exception):
    """The reason why a failed case has no capsule."""


def _named_parameters(message: str) -> tuple[float, int, float, float] | None:
    found = PARAMETERS.search(message)
    if not found:
        return None
    t, k, p, m = found.groups()
    return float(np.float32(t)), int(k), float(np.float32(p)), float(np.float32(m))


class _Watch:
    """Checks every call of a sampler until the first wrong answer."""

    def __init__(self, sampler: Sampler, profile: str, only: Any) -> None:
        self._sampler, self._profile, self._only = sampler, profile, only
        self.found: Row | None = None
        self.rows: dict[bytes, Row] = {}

    def __call__(self, batch: Any) -> Any:
        result = self._sampler(batch)
        if self.found is None and batch.input == "logits":
            self._look(batch, np.asarray(result).reshape(batch.outputs, batch.num_samples))
        return result

    def _look(self, batch: Any, tokens: Array) -> None:
        logits, rows = call_of(batch)
        kept = None if batch.out_mask is None else unpacked(batch.out_mask, batch.vocab)
        columns = [
            np.asarray(c) for c in (batch.temperature, batch.top_k, batch.top_p, batch.min_p)
        ]
        for number in range(batch.rows):
            parameters = tuple(column[number].item() for column in columns)
            if self._only is not None and parameters != self._only:
                continue
            row = Row(logits[number].copy(), *parameters)
            key = hashlib.sha256(row.logits.tobytes() + repr(parameters).encode()).digest()
            if kept is None and key in self.rows and len(self.rows) > MAX_ROWS:
                continue
            if len(self.rows) <= MAX_ROWS:
                self.rows[key] = row
            answer = Answer(
                None if kept is None else kept[number], tokens[rows == number].reshape(-1)
            )
            if symptoms(expected_of(self._profile, row), answer):
                self.found = row
                return


def _row_of(engine: Engine, profile: str, suite: Any, red: Record, seed: int) -> list[Row]:
    """Returns rows of the case, any of which may show the defect alone. The likeliest row comes
    first."""
    watches: list[_Watch] = []

    def make(own_seed: int) -> Sampler:
        watch = _Watch(engine.make(own_seed), profile, _named_parameters(red["message"]))
        watches.append(watch)
        return watch

    matching_cases(suite, [red["case"]])
    (case,) = judge(dataclasses.replace(engine, make=make), profile, suite, red["case"], seed).cases
    if not case.red:
        raise NotReduced(f"The verdict of the case in a second run is {case.verdict}.")
    found = [watch.found for watch in watches if watch.found is not None]
    return found or [row for watch in watches for row in watch.rows.values()][:MAX_ROWS]


def reduced(
    engine: Engine, profile: str, suite: Any, red: Record, seed: int, seconds: float
) -> Wrong:
    """Reduces the failed case to one small row. Raises NotReduced if no single row shows the
    defect.
    """
    rows = _row_of(engine, profile, suite, red, seed)
    sampler = engine.make(seed)
    for draws in DRAWS:
        for row in rows:
            found = symptoms(expected_of(profile, row), answer_of(engine, sampler, row, draws))
            if found:
                symptom = next(iter(found))
                small = _smallest(engine, profile, sampler, row, draws, symptom, seconds)
                return Wrong(engine, profile, small, draws, symptom)
    raise NotReduced("No single row of the case shows the defect.")


def _smallest(
    engine: Engine,
    profile: str,
    sampler: Sampler,
    row: Row,
    draws: int,
    symptom: str,
    seconds: float,
) -> Row:
    unusual = trait(row)

    def fails(one: Row) -> bool:
        if trait(one) != unusual:
            return False
        try:
            answer = answer_of(engine, sampler, one, draws)
        except Exception:  # the engine raised because it refuses the request
            return False
        return symptom in symptoms(expected_of(profile, one), answer)

    return shrink(row, fails, seconds)


def write(capsule: Capsule | ExampleCapsule, folder: Path) -> None:
    """Writes the capsule's folder after running the script SHOW on the capsule. Raises NotReduced
    if SHOW does not show the defect.

    An older capsule of the same name is replaced only if the script shows the new capsule's defect.
    """
    text = capsule.sentence()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "case.json"
        file.write_text(capsule.case(text))
        ran = subprocess.run(
            [sys.executable, "-B", SHOW, file], capture_output=True, text=True, timeout=SCRIPT_SECONDS,
            check=False,
        )  # fmt: skip
        if ran.returncode != 1 or not ran.stdout.strip() or ran.stdout == "right\n":
            last = (ran.stderr.strip().splitlines() or [ran.stdout.strip()])[-1]
            raise NotReduced(
                f"The script ended with exit code {ran.returncode} and printed `{last}`."
            )
        target = folder / capsule.name
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target / "case.json")
    (target / "issue.md").write_text(capsule.page(text, ran.stdout))


def _red_cases(matrix: Record) -> set[tuple[str, str]]:
    """Returns (engine, case) for each failed case in any record of the engine."""
    return {
        (record["engine"], red["case"])
        for record in matrix["engines"]
        for red in record["red"]
        if red["verdict"] == "failed"
    }


def collect(
    matrix: Record, engines: Mapping[str, Engine], seconds: float = 20
) -> tuple[list[Capsule | ExampleCapsule], list[tuple[Record, str, Record]]]:
    """Returns the capsules of a matrix's failed cases. Also returns (record, reason, failed case)
    for each case without a capsule."""
    capsules: dict[Any, Capsule | ExampleCapsule] = {}
    left: list[tuple[Record, str, Record]] = []
    failed = _red_cases(matrix)
    for record in matrix["engines"]:
        engine = engines.get(record["engine"])
        for red in record["red"]:
            try:
                if engine is None:
                    raise NotReduced("There is no engine of this name.")
                if red["verdict"] != "failed":
                    raise NotReduced(f"The verdict of the case is {red['verdict']}, not failed.")
                if (engine.filter_of, red["case"]) in failed and red["case"].startswith(OF_FILTERS):
                    raise NotReduced(
                        f"The case also fails for {engine.filter_of}, which has the same filter."
                    )
                if isinstance(engine, OperationEngine):
                    raise NotReduced("An operation on rows has neither a mask nor draws.")
                if isinstance(engine, DraftEngine | RunningEngine) and not engine.example:
                    raise NotReduced("A row alone shows no defect that needs drafts or histories.")
                if engine.standalone is None:
                    raise NotReduced("The script `show.py` cannot call this engine.")
                version = engine.version()
                capsule: Capsule | ExampleCapsule
                if engine.example:
                    capsule = ExampleCapsule(engine, [red], version)
                else:
                    arguments = (record["semantics"], record["suite"], red, record["seed"], seconds)
                    capsule = Capsule(reduced(engine, *arguments), [red], version)
            except (NotReduced, Unavailable) as reason:
                left.append((record, str(reason), red))
                continue
            same = capsules.setdefault(capsule.key, capsule)
            if same is not capsule:
                same.cases.append(red)
                if not isinstance(same, Capsule) or not isinstance(capsule, Capsule):
                    continue
                if complexity(capsule.wrong.row) < complexity(same.wrong.row):
                    same.wrong = capsule.wrong
            print(f"{record['engine']} {red['case']}: {same.name}", file=sys.stderr, flush=True)
    return list(capsules.values()), left


def _pages(folder: Path) -> dict[str, tuple[str, int]]:
    """Maps each capsule in a folder, by its name, to (the sentence that names the error, number of
    failed cases)."""
    found = {}
    for file in sorted(folder.glob("*/issue.md")):
        text = file.read_text()
        found[file.parent.name] = (
            text.splitlines()[0].removeprefix("# "),
            len(REPLAY.findall(text)),
        )
    return found


def index_page(folder: Path, left: Sequence[tuple[str, str, str]]) -> str:
    """Returns the text of the page that lists a folder's capsules, and (engine, case, reason) of
    the cases without a capsule."""
    lines = [
        "# Capsules",
        "",
        "`python -m fairdraw engines capsules` writes this page. A capsule is a folder that shows a",
        "defect of a sampler with one row or one call, to be attached to an issue. Each capsule stands",
        "for failed cases of the [conformance matrix](../conformance.md).",
        "",
        "A capsule has a page and the file `case.json` for the script",
        "`python/engines/fairdraw_engines/standalone/show.py`. The script needs only the engine's package.",
        "For a rule that is written from an engine's source, the script needs only `rules.py` in the same",
        "folder. For each capsule, `python show.py case.json` was run and showed the defect.",
        "",
        "| capsule | failed cases | defect |",
        "|---|---|---|",
    ]
    for name, (text, count) in _pages(folder).items():
        lines.append(f"| [`{name}`]({name}/issue.md) | {count} | {text} |")
    if left:
        lines += [
            "",
            "These cases of the matrix have no capsule:",
            "",
            "| engine | case | reason |",
            "|---|---|---|",
        ]
        lines += [f"| {engine} | `{case}` | {why} |" for engine, case, why in sorted(left)]
    return "\n".join(lines) + "\n"


def _left_before(page: str, again: Sequence[str]) -> list[tuple[str, str, str]]:
    """Returns the cases that the page lists as having no capsule, except those of the engines
    `again`.
    """
    rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| (.*) \|$", page, re.MULTILINE)
    return [row for row in rows if row[0] not in again]


def write_all(
    matrix: Record, engines: Mapping[str, Engine], folder: Path, seconds: float = 20
) -> Path:
    """Writes the capsules of a matrix, one folder per capsule, and the page that lists them.
    Returns the page's path.

    Older capsules in the folder stay if they belong to other engines. Older capsules also stay if
    one of their cases failed in the matrix and is in no new capsule (the case may need another
    machine). Several processes may write the capsules of different engines into one folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [r["engine"] for r in matrix["engines"] if not r["skipped_because"]]
    older = [
        entry
        for entry in folder.iterdir()
        if entry.is_dir() and entry.name.partition("-")[0] in names
    ]
    capsules, without = collect(matrix, engines, seconds)
    reasons = {(record["engine"], red["case"]): why for record, why, red in without}
    shown: set[tuple[str, str]] = set()
    written = set()
    for capsule in capsules:
        cases = [(capsule.engine.name, red["case"]) for red in capsule.cases]
        try:
            write(capsule, folder)
        except NotReduced as reason:
            reasons |= dict.fromkeys(cases, str(reason))
        else:
            shown.update(cases)
            written.add(capsule.name)
    red = _red_cases(matrix)
    for old in older:
        if old.name in written:
            continue
        page_file = old / "issue.md"
        still = set(REPLAY.findall(page_file.read_text()) if page_file.exists() else ()) & red
        if still <= shown:
            shutil.rmtree(old)
        else:
            shown |= still
    left = [
        (engine, case, why)
        for (engine, case), why in reasons.items()
        if (engine, case) not in shown
    ]
    index = folder / "README.md"
    with index.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        left += _left_before(file.read(), names)
        file.truncate(0)
        file.write(index_page(folder, left))
    return index
