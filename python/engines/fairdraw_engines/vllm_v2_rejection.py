"""Adapts vLLM's rejection sampler of model runner V2 (vllm/v1/worker/gpu/spec_decode), on a CUDA
device.

Two verifiers are judged by profile `vllm_triton`: `vllm_v2_rejection` under the token-wise rule,
and `vllm_v2_block` as block verification. The adapter calls apply_temperature, apply_min_p,
apply_top_k_top_p_triton and rejection_sample, in the order of V2's Sampler and RejectionSampler,
for requests as SamplingParams normalises them. Refused requests give no token. Seeds and positions
come from the batch, so that a request's tokens depend only on the request.

V2 keeps the draft's logits before they are divided by their temperature, which is the target's.
Therefore a draft's probabilities p are passed as T ln p. Without draft probabilities the drafted
token counts as certain. Greedy requests do not read draft probabilities.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ._drafts import float32_target, wide_tokens
from ._engine import DraftEngine
from ._vllm_wheel import triton_device, triton_module, version_with
from .vllm_torch import SAMPLING_EPS
from .vllm_triton import MODULE as FILTERS
from .vllm_triton import on_device, refused
from .vllm_v2 import GUMBEL, MIN_P

MODULE = "vllm.v1.worker.gpu.spec_decode.rejection_sampler_utils"


def _needs() -> dict[str, Any]:
    """Returns stand-ins for the members of other modules that the loaded module calls or names. The
    adapter draws no watermarks."""
    gumbel = triton_module(GUMBEL)
    return {
        GUMBEL: vars(gumbel),
        "vllm.v1.spec_decode.fly": {"compute_fly_entropy": None},
        "vllm.v1.worker.gpu.sample.watermark": {
            "philox_gumbel_block_argmax": gumbel.gumbel_block_argmax
        },
    }


def version() -> str:
    for module in (FILTERS, GUMBEL, MIN_P):
        triton_module(module)
    triton_module(MODULE, _needs)
    return on_device(version_with(MODULE, "torch", "triton"))


def _processed(batch: Any, rows: Any, requests: Any, temperature: Any, device: str) -> Any:
    """Returns the logits [rows, vocab] after every filter."""
    import torch

    gumbel, filters, min_p_module = (triton_module(m) for m in (GUMBEL, FILTERS, MIN_P))
    greedy = temperature == 0
    min_p = torch.where(greedy, 0.0, batch.min_p.to(device))
    top_k = batch.top_k.to(device)
    top_k = torch.where((top_k <= 0) | greedy, batch.vocab, top_k).clamp(max=batch.vocab).int()
    top_p = torch.where(greedy, 1.0, batch.top_p.to(device))
    gumbel.apply_temperature(rows, requests, temperature)
    if bool((min_p != 0).any()):
        min_p_module.apply_min_p(rows, requests, min_p)
    k, p = top_k[requests.long()], top_p[requests.long()]
    some_k, some_p = bool((k != batch.vocab).any()), bool((p != 1).any())
    if some_k or some_p:
        alone = bool(((k >= batch.vocab) & (p < 1)).any())
        rows = filters.apply_top_k_top_p_triton(
            rows, k if some_k else None, p if some_p else None, has_topp_only_rows=alone
        )
    return rows


def make(block: bool, seed: int) -> Any:
    """Makes a verifier that takes every token's seed from the batch. `seed` is only for samplers
    with a state."""
    module = triton_module(MODULE, _needs)
    device = triton_device()

    def verify(batch: Any) -> Any:
        import torch

        steps = torch.arange(batch.max_draft + 1)
        lengths = batch.draft_lengths.long()
        used = steps <= lengths[:, None]
        requests = torch.arange(batch.requests, dtype=torch.int32)[:, None].expand(used.shape)
        temperature = batch.temperature.masked_fill(batch.temperature < SAMPLING_EPS, 0.0)
        # The token that each row follows. The entry of row 0 is not read.
        before = torch.cat([torch.zeros_like(lengths)[:, None], batch.draft_tokens.long()], dim=1)
        seed_of, offset_of = batch.seed, batch.offset
        if batch.seed_is_scalar:  # gives the requests of one call distant positions
            seed_of = seed_of.expand(batch.requests)
            offset_of = offset_of + torch.arange(batch.requests) * (batch.max_draft + 1)
        drafts = None
        if batch.draft_probs is not None:
            by_request = temperature[:, None, None]
            drafts = (batch.draft_probs.float().log() * by_request).masked_fill(
                by_request == 0, 0.0
            )
            drafts = drafts.to(device)
        rows = float32_target(batch)[used].to(device)
        expanded = requests[used].to(device)
        on_gpu = temperature.to(device)
        sampled, counts = module.rejection_sample(
            _processed(batch, rows, expanded, on_gpu, device),
            drafts,
            before[used].to(device),
            torch.cat([torch.zeros(1, dtype=torch.int64), (lengths + 1).cumsum(0)])
            .int()
            .to(device),
            (offset_of[:, None] + steps)[used].to(device),
            requests[:, 0].contiguous().to(device),
            expanded,
            steps.int().expand(used.shape)[used].to(device),
            on_gpu,
            seed_of.contiguous().to(device),
            batch.max_draft,
            use_block_verification=block,
        )
        counts = counts.cpu()
        tokens = sampled.cpu().masked_fill(steps >= counts[:, None], -1)
        none = refused(batch)  # no token
        return wide_tokens(batch, tokens, none), (counts - 1).masked_fill(none, 0)

    return verify


def _engine(name: str, calls: str, block: bool) -> DraftEngine:
    return DraftEngine(
        name=name,
        semantics="vllm_triton",
        calls=f"vllm: apply_temperature, apply_min_p, apply_top_k_top_p_triton, {calls} of V2",
        version=version,
        make=partial(make, block),
        drafts=("unknown", "probs"),
        acceptance_rule="block" if block else "token_wise",
        draft_abilities=("allowed_mask", "bfloat16", "float16", "per_request_seeds"),
    )


TOKEN_WISE = _engine("vllm_v2_rejection", "rejection_sample", False)
BLOCK = _engine("vllm_v2_block", "rejection_sample(use_block_verification=True)", True)
