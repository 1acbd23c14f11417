"""Computes the probabilities that a claim allows at a position, from the log-probabilities that the
server reports.

A server reports the largest log-probabilities of a position, each of which is wrong by at most
`noise`. All other tokens together form the tail. The tail is one outcome, whose weight has a lower
and an upper bound. Near a boundary the effect of the claim's filters is therefore uncertain. A
token may be surely kept, surely dropped or neither. `upper_bounds` gives, for each outcome, the
largest probability under any true values within the noise. `nominal` is the distribution if the
reported numbers are exact.

All arrays have one row per position and one column per reported token. No function reads the drawn
token, so that bets computed from these arrays are fixed before the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # a NumPy array; NumPy's own types say little about an array's content

STEPS = ("temperature", "min_p", "top_k", "top_p")
#: Relative error of a server's float32 sums of probabilities, in addition to the noise of the
#: log-probabilities.
SUM_ERROR = 1e-5


@dataclass(frozen=True)
class Claim:
    """The operations that a server claims to apply to raw logits, and the order of the
    operations."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    order: tuple[str, ...] = STEPS
    #: Whether the filter top_p keeps the token at which the cumulative mass reaches top_p.
    keeps_crossing_token: bool = True

    @property
    def penalises(self) -> bool:
        return self.presence_penalty != 0 or self.frequency_penalty != 0


@dataclass(frozen=True)
class Positions:
    """Positions of responses, with the reported log-probabilities and the drawn tokens."""

    logprobs: Array  #: [positions, reported]; -inf if fewer tokens are reported
    counts: Array  #: [positions, reported]: how often the output so far has the token
    drawn: Array  #: [positions]: the column of the drawn token; -1 is the tail

    def __len__(self) -> int:
        return len(self.drawn)

    def select(self, rows: Array) -> Positions:
        return Positions(self.logprobs[rows], self.counts[rows], self.drawn[rows])


@dataclass(frozen=True)
class _Kept:
    """The filters' result: weights relative to the largest weight, the tokens that are surely kept,
    and the tokens that are perhaps kept."""

    weights: Array
    top: Array  #: the largest penalised value, whose weight is 1
    scale: float  #: factor of the values in the exponents of the weights
    noise: float  #: error of the logarithm of a weight
    surely: Array
    perhaps: Array
    tail_low: Array
    tail_high: Array


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(values)


def _tail_bounds(logprobs: Array, scale: float, noise: float, vocab: int) -> tuple[Array, Array]:
    """Returns bounds of the sum of exp(scale * logprob) over the tokens that are not reported.

    No unreported token has a larger probability than the smallest reported probability, and the
    unreported probabilities sum to the rest. For scale > 1 the sum is largest if few tokens hold
    the mass. For scale < 1 the sum is largest if the mass is spread over the vocabulary (power
    means).
    """
    rest_low = np.clip(1 - np.exp(logprobs + noise).sum(axis=1), 0, 1)
    rest_high = np.clip(1 - np.exp(logprobs - noise).sum(axis=1), 0, 1)
    largest = np.where(np.isfinite(logprobs), logprobs, 0).min(axis=1) + noise
    if scale == 1:
        return rest_low, rest_high
    concentrated = (scale - 1) * largest
    if scale > 1:
        return np.zeros_like(rest_low), np.exp(_log(rest_high) + concentrated)
    spread = (1 - scale) * np.log(vocab) + scale * _log(rest_high)
    return np.exp(_log(rest_low) + concentrated), np.exp(spread)


