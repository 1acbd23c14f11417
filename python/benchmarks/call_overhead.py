#!/usr/bin/env python3
"""Measures the overhead of a call through Python, in microseconds, as the median of many calls on
the smallest rows.

    python python/benchmarks/call_overhead.py

On one row of two tokens the kernel's own work is well below a microsecond, so that an operation's
time is the overhead. The last lines of the output give the time of a batch of one row through the
judge's adapter, which is the time that `verify` adds to a callable.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import fairdraw
from fairdraw import _core


def median_microseconds(call: Callable[[], object], repeats: int = 2000) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def operations(rows: object, seeds: object) -> dict[str, Callable[[], object]]:
    return {
        "sample": lambda: fairdraw.sample(rows, 0.7, 5, 0.9, seed=1),
        "sample, unseeded": lambda: fairdraw.sample(rows, 0.7, 5, 0.9),
        "sample, an array of seeds": lambda: fairdraw.sample(rows, 0.7, 5, 0.9, seed=seeds),
        "top_p_sampling_from_probs": lambda: fairdraw.top_p_sampling_from_probs(rows, 0.9, seed=1),
        "softmax": lambda: fairdraw.softmax(rows),
    }


def reads_nothing(batch: fairdraw.Batch) -> list[int]:
    return [0]


READY = np.zeros(1, np.int32)


def reads_six_arrays(batch: fairdraw.Batch) -> np.ndarray:
    for _ in (batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p, batch.seed):
        pass
    return READY


def main() -> None:
    rows = np.zeros((1, 2), np.float32)
    seeds = np.arange(1, dtype=np.uint64)
    for name, call in operations(rows, seeds).items():
        print(f"{name:<32} NumPy {median_microseconds(call):6.1f} us")
    try:
        import torch
    except ImportError:
        print("torch is not installed")
    else:
        for name, call in operations(torch.from_numpy(rows), torch.from_numpy(seeds)).items():
            print(f"{name:<32} torch {median_microseconds(call):6.1f} us")
    batch_overhead()


def batch_overhead() -> None:
    for function in (reads_nothing, reads_six_arrays):
        microseconds = _core.batch_microseconds(function, 2000)
        print(f"a batch, the callable {function.__name__:<16} {microseconds:6.1f} us")


if __name__ == "__main__":
    main()
