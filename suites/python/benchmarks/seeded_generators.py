#!/usr/bin/env python3
"""TopKTopPSampler with a generator a row against none, on the CPU: medians in milliseconds.

    python suites/python/benchmarks/seeded_generators.py [rows] [vocab]

Calls with and without generators alternate, so that both see the same machine. vLLM's own
(forward_native, out of the wheel that FAIRDRAW_VLLM_WHEEL names) draws row by row where rows have
generators.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from fairdraw.engines import Unavailable, vllm_package
from fairdraw.torch import TopKTopPSampler

REPEATS = 15


def measure(name: str, forward: Callable[..., Any], rows: int, vocab: int) -> None:
    logits = torch.randn(rows, vocab, generator=torch.manual_seed(0)) * 2
    k = torch.full((rows,), 50, dtype=torch.int32)
    p = torch.full((rows,), 0.9)
    seeded = {row: torch.Generator().manual_seed(row) for row in range(rows)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(REPEATS + 1):
        for with_generators in (False, True):
            given = logits.clone()  # vLLM's changes it
            start = time.perf_counter()
            forward(given, seeded if with_generators else {}, k, p)
            times[with_generators].append(time.perf_counter() - start)
    plain, own = (statistics.median(times[kind][1:]) * 1000 for kind in (False, True))
    ratio = statistics.median(b / a for a, b in zip(times[False][1:], times[True][1:], strict=True))
    print(f"{name}: {plain:.2f} ms unseeded, {own:.2f} ms seeded, ratio {ratio:.3f} a pair")


def main() -> None:
    rows, vocab = (int(word) for word in (sys.argv[1:] + ["64", "128256"][len(sys.argv) - 1 :]))
    measure("fairdraw", TopKTopPSampler().forward, rows, vocab)
    try:
        measure("vLLM", vllm_package.load().TopKTopPSampler().forward_native, rows, vocab)
    except Unavailable as reason:
        print(f"vLLM: {reason}")


if __name__ == "__main__":
    main()
