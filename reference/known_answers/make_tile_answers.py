#!/usr/bin/env python3
"""Writes tile_answers.json: weights of rows of logits and of probabilities by tiles of 256 ids.

The script is a third implementation of these weights (weights_by_tiles.py), after the kernels and
the integer model. The script evaluates filters token by token from their definitions, and a draw walks the
tiles as the kernels do. A draw by seed evaluates top_p and min_p by definition for each token that its words
(philox.py) propose. The script uses only the standard library. Run it without arguments; the test
tile_answers_current compares its output with the committed file.

Each row has its values (VALUE*COUNT for equal neighbours), and the largest allowed value of each
tile with its octave and sum (null, null and 0 if no token is allowed). The row's octave and the
sums of weights over all allowed and over all kept tokens follow. Each row also has the tokens that
some random words give, and the probabilities of some tokens. Short rows have the probability and
weight of every token. A row that draws by proposals also has some draws by seed: all random words
up to the last one used, and the token. Weights in a row are decimal strings, because JSON has no
integers of 124 bits.
"""

import json
import sys
from fractions import Fraction
from itertools import groupby
from math import ceil, floor, ldexp
from pathlib import Path

from make_known_answers import (
    DYADIC_TEMPERATURE, LOG2_E, TINY, filtered, greedy_id, min_p_threshold, next_above, next_below)
from philox import word_of_attempt
from weights_by_tiles import Weighed, double, f32, float32, octaves_of_logit, octaves_of_prob

LARGEST = f32("0x1.fffffep127")
MINUS_INFINITY = float("-inf")


