"""Defines correct samplers that draw in unusual ways, in NumPy. A gate that fails one of these
samplers could also fail a correct engine. suites/gate/mutants/right_samplers.cpp has correct
samplers in C++.

Each sampler draws from its own float64 softmax and filters. A drawing function takes the
probabilities of a row before and after the row's filters, both [vocab], and the random words of n
draws. The function returns n ids. Random words are a hash of seed, offset and number, so that a
token is a function of its row and these three values.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import draft_verifiers
import numpy as np

from samplers import Textbook

_GOLDEN = 0x9E3779B97F4A7C15


def mixed(state, index=0):
    """Returns element `index` of the sequence of SplitMix64 with state `state`, for uint64
    arrays."""
    with np.errstate(over="ignore"):  # scalars would warn
        state = state + (np.asarray(index, np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


class Words:
    """The random words of n draws; `uniform(i)` is the i-th word of each draw, in (0, 1)."""

    def __init__(self, first):
        self.first = first

    def __len__(self):
        return len(self.first)

    def word(self, i):
        return mixed(self.first, i)

    def uniform(self, i):
        return ((self.word(i) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def of(self, places):
        return Words(self.first[places])


def place(sums, position):
    """Returns the index of the first of the rising sums that is above the position. If rounding
    leaves no such sum, returns the index of the last sum."""
    return np.minimum(np.searchsorted(sums, position, side="right"), len(sums) - 1)


def search(order, p, u):
    """Draws by inverting the distribution function in the order of `order`, which lists the ids
    with p > 0."""
    sums = np.cumsum(p[order])
    return order[place(sums, u * sums[-1])]


def support(p):
    return np.flatnonzero(p > 0)


def falling(p):
    order = np.argsort(-p, kind="stable")
    return order[: np.count_nonzero(p > 0)]


# --- Ways -------------------------------------------------------------------------------------------


def sorted_search(whole, kept, words):
    return search(falling(kept), kept, words.uniform(0))


def from_the_top(whole, kept, words):
    return search(support(kept)[::-1], kept, words.uniform(0))


def in_hashed_order(whole, kept, words):
    ids = support(kept)
    order = ids[np.argsort(mixed(ids.astype(np.uint64)), kind="stable")]
    return search(order, kept, words.uniform(0))


def _by_blocks(kept, words, race):
    """Draws by an exponential race of blocks of ids by their mass, and then of the tokens in the
    winning block.
    """
    ids = support(kept)
    size = int(np.sqrt(len(ids))) + 1
    starts = np.arange(0, len(ids), size)
    masses = np.add.reduceat(kept[ids], starts)
    found = np.empty(len(words), np.int64)
    for first in range(0, len(words), 4096):
        part = Words(words.first[first : first + 4096])
        block = race(np.broadcast_to(masses, (len(part), len(masses))), part, 0)
        places = starts[block][:, None] + np.arange(size)
        inside = np.where(places < len(ids), kept[ids[np.minimum(places, len(ids) - 1)]], 0)
        token = race(inside, part, len(masses))
        found[first : first + 4096] = ids[places[np.arange(len(part)), token]]
    return found


def _each(words, first, count):
    """Returns uniform random numbers [n, count], made of the words from `first` on."""
    return np.stack([words.uniform(first + i) for i in range(count)], axis=1)


def gumbel_race(whole, kept, words):
    def race(masses, words, first):
        with np.errstate(divide="ignore"):
            return np.argmax(
                np.log(masses) - np.log(-np.log(_each(words, first, masses.shape[1]))), axis=1
            )

    return _by_blocks(kept, words, race)


def exponential_clocks(whole, kept, words):
    def race(masses, words, first):
        with np.errstate(divide="ignore"):
            return np.argmin(-np.log(_each(words, first, masses.shape[1])) / masses, axis=1)

    return _by_blocks(kept, words, race)


def reservoir(whole, kept, words):
    def race(masses, words, first):
        replaces = _each(words, first, masses.shape[1]) * masses.cumsum(axis=1) < masses
        return masses.shape[1] - 1 - np.argmax(replaces[:, ::-1], axis=1)

    return _by_blocks(kept, words, race)


class AliasTable:
    """Draws from Walker's alias table, which is built by Vose's method."""

    def __init__(self, p):
        self.ids = support(p)
        n = len(self.ids)
        part = p[self.ids] / p[self.ids].sum() * n
        other = np.arange(n)
        small = list(np.flatnonzero(part < 1))
        large = list(np.flatnonzero(part >= 1))
        while small and large:
            low, high = small.pop(), large[-1]
            other[low] = high
            part[high] -= 1 - part[low]
            if part[high] < 1:
                small.append(large.pop())
        part[small + large] = 1  # entries that rounding leaves over have part 1
        self.part, self.other = part, other

    def draw(self, of_column, of_part):
        column = np.minimum((of_column * len(self.ids)).astype(np.int64), len(self.ids) - 1)
        own = of_part < self.part[column]
        return self.ids[np.where(own, column, self.other[column])]


def alias_table(whole, kept, words):
    return AliasTable(kept).draw(words.uniform(0), words.uniform(1))


def _until_kept(kept, words, propose, otherwise):
    """Draws proposals until a proposal is accepted, at most 64 times, and then uses `otherwise`."""
    found = np.empty(len(words), np.int64)
    waiting = np.arange(len(words))
    for attempt in range(64):
        if len(waiting) == 0:
            return found
        ids = propose(words.of(waiting), 2 * attempt)
        stays = kept[ids] > 0
        found[waiting[stays]] = ids[stays]
        waiting = waiting[~stays]
    if len(waiting):
        found[waiting] = otherwise(words.of(waiting), 128)
    return found


def propose_and_accept(whole, kept, words):
    def by(p):
        return lambda words, i: search(support(p), p, words.uniform(i))

    return _until_kept(kept, words, by(whole), by(kept))


def alias_then_filters(whole, kept, words):
    def by(p):
        table = AliasTable(p)
        return lambda words, i: table.draw(words.uniform(i), words.uniform(i + 1))

    return _until_kept(kept, words, by(whole), by(kept))


def two_pivots(whole, kept, words):
    order = falling(whole)
    p = whole[order]
    sums = np.cumsum(p)
    least = whole[kept > 0].min()
    found = np.empty(len(words), np.int64)
    waiting, end = np.arange(len(words)), np.full(len(words), len(p))
    attempt = 0
    while len(waiting):
        u = words.of(waiting).uniform(attempt)
        at = np.minimum(np.searchsorted(sums, u * sums[end - 1], side="right"), end - 1)
        stays = kept[order[at]] > 0
        found[waiting[stays]] = order[at[stays]]
        waiting, low = waiting[~stays], p[at[~stays]]
        middle = (low + p[0]) / 2
        pivot = np.where(middle <= least, middle, low)
        end = np.searchsorted(-p, -pivot, side="right")
        attempt += 1
    return found


def envelopes(whole, kept, words):
    """Draws a group of probabilities within a factor of two by the group's envelope, and then one
    of its tokens, which is accepted with probability at least 1/2."""
    ids = support(kept)
    exponents = np.frexp(kept[ids])[1]
    groups, of = np.unique(exponents, return_inverse=True)
    order = np.argsort(of, kind="stable")
    counts = np.bincount(of)
    starts = np.cumsum(counts) - counts
    sums = np.cumsum(counts * np.ldexp(1.0, groups))
    found = np.empty(len(words), np.int64)
    waiting, next_word = np.arange(len(words)), 0
    while len(waiting):
        mine = words.of(waiting)
        group = place(sums, mine.uniform(next_word) * sums[-1])
        within = (mine.uniform(next_word + 1) * counts[group]).astype(np.int64)
        token = ids[order[starts[group] + np.minimum(within, counts[group] - 1)]]
        stays = mine.uniform(next_word + 2) * np.ldexp(1.0, groups[group]) < kept[token]
        found[waiting[stays]] = token[stays]
        waiting, next_word = waiting[~stays], next_word + 3
    return found


def segments(whole, kept, words):
    size = 256
    padded = np.pad(kept, (0, -len(kept) % size)).reshape(-1, size)
    masses = np.cumsum(padded.sum(axis=1))
    last = int(np.flatnonzero(padded.any(axis=1))[-1])
    segment = np.minimum(np.searchsorted(masses, words.uniform(0) * masses[-1], "right"), last)
    found, u = np.empty(len(words), np.int64), words.uniform(1)
    for one in np.unique(segment):
        here = segment == one
        found[here] = one * size + search(support(padded[one]), padded[one], u[here])
    return found


def bisection(whole, kept, words):
    ids = support(kept)
    sums = np.concatenate([[0.0], np.cumsum(kept[ids])])
    first, end = np.zeros(len(words), np.int64), np.full(len(words), len(ids))
    step = 0
    while (end - first > 1).any():
        middle = first + (end - first) // 2
        left = words.uniform(step) * (sums[end] - sums[first]) < sums[middle] - sums[first]
        open_ = end - first > 1
        end = np.where(open_ & left, middle, end)
        first = np.where(open_ & ~left, middle, first)
        step += 1
    return ids[first]


def bit_by_bit(whole, kept, words):
    ids = support(kept)
    sums = np.cumsum(kept[ids])
    first, size, word = np.zeros(len(words)), sums[-1], words.word(0)
    for bit in range(63, 3, -1):
        size /= 2
        first = first + np.where((word >> np.uint64(bit)) & np.uint64(1) != 0, size, 0)
        if (place(sums, first) == place(sums, first + size * (1 - 2.0**-40))).all():
            break
    return ids[place(sums, first)]


def in_log_space(whole, kept, words):
    ids = support(kept)
    sums = np.logaddexp.accumulate(np.log(kept[ids]))
    return ids[place(sums, np.log(words.uniform(0)) + sums[-1])]


def head_and_tail(whole, kept, words):
    order = falling(kept)
    head, tail = order[:16], order[16:]
    in_head = words.uniform(0) * kept[order].sum() < kept[head].sum()
    found = search(head, kept, words.uniform(1))
    if len(tail):
        found = np.where(in_head, found, search(tail, kept, words.uniform(1)))
    return found


# --- Samplers ---------------------------------------------------------------------------------------


def hashed(seed, offset, number):
    return mixed(mixed(mixed(~seed), offset), number)


class Drawing:
    """A sampler that draws with a drawing function, with one pass over each row for all draws from
    the row.
    """

    ABILITIES = ("per_request_seeds", "indices", "num_samples")
    PROMISES = ("seeds", "offsets", "outputs", "samples", "replays")

    def __init__(self, way, *, order="forward", first_word=None, filters=None):
        self.way, self.order = way, order
        self.first_word = first_word or hashed
        self.filters = filters or Textbook()

    def __call__(self, batch):
        rows = np.arange(batch.rows) if batch.indices is None else np.asarray(batch.indices)
        outputs, samples = batch.outputs, batch.num_samples
        number = np.arange(outputs * samples, dtype=np.uint64).reshape(outputs, samples)
        if not batch.seed_is_scalar:
            number = number % np.uint64(samples)
        seed = np.broadcast_to(batch.seed.reshape(-1, 1), number.shape)
        offset = np.broadcast_to(batch.offset.reshape(-1, 1), number.shape)
        words = self.first_word(seed.astype(np.uint64), offset.astype(np.uint64), number)
        tokens = np.empty((outputs, samples), np.int64)

        def draw(row):
            mine = rows == row
            whole, kept = self.distributions(batch, row)
            drawn = self.way(whole, kept, Words(words[mine].reshape(-1)))
            tokens[mine] = drawn.reshape(-1, samples)

        asked = np.unique(rows)
        if self.order == "two_threads":
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(draw, asked))
        else:
            for row in asked[::-1] if self.order == "backward" else asked:
                draw(row)
        return tokens

    def distributions(self, batch, row):
        x = batch.logits[row].astype(np.float64)
        temperature, top_k = float(batch.temperature[row]), int(batch.top_k[row])
        top_p, min_p = float(batch.top_p[row]), float(batch.min_p[row])
        if temperature == 0 or top_k == 1 or top_p == 0:
            one = (np.arange(len(x)) == np.argmax(x)).astype(np.float64)
            return one, one
        whole = np.exp((x - x.max()) / temperature)
        whole /= whole.sum()
        return whole, self.filters.kept(whole.copy(), top_k, top_p, min_p)


class LowestIdTies(Textbook):
    """A filter that keeps the tokens with the lowest ids among ties at the k-th place."""

    def kept(self, p, top_k, top_p, min_p):
        p[p < min_p * p.max()] = 0
        if 0 < top_k < len(p):
            p[np.argsort(-p, kind="stable")[top_k:]] = 0
        return super().kept(p, 0, top_p, 0)


class OwnWords:
    """A sampler that draws from NumPy's generator and ignores the seeds."""

    def __init__(self):
        self.random = np.random.default_rng(1)

    def __call__(self, seed, offset, number):
        return self.random.integers(0, 2**64, number.shape, dtype=np.uint64)


