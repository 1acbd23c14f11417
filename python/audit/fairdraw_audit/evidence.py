"""Measures the evidence that tokens do not follow a claim, by bets that are fixed before each token
is drawn.

A bet q on a position pays q(x) / u(x), where u(x) is the largest probability of outcome x that the
claim and the stated noise allow. For every server that behaves as claimed, the expected payoff is
at most the sum of q, which is 1. Products of payoffs over positions, and the mean of such products
over alternatives, have expectations of at most 1, too. Such a mean exceeds 1/a with probability at
most a, at any time (Ville's inequality). Positions may therefore report any numbers, and an audit
may end anywhere.

Each alternative is a kind of fault, and the alternative under which the tokens are likeliest names
the fault.

The evidence assumes that a drawn token is reported at its position. A server that does not report
the token that ends a text is judged too harshly if that token was likely (see `ignore_eos`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .distribution import Claim, Positions, UpperBounds, nominal, upper_bounds

Array = Any

#: Floor of a claim's bounds. With the floor, a token that the claim excludes raises an alarm at
#: once, with a finite number.
MIN_BOUND = 1e-30
#: Share of every bet that is on the distribution without filters, so that no single token ends a
#: bet.
STRAY = 0.02
#: Probability with which tokens of the claim with some stray tokens may be blamed on another
#: alternative.
UNSURE = 0.05
#: Shares of the pairs of equal requests that are bet to differ, because a server may be wrong only
#: now and then.
SHARES = (1.0, 0.5, 0.2)
#: Penalties that no request sets, subtracted from the logit of a token that the output already has.
#: Engines have default penalties of 1.05 to 1.2, which divide logits and so take 0.5 to 2 off a
#: logit of 10.
HIDDEN_PENALTIES = (0.5, 1.5)
#: Filters and their neutral values, in the order in which missing filters are named as causes.
FILTERS_OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
TEMPERATURE_FACTORS = (0.5, 0.8, 0.9, 0.95, 1.05, 1.1, 1.25, 2.0)


@dataclass(frozen=True)
class Alternative:
    """A kind of fault, with its name, the report's sentence, and the distribution from which a
    server with the fault draws."""

    fault: str
    text: str
    claim: Claim
    uniform: bool = False  #: whether draws are uniform over the kept tokens
    factor: float = 1.0  #: of the temperature
    ignored: tuple[str, ...] = ()  #: steps of the claim that the faulty server does not apply


def _earliest_top_k(order: Sequence[str]) -> tuple[str, ...]:
    """Moves top_k as early as possible in the order of steps without changing the distribution.

    The move is possible because ranks do not depend on the temperature, and because the stricter of
    top_k and min_p decides.
    """
    found = list(order)
    while (place := found.index("top_k") if "top_k" in found else 0) > 0:
        if found[place - 1] == "top_p":
            break
        found[place - 1 : place + 1] = found[place], found[place - 1]
    return tuple(found)


def _orders(claim: Claim) -> list[tuple[str, ...]]:
    """Returns, for each other distribution that orders of this claim's steps can give, one such
    order."""
    active = [
        step
        for step in claim.order
        if (step == "temperature" and claim.temperature != 1)
        or (step == "top_k" and claim.top_k > 0)
        or (step == "top_p" and claim.top_p < 1)
        or (step == "min_p" and claim.min_p > 0)
    ]
    idle = tuple(step for step in claim.order if step not in active)
    seen, found = {_earliest_top_k(active)}, []
    for order in itertools.permutations(active):
        if _earliest_top_k(order) not in seen:
            seen.add(_earliest_top_k(order))
            found.append((*order, *idle))
    return found


def active_filters(claim: Claim) -> list[str]:
    """Returns the claim's active filters, each of which a server may ignore."""
    return [name for name, off in FILTERS_OFF.items() if getattr(claim, name) != off]


def _ignored_filters(claim: Claim) -> list[Alternative]:
    """Returns each filter alone and then several together, because an order might explain tokens
    that two missing filters would explain."""
    found = []
    for names in itertools.chain.from_iterable(
        itertools.combinations(active_filters(claim), count) for count in (1, 2, 3)
    ):
        texts = [f"{name} {getattr(claim, name):g}" for name in names]
        text = f"{' and '.join(texts)} {'is' if len(names) == 1 else 'are'} ignored"
        off: dict[str, Any] = {name: FILTERS_OFF[name] for name in names}
        found.append(Alternative(names[0], text, replace(claim, **off), ignored=names))
    return found