def words_of(weighed, kept):
    """Returns the smallest and the largest word, and for every few tokens the smallest word that gives the
    token with its two neighbours."""
    total = sum(weighed.in_row[t] for t in kept)
    words = {0, 2**64 - 1, 2**63, 0x9E3779B97F4A7C15}
    before = 0
    boundaries = []
    for t in kept:
        if 0 < before < total and weighed.in_row[t] > 0:
            boundaries.append(ceil(Fraction(before * 2**64, total)))
        before += weighed.in_row[t]
    for least in boundaries[:: max(1, len(boundaries) // 8)]:
        words |= {word for word in (least - 1, least, least + 1) if 0 <= word < 2**64}
    return sorted(words)


def draws_by_attempts(weighed, values, survivors, top_p, kept):
    draws = []
    for seed, offset, index in ((1, 0, 0), (2**64 - 1, 2**40 + 3, 1), (0x9E3779B97F4A7C15, 7, 2**31)):
        words = [word_of_attempt(seed, offset, index, attempt) for attempt in range(65)]
        token, asked = weighed.token_by_attempts(words, values, survivors, top_p, kept)
        draws.append([words[:asked], token])
    return draws


def short_hex(value):
    """Returns a float as hexadecimal text without trailing zeros, and None for None."""
    if value is None:
        return None
    if value == MINUS_INFINITY:
        return "-inf"
    head, exponent = float(value).hex().split("p")
    if "." in head:
        head = head.rstrip("0").rstrip(".")
    return f"{head}p{exponent}"


def runs(values):
    """Returns values as text, with equal neighbours as VALUE*COUNT."""
    return [text if count == 1 else f"{text}*{count}"
            for text, group in groupby(short_hex(v) for v in values)
            for count in [len(list(group))]]


def case(name, kind, values, octaves, survivors, kept, greedy, **parameters):
    weighed = Weighed(values, octaves)
    total = sum(weighed.in_row[t] for t in kept)
    shown = kept if len(values) <= 16 else sorted({
        kept[0], kept[-1], kept[len(kept) // 2], max(kept, key=lambda t: values[t]),
        min(kept, key=lambda t: values[t])})
    row = {
        "name": name,
        kind: runs(values),
        **{k: short_hex(v) if isinstance(v, float) else v for k, v in parameters.items()},
        "maxima": [short_hex(tile["maximum"]) for tile in weighed.tiles],
        # Octaves go up to 2^254 with at most 48 significant bits, so a double represents them
        # exactly.
        "octaves": [None if tile["octave"] is None else str(tile["octave"])
                    for tile in weighed.tiles],
        "sums": [tile["sum"] for tile in weighed.tiles],
        "octave": str(weighed.octave),
        "total_unfiltered": str(sum(weighed.in_row)),
        "total": str(total),
        "greedy": greedy,
        "draws": [[word, weighed.token(word, kept)] for word in words_of(weighed, kept)],
        "probabilities": [[t, short_hex(weighed.written(t, kept))] for t in shown],
    }
    top_k, top_p = parameters["top_k"], parameters["top_p"]
    if greedy < 0 and top_p < 1 and not 0 < top_k < len(values):
        row["draws_by_attempts"] = draws_by_attempts(weighed, values, survivors, top_p, kept)
    if len(values) <= 16:
        row["weights"] = [str(w) for w in weighed.in_row]
        row["kept"] = kept
    else:
        row["kept_count"] = len(kept)
    return row


def logits_case(name, logits, temperature=DYADIC_TEMPERATURE, top_k=0, top_p=1.0, min_p=0.0,
                joint=False, lowest_id=False, banned=()):
    logits = [float(x) for x in logits]
    temperature, top_p, min_p = float(temperature), float(top_p), float(min_p)
    finite = [x for x in logits if x != MINUS_INFINITY]
    assert all(float32(x) == x for x in [*finite, temperature, top_p, min_p]), name
    allowed = [t for t in range(len(logits)) if t not in banned and logits[t] != MINUS_INFINITY]
    scale = Fraction(float32(double(Fraction(LOG2_E) / Fraction(temperature or 1.0))))
    octaves = {t: octaves_of_logit(logits[t], scale) for t in allowed}
    if temperature == 0 or top_k == 1 or top_p == 0:
        greedy = greedy_id(logits, allowed)
        survivors = kept = [greedy]
    else:
        greedy = -1
        largest = Fraction(max(logits[t] for t in allowed))
        survivors = [
            t for t in allowed
            if min_p == 0 or float32(Fraction(float32(Fraction(logits[t]) - largest)) * scale)
            >= min_p_threshold(min_p)]
        weighed = Weighed(logits, octaves)
        kept = filtered(logits, weighed.in_row, survivors, top_k, top_p, lowest_id, joint)
    return case(name, "logits", logits, octaves, survivors, kept, greedy, temperature=temperature, top_k=top_k,
                top_p=top_p, min_p=min_p, joint=joint, lowest_id=lowest_id, banned=list(banned))


def probs_case(name, probs, top_k=0, top_p=1.0, min_p=0.0, joint=False, top_k_1_keeps_ties=False):
    probs = [float(p) for p in probs]
    top_p, min_p = float(top_p), float(min_p)
    assert all(float32(x) == x for x in [*probs, top_p, min_p]), name
    allowed = [t for t in range(len(probs)) if probs[t] > 0]
    octaves = {t: octaves_of_prob(probs[t]) for t in allowed}
    if (top_k == 1 and not top_k_1_keeps_ties) or top_p == 0:
        greedy = greedy_id(probs, allowed)
        survivors = kept = [greedy]
    else:
        greedy = -1
        least = Fraction(min_p) * Fraction(max(probs))
        survivors = [t for t in allowed if Fraction(probs[t]) >= least]
        kept = filtered(probs, Weighed(probs, octaves).in_row, survivors, top_k, top_p, joint=joint)
    return case(name, "probs", probs, octaves, survivors, kept, greedy, top_k=top_k, top_p=top_p, min_p=min_p,
                joint=joint, top_k_1_keeps_ties=top_k_1_keeps_ties)


def wave(count, width, offset=0.0):
    """Returns irregular logits in [offset - width, offset + width): multiples of width 2^-22,
    rounded to float32."""
    state, values = 12345, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        values.append(float32(
            Fraction(offset) + Fraction(state >> 8, 2**22) * Fraction(width) - Fraction(width)))
    return values


def at(count, fill, **places):
    """Returns a row of `fill` except at the ids given as id_17=..."""
    values = [fill] * count
    for key, value in places.items():
        values[int(key.removeprefix("id_"))] = value
    return values


HOT, COLD = float32(Fraction(7, 10)), float32(Fraction(13, 10))
E10 = float32(Fraction(1, 10))


def short_logit_rows():
    yield logits_case("one_token", [3.25])
    yield logits_case("one_token_temperature_0.7", [-17.0], temperature=HOT)
    yield logits_case("integer_octaves", [-1.0, 0.0, -3.0, -2.0, -3.0])
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, next_above(0.5), next_below(0.5), next_above(1.5),
              -next_below(1.5)]
    yield logits_case("octave_boundaries", halves)
    yield logits_case("octave_boundaries_temperature_1", halves, temperature=1.0)
    yield logits_case("steps_of_floats_at_an_octave", [1.0, next_above(1.0), next_below(1.0)])
    yield logits_case("signed_zeros", [0.0, -0.0, -1.0], top_k=1)
    yield logits_case("subnormal_logits", [TINY, -TINY, 5 * TINY], temperature=ldexp(1, -126))
    yield logits_case("subnormal_logits_temperature_1", [TINY, -TINY, 0.0], temperature=1.0)
    for gap in (31, 32, 33, 47, 48, 49, 62, 63, 64, 65):
        yield logits_case(f"within_a_tile_{gap}_octaves_below", [0.0, -gap, 0.25 - gap, -0.25 - gap])
    # The probabilities are at the ends of float32's normal and subnormal numbers.
    yield logits_case("least_probabilities", [0.0, -125.5, -126.0, -126.5, -148.75, -149.0, -149.5,
                                              -150.0, next_above(-150.0), -150.5, -255.5, -256.0])
    yield logits_case("far_below", [0.0, -LARGEST, -100.0])
    yield logits_case("largest_logits", [LARGEST, next_below(LARGEST), -LARGEST], temperature=1.0)
    yield logits_case("largest_logits_smallest_temperature", [LARGEST, LARGEST, next_below(LARGEST)],
                      temperature=ldexp(1, -126))
    yield logits_case("large_logits_largest_temperature",
                      [LARGEST, -LARGEST, next_below(LARGEST), 0.0], temperature=ldexp(1, 64))
    yield logits_case("smallest_temperature", [0.0, -ldexp(1, -126), -ldexp(1, -125), TINY],
                      temperature=ldexp(1, -126))
    yield logits_case("largest_temperature", [0.0, -ldexp(1, 64), 1.0, -ldexp(1, 69)],
                      temperature=ldexp(1, 64))
    # The logits are at 2^21 octaves, from where on float arithmetic is no longer used, and just below.
    yield logits_case("two_to_the_21_octaves", [ldexp(1, 21), ldexp(1, 21) - 0.25, -ldexp(1, 22)])
    yield logits_case("above_two_to_the_21_octaves",
                      [next_above(ldexp(1, 21)), ldexp(1, 21) - 0.25, ldexp(1, 21) - 40.5])
    yield logits_case("minus_two_to_the_21_octaves",
                      [-ldexp(1, 21), -ldexp(1, 21) - 0.25, -ldexp(1, 21) - 40.5, -LARGEST])
    yield logits_case("banned_maximum", [5.0, 1.0, 0.0, 3.0], banned=[0], top_p=0.5)
    yield logits_case("minus_infinity", [0.0, MINUS_INFINITY, -1.0, MINUS_INFINITY], top_k=3)
    for p in (0.5, next_above(0.5), next_below(0.5), 0.75, TINY, 1 - ldexp(1, -24)):
        yield logits_case(f"top_p_{p.hex()}", [-1.0, 0.0, -3.0, -2.0, -3.0], top_p=p)
    for k in (1, 2, 3, 4):
        yield logits_case(f"top_k_{k}", [1.0, 3.0, 3.0, 2.0, 3.0], top_k=k)
        yield logits_case(f"top_k_{k}_lowest_id", [1.0, 3.0, 3.0, 2.0, 3.0], top_k=k,
                          lowest_id=True)
    for m in (0.125, next_above(0.125), next_below(0.125), 1.0, TINY):
        yield logits_case(f"min_p_{m.hex()}", [-1.0, 0.0, -3.0, -2.0, -3.0], min_p=m)
    yield logits_case("top_k_first", [-1.0, 0.0, -3.0, -2.0, -3.0], top_k=3, top_p=0.8125)
    yield logits_case("joint", [-1.0, 0.0, -3.0, -2.0, -3.0], top_k=3, top_p=0.8125, joint=True)
    yield logits_case("temperature_0", [0.25, -1.5, 3.0, 3.0], temperature=0.0)
    yield logits_case("temperature_1", [0.25, -1.5, 3.0, 2.875, -0.125], temperature=1.0, top_p=0.75)
    yield logits_case("temperature_0.1", [12.5, 11.25, 13.0, -4.0], temperature=E10, min_p=E10)


def long_logit_rows():
    for vocab in (255, 256, 257):
        yield logits_case(f"vocab_{vocab}", wave(vocab, 6.0), temperature=HOT)
        yield logits_case(f"vocab_{vocab}_ties", [floor(x) for x in wave(vocab, 2.0)],
                          temperature=COLD, top_k=40)
    yield logits_case("vocab_1000_top_p", wave(1000, 8.0, 2.0), temperature=1.0,
                      top_p=float32(Fraction(9, 10)))
    # The filters accept one proposal in 600, so most draws end among the survivors.
    yield logits_case("vocab_600_top_p_of_one_token", wave(600, 0.01), top_p=TINY)
    # The filter min_p keeps tokens of the first and the last of three tiles.
    for p in (0.5, float32(Fraction(9, 10))):
        yield logits_case(f"min_p_of_some_tiles_top_p_{p.hex()}",
                          [*wave(256, 4.0), *wave(256, 4.0, -9.0), *wave(90, 4.0, 0.5)],
                          top_p=p, min_p=0.125, banned=[3, 400])
    yield logits_case("vocab_1000_all_filters", wave(1000, 3.0), temperature=COLD, top_k=300,
                      top_p=float32(Fraction(19, 20)), min_p=float32(Fraction(1, 50)))
    yield logits_case("vocab_1000_joint", wave(1000, 3.0, -1000.0), temperature=1.0, top_k=100,
                      top_p=0.5, joint=True)
    yield logits_case("a_tile_without_an_allowed_token", wave(700, 4.0), temperature=1.0,
                      banned=list(range(256, 512)))
    yield logits_case("a_tile_of_minus_infinity", [MINUS_INFINITY] * 256 + wave(20, 4.0),
                      temperature=1.0)
    yield logits_case("a_banned_id_of_each_tile", wave(520, 9.0), temperature=1.0,
                      banned=[0, 255, 256, 300, 519])
    # Each tile is 31 to 65 octaves below the first, and has one token 16 octaves and one token 33 octaves
    # below the tile's largest.
    for gap in (31, 32, 33, 47, 48, 49, 63, 64, 65):
        yield logits_case(f"tiles_{gap}_octaves_apart",
                          at(258, -200.0, id_0=0.0, id_1=-16.0, id_256=-gap, id_257=-gap - 16.25))
        yield logits_case(f"first_tile_{gap}_octaves_below",
                          at(258, -200.0, id_0=-gap, id_1=-gap - 33.5, id_256=0.0, id_257=-33.5),
                          top_p=1 - ldexp(1, -24))
    yield logits_case("least_probabilities_in_tiles",
                      at(520, MINUS_INFINITY, id_0=0.0, id_1=-126.5, id_256=-100.0, id_300=-148.75,
                         id_512=-149.25, id_519=-150.5))
    yield logits_case("equal_logits_in_other_tiles",
                      at(520, -50.0, id_3=0.25, id_4=-31.75, id_259=-31.75, id_300=0.0,
                         id_515=-31.75), top_p=1 - ldexp(1, -24))
    yield logits_case("largest_logits_in_tiles",
                      at(257, -LARGEST, id_0=LARGEST, id_256=next_below(LARGEST)), temperature=1.0)


def prob_rows():
    yield probs_case("one_token", [float32(Fraction(1, 3))])
    yield probs_case("dyadic", [1 / 8, 1 / 2, 1 / 8, 1 / 4], top_p=0.5)
    yield probs_case("dyadic_above", [1 / 8, 1 / 2, 1 / 8, 1 / 4], top_p=next_above(0.5))
    yield probs_case("thirds", [float32(Fraction(1, 3))] * 3,
                     top_p=next_above(float32(Fraction(2, 3))))
    yield probs_case("subnormals", [TINY, 3 * TINY, 2 * TINY], top_p=0.5)
    yield probs_case("least_normals", [ldexp(1, -126), ldexp(1, -126) - TINY, TINY, ldexp(1, -125)])
    yield probs_case("normals_and_subnormals", [ldexp(1, -100), TINY, 5 * TINY, ldexp(3, -130)])
    yield probs_case("least_of_the_largest", [LARGEST, ldexp(1, -1), ldexp(1, -22), TINY])
    yield probs_case("largest", [LARGEST, LARGEST, ldexp(1, 127), 1.0])
    yield probs_case("zeros", [0.0, 1 / 2, -0.0, 1 / 2, 0.0], top_k=4)
    yield probs_case("top_k_1_keeps_ties", [1 / 8, 3 / 8, 1 / 8, 3 / 8], top_k=1,
                     top_k_1_keeps_ties=True)
    yield probs_case("top_p_0", [1 / 4, 3 / 8, 3 / 8], top_p=0)
    yield probs_case("joint", [0.34375, 0.25, 0.203125, 0.046875, 0.03125, 0.125], top_k=4,
                     top_p=0.8125, joint=True)
    for m in (0.25, next_above(0.25), 1.0):
        yield probs_case(f"min_p_{m.hex()}", [1 / 8, 1 / 2, 1 / 8, 1 / 4], min_p=m)
    odd = next_below(1.0)  # all 24 bits of the significand are set
    for gap in (31, 32, 33, 47, 48, 49, 62, 63, 64, 65):
        yield probs_case(f"within_a_tile_{gap}_octaves_below",
                         [1.0, ldexp(odd, -gap), ldexp(1, -gap), ldexp(odd, 1 - gap)])
        yield probs_case(f"tiles_{gap}_octaves_apart",
                         at(258, 0.0, id_0=0.5, id_1=ldexp(odd, -gap), id_256=ldexp(0.5, -gap),
                            id_257=ldexp(odd, -gap - 20)), top_p=1 - ldexp(1, -24))
    yield probs_case("not_dyadic_1000",
                     [float32(Fraction(i * i % 997 + 1, 498000)) for i in range(1000)],
                     top_p=float32(Fraction(4, 5)))
    yield probs_case("min_p_of_some_tiles",
                     [*[ldexp(1, -12 - i % 3) for i in range(256)],
                      *[ldexp(1, -9 - i % 5) for i in range(256)], 0.25, 0.125],
                     top_p=float32(Fraction(3, 5)), min_p=ldexp(1, -8))
    yield probs_case("dyadic_600", [ldexp(1 + i % 7, -12 - i % 5) for i in range(600)], top_k=77,
                     top_p=0.75)
    yield probs_case("a_tile_of_zeros", [0.0] * 256 + [0.25, 0.5])


def main():
    answers = {"logits": [*short_logit_rows(), *long_logit_rows()], "probs": list(prob_rows())}
    lines = [f' "{key}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"
             for key, rows in answers.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    path = Path(__file__).with_name("tile_answers.json")
    if sys.argv[1:] == ["--check"]:
        if path.read_text() != text:
            sys.exit(f"{path.name} is not what {Path(__file__).name} writes")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
