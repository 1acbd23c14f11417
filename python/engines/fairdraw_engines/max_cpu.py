"""Adapts Modular MAX's sampler on the CPU: `topk_fused_sampling`, the operation that MAX's
pipelines call.

    pip install max==26.7.0

The operation is compiled once per process, which takes half a minute on one core. The engine is
judged by profile `max_cpu`, without min_p, which the adapter does not pass to the operation. A row
is passed once for each token that is drawn from it, each time with another seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fairdraw import Batch

from ._engine import Engine, Sampler, allowed_ids
from ._packages import Unavailable, package, version_of

Array = np.ndarray[Any, Any]
#: Logit of a banned token in MAX's pipelines (sampling.py), which is not -inf.
BANNED = -10000.0
#: Maximum number of logits of one call, which are 64 MiB.
MAX_VALUES = 1 << 24


@functools.cache
def compiled() -> Callable[..., Any]:
    """Returns the function that MAX's pipelines build. The function takes (logits, top_k, max_k,
    temperature, top_p, min_top_p, seeds) and returns tokens."""
    driver, engine = package("max.driver"), package("max.engine")
    graphs, kernels = package("max.graph"), package("max.nn.kernels")
    dtypes, cpu = package("max.dtype").DType, graphs.DeviceRef.CPU()

    def tensor(dtype: Any, *shape: str) -> Any:
        return graphs.TensorType(dtype, list(shape), cpu)

    types = [
        tensor(dtypes.float32, "batch", "vocab"),
        tensor(dtypes.int64, "batch"),
        tensor(dtypes.int64),
        tensor(dtypes.float32, "batch"),
        tensor(dtypes.float32, "batch"),
        tensor(dtypes.float32),
        tensor(dtypes.uint64, "batch"),
    ]
    with graphs.Graph("sample", input_types=types) as graph:
        logits, top_k, max_k, temperature, top_p, min_top_p, seeds = (
            value.tensor for value in graph.inputs
        )
        tokens = kernels.topk_fused_sampling(
            logits,
            top_k,
            temperature=temperature,
            max_k=max_k,
            min_top_p=min_top_p,
            top_p=top_p,
            seed=seeds,
        )
        graph.output(tokens)
    model = engine.InferenceSession(devices=[driver.CPU()]).load(graph)

    def call(*arguments: Array) -> Any:
        return model.execute(*arguments)[0].to_numpy()[:, 0]

    return call


def make(seed: int) -> Sampler:
    call = compiled()
    random = np.random.default_rng(seed)

    def draw(logits: Array, top_k: Array, temperature: Array, top_p: Array) -> Any:
        """Returns the tokens of a batch, in calls of at most MAX_VALUES logits."""
        step = max(MAX_VALUES // logits.shape[1], 1)
        parts = []
        for begin in range(0, len(logits), step):
            part = slice(begin, begin + step)
            # The largest k of the batch, or -1 if some row has no k (the rule of InputContext).
            max_k = top_k[part].max() if top_k[part].min() > 0 else -1
            parts.append(
                call(
                    logits[part],
                    top_k[part],
                    np.array(max_k, np.int64),
                    temperature[part],
                    top_p[part],
                    np.array(top_p[part].min(), np.float32),
                    random.integers(0, 2**64, len(logits[part]), np.uint64),
                )
            )
        return np.concatenate(parts)

    def sample(batch: Batch) -> Any:
        logits = np.array(batch.logits, np.float32)
        allowed = allowed_ids(batch)
        if allowed is not None:
            logits[~allowed] = BANNED
        rows = np.arange(batch.rows) if batch.indices is None else np.asarray(batch.indices)
        rows = np.repeat(rows, batch.num_samples)
        # Parameter ranges that MAX's requests allow (SamplingParams).
        top_k, top_p = batch.top_k.astype(np.int64), batch.top_p.astype(np.float32)
        temperature = batch.temperature.astype(np.float32)
        taken = (top_k >= -1) & (top_p >= 0) & (top_p <= 1) & (temperature >= 0)
        tokens = np.full(len(rows), -1, np.int64)
        there = (rows >= 0) & (rows < batch.rows)  # an index that is out of range names no row
        asked = np.flatnonzero(there & taken[np.where(there, rows, 0)])
        if len(asked) > 0:
            chosen = rows[asked]
            tokens[asked] = draw(logits[chosen], top_k[chosen], temperature[chosen], top_p[chosen])
        return tokens.reshape(batch.outputs, batch.num_samples)

    return sample


def version() -> str:
    package("max.nn.kernels")
    try:
        return version_of("max")
    except Unavailable:
        return version_of("modular")


ENGINE = Engine(
    name="max_cpu",
    semantics="max_cpu",
    calls="max: topk_fused_sampling on the CPU",
    version=version,
    make=make,
    arrays="numpy",
    abilities=("float16", "allowed_mask", "indices", "num_samples"),
)
