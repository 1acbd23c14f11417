"""Defines detectors of watermarks in plain Python, and ways to do it wrongly."""

import hashlib
import math

import numpy as np

WINDOW = 2


class RaceDetector:
    """The exact test of a keyed race: each pair of a context and a token is scored once by -ln(1 -
    u), u its keyed number, and the sum of T scores is compared with Gamma(T, 1).

    The wrong detectors of the tests override a method.
    """

    def __call__(self, ids, key):
        if isinstance(key, int):
            return self.p_value(ids, key)
        return self.best([self.p_value(ids, one) for one in key.tolist()])

    def best(self, p_values):
        return min(1.0, len(p_values) * min(p_values))

    def contexts(self, ids):
        """Returns the ids before each id, with ids of -1 before the first one."""
        padded = [-1] * WINDOW + list(ids)
        return [padded[at : at + WINDOW] for at in range(len(ids))]

    def pairs(self, ids):
        ids = [int(id) for id in ids]
        pairs = [(*context, id) for context, id in zip(self.contexts(ids), ids, strict=True)]
        return self.scored(pairs)

    def scored(self, pairs):
        return list(dict.fromkeys(pairs))

    def number(self, pair, key):
        """Returns the keyed number of a pair, in (0, 1)."""
        data = np.array([key, *(id + 1 for id in pair)], np.uint64).tobytes()
        word = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
        return ((word >> 12) + 0.5) / 2**52

    def p_value(self, ids, key):
        pairs = self.pairs(ids)
        score = -sum(math.log1p(-self.number(pair, key)) for pair in pairs)
        return self.tail(score, len(pairs))

    def tail(self, score, count):
        """Returns P(Gamma(count, 1) >= score)."""
        if count == 0 or score == 0:
            return 1.0
        terms = [k * math.log(score) - math.lgamma(k + 1) for k in range(count)]
        largest = max(terms)
        total = math.fsum(math.exp(term - largest) for term in terms)
        return min(1.0, math.exp(largest - score + math.log(total)))

    def generate(self, keys, length, seed):
        """Returns a text for each key. Each id wins the race of 16 that are drawn at random."""
        random = np.random.default_rng(seed)
        texts = []
        for key in keys.tolist():
            ids = []
            for _ in range(length):
                context = ([-1] * WINDOW + ids)[-WINDOW:]
                words = {id: self.number((*context, id), key) for id in random.choice(300, 16)}
                ids.append(int(max(words, key=words.get)))
            texts.append(ids)
        return texts


class GreenDetector(RaceDetector):
    """The exact test of green lists: the number of green tokens is compared with a binomial
    distribution."""

    SHARE = 0.25

    def p_value(self, ids, key):
        pairs = self.pairs(ids)
        green = sum(self.number(pair, key) < self.SHARE for pair in pairs)
        return self.green_tail(green, len(pairs))

    def green_tail(self, green, count):
        """Returns P(K >= green) for K ~ Binomial(count, SHARE)."""
        return min(1.0, math.fsum(self.probability(k, count) for k in range(green, count + 1)))

    def probability(self, green, count):
        return math.comb(count, green) * self.SHARE**green * (1 - self.SHARE) ** (count - green)


class RepeatedPairs(RaceDetector):
    def scored(self, pairs):
        return pairs


class RepeatedGreenPairs(GreenDetector):
    def scored(self, pairs):
        return pairs


class BestOfSeveralKeys(RaceDetector):
    def best(self, p_values):
        return min(p_values)


class KeyIgnored(RaceDetector):
    def number(self, pair, key):
        return super().number(pair, 1)


class NormalTail(RaceDetector):
    def tail(self, score, count):
        return 0.5 * math.erfc((score - count) / math.sqrt(2 * count)) if count else 1.0


class OneGreenTooMany(GreenDetector):
    def green_tail(self, green, count):
        return super().green_tail(min(green + 1, count), count)


class OneGreenTooManyAtEveryLength(GreenDetector):
    def green_tail(self, green, count):
        return super().green_tail(green + 1, count)


class ScoresOfTheWrongSide(RaceDetector):
    def number(self, pair, key):
        return 1 - super().number(pair, key)


class ContextOffByOne(RaceDetector):
    def contexts(self, ids):
        padded = [-1] * (WINDOW + 1) + list(ids)
        return [padded[at : at + WINDOW] for at in range(len(ids))]


class ContextWithTheTokenItself(RaceDetector):
    def contexts(self, ids):
        padded = [-1] * (WINDOW - 1) + list(ids)
        return [padded[at : at + WINDOW] for at in range(len(ids))]


class NothingForNoIds(RaceDetector):
    def tail(self, score, count):
        return super().tail(score, count) if count else math.nan
