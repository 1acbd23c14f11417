"""Defines rules of engines' samplers, written from their public sources as differences from
`Textbook`.

The file needs only NumPy, because show.py runs it from its own folder. The adapters of
from_source.py make it possible to judge these rules, and name the sources. The docstring of a class
or function states only its rule; everything else is the textbook's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _mass_above(weights: Array) -> Array:
    """Returns, for each weight of a row, the sum of the larger weights."""
    order = np.argsort(-weights, axis=-1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=-1)
    before = np.zeros_like(ranked)
    before[..., 1:] = ranked.cumsum(axis=-1)[..., :-1]
    before[..., 1:][ranked[..., 1:] == ranked[..., :-1]] = 0  # kept at the first token of a tie
    found = np.empty_like(weights)
    np.put_along_axis(found, order, np.maximum.accumulate(before, axis=-1), axis=-1)
    return found


class Textbook:
    """A right sampler of rows in float64, with min_p, top_k and top_p in this order. Ties stay."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self._row: Any = None  # the previous row, because calls often repeat a row
        self._filtered: Any = None

    def stays_by_min_p(self, weights: Array, min_p: Array) -> Any:
        """Takes weights [..., vocab], of which the largest in a row is 1, and parameters [...,
        1]."""
        return weights >= min_p

    def stays_by_top_p(self, weights: Array, top_p: Array) -> Any:
        return _mass_above(weights) < top_p * weights.sum(axis=-1, keepdims=True)

    def refuses(self, logits: Array, t: Any, k: Any, p: Any, m: Any) -> Any:
        """Returns [...] bool: true for rows without a distribution, or with parameters out of
        range."""
        valid = (t == 0) | (t >= 2.0**-126) & (t <= 2.0**64)
        valid &= (k >= -1) & (p >= 0) & (p <= 1) & (m >= 0) & (m <= 1)
        return ~(valid & np.isfinite(logits.max(axis=-1)))

    def filtered(self, logits: Array, t: Any, k: Any, p: Any, m: Any) -> tuple[Array, Array]:
        """Takes logits and accepted parameters [...]. Returns the survivors [..., vocab] bool, and
        their weights."""
        x, vocab = logits.astype(np.float64), logits.shape[-1]
        x -= x.max(axis=-1, keepdims=True)
        largest = np.arange(vocab) == x.argmax(axis=-1)[..., None]
        t, k, p, m = (np.asarray(column, np.float64)[..., None] for column in (t, k, p, m))
        with np.errstate(over="ignore"):
            w = np.exp(x / np.where(t == 0, 1, t))
        x[(m > 0) & ~self.stays_by_min_p(w, m)] = -np.inf
        place = vocab - np.where((k > 0) & (k < vocab), k, vocab).astype(np.int64)
        x[x < np.take_along_axis(np.sort(x, axis=-1), place, axis=-1)] = -np.inf
        w[x == -np.inf] = 0
        x[(p < 1) & ~self.stays_by_top_p(w, p)] = -np.inf
        greedy = (t == 0) | (k == 1) | (p == 0)
        kept = np.where(greedy, largest, x > -np.inf)
        return kept, np.where(kept, np.where(greedy, 1, w), 0)

    def draw(self, weights: Array, draws: int) -> Array:
        """Draws tokens from one row."""
        return self.random.choice(len(weights), draws, p=weights / weights.sum())

    def answer(
        self, logits: Array, t: float, k: int, p: float, m: float, draws: int
    ) -> tuple[Array, Array]:
        """Returns the survivors [vocab] bool and the tokens [draws] of one row. If the row is
        refused, there are no survivors, and the tokens are -1."""
        if self.refuses(logits, t, k, p, m):
            return np.zeros(len(logits), bool), np.full(draws, -1)
        row = (logits.tobytes(), t, k, p, m)
        if row != self._row:
            self._row, self._filtered = row, self.filtered(logits, t, k, p, m)
        kept, weights = self._filtered
        return kept, self.draw(weights, draws)


class LiteRtLm(Textbook):
    """TopKTopPSampling: continues its walk over cumulative probabilities after it has found its
    token."""

    def draw(self, weights: Array, draws: int) -> Array:
        nucleus = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)]
        cumulative = weights[nucleus].cumsum()
        chosen = self.random.uniform(0, cumulative[-1], draws)
        sampled = np.zeros(draws, np.int64)
        # The last tokens suffice.
        for token, mass in zip(nucleus[-2:], cumulative[-2:], strict=True):
            sampled[chosen <= mass] = token
        return sampled


class Mnn(Textbook):
    """LocalSampler::minP: compares the probability itself with min_p, not the ratio of the
    probability to the largest."""

    def stays_by_min_p(self, weights: Array, min_p: Array) -> Any:
        first = np.arange(weights.shape[-1]) == weights.argmax(axis=-1)[..., None]
        return (weights / weights.sum(axis=-1, keepdims=True) >= min_p) | first


