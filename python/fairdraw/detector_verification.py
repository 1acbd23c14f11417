"""Defines `verify_detector`, which judges the p-values of a detector of watermarks.

>>> report = fairdraw.verify_detector(my_p_value, vocab=32000)
>>> report.raise_for_failures()

A detector gets the ids of a text and a key, and returns a p-value. The p-value is right if, for each
text that does not depend on the key, P(p <= a) <= a over random keys, for every a. Smaller
probabilities are right, too, because a count has a discrete distribution.

Definition: harness/statistics/binomial.h for the test of each a.
"""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from ._judged import expect_integer, expect_text
from .verification import VerificationFailed

#: Returns the p-value of a text for a key, or for several keys; None for a text that is too short.
Detector = Callable[[Any, Any], Any]
#: Returns a text of the given length for each of the keys, marked by that key. The integer is a seed.
Generator = Callable[[Any, int, int], Sequence[Any]]

#: Levels a at which P(p <= a) is tested.
LEVELS = tuple(1 - 2.0**-place for place in range(6, 1, -1)) + tuple(
    2.0**-place for place in range(1, 65)
)
#: The number of texts that are tested with many keys each.
FIXED_TEXTS = 4
#: The largest number of ids of a short text, and of a phrase that a text repeats.
SHORT, PHRASE = 12, 12


@dataclass(frozen=True)
class DetectorCase:
    """The result for one kind of text. `texts` is the number of p-values."""

    name: str
    verdict: str  #: "passed" or "failed"
    message: str
    texts: int


@dataclass(frozen=True)
class DetectorReport:
    """Result of `verify_detector`.

    `power` is the share of marked texts whose p-value is at most `power_at`, and None if no marked
    text was given.
    """

    name: str
    cases: list[DetectorCase]
    power: float | None
    power_at: float
    seed: int
    seconds: float = field(compare=False)

    @property
    def verdict(self) -> str:
        """Returns "passed", or "failed" if one of the cases failed."""
        return "failed" if self.failures else "passed"

    @property
    def failures(self) -> list[DetectorCase]:
        return [case for case in self.cases if case.verdict == "failed"]

    def raise_for_failures(self) -> None:
        """Raises an exception unless the verdict is "passed".

        Raises:
            VerificationFailed: A case failed; the message has the lines of all cases.
        """
        if self.failures:
            raise VerificationFailed(str(self))

    def __str__(self) -> str:
        lines = [f"{case.verdict:7} {case.name}: {case.message}" for case in self.cases]
        if self.power is not None:
            lines.append(f"power   {self.power:.1%} of marked texts have p <= {self.power_at:g}")
        failed = len(self.failures)
        lines.append(f"{self.name}: {len(self.cases) - failed} passed, {failed} failed")
        return "\n".join(lines)


def _zipf(random: np.random.Generator, vocab: int, length: int) -> Any:
    """Returns ids whose logarithms are uniform, so that small ids are frequent."""
    ids = np.floor(float(vocab) ** random.random(length)).astype(np.int32) - 1
    return np.minimum(ids, vocab - 1)


def _drawn(random: np.random.Generator, vocab: int, length: int) -> Any:
    return _zipf(random, vocab, length)


def _repeating(random: np.random.Generator, vocab: int, length: int) -> Any:
    return np.resize(_zipf(random, vocab, int(random.integers(1, PHRASE + 1))), length)


def _two_ids(random: np.random.Generator, vocab: int, length: int) -> Any:
    return random.integers(0, 2, length).astype(np.int32)


def _short(random: np.random.Generator, vocab: int, length: int) -> Any:
    return _zipf(random, vocab, int(random.integers(0, SHORT + 1)))


#: Kinds of texts that do not depend on a key.
_KINDS = {
    "drawn ids": _drawn,
    "repeated phrases": _repeating,
    "two ids": _two_ids,
    "short texts": _short,
}


class _BadResult(Exception):
    """The reason why a p-value could not be had."""


class _Judge:
    """The detector, and the random keys that it gets."""

    def __init__(self, detector: Detector, keys: int, seed: int) -> None:
        self._detector = detector
        self._keys = keys
        self._random = np.random.default_rng([seed, 0])

    def fresh_keys(self, count: int) -> Any:
        return self._random.integers(1, 2**64 - 1, count, dtype=np.uint64, endpoint=True)

    def p_value(self, text: Any, first_key: int | None = None) -> float:
        """Returns the detector's p-value of a text for random keys, of which the first is given
        for a marked text."""
        keys = self.fresh_keys(self._keys)
        if first_key is not None:
            keys[0] = first_key
        ids = np.array(text, np.int32)
        try:
            found = self._detector(ids, int(keys[0]) if self._keys == 1 else keys)
        except Exception as error:
            raise _BadResult(f"raises {type(error).__name__}: {error}") from error
        if found is None:
            return 1.0
        if not isinstance(found, numbers.Real) and getattr(found, "shape", None) != ():
            raise _BadResult(f"returns {found!r}; allowed: a p-value, or None")
        value = float(found)
        if not 0 <= value <= 1:
            raise _BadResult(f"returns a p-value of {value!r} for {len(ids)} ids")
        return value


def _largest_excess(p_values: Sequence[float]) -> tuple[float, float, int]:
    """Returns the smallest probability that as many right p-values are at most a, over all levels
    a, with a and the number of p-values."""
    ordered = np.sort(np.asarray(p_values, float))
    tails = []
    for level in LEVELS:
        count = int(np.searchsorted(ordered, level, side="right"))
        tails.append((_core.binomial_upper_tail(count, len(ordered), level), level, count))
    return min(tails)


