"""Loads the part of SGLang that calls a custom logit processor. The part comes from an installed
sglang, or from the wheel that FAIRDRAW_SGLANG_WHEEL names (as in vllm_sampler.py)."""

import contextlib

from fairdraw_engines._vllm_wheel import wheel_source
from fairdraw_engines._wheel_modules import importing

PROCESSOR = "sglang.srt.sampling.custom_logit_processor"
SAMPLER = "sglang.srt.layers.sampler"

#: Names that SGLang's two files need at import. No platform is available.
FACTS = {
    "sglang.srt.arg_groups.choices": {"BUILT_IN_SAMPLING_BACKENDS": frozenset()},
    "sglang.srt.utils.common": dict.fromkeys(
        [
            "get_bool_env_var", "is_cuda", "is_gfx1250_supported", "is_hip", "is_musa", "is_npu",
            "is_xpu",
        ],
        lambda *arguments: False,
    ),
}  # fmt: skip


def source(path_inside):
    return wheel_source(path_inside, "sglang")[0]


@contextlib.contextmanager
def modules():
    """Imports SGLang's module with CustomLogitProcessor, and the module with the code that applies
    the processor."""
    with importing("sglang", (PROCESSOR, SAMPLER), FACTS, source) as found:
        yield found
