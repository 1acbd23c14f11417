"""Adapts the basic draws of libraries: torch.multinomial and numpy's Generator.choice.

Only cases without filters are run. These cases are judged by profile `fairdraw`, whose distribution
without filters is the softmax. Both functions leave greedy rows to the caller, so that no greedy
row is tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairdraw import Batch

from ._engine import Engine, Sampler, allowed_ids
from ._packages import version_of
from ._tensors import draw_outputs, float32_logits, generator_of, multinomial

#: Globs of cases with one operation for all rows, and without a filter.
WITHOUT_FILTERS = ("*/none/t*",)


def make_torch(seed: int) -> Sampler:

    generator = generator_of(seed)

    def sample(batch: Batch) -> Any:
        probs = (float32_logits(batch) / batch.temperature[:, None]).softmax(dim=-1)
        return draw_outputs(
            batch,
            probs,
            lambda p: multinomial(p, generator),
            probs > 0,
        )

    return sample


def make_numpy(seed: int) -> Sampler:
    random = np.random.default_rng(seed)

    def sample(batch: Batch) -> Any:
        # numpy's choice requires that the sum is 1 within 1e-8.
        logits = batch.logits.astype(np.float64)
        allowed = allowed_ids(batch)
        if allowed is not None:
            logits[~allowed] = -np.inf
        logits /= batch.temperature[:, None]
        probs = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        rows = np.arange(batch.rows) if batch.indices is None else np.asarray(batch.indices)
        tokens = np.full((batch.outputs, batch.num_samples), -1, np.int64)
        for row in np.unique(rows[(rows >= 0) & (rows < batch.rows)]):
            shape = (np.count_nonzero(rows == row), batch.num_samples)
            tokens[rows == row] = random.choice(batch.vocab, size=shape, p=probs[row])
        return tokens

    return sample


TORCH = Engine(
    name="torch_multinomial",
    semantics="fairdraw",
    calls="torch: softmax, torch.multinomial(num_samples=1)",
    version=lambda: version_of("torch"),
    make=make_torch,
    abilities=("float16", "bfloat16", "allowed_mask", "indices", "num_samples"),
    cases=WITHOUT_FILTERS,
)
NUMPY = Engine(
    name="numpy_choice",
    semantics="fairdraw",
    calls="numpy: Generator.choice(p=...)",
    version=lambda: version_of("numpy"),
    make=make_numpy,
    arrays="numpy",
    abilities=("float16", "allowed_mask", "indices", "num_samples"),
    cases=WITHOUT_FILTERS,
)
