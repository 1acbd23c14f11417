"""`verify`: the gate on a Python callable, and the report that it leaves."""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from . import _core
from ._device_calls import DeviceFunction, device_running_batch
from .running_batch import RunningBatch
from .sampling import unknown_name

# A plugin is judged in a process of its own, which is this interpreter started afresh.
_core.set_plugin_host([sys.executable, "-m", "fairdraw", "plugin-host"])

Suite = Literal["smoke", "gate", "nightly"]
Arrays = Literal["numpy", "torch"]
#: What a sampler can do beyond float32 logits with temperature, top_k, top_p and min_p: the fields of
#: SamplerDescription in harness/contract/sampler.h, which says what each claims. "processing" is one
#: of running batches alone.
Ability = Literal[
    "active_rows",
    "allowed_mask",
    "bfloat16",
    "exact_integer",
    "float16",
    "from_probs",
    "from_probs_all_filters",
    "indices",
    "joint_order",
    "lowest_id_ties",
    "num_samples",
    "per_request_seeds",
    "processing",
    "ranks_at_least",
    "ranks_position",
    "reports_logprobs",
    "reports_mask",
    "reports_probs",
    "reports_processed",
    "reports_raw",
    "reports_status",
    "reports_support",
    "scripted_words",
]
Filter = Literal["min_p", "top_k", "top_p"]
Promise = Literal["offsets", "outputs", "replays", "samples", "seeds"]

#: What a sampler that draws fresh random numbers keeps without doing anything for it. "replays" (the
#: same seeds and offsets give the same tokens) is a promise that one must mean.
INDEPENDENCE: tuple[Promise, ...] = ("seeds", "offsets", "outputs", "samples")

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
    """Ids of the cases of a suite, in the order of a run. `logits`: as for `verify`."""
    _expect_name("suite", suite, _core.suite_names())
    return _core.case_ids(suite, _captured(logits))


def _print_progress(line: str, done: int, all_cases: int) -> None:
    print(f"[{done}/{all_cases}] {line}", file=sys.stderr)


def _expect_text(name: str, value: Any, allowed: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; allowed: {allowed}")


def _expect_name(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise unknown_name(name, value, allowed)


def _expect_names(name: str, values: Any, allowed: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; allowed: a sequence of names")
    found = list(values)
    for place, value in enumerate(found):
        _expect_name(f"{name}[{place}]", value, allowed)
    return found


def _expect_integer(name: str, value: Any, least: int, most: int, range_as_text: str) -> int:
    """An integer of any library."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; allowed: an integer, {range_as_text}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {value}; allowed: {range_as_text}")
    return number


def _gpu(device: Any) -> Any:
    """The torch.device of a GPU that is here, or None for the CPU."""
    if str(device) == "cpu":
        return None
    names: list[str] = []
    try:
        import torch
    except ImportError:
        reason = " (torch is not installed)"
    else:
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        if names and str(device) == "cuda":
            return torch.device("cuda", torch.cuda.current_device())
        if str(device) in names:
            return torch.device(str(device))
        reason = "" if names else " (torch sees no CUDA device)"
    allowed = ", ".join(map(repr, ["cpu", *names]))
    raise ValueError(f"device is '{device}'; allowed: {allowed}{reason}")


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
    lacks: Sequence[Filter] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    case: str | None = None,
    logits: Iterable[Any] | None = None,
    seed: int | None = None,
    seed_from: str | None = None,
    shard: str = "1/1",
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
    arrays: what the arrays of a batch are: "numpy", or "torch", which is the default on a GPU.
        bfloat16 logits are uint16 bits in NumPy.
    device: where they are: "cpu", "cuda", "cuda:1", a torch.device. On a GPU they are copies, made
        when they are read, so what is written into inputs is not seen; the GPU is the current one
        of a call. Tokens, and what is written into out_* tensors, are brought back.
    abilities: what the sampler can do beyond float32 logits with temperature, top_k, top_p and
        min_p (`Ability`); cases that need more are skipped.
    lacks: filters that it does not have: "top_k", "top_p", "min_p". Cases that need one are skipped;
        others ask for what is left.
    randomness: which draws it promises to be independent ("seeds", "offsets", "outputs",
        "samples"), and whether equal seeds give equal tokens ("replays").
    case: only the cases whose id matches; * and ? match any characters.
    logits: files of captured logits instead of those of the package: paths, or (path, dtype).
    seed, seed_from: the run's seed, 64 bits, or a text to make it from; by default it comes from the
        commit of the current directory's repository, so that a rerun repeats the run.
    shard: "I/N", part I of N of the run, which `python -m fairdraw merge` joins: for one process a
        GPU, or many machines.
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
    _expect_name("semantics", semantics, _core.profile_names())
    _expect_name("suite", suite, _core.suite_names())
    gpu = _gpu(device)
    if arrays is None:
        arrays = "numpy" if gpu is None else "torch"
    _expect_name("arrays", arrays, ["numpy", "torch"])
    if gpu is not None and (builtin or arrays != "torch"):
        field, value = ("sampler", sampler) if builtin else ("arrays", arrays)
        raise ValueError(
            f"{field} is {value!r}; allowed with device '{device}': "
            + ("a callable" if builtin else "'torch'")
        )
    able = _expect_names("abilities", abilities, _core.ability_names())
    lacking = _expect_names("lacks", lacks, _core.filter_names())
    promises = _expect_names("randomness", randomness, _core.promise_names())
    _expect_text("version", version, "a string")
    _expect_text("shard", shard, '"I/N"')
    for field, text in (("name", name), ("case", case), ("seed_from", seed_from)):
        if text is not None:
            _expect_text(field, text, "a string, or None")
    if seed is not None:
        if seed_from is not None:
            raise ValueError("seed and seed_from are both given; allowed: one of them")
        seed = _expect_integer("seed", seed, 0, 2**64 - 1, "0 to 2^64 - 1")
    jobs = _expect_integer("jobs", jobs, 0, 2**32 - 1, ">= 0 (0: one a core)")
    if progress not in (True, False, None) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; allowed: True, False, or a function")
    if builtin:
        label = str(sampler)
    else:
        judged = running_batch if sampler is None else sampler
        label = name or str(getattr(judged, "__name__", type(judged).__name__))
    if gpu is not None:
        sampler = DeviceFunction(sampler, gpu) if callable(sampler) else None
        running_batch = device_running_batch(running_batch, gpu) if running_batch else None
    record = _core.run(
        function=sampler,
        running_batch=running_batch,
        name=label,
        version=version,
        semantics=semantics,
        suite=suite,
        arrays=arrays,
        abilities=able,
        lacks=lacking,
        randomness=promises,
        logits=_captured(logits),
        case=case,
        seed=None if seed is None else str(seed),
        seed_from=seed_from,
        shard=shard,
        jobs=jobs,
        progress=_print_progress if progress is True else (progress or None),
        operations={},
        keep_dtype=False,
    )
    return Report(record)
