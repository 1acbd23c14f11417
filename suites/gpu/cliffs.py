#!/usr/bin/env python3
"""Finds shapes that take longer than larger shapes, in rows of `fairdraw bench --json`.

    suites/gpu/cliffs.py SHAPES.json...

A call with fewer rows, or with a smaller vocabulary, should take no longer than a larger call of the same
operation, dtype and logits. If the smaller call takes longer by more than a factor of `--times` (1.25: two
measurements of the same cell differ by less than 1.1), a kernel has taken a path that is not meant for the
shape. Examples are reading values one by one because rows are not aligned, a wrong guess, or a list that
overflows. The script prints such cells as Markdown, the worst first, each with the fastest larger cell. The
exit code is always 0, because slowness is not a failed test.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path


def quickest_larger(row, others):
    """Returns the fastest of the rows that are at least as large in both batch and vocabulary."""
    larger = [
        other
        for other in others
        if other["batch"] >= row["batch"] and other["vocab"] >= row["vocab"]
    ]
    return min(larger, key=lambda other: other["microseconds"])


def cliffs(rows, times):
    """Returns (ratio, row, the fastest larger row) for each slow row, the worst first."""
    alike = defaultdict(list)
    for row in rows:
        alike[row["operation"], row["dtype"], row["logits"]].append(row)
    found = []
    for group in alike.values():
        for row in group:
            larger = quickest_larger(row, group)
            ratio = row["microseconds"] / larger["microseconds"]
            if ratio > times:
                found.append((ratio, row, larger))
    return sorted(found, key=lambda cliff: -cliff[0])


def render(rows, times):
    def shape(row):
        return f"{row['batch']} x {row['vocab']}"

    found = cliffs(rows, times)
    lines = [f"{len(found)} of {len(rows)} cells take more than {times} times a larger one."]
    if found:
        lines += ["", "| operation | dtype, logits | shape | µs | a larger one | µs | times |"]
        lines += ["|---|---|---|---|---|---|---|"]
    for ratio, row, larger in found:
        lines.append(
            f"| `{row['operation']}` | {row['dtype']}, {row['logits']} | {shape(row)} | "
            f"{row['microseconds']:.1f} | {shape(larger)} | {larger['microseconds']:.1f} | {ratio:.2f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="JSON of `fairdraw bench --json`")
    parser.add_argument("--times", type=float, default=1.25, help="(default: 1.25)")
    options = parser.parse_args()
    if not options.times >= 1:
        parser.error(f"--times {options.times}: must be at least 1")
    rows = []
    for path in options.files:
        try:
            rows += json.loads(path.read_text())
        except (OSError, ValueError) as error:
            parser.error(f"cannot read '{path}': {error}")
    print(render(rows, options.times))


if __name__ == "__main__":
    sys.exit(main())
