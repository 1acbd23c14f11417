#!/usr/bin/env python3
"""Writes known_answers.json: rows whose answers follow from the definitions in exact fractions.

The script is a third implementation of the specification, after the kernels and the integer model.
The script evaluates filters token by token from their definitions, without a sort or a prefix. Sums and
products are computed in Python integers and fractions, float32 roundings on fractions (weights_by_tiles.py),
and logarithms and exponentials in decimals of 60 digits. The script uses only the standard library. Run it
without arguments; the test known_answers_current compares its output with the committed file.
"""

import json
import sys
from decimal import Decimal, getcontext
from fractions import Fraction
from math import floor, ldexp
from pathlib import Path

from weights_by_tiles import Weighed, double, float32, octaves_of_logit, octaves_of_prob

getcontext().prec = 60
LN2 = Decimal(2).ln()
LOG2_E = float.fromhex("0x1.71547652b82fep0")
DYADIC_TEMPERATURE = float.fromhex("0x1.715476p0")  # integer logits are octaves at this temperature


def decimal(value):
    value = Fraction(value)
    return Decimal(value.numerator) / Decimal(value.denominator)


def log2_exact(value):
    return decimal(value).ln() / LN2


def min_p_threshold(min_p):
    return float32(Fraction(log2_exact(min_p)))


def filtered(values, weights, survivors, top_k, top_p, lowest_id=False, joint=False):
    """Returns the ids of `survivors` that top_k and top_p keep; each id is decided by the definition
    alone."""
    vocab = len(values)

    def in_front(u, t):  # u ranks before t
        return values[u] > values[t] or (values[u] == values[t] and u < t)

    if 0 < top_k < vocab:
        if lowest_id:
            by_k = {t for t in survivors if sum(in_front(u, t) for u in survivors) < top_k}
        else:
            by_k = {t for t in survivors if sum(values[u] > values[t] for u in survivors) < top_k}
    else:
        by_k = set(survivors)
    base = set(survivors) if joint else by_k
    if top_p == 1:
        by_p = base
    else:
        target = Fraction(top_p) * sum(weights[t] for t in base)

        def mass_above(t):
            return sum(weights[u] for u in base if values[u] > values[t])

        by_p = {t for t in base if mass_above(t) == 0 or mass_above(t) < target}
    return sorted(by_k & by_p)


def greedy_id(values, candidates):
    return min(t for t in candidates if values[t] == max(values[u] for u in candidates))


def case(name, kind, values, weights, kept, greedy, **parameters):
    return {
        "name": name,
        kind: [float(v).hex() for v in values],
        **{k: float(v).hex() if isinstance(v, float) else v for k, v in parameters.items()},
        "kept": kept,
        "greedy": greedy,
        # Weights are decimal strings, because JSON has no integers of 124 bits.
        "weights": [str(weight) for weight in weights],
        "total": str(sum(weights[t] for t in kept)),
    }


def probs_case(name, probs, top_k=0, top_p=1.0, min_p=0.0, joint=False, top_k_1_keeps_ties=False):
    probs = [float(p) for p in probs]
    top_p, min_p = float(top_p), float(min_p)
    assert all(float32(x) == x for x in [*probs, top_p, min_p]), name
    largest = Fraction(max(probs))
    allowed = [t for t in range(len(probs)) if probs[t] > 0]
    weights = Weighed(probs, {t: octaves_of_prob(probs[t]) for t in allowed}).in_row
    if (top_k == 1 and not top_k_1_keeps_ties) or top_p == 0:
        greedy = greedy_id(probs, allowed)
        kept = [greedy]
    else:
        greedy = -1
        survivors = [t for t in allowed if Fraction(probs[t]) >= Fraction(min_p) * largest]
        kept = filtered(probs, weights, survivors, top_k, top_p, joint=joint)
    return case(name, "probs", probs, weights, kept, greedy, top_k=top_k, top_p=top_p,
                min_p=min_p, joint=joint, top_k_1_keeps_ties=top_k_1_keeps_ties)


