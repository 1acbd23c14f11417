"""Adapts vLLM's own topk_topp_sampler.py: the PyTorch-native path of V1's sampler on the CPU.

The sampler is judged by profile `vllm_torch`. The adapter calls apply_top_k_top_p and random_sample
of the package's module. Temperature, min_p and greedy rows are handled by the code of the adapter
`vllm_torch`. The module comes from an installed vllm or from a wheel (_vllm_wheel.py). The module's
imports from vLLM are replaced by stand-ins with the few values that the module needs (a CPU
platform, no Triton).
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from fairdraw import Batch

from ._engine import TENSOR_ABILITIES, Engine, Sampler
from ._packages import Unavailable
from ._tensors import generator_of
from ._vllm_wheel import WHEEL, Nothing, path_of, stand_ins, version_with, wheel_source
from .vllm_torch import before_top_k, draw_or_largest, refused_by_params

MODULE = "vllm.v1.sample.ops.topk_topp_sampler"


class CpuPlatform(Nothing):
    def is_cpu(self) -> bool:
        return True


def from_wheel() -> Any:
    source, _ = wheel_source(path_of(MODULE))
    members: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.envs": {},
        "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
        "vllm.config": {},
        "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": str},
        "vllm.logger": {"init_logger": lambda name: Nothing()},
        "vllm.platforms": {"CpuArchEnum": Nothing(), "current_platform": CpuPlatform()},
        "vllm.platforms.interface": {"DeviceCapability": object},
        "vllm.triton_utils": {"HAS_TRITON": False},
    }
    module = types.ModuleType("fairdraw_vllm_sampler")
    try:
        with stand_ins(members):
            exec(compile(source, f"{WHEEL}:{MODULE}", "exec"), module.__dict__)
    except Exception as error:
        raise Unavailable(f"{MODULE} of the wheel needs more of vllm: {error}") from error
    return module


def load() -> Any:
    """Returns vLLM's module topk_topp_sampler, from an installed vllm or from the wheel."""
    try:
        return importlib.import_module(MODULE)
    except Exception:  # a CUDA package may raise any exception
        return from_wheel()


def version() -> str:
    load()
    return version_with(MODULE, "torch")


def make(seed: int) -> Sampler:
    import torch

    module = load()
    generator = generator_of(seed)

    def race(probs: Any) -> Any:
        # Requests without a seed use torch's global generator, which gets the engine's state here.
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(generator.get_state())
            tokens = module.random_sample(probs, {})
            generator.set_state(torch.get_rng_state())
        return tokens

    def sample(batch: Batch) -> Any:
        greedy, largest, logits, top_k, top_p = before_top_k(batch)
        k = top_k if (top_k < batch.vocab).any() else None
        p = top_p if (top_p < 1).any() else None
        logits = module.apply_top_k_top_p(logits, k, p)
        return draw_or_largest(batch, greedy, largest, logits, race, refused_by_params(batch))

    return sample


ENGINE = Engine(
    name="vllm_package",
    semantics="vllm_torch",
    calls="vllm: apply_top_k_top_p (PyTorch path), random_sample",
    version=version,
    make=make,
    abilities=TENSOR_ABILITIES,
    standalone="vllm_package",
)