def _kept(positions: Positions, claim: Claim, noise: float, vocab: int) -> _Kept:
    penalty = claim.presence_penalty * (positions.counts > 0)
    values = positions.logprobs - penalty - claim.frequency_penalty * positions.counts
    there = np.isfinite(values)
    top = values.max(axis=1, keepdims=True)
    least = np.where(there, values, np.inf).min(axis=1)
    surely, perhaps = there.copy(), there.copy()
    tail_surely = np.ones(len(values), bool)
    tail_perhaps = np.ones(len(values), bool)
    # Entry [:, i, j] says whether column j is above column i. No token is above itself.
    others = ~np.eye(values.shape[1], dtype=bool)
    perhaps_above = (values[:, None, :] > values[:, :, None] - 2 * noise) & others
    surely_above = values[:, None, :] > values[:, :, None] + 2 * noise
    surely_above_tail = values > least[:, None] + 2 * noise
    scale = 1.0

    def weights() -> tuple[Array, Array, Array]:
        relative = np.exp(scale * np.where(there, values - top, -np.inf))
        if claim.penalises:  # the tail may hold penalised tokens, so that its bounds are unknown
            return relative, np.zeros(len(values)), np.full(len(values), np.inf)
        low, high = _tail_bounds(positions.logprobs, scale, noise, vocab)
        shift = np.exp(np.minimum(-scale * top[:, 0], 700))
        return relative, low * shift, high * shift

    for step in claim.order:
        if step == "temperature":
            scale = 1 / claim.temperature
        elif step == "top_k" and claim.top_k > 0:
            min_rank = (surely_above & surely[:, None, :]).sum(axis=2)
            max_rank = (perhaps_above & perhaps[:, None, :]).sum(axis=2)
            tail_perhaps &= (surely_above_tail & surely).sum(axis=1) < claim.top_k
            tail_surely[:] = False
            surely &= max_rank < claim.top_k
            perhaps &= min_rank < claim.top_k
        elif step == "top_p" and claim.top_p < 1:
            relative, low, high = weights()
            down = relative * np.exp(-noise * scale) * surely
            up = relative * np.exp(noise * scale) * perhaps
            low, high = low * tail_surely, np.where(tail_perhaps, high, 0)
            error = SUM_ERROR if noise > 0 else 0.0
            max_above = (perhaps_above * up[:, None, :]).sum(axis=2)
            rest = (~perhaps_above * down[:, None, :]).sum(axis=2) + low[:, None]
            min_above = (surely_above * down[:, None, :]).sum(axis=2)
            max_rest = (~surely_above * up[:, None, :]).sum(axis=2) + high[:, None]
            above_tail = (surely_above_tail * down).sum(axis=1)
            below = (~surely_above_tail * up).sum(axis=1) + high
            # The own mass of every token counts, except that of the largest token.
            if not claim.keeps_crossing_token:
                own = np.where(values < top, relative, 0)
                min_above, max_rest = min_above + own, max_rest - own
            with np.errstate(invalid="ignore", divide="ignore"):
                surely &= max_above < claim.top_p * (1 - error) * (max_above + rest)
                perhaps &= min_above < claim.top_p * (1 + error) * (min_above + max_rest)
                tail_perhaps &= above_tail < claim.top_p * (1 + error) * (above_tail + below)
            tail_surely[:] = False
        elif step == "min_p" and claim.min_p > 0:
            reach = -np.log(claim.min_p) / scale
            gap = np.where(there, top - values, np.inf)
            surely &= gap + 2 * noise <= reach
            perhaps &= gap - 2 * noise <= reach
            tail_perhaps &= top[:, 0] - least - 2 * noise <= reach
            tail_surely[:] = False
    relative, low, high = weights()
    return _Kept(
        relative,
        top[:, 0],
        scale,
        noise * scale,
        surely,
        perhaps,
        np.where(tail_surely, low, 0),
        np.where(tail_perhaps, high, 0),
    )


@dataclass(frozen=True)
class UpperBounds:
    """The largest probabilities that a claim allows, given the noise of the reported numbers."""

    #: [positions, reported + 1]: a bound for each outcome. The last column is the tail.
    outcomes: Array
    among_reported: Array  #: [positions, reported]: bound given that a reported token is drawn


def upper_bounds(positions: Positions, claim: Claim, noise: float, vocab: int) -> UpperBounds:
    """Returns `UpperBounds`."""
    kept = _kept(positions, claim, noise, vocab)
    up = kept.weights * np.exp(kept.noise) * kept.perhaps
    down = kept.weights * np.exp(-kept.noise) * kept.surely
    total = down.sum(axis=1)
    others = np.maximum(total[:, None] - down, 0)
    low, high = kept.tail_low[:, None], kept.tail_high
    with np.errstate(invalid="ignore", divide="ignore"):
        among = np.where(up > 0, up / (up + others), 0)
        tokens = np.where(up > 0, up / (up + others + low), 0)
        tail = np.where(high > 0, high / (high + total), 0)
    tail = np.where(np.isinf(high), 1, tail)
    return UpperBounds(np.concatenate([tokens, tail[:, None]], axis=1), among)


def nominal(positions: Positions, claim: Claim, vocab: int) -> Array:
    """Returns the probabilities [positions, reported + 1] if the reported numbers are exact."""
    kept = _kept(positions, claim, 0.0, vocab)
    tokens = kept.weights * kept.perhaps
    # A bet may use any estimate of the tail. The bounds of a tail that is flatter or steeper than
    # the reported values are far apart. Half of the upper bound or twice the lower bound has the
    # right order of magnitude.
    low, high = kept.tail_low, kept.tail_high
    if claim.penalises:  # treats the tail as free of penalised tokens unless it is surely dropped
        low, high = _tail_bounds(positions.logprobs, kept.scale, 0.0, vocab)
        shift = np.exp(np.minimum(-kept.scale * kept.top, 700)) * (kept.tail_high > 0)
        low, high = low * shift, high * shift
    tail = np.where(claim.temperature > 1, 2 * low, 0.5 * high)
    if claim.temperature == 1:
        tail = high
    both = np.concatenate([tokens, tail[:, None]], axis=1)
    return both / np.maximum(both.sum(axis=1, keepdims=True), 1e-300)
