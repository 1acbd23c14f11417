#!/usr/bin/env python3
"""Lists the skipped tests of a run that skips.txt does not name, and the lines of skips.txt that match no
skipped test.

Usage: skips.py RESULTS..., where RESULTS are files of ctest --output-junit with all output of the tests

A test of ctest is known by its name. A test that was skipped inside a test of ctest has the name of
that test, ": " and its own name: `python: python/tests/test_cuda.py`. Exit codes: 0 if all skips
agree with skips.txt; 1 if some do not.
"""

import fnmatch
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
LISTED = Path(__file__).with_name("skips.txt")
#: always: skipped on every machine. no-gpu: skipped without a GPU. machine: depends on the machine in a way
#: that is not known beforehand.
WHENS = ("always", "no-gpu", "machine")

# The patterns match lines that report a skip: those of pytest -rs --no-fold-skipped, of unittest, and of the
# project's scripts.
PYTEST = re.compile(r"^SKIPPED (.+?) - (.*)$", re.MULTILINE)
UNITTEST = re.compile(r"^(?:OK|FAILED) \(.*\bskipped=(\d+)", re.MULTILINE)
SCRIPT = re.compile(r"^skipped: (.*)$", re.MULTILINE)
GOOGLETEST = re.compile(r"^.*: Skipped\n(.*)$", re.MULTILINE)


class Line(NamedTuple):
    glob: str
    when: str
    reason: str


class Skip(NamedTuple):
    name: str
    reason: str


def read_lines(text: str) -> list[Line]:
    """Reads the lines GLOB | WHEN | REASON of skips.txt. Raises ValueError with the line if a line of
    skips.txt has another form."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split(" | ")]
        if len(fields) != 3 or not all(fields) or fields[1] not in WHENS:
            raise ValueError(
                f"skips.txt:{number}: '{line}'; allowed: GLOB | {' or '.join(WHENS)} | REASON"
            )
        found.append(Line(*fields))
    return found


def skips_of(test: ElementTree.Element) -> Iterator[Skip]:
    """Yields the test of ctest if it was skipped as a whole, otherwise the tests that were skipped inside
    it."""
    name, output = test.get("name", ""), test.findtext("system-out") or ""
    if test.find("skipped") is not None:
        told = SCRIPT.search(output) or GOOGLETEST.search(output)
        yield Skip(name, told[1] if told else output.strip().split("\n")[-1])
        return
    for inner, reason in PYTEST.findall(output):
        yield Skip(f"{name}: {inner}", reason)
    for reason in SCRIPT.findall(output):
        yield Skip(f"{name}: {reason}", reason)
    if UNITTEST.search(output):
        yield Skip(name, f"{UNITTEST.search(output)[1]} of its tests")


def read_results(paths: Iterable[str]) -> tuple[set[str], list[Skip]]:
    """Returns the names of the tests of ctest that ran, and all skips."""
    ran, skips = set(), []
    for path in paths:
        for test in ElementTree.parse(path).getroot().iter("testcase"):
            ran.add(test.get("name", ""))
            skips += skips_of(test)
    return ran, skips


def problems(
    lines: list[Line], ran: set[str], skips: list[Skip], there: set[str], gpu: bool
) -> list[str]:
    """Returns all differences between the skips and skips.txt. `there` names all tests that ctest
    knows, no matter whether they ran."""
    used, found = set(), []
    for skip in dict.fromkeys(skips):
        named = [
            line
            for line in lines
            if fnmatch.fnmatchcase(skip.name, line.glob) and not (gpu and line.when == "no-gpu")
        ]
        used.update(named)
        if not named:
            found.append(f"{skip.name} was skipped: {skip.reason}")
    for line in lines:
        test = line.glob.split(": ")[0]
        if line in used or line.when == "machine" or (gpu and line.when == "no-gpu"):
            continue
        if fnmatch.filter(ran, test):
            found.append(f"skips.txt names {line.glob}, of which nothing was skipped")
        elif line.when == "always" and not fnmatch.filter(there, test):
            found.append(f"skips.txt names {line.glob}, and there is no such test")
    return found


def main(results: list[str]) -> int:
    if not results:
        print(__doc__, file=sys.stderr)
        return 2
    known = subprocess.run(["ctest", "--test-dir", ROOT / "build" / "release", "-N"],
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    there = set(re.findall(r"^ +Test +#\d+: (.+)$", known, re.MULTILINE))
    gpu = subprocess.run([ROOT / "cmake" / "has_gpu"], check=False).returncode == 0
    ran, skips = read_results(results)
    found = problems(read_lines(LISTED.read_text(encoding="utf-8")), ran, skips, there, gpu)
    for line in found:
        print(line)
    print(f"{len(ran)} tests, {len(set(skips))} skipped, {len(found)} not as {LISTED.name} says")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
