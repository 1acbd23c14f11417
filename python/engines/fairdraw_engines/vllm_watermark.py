"""Adapts vLLM's watermark (WatermarkConfig, algorithm "gumbel"), in PyTorch on the CPU.

The sampler is judged by profile `vllm_torch`. The adapter calls GumbelWatermarker.sample,
which chooses by the package's Philox PRF, and repeated_context_mask with the default scope
"single_turn", as vLLM's WatermarkedGpuSampler does. On a GPU vLLM makes the same numbers in a Triton
kernel, which is not called here. Filters are those of `vllm_package`. Rows without a mark get their
tokens from random_sample with a generator for each request. A watermarker has one key for all rows
of a call, so that rows with equal keys are drawn together.

The modules come from an installed vllm, or from a wheel (_vllm_wheel.py).
"""

from __future__ import annotations

import functools
from typing import Any

from fairdraw import Batch

from ._engine import Engine, Sampler
from ._marks import ABILITIES, CASES, by_key_and_history, generator_of_row
from ._vllm_wheel import Nothing, NoTriton, version_with, wheel_source
from ._wheel_modules import importing
from .vllm_package import load as load_filters
from .vllm_torch import before_top_k, refused_by_params

GUMBEL = "vllm.v1.watermarking.gumbel"
CONTEXTS = "vllm.v1.worker.gpu.sample.watermark"

#: Modules that run unchanged, by prefix, and members of other modules that they import.
REAL = ("vllm.v1.watermarking", CONTEXTS)
FACTS = {"vllm.triton_utils": {"HAS_TRITON": False, "triton": NoTriton(), "tl": Nothing()}}

#: WatermarkConfig's default of deduplicate_contexts_max_history.
MAX_HISTORY = 8192


@functools.cache
def load() -> tuple[Any, Any]:
    """Returns the modules with GumbelWatermarker and with repeated_context_mask."""
    with importing(
        "vllm", (GUMBEL, CONTEXTS), FACTS, lambda path: wheel_source(path)[0], REAL
    ) as found:
        gumbel, contexts = found
    return gumbel, contexts


def version() -> str:
    load()
    load_filters()
    return version_with(GUMBEL, "torch")


def make(seed: int) -> Sampler:
    """Makes a sampler that takes every row's seed from the batch. `seed` is only for samplers with
    a state."""
    import torch

    filters = load_filters()
    gumbel, contexts_module = load()

    @functools.lru_cache(1 << 16)
    def is_repeated(history: tuple[int, ...], context: tuple[int, ...]) -> bool:
        request = torch.zeros(1, dtype=torch.int32)
        found = contexts_module.repeated_context_mask(
            torch.tensor([[*history, 0]], dtype=torch.int32),
            request,
            request,
            torch.tensor([len(history)], dtype=torch.int32),
            torch.tensor([context]),
            MAX_HISTORY,
        )
        return bool(found[0])

    def sample(batch: Batch) -> Any:
        greedy, largest, logits, top_k, top_p = before_top_k(batch)
        k = top_k if (top_k < batch.vocab).any() else None
        p = top_p if (top_p < 1).any() else None
        logits = filters.apply_top_k_top_p(logits, k, p)
        refused = refused_by_params(batch)
        tokens = torch.where(greedy, largest, -1)
        open_rows = ~greedy & ~refused
        for (key, history), rows in by_key_and_history(batch).items():
            context = (*[-1] * batch.mark_window, *history)[-batch.mark_window :]
            if is_repeated(history, context):
                continue
            of_key = torch.tensor(rows)
            of_key = of_key[open_rows[of_key]]
            if len(of_key) == 0:
                continue
            watermarker = gumbel.GumbelWatermarker(key, batch.mark_window)
            drawn = watermarker.sample(
                logits[of_key], torch.tensor([context]).expand(len(of_key), -1)
            )
            tokens[of_key] = drawn.token_ids
            open_rows[of_key] = False
        rows_left = torch.nonzero(open_rows).flatten().tolist()
        generators = {at: generator_of_row(batch, row) for at, row in enumerate(rows_left)}
        if rows_left:
            tokens[rows_left] = filters.random_sample(
                logits[rows_left].softmax(dim=-1), generators
            ).to(tokens.dtype)
        tokens[refused] = -1
        return tokens

    return sample


ENGINE = Engine(
    name="vllm_watermark",
    semantics="vllm_torch",
    calls="vllm: GumbelWatermarker.sample, repeated_context_mask, random_sample, on the CPU",
    version=version,
    make=make,
    abilities=(*ABILITIES, "marks_by_key"),
    cases=CASES,
)
