"""vLLM's sampler to call: of an installed vllm, or out of the wheel that FAIRDRAW_VLLM_WHEEL names.

vLLM needs CUDA to be imported, and its sampler does not. What runs is the text of the wheel's
vllm/v1/sample and vllm/v1/outputs.py, and of vllm/plugins and vllm/envs.py, as it is.
"""

import contextlib

from wheel_modules import importing

from fairdraw.engines.vllm_package import Nothing, wheel_source

SAMPLER = "vllm.v1.sample.sampler"

#: Modules whose text is the wheel's.
REAL = ("vllm.v1.sample", "vllm.v1.outputs", "vllm.plugins", "vllm.envs")


class Platform(Nothing):
    """Neither CUDA nor the CPU with vLLM's extension: its sampler takes its PyTorch path."""

    simple_compile_backend = "eager"


FACTS = {
    "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
    "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": ("processed_logits", "processed_logprobs")},
    "vllm.logger": {"init_logger": lambda name: Nothing()},
    "vllm.platforms": {"current_platform": Platform()},
    "vllm.triton_utils": {"HAS_TRITON": False},
    "vllm.utils.gpu_sync_debug": {
        "gpu_sync_allowed": lambda first_only=False: contextlib.nullcontext()
    },
    "vllm.utils.torch_utils": {"PIN_MEMORY": False},
}


def source(path_inside):
    return wheel_source(path_inside)[0]


def modules(*names):
    """A context in which these modules of vLLM can be imported, and are given."""
    return importing("vllm", names, FACTS, source, REAL)


def load():
    """The module with vLLM's Sampler, and that with SamplingMetadata. Unavailable says why not."""
    names = (SAMPLER, "vllm.v1.sample.metadata", "vllm.v1.sample.logits_processor.state")
    with modules(*names) as found:
        return tuple(found)
