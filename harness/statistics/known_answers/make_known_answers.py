#!/usr/bin/env python3
"""Writes known_answers.h, which has tails, critical values and small exact tests, computed by mpmath at 60
digits.

If a second formula exists, this script uses it instead of the library's. Binomial tails come from the
continued fraction of the incomplete beta function, which the script compares with plain sums. The non-central
chi-squared distribution comes from its Poisson mixture, and the exact multinomial test from a list of every
outcome.

Needs mpmath 1.3. Run: python3 make_known_answers.py > known_answers.h
"""

from itertools import product

from mpmath import binomial, exp, factorial, findroot, gammainc, log, loggamma, mp, mpf, nstr

mp.dps = 60
PRECISE = mpf(10) ** -50


# --- Distributions -------------------------------------------------------------------------------


def incomplete_beta(a, b, x):
    """Returns I_x(a, b) by its continued fraction (DLMF 8.17.22), which is fast for x < (a+1)/(a+b+2)."""
    front = exp(loggamma(a + b) - loggamma(a) - loggamma(b) + a * log(x) + b * log(1 - x)) / a
    fraction, c, d = mpf(1), mpf(1), mpf(0)
    change, step = mpf(0), 0
    while abs(change - 1) > PRECISE:
        step += 1
        m = step // 2
        if step % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        c = 1 + term / c
        d = 1 / (1 + term * d)
        change = c * d
        fraction *= change
    return front / fraction


def upper_tail(k, n, p):
    """Returns P(K >= k) for k above the mean."""
    return incomplete_beta(mpf(k), mpf(n - k + 1), p)


def binomial_p_value(k, n, p):
    p = mpf(p)
    smaller = upper_tail(k, n, p) if k > n * p else upper_tail(n - k, n, 1 - p)
    return min(mpf(1), 2 * smaller)