def bfloat16(values: Any) -> Array:
    """Rounds to bfloat16, with ties to even. The results are float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + (0x7FFF + (bits >> 16 & 1))) & 0xFFFF0000).astype(np.uint32).view(np.float32)


class SonicTopP(Textbook):
    """nucleus_masking (ops/base.py): keeps a token if the mass up to and including the token is at
    most p."""

    def stays_by_top_p(self, weights: Array, top_p: Array) -> Any:
        order = np.argsort(-weights, axis=-1, kind="stable")
        ladder = np.take_along_axis(weights, order, axis=-1).cumsum(axis=-1)
        stays = ladder <= top_p * ladder[..., -1:]
        stays[..., 0] = True
        found = np.empty_like(stays)
        np.put_along_axis(found, order, stays, axis=-1)
        return found


class Sonic(Textbook):
    """A sampler that follows SonicSampler's definitions in exact arithmetic. The rule takes the
    largest logits over the temperature, with the lower id first among equal logits. The rule then
    applies top_k, top_p as above, and min_p, and draws the token with the largest difference of
    logit and noise.
    """

    largest_top_k = 128
    candidates: int | None = None  #: number of candidates without a top_k
    min_p_of_one_is_off = False

    def rounded(self, values: Any) -> Array:
        return np.asarray(values, np.float64)

    def answer(
        self, logits: Array, t: float, k: int, p: float, m: float, draws: int
    ) -> tuple[Array, Array]:
        kept, tokens = np.zeros(len(logits), bool), np.full(draws, -1)
        if k > self.largest_top_k or self.refuses(logits, t, max(k, -1), min(p, 1), m):
            return kept, tokens
        if t == 0:  # a greedy row, in the form that SonicSampler's callers request
            t, k = 1, 1
        with np.errstate(over="ignore"):
            x = self.rounded(self.rounded(logits) / self.rounded(t))
        order = np.argsort(-x, kind="stable")[: k if k > 0 else self.candidates]
        x = x[order]
        with np.errstate(invalid="ignore"):
            weights = np.exp(x.astype(np.float64) - x[0])
        stays = x > -np.inf
        if 0 < p < 1:
            ladder = weights.cumsum()
            stays &= ladder <= self.rounded(p) * ladder[-1]
        if 0 < m and not (m == 1 and self.min_p_of_one_is_off):
            stays &= weights >= self.rounded(m)
        stays[0] = True
        order, x = order[stays], x[stays]
        kept[order] = True
        step = max(1, (1 << 20) // len(order))
        for begin in range(0, draws, step):
            wait = self.random.exponential(size=(min(step, draws - begin), len(order)))
            noise = self.rounded(np.log(self.rounded(wait)))
            tokens[begin : begin + step] = order[np.argmax(self.rounded(x - noise), axis=1)]
        return kept, tokens


class SonicPool(Sonic):
    """docs/concepts.md: keeps at most 128 tokens if there is no top_k."""

    candidates = 128


class SonicMinPOne(Sonic):
    """Indicator.from_params (core/flags.py): reads min_p only if min_p is below 1."""

    min_p_of_one_is_off = True


class SonicArithmetic(Sonic):
    """ops/prologue.py, ops/singular.py, core/buffer.py: keeps logits, logits over the temperature,
    parameters, noise and the difference that decides in bfloat16.
    """

    def rounded(self, values: Any) -> Array:
        return bfloat16(values)


class SonicSampler(SonicArithmetic, SonicPool, SonicMinPOne):
    """A sampler with all rules of SonicSampler together."""


# --- Drafts ------------------------------------------------------------------------------------


class Verifier:
    """A right verifier of drafts, which accepts a draft with probability min(1, p / q), and
    otherwise draws from the excess of p over q."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def accepts(self, p: Array, q: Array) -> Any:
        """Returns whether each draft is accepted, [...] bool, from the drafted tokens'
        probabilities in target and draft."""
        return self.random.random(p.shape) * q < p

    def race(self, weights: Array, draft: Array, drafted: Array) -> Any:
        """Returns tokens [...] drawn by weights [..., vocab], which replace rejected drafts."""
        return self.drawn(weights)

    def drawn(self, weights: Array) -> Any:
        sums = weights.cumsum(axis=-1)
        below = sums <= self.random.random(sums.shape[:-1])[..., None] * sums[..., -1:]
        last = weights.shape[-1] - 1 - (weights[..., ::-1] > 0).argmax(axis=-1)
        return np.minimum(below.sum(axis=-1), last)

    def verify(self, target: Array, draft: Array, drafted: Array, lengths: Array) -> Array:
        """Returns tokens [requests, n + 1], with -1 after the last token, for `lengths` drafts per
        request.

        `target` [requests, n + 1, vocab] and `draft` [requests, n, vocab] are probabilities, and
        `drafted` is [requests, n].
        """
        requests, n = drafted.shape
        p, q = (
            np.take_along_axis(law[:, :n], drafted[..., None], axis=-1)[..., 0]
            for law in (target, draft)
        )
        stands = self.accepts(p, q) & (np.arange(n) < lengths[:, None])
        accepted = np.logical_and.accumulate(stands, axis=1).sum(axis=1)
        each, rejected = np.arange(requests), accepted < lengths
        own = self.drawn(target[each, accepted])
        where = each[rejected], accepted[rejected]
        residual = np.maximum(target[where] - draft[where], 0)
        own[rejected] = self.race(residual, draft[where], drafted[where])
        tokens = np.full((requests, n + 1), -1)
        tokens[:, :n] = np.where(np.arange(n) < accepted[:, None], drafted, -1)
        tokens[each, accepted] = own
        return tokens