def alternatives(claim: Claim) -> list[Alternative]:
    """Returns the faults that are possible under this claim. Among equally likely faults the first
    is named.
    """
    unfiltered = replace(claim, top_k=0, top_p=1.0, min_p=0.0)
    # Every bet includes some stray tokens, so that this alternative is the claim with stray tokens.
    # This alternative comes first, because other alternatives that keep the same tokens explain
    # them no better.
    text = "tokens are drawn that the filters do not keep"
    found = [Alternative("outside_support", text, claim)]
    if claim.temperature != 1:
        text = "the temperature is ignored: tokens are drawn at 1"
        other = replace(claim, temperature=1.0)
        found.append(Alternative("temperature", text, other, ignored=("temperature",)))
    for factor in TEMPERATURE_FACTORS:
        value = factor * claim.temperature
        text = f"tokens are drawn at temperature {value:g} instead of {claim.temperature:g}"
        other = replace(claim, temperature=value)
        found.append(Alternative("temperature", text, other, factor=factor))
    cold = replace(claim, temperature=1e-3)
    found.append(Alternative("temperature", "the likeliest token is always drawn", cold))
    found += _ignored_filters(claim)
    if claim.top_k > 0:
        for count in (claim.top_k - 1, claim.top_k + 1):
            if count > 0:
                text = f"{count} tokens are kept by top_k {claim.top_k}"
                found.append(Alternative("top_k_off_by_one", text, replace(claim, top_k=count)))
    if claim.top_p < 1:
        text = "the token at which the mass reaches top_p is dropped"
        other = replace(claim, keeps_crossing_token=False)
        found.append(Alternative("top_p_off_by_one", text, other))
    for order in _orders(claim):
        text = f"the order is {', '.join(order)} instead of {', '.join(claim.order)}"
        found.append(Alternative("order", text, replace(claim, order=order)))
    if claim.penalises:
        text = "penalties are ignored"
        other = replace(claim, presence_penalty=0.0, frequency_penalty=0.0)
        found.append(Alternative("penalties", text, other))
        if claim.presence_penalty and claim.frequency_penalty:
            text = "presence_penalty is ignored"
            found.append(Alternative("penalties", text, replace(claim, presence_penalty=0.0)))
            text = "frequency_penalty is ignored"
            found.append(Alternative("penalties", text, replace(claim, frequency_penalty=0.0)))
    for amount in HIDDEN_PENALTIES:
        text = "tokens that are in the output already are drawn less often than claimed, "
        text += f"as with a penalty of {amount:g}"
        other = replace(claim, presence_penalty=claim.presence_penalty + amount)
        found.append(Alternative("penalties_unasked", text, other))
    text = "the tokens do not follow the reported numbers"
    found.append(Alternative("logprobs_do_not_fit", text, unfiltered, uniform=True))
    return found


@dataclass(frozen=True)
class Power:
    """The evidence that a stream of tokens would have given if an alternative were true."""

    alternative: Alternative
    #: Expected log payoff of the alternative's bet, less three standard deviations.
    gain: float
    total_variation: float  #: total variation distance from the claim, averaged over positions


@dataclass(frozen=True)
class StreamEvidence:
    """The evidence of a stream of positions against one claim."""

    positions: int
    log_e: float  #: the maximum over time of the log evidence of all bets combined
    #: The alternative that explains the tokens best, or None if there are no positions.
    best: Alternative | None
    powers: list[Power]
    #: Number of drawn tokens that are impossible under the claim, even within the noise.
    excluded: int
    #: Maps a fault to the log-likelihood of its likeliest alternative; "" is the claim itself.
    by_fault: dict[str, float]


def _bet(
    positions: Positions, alternative: Alternative, unfiltered: Array, vocab: int
) -> tuple[Array, Array]:
    """Returns the bet on an alternative, and the distribution if the alternative is true. The
    distribution leaves out stray tokens."""
    plain = nominal(positions, alternative.claim, vocab)
    if alternative.uniform:
        plain = (plain > 0).astype(float)
        plain /= np.maximum(plain.sum(axis=1, keepdims=True), 1)
    bet = (1 - STRAY) * plain + STRAY * unfiltered
    return bet, bet if alternative.fault == "outside_support" else plain


def _log_payoffs(bet: Array, truth: Array, upper: UpperBounds) -> tuple[Array, Array, Array]:
    """Returns log payoffs [positions, outcomes], and each position's mean and variance under
    `truth`.

    Two bets are sound: a bet on all outcomes, and a bet on the reported tokens only, which pays 1
    if another token is drawn. At each position the bet with the larger gain under `truth` is taken,
    and no bet is taken if neither gains.
    """
    tiny = 1e-300
    logs = np.log(np.maximum(bet, tiny))
    whole = logs - np.log(np.maximum(upper.outcomes, MIN_BOUND))
    inside = bet[:, :-1].sum(axis=1, keepdims=True)
    part = np.zeros_like(whole)
    among = np.log(np.maximum(upper.among_reported, MIN_BOUND))
    part[:, :-1] = logs[:, :-1] - np.log(np.maximum(inside, tiny)) - among
    gain_whole = (truth * whole).sum(axis=1)
    gain_part = (truth * part).sum(axis=1)
    payoffs = np.where((gain_whole >= gain_part)[:, None], whole, part)
    payoffs = np.where((np.maximum(gain_whole, gain_part) > 0)[:, None], payoffs, 0.0)
    mean = (truth * payoffs).sum(axis=1)
    variance = np.maximum((truth * payoffs**2).sum(axis=1) - mean**2, 0)
    return payoffs, mean, variance


