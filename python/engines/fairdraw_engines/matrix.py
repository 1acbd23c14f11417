"""Makes the conformance matrix: judges each engine by its profile, case by case, and writes the
result as JSON and as a page."""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import functools
import json
import math
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from fairdraw import (
    Report,
    __version__,
    case_ids,
    verify,
    verify_operations,
    verify_speculation,
)
from fairdraw.verification import Promise, Suite, data_folder, operation_names

from . import ENGINES
from ._engine import INTERPRETER, DraftEngine, Engine, OperationEngine, RunningEngine
from ._packages import Unavailable
from ._workers import Died, in_processes, in_this_process

VERDICTS = ("passed", "failed", "underpowered", "skipped", "error")
#: Predicates of a case that did not pass, by its verdict.
ENDED = {"failed": "failed", "underpowered": "is underpowered", "error": "ended with an error"}
Record = dict[str, Any]
OUT_OF_TIME = "the time limit of the engine was reached before the case began"
NOT_ENDED = "the process was stopped before the case ended: "
PROCESS_DIED = "the process of the case died"
#: Globs of cases of suite smoke with rows on which the profiles' masks differ.
MASKS = ("mask/*/partial_sums", "mask/gaussian/v1000/edges", "mask/ties_at_k/v1000/edges")


def _captured_files(case: str) -> list[Any] | None:
    """Returns the captured logits that the case needs. For other cases returns an empty list, so
    that the files are not scanned.
    """
    return None if re.search(r"/lm_logits", case) else []


def replay_command(engine: str, semantics: str, suite: str, case: str, seed: int) -> str:
    """Returns the command that repeats one case with the same draws."""
    return (
        f"python -m fairdraw engines run {engine} --semantics {semantics} --suite {suite} "
        f"--case '{case}' --seed {seed}"
    )


def judge(engine: Engine, semantics: str, suite: Suite, case: str, seed: int) -> Report:
    """Judges one case with a freshly seeded sampler, so that earlier cases have no influence."""
    own: dict[str, Any]
    if isinstance(engine, OperationEngine):
        own = dict(device=engine.device, dtypes=engine.dtypes)
        gate: Callable[..., Report] = verify_operations
    elif isinstance(engine, DraftEngine):
        own = dict(target=engine.target, drafts=engine.drafts, lacks=engine.lacks)
        own.update(acceptance_rule=engine.acceptance_rule, abilities=engine.draft_abilities)
        gate = verify_speculation
    elif isinstance(engine, RunningEngine):
        own = dict(running_batch=engine.make(seed), abilities=engine.abilities)
        own.update(randomness=get_args(Promise), logits=[])
        gate = verify
    else:
        own = dict(abilities=engine.abilities, lacks=engine.lacks, logits=_captured_files(case))
        gate = verify
    return gate(
        None if "running_batch" in own else engine.make(seed),
        semantics,
        suite,
        name=engine.name,
        version=engine.version(),
        arrays=engine.arrays,
        case=case,
        seed=seed,
        **own,
    )


def is_about(engine: Engine, case: str) -> bool:
    """Returns true if the case needs only filters that the engine has."""
    return any(fnmatch.fnmatchcase(case, glob) for glob in engine.cases)


def is_of_kind(engine: Engine, case: str) -> bool:
    """Returns true if the case tests functions that the engine provides: row operations, drafts
    over its rows, or running batches, and draws for all other engines."""
    if isinstance(engine, DraftEngine):
        return case.partition("/")[0] in engine.checks()
    if isinstance(engine, RunningEngine):
        return case.partition("/")[0] == "sequences"
    return (case.partition("/")[0] in operation_names()) == isinstance(engine, OperationEngine)


def _new_record(
    engine: Engine, suite: Suite, globs: Sequence[str], seed: int, profile: str
) -> Record:
    return {
        "engine": engine.name,
        "calls": engine.calls,
        "semantics": profile,
        "own_profile": profile == engine.semantics,
        "version": "",
        "date": datetime.date.today().isoformat(),
        "tool": f"fairdraw {__version__}",
        "environment": f"Python {platform.python_version()}, {_processor()}",
        "suite": suite,
        "case_globs": list(globs),
        "seed": seed,
        "skipped_because": "",
        "checks": {},
        "skip_reasons": {},
        "red": [],
        "masks_by_profile": {},
        "running": [],
        "seconds": 0.0,
    }


