"""Shrinks a row for which an engine gives a wrong answer to a small row with the same symptom."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator

import numpy as np

from ._one_row import Array, Row

Holds = Callable[[Row], bool]


def as_text(value: float) -> str:
    """Returns the shortest text that reads back as the same float32."""
    text = repr(np.float32(value).item()) if not np.isfinite(value) else str(np.float32(value))
    return text.removesuffix(".0")


def complexity(row: Row) -> tuple[int, int, int]:
    """Returns the sizes that shrinking reduces: number of tokens, number of parameters not at their
    defaults, number of digits."""
    defaults = (1.0, 0, 1.0, 0.0)
    used = sum(a != b for a, b in zip(row.parameters(), defaults, strict=True))
    values, counts = np.unique(row.logits, return_counts=True)
    # A value that several tokens share is written once, and each repetition counts as one digit.
    digits = sum(len(as_text(v)) for v in values) + int(counts.sum())
    return row.vocab, used, digits + sum(len(as_text(p)) for p in row.parameters())


def _without(row: Row, begin: int, size: int) -> Iterator[Row]:
    """Yields the row without some tokens, and yields it again with a top_k that is smaller by the
    same number."""
    logits = np.delete(row.logits, slice(begin, begin + size))
    if len(logits):
        yield dataclasses.replace(row, logits=logits)
        if row.top_k > size:
            yield dataclasses.replace(row, logits=logits, top_k=row.top_k - size)


def _fewer_tokens(row: Row, holds: Holds) -> Row:
    size = max(row.vocab // 2, 1)
    while size >= 1:
        begin = 0
        while begin < row.vocab:
            smaller = next((one for one in _without(row, begin, size) if holds(one)), None)
            if smaller is None:
                begin += size
            else:
                row = smaller
        size //= 2
    return row


def _plainer_parameters(row: Row) -> Iterator[Row]:
    for temperature in (1.0, 0.5):
        yield dataclasses.replace(row, temperature=temperature)
    for top_k in (0, 1, 2, row.top_k // 2, row.top_k - 1):
        if 0 <= top_k < row.top_k:
            yield dataclasses.replace(row, top_k=top_k)
    for top_p in (1.0, 0.5, 0.9):
        yield dataclasses.replace(row, top_p=top_p)
    for min_p in (0.0, 0.5):
        yield dataclasses.replace(row, min_p=min_p)


def _rounded(values: Array, digits: int) -> Array:
    return np.array([float(f"{v:.{digits - 1}e}") for v in values], np.float64)


def _plainer_values(row: Row) -> Iterator[Row]:
    """Yields the row with all values rounded. Then yields rows in which a single value is 0, equal
    to a neighbour, or rounded."""
    finite = np.isfinite(row.logits)

    def changed(where: Array, to: Array | float) -> Row:
        logits = row.logits.copy()
        with np.errstate(over="ignore"):
            logits[where] = np.asarray(to, np.float32)
        return dataclasses.replace(row, logits=logits)

    for digits in (1, 2, 3):
        yield changed(finite, _rounded(row.logits[finite], digits))
    values = np.unique(row.logits[finite])[:64]
    for value in values:
        where = row.logits == value
        for digits in (1, 2, 3):
            yield changed(where, _rounded(np.array([value]), digits)[0])
        yield changed(where, 0.0)
        yield changed(where, -np.inf)
        for other in values[:8]:
            yield changed(where, other)


def shrink(row: Row, fails: Holds, seconds: float) -> Row:
    """Returns the simplest row that is found within `seconds`. `fails` tells whether a row still
    shows the symptom."""
    end = time.monotonic() + seconds

    def holds(one: Row) -> bool:
        return time.monotonic() < end and fails(one)

    before = None
    while before is None or (complexity(row) < before and time.monotonic() < end):
        before = complexity(row)
        row = _fewer_tokens(row, holds)
        for plainer in (_plainer_parameters, _plainer_values):
            found: Row | None = row
            while found is not None:
                found = next(
                    (o for o in plainer(row) if complexity(o) < complexity(row) and holds(o)), None
                )
                row = found or row
    return row
