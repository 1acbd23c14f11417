"""vLLM's own topk_topp_sampler.py: the PyTorch-native path of V1's sampler on the CPU.

Judged by profile `vllm_torch`. Called are apply_top_k_top_p and random_sample of the package's
module; temperature, min_p and greedy rows are those of `vllm_torch`. vLLM needs CUDA to install,
and this one file does not: with FAIRDRAW_VLLM_WHEEL naming a wheel (`pip download --no-deps vllm`)
the module is read out of it and run by itself, what it imports of vLLM replaced by the few facts
that it asks for (a CPU platform, no Triton). Nothing of it is kept.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import re
import sys
import types
import zipfile
from collections.abc import Iterator
from typing import Any

from .._core import Batch
from ._engine import TENSOR_ABILITIES, Engine, Sampler, Unavailable, version_of
from ._tensors import generator_of
from .vllm_torch import before_top_k, draw_or_largest, refused_by_params

MODULE = "vllm.v1.sample.ops.topk_topp_sampler"
WHEEL = "FAIRDRAW_VLLM_WHEEL"


def wheel_source(path_inside: str) -> tuple[str, str]:
    """(text of a file of the wheel that FAIRDRAW_VLLM_WHEEL names, version of the wheel)."""
    wheel = os.environ.get(WHEEL)
    if not wheel:
        raise Unavailable(f"vllm is not installed, and {WHEEL} names no wheel of it")
    named = re.match(r"vllm-([^-]+)-", os.path.basename(wheel))
    if not named:
        raise Unavailable(f"{WHEEL} is {wheel}: not named as a wheel of vllm is")
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path_inside).decode(), named[1]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{WHEEL}: {wheel}: {error}") from error


@contextlib.contextmanager
def stand_ins(modules: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Modules of these names and members in sys.modules, for as long as the body imports."""
    before = {name: sys.modules.get(name) for name in modules}
    for name, members in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        module.__path__ = []
        sys.modules[name] = module
    for name in modules:  # `from vllm import envs` looks for an attribute
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(sys.modules[parent], child, sys.modules[name])
    try:
        yield
    finally:
        for name, module_before in before.items():
            if module_before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module_before


class Nothing:
    """Whatever is asked of it, it is not there: loggers that are silent, platforms that are not."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class CpuPlatform(Nothing):
    def is_cpu(self) -> bool:
        return True


def from_wheel() -> Any:
    source, _ = wheel_source(MODULE.replace(".", "/") + ".py")
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
    """The module: of an installed vllm, or of the wheel."""
    try:
        return importlib.import_module(MODULE)
    except Exception:  # a package for CUDA may raise anything here
        return from_wheel()


def version() -> str:
    load()
    try:
        return version_of("vllm", "torch")
    except Unavailable:
        return f"vllm {wheel_source(MODULE.replace('.', '/') + '.py')[1]}, {version_of('torch')}"


def make(seed: int) -> Sampler:
    import torch

    module = load()
    generator = generator_of(seed)

    def race(probs: Any) -> Any:
        # Requests without a seed take torch's global generator: lend it the engine's.
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
)
