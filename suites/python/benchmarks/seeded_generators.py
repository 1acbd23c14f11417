#!/usr/bin/env python3
"""TopKTopPSampler with a generator a row against none: medians of milliseconds of CPU time.

    python suites/python/benchmarks/seeded_generators.py [rows] [vocab]

One thread, whose CPU time other work on the machine hardly shows in, and calls with and without
generators by turns. vLLM's own (forward_native, out of the wheel that FAIRDRAW_VLLM_WHEEL names)
draws row by row where rows have generators.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # read when the libraries below are loaded

import torch  # noqa: E402

from fairdraw.engines import Unavailable, vllm_package  # noqa: E402
from fairdraw.torch import TopKTopPSampler  # noqa: E402


def measure(
    name: str, forward: Callable[..., Any], rows: int, vocab: int, filters: bool, repeats: int
) -> None:
    logits = torch.randn(rows, vocab, generator=torch.manual_seed(0)) * 2
    k = torch.full((rows,), 50, dtype=torch.int32) if filters else None
    p = torch.full((rows,), 0.9) if filters else None
    seeded = {row: torch.Generator().manual_seed(row) for row in range(rows)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(repeats + 1):  # the first is for caches
        for with_generators in (False, True):
            given = logits.clone()  # vLLM's changes it
            start = time.process_time()
            forward(given, seeded if with_generators else {}, k, p)
            times[with_generators].append(time.process_time() - start)
    plain, own = (statistics.median(times[kind][1:]) * 1000 for kind in (False, True))
    what = "top_k 50, top_p 0.9" if filters else "no filter"
    print(f"{name}, {what}: {plain:.2f} unseeded, {own:.2f} seeded, ratio {own / plain:.3f}")


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    rows, vocab = (*given, *(64, 128256)[len(given) :])
    for filters in (True, False):
        measure("fairdraw", TopKTopPSampler().forward, rows, vocab, filters, 40)
        try:
            vllm = vllm_package.load().TopKTopPSampler().forward_native
        except Unavailable as reason:
            print(f"vLLM: {reason}")
            continue
        measure("vLLM", vllm, rows, vocab, filters, 3)


if __name__ == "__main__":
    main()
