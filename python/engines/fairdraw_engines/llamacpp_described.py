"""Describes llama.cpp's samplers in NumPy, in float32, for machines without llama-cpp-python.

Each function has the name of the sampler that it describes, and takes the arguments of
llama_sampler_init_*. Sums of filters are those of one loop, in float32, and sorts leave the order of
equal logits as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .llamacpp_chain import Array, Call, engine

F = np.float32


def _sum(values: Array) -> Any:
    return np.add.accumulate(values, dtype=F)[-1] if len(values) else F(0)


def _softmax(candidates: Array, in_order: bool = True) -> Array:
    """Returns the candidates with their probabilities, largest logits first if `in_order`."""
    if in_order:
        candidates = candidates[np.argsort(-candidates["logit"], kind="stable")]
    weights = np.exp(candidates["logit"] - candidates["logit"].max())
    candidates["p"] = weights / _sum(weights)
    return candidates


def penalties(
    candidates: Array,
    ids: Sequence[int],
    last: int,
    repeat: float,
    frequency: float,
    presence: float,
) -> Array:
    counts = Counter(ids[-last:])
    for place, id in enumerate(candidates["id"].tolist()):
        if counts[id] == 0:
            continue
        logit = candidates["logit"][place]
        logit = logit * F(repeat) if logit <= 0 else logit / F(repeat)
        subtracted = F(counts[id]) * F(frequency) + F(presence)
        candidates["logit"][place] = logit - subtracted
    return candidates


def logit_bias(candidates: Array, ids: Sequence[int], *entries: tuple[int, float]) -> Array:
    place_of = {id: place for place, id in enumerate(candidates["id"].tolist())}
    for id, value in entries:
        if id in place_of:
            candidates["logit"][place_of[id]] += F(value)
    return candidates


def dry(
    candidates: Array, ids: Sequence[int], multiplier: float, base: float, allowed: int, last: int
) -> Array:
    history = list(ids[-last:])
    longest: dict[int, int] = {}
    for place in range(1, len(history)):
        length = 0
        while length < place and history[place - 1 - length] == history[-1 - length]:
            length += 1
        if length >= allowed:
            longest[history[place]] = max(longest.get(history[place], 0), length)
    for place, id in enumerate(candidates["id"].tolist()):
        if id in longest:
            power = np.power(F(base), F(longest[id] - allowed))
            candidates["logit"][place] -= F(multiplier) * power
    return candidates


def top_n_sigma(candidates: Array, ids: Sequence[int], sigmas: float) -> Array:
    logits = candidates["logit"]
    finite = logits[logits > -np.inf]
    if len(logits) <= 1:
        return candidates
    mean = _sum(finite) / F(len(finite))
    deviation = np.sqrt(_sum(np.square(finite - mean)) / F(len(finite)))
    logits[logits < finite.max() - F(sigmas) * deviation] = -np.inf
    return candidates


def typical(candidates: Array, ids: Sequence[int], p: float, least: int) -> Array:
    candidates = _softmax(candidates)
    with np.errstate(divide="ignore", invalid="ignore"):
        surprises = -np.log(candidates["p"])
        entropy = _sum(candidates["p"] * surprises)
        order = np.argsort(np.abs(surprises - entropy), kind="stable")
    sums = np.add.accumulate(candidates["p"][order], dtype=F)
    reached = np.flatnonzero(sums > F(p))
    return candidates[order[: int(reached[0]) + 1 if len(reached) else len(order)]]


def xtc(
    candidates: Array,
    ids: Sequence[int],
    probability: float,
    threshold: float,
    least: int,
    seed: int,
) -> Array:
    """Excludes always, as a probability of 1 does."""
    if threshold > 0.5 or len(candidates) < 2:
        return candidates
    candidates = _softmax(candidates)
    reach = int((candidates["p"] >= F(threshold)).sum())
    return candidates[max(reach - 1, 0) :]


def top_k(candidates: Array, ids: Sequence[int], k: int) -> Array:
    if k <= 0:
        return candidates
    return candidates[np.argsort(-candidates["logit"], kind="stable")[:k]]


def top_p(candidates: Array, ids: Sequence[int], p: float, least: int) -> Array:
    if p >= 1:
        return candidates
    candidates = _softmax(candidates)
    sums = np.add.accumulate(candidates["p"], dtype=F)
    reached = np.flatnonzero(sums >= F(p))
    return candidates[: int(reached[0]) + 1] if len(reached) else candidates


def min_p(candidates: Array, ids: Sequence[int], p: float, least: int) -> Array:
    if p <= 0:
        return candidates
    logits = candidates["logit"]
    left: Array = candidates[logits >= logits.max() + np.log(F(p))]
    return left


def temp(candidates: Array, ids: Sequence[int], temperature: float) -> Array:
    logits = candidates["logit"]
    if temperature <= 0:
        logits[np.arange(len(logits)) != logits.argmax()] = -np.inf
    else:
        with np.errstate(over="ignore"):
            candidates["logit"] = logits / F(temperature)
    return candidates


def temp_ext(
    candidates: Array, ids: Sequence[int], temperature: float, reach: float, exponent: float
) -> Array:
    if len(candidates) <= 1:
        return candidates
    candidates = _softmax(candidates)
    p = candidates["p"][candidates["p"] > 0]
    share = _sum(-p * np.log(p)) / np.log(F(len(candidates)))
    low, high = max(F(0), F(temperature) - F(reach)), F(temperature) + F(reach)
    return temp(candidates, ids, float(low + (high - low) * np.power(share, F(exponent))))


def adaptive_p(
    candidates: Array, ids: Sequence[int], target: float, decay: float, seed: int
) -> Array:
    """Has the target of the first draw."""
    candidates = _softmax(candidates, in_order=False)
    distance = np.abs((candidates["p"] - F(target)) * (F(1) / F(0.3)))
    candidates["logit"] = F(5) - F(10) * distance * distance / (F(1) + distance)
    return candidates


SAMPLERS = {
    sampler.__name__: sampler
    for sampler in (
        penalties, logit_bias, dry, top_n_sigma, typical, xtc, top_k, top_p, min_p, temp, temp_ext,
        adaptive_p,
    )
}  # fmt: skip


def described(samplers: dict[str, Any] = SAMPLERS) -> Any:
    """Returns functions as `llamacpp_chain.library` does."""

    def apply(calls: Sequence[Call], candidates: Array) -> Array:
        left = candidates.copy()
        for call in calls:
            left = samplers[call.name](left, call.accepts, *call.arguments)
        return left

    generator = np.random.default_rng(1)

    def draw(candidates: Array) -> tuple[Array, int]:
        """Draws by the running sums of the weights, which are those of doubles in this sampler alone."""
        left = candidates.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.exp(left["logit"] - left["logit"].max())
        sums = np.add.accumulate(weights, dtype=np.float64)
        left["p"] = weights / sums[-1]
        place = np.searchsorted(sums, generator.random() * sums[-1], side="right")
        return left, min(int(place), len(left) - 1)

    return apply, draw


ENGINE = engine(
    "llamacpp_described",
    "NumPy, from the description of llama.cpp's samplers: those of llamacpp_chain",
    lambda: f"numpy {np.__version__}",
    described,
)