def logits_case(name, logits, temperature=DYADIC_TEMPERATURE, top_k=0, top_p=1.0, min_p=0.0,
                joint=False, lowest_id=False, banned=()):
    logits = [float(x) for x in logits]
    temperature, top_p, min_p = float(temperature), float(top_p), float(min_p)
    finite = [x for x in logits if x != float("-inf")]
    assert all(float32(x) == x for x in [*finite, temperature, top_p, min_p]), name
    allowed = [t for t in range(len(logits)) if t not in banned and logits[t] != float("-inf")]
    largest = max(logits[t] for t in allowed)
    scale = Fraction(float32(double(Fraction(LOG2_E) / Fraction(temperature or 1.0))))
    distances = {
        t: float32(Fraction(float32(Fraction(logits[t]) - Fraction(largest))) * scale)
        for t in allowed
    }
    weights = Weighed(logits, {t: octaves_of_logit(logits[t], scale) for t in allowed}).in_row
    if temperature == 0 or top_k == 1 or top_p == 0:
        greedy = greedy_id(logits, allowed)
        kept = [greedy]
    else:
        greedy = -1
        survivors = [t for t in allowed if min_p == 0 or distances[t] >= min_p_threshold(min_p)]
        kept = filtered(logits, weights, survivors, top_k, top_p, lowest_id, joint)
    result = case(name, "logits", logits, weights, kept, greedy, temperature=temperature,
                  top_k=top_k, top_p=top_p, min_p=min_p, joint=joint, lowest_id=lowest_id,
                  banned=list(banned))
    # This is the distribution in real arithmetic over the tokens that the integer weights keep.
    nats = {t: (decimal(logits[t]) - decimal(largest)) / decimal(temperature or 1.0)
            for t in allowed}
    kept_sum = sum(nats[t].exp() for t in kept)
    result["law"] = [f"{nats[t].exp() / kept_sum if t in kept else 0:.25e}"
                     for t in range(len(logits))]
    result["log_normalizer"] = f"{sum(nats[t].exp() for t in allowed).ln():.25e}"
    return result


def chain_case(name, draft, tokens, target, accept, recover, bonus):
    """Returns one chain. Random words are given as fractions of 2^64."""
    words = [[floor(Fraction(w) * 2**64) for w in ws] for ws in (accept, recover, [bonus])]

    def weigh(row):
        octaves = {t: octaves_of_prob(p) for t, p in enumerate(row) if p > 0}
        return Weighed(row, octaves).in_speculation()

    def locate(weights, word):
        t = word * sum(weights) >> 64
        return next(j for j in range(len(weights)) if sum(weights[: j + 1]) > t)

    passed, result = [], []
    for q_row, p_row, x, word in zip(draft, target, tokens, words[0]):
        q, p = weigh(q_row), weigh(p_row)
        a, b = p[x] * sum(q), q[x] * sum(p)
        passed.append(a > 0 and (a >= b or word * b >> 64 < a))
    emitted = next((i for i, ok in enumerate(passed) if not ok), len(tokens))
    result = list(tokens[:emitted])
    if emitted < len(tokens):
        q, p = weigh(draft[emitted]), weigh(target[emitted])
        residual = [max(pj * sum(q) - qj * sum(p), 0) for pj, qj in zip(p, q)]
        result.append(locate(residual if sum(residual) > 0 else p, words[1][emitted]))
    else:
        result.append(locate(weigh(target[-1]), words[2][0]))
    result += [-1] * (len(tokens) + 1 - len(result))
    return {
        "name": name,
        "vocab": len(target[0]),
        "draft": [float(p).hex() for row in draft for p in row],
        "draft_tokens": tokens,
        "target": [float(p).hex() for row in target for p in row],
        "accept_words": words[0],
        "recover_words": words[1],
        "bonus_word": words[2][0],
        "tokens": result,
        "accepted": sum(passed),
        "emitted": emitted,
    }


def next_below(x):
    """Returns the next float32 below a positive one."""
    unit = Fraction(2) ** -149
    while float32(Fraction(x) - unit) >= x:
        unit *= 2
    return float32(Fraction(x) - unit)


def next_above(x):
    unit = Fraction(2) ** -149
    while float32(Fraction(x) + unit) <= x:
        unit *= 2
    return float32(Fraction(x) + unit)


TINY = ldexp(1, -149)
BELOW_ONE = 1 - ldexp(1, -24)


