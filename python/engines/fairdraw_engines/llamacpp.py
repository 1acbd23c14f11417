"""Adapts llama.cpp via llama-cpp-python: a chain of samplers on an array of candidates.

The sampler is judged by profile `llamacpp`. The adapter calls llama_sampler_init_top_k, _top_p,
_min_p, _temp and _dist, and chains the samplers in that order, which is llama.cpp's default. No
model or context is needed. The candidates are built from the logits, 12 bytes each, and filtered
once per row. For each draw the dist sampler then chooses among the candidates, as in a chain whose
other samplers have no state.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fairdraw import Batch

from ._engine import (
    TENSOR_ABILITIES,
    Engine,
    Sampler,
    allowed_ids,
    report_kept,
)
from ._packages import package, version_of

#: The struct llama_token_data.
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def float32_rows(batch: Batch) -> np.ndarray[Any, Any]:
    """Copies the batch's logits to float32 [rows, vocab], with excluded tokens at -inf."""
    logits = batch.logits
    rows: np.ndarray[Any, Any]
    # NumPy holds the bits of bfloat16, which are the upper half of a float32.
    if batch.dtype == "bfloat16":
        rows = (logits.astype(np.uint32) << 16).view(np.float32)
    else:
        rows = logits.astype(np.float32)
    allowed = allowed_ids(batch)
    if allowed is not None:
        rows[~allowed] = -np.inf
    return rows


class Chain:
    """The samplers of a llama.cpp chain, which are freed together."""

    def __init__(self, library: Any, samplers: list[Any]) -> None:
        self._library = library
        self._chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())
        for sampler in samplers:
            library.llama_sampler_chain_add(self._chain, sampler)

    def __del__(self) -> None:
        self._library.llama_sampler_free(self._chain)

    def apply(self, candidates: Any) -> None:
        self._library.llama_sampler_apply(self._chain, ctypes.byref(candidates))


def filtered(library: Any, row: np.ndarray[Any, Any], parameters: tuple[Any, ...]) -> Any:
    """Returns the candidates after filters and temperature, and the memory that holds them."""
    temperature, top_k, top_p, min_p = parameters
    memory = np.zeros(len(row), CANDIDATE)
    memory["id"] = np.arange(len(row))
    memory["logit"] = row
    data = memory.ctypes.data_as(ctypes.POINTER(library.llama_token_data))
    candidates = library.llama_token_data_array(data=data, size=len(row), selected=-1, sorted=False)
    Chain(
        library,
        [
            library.llama_sampler_init_top_k(int(top_k)),
            library.llama_sampler_init_top_p(float(top_p), 1),
            library.llama_sampler_init_min_p(float(min_p), 1),
            library.llama_sampler_init_temp(float(temperature)),
        ],
    ).apply(candidates)
    return candidates, memory


def make(seed: int) -> Sampler:
    library = package("llama_cpp").llama_cpp
    dist = Chain(library, [library.llama_sampler_init_dist((seed ^ (seed >> 32)) & 0xFFFFFFFE)])

    def sample(batch: Batch) -> Any:
        logits = float32_rows(batch)
        columns = (batch.temperature, batch.top_k, batch.top_p, batch.min_p)
        rows = np.arange(batch.rows) if batch.indices is None else np.asarray(batch.indices)
        kept = np.zeros((batch.rows, batch.vocab), bool)
        tokens = np.full((batch.outputs, batch.num_samples), -1, np.int64)
        outputs_of: dict[int, list[int]] = {}
        for output, row in enumerate(rows.tolist()):
            if 0 <= row < batch.rows:  # an index that is out of range names no row
                outputs_of.setdefault(row, []).append(output)
        for row, outputs in outputs_of.items():
            candidates, memory = filtered(library, logits[row], tuple(c[row] for c in columns))
            left = memory[: candidates.size]  # the samplers move survivors to the front
            # The temperature sampler comes after the filters. The temperature sampler removes
            # candidates only for T <= 0: all candidates but one then get -inf. A T so small that
            # logits overflow drops no candidate.
            greedy = batch.temperature[row] <= 0
            values = left["logit"] if greedy else logits[row, left["id"]]
            kept[row, left["id"][values > -np.inf]] = True
            for output in outputs:
                for sample_number in range(batch.num_samples):
                    dist.apply(candidates)
                    tokens[output, sample_number] = left["id"][candidates.selected]
        report_kept(batch, kept)
        return tokens

    return sample


ENGINE = Engine(
    name="llamacpp",
    semantics="llamacpp",
    calls="llama-cpp-python: llama_sampler_chain of top_k, top_p, min_p, temp, dist",
    version=lambda: version_of("llama_cpp_python"),
    make=make,
    arrays="numpy",
    abilities=TENSOR_ABILITIES,
    standalone="llamacpp",
)
