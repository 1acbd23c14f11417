#!/usr/bin/env python3
"""Measures block verification against the token-wise rule, on rows of a trained language model.

    python python/benchmarks/block_verification.py [--steps N] [--seed S]

Each step of a request has n drafted tokens. The target's rows are drawn at random from the 48 rows
of suites/data, so that the positions of a chain do not depend on each other. The rows of the draft
are made from the target's rows in one of two ways: `temperature 1.5` draws from the same logits at
temperature 1.5, and `noise 1` adds N(0, 1) to each logit, as a cruder model would. The draft draws
its tokens with purpose "draft", and both rules verify the same drafts.

A line has the tokens that a step emits on average (accepted drafts and one more) by either rule,
their ratio with twice its standard error, and ratios of the time of the calls: per call and per
emitted token. Times are medians of alternating calls of 8 requests.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import fairdraw

ROWS = Path(__file__).parents[2] / "suites" / "data" / "lm_logits_bf16_as_u16.npy"
BATCH = 8
RULES = ("token_wise", "block")
#: Name, standard deviation of the noise, and temperature of each draft.
DRAFTS = (("temperature 1.5", 0.0, 1.5), ("noise 1", 1.0, 1.0))
#: Name and filters of each target.
TARGETS: tuple[tuple[str, dict[str, float]], ...] = (
    ("no filter", {}),
    ("top_p 0.9, T 0.8", {"temperature": 0.8, "top_p": 0.9}),
)


class Steps:
    """Steps of requests with one kind of target, one kind of draft, and n drafted tokens."""

    def __init__(self, rows: Any, noise: float, temperature: float, target: Any, n: int) -> None:
        self.rows, self.noise, self.target, self.n = rows, noise, target, n
        self.filters = {**target, "temperature": temperature * target.get("temperature", 1.0)}
        self.emitted: dict[str, list[int]] = {rule: [] for rule in RULES}
        self.seconds: dict[str, list[float]] = {rule: [] for rule in RULES}

    def run(self, random: np.random.Generator) -> None:
        n = self.n
        logits = self.rows[random.integers(len(self.rows), size=(BATCH, n + 1))]
        drafts = logits[:, :n].copy()
        if self.noise:
            drafts += random.standard_normal(drafts.shape, np.float32) * np.float32(self.noise)
        seeds = random.integers(2**63, size=BATCH).astype(np.uint64)
        ids = np.stack(
            [
                fairdraw.sample(
                    np.ascontiguousarray(drafts[:, i]), **self.filters, seed=seeds, offset=i,
                    purpose="draft",
                )
                for i in range(n)
            ],
            axis=1,
        )  # fmt: skip
        law = fairdraw.LawFilters(**self.filters)
        # The rule that is called first changes, because the second call finds warm caches.
        for rule in random.permutation(RULES):
            start = time.perf_counter()
            found = fairdraw.accept_chain(
                logits, ids, draft_logits=drafts, draft_filters=law, **self.target, seed=seeds,
                offset=0, accept_rule=str(rule),
            )  # fmt: skip
            self.seconds[rule].append(time.perf_counter() - start)
            assert (found.statuses == 0).all()
            self.emitted[rule] += (found.accepted + 1).tolist()

    def line(self) -> str:
        by_token, by_block = (np.array(self.emitted[rule], float) for rule in RULES)
        ratio = by_block.mean() / by_token.mean()
        error = (by_block - ratio * by_token).std() / by_token.mean() / len(by_token) ** 0.5
        slower = statistics.median(self.seconds["block"]) / statistics.median(
            self.seconds["token_wise"]
        )
        return (
            f"{self.n} | {by_token.mean():.3f} | {by_block.mean():.3f} | "
            f"{100 * (ratio - 1):+.1f} ± {200 * error:.1f} % | {slower:.2f} | {slower / ratio:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4000, help="steps of requests per line")
    parser.add_argument("--seed", type=int, default=41)
    arguments = parser.parse_args()
    bits = np.load(ROWS).astype(np.uint32) << 16
    random = np.random.default_rng(arguments.seed)
    print("| target | draft | n | tokens, token-wise | tokens, block | more | call | per token |")
    print("|---|---|---|---|---|---|---|---|")
    for target_name, target in TARGETS:
        for name, noise, temperature in DRAFTS:
            for n in (3, 5, 8):
                steps = Steps(bits.view(np.float32), noise, temperature, target, n)
                for _ in range(arguments.steps // BATCH):
                    steps.run(random)
                print(f"| {target_name} | {name} | {steps.line()} |", flush=True)


if __name__ == "__main__":
    main()
