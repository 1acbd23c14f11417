"""Computes weights by tiles of 256 ids in Python's integers and fractions; the scripts of this folder share
this module.

The result of every float32 step, including fused multiply-adds, is a fraction that is rounded once, and so is
the number of octaves. The module does not use the machine's floating-point arithmetic.
"""

from fractions import Fraction
from math import ceil, floor

TILE = 256


def float32(value):
    """Returns the float32 nearest to a fraction as a Python float; a fraction halfway between two values
    is rounded to even."""
    value = Fraction(value)
    if value == 0:
        return 0.0
    sign, value = (-1, -value) if value < 0 else (1, value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    quotient = value / unit
    whole = floor(quotient)
    rest = quotient - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
        whole += 1
    assert whole * unit < Fraction(2) ** 128, "overflow"
    return sign * float(whole * unit)


def f32(text):
    value = float.fromhex(text)
    assert float32(value) == value, text
    return value


def nearest_integer(value):
    """Rounds to an integer, and halves to even."""
    whole = floor(value)
    rest = value - whole
    return whole + (1 if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1) else 0)


COEFFICIENTS = [
    Fraction(f32(c))
    for c in ("0x1.3ce8aep-7", "0x1.c6b6d8p-5", "0x1.ebf9c2p-3", "0x1.62e42ap-1", "0x1.8p0")]


def significand(r):
    """Returns 2^r in units of 2^-23 by Horner's method with one rounding per step; the last step adds an
    extra half."""
    p = Fraction(f32("0x1.5bda58p-10"))
    for coefficient in COEFFICIENTS:
        p = Fraction(float32(p * r + coefficient))
    units = (p - Fraction(1, 2)) * 2**23
    assert units.denominator == 1
    return int(units)


def octaves_of_logit(logit, scale):
    y = Fraction(logit) * scale
    n = nearest_integer(y)
    return n, significand(Fraction(float32(y - n)))


def octaves_of_prob(p):
    n = -126
    while Fraction(p) >= Fraction(2) ** (n + 1):
        n += 1
    units = Fraction(p) / Fraction(2) ** n * 2**23
    assert units.denominator == 1
    return n, int(units)


def double(value):
    """Returns the double nearest to a positive number as a fraction; a number halfway between two doubles
    is rounded to even."""
    value = Fraction(value)
    unit = Fraction(1)
    while value >= unit * 2**53:
        unit *= 2
    while value < unit * 2**52:
        unit /= 2
    return nearest_integer(value / unit) * unit


class Weighed:
    """The tiles and weights of a row. `octaves` maps the ids of allowed tokens to (n, m)."""

    def __init__(self, values, octaves):
        self.octaves = octaves
        self.tiles = []
        self.in_tile = [0] * len(values)
        for start in range(0, len(values), TILE):
            allowed = [t for t in range(start, min(start + TILE, len(values))) if t in octaves]
            if not allowed:
                self.tiles.append({"maximum": None, "octave": None, "sum": 0})
                continue
            largest = max(allowed, key=lambda t: values[t])
            octave = octaves[largest][0]
            for t in allowed:
                n, m = octaves[t]
                below = octave - n
                if below < 64:
                    self.in_tile[t] = floor(m * Fraction(2) ** (32 - below))
            total = sum(self.in_tile[t] for t in allowed)
            assert total < 2**64
            self.tiles.append(
                {"maximum": values[largest], "octave": octave, "sum": total})
        self.octave = max(tile["octave"] for tile in self.tiles if tile["octave"] is not None)
        self.factors = [self.factor(tile["octave"]) for tile in self.tiles]
        self.in_row = [v * self.factors[t // TILE] for t, v in enumerate(self.in_tile)]

    def in_speculation(self):
        """Returns the weight floor(m 2^(16 + n - E)), relative to the row's largest value and
        independent of tiles."""
        return [
            floor(self.octaves[t][1] * Fraction(2) ** (16 + self.octaves[t][0] - self.octave))
            if t in self.octaves else 0 for t in range(len(self.in_tile))]

    def written(self, token, kept):
        """Returns the probability that is reported for a kept token: its exact weight, before tiles cut
        bits off, over the sum; from 256 octaves below the maximum on, the probability is 0 in float32."""
        n, m = self.octaves[token]
        if self.octave - n >= 256:
            return 0.0
        total = sum(self.in_row[t] for t in kept)
        return float32(double(m * Fraction(2) ** (80 + n - self.octave) / double(total)))

    def factor(self, octave):
        if octave is None or self.octave - octave > 48:
            return 0
        return 2 ** (48 - (self.octave - octave))

    def token(self, word, kept):
        """Draws a token in two steps: first the tile whose prefix sum passes the position, then the token
        in this tile."""
        position = word * sum(self.in_row[t] for t in kept) >> 64
        for number, factor in enumerate(self.factors):
            members = [t for t in kept if t // TILE == number]
            of_tile = sum(self.in_tile[t] for t in members) * factor
            if position >= of_tile:
                position -= of_tile
                continue
            units = position // factor
            for t in members:
                if units < self.in_tile[t]:
                    return t
                units -= self.in_tile[t]
        raise AssertionError("no token")

    def proposal(self, word, survivors):
        """Draws, without filters, from all tokens of the tiles that have a token kept by min_p."""
        tiles = {t // TILE for t in survivors}
        return self.token(word, [t for t in sorted(self.octaves) if t // TILE in tiles])

    def token_by_attempts(self, words, values, survivors, top_p, kept):
        """Returns the first of 64 proposals that is accepted, or otherwise the token that the last word
        draws; and the number of words used."""
        total = sum(self.in_row[t] for t in survivors)
        target = max(1, ceil(Fraction(top_p) * total))
        for attempt, word in enumerate(words[:64]):
            x = self.proposal(word, survivors)
            above = sum(self.in_row[t] for t in survivors if values[t] > values[x])
            if x in survivors and above < target:
                return x, attempt + 1
        return self.token(words[64], kept), 65
