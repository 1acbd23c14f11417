"""Adapts vLLM's rejection sampler of V1 (vllm/v1/sample/rejection_sampler.py), which is a verifier
of drafts.

The verifier is judged by profile `vllm_torch` under the token-wise rule. The adapter calls
apply_sampling_constraints and rejection_sample of the package's module, with the PyTorch path of
apply_top_k_top_p. The bonus token is drawn first, as in RejectionSampler.forward, with temperature,
the same filters and random_sample. The drafts have probabilities or have none. V1 refuses min_p
together with drafts. Requests that vLLM's SamplingParams refuses give no token. Requests have no
random generators of their own in this adapter, so that the device's torch generator draws.

The kernels are written in Triton. The Triton kernels run on a CUDA device, or slowly in Triton's
interpreter (_vllm_wheel.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import vllm_package
from ._drafts import packed, wide_tokens
from ._engine import DraftEngine
from ._vllm_wheel import Nothing, triton_device, triton_module, version_with
from .vllm_torch import SAMPLING_EPS, refused_by_params
from .vllm_triton import on_device

MODULE = "vllm.v1.sample.rejection_sampler"


def _needs() -> dict[str, dict[str, Any]]:
    """Returns stand-ins for the module's imports from vLLM: the filters, and names that are not
    called here.
    """
    absent = {
        "vllm.utils.torch_utils": ("async_tensor_h2d",),
        "vllm.v1.outputs": ("LogprobsLists", "LogprobsTensors", "SamplerOutput"),
        "vllm.v1.sample.logits_processor.builtin": ("MinTokensLogitsProcessor",),
        "vllm.v1.sample.metadata": ("SamplingMetadata",),
        "vllm.v1.sample.ops.bad_words": ("apply_bad_words_with_drafts",),
        "vllm.v1.sample.ops.penalties": ("apply_all_penalties",),
        "vllm.v1.sample.sampler": ("Sampler",),
        "vllm.v1.spec_decode.fly": (
            "apply_fly_greedy_acceptance_kernel",
            "apply_fly_random_acceptance_kernel",
            "compute_fly_entropy",
        ),
        "vllm.v1.spec_decode.metadata": ("SpecDecodeMetadata",),
        "vllm.v1.spec_decode.utils": ("unconditional_to_conditional_rates",),
    }
    return {
        **{module: dict.fromkeys(names) for module, names in absent.items()},
        "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": ()},
        "vllm.logger": {"init_logger": lambda name: Nothing()},
        "vllm.v1.sample.ops.topk_topp_sampler": {
            "apply_top_k_top_p": vllm_package.load().apply_top_k_top_p
        },
    }


def version() -> str:
    triton_module(MODULE, _needs)
    return on_device(version_with(MODULE, "torch", "triton"))


def _metadata(batch: Any, device: str) -> SimpleNamespace:
    """Returns the SamplingMetadata of requests as V1 normalises them: greedy requests have no
    filters."""
    import torch

    greedy = batch.temperature < SAMPLING_EPS
    top_k = torch.where((batch.top_k <= 0) | greedy, batch.vocab, batch.top_k)
    top_k = top_k.clamp(max=batch.vocab)
    top_p = torch.where(greedy, 1.0, batch.top_p)
    return SimpleNamespace(
        all_greedy=bool(greedy.all()),
        all_random=not bool(greedy.any()),
        temperature=torch.where(greedy, 0.0, batch.temperature).to(device),
        top_k=top_k.int().to(device) if bool((top_k < batch.vocab).any()) else None,
        top_p=top_p.to(device) if bool((top_p < 1).any()) else None,
        generators={},
    )


def _bonus_tokens(logits: Any, metadata: Any) -> Any:
    """Draws one bonus token per request, [requests], from the request's last row, by V1's
    sampler."""
    sampler = vllm_package.load()
    greedy = metadata.temperature == 0
    largest = logits.argmax(dim=-1)
    if metadata.all_greedy:
        return largest
    scaled = logits / metadata.temperature.masked_fill(greedy, 1.0)[:, None]
    top_k = None if metadata.top_k is None else metadata.top_k.long()
    scaled = sampler.apply_top_k_top_p(scaled, top_k, metadata.top_p)
    drawn = sampler.random_sample(scaled.softmax(dim=-1), {})
    return largest.where(greedy, drawn)


def make(seed: int) -> Any:
    import torch

    module = triton_module(MODULE, _needs)
    device = triton_device()
    torch.manual_seed(seed & 0xFFFFFFFF)

    def verify(batch: Any) -> Any:
        rows = packed(batch, device)
        refused = refused_by_params(batch)
        metadata = _metadata(batch, device)
        bonus = _bonus_tokens(rows.last, metadata)
        lengths = batch.draft_lengths.tolist()
        if max(lengths) == 0:
            return wide_tokens(batch, bonus[:, None], refused)
        ends = torch.tensor(lengths).cumsum(0).int().to(device)
        target = module.apply_sampling_constraints(rows.target, ends, metadata)
        tokens = module.rejection_sample(
            rows.draft_tokens,
            lengths,
            max(lengths),
            ends,
            rows.draft_probs,
            target,
            bonus[:, None].contiguous(),
            metadata,
        )
        return wide_tokens(batch, tokens, refused)

    return verify


ENGINE = DraftEngine(
    name="vllm_rejection",
    semantics="vllm_torch",
    calls="vllm: apply_sampling_constraints, rejection_sample of V1",
    version=version,
    make=make,
    drafts=("unknown", "probs"),
    draft_abilities=("allowed_mask", "bfloat16", "float16"),
    lacks=("min_p",),
)
