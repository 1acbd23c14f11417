"""Defines samplers that mark tokens with a key, in plain NumPy, and ways to do it wrongly."""

import hashlib

import numpy as np

from samplers import Textbook

#: The part of a vocabulary whose logits a green list raises.
GREEN_SHARE = 0.25


def uniform(size, *numbers):
    """Returns `size` uniform numbers in [0, 1) that 64-bit integers choose."""
    digest = hashlib.blake2b(np.array(numbers, np.uint64).tobytes(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, np.uint64))).random(size)


class Marking(Textbook):
    """A textbook's sampler whose marked rows follow `rule`, a function of the row's probabilities
    and the row's keyed numbers, which returns the probabilities to draw by.

    The sampler draws by the batch's seeds. The wrong samplers of the tests override a method.
    """

    green_bias = 2.0  #: amount by which a green list raises logits

    def key(self, batch, row):
        return int(batch.mark_key[row])

    def context(self, ids, window):
        return ids[-window:]

    def is_repeated(self, ids, window):
        """Returns whether the last `window` ids, all of which are tokens, occurred before."""
        last = ids[-window:]
        return last[0] >= 0 and any(
            np.array_equal(ids[end - window : end], last) for end in range(window, len(ids))
        )

    def words(self, batch, row):
        """Returns a number in [0, 1) for each token, or None if the row is not marked."""
        if batch.mark_key is None or batch.mark_key[row] == 0:
            return None
        ids, window = batch.mark_output[row].astype(np.int64), batch.mark_window
        if self.is_repeated(ids, window):
            return None
        context = self.context(ids, window).astype(np.uint64)
        return uniform(batch.vocab, self.key(batch, row), *context)

    def coin(self, batch, row):
        """Returns the number in [0, 1) by which the row's seed and offset draw."""
        scalar = batch.seed_is_scalar
        at = 0 if scalar else row
        return uniform(1, batch.seed[at], batch.offset[at], row if scalar else 0)[0]

    def __call__(self, batch):
        tokens = np.empty(batch.rows, np.int64)
        for row in range(batch.rows):
            words = self.words(batch, row)
            x = batch.logits[row].astype(np.float64)
            if words is not None and batch.mark_scheme == "green_list":
                x[words < GREEN_SHARE] += self.green_bias
            filters = int(batch.top_k[row]), float(batch.top_p[row]), float(batch.min_p[row])
            temperature = float(batch.temperature[row])
            if temperature == 0 or filters[0] == 1 or filters[1] == 0:
                tokens[row] = np.argmax(x)
                continue
            p = np.exp((x - x.max()) / temperature)
            kept = self.kept(p.copy(), *filters)
            tokens[row] = self.token(batch, row, p, kept, words)
        return tokens

    def token(self, batch, row, p, kept, words):
        """Draws a token of the row. `p` are the probabilities before the filters, and `kept` the
        probabilities of the tokens that the filters keep."""
        if words is not None and batch.mark_scheme == "by_key":
            return self.race(kept, words)
        if words is not None and batch.mark_scheme == "by_key_and_seed":
            kept = self.tournament(kept, words)
        return np.searchsorted(np.cumsum(kept), self.coin(batch, row) * kept.sum(), side="right")

    def race(self, kept, words):
        """Returns the token with the least -log(word) / probability: it is a token with its own
        probability if the words are independent and uniform (Aaronson 2022)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return int(np.argmin(np.where(kept > 0, -np.log(words) / kept, np.inf)))

    def tournament(self, kept, words):
        """Returns the probabilities after two layers of tournaments between two tokens, each of
        which a token with a 1 wins (Dathathri et al. 2024)."""
        p = kept / kept.sum()
        for layer in (2, 4):
            ones = np.floor(words * layer) % 2
            p = p * (1 + ones - np.sum(p * ones))
        return p
