"""Defines `verify`, the statistical gate for a Python callable, and the report that it returns.

Definition: the profile that is named by `semantics` (docs/semantics.md, reference/semantics.h);
harness/statistics/README.md for the statistics.
"""

from __future__ import annotations

import html
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _core
from ._core import cause_text, expected_row, operation_names, profile_names, suite_names
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
    expect_name,
    expect_names,
    expect_text,
    expression,
    given,
    replay_call,
)
from .running_batch import RunningBatch

__all__ = [
    "Ability",
    "Arrays",
    "Case",
    "Cause",
    "Declinable",
    "Filter",
    "ProcessingStep",
    "Promise",
    "Report",
    "Suite",
    "VerificationFailed",
    "Verdict",
    "case_ids",
    "cause_text",
    "data_folder",
    "expected_row",
    "operation_names",
    "profile_names",
    "suite_names",
    "verify",
]

# Plugins are judged in a separate process, which is a new instance of this Python interpreter.
_core.set_plugin_host([sys.executable, "-m", "fairdraw", "plugin-host"])

Suite = Literal["smoke", "gate", "nightly"]
Verdict = Literal["passed", "failed", "underpowered"]


class VerificationFailed(AssertionError):
    """Raised if a case failed, could not be run, or had too few draws. The message names each of
    these cases."""


@dataclass(frozen=True)
class Case:
    """One case in a report of the gate. `measures`, `statistic` and further fields are in `raw`, in
    the form of report.json.
    """

    id: str
    check: str
    verdict: Literal["passed", "failed", "underpowered", "skipped", "error"]
    message: str
    replay: str
    draws: int
    seconds: float
    raw: dict[str, Any]

    @property
    def red(self) -> bool:
        return self.verdict not in ("passed", "skipped")


@dataclass(frozen=True)
class Cause:
    """The cause of failed cases: the sampler's behaviour, the change to make, the evidence for the
    cause, and the ids of the cases that the cause explains."""

    name: str
    sentence: str
    change: str
    reason: str
    cases: list[str]


