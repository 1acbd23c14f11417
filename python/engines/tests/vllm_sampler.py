"""Loads vLLM's sampler, from an installed vllm or from the wheel that FAIRDRAW_VLLM_WHEEL names.

Importing vLLM needs CUDA, but vLLM's sampler does not. The texts of vllm/v1/sample,
vllm/v1/outputs.py, vllm/plugins and vllm/envs.py run unchanged from the wheel. Model runner V2 also
needs vllm/v1/worker/gpu/sample, whose Triton kernels are not called here.
"""

import contextlib
import importlib
import types

import torch

from fairdraw_engines._vllm_wheel import Nothing, NoTriton, wheel_source
from fairdraw_engines._wheel_modules import importing

SAMPLER = "vllm.v1.sample.sampler"
SAMPLER_V2 = "vllm.v1.worker.gpu.sample.sampler"

#: Modules that are loaded from their text in the wheel.
REAL = (
    "vllm.v1.sample",
    "vllm.v1.outputs",
    "vllm.plugins",
    "vllm.envs",
    "vllm.v1.worker.gpu.sample",
)


class Platform(Nothing):
    """A platform without CUDA and without vLLM's CPU extension, on which vLLM's sampler takes its
    PyTorch path."""

    simple_compile_backend = "eager"


class SharedArray:
    """A stand-in for vLLM's UvaBackedTensor if the CPU takes the GPU's place: one memory, which is
    written as an array.
    """

    def __init__(self, size, dtype, max_concurrency=None):
        self.cpu = self.gpu = torch.zeros(size, dtype=dtype)
        self.np = self.cpu.numpy()

    def copy_to_uva(self):
        return self.gpu


class NoProcessing:
    """A step of model runner V2's logits processing that no request uses."""

    def __init__(self, *_):
        pass

    def add_request(self, index, params):
        return False

    def apply_staged_writes(self):
        pass

    def apply(self, logits, context):
        return logits


def divide_by_temperature(logits, slots, temperature):
    """Does in torch the work of V2's Triton kernel of this name."""
    chosen = temperature[slots]
    logits.div_(torch.where(chosen == 0, 1, chosen)[:, None])


def runner_v2_sampler(module, logprobs_mode="raw_logprobs", return_sampling_mask=False):
    """Makes V2's Sampler with its own __init__, for 8 requests of 50 ids. The sampler's processing
    and temperature do not call kernels."""
    for name in ("PenaltiesState", "LogitBiasState", "BadWordsState", "ThinkingBudgetState"):
        setattr(module, name, NoProcessing)
    module.LogprobTokenIdsState = NoProcessing
    module.LogitsProcRequestState = type(
        "LogitsProcRequestState", (), {"from_request_state": staticmethod(lambda states: states)}
    )
    states = importlib.import_module("vllm.v1.worker.gpu.sample.states")
    states.UvaBackedTensor = SharedArray
    states.apply_temperature = divide_by_temperature
    return module.Sampler(
        types.SimpleNamespace(reasoning_config=None),
        8,
        50,
        torch.device("cpu"),
        None,
        logprobs_mode,
        return_sampling_mask=return_sampling_mask,
    )


FACTS = {
    "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
    "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": ("processed_logits", "processed_logprobs")},
    "vllm.logger": {"init_logger": lambda name: Nothing()},
    "vllm.platforms": {"current_platform": Platform()},
    "vllm.triton_utils": {"HAS_TRITON": False, "triton": NoTriton, "tl": Nothing()},
    "vllm.utils.gpu_sync_debug": {
        "gpu_sync_allowed": lambda first_only=False: contextlib.nullcontext()
    },
    "vllm.utils.torch_utils": {"PIN_MEMORY": False},
}


def source(path_inside):
    return wheel_source(path_inside)[0]


def modules(*names):
    """Returns a context that imports the named modules of vLLM and yields them."""
    return importing("vllm", names, FACTS, source, REAL)


def load():
    """Returns the modules with vLLM's Sampler and with SamplingMetadata. Raises Unavailable, with
    the reason, if the modules cannot be loaded."""
    names = (SAMPLER, "vllm.v1.sample.metadata", "vllm.v1.sample.logits_processor.state")
    with modules(*names) as found:
        return tuple(found)