def other_words(seed, offset, number):
    """Hashes with other constants and rotated words than the samplers above."""
    turned = (offset << np.uint64(29)) | (offset >> np.uint64(35))
    return mixed(mixed(mixed(seed ^ np.uint64(0x5DEECE66D)) ^ turned, 7) + number, 3)


@dataclass(frozen=True)
class Right:
    """A correct sampler, the reason why it is correct, and its declarations for fairdraw.verify."""

    why: str
    make: Callable[[], Any]
    claims: dict[str, Any]


def _drawing(why, way, claims=None, **how):
    said = {"abilities": Drawing.ABILITIES, "randomness": Drawing.PROMISES, "lacks": ["bad_rows"]}
    return Right(why, lambda: Drawing(way, **how), {**said, **(claims or {})})


INTERVALS = "intervals of length p_i, in any order"
RIGHT = {
    "gumbel_race": _drawing("the largest log p + Gumbel noise is i with p_i", gumbel_race),
    "exponential_clocks": _drawing("of clocks of rate p_i, i rings first", exponential_clocks),
    "alias_table": _drawing("a token's parts of all columns add up to n p_i", alias_table),
    "two_pivots": _drawing("what is proposed above both pivots is in proportion", two_pivots),
    "propose_and_accept": _drawing("what is accepted is in proportion", propose_and_accept),
    "alias_then_filters": _drawing("what is accepted is in proportion", alias_then_filters),
    "sorted_search": _drawing(INTERVALS, sorted_search),
    "from_the_top": _drawing(INTERVALS, from_the_top),
    "in_hashed_order": _drawing(INTERVALS, in_hashed_order),
    "reservoir": _drawing("i replaces with p_i over the sum so far", reservoir),
    "envelopes": _drawing("the envelope's part, times p_i over the envelope", envelopes),
    "segments": _drawing("a segment's mass times the token's part of it", segments),
    "bisection": _drawing("parts of halves multiply to p_i", bisection),
    "bit_by_bit": _drawing("a uniform by its bits, as many as decide", bit_by_bit),
    "in_log_space": _drawing("the same sums, as logarithms", in_log_space),
    "head_and_tail": _drawing("a mixture by the masses of both", head_and_tail),
    "other_words": _drawing(
        "words are a function of seed, offset and number", sorted_search, first_word=other_words
    ),
    "outputs_backward": _drawing("no row depends on another", from_the_top, order="backward"),
    "two_threads": _drawing("no row depends on another", sorted_search, order="two_threads"),
    "lowest_id_ties": _drawing(
        "declares the tie rule that it follows",
        sorted_search,
        {"semantics": "fairdraw,top_k_ties=lowest_id"},
        filters=LowestIdTies(),
    ),
    "own_generator": Right(
        "fresh words are independent, whatever the seeds",
        lambda: Drawing(sorted_search, first_word=OwnWords()),
        {"abilities": ("indices", "num_samples"), "lacks": ["bad_rows"]},
    ),
}
_REPLAYS = {"abilities": ("per_request_seeds",), "randomness": Drawing.PROMISES}
#: Correct verifiers of drafts, to be judged by fairdraw.verify_speculation.
RIGHT_VERIFIERS = {
    "block_verification": Right(
        "lossless: Sun et al. 2024, Algorithm 2",
        draft_verifiers.Block,
        {**_REPLAYS, "drafts": ["probs"], "acceptance_rule": "block"},
    ),
    "block_verification_of_the_library": Right(
        "lossless: the proof in fairdraw/speculative.h",
        lambda: draft_verifiers.Library("block"),
        {**_REPLAYS, "acceptance_rule": "block"},
    ),
    "accepted_while_equal": Right(
        "what is emitted is the target's own draw", draft_verifiers.Matching, _REPLAYS
    ),
}
