#!/usr/bin/env python3
"""Writes the table of docs/watermarks.md: tokens until a watermark's p-value is at most 1e-6.

Usage: watermark_lengths.py REPOSITORY; needs the package fairdraw (PYTHONPATH=build/.../package).

The texts are drawn from rows of known entropy, in which tokens move to other ids at each step, so
that contexts seldom repeat. All numbers follow from fixed seeds.
"""

import math
import pathlib
import re
import sys

import numpy as np

import fairdraw

PAGE = "docs/watermarks.md"
TABLE = re.compile(r"(<!-- table lengths -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TEXTS, MOST_TOKENS, STEP, VOCAB = 300, 1500, 5, 512
P_VALUE = 1e-6


def entropy(probabilities):
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log2(positive)).sum())


def equal(bits):
    """Returns equal probabilities, the last of them smaller, so that the entropy is `bits`."""
    return solved(bits, lambda x: np.array([1.0] * math.floor(2**bits) + [x]), 0, 1)


def falling(bits):
    """Returns probabilities, each of which is smaller than the one before by the same factor."""
    return solved(bits, lambda x: x ** np.arange(256.0), 0, 1)


def one_large(bits):
    """Returns one large probability and 255 small, equal probabilities."""
    return solved(bits, lambda x: np.array([1.0] + [x] * 255), 0, 1)


def solved(bits, weights_of, low, high):
    for _ in range(60):
        middle = (low + high) / 2
        weights = weights_of(middle)
        low, high = (low, middle) if entropy(weights / weights.sum()) > bits else (middle, high)
    weights = weights_of(high)
    return weights / weights.sum()


def lengths(probabilities):
    """Returns, for each text, the number of tokens after which its p-value is at most P_VALUE, in
    steps of STEP; MOST_TOKENS if the p-value stays above."""
    keys = np.random.default_rng(41).integers(1, 2**63, TEXTS, dtype=np.uint64)
    moves = np.random.default_rng(42)
    texts = np.zeros((TEXTS, MOST_TOKENS), np.int32)
    found = np.full(TEXTS, MOST_TOKENS)
    left = np.arange(TEXTS)
    for step in range(MOST_TOKENS):
        row = np.full(VOCAB, -np.inf, np.float32)
        row[moves.permutation(VOCAB)[: len(probabilities)]] = np.log(probabilities)
        drawn = fairdraw.sample_marked(
            np.tile(row, (len(left), 1)), key=keys[left],
            outputs=[texts[text, :step] for text in left], seed=left.astype(np.uint64), offset=step,
        )  # fmt: skip
        texts[left, step] = drawn.tokens
        if (step + 1) % STEP:
            continue
        done = [
            text
            for text in left
            if fairdraw.detect_watermark(texts[text, : step + 1], keys[text]).p_value <= P_VALUE
        ]
        found[done] = step + 1
        left = np.setdiff1d(left, done)
        if len(left) == 0:
            break
    return found


def rows():
    for bits in (0.5, 1, 2, 3, 4):
        cells = [f"{bits:g}"]
        for kind in (equal, falling, one_large):
            needed = np.sort(lengths(kind(bits)))
            quantiles = [needed[math.ceil(share * TEXTS) - 1] for share in (0.5, 0.95)]
            texts = [f"over {q - STEP}" if q == MOST_TOKENS else str(q) for q in quantiles]
            cells.append(" / ".join(texts))
            print(cells, flush=True)
        yield "| " + " | ".join(cells) + " |"


def main(repository):
    page = pathlib.Path(repository) / PAGE
    header = ["bits a token", "equal tokens", "falling by one factor", "one large, 255 equal"]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *rows()]
    text = "\n".join(table) + "\n"
    page.write_text(TABLE.sub(lambda match: match[1] + text + match[3], page.read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
