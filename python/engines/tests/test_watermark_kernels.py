"""Compares vLLM's Triton kernel of watermarks with its PyTorch path, which the adapter calls. The
test needs a GPU, or TRITON_INTERPRET=1."""

import pytest

from fairdraw_engines import Unavailable, vllm_watermark
from fairdraw_engines._vllm_wheel import triton_device, triton_module

GUMBEL_KERNELS = "vllm.v1.worker.gpu.sample.gumbel"


def kernels(gumbel):
    """Returns vLLM's module of Triton kernels."""
    constants = gumbel.PhiloxPRF.uniform.__globals__

    def needs():
        drawing = triton_module(GUMBEL_KERNELS)
        return {
            "vllm.v1.watermarking.prfs.philox": {
                name: value for name, value in constants.items() if isinstance(value, int)
            },
            GUMBEL_KERNELS: {
                name: getattr(drawing, name) for name in ("gumbel_noised_argmax", "spec_step_seed")
            },
        }  # fmt: skip

    return triton_module(vllm_watermark.CONTEXTS, needs)


def test_vllms_kernel_gives_the_tokens_of_the_pytorch_path():
    try:
        device = triton_device()
        gumbel, _ = vllm_watermark.load()
        module = kernels(gumbel)
    except Unavailable as reason:
        pytest.skip(str(reason))
    import torch

    generator = torch.Generator().manual_seed(0)
    for key in (5, 12345678901234567, 2**63 + 11):
        logits = 2 * torch.randn(16, 300, generator=generator)
        contexts = torch.randint(-1, 300, (16, 4), generator=generator)
        expected = gumbel.GumbelWatermarker(key, 4).sample(logits, contexts).token_ids
        found = module.philox_gumbel_sample(logits.to(device), contexts.to(device), key)
        assert found.cpu().tolist() == expected.tolist()