def _judged(name: str, groups: Sequence[Iterable[float]], rate: float) -> DetectorCase:
    """Judges the p-values of each group by itself. `rate` is the largest probability with which a
    right detector fails the case."""
    texts, worst = 0, (math.inf, 1.0, 0, 0)
    tests = len(LEVELS) * len(groups)
    try:
        for group in groups:
            p_values = list(group)
            texts += len(p_values)
            worst = min(worst, (*_largest_excess(p_values), len(p_values)))
    except _BadResult as reason:
        return DetectorCase(name, "failed", str(reason), texts)
    tail, level, count, of = worst
    message = f"p <= {level:.3g} in {count} of {of} texts"
    if tail > rate / tests:
        return DetectorCase(name, "passed", f"the least likely count is {message}", texts)
    chance = f"which right p-values are with a probability of at most {max(tail, 1e-300):.1g}"
    return DetectorCase(name, "failed", f"{message}, {chance}", texts)


def verify_detector(
    detector: Detector,
    *,
    vocab: int,
    length: int = 200,
    texts: int = 1000,
    keys: int = 1,
    generate: Generator | None = None,
    power_at: float = 1e-6,
    least_power: float = 0.0,
    name: str | None = None,
    seed: int = 1,
    false_fail_rate: float = 1e-9,
) -> DetectorReport:
    """Judges whether a detector's p-values are right for texts that do not depend on the key, and
    returns the report. Raises an exception only for bad arguments.

    `detector` is called with the ids of a text, an int32 array [length], and a key, an integer from
    1 to 2^64 - 1. It returns the p-value, or None for a text that is too short to be tested. With
    `keys` greater than 1 the second argument is a uint64 array of so many keys, and the p-value is
    that of the best key. An exception, or a result that is no number in [0, 1], fails the case.

    `vocab`, at least 2, is the number of ids, and `length` that of a text, except for the kind of
    short texts. Each kind has `texts` texts: drawn ids, repeated phrases, two ids alone, 0 to 12
    ids, and four texts with many keys each.

    `generate(keys, length, seed)` returns one text for each key of a uint64 array, marked by that
    key. These texts are tested with other keys. Tested with their own key, they give the report's
    `power`: the share with a p-value of at most `power_at`. The power is not judged, unless
    `least_power` is positive: a smaller power then fails.

    `false_fail_rate` is the largest probability with which a right detector fails. It is divided
    among all tests. The report depends on `seed` alone.

    Definition: harness/statistics/binomial.h.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A number is out of its range, or `least_power` is given without `generate`.
    """
    if not callable(detector):
        raise TypeError(f"detector is {detector!r}; allowed: a callable")
    if generate is not None and not callable(generate):
        raise TypeError(f"generate is {generate!r}; allowed: a callable, or None")
    vocab = expect_integer("vocab", vocab, 2, 2**20, "2 to 2^20")
    length = expect_integer("length", length, 1, 2**20, "1 to 2^20")
    texts = expect_integer("texts", texts, 100, 2**20, "100 to 2^20")
    keys = expect_integer("keys", keys, 1, 2**16, "1 to 2^16")
    seed = expect_integer("seed", seed, 0, 2**64 - 1, "0 to 2^64 - 1")
    if name is not None:
        expect_text("name", name, "a string, or None")
    for argument, value, least in (
        ("power_at", power_at, 2.0**-1000),
        ("least_power", least_power, 0.0),
        ("false_fail_rate", false_fail_rate, 2.0**-1000),
    ):
        if not least <= value <= 1:
            raise ValueError(f"{argument} is {value!r}; allowed: {least:g} to 1")
    if least_power > 0 and generate is None:
        raise ValueError("least_power: needs texts that are marked; allowed with generate")

    begin = time.monotonic()
    judge = _Judge(detector, keys, seed)
    rate = false_fail_rate / (len(_KINDS) + 1 + 2 * (generate is not None))
    cases = []
    for place, (kind, make) in enumerate(_KINDS.items()):
        random = np.random.default_rng([seed, 1, place])
        ids = [make(random, vocab, length) for _ in range(texts)]
        cases.append(_judged(kind, [map(judge.p_value, ids)], rate))
    random = np.random.default_rng([seed, 2])
    fixed = [_drawn(random, vocab, length) for _ in range(FIXED_TEXTS)]
    many = [map(judge.p_value, [text] * (texts // FIXED_TEXTS)) for text in fixed]
    cases.append(_judged("fixed texts", many, rate))
    power = None
    if generate is not None:
        own_keys = judge.fresh_keys(texts)
        marked = generate(own_keys, length, seed)
        cases.append(_judged("texts of another key", [map(judge.p_value, marked)], rate))
        power, case = _power(judge, marked, own_keys, power_at, least_power, rate)
        cases += [case] if case is not None else []
    label = name or str(getattr(detector, "__name__", type(detector).__name__))
    return DetectorReport(label, cases, power, power_at, seed, time.monotonic() - begin)


def _power(
    judge: _Judge, marked: Sequence[Any], own_keys: Any, power_at: float, least: float, rate: float
) -> tuple[float | None, DetectorCase | None]:
    """Returns the share of marked texts that are found, and the case that judges the share if the
    caller requires a power or the detector fails."""
    kind = "texts of its own key"
    try:
        p_values = [
            judge.p_value(text, key) for text, key in zip(marked, own_keys.tolist(), strict=True)
        ]
    except _BadResult as reason:
        return None, DetectorCase(kind, "failed", str(reason), 0)
    count = sum(value <= power_at for value in p_values)
    power = count / len(p_values)
    if least == 0:
        return power, None
    message = f"p <= {power_at:g} in {count} of {len(p_values)} texts; required: {least:.0%}"
    is_too_small = _core.binomial_lower_tail(count, len(p_values), least) <= rate
    return power, DetectorCase(kind, "failed" if is_too_small else "passed", message, len(p_values))
