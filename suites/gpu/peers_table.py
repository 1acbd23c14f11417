#!/usr/bin/env python3
"""Prints rows of `fairdraw bench --json` and of peers.py side by side, as Markdown.

    suites/gpu/peers_table.py OURS.json... PEERS.json > table.md

There is one table for each operation and vocabulary. The rows of a table have the sampler, the code that a
user types, and for each batch the microseconds and their ratio to fairdraw's, for peaked / flat logits. Times
are divided by the time that peers.py measured for fairdraw in the same cell (operation, batch, vocabulary,
dtype, kind of logits), because a call from Python may take some microseconds more than a call from C++
(`fairdraw bench`). If that time is missing, the row of backend `cuda` is used. The last lines list the peers
that are faster than fairdraw, in which operations and by how much.
"""

import json
import sys
from pathlib import Path

BENCH = "cuda"
# the times of other backends are divided by those of the first backend that is there
OURS = ("peer:fairdraw", BENCH)
NAMES = {"peer:fairdraw": "fairdraw", BENCH: "fairdraw, by `fairdraw bench`"}
KINDS = ("peaked", "flat")
# The code that a user would write for rows of `fairdraw bench`, because `fairdraw bench` does not
# report this code.
SAMPLE = "fairdraw.sample(logits, temperature, k, p, m, seed=seeds, offset=offsets)"
FROM_PROBS = {
    (): "sampling_from_probs(probs",
    ("min_p",): "min_p_sampling_from_probs(probs, m",
    ("top_k",): "top_k_sampling_from_probs(probs, k",
    ("top_p",): "top_p_sampling_from_probs(probs, p",
    ("top_k", "top_p"): "top_k_top_p_sampling_from_probs(probs, k, p",
}


def typed(row):
    if row["backend"].startswith("peer:"):
        return row.get("call", "")
    input_name, _, filters = row["operation"].partition("/")
    if input_name != "from_probs":
        return SAMPLE
    names = tuple(part.rpartition("_")[0] for part in filters.split("+") if "_" in part)
    return f"fairdraw.{FROM_PROBS[names]}, seed=seeds, offset=offsets)"


def cell_of(row):
    return tuple(row[name] for name in ("operation", "batch", "vocab", "dtype", "logits"))


def is_peer(row):
    return row["backend"].startswith("peer:") and row["backend"] not in OURS


def in_order(values):
    return list(dict.fromkeys(values))


def number(value):
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def pair(values):
    return " / ".join("-" if value is None else number(value) for value in values)


def entry(rows, ours, batch):
    """Returns a text such as "14.1 / 14.3 (1.1 / 1.0)": times in microseconds, and in brackets their ratios
    to fairdraw's.
    """
    found = [rows.get((batch, kind)) for kind in KINDS]
    if not any(found):
        return "-"
    times = pair([row and row["microseconds"] for row in found])
    ratios = [
        row["microseconds"] / ours[cell_of(row)] if row and cell_of(row) in ours else None
        for row in found
    ]
    if (found[0] or found[1])["backend"] in OURS or not any(ratios):
        return times
    return f"{times} ({' / '.join('-' if r is None else f'{r:.2f}' for r in ratios)})"


def table(rows, ours):
    """Returns the lines of the table for one operation and vocabulary: one line per backend, the floor
    first."""
    batches = sorted({row["batch"] for row in rows})
    backends = in_order(row["backend"] for row in rows)
    backends.sort(key=lambda name: (name not in OURS, name.startswith("peer:")))
    lines = [
        f"| | call | {' | '.join(f'B = {batch}' for batch in batches)} |",
        "|---|---|" + "---|" * len(batches),
    ]
    of_floor = {
        (row["batch"], row["logits"]): row["floor_microseconds"]
        for row in rows
        if row["backend"] in OURS
    }
    if of_floor:
        floors = (pair([of_floor.get((batch, kind)) for kind in KINDS]) for batch in batches)
        lines.append(f"| reading once | | {' | '.join(floors)} |")
    for backend in backends:
        own = [row for row in rows if row["backend"] == backend]
        by_place = {(row["batch"], row["logits"]): row for row in own}
        cells = " | ".join(entry(by_place, ours, batch) for batch in batches)
        name = NAMES.get(backend, backend.removeprefix("peer:"))
        lines.append(f"| {name} | `{typed(own[0])}` | {cells} |")
    return lines


def ahead(peers, ours):
    """Returns a line for each peer and operation with cells in which the peer is faster."""
    groups = {}
    for row in peers:
        ratio = row["microseconds"] / ours[cell_of(row)]
        groups.setdefault((row["backend"], row["operation"]), []).append((ratio, row))
    lines = []
    for (backend, operation), cells in groups.items():
        faster = sorted((cell for cell in cells if cell[0] < 1), key=lambda cell: cell[0])
        if not faster:
            continue
        ratio, row = faster[0]
        lines.append(
            f"- For `{operation}`, the peer {backend.removeprefix('peer:')} was faster in "
            f"{len(faster)} of {len(cells)} measurements, and took {ratio:.2f} to "
            f"{faster[-1][0]:.2f} of fairdraw's time. The smallest ratio is that of {row['logits']} logits with "
            f"B = {row['batch']} and V = {row['vocab']}, where the peer took "
            f"{number(row['microseconds'])} µs and fairdraw {number(ours[cell_of(row)])} µs."
        )
    return lines


def render(rows):
    ours = {}
    for backend in reversed(OURS):
        ours |= {cell_of(row): row["microseconds"] for row in rows if row["backend"] == backend}
    lines = [
        "The tables have microseconds for peaked / flat logits, and in brackets the ratio to "
        "fairdraw's time. The second column has the call that a user types.",
        "",
    ]
    lines += [f"- {machine}" for machine in in_order(row["machine"] for row in rows)]
    places = in_order((row["operation"], row["vocab"], row["dtype"]) for row in rows)
    for place in sorted(places, key=lambda p: (p[0].split("/")[0] != "sample", p[0], p[1])):
        operation, vocab, dtype = place
        here = [row for row in rows if (row["operation"], row["vocab"], row["dtype"]) == place]
        lines += ["", f"`{operation}`, V = {vocab}, {dtype}", "", *table(here, ours)]
    peers = [row for row in rows if is_peer(row) and cell_of(row) in ours]
    faster = sum(row["microseconds"] < ours[cell_of(row)] for row in peers)
    lines += ["", f"Peers are faster in {faster} of {len(peers)} measurements.", "", *ahead(peers, ours)]
    return "\n".join(lines).rstrip() + "\n"


def main(files):
    if not files or any(name.startswith("-") for name in files):
        print(__doc__)
        return 0 if files in (["--help"], ["-h"]) else 2
    rows = []
    for name in files:
        try:
            rows += json.loads(Path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            print(f"peers_table.py: {name}: {error}", file=sys.stderr)
            return 2
    print("# Peers on a GPU\n\n" + render(rows), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
