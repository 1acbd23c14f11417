"""`verify`: the gate on a Python callable, and the report that it leaves."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _core
from .running_batch import RunningBatch

#: What a sampler that draws fresh random numbers keeps without doing anything for it. "replays" (the
#: same seeds and offsets give the same tokens) is a promise that one must mean.
INDEPENDENCE = ("seeds", "offsets", "outputs", "samples")

Verdict = Literal["passed", "failed", "underpowered"]


class VerificationFailed(AssertionError):
    """A case failed, could not be run, or had too few draws. The message names each."""


@dataclass(frozen=True)
class Case:
    """One case of a report. `measures`, `statistic` and others are in `raw`, as in report.json."""

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


class Report:
    """What a run found. The files that `write` makes are those of the command line's verify."""

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
    def failures(self) -> list[Case]:
        """Cases that failed, had too few draws, or could not be run."""
        return [case for case in self.cases if case.red]

    def to_json(self) -> str:
        """report.json; its schema is reports/schema/report.schema.json."""
        return self._json

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Writes index.html, summary.md, junit.xml and report.json into a folder, made if needed."""
        self._record.write(os.fspath(folder))
        return Path(folder)

    def raise_for_failures(self) -> None:
        """VerificationFailed unless the verdict is "passed"."""
        if self.verdict == "passed":
            return
        lines = [
            f"{case.verdict} {case.id}: {case.message}\n    replay: {case.replay}"
            for case in self.failures
        ]
        raise VerificationFailed("\n".join([str(self), *lines]))

    def __str__(self) -> str:
        return self._record.summary()

    def __repr__(self) -> str:
        return f"<fairdraw.Report {self.verdict}: {self}>"


def data_folder() -> Path:
    """Where the captured logits are that ship with the package, or those that FAIRDRAW_DATA names."""
    chosen = os.environ.get("FAIRDRAW_DATA")
    return Path(chosen) if chosen else Path(__file__).parent / "data"


def _captured(logits: Iterable[Any] | None) -> list[tuple[str, str]]:
    if logits is None:
        folder = data_folder()
        return [
            (str(folder / "lm_logits_f32.npy"), ""),
            (str(folder / "lm_logits_bf16_as_u16.npy"), "bfloat16"),
        ]
    files = []
    for entry in logits:
        path, dtype = entry if isinstance(entry, tuple) else (entry, "")
        files.append((os.fspath(path), dtype))
    return files


def case_ids(suite: str = "gate", *, logits: Iterable[Any] | None = None) -> list[str]:
    """Ids of the cases of a suite, in the order of a run. `logits`: as for `verify`."""
    return _core.case_ids(suite, _captured(logits))


def _print_progress(line: str, done: int, all_cases: int) -> None:
    print(f"[{done}/{all_cases}] {line}", file=sys.stderr)


def verify(
    sampler: Callable[[Any], Any] | str | None = None,
    semantics: str = "fairdraw",
    suite: str = "gate",
    *,
    running_batch: Callable[[], RunningBatch] | None = None,
    name: str | None = None,
    version: str = "",
    arrays: Literal["numpy", "torch"] = "numpy",
    abilities: Sequence[str] = (),
    lacks: Sequence[str] = (),
    randomness: Sequence[str] = INDEPENDENCE,
    case: str | None = None,
    logits: Iterable[Any] | None = None,
    seed: int | None = None,
    seed_from: str | None = None,
    jobs: int = 0,
    progress: bool | Callable[[str, int, int], object] = False,
) -> Report:
    """Judges a sampler case by case, and returns the report. Raises only for bad arguments.

    sampler: called as sampler(batch) with a `fairdraw.Batch`; returns token ids, an array or a list
        of integers [outputs] (or [outputs, num_samples]), or the batch itself after writing into
        batch.out_tokens. Arrays of a batch are lent for that call. One call at a time. An exception
        or a bad result fails the case, and the run goes on. Or the name of a built-in sampler, or
        "plugin:PATH" for one in a shared library. None where there is a running batch alone.
    running_batch: called without arguments; makes an object that keeps the requests of a running
        batch (`RunningBatch`), for a case or for one of its calls. Judged by the cases of check
        sequences, which are all cases of a run that has no sampler. With a sampler, "per_request_seeds"
        and no "processing", equal seeds have to give both the same tokens.
    semantics: the profile to judge by, e.g. "vllm_torch" (`python -m fairdraw list profiles`).
    suite: "smoke", "gate" or "nightly".
    arrays: what the arrays of a batch are. bfloat16 logits are uint16 bits in NumPy.
    abilities: what the sampler can do beyond float32 logits with temperature, top_k, top_p and
        min_p; cases that need more are skipped. "float16", "bfloat16", "from_probs", "allowed_mask",
        "indices", "num_samples", "per_request_seeds", "reports_mask", ...: the fields of
        SamplerDescription in harness/contract/sampler.h, which says what each claims. "processing"
        is one of running batches alone.
    lacks: filters that it does not have: "top_k", "top_p", "min_p". Cases that need one are skipped;
        others ask for what is left.
    randomness: which draws it promises to be independent ("seeds", "offsets", "outputs",
        "samples"), and whether equal seeds give equal tokens ("replays").
    case: only the cases whose id matches; * and ? match any characters.
    logits: files of captured logits instead of those of the package: paths, or (path, dtype).
    seed, seed_from: the run's seed, 64 bits, or a text to make it from; by default it comes from the
        commit of the current directory's repository, so that a rerun repeats the run.
    jobs: cases at a time; 0 is one a core.
    progress: True prints a line a case to stderr; a function is called with (line, done, all).
    """
    builtin = isinstance(sampler, str)
    if sampler is None and running_batch is None:
        raise TypeError("sampler: it is missing; a sampler or a running_batch is needed")
    if sampler is not None and not builtin and not callable(sampler):
        raise TypeError(
            f"sampler: a callable or the name of a built-in sampler is needed, not "
            f"{type(sampler).__name__}"
        )
    if running_batch is not None and not callable(running_batch):
        raise TypeError(
            "running_batch: a class or a function that makes a running batch is needed, not "
            f"{type(running_batch).__name__}"
        )
    if running_batch is not None and builtin:
        raise TypeError(
            f"running_batch: it goes with a callable, and sampler is {sampler!r}, which has its own"
        )
    for field, names in (("abilities", abilities), ("lacks", lacks), ("randomness", randomness)):
        if isinstance(names, str):
            raise TypeError(f"{field}: a sequence of names is needed, not one string")
    if jobs < 0:
        raise ValueError(f"jobs is {jobs}; allowed: >= 0")
    if builtin:
        label = str(sampler)
    else:
        judged = running_batch if sampler is None else sampler
        label = name or str(getattr(judged, "__name__", type(judged).__name__))
    record = _core.run(
        function=sampler,
        running_batch=running_batch,
        name=label,
        version=version,
        semantics=semantics,
        suite=suite,
        arrays=arrays,
        abilities=list(abilities),
        lacks=list(lacks),
        randomness=list(randomness),
        logits=_captured(logits),
        case=case,
        seed=None if seed is None else str(seed),
        seed_from=seed_from,
        jobs=jobs,
        progress=_print_progress if progress is True else (progress or None),
    )
    return Report(record)
