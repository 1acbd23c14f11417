"""Lists the engines that can run here, repeats one case, or judges the whole matrix:
`python -m fairdraw engines`.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from fairdraw.verification import profile_names, suite_names

from . import ENGINES, Engine, Unavailable, call_capsules, capsules, seed_rules, why_not
from .matrix import (
    Record,
    ended,
    is_about,
    is_of_kind,
    judge,
    masks_by_profile,
    matching_cases,
    run_engine,
    updated,
    write,
)


def _chosen(names: str) -> list[Engine]:
    if names == "all":
        return list(ENGINES.values())
    wrong = [name for name in names.split(",") if name not in ENGINES]
    if wrong:
        raise SystemExit(f"unknown engine {wrong[0]!r}; there are {', '.join(ENGINES)}")
    return [ENGINES[name] for name in names.split(",")]


def _list() -> int:
    for engine in ENGINES.values():
        reason = why_not(engine)
        state = f"not here: {reason}" if reason else engine.version()
        print(f"{engine.name:24} {engine.semantics:18} {state}\n    {engine.calls}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    """Returns 0 if no case failed, 1 if a case failed, and 3 if an engine is not available here."""
    worst = 0
    engines, cases = _chosen(arguments.engines), matching_cases(arguments.suite, arguments.case)
    for engine in engines:
        semantics = arguments.semantics or engine.semantics
        try:
            engine.version()
            for case in cases:
                if not is_of_kind(engine, case):
                    continue
                if not is_about(engine, case):
                    print(f"{engine.name} skipped {case}: the engine has no such filters")
                    continue
                for result in judge(engine, semantics, arguments.suite, case, arguments.seed).cases:
                    print(f"{engine.name} {result.verdict} {result.id}: {result.message}")
                    worst = max(worst, int(result.red))
        except Unavailable as reason:
            print(f"{engine.name} skipped: {reason}", file=sys.stderr)
            worst = max(worst, 3)
    return worst


def _matrix(arguments: argparse.Namespace) -> int:
    before = json.loads(arguments.add.read_text()) if arguments.add else None
    file = arguments.add or arguments.out
    records: list[Record] = []
    for engine in _chosen(arguments.engines):
        record = run_engine(
            engine,
            arguments.suite,
            arguments.case,
            arguments.seed,
            arguments.semantics,
            arguments.seconds,
            lambda unfinished: write(updated(before, [*records, unfinished]), file),
            arguments.processes,
        )
        # The record is saved first, because the next step is slow.
        write(updated(before, [*records, record]), file)
        if record["version"] and "reports_mask" in engine.abilities and engine.cases == ("*",):
            record["masks_by_profile"] = masks_by_profile(engine, profile_names(), arguments.seed)
        records.append(record)
    print(write(updated(before, records), file))
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    made = json.loads(arguments.matrix.read_text()) if arguments.matrix.exists() else None
    for part in arguments.parts:
        ran = [r for r in json.loads(part.read_text())["engines"] if not r["skipped_because"]]
        made = updated(made, map(ended, ran))
    print(write(made or updated(None, []), arguments.matrix))
    return 0


def _capsules(arguments: argparse.Namespace) -> int:
    made = json.loads(arguments.matrix.read_text())
    chosen = {engine.name for engine in _chosen(arguments.engines)}
    made["engines"] = [record for record in made["engines"] if record["engine"] in chosen]
    print(capsules.write_all(made, ENGINES, arguments.out, arguments.seconds))
    return 0


def _record(arguments: argparse.Namespace) -> int:
    """Returns 0, or 3 if an engine is not available here."""
    worst = 0
    cases = matching_cases(arguments.suite, arguments.case or ["*"])
    for engine in _chosen(arguments.engines):
        for case in cases:
            if not (is_of_kind(engine, case) and is_about(engine, case)):
                continue
            try:
                made = call_capsules.recorded(engine, arguments.suite, case, arguments.seed)
            except Unavailable as reason:
                print(f"{engine.name} skipped: {reason}", file=sys.stderr)
                worst = 3
                break
            if made["verdict"] != "skipped":
                print(f"{made['verdict']} {call_capsules.write(made, arguments.out)}")
    return worst


def _replay(arguments: argparse.Namespace) -> int:
    """Returns 0 if every capsule has the verdict that it had when it was made, and 1 otherwise."""
    worst = 0
    for file in arguments.files:
        capsule = call_capsules.read(file)
        verdict, message = call_capsules.replay(capsule)
        print(f"{capsule['engine']} {verdict} {capsule['case']}: {message}")
        if verdict != capsule["verdict"]:
            print(f"{file}: the verdict was {capsule['verdict']}", file=sys.stderr)
            worst = 1
    return worst


def _seeds(arguments: argparse.Namespace) -> int:
    arguments.out.write_text(json.dumps(seed_rules.record(), indent=1) + "\n")
    print(arguments.out)
    return 0


def _processes(word: str) -> int:
    if not word.isascii() or not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"is {word!r}; allowed: whole numbers from 1 on")
    return int(word)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fairdraw engines", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="lists the engines, with the reason if one cannot run here")
    for verb, text in (
        ("run", "judges engines and prints one line per case"),
        ("matrix", "judges engines and writes the conformance matrix"),
        ("record", "judges engines and writes their answers to files, for replay"),
    ):
        sub = verbs.add_parser(verb, help=text)
        sub.add_argument("engines", help="names, separated by commas, or all")
        sub.add_argument("--suite", default="smoke", choices=suite_names())
        sub.add_argument("--case", action="append", help="a glob of case ids; may be repeated")
        sub.add_argument("--seed", type=int, default=1)
        if verb == "record":
            sub.add_argument("--out", type=Path, default=Path("calls"), metavar="DIR")
            continue
        sub.add_argument("--semantics", help="a profile instead of the engine's own")
        if verb == "matrix":
            sub.add_argument("--out", type=Path, default="conformance.json", metavar="FILE")
            sub.add_argument(
                "--add", type=Path, metavar="FILE", help="a matrix that gets these engines, too"
            )
            sub.add_argument(
                "--seconds",
                type=float,
                default=math.inf,
                help="seconds per engine, after which no case begins",
            )
            sub.add_argument(
                "--processes",
                type=_processes,
                default=1,
                metavar="N",
                help="processes that judge the cases of an engine in parallel",
            )
    sub = verbs.add_parser("merge", help="joins the records of matrices")
    sub.add_argument("matrix", type=Path, metavar="MATRIX.json", help="the result, with its page")
    sub.add_argument("parts", type=Path, metavar="PART.json", nargs="+")
    sub = verbs.add_parser(
        "capsules", help="shrinks failed cases of a matrix to small rows for issues"
    )
    sub.add_argument("matrix", type=Path, metavar="MATRIX.json")
    sub.add_argument("--out", type=Path, default=Path("capsules"), metavar="DIR")
    sub.add_argument("--engines", default="all", help="names, separated by commas, or all")
    sub.add_argument("--seconds", type=float, default=20, help="seconds for shrinking one row")
    sub = verbs.add_parser("replay", help="judges the files of record again, without the engines")
    sub.add_argument("files", type=Path, metavar="FILE.json", nargs="+")
    sub = verbs.add_parser("seeds", help="judges the rules by which engines use a request's seed")
    sub.add_argument("--out", type=Path, default=Path("seeds.json"), metavar="FILE")
    arguments = parser.parse_args(words)
    if arguments.verb == "list":
        return _list()
    whole = {
        "capsules": _capsules,
        "merge": _merge,
        "record": _record,
        "replay": _replay,
        "seeds": _seeds,
    }
    if arguments.verb in whole:
        try:
            return whole[arguments.verb](arguments)
        except (OSError, ValueError) as error:
            parser.error(str(error))
    arguments.case = arguments.case or ["*"]
    if arguments.semantics and arguments.semantics not in profile_names():
        parser.error(
            f"unknown profile {arguments.semantics!r}; there are {', '.join(profile_names())}"
        )
    try:
        return _run(arguments) if arguments.verb == "run" else _matrix(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(main())