def _excludes(positions: Positions, claim: Claim, noise: float, vocab: int, drawn: Array) -> bool:
    """Returns true if some drawn token is impossible under the claim, even within the noise."""
    bounds = upper_bounds(positions, claim, noise, vocab).outcomes
    return bool((bounds[np.arange(len(drawn)), drawn] == 0).any())


def judge_stream(
    positions: Positions, claim: Claim, noise: float, vocab: int, choices: Sequence[Alternative]
) -> StreamEvidence:
    """Returns the evidence that these positions of a stream, in their order, give against a
    claim."""
    count = len(positions)
    if count == 0:
        return StreamEvidence(0, 0.0, None, [], 0, {})
    upper = upper_bounds(positions, claim, noise, vocab)
    drawn = np.where(positions.drawn < 0, positions.logprobs.shape[1], positions.drawn)
    rows = np.arange(count)
    excluded = int((upper.outcomes[rows, drawn] == 0).sum())
    unfiltered = nominal(positions, replace(claim, top_k=0, top_p=1.0, min_p=0.0), vocab)
    claimed = nominal(positions, claim, vocab)
    likelihoods, products, powers = [], [], []
    for alternative in choices:
        bet, truth = _bet(positions, alternative, unfiltered, vocab)
        payoffs, mean, variance = _log_payoffs(bet, truth, upper)
        products.append(np.cumsum(payoffs[rows, drawn]))
        gain = float(mean.sum() - 3 * np.sqrt(variance.sum()))
        variation = float(np.abs(truth - claimed).sum(axis=1).mean() / 2)
        powers.append(Power(alternative, gain, variation))
        likelihoods.append(np.log(np.maximum(bet[rows, drawn], MIN_BOUND)).sum())
    mixture = np.logaddexp.reduce(np.array(products), axis=0) - np.log(len(choices))
    # The first alternative is the claim with stray tokens. By chance, other alternatives come close
    # to the first. The first stays the best unless another is likelier by an amount that has
    # probability at most UNSURE.
    unsure = np.log(len(choices) / UNSURE)
    likelihoods[0] += unsure
    own = np.log(np.maximum(claimed[rows, drawn], MIN_BOUND)).sum()
    for place, alternative in enumerate(choices):
        if alternative.fault == "order":
            # Another order of the filters is no explanation if that order excludes drawn tokens,
            # because a filter is then missing. If no drawn token is excluded, the other order must
            # be likelier than the other alternatives by more than chance.
            explains = likelihoods[place] > own and not _excludes(
                positions, alternative.claim, noise, vocab, drawn
            )
            likelihoods[place] = likelihoods[place] - unsure if explains else -np.inf
    best = choices[int(np.argmax(likelihoods))]
    by_fault = {"": float(own)}
    for alternative, likelihood in zip(choices, likelihoods, strict=True):
        most = by_fault.get(alternative.fault, -np.inf)
        by_fault[alternative.fault] = max(most, float(likelihood))
    log_e = float(max(mixture.max(), 0.0))
    return StreamEvidence(count, log_e, best, powers, excluded, by_fault)


def same_tokens(
    first: Sequence[object], second: Sequence[object], bounds: Sequence[float]
) -> float:
    """Returns the log evidence that two sequences that should be independent are the same.

    `bounds` has the largest probability of each token of the first sequence at its position. Half
    of each bet is on the token of the first sequence, and half is not placed on any token, up to
    the position at which the sequences part.
    """
    total = 0.0
    for one, other, bound in zip(first, second, bounds, strict=False):
        if one != other:
            return total + float(np.log(0.5))
        total += float(np.log(0.5 + 0.5 / max(bound, MIN_BOUND)))
    return total


def different_tokens(
    first: Sequence[object], second: Sequence[object], agreement: Sequence[float], divergence: float
) -> float:
    """Returns the log evidence that two sequences that should be equal are drawn independently.

    Under the claim the sequences part at each position with probability at most `divergence`,
    because of noise in the numbers. `agreement` is the probability with which independent tokens
    would agree at a position. Any value below 1 - divergence is sound.
    """
    total = 0.0
    for one, other, chance in zip(first, second, agreement, strict=False):
        agree = min(max(chance, 0.02), 0.9 * (1 - divergence))
        if one != other:
            return total + float(np.log((1 - agree) / divergence))
        total += float(np.log(agree / (1 - divergence)))
    return total


def some_differ(pairs: Sequence[float]) -> float:
    """Returns the log evidence of several pairs of outputs, some of which may differ. The evidence
    is the mean over the shares in `SHARES`."""
    values = np.exp(np.array(pairs, float))
    products = [np.log(1 - share + share * values).sum() for share in SHARES]
    return float(np.logaddexp.reduce(products) - np.log(len(SHARES)))