class OpenVinoCoin(Verifier):
    """Sampler::validate_candidate: draws a coin of 0, 1/100, ... or 1, and also accepts on
    equality."""

    def accepts(self, p: Array, q: Array) -> Any:
        return self.random.integers(0, 101, p.shape) / 100 * q <= p


class SonicCorrection(Verifier):
    """rejection_sample (ops/verify.py): reuses the draft's noise, which step_weights carries over.

    The drafts are given here, so that the noise is drawn conditionally on the drafts: the largest
    sum of log q and noise belongs to the drafted token, and the other sums are below it. For Gumbel
    noise the distributions of the largest sum and of the other sums are known.
    """

    def race(self, weights: Array, draft: Array, drafted: Array) -> Any:
        largest = self.random.gumbel(size=(*drafted.shape, 1))
        with np.errstate(divide="ignore"):
            log_q, log_w = np.log(draft), np.log(weights)
        free = self.random.gumbel(size=draft.shape)
        # The sum is conditioned to be below the largest sum: -log(exp(-largest) + exp(-sum)) of an
        # unconditioned sum.
        sums = -np.logaddexp(-largest, -(log_q + free))
        np.put_along_axis(sums, drafted[..., None], largest, axis=-1)
        noise = np.where(draft > 0, sums - np.where(draft > 0, log_q, 0), free)
        return (log_w + noise).argmax(axis=-1)


# --- Processing --------------------------------------------------------------------------------


def ban(scores: Array, banned: Sequence[Sequence[int]]) -> None:
    """Bans tokens in each row of scores, [rows, vocab]."""
    for row, ids in enumerate(banned):
        scores[row, list(ids)] = -np.inf


def lmdeploy_ban(scores: Array, banned: Sequence[Sequence[int]]) -> None:
    """make_sampling_inputs and _process_bad_words_: pads lists with id 0, whose score is written
    back."""
    longest = max(map(len, banned), default=0)
    ids = np.array([[*row, *[-1] * (longest - len(row))] for row in banned], np.int64)
    mask = ids >= 0
    ids = np.where(mask, ids, 0).reshape(len(banned), longest)
    filtered = np.take_along_axis(scores, ids, axis=1)
    filtered[mask.reshape(filtered.shape)] = -np.inf
    np.put_along_axis(scores, ids, filtered, axis=1)  # for a repeated id the last value is written


def penalise(scores: Array, penalty: float, prompt: Array, output: Array) -> None:
    """Subtracts the penalty times the token's count in the output from one row, [vocab] float32."""
    ids, counts = np.unique(output, return_counts=True)
    scores[ids] -= np.float32(penalty) * counts.astype(np.float32)


def tgi_penalise(scores: Array, penalty: float, prompt: Array, output: Array) -> None:
    """FrequencyPenaltyLogitsProcessor: for each position of prompt and output, subtracts the logit
    divided by the penalty, or the logit times the penalty if the logit is negative. The rule treats
    id 0 as padding.
    """
    ids = np.concatenate([prompt, output])
    score = scores[ids]
    score = -np.where(score < 0, score * np.float32(penalty), score / np.float32(penalty))
    np.add.at(scores, ids, np.where(ids != 0, score, np.float32(0)))


RULES: dict[str, type[Textbook]] = {
    "textbook": Textbook,
    "litert_lm": LiteRtLm,
    "mnn": Mnn,
    "sonicsampler_mended": Sonic,
    "sonicsampler": SonicSampler,
    "sonicsampler_top_p": SonicTopP,
    "sonicsampler_pool": SonicPool,
    "sonicsampler_bfloat16": SonicArithmetic,
    "sonicsampler_min_p": SonicMinPOne,
}
VERIFIERS: dict[str, type[Verifier]] = {
    "textbook": Verifier,
    "openvino_genai": OpenVinoCoin,
    "sonicsampler_chain": SonicCorrection,
}