def probs_cases():
    halves = [1 / 8, 1 / 2, 1 / 8, 1 / 4]
    for p, label in [(0.5, "half"), (0.75, "three_quarters"), (0.875, "seven_eighths")]:
        yield probs_case(f"top_p_equals_partial_sum_{label}", halves, top_p=p)
        yield probs_case(f"top_p_below_partial_sum_{label}", halves, top_p=next_below(p))
        yield probs_case(f"top_p_above_partial_sum_{label}", halves, top_p=next_above(p))
    yield probs_case("top_p_zero_is_lowest_id_of_maximum", [1 / 4, 3 / 8, 3 / 8], top_p=0)
    yield probs_case("top_p_smallest_subnormal_keeps_ties", [1 / 4, 3 / 8, 3 / 8], top_p=TINY)
    yield probs_case("top_p_below_one_keeps_all", halves, top_p=BELOW_ONE)
    yield probs_case("top_p_below_one_drops_2^-24",
                     [BELOW_ONE, ldexp(1, -25), ldexp(1, -26), ldexp(1, -26)], top_p=BELOW_ONE)
    yield probs_case("top_p_one_keeps_weightless_token", [1 / 2, 1 / 2, TINY], top_p=1)
    yield probs_case("top_p_below_one_drops_weightless_token", [1 / 2, 1 / 2, TINY],
                     top_p=BELOW_ONE)
    yield probs_case("top_p_tie_at_boundary_stays", [1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 4],
                     top_p=0.625)
    # The threshold p Z is above the mass of the first token by half a unit of the last token in the first
    # case, and below this mass by half a unit in the second case.
    yield probs_case("top_p_half_a_unit_above", [1 / 2, 1 / 4, 1 / 4, ldexp(1, -33)], top_p=0.5)
    yield probs_case("top_p_half_a_unit_below",
                     [1 / 2, ldexp(1, -33), 1 / 4, 1 / 4 - ldexp(1, -25), ldexp(1, -25) - ldexp(1, -32)],
                     top_p=0.5)
    for exponent in (-103, -104, -105, -106):
        yield probs_case(f"top_p_2^{exponent}", [1 / 4, 1 / 2, 1 / 4], top_p=ldexp(1, exponent))
    yield probs_case("top_p_sum_is_not_one", [3, 3, 2, 1, 1], top_p=0.75)
    for k in [0, -1, 1, 2, 3, 4, 5, 6, 7]:
        yield probs_case(f"top_k_{k}_of_6_with_ties", [1 / 8, 1 / 4, 1 / 8, 1 / 4, 1 / 8, 1 / 8],
                         top_k=k)
    yield probs_case("top_k_1_keeps_ties", [1 / 8, 3 / 8, 1 / 8, 3 / 8], top_k=1,
                     top_k_1_keeps_ties=True)
    yield probs_case("top_k_1_keeps_ties_then_top_p", [1 / 8, 3 / 8, 1 / 8, 3 / 8], top_k=1,
                     top_p=0.25, top_k_1_keeps_ties=True)
    base = [0.34375, 0.25, 0.203125, 0.046875, 0.03125, 0.03125, 0.03125, 0.0625]
    yield probs_case("top_k_first_renormalises", base, top_k=4, top_p=0.8125)
    yield probs_case("joint_does_not_renormalise", base, top_k=4, top_p=0.8125, joint=True)
    yield probs_case("joint_cut_by_top_k", base, top_k=2, top_p=0.8125, joint=True)
    for m in [0.0, 0.25, next_above(0.25), 0.5, next_above(0.5), 1.0, TINY, BELOW_ONE]:
        yield probs_case(f"min_p_{m.hex()}", halves, min_p=m)
    yield probs_case("min_p_1_with_ties", [3 / 8, 1 / 4, 3 / 8], min_p=1)
    yield probs_case("min_p_shrinks_base_of_top_p", [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16],
                     min_p=0.25, top_p=0.5625)
    yield probs_case("zero_never_survives", [0, 1 / 2, 0, 1 / 2, 0], top_k=4)
    yield probs_case("negative_zero_is_zero", [-0.0, 1.0])
    yield probs_case("subnormal_row", [TINY, 3 * TINY, 2 * TINY], top_p=0.5)
    yield probs_case("one_token", [float32(Fraction(1, 3))], top_k=1, top_p=0.5)
    yield probs_case("huge_row", [ldexp(1, 127), ldexp(1, 126), ldexp(1, 126)], top_p=0.5)
    thirds = [float32(Fraction(1, 3))] * 3
    yield probs_case("thirds_above_one", thirds, top_p=next_above(float32(Fraction(2, 3))))