@dataclass(frozen=True)
class _Outcome:
    """The result of a case, in the form of a record."""

    verdict: str
    message: str
    seconds: float = 0.0


def _judge_one(
    engine: Engine | str, semantics: str, suite: Suite, seed: int, case: str
) -> _Outcome:
    """Judges one case, in this process or in a worker process."""
    found = ENGINES[engine] if isinstance(engine, str) else engine
    (result,) = judge(found, semantics, suite, case, seed).cases
    return _Outcome(result.verdict, result.message, result.seconds)


def _write_outcomes(record: Record, cases: Sequence[str], outcomes: Mapping[str, _Outcome]) -> None:
    """Writes the known outcomes into the record, in the order of the table of cases, in whatever
    order the cases ended."""
    checks: dict[str, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    red = []
    known = [(case, outcomes[case]) for case in cases if case in outcomes]
    for case, outcome in known:
        checks.setdefault(case.partition("/")[0], Counter())[outcome.verdict] += 1
        if outcome.verdict == "skipped":
            reasons[outcome.message] += 1
        elif outcome.verdict != "passed":
            command = replay_command(
                record["engine"], record["semantics"], record["suite"], case, record["seed"]
            )
            red.append(
                {
                    "case": case,
                    "verdict": outcome.verdict,
                    "message": outcome.message,
                    "replay": command,
                }
            )
    record["checks"] = {
        check: {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}
        for check, counts in sorted(checks.items())
    }
    record["skip_reasons"] = dict(reasons.most_common())
    record["red"] = red
    record["seconds"] = round(math.fsum(outcome.seconds for _, outcome in known), 1)


def run_engine(
    engine: Engine,
    suite: Suite,
    globs: Sequence[str],
    seed: int,
    semantics: str | None = None,
    seconds: float = math.inf,
    keep: Callable[[Record], object] = lambda record: None,
    processes: int = 1,
) -> Record:
    """Returns the engine's record: counts by check and verdict, reasons of skips, and the failed
    cases.

    The record covers the cases of the suite that match one of the globs. If the engine is not
    available here, `skipped_because` has the reason, and the record has no checks. Cases that would
    begin after `seconds` count as skipped, with the time limit as the reason. `keep` gets the
    record whenever cases begin or end, with the running cases as `running`. So the results are not
    lost if the process is stopped or dies (see `ended`).

    If `processes` is more than one, no case runs in this process. The record does not depend on
    `processes`, unless a case kills its process. Such a case counts as skipped, and the other cases
    are still judged. An engine that is not in ENGINES must be picklable.
    """
    if processes < 1:
        raise ValueError(f"processes is {processes}; allowed: whole numbers from 1 on")
    end = time.monotonic() + seconds
    cases = [case for case in matching_cases(suite, globs) if is_of_kind(engine, case)]
    profile = semantics or engine.semantics
    record = _new_record(engine, suite, globs, seed, profile)
    try:
        record["version"] = engine.version()
    except Unavailable as reason:
        record["skipped_because"] = str(reason)
        return record
    asked = [case for case in cases if is_about(engine, case)]
    other = _Outcome("skipped", "the case needs filters that the engine does not have")
    outcomes = dict.fromkeys(set(cases).difference(asked), other)
    sent = engine.name if ENGINES.get(engine.name) is engine else engine
    judge_one = functools.partial(_judge_one, sent, profile, suite, seed)
    with contextlib.closing(
        in_this_process(judge_one, asked, end)
        if processes == 1
        else in_processes(judge_one, asked, end, processes)
    ) as steps:
        for step in steps:
            for case, found in step.found.items():
                if isinstance(found, Died):
                    found = _Outcome("skipped", f"{PROCESS_DIED} ({found.how}): {case}")
                outcomes[case] = found
                line = f"{engine.name} {profile} {found.verdict} {case}"
                print(line, file=sys.stderr, flush=True)
            record["running"] = step.running
            _write_outcomes(record, cases, outcomes)
            keep(record)
    late = dict.fromkeys(asked, _Outcome("skipped", OUT_OF_TIME))
    _write_outcomes(record, cases, {**late, **outcomes})
    return record


def ended(record: Record) -> Record:
    """Completes a record whose process may have been stopped. Cases that were running count as
    skipped.

    The reason of such a skip names the case. Cases that had not begun are not counted, except cases
    that need filters that the engine does not have.
    """
    running = record.get("running") or []
    cases = [running] if isinstance(running, str) else running  # older records name one case, or ""
    if not cases:
        return record
    checks = {check: dict(counts) for check, counts in record["checks"].items()}
    for case in cases:
        counts = checks.setdefault(case.partition("/")[0], {})
        counts["skipped"] = counts.get("skipped", 0) + 1
    return {
        **record,
        "running": [],
        "checks": dict(sorted(checks.items())),
        "skip_reasons": {**record["skip_reasons"], **{NOT_ENDED + case: 1 for case in cases}},
    }


def masks_by_profile(engine: Engine, profiles: Iterable[str], seed: int) -> Record:
    """Maps each profile to [passed, judged] cases of masks, which show whose definitions an engine
    follows."""
    table: Record = {}
    for profile in profiles:
        verdicts = Counter(
            judge(engine, profile, "smoke", case, seed).cases[0].verdict
            for case in matching_cases("smoke", MASKS)
        )
        table[profile] = [verdicts["passed"], verdicts.total() - verdicts["skipped"]]
    return table


def matching_cases(suite: Suite, globs: Sequence[str]) -> list[str]:
    """Returns the ids of the suite's cases that match one of the globs, in the order of the table
    of cases.

    Raises ValueError if no case matches.
    """
    ids = case_ids(suite, logits=None if data_folder().is_dir() else [])
    cases = [case for case in ids if any(fnmatch.fnmatchcase(case, glob) for glob in globs)]
    if not cases:
        raise ValueError(f"no case of suite {suite} matches {', '.join(globs)}")
    return cases


def _label(record: Record) -> str:
    """Returns the engine's name. If Triton's interpreter ran the engine, the name says so, because
    the engine may also have a record of a GPU.
    """
    interpreted = record["version"].endswith(INTERPRETER)
    return f"{record['engine']} in {INTERPRETER}" if interpreted else str(record["engine"])


def updated(matrix: Record | None, records: Iterable[Record]) -> Record:
    """Returns the matrix, in which new records replace the records of the same engine and profile.

    Records of Triton's interpreter and records of a GPU do not replace each other.
    """
    fresh = {(_label(record), record["semantics"]): record for record in records}
    kept = [] if matrix is None else matrix["engines"]
    return {
        "schema_version": 1,
        "engines": [fresh.pop((_label(r), r["semantics"]), r) for r in kept] + [*fresh.values()],
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"model name\s*:\s*(.*)", text)
    return found[1] if found else platform.processor()


def _cell(counts: dict[str, int]) -> str:
    """Returns a cell of the table, such as "12", "10, 2 failed" or "-". The number of passed cases
    comes first, and skipped cases are left out."""
    passed = counts.get("passed", 0)
    parts = [str(passed)] if passed else []
    parts += [f"**{counts[v]} {v}**" for v in ("failed", "error") if counts.get(v)]
    parts += [f"{counts['underpowered']} underpowered"] if counts.get("underpowered") else []
    return ", ".join(parts) or "-"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    """Returns the text as a code span on one line."""
    marks = "``" if "`" in text else "`"
    return f"{marks}{' '.join(text.splitlines())}{marks}"


def _reason(text: str) -> str:
    """Returns the reason of a skipped case as a sentence. The gate's reasons are predicates of the
    sampler, such as "has no min_p"."""
    verbs = ("has", "keeps", "reports", "takes", "verifies")
    sentence = f"The engine {text}" if text.split(" ")[0] in verbs else text[:1].upper() + text[1:]
    return f"{sentence}."


def _by_profile(ran: Sequence[Record]) -> list[str]:
    """Returns the table with one row per profile and one column per engine."""
    tables = {_label(r): r["masks_by_profile"] for r in ran if r["masks_by_profile"]}
    if not tables:
        return []
    lines = [
        "",
        "## Whose definitions an engine keeps",
        "",
        f"The masks of the cases {', '.join(f'`{glob}`' for glob in MASKS)} are compared with the masks "
        "of every profile. Each cell has the number of passed cases, and the number of cases that the "
        "profile defines.",
        "",
        f"| profile | {' | '.join(tables)} |",
        "|---|" + "---|" * len(tables),
    ]
    for profile in dict.fromkeys(profile for table in tables.values() for profile in table):
        counts = [table.get(profile) for table in tables.values()]
        cells = ["-" if c is None else "/".join(map(str, c)) for c in counts]
        cells = [
            f"**{cell}**" if c and c[0] == c[1] else cell
            for cell, c in zip(cells, counts, strict=True)
        ]
        lines.append(f"| {profile} | {' | '.join(cells)} |")
    return lines


def _runs(ran: Sequence[Record]) -> list[str]:
    lines = ["", "## What was run", "", "| engine | calls | versions | cases | seed | date |"]
    lines += ["|---|---|---|---|---|---|"]
    for r in ran:
        cases = f"{r['suite']}: {', '.join(f'`{glob}`' for glob in r['case_globs'])}"
        lines.append(
            f"| {_label(r)} | {_escaped(r['calls'])} | {_code(_escaped(r['version']))} "
            f"| {cases} | {r['seed']} | {r['date']} |"
        )
    places = sorted({f"{r['tool']}, {r['environment']}" for r in ran})
    return [*lines, "", "The engines ran in these environments:", "", *(f"- `{p}`" for p in places)]


def _reds(ran: Sequence[Record]) -> list[str]:
    lines: list[str] = []
    for engine in ran:
        if engine["red"]:
            lines += ["", f"## {_label(engine)} under {engine['semantics']}", ""]
        for red in engine["red"]:
            ended, message = ENDED[red["verdict"]], _code(red["message"])
            lines += [f"- Case `{red['case']}` {ended}, with this message: {message}."]
            lines += [f"  This command repeats the case: `{red['replay']}`."]
    return lines


def to_markdown(matrix: Record) -> str:
    """Returns the matrix as a page: one row per engine, one column per check, and then every failed
    case.
    """
    ran = [e for e in matrix["engines"] if not e["skipped_because"]]
    absent = [e for e in matrix["engines"] if e["skipped_because"]]
    checks = sorted({check for e in ran for check in e["checks"]})
    # A check that every engine skips is left out of the table.
    checks = [c for c in checks if any(set(e["checks"].get(c, {})) - {"skipped"} for e in ran)]
    lines = [
        "# Conformance",
        "",
        "`python -m fairdraw engines matrix` writes this page, and [README.md](README.md) explains the "
        "findings. A cell of the table has the number of cases of a check that an engine passed, and the "
        "numbers of the failed and the underpowered cases. The last column has the number of skipped "
        "cases.",
        "",
        "| engine | profile | " + " | ".join(checks) + " | skipped |",
        "|---|---|" + "---|" * (len(checks) + 1),
    ]
    for engine in ran:
        cells = [_cell(engine["checks"].get(check, {})) for check in checks]
        skipped = sum(counts.get("skipped", 0) for counts in engine["checks"].values())
        lines.append(
            f"| {_label(engine)} | {engine['semantics']} | {' | '.join(cells)} | {skipped} |"
        )
    if absent:
        lines += ["", f"## Not run: {len(absent)}", "", "| engine | why |", "|---|---|"]
        lines += [f"| {e['engine']} | {_escaped(e['skipped_because'])} |" for e in absent]
    lines += [*_by_profile(ran), *_runs(ran), *_reds(ran)]
    lines += ["", "## Why cases were skipped", "", "| engine | cases | reason |", "|---|---|---|"]
    for engine in ran:
        for reason, count in engine["skip_reasons"].items():
            lines.append(f"| {_label(engine)} | {count} | {_escaped(_reason(reason))} |")
    return "\n".join(lines) + "\n"


def write(matrix: Record, json_file: str | os.PathLike[str]) -> Path:
    """Writes the matrix as JSON, and the page next to the JSON file under the same name. Returns
    the page's path.

    Each file is replaced atomically, so that a stopped process leaves no partial file.
    """
    path = Path(json_file)
    page = path.with_suffix(".md")
    for file, text in ((path, json.dumps(matrix, indent=1) + "\n"), (page, to_markdown(matrix))):
        unfinished = file.with_name(f".{file.name}.{os.getpid()}")
        unfinished.write_text(text)
        unfinished.replace(file)
    return page
