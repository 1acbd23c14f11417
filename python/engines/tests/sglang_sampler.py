"""Loads the part of SGLang that calls a custom logit processor. The part comes from an installed
sglang, or from the wheel that FAIRDRAW_SGLANG_WHEEL names (as in vllm_sampler.py)."""

import contextlib
import os
import re
import zipfile

from wheel_modules import importing

from fairdraw_engines import Unavailable

WHEEL = "FAIRDRAW_SGLANG_WHEEL"
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
    wheel = os.environ.get(WHEEL)
    if not wheel:
        raise Unavailable(f"sglang is not installed, and {WHEEL} names no wheel of it")
    if not re.match(r"sglang-[^-]+-", os.path.basename(wheel)):
        raise Unavailable(f"{WHEEL} is {wheel}: not named as a wheel of sglang is")
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path_inside).decode()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{WHEEL}: {wheel}: {error}") from error


@contextlib.contextmanager
def modules():
    """Imports SGLang's module with CustomLogitProcessor, and the module with the code that applies
    the processor."""
    with importing("sglang", (PROCESSOR, SAMPLER), FACTS, source) as found:
        yield found