def logits_cases():
    octaves = [-1.0, 0.0, -3.0, -2.0, -3.0]  # 1/2 1 1/8 1/4 1/8: total 2
    for p in [0.5, next_above(0.5), next_below(0.5), 0.75, 0.875, next_above(0.875), BELOW_ONE]:
        yield logits_case(f"dyadic_top_p_{p.hex()}", octaves, top_p=p)
    for k in [0, -1, 1, 3, 4, 5, 6]:
        yield logits_case(f"dyadic_top_k_{k}", octaves, top_k=k)
        yield logits_case(f"dyadic_top_k_{k}_lowest_id", octaves, top_k=k, lowest_id=True)
    for m in [0.125, next_above(0.125), next_below(0.125), 1.0, TINY, 0.5]:
        yield logits_case(f"dyadic_min_p_{m.hex()}", octaves, min_p=m)
    yield logits_case("dyadic_joint", octaves, top_k=3, top_p=0.8125, joint=True)
    yield logits_case("dyadic_top_k_first", octaves, top_k=3, top_p=0.8125)
    yield logits_case("dyadic_joint_lowest_id", octaves, top_k=4, top_p=BELOW_ONE, joint=True,
                      lowest_id=True)
    yield logits_case("lowest_id_then_top_p_keeps_ties_of_the_kept",
                      [0.0, -1.0, -1.0, -1.0, -1.0], top_k=4, top_p=0.5, lowest_id=True)
    yield logits_case("signed_zeros_tie", [0.0, -0.0, -1.0, -0.0], top_k=2)
    yield logits_case("signed_zeros_tie_greedy", [-1.0, -0.0, 0.0], temperature=0.0)
    yield logits_case("signed_zeros_lowest_id", [-1.0, -0.0, 0.0, 0.0], top_k=2, lowest_id=True)
    yield logits_case("greedy_temperature_0", [1.0, 3.0, 3.0, 2.0], temperature=0.0, top_k=3)
    yield logits_case("greedy_top_k_1", [1.0, 3.0, 3.0, 2.0], top_k=1)
    yield logits_case("greedy_top_p_0", [1.0, 3.0, 3.0, 2.0], top_p=0)
    yield logits_case("banned_maximum", [5.0, 1.0, 0.0, 3.0], banned=[0], top_p=0.5)
    yield logits_case("minus_infinity_is_not_counted", [0.0, float("-inf"), -1.0, float("-inf")],
                      top_k=3)
    yield logits_case("all_equal", [7.0] * 5, top_k=2, top_p=0.25)
    yield logits_case("all_equal_lowest_id", [7.0] * 5, top_k=2, top_p=0.25, lowest_id=True)
    yield logits_case("out_of_reach_is_kept", [0.0, -100.0, float32(-(10**30))])
    yield logits_case("temperature_1", [0.25, -1.5, 3.0, 2.875, -0.125], temperature=1.0)
    yield logits_case("temperature_1_top_p", [0.25, -1.5, 3.0, 2.875, -0.125], temperature=1.0,
                      top_p=0.5)
    yield logits_case("temperature_0.7", [12.5, 11.25, 13.0, -4.0],
                      temperature=float32(Fraction(7, 10)), min_p=float32(Fraction(1, 20)))
    yield logits_case("temperature_smallest", [0.0, -ldexp(1, -126), -ldexp(1, -125)],
                      temperature=ldexp(1, -126))
    yield logits_case("temperature_largest", [0.0, -ldexp(1, 64), 1.0], temperature=ldexp(1, 64))
    yield logits_case("subnormal_logits", [TINY, -TINY, 5 * TINY], temperature=ldexp(1, -126),
                      top_k=2)
    # The row has probabilities down to the smallest float32, which no draw reaches.
    small = [0.0, -30.0, -38.25, -45.0, -60.0, -75.5, -87.0, -87.5, -95.0, -102.0, -103.25, -104.0,
             -110.0, -200.0]
    yield logits_case("small_probabilities", small, temperature=1.0)
    yield logits_case("small_probabilities_temperature_0.7",
                      [4096.0 + x / 2 for x in small[:-1]] + [4096.0 - 73.0],
                      temperature=float32(Fraction(7, 10)), top_k=12)


