#!/usr/bin/env python3
"""Measures the time that the gate suite takes for a Python callable besides the callable's own
time.

    python python/benchmarks/gate_time.py [--case GLOB] [--jobs N]

The script judges two samplers. The sampler `everything` claims all abilities of fairdraw.sample, so
that few cases are skipped. The sampler `tokens` claims no ability and only returns tokens, so that
draws from one row come as batches of copies of the row. Times are CPU times, so that other programs
on the machine do not count. OpenMP uses one thread, so that a call's time is the time of its
thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # an environment variable, which the first import reads

import fairdraw  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from samplers import EXACT, exact  # noqa: E402


class Timed:
    """A callable that adds up the CPU time of its calls, and counts the calls."""

    def __init__(self, function: Callable[[fairdraw.Batch], Any]) -> None:
        self._function = function
        self.seconds = 0.0
        self.batches = self.max_outputs = 0

    def __call__(self, batch: fairdraw.Batch) -> Any:
        start = time.thread_time()
        self.batches += 1
        self.max_outputs = max(self.max_outputs, batch.outputs)
        result = self._function(batch)
        self.seconds += time.thread_time() - start
        return result


def tokens(batch: fairdraw.Batch) -> Any:
    scalar = batch.seed_is_scalar
    return fairdraw.sample(
        batch.logits,
        batch.temperature,
        batch.top_k,
        batch.top_p,
        batch.min_p,
        seed=int(batch.seed[0]) if scalar else batch.seed,
        offset=int(batch.offset[0]) if scalar else batch.offset,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--suite", default="gate")
    parser.add_argument("--case", help="only the cases whose id matches")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    for name, function, claims in (("everything", exact, EXACT), ("tokens", tokens, {})):
        timed = Timed(function)
        wall, before = time.perf_counter(), os.times()
        report = fairdraw.verify(
            timed,
            suite=options.suite,
            case=options.case,
            name=name,
            seed=1,
            jobs=options.jobs,
            **claims,
        )
        after = os.times()
        processor = after.user - before.user + after.system - before.system
        print(report)
        print(
            f"{name}: {timed.batches} batches of up to {timed.max_outputs} outputs; processor "
            f"{processor:.0f} s, of which the callable {timed.seconds:.0f} s; without it "
            f"{(processor - timed.seconds) / options.jobs:.0f} s on each of {options.jobs} cores; "
            f"wall {time.perf_counter() - wall:.0f} s"
        )


if __name__ == "__main__":
    main()