def check_continued_fraction():
    for k, n, p in [(45, 100, mpf("0.3")), (31, 100, mpf("0.3")), (3, 5, mpf("0.5"))]:
        plain = sum(binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
        assert abs(upper_tail(k, n, p) / plain - 1) < mpf(10) ** -45


def chi_squared_tails(x, dof):
    half, at = mpf(dof) / 2, mpf(x) / 2
    return (
        gammainc(half, 0, at, regularized=True),
        gammainc(half, at, mp.inf, regularized=True),
    )


def wilson_hilferty(dof, z):
    return dof * (1 - mpf(2) / (9 * dof) + z * mp.sqrt(mpf(2) / (9 * dof))) ** 3


def normal_quantile(upper):
    return findroot(lambda z: log(mp.erfc(z / mp.sqrt(2)) / 2) - log(upper), mp.sqrt(-2 * log(upper)))


def chi_squared_critical_value(dof, rate):
    start = wilson_hilferty(dof, normal_quantile(rate))
    return findroot(lambda x: log(chi_squared_tails(x, dof)[1]) - log(rate), start)


def non_central_cdf(x, dof, non_centrality):
    """Sums the Poisson mixture of the non-central distribution, with the steps P(a + 1, y) = P(a, y) - y^a
    e^-y / Gamma(a + 1)."""
    half, y, mean = mpf(dof) / 2, mpf(x) / 2, non_centrality / 2
    central = gammainc(half, 0, y, regularized=True)
    step = exp(half * log(y) - y - loggamma(half + 1))
    weight, total, j = exp(-mean), mpf(0), 0
    while j < mean or weight * central > mpf(10) ** -40 * total:
        total += weight * central
        central -= step
        step *= y / (half + j + 1)
        j += 1
        weight *= mean / j
    return total


def required_non_centrality(dof, false_fail_rate, false_pass_rate):
    critical = chi_squared_critical_value(dof, false_fail_rate)
    z = normal_quantile(false_pass_rate)
    low = critical - dof
    start = low + z * mp.sqrt(2 * (dof + 2 * (low + z * mp.sqrt(2 * (dof + 2 * low)))))
    miss = lambda l: log(non_central_cdf(critical, dof, l)) - log(false_pass_rate)
    return findroot(miss, (start, start * mpf("1.01")), solver="secant", tol=mpf(10) ** -25)


def g_bound(g, cells):
    a, m = mpf(g) / 2, mpf(cells - 1)
    return mpf(1) if a <= m else exp(-a) * (mp.e * a / m) ** m


def exact_multinomial(counts, probability):
    n, law = sum(counts), [mpf(p) for p in probability]

    def g(outcome):
        return 2 * sum(x * log(x / (n * p)) for x, p in zip(outcome, law) if x)

    observed, total = g(counts), mpf(0)
    for head in product(range(n + 1), repeat=len(law) - 1):
        if sum(head) > n:
            continue
        outcome = head + (n - sum(head),)
        if g(outcome) < observed - mpf(10) ** -20:
            continue
        mass = factorial(n)
        for x, p in zip(outcome, law):
            mass *= p**x / factorial(x)
        total += mass
    return total


# --- Cases ---------------------------------------------------------------------------------------

BINOMIAL = [
    (0, 1, 0.5), (1, 1, 0.25), (3, 10, 0.5), (9, 10, 0.5), (0, 100, 0.25), (60, 100, 0.5),
    (0, 1000000, 1e-5), (31, 1000000, 1e-5), (503000, 1000000, 0.5), (496500, 1000000, 0.5),
    (510000, 1000000, 0.5), (2, 1000000, 1e-9), (150, 1000000000, 1e-7), (40, 1000000000, 1e-7),
    (500110000, 1000000000, 0.5), (999998000, 1000000000, 0.999999), (1, 1 << 40, 1e-13),
    (110500, 1 << 40, 1e-7), ((1 << 39) + (1 << 21), 1 << 40, 0.5),
]
CHI_SQUARED = [
    (0.5, 1), (3.84, 1), (50.84412791818116, 1), (160, 1), (18.3, 10), (150, 10), (1400, 10),
    (2, 30), (8, 30), (232.3, 99), (20, 99), (999, 999), (1500, 999), (600, 999),
    (134800, 131071), (127300, 131071),
]
RATES = [(1e-12, 1e-6), (1e-9, 1e-12), (1e-3, 1e-3), (1e-12, 1e-12)]
NON_CENTRALITY = [(dof, *rates) for dof in (1, 2, 9, 99, 999) for rates in RATES]
NON_CENTRALITY += [(9999, 1e-12, 1e-6), (131071, 1e-12, 1e-6)]
G_BOUND = [(1, 2), (10, 2), (64.2, 2), (105, 10), (400, 100), (2500, 1000), (18, 10), (1400, 2)]
EXACT = [
    ((10, 0), (0.5, 0.5)),
    ((5, 5), (0.5, 0.5)),
    ((12, 2, 6), (0.25, 0.25, 0.5)),
    ((0, 0, 20), (0.125, 0.75, 0.125)),
    ((7, 1, 2, 2), (0.25, 0.25, 0.25, 0.25)),
    ((1, 1, 1, 1, 8), (0.125, 0.125, 0.25, 0.375, 0.125)),
    ((0, 2, 0, 0, 1, 5), (0.1875, 0.25, 0.125, 0.125, 0.25, 0.0625)),
    ((30, 10, 0), (0.5, 0.25, 0.25)),
]


def number(value):
    return nstr(mpf(value), 19, min_fixed=0, max_fixed=0)


def braces(values):
    return "{" + ", ".join(str(v) for v in values) + "}"


def table(kind, name, rows):
    print(f"inline const std::vector<{kind}> {name} = {{")
    for row in rows:
        print(f"    {braces(row)},")
    print("};\n")


def main():
    check_continued_fraction()
    print("// Generated by make_known_answers.py (mpmath, 60 digits). Do not edit.")
    print("// clang-format off")
    print("#pragma once\n\n#include <cstdint>\n#include <vector>\n")
    print("namespace fairdraw::statistics::known_answers {\n")
    print("struct Binomial { std::uint64_t successes, trials; double probability, p_value; };")
    print("struct Tails { double statistic, dof, lower, upper; };")
    print("struct Critical { double dof, false_fail_rate, critical_value; };")
    print("struct NonCentrality "
          "{ double dof, false_fail_rate, false_pass_rate, non_centrality; };")
    print("struct GBound { double g; std::uint32_t cells; double bound; };")
    print("struct Multinomial { std::vector<std::uint64_t> counts; "
          "std::vector<double> probability; double p_value; };\n")
    table("Binomial", "kBinomial",
          [(f"{k}U", f"{n}U", repr(p), number(binomial_p_value(k, n, p))) for k, n, p in BINOMIAL])
    table("Tails", "kChiSquared",
          [(repr(x), dof, *map(number, chi_squared_tails(x, dof))) for x, dof in CHI_SQUARED])
    table("Critical", "kCriticalValue",
          [(dof, repr(rate), number(chi_squared_critical_value(dof, mpf(rate))))
           for dof in (1, 9, 99, 131071) for rate in (1e-12, 1e-6, 1e-3)])
    table("NonCentrality", "kNonCentrality",
          [(dof, repr(a), repr(b), number(required_non_centrality(dof, mpf(a), mpf(b))))
           for dof, a, b in NON_CENTRALITY])
    table("GBound", "kGBound",
          [(repr(g), f"{cells}U", number(g_bound(g, cells))) for g, cells in G_BOUND])
    table("Multinomial", "kExactMultinomial",
          [(braces(f"{c}U" for c in counts), braces(law), number(exact_multinomial(counts, law)))
           for counts, law in EXACT])
    print("}  // namespace fairdraw::statistics::known_answers")


if __name__ == "__main__":
    main()