def chain_cases():
    uniform = [1 / 4] * 4
    steep = [1 / 2, 1 / 4, 1 / 8, 1 / 8]
    rest = [1 / 8, 1 / 8, 1 / 4, 1 / 2]
    half, zero, most = Fraction(1, 2), Fraction(0), Fraction(2**64 - 1, 2**64)
    below_half = half - Fraction(1, 2**64)
    yield chain_case("no_draft", [], [], [steep], [], [], Fraction(5, 8))
    yield chain_case("target_at_least_draft", [uniform], [0], [steep, rest], [most], [zero], most)
    yield chain_case("word_below_ratio", [uniform], [3], [steep, rest], [below_half], [zero], zero)
    yield chain_case("word_at_ratio", [uniform], [3], [steep, rest], [half], [zero], zero)
    yield chain_case("residual_last_token", [steep], [0], [rest, steep], [most], [most], zero)
    yield chain_case("residual_boundary", [steep], [0], [rest, steep], [most],
                     [Fraction(1, 4)], zero)
    yield chain_case("residual_below_boundary", [steep], [0], [rest, steep], [most],
                     [Fraction(1, 4) - Fraction(1, 2**64)], zero)
    yield chain_case("zero_target_is_rejected_at_word_0", [uniform], [2],
                     [[1 / 2, 1 / 2, 0, 0], steep], [zero], [zero], zero)
    yield chain_case("zero_draft_and_target", [[1 / 2, 1 / 2, 0, 0]], [2],
                     [[1 / 2, 1 / 2, 0, 0], steep], [zero], [half], zero)
    yield chain_case("zero_draft_is_accepted", [[1 / 2, 1 / 2, 0, 0]], [2], [steep, rest],
                     [most], [zero], half)
    yield chain_case("accepted_after_rejection", [uniform, uniform, uniform], [0, 3, 0],
                     [steep, steep, steep, rest], [most, most, most], [zero, most, zero], zero)
    yield chain_case("all_accepted", [uniform, steep], [1, 0], [uniform, steep, rest],
                     [most, most], [zero, zero], Fraction(1, 4))
    yield chain_case("unnormalised", [[2, 2, 2, 2]], [3], [[4, 2, 1, 1], rest], [half], [half],
                     zero)
    # Token 1 has all 24 bits set at 21 octaves below the maximum, so its weight is 2^19 - 2^-5 units, whose
    # fraction is truncated. This random word is between twice the token's truncated probability and twice its
    # exact probability, so that the truncated weight alone rejects the token.
    small = [1, ldexp(BELOW_ONE, -20)]
    between = Fraction(2**20 - 1, 2**39 + 2**19 - 1)
    yield chain_case("cut_weight_is_rejected", [[1 / 2, 1 / 2]], [1], [small, small], [between],
                     [zero], zero)
    yield chain_case("cut_weight_is_accepted", [[1 / 2, 1 / 2]], [1], [small, small],
                     [between - Fraction(2, 2**39)], [zero], most)
    yield chain_case("lost_weight_is_rejected_at_word_0", [[1 / 2, 1 / 2]], [1],
                     [[1, ldexp(1, -40)], small], [zero], [most], zero)


def min_p_cases():
    values = [1.0, BELOW_ONE, 0.5, next_above(0.5), next_below(0.5), 0.25, TINY, 3 * TINY,
              ldexp(1, -126), next_below(ldexp(1, -126))]
    values += [float32(Fraction(i, 100)) for i in (1, 2, 3, 5, 7, 10, 15, 20, 30, 70, 90, 99)]
    values += [float32(Fraction(1, 10**i)) for i in range(3, 45, 3)]
    for value in values:
        yield {"min_p": value.hex(), "log2": f"{log2_exact(value):.30e}",
               "threshold": min_p_threshold(value).hex()}


def main():
    answers = {
        "probs": list(probs_cases()),
        "logits": list(logits_cases()),
        "chains": list(chain_cases()),
        "min_p_threshold": list(min_p_cases()),
    }
    lines = [f' "{key}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"
             for key, rows in answers.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    path = Path(__file__).with_name("known_answers.json")
    if sys.argv[1:] == ["--check"]:
        if path.read_text() != text:
            sys.exit(f"{path.name} is not what {Path(__file__).name} writes")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
