#!/usr/bin/env python3
"""Compares the times of TopKTopPSampler with a generator per row and without generators: medians of
milliseconds.

    PYTHONPATH=python/engines python python/engines/seeded_generators.py [rows] [vocab] [cpu|cuda]

On the CPU one thread is timed by its CPU time, on which other programs on the machine have little
effect. On a GPU two times are measured: the time until all work is done, and the time during which
the host is busy. Calls with generators and calls without generators alternate. vLLM's own sampler
(forward_native, from the wheel that FAIRDRAW_VLLM_WHEEL names) draws row by row if rows have
generators.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # read from the environment when the libraries below are loaded

import torch  # noqa: E402

from fairdraw.torch import TopKTopPSampler  # noqa: E402
from fairdraw_engines import Unavailable, vllm_package  # noqa: E402


def timed(device: str, forward: Callable[..., Any], *arguments: Any) -> tuple[float, float]:
    """Returns the seconds until a call's work is done, and the seconds until the call returned."""
    if device == "cpu":
        start = time.process_time()
        forward(*arguments)
        return (time.process_time() - start,) * 2
    torch.cuda.synchronize()
    start = time.perf_counter()
    forward(*arguments)
    returned = time.perf_counter() - start
    torch.cuda.synchronize()
    return time.perf_counter() - start, returned


def measure(
    name: str,
    forward: Callable[..., Any],
    shape: tuple[int, int],
    device: str,
    filters: bool,
    repeats: int,
) -> None:
    rows, _ = shape
    logits = (torch.randn(shape, generator=torch.manual_seed(0)) * 2).to(device)
    k = torch.full((rows,), 50, dtype=torch.int32, device=device) if filters else None
    p = torch.full((rows,), 0.9, device=device) if filters else None
    seeded = {row: torch.Generator(device).manual_seed(row) for row in range(rows)}
    times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(repeats + 1):  # the first run of a function warms up caches
        for with_generators in (False, True):
            given = logits.clone()  # vLLM's sampler changes its logits in place
            generators = seeded if with_generators else {}
            times[with_generators].append(timed(device, forward, given, generators, k, p))
    what = "top_k 50, top_p 0.9" if filters else "no filter"
    for part, kind in enumerate(("", ", host") if device != "cpu" else ("",)):
        plain, own = (
            statistics.median(time[part] for time in times[with_generators][1:]) * 1000
            for with_generators in (False, True)
        )
        ratio = own / plain
        print(f"{name}, {what}{kind}: {plain:.3f} unseeded, {own:.3f} seeded, ratio {ratio:.3f}")


def main() -> None:
    given = [int(word) for word in sys.argv[1:3]]
    shape = (*given, *(64, 128256)[len(given) :])
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    for filters in (True, False):
        measure("fairdraw", TopKTopPSampler().forward, shape, device, filters, 40)
        try:
            vllm = vllm_package.load().TopKTopPSampler().forward_native
        except Unavailable as reason:
            print(f"vLLM: {reason}")
            continue
        measure("vLLM", vllm, shape, device, filters, 3 if device == "cpu" else 20)


if __name__ == "__main__":
    main()
