#!/usr/bin/env python3
"""Finds comments and sentences that begin with What, Where, Of, By or Whether.

A comment on a function begins with a verb, and a comment on a type with a noun, so that the first word tells
a reader what kind of name follows. Pages and public headers are read whole: pages sentence by sentence, and
comments and docstrings by their first word. In all other files only the lines that a change adds
are read, so that the number of old findings can only fall.

Usage: openings.py [--all | FILE...] --all reads every file whole, and so lists everything that is left

Exit codes: 0 if there is no such comment; 1 if there are some.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import affected

ROOT = affected.ROOT
sys.path.insert(0, str(ROOT / "docs" / "site"))

import prose  # noqa: E402  (the line above says where it is)

OPENING = re.compile(r"(?:What|Where|Of|By|Whether)\b(?!')")
# Read whole. Questions are allowed to begin with one of these words.
WHOLE = re.compile(
    r"docs/.*|.*\.md|kernels/include/.*"
    r"|harness/contract/(?:batch|drafts|operation|plugin|plugin_abi|sequence)\.h"
)
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def openings(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Yields (line, sentence) for each sentence that begins with one of these words."""
    for block in prose.blocks(name, text):
        if block.kind in ("comment", "trailing"):
            continue
        line = block.line
        for number, part in enumerate(re.split(r"((?<=[.!?:])\s+)", block.text.strip())):
            is_first = number == 0
            if OPENING.match(part) and not part.endswith("?") and (is_first or block.kind == "page"):
                yield line, " ".join(part.split())
            line += part.count("\n")


def added_lines(root: Path) -> dict[str, set[int]] | None:
    """Returns a map from each file to the lines that a change adds; None without a history."""
    base = affected.base(root)
    if base is None:
        return None
    found: dict[str, set[int]] = {}
    differ = subprocess.run(
        ["git", "-C", str(root), "diff", "--unified=0", "--find-renames", "--no-color", "--no-ext-diff",
         "--diff-filter=d", base],
        check=True, capture_output=True, text=True, errors="replace"
    ).stdout  # fmt: skip
    for part in re.split(r"^diff --git ", differ, flags=re.MULTILINE)[1:]:
        name = re.search(r"^\+\+\+ b/(.*?)\t?$", part, re.MULTILINE)
        if name:
            found[name[1]] = {
                line
                for begin, count in HUNK.findall(part)
                for line in range(int(begin), int(begin) + int(count or 1))
            }
    new = affected.git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    for path in filter(None, new.split("\0")):
        found[path] = set(range(1, prose.read(root, path).count("\n") + 2))
    return found


def findings(root: Path, files: list[str], read_all: bool = False) -> list[str]:
    """Returns a line FILE:LINE: SENTENCE for each sentence that must be changed."""
    added = added_lines(root) or {}
    found = []
    for name in files:
        is_whole = read_all or WHOLE.fullmatch(name)
        if not is_whole and name not in added:
            continue
        found += [
            f"{name}:{line}: '{' '.join(sentence.split()[:8])}'"
            for line, sentence in openings(name, prose.read(root, name))
            if is_whole or line in added[name]
        ]
    return found


def main(arguments: list[str]) -> int:
    read_all = arguments == ["--all"]
    files = [] if read_all else arguments
    found = findings(ROOT, files or prose.tree_files(ROOT), read_all)
    print("".join(line + "\n" for line in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
