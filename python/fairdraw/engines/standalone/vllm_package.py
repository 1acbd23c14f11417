"""vLLM's PyTorch path (vllm/v1/sample/ops/topk_topp_sampler.py), for capsules.

Uses an installed vllm, or the wheel that the environment variable VLLM_WHEEL names: the one file of
it, on the CPU, with stand-ins for what it imports of the rest.
"""

import importlib
import os
import sys
import types
import zipfile

import numpy as np
import torch

MODULE = "vllm.v1.sample.ops.topk_topp_sampler"


class Nothing:
    def __getattr__(self, name):
        return lambda *_, **__: None


def load():
    if "VLLM_WHEEL" not in os.environ:
        return importlib.import_module(MODULE)
    members = {
        "vllm": {"envs": Nothing()},
        "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
        "vllm.config": {},
        "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": str},
        "vllm.logger": {"init_logger": lambda name: Nothing()},
        "vllm.platforms": {"CpuArchEnum": Nothing(), "current_platform": Nothing()},
        "vllm.platforms.interface": {"DeviceCapability": object},
        "vllm.triton_utils": {"HAS_TRITON": False},
    }
    for name, content in members.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)
    module = types.ModuleType(MODULE)
    with zipfile.ZipFile(os.environ["VLLM_WHEEL"]) as wheel:
        exec(wheel.read(MODULE.replace(".", "/") + ".py"), module.__dict__)
    return module


def answer(logits, temperature, top_k, top_p, min_p, draws):
    """(ids that the filters keep, tokens drawn): the steps of vLLM's Sampler in their order."""
    module = load()
    vocab = len(logits)
    rows = torch.tensor(np.array(logits, np.float32))[None, :]
    if temperature < 1e-5:
        largest = int(rows.argmax())
        return {largest}, [largest] * draws
    rows = rows / np.float32(temperature)
    if min_p > 0:
        probs = rows.softmax(dim=-1)
        rows[probs < np.float32(min_p) * probs.amax(dim=-1, keepdim=True)] = -float("inf")
    k = torch.tensor([min(top_k, vocab)]) if 0 < top_k < vocab else None
    p = torch.tensor([top_p], dtype=torch.float32) if top_p < 1 else None
    if k is not None or p is not None:
        rows = module.apply_top_k_top_p_pytorch(rows, k, p)
    kept = set(torch.nonzero(rows[0] > -float("inf")).flatten().tolist())
    torch.manual_seed(1)
    probs = rows.softmax(dim=-1).expand(draws, vocab).contiguous()
    return kept, module.random_sample(probs, {}).tolist()
