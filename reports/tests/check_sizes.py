#!/usr/bin/env python3
"""Says which sizes a change's run of the tests is cut to, and checks that the list is right.

Usage: check_sizes.py --root ROOT. Prints what `./fairdraw test --sizes` prints, and fails where
- a stage that a night runs is missing for a change: every kind of check must be seen by a change;
- a test is made smaller and the list does not name its file, or names a file that is not there;
- a folder with tests that sanitizers run is in none of their parts, or in two;
- a CMake file gives label `long` (sanitizers run those tests at night alone) and is not named, or
  the test preset of a change does not leave that label out.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

# How a source asks whether it is to be small, and how CMake and CTest are told of long tests.
REDUCED = re.compile(r"FAIRDRAW_REDUCED|\bis_reduced\(\)|\bbudget\(")
STAGES = (
    "CUDA architectures",
    "tests",
    "mutants",
    "clang-tidy",
    "other linters",
    "sanitizers",
)
SOURCES = ("kernels", "harness", "reference", "suites", "reports", "python")


def sizes(root: Path) -> str:
    result = subprocess.run(
        [str(root / "fairdraw"), "test", "--sizes"], capture_output=True, text=True, check=True
    )
    return result.stdout


def stage_rows(text: str) -> dict[str, tuple[str, str]]:
    """What a change and what a night runs, by stage."""
    rows = {}
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) == 3 and cells[0] in STAGES:
            rows[cells[0]] = (cells[1], cells[2])
    return rows


def reduced_sources(root: Path) -> set[str]:
    """Test sources that become smaller. The header that defines how is none of them."""
    found = set()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*_test.*")):
            if path.suffix in {".cpp", ".py"} and REDUCED.search(path.read_text(encoding="utf-8")):
                found.add(path.relative_to(root).as_posix())
    return found


def sources_with_long_tests(root: Path) -> set[str]:
    """CMake files that give a test the label."""
    return {
        path.relative_to(root).as_posix()
        for folder in SOURCES
        for path in (root / folder).rglob("CMakeLists.txt")
        if re.search(r"LABELS[^)]*\b(long|LONG)\b", path.read_text(encoding="utf-8"))
    }


def sanitized_folders(root: Path) -> list[str]:
    """Top-level folders with tests that sanitizers run: of programs that g++ makes."""
    return [
        folder
        for folder in SOURCES
        if any(
            "fairdraw_test(" in path.read_text(encoding="utf-8")
            for path in (root / folder).rglob("CMakeLists.txt")
        )
    ]


def folders_in_parts(text: str) -> list[str]:
    """The folders of all parts, as the list shows them."""
    parts = re.search(r"^Parts under sanitizers.*:\n((?:.+\n)+)", text, re.MULTILINE)
    return parts.group(1).split() if parts else []


def complaints(root: Path, text: str) -> list[str]:
    wrong = []
    rows = stage_rows(text)
    for stage in STAGES:
        if stage not in rows or not all(rows[stage]):
            wrong.append(f"stage '{stage}' is not shown with a size for a change and for a night")
    if sorted(folders_in_parts(text)) != sorted(sanitized_folders(root)):
        wrong.append(
            f"the parts have {folders_in_parts(text)}; folders with tests are"
            f" {sanitized_folders(root)}, each once"
        )
    listed = {line.strip() for line in text.splitlines() if re.search(r"_test\.(cpp|py)$", line)}
    for path in sorted(reduced_sources(root) - listed):
        wrong.append(f"{path} is made smaller, and the list does not say so")
    for path in sorted(listed - reduced_sources(root)):
        wrong.append(f"{path} is in the list, and is not made smaller")
    for path in sorted(sources_with_long_tests(root)):
        if not re.search(rf"^{re.escape(path)}:\d+:", text, re.MULTILINE):
            wrong.append(f"{path} has tests with label long, and the list does not say so")
    presets = json.loads((root / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
    for preset, leaves_out in (("asan-change", True), ("asan", False)):
        filters = next(entry for entry in presets if entry["name"] == preset).get("filter", {})
        excluded = filters.get("exclude", {}).get("label", "nightly")
        if bool(re.search(excluded, "long")) != leaves_out:
            wrong.append(f"preset {preset} excludes label '{excluded}'")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    root = parser.parse_args().root.resolve()
    text = sizes(root)
    print(text, end="")
    wrong = complaints(root, text)
    for complaint in wrong:
        print(f"WRONG: {complaint}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
