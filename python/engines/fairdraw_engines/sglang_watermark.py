"""Adapts SGLang's watermark (TextSeal, --enable-watermark), in PyTorch on the CPU.

The sampler is judged by profile `sglang_torch`. The adapter calls the package's WatermarkState as
SGLang does: init_from_prompt, force with the logits of a step, which leaves one token of each marked
row, and append with the step's token. All rows of a call are requests with keys of their own. On a
GPU SGLang makes the same numbers in Triton kernels, which are not called here. The rows that `force`
leaves alone are drawn as in `sglang_torch`, with a generator for each request.

A request has a prompt of as many ids as a context, because SGLang's context reaches into the
prompt. The prompt's ids are those of no token, so that no generated context equals one of the
prompt. The module comes from an installed sglang, or from the wheel that FAIRDRAW_SGLANG_WHEEL
names; it needs msgspec.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from fairdraw import Batch

from ._engine import Engine, Sampler
from ._marks import ABILITIES, CASES, draw_rows, history_of, keys_of
from ._packages import package
from ._tensors import float32_logits
from ._vllm_wheel import stand_ins, version_with, wheel_source
from ._wheel_modules import importing
from .sglang_torch import kept_probs, refused_by_params, top_k_of

MODULE = "sglang.srt.sampling.watermarking.core"
REAL = ("sglang.srt.sampling.watermarking",)
#: The module of the Triton kernels, of which `force` reads one number on the CPU, too.
SELECTOR = "sglang.kernels.ops.sampling.textseal_selector"


def source(path: str) -> str:
    return wheel_source(path, "sglang")[0]


@functools.cache
def load(module: str = MODULE) -> Any:
    """Returns a module of SGLang's watermarks."""
    package("msgspec")  # raises an error that names it
    with importing("sglang", (module,), {}, source, REAL) as found:
        return found[0]


def version() -> str:
    load()
    return version_with(MODULE, "torch", engine="sglang")


def _selector() -> dict[str, dict[str, Any]]:
    parts = SELECTOR.split(".")
    parents: dict[str, dict[str, Any]] = {".".join(parts[:end]): {} for end in range(1, len(parts))}
    return {**parents, SELECTOR: {"watermark_selector_num_splits": lambda vocab: 1}}


def make(seed: int) -> Sampler:
    """Makes a sampler that takes every row's seed from the batch. `seed` is only for samplers with
    a state."""
    import torch

    core = load()

    def marked(batch: Batch, logits: torch.Tensor, top_k: torch.Tensor) -> None:
        """Leaves one token of each marked row in the logits."""
        rows, window = batch.rows, batch.mark_window
        keys = keys_of(batch)
        signed = [key if key < 2**63 else key - 2**64 for key in keys]
        histories = [history_of(batch, row) for row in range(rows)]
        state = core.WatermarkState(
            max_num_reqs=rows, context_window=window, key=None, device="cpu",
            max_contexts_per_req=max(map(len, histories)) + 1,
        )  # fmt: skip
        pool = torch.arange(rows)
        state.init_from_prompt(pool, [list(range(batch.vocab, batch.vocab + window))] * rows)

        def force(at: torch.Tensor, of_rows: torch.Tensor, top_ks: torch.Tensor) -> None:
            info = types.SimpleNamespace(
                has_watermark_candidates=True,
                max_top_k=max(2, int(top_ks.max())),
                temperatures=torch.where(top_ks == 1, 1.0, batch.temperature[at])[:, None],
                top_ks=top_ks,
                top_ps=batch.top_p[at],
                min_ps=batch.min_p[at],
                watermark_keys=torch.tensor([signed[row] for row in at.tolist()]),
                watermark_context_windows=torch.full((len(at),), window, dtype=torch.int32),
                watermark_enabled=torch.tensor([keys[row] != 0 for row in at.tolist()]),
            )
            with stand_ins(_selector()):
                state.force(of_rows, at, info)

        for step in range(max(map(len, histories))):
            at = torch.tensor([row for row in range(rows) if len(histories[row]) > step])
            force(at, torch.zeros(len(at), 2), torch.full((len(at),), 2))
            state.append(at, torch.tensor([histories[row][step] for row in at.tolist()]))
        force(pool, logits, top_k)

    def sample(batch: Batch) -> Any:
        logits = float32_logits(batch)
        refused = refused_by_params(batch)
        top_k = top_k_of(batch)
        probs = kept_probs(batch, logits.clone(), top_k)
        tokens = torch.full((batch.rows,), -1, dtype=torch.int64)
        refused |= ~torch.isfinite(probs).all(dim=1)
        probs[refused] = 0
        if batch.mark_key is not None:
            marked(batch, logits, top_k)
            forced = (logits > float("-inf")).sum(dim=1) == 1
            probs[forced] = (logits[forced] > float("-inf")).float()
        draw_rows(batch, probs, tokens, torch.nonzero(~refused).flatten())
        return tokens

    return sample


ENGINE = Engine(
    name="sglang_watermark",
    semantics="sglang_torch",
    calls="sglang: WatermarkState.force and append, on the CPU; torch.multinomial",
    version=version,
    make=make,
    abilities=(*ABILITIES, "marks_by_key"),
    cases=CASES,
)