class Report:
    """Result of a run. `write` makes the same files as the verify command of the command line."""

    def __init__(self, record: _core.RunRecord) -> None:
        self._record = record
        self._json = record.to_json()
        self.raw: dict[str, Any] = json.loads(self._json)
        self.verdict: Verdict = record.verdict
        self.exit_code: int = record.exit_code
        self.cases = [
            Case(
                id=case["id"],
                check=case["check"],
                verdict=case["verdict"],
                message=case["message"],
                replay=case["replay"],
                draws=int(case["draws"]),
                seconds=case["seconds"],
                raw=case,
            )
            for case in self.raw["cases"]
        ]

    @property
    def causes(self) -> list[Cause]:
        """Causes of the failed cases, starting with the cause that explains most cases. Each failed
        case belongs to exactly one cause."""
        return [Cause(**cause) for cause in self.raw.get("causes", [])]

    @property
    def groups(self) -> list[tuple[str, list[str]]]:
        """Failed cases, grouped by their lines in `str`. A group has its lines and the ids of its
        cases."""
        return self._record.groups()

    @property
    def unmet(self) -> list[str]:
        """Lists the requirements that the run did not judge, in sentences."""
        return self._record.unmet()

    @property
    def incomplete(self) -> str:
        """The reason why the run ended before all of its cases had run, otherwise empty."""
        reason: str = self.raw.get("incomplete", "")
        return reason

    @property
    def coverage(self) -> dict[str, Any]:
        """Coverage of the run, as in report.json: `cases`, `ran`, `features` and, in `undeclared`,
        the abilities that the sampler's author should declare next. The coverage is empty if no
        case states the features that it exercises."""
        found: list[dict[str, Any]] = self.raw.get("coverage", [])
        return found[0] if found else {}

    @property
    def not_judged(self) -> list[str]:
        """Features that the run requires but did not judge."""
        return [
            feature["name"]
            for feature in self.coverage.get("features", [])
            if not feature["judged"] and not feature["claim"]
        ]

    @property
    def failures(self) -> list[Case]:
        """Cases that failed, had too few draws, or could not be run."""
        return [case for case in self.cases if case.red]

    def to_json(self) -> str:
        """Returns the text of report.json, whose schema is reports/schema/report.schema.json."""
        return self._json

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Writes index.html, summary.md, junit.xml and report.json into a folder, which is made if
        needed.

        Raises:
            RuntimeError: A file cannot be written; the message names the file and the reason.
        """
        self._record.write(os.fspath(folder))
        return Path(folder)

    def raise_for_failures(self) -> None:
        """Raises an exception unless the verdict is "passed".

        Raises:
            VerificationFailed: The verdict is "failed" or "underpowered"; the message names each
                reason.
        """
        if self.verdict == "passed":
            return
        raise VerificationFailed(str(self))

    def __str__(self) -> str:
        """Returns the text that a terminal prints for this run. The text has the causes, with cases
        of each cause and a call that repeats a case; the requirements that were not judged; and the
        number of cases by verdict."""
        return self._record.text()

    def __repr__(self) -> str:
        return f"<fairdraw.Report {self.verdict}: {self._record.summary()}>"

    def _repr_html_(self) -> str:
        """Returns HTML for a notebook: the headline of the page that `write` makes, and the text
        below the headline."""
        colour = {"passed": "#1a7f37", "failed": "#cf222e"}.get(self.verdict, "#9a6700")
        return (
            f'<div class="fairdraw-report"><p style="border-left: 4px solid {colour}; padding-left: '
            f'8px"><b>{html.escape(self._record.headline())}</b></p>'
            f'<pre style="white-space: pre-wrap">{html.escape(str(self))}</pre></div>'
        )


def merged(records: list[str], require: list[str], max_skipped: float | None) -> Report:
    """Merges reports of several cases, given as the text of report.json. The reports have the same
    sampler, suite and seed."""
    return Report(_core.merged(records, require, max_skipped))


def data_folder() -> Path:
    """Returns the folder of captured logits: FAIRDRAW_DATA, or the folder in the package."""
    chosen = os.environ.get("FAIRDRAW_DATA")
    return Path(chosen) if chosen else Path(__file__).parent / "data"


def _captured(logits: Iterable[Any] | None) -> list[tuple[str, str]]:
    if logits is None:
        folder = data_folder()
        return [
            (str(folder / "lm_logits_f32.npy"), ""),
            (str(folder / "lm_logits_bf16_as_u16.npy"), "bfloat16"),
        ]
    if isinstance(logits, str | os.PathLike) or not isinstance(logits, Iterable):
        raise TypeError(f"logits is {logits!r}; allowed: a sequence of paths, or None")
    files = []
    for place, entry in enumerate(logits):
        path, dtype = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, "")
        if not isinstance(path, str | os.PathLike) or not isinstance(dtype, str):
            raise TypeError(f"logits[{place}] is {entry!r}; allowed: a path, or (path, dtype)")
        files.append((os.fspath(path), dtype))
    return files


def case_ids(suite: Suite = "gate", *, logits: Iterable[Any] | None = None) -> list[str]:
    """Returns the ids of a suite's cases, in the order in which a run judges the cases. `logits`
    has the same meaning as for `verify`.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: The name of the suite is unknown, or a file of `logits` cannot be read.
    """
    expect_name("suite", suite, _core.suite_names())
    return _core.case_ids(suite, _captured(logits))


def _print_progress(line: str, done: int, all_cases: int) -> None:
    print(f"[{done}/{all_cases}] {line}", file=sys.stderr)


class _ProgressLine:
    """One line on a terminal that shows the progress of the run, and disappears at the run's
    end."""

    PAUSE = 0.1  #: seconds between two updates of the progress line

    def __init__(self) -> None:
        self._red = 0
        self._shown = 0.0

    def __call__(self, line: str, done: int, all_cases: int) -> None:
        self._red += line.startswith(("failed", "error"))
        now = time.monotonic()
        if now - self._shown >= self.PAUSE:
            self._shown = now
            print(f"\r\x1b[K[{done}/{all_cases}] {self._red} failed", end="", file=sys.stderr)
            sys.stderr.flush()

    def close(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr)
            sys.stderr.flush()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # the stream is None (there is no console) or closed
        return False


#: Default values of a run's arguments.
_NOTHING: dict[str, Any] = dict(
    **dict.fromkeys(("function", "running_batch", "max_skipped")),
    **dict.fromkeys(("abilities", "lacks", "randomness", "logits", "require"), ()),
    **dict.fromkeys(("operations", "drafts"), {}),
    shard="1/1",
    keep_dtype=False,
)


def run(suite: Any, case: Any, jobs: Any, progress: Any, **judged: Any) -> Report:
    """Runs the compiled module on the judged sampler, and returns the report."""
    expect_name("suite", suite, _core.suite_names())
    if case is not None:
        expect_text("case", case, "a string, or None")
    jobs = expect_integer("jobs", jobs, 0, 2**32 - 1, ">= 0 (0: one per core)")
    if progress not in (True, False, None) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; allowed: True, False, None, or a function")
    line = _ProgressLine() if progress is None and _is_terminal(sys.stderr) else None
    tell = _print_progress if progress is True else (progress or line)
    own = {"suite": suite, "case": case, "jobs": jobs, "progress": tell}
    try:
        return Report(_core.run({**_NOTHING, **judged, **own}))
    finally:
        if line is not None:
            line.close()


def expect_coverage(require: Any, max_skipped: Any) -> tuple[list[str], float | None]:
    """Returns the required features, each feature once, and the percentage of cases that may be
    skipped, in the form that verify takes."""
    features = expect_names("require", require, _core.feature_names())
    for place, name in enumerate(features):
        if name in features[:place]:
            raise ValueError(f"require[{place}] is {name!r}; allowed: each feature once")
    if max_skipped is None:
        return features, None
    try:
        percent = float(max_skipped)
    except (TypeError, ValueError):
        raise TypeError(
            f"max_skipped is {max_skipped!r}; allowed: a percentage from 0 to 100, or None"
        ) from None
    if not 0 <= percent <= 100:
        raise ValueError(f"max_skipped is {max_skipped!r}; allowed: 0 to 100")
    return features, percent


def verify(
    sampler: Callable[[Any], Any] | str | None = None,
    semantics: str = "fairdraw",
    suite: Suite = "gate",
    *,
    running_batch: Callable[[], RunningBatch] | None = None,
    name: str | None = None,
    version: str = "",
    arrays: Arrays | None = None,
    device: Any = "cpu",
    abilities: Sequence[Ability] = (),
    lacks: Sequence[Filter | ProcessingStep | Declinable] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    case: str | None = None,
    logits: Iterable[Any] | None = None,
    seed: int | None = None,
    seed_from: str | None = None,
    require: Sequence[str] = (),
    max_skipped: float | None = None,
    shard: str = "1/1",
    jobs: int = 0,
    progress: bool | Callable[[str, int, int], object] | None = None,
) -> Report:
    """Judges a sampler case by case, and returns the report. Raises an exception only for bad
    arguments.

    Ctrl-C ends the run. The report then has the cases that had finished, its `incomplete` says that
    the report is partial, and its verdict is never "passed".

    `sampler` is a callable that gets a `fairdraw.Batch`. The callable returns token ids, as an
    array or a list of integers [outputs] (or [outputs, num_samples]), or the batch itself after
    writing into batch.out_tokens. Arrays of a batch are lent for that call. The function never runs
    twice at the same time. An exception or a bad result fails the case, and the run goes on.
    `sampler` may also be the name of a built-in sampler, or "plugin:PATH" for a sampler in a shared
    library. `sampler` is None if only a running batch is judged.

    `running_batch` is called without arguments, and makes an object that keeps the requests of a
    running batch (`RunningBatch`), for a case or for one of its calls. The object is judged by the
    cases of check sequences; without a sampler the run has only these cases. With a sampler,
    "per_request_seeds" and no "processing", equal seeds must give the same tokens in the sampler
    and in the running batch.

    `semantics` is the profile to judge by, such as "vllm_torch" (`python -m fairdraw list
    profiles`). Deviations may follow the profile's name, written as a plugin does:
    "vllm_torch,top_k_ties=any_k,greedy_below=1e-5".

    `suite` is "smoke", "gate" or "nightly".

    `arrays` is the type of the arrays of a batch: "numpy", or "torch", which is the default on a
    GPU. In NumPy, bfloat16 logits are given as their bits, in uint16.

    `device` is the device of the arrays: "cpu", "cuda", "cuda:1", or a torch.device. On a GPU the
    arrays are copies, made when they are first read, so that the judge does not see writes into
    inputs; the GPU is the current device during a call. Tokens, and values written into out_*
    tensors, are copied back.

    `abilities` lists the abilities of the sampler (`Ability`) beyond float32 logits with
    temperature, top_k, top_p and min_p. Cases that need another ability are skipped. A sampler that
    marks tokens names its schemes: "marks_by_key", "marks_by_key_and_seed", "marks_green_lists".
    Only such a sampler gets batches with `mark_key` (harness/contract/batch.h). A sampler with
    "processing" gets batches whose `processing` has a `RequestProcessing` for each row; with
    "top_n_sigma", "probability_filters" and "history_rules" they have these, too. With a
    `running_batch` these four are abilities of the running batch, and its requests have the
    processing.

    `lacks` lists filters that the sampler does not have: "top_k", "top_p", "min_p". Cases that need
    one of these filters are skipped, and other cases use the remaining filters. `lacks` also names
    steps of processing (`ProcessingStep`) that a sampler with "processing" does not have, which are
    left out, as the messages of the cases of check processing say; and it lists promises that the
    sampler declines: "bad_rows" if its caller refuses bad rows, and "flush_modes" if the sampler
    computes in its caller's FTZ and DAZ. A declined promise is not judged, and the report says so.

    `randomness` lists the draws that the sampler promises to be independent: draws with different
    "seeds", "offsets", "outputs" or "samples". "replays" promises that equal seeds give equal
    tokens.

    `case` selects the cases whose id matches; * and ? match any characters.

    `logits` lists files of captured logits to use instead of the package's files: paths, or (path,
    dtype).

    `seed` is the run's seed of 64 bits, and `seed_from` a text to make the seed from. By default
    the seed comes from the commit of the current directory's repository, so that a rerun repeats
    the run.

    `require` lists features that must be judged (`python -m fairdraw list features`). If one of the
    features was not judged, the verdict is "underpowered".

    `max_skipped` is the percentage of cases that may be skipped. If more cases are skipped, the
    verdict is "underpowered".

    `shard` "I/N" runs part I of N of the run, for one process per GPU or for many machines. `python
    -m fairdraw merge` joins the parts.

    `jobs` is the number of cases that run at a time; 0 runs one case per core.

    `progress` None shows a progress line on stderr if stderr is a terminal, and nothing otherwise.
    True prints a line per case on stderr. A function is called with (line, done, all).

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A name is unknown, a number is out of its range, no case matches, a file cannot
            be read, a plugin's file changes during the run, or arguments exclude each other.
    """
    if sampler is None and running_batch is None:
        raise TypeError("sampler: is missing; a sampler or a running_batch is needed")
    judged = expect_judged(
        sampler,
        semantics,
        running_batch=running_batch,
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
    expect_text("shard", shard, '"I/N"')
    features, most = expect_coverage(require, max_skipped)
    if shard != "1/1" and (features or most is not None):
        raise ValueError(
            f"{'require' if features else 'max_skipped'}: shard is {shard!r}, but a part of a run does "
            "not show which features the whole run judges; give this argument to "
            "`python -m fairdraw merge`"
        )
    captured = _captured(logits)
    modules: list[str] = []
    who = [] if sampler is None else [expression(sampler, name, modules)]
    if running_batch is not None:
        who.append("running_batch=" + expression(running_batch, name, modules))
    return run(
        **judged,
        replay=replay_call(
            "verify",
            ", ".join(who),
            modules,
            {"semantics": semantics, "suite": suite},
            given(
                name=name,
                version=version,
                arrays=arrays,
                device=str(device),
                abilities=judged["abilities"],
                lacks=judged["lacks"],
                randomness=judged["randomness"],
                logits=None if logits is None else captured,
            ),
        ),
        suite=suite,
        logits=captured,
        case=case,
        shard=shard,
        require=features,
        max_skipped=most,
        jobs=jobs,
        progress=progress,
    )
