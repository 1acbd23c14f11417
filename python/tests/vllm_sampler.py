"""vLLM's sampler to call: of an installed vllm, or out of the wheel that FAIRDRAW_VLLM_WHEEL names.

vLLM needs CUDA to be imported, and its sampler does not. What runs is the text of the wheel's
vllm/v1/sample and vllm/v1/outputs.py, as it is; whatever else of vllm these files import is replaced
by classes without members, except for the few facts that they ask for at import (FACTS).
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys

from fairdraw.engines import Unavailable
from fairdraw.engines.vllm_package import Nothing, wheel_source

SAMPLER = "vllm.v1.sample.sampler"

#: Modules whose text is the wheel's.
REAL = ("vllm.v1.sample", "vllm.v1.outputs")


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


def member_of_a_stand_in(name):
    """A class: good for annotations and `isinstance`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


class FromWheel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of vllm."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "vllm":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module):
        name = module.__name__
        if not name.startswith(REAL):
            module.__dict__.update(FACTS.get(name, {}))
            module.__getattr__ = member_of_a_stand_in
            return
        path = name.replace(".", "/")
        try:
            source, _ = wheel_source(f"{path}.py")
        except Unavailable:
            source, _ = wheel_source(f"{path}/__init__.py")
        exec(compile(source, f"vllm wheel: {path}", "exec"), module.__dict__)


def load():
    """The module with vLLM's Sampler, and that with SamplingMetadata. Unavailable says why not."""
    names = (SAMPLER, "vllm.v1.sample.metadata", "vllm.v1.sample.logits_processor.state")
    try:
        return tuple(importlib.import_module(name) for name in names)
    except Exception:  # a package for CUDA may raise anything here
        forget()
    wheel_source("vllm/v1/sample/sampler.py")  # says what is missing
    finder = FromWheel()
    sys.meta_path.insert(0, finder)
    try:
        return tuple(importlib.import_module(name) for name in names)
    finally:
        sys.meta_path.remove(finder)
        forget()


def forget():
    """No module of vllm stays behind for other packages to find."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]
